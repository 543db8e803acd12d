"""Ramp: in which steps a candidate reaches everybody. It stands under `channels.<name>.canary` in seedbed.yaml.

```yaml
canary: {shares: [5%, 25%, 100%], hold: 500 runs, approval: true}
```

What is watched meanwhile stands there too: see `guards`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.release.states import percent

_WATCHED = ("roll_back_if", "hold_if", "error", "no_traffic", "deadline", "keep_back", "keep_back_for")
A_SHARE = "a share above 0 % and up to 100 %, such as 5% or 0.05"


@dataclass(frozen=True, slots=True)
class Ramp:
    """The shares to go through, how many of the canary's runs each takes, and whether another person ends it.

    Without shares a release reaches everybody at once, unless it asks for less.
    """

    shares: tuple[float, ...] = ()
    hold: int = 0
    approval: bool = False

    def first(self, asked: float | None) -> float | Problem:
        """The share that a release begins with, or why not with the one asked for."""
        return self._at_most(self.shares[0] if self.shares else 1.0, asked, "its first step")

    def after(self, now: float, asked: float | None) -> float | Problem:
        """The share that follows, or why not the one asked for."""
        return self._at_most(next((share for share in self.shares if share > now), 1.0), asked, "its next step")

    def _at_most(self, step: float, asked: float | None, which: str) -> float | Problem:
        if asked is None:
            return step
        if asked > step:
            return Problem("share", percent(asked), f"at most {percent(step)}, {which}", "Go there step by step.")
        return asked


def ramp(channel: str, protection: Mapping[str, Any]) -> Ramp:
    """The ramp of a channel. Raises SettingsError with everything that is wrong with it."""
    place, given = f"channels.{channel}.canary", protection.get("canary", {})
    if not isinstance(given, Mapping):
        raise SettingsError([Problem(place, shown(given), "a mapping such as {shares: [5%, 25%, 100%]}")])
    known = ("shares", "hold", "approval", *_WATCHED)
    problems = [
        Problem(f"{place}.{key}", "an unknown key", f"one of: {', '.join(known)}") for key in given if key not in known
    ]
    shares, hold, approval = given.get("shares", []), _runs(given.get("hold", "0 runs")), given.get("approval", False)
    steps = [step for each in shares if (step := share(each))] if isinstance(shares, list) else []
    if not isinstance(shares, list) or len(steps) < len(shares) or steps != sorted(set(steps)):
        expected = "a list of shares, each larger than the one before, such as [5%, 25%, 100%]"
        problems.append(Problem(f"{place}.shares", shown(shares), expected))
    if hold is None:
        problems.append(Problem(f"{place}.hold", shown(given["hold"]), "a number of runs, such as 500 runs"))
    if not isinstance(approval, bool):
        problems.append(Problem(f"{place}.approval", shown(approval), "true or false"))
    if problems:
        raise SettingsError(problems)
    return Ramp(tuple(steps), hold or 0, approval)


def share(written: object) -> float | None:
    """A share as people write it: 5% or 0.05. None if it is none."""
    if isinstance(written, str) and (match := re.fullmatch(r"(\d+(?:\.\d+)?) ?(%?)", written.strip())):
        value = float(match[1]) / (100 if match[2] else 1)
    elif isinstance(written, int | float) and not isinstance(written, bool):
        value = float(written)
    else:
        return None
    return value if math.isfinite(value) and 0 < value <= 1 else None


def _runs(written: object) -> int | None:
    match = re.fullmatch(r"(\d[\d_]*) runs?", written) if isinstance(written, str) else None
    return int(match[1]) if match else None
