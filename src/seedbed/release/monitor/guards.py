"""Guards: how much worse a new playbook may be than the one before, and what happens if it is.

```yaml
canary:
  shares: [5%, 25%, 100%]
  roll_back_if: {rating: -0.05, error_rate: +0.02, latency_seconds: {by: +1, most: 20}}
  hold_if: {cost_usd: {by: +0.001, most: 0.05}}
  error: 0.05
  no_traffic: 2 hours
  deadline: 14 days
  keep_back: 2%
  keep_back_for: 7 days
```

A guard below 0 is for what should be high, such as a rating; one above 0 for what should be low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from seedbed.release.states import KeepBack
from seedbed.settings.channels import ChannelSettings

Action: TypeAlias = Literal["roll back", "hold"]


@dataclass(frozen=True, slots=True)
class Guard:
    """The largest change for the worse that is allowed. A value above `most` counts as the most."""

    metric: str
    by: float
    action: Action = "roll back"
    most: float = 1.0

    @property
    def margin(self) -> float:
        return abs(self.by) / self.most

    def goodness(self, value: float) -> float:
        """How good a value is, from 0 to 1."""
        level = min(max(value, 0.0), self.most) / self.most
        return level if self.by < 0 else 1 - level

    def value(self, goodness: float) -> float:
        """The value with that goodness."""
        return self.most * (goodness if self.by < 0 else 1 - goodness)

    def change(self, difference: float) -> float:
        """A difference of goodness in the unit of the metric."""
        return round(math.copysign(self.most, -self.by) * difference, 12) + 0.0  # which is never -0


@dataclass(frozen=True, slots=True)
class Watch:
    """What the monitor watches while a new playbook is served, and how many users are kept back for how long.

    The probability that any of the guards that roll back acts without cause is at most `error`; the same is true of
    the guards that hold.
    """

    guards: tuple[Guard, ...] = ()
    error: float = 0.05
    no_traffic: timedelta | None = None
    deadline: timedelta | None = None
    keep_back: float = 0.0
    keep_back_for: timedelta = timedelta(days=7)

    def keep_back_from(self, at: datetime) -> KeepBack | None:
        """The users to keep back when a playbook reaches everybody at this time."""
        return KeepBack(self.keep_back, at + self.keep_back_for) if self.keep_back else None


def build_watch(settings: ChannelSettings) -> Watch:
    """What the monitor of a channel looks at."""
    canary = settings.canary
    rolling = [Guard(metric, guard.by, "roll back", guard.most) for metric, guard in canary.roll_back_if.items()]
    holding = [Guard(metric, guard.by, "hold", guard.most) for metric, guard in canary.hold_if.items()]
    return Watch(
        (*rolling, *holding),
        canary.error,
        canary.no_traffic,
        canary.deadline,
        canary.keep_back or 0.0,
        canary.keep_back_for,
    )
