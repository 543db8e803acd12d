"""Protection: what stands under `channels.<name>` in seedbed.yaml, as gates and the terms of its error budget.

```yaml
channels:
  production:
    require:
      - better
      - held_out
      - rules_kept
      - max_change: {number: 0.1, text: 400}
      - cooldown: 7 days
      - review: {when: always}
    error_budget: {rate: 0.05, control: lord}
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, get_args

from seedbed.errors import Problem, SettingsError, shown
from seedbed.experiments.budget import CONTROLS, Terms
from seedbed.release.gates import Better, Gate, held_out, rules_kept
from seedbed.release.limits import Cooldown, MaxChange
from seedbed.release.review import Occasion, Review

PLAIN: Mapping[str, Gate] = {"better": Better(), "held_out": held_out, "rules_kept": rules_kept}
DEFAULT = ("better", "held_out", "rules_kept")
"""What a channel requires that says nothing."""


def required(channel: str, protection: Mapping[str, Any]) -> list[Gate]:
    """The gates of a channel, in order. Raises SettingsError with everything that is wrong with them."""
    place = f"channels.{channel}"
    problems = _unknown(place, protection)
    listed = protection.get("require", list(DEFAULT))
    if not isinstance(listed, list):
        raise SettingsError([*problems, Problem(f"{place}.require", shown(listed), "a list of gates")])
    problems += _problems_with_budget(place, _budget(protection))
    gates = []
    for index, item in enumerate(listed):
        found = _gate(f"{place}.require[{index}]", item)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            gates.append(found)
    if problems:
        raise SettingsError(problems)
    return gates


def budget_terms(channel: str, protection: Mapping[str, Any]) -> Terms:
    """What the error budget of a channel promises, and what keeps it. Raises SettingsError as `required` does."""
    place, given = f"channels.{channel}", _budget(protection)
    if problems := [*_unknown(place, protection), *_problems_with_budget(place, given)]:
        raise SettingsError(problems)
    return Terms(**given)


def _unknown(place: str, protection: Mapping[str, Any]) -> list[Problem]:
    """Keys that nobody reads: who wrote them expects something."""
    known = ("require", "error_budget")
    return [
        Problem(f"{place}.{key}", "an unknown key", f"one of: {', '.join(known)}")
        for key in sorted(protection.keys() - set(known))
    ]


def _budget(protection: Mapping[str, Any]) -> Any:
    """What is said of the error budget; a number is its rate."""
    given = protection.get("error_budget", {})
    return {"rate": given} if isinstance(given, int | float) else given


def _problems_with_budget(place: str, given: object) -> list[Problem]:
    place = f"{place}.error_budget"
    if not isinstance(given, Mapping):
        return [Problem(place, shown(given), "a rate such as 0.05, or {rate: RATE, control: CONTROL}")]
    wrong = [Problem(f"{place}.{key}", "an unknown key", "rate or control") for key in given if key not in _TERMS]
    for key, (expected, fits) in _TERMS.items():
        if key in given and not fits(given[key]):
            wrong.append(Problem(f"{place}.{key}", shown(given[key]), expected))
    return wrong


_TERMS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "rate": ("a share above 0 and below 0.5, such as 0.05", lambda rate: isinstance(rate, float) and 0 < rate < 0.5),
    "control": (f"one of: {', '.join(CONTROLS)}", lambda name: isinstance(name, str) and name in CONTROLS),
}


def _gate(place: str, item: object) -> Gate | Problem:
    if isinstance(item, str) and item in PLAIN:
        return PLAIN[item]
    if isinstance(item, dict) and len(item) == 1:
        name, given = next(iter(item.items()))
        if name in _SET:
            expected, read = _SET[name]
            return read(given) or Problem(f"{place}.{name}", shown(given), expected)
    expected = f"one of: {', '.join(PLAIN)}; or with a value: {', '.join(_SET)}"
    return Problem(place, shown(item), expected)


def _better(given: object) -> Gate | None:
    if not isinstance(given, dict) or not given or given.keys() - {"error", "agreement"}:
        return None
    highest = {"error": 0.5, "agreement": 1.0}
    known = all(isinstance(value, float) and 0 < value < highest[name] for name, value in given.items())
    return Better(**given) if known else None


def _max_change(given: object) -> Gate | None:
    if not isinstance(given, dict) or not given or given.keys() - {"number", "text"}:
        return None
    return MaxChange(**given) if all(map(_is_limit, given.values())) else None


def _is_limit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


_TIMES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}


def _cooldown(given: object) -> Gate | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) (hour|day|week)s?", given) if isinstance(given, str) else None
    return Cooldown(float(match[1]) * _TIMES[match[2]]) if match else None


def _review(given: object) -> Gate | None:
    if not isinstance(given, dict) or given.keys() != {"when"} or given["when"] not in get_args(Occasion):
        return None
    return Review(given["when"])


_SET: Mapping[str, tuple[str, Callable[[object], Gate | None]]] = {
    "better": ("{error: RATE, agreement: KAPPA}, either or both, above 0 and below 0.5 and 1", _better),
    "max_change": ("{number: SHARE, text: CHARACTERS}, either or both, not below 0", _max_change),
    "cooldown": ("a time such as 12 hours, 7 days or 1 week", _cooldown),
    "review": (f"{{when: WHEN}}, with one of: {', '.join(get_args(Occasion))}", _review),
}
