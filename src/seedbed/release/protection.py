"""Protection: what stands under `channels.<name>` in seedbed.yaml, as gates.

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
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, get_args

from seedbed.errors import Problem, SettingsError, shown
from seedbed.release.gates import Better, Gate, held_out, rules_kept
from seedbed.release.limits import Cooldown, MaxChange
from seedbed.release.review import Occasion, Review

PLAIN: Mapping[str, Gate] = {"better": Better(), "held_out": held_out, "rules_kept": rules_kept}
DEFAULT = ("better", "held_out", "rules_kept")
"""What a channel requires that says nothing."""


def required(channel: str, protection: Mapping[str, Any]) -> list[Gate]:
    """The gates of a channel, in order. Raises SettingsError with everything that is wrong with them."""
    place = f"channels.{channel}"
    problems = [
        Problem(f"{place}.{key}", "an unknown key", "require") for key in sorted(protection.keys() - {"require"})
    ]
    listed = protection.get("require", list(DEFAULT))
    if not isinstance(listed, list):
        raise SettingsError([*problems, Problem(f"{place}.require", shown(listed), "a list of gates")])
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
