"""Ramp: in which steps a candidate reaches everybody. It stands under `channels.<name>.canary` in seedbed.yaml.

```yaml
canary: {shares: [5%, 25%, 100%], hold: 500 runs, approval: true}
```

What is watched meanwhile stands there too: see `guards`.
"""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import Problem
from seedbed.release.states import percent
from seedbed.settings.channels import ChannelSettings


@dataclass(frozen=True, slots=True)
class Ramp:
    """The shares to go through, how many of the canary's runs each takes, and whether another person ends it.

    Without shares a release reaches everybody at once, unless it asks for less.
    """

    shares: tuple[float, ...] = ()
    hold: int = 0
    approval: bool = False

    def first(self, wanted: float | None) -> float | Problem:
        """The share that a release begins with, or why not with the one asked for."""
        return self._at_most(self.shares[0] if self.shares else 1.0, wanted, "its first step")

    def after(self, now: float, wanted: float | None) -> float | Problem:
        """The share that follows, or why not the one asked for."""
        return self._at_most(next((share for share in self.shares if share > now), 1.0), wanted, "its next step")

    def _at_most(self, step: float, wanted: float | None, which: str) -> float | Problem:
        if wanted is None:
            return step
        if wanted > step:
            return Problem("share", percent(wanted), f"at most {percent(step)}, {which}", "Go there step by step.")
        return wanted


def build_ramp(settings: ChannelSettings) -> Ramp:
    """The ramp of a channel."""
    canary = settings.canary
    return Ramp(canary.shares, canary.hold, canary.approval)
