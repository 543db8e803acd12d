"""Guards: by how much something new may do worse than what was there before, and what happens if it does.

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
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from seedbed.documents import A_TIME, duration
from seedbed.errors import Problem, SettingsError, shown
from seedbed.release.ramp import A_SHARE, share
from seedbed.release.states import KeepBack

Action: TypeAlias = Literal["roll back", "hold"]

OF_RUNS = ("error_rate", "violation_rate", "latency_seconds", "cost_usd")
"""What is known of every run that seedbed performs. Everything else is told by feedback of that name."""
_UNBOUNDED = ("latency_seconds", "cost_usd")
_A_GUARD = "a change such as -0.05 (for what should be high) or +0.02 (for what should be low)"
_BOUNDED = "{by: +1, most: 20}: more than the most counts as the most"


@dataclass(frozen=True, slots=True)
class Guard:
    """The largest change for the worse that is borne. What is above `most` counts as the most."""

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
        """The value that is so good."""
        return self.most * (goodness if self.by < 0 else 1 - goodness)

    def change(self, difference: float) -> float:
        """A difference of goodness, in what the metric counts."""
        return round(math.copysign(self.most, -self.by) * difference, 12) + 0.0  # which is never -0


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched while something new is served, and for how long some are kept back with what was there before.

    All guards that roll back together do so without cause with a chance of at most `error`; those that hold, too.
    """

    guards: tuple[Guard, ...] = ()
    error: float = 0.05
    no_traffic: timedelta | None = None
    deadline: timedelta | None = None
    keep_back: float = 0.0
    keep_back_for: timedelta = timedelta(days=7)

    def kept_back(self, at: datetime) -> KeepBack | None:
        """Who is to be kept back when something is for all from then on."""
        return KeepBack(self.keep_back, at + self.keep_back_for) if self.keep_back else None


def watch(channel: str, protection: Mapping[str, Any]) -> Watch:
    """What is watched on a channel. Raises SettingsError with everything that is wrong with it."""
    place, given = f"channels.{channel}.canary", protection.get("canary", {})
    if not isinstance(given, Mapping):
        raise SettingsError([Problem(place, shown(given), "a mapping such as {shares: [5%, 25%, 100%]}")])
    problems: list[Problem] = []
    guards: list[Guard] = []
    actions: dict[str, Action] = {"roll_back_if": "roll back", "hold_if": "hold"}
    for key, action in actions.items():
        found, wrong = _guards(f"{place}.{key}", given.get(key, {}), action)
        guards += found
        problems += wrong
    rolling = [guard.metric for guard in guards if guard.action == "roll back"]
    problems += [
        Problem(f"{place}.hold_if.{guard.metric}", "a guard that rolls back too", "one of the two")
        for guard in guards
        if guard.action == "hold" and guard.metric in rolling
    ]
    error = given.get("error", 0.05)
    if not isinstance(error, float) or not 0 < error < 0.5:
        problems.append(Problem(f"{place}.error", shown(error), "a chance above 0 and below 0.5, such as 0.05"))
    times = {key: duration(given[key]) for key in ("no_traffic", "deadline", "keep_back_for") if key in given}
    problems += [Problem(f"{place}.{key}", shown(given[key]), A_TIME) for key, time in times.items() if not time]
    kept = share(given["keep_back"]) if "keep_back" in given else 0.0
    if kept is None or kept > 0.5:
        problems.append(Problem(f"{place}.keep_back", shown(given["keep_back"]), f"{A_SHARE}, and at most a half"))
    if problems:
        raise SettingsError(problems)
    known = {key: time for key, time in times.items() if time}
    return Watch(tuple(guards), error, keep_back=kept or 0.0, **known)


def _guards(place: str, given: object, action: Action) -> tuple[list[Guard], list[Problem]]:
    if not isinstance(given, Mapping):
        return [], [Problem(place, shown(given), "a mapping of metrics such as {rating: -0.05, error_rate: +0.02}")]
    read = [(f"{place}.{metric}", _guard(f"{place}.{metric}", metric, each, action)) for metric, each in given.items()]
    problems = [found for _, found in read if isinstance(found, Problem)]
    return [found for _, found in read if isinstance(found, Guard)], problems


def _guard(place: str, metric: str, given: Any, action: Action) -> Guard | Problem:
    by, most = given, 1.0
    if isinstance(given, Mapping):
        if not {"by"} <= given.keys() <= {"by", "most"}:
            return Problem(place, shown(given), _BOUNDED)
        by, most = given["by"], given.get("most", 1.0)
    if metric in _UNBOUNDED and not (isinstance(given, Mapping) and "most" in given):
        return Problem(place, shown(given), _BOUNDED)
    if not _is_number(most) or not most > 0:
        return Problem(f"{place}.most", shown(most), "a number above 0")
    if not _is_number(by) or not 0 < abs(by) < most:
        return Problem(place, shown(by), _A_GUARD if most == 1 else f"a change smaller than {most:g}, and not 0")
    if metric in OF_RUNS and by < 0:
        return Problem(place, shown(by), f"a change above 0, since {metric} should be low")
    return Guard(metric, float(by), action, float(most))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
