"""Protection: what stands under `channels.<name>` in seedbed.yaml, as gates and the terms of its error budget.

```yaml
channels:
  production:
    require:
      - schema
      - better
      - not_worse: {metrics: [safety, cost_usd], margin: 0.01}
      - held_out
      - rules_kept
      - max_change: {number: 0.1, text: 400, since_last_review: 0.3}
      - cooldown: 7 days
      - redundant
      - content
      - risk: {impact: 0.5}
      - error_budget
      - review: {when: always, roles: [safety], expires: 30 days}
    reviewers: {ann: [safety], ben: [product]}
    error_budget: {rate: 0.05, control: lord}
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

from seedbed.documents import A_TIME, duration
from seedbed.errors import Problem, SettingsError, shown
from seedbed.experiments.error_budget import CONTROLS, BudgetTerms
from seedbed.release.gates.content import Content
from seedbed.release.gates.custom import custom, names
from seedbed.release.gates.form import redundant, schema
from seedbed.release.gates.gate import Better, Gate, RulesKept, held_out, rules_kept
from seedbed.release.gates.guardrails import NotWorse
from seedbed.release.gates.hazards import HAZARDS as WORDINGS
from seedbed.release.gates.limits import Cooldown, MaxChange
from seedbed.release.gates.review import Occasion, Review
from seedbed.release.gates.risk import HAZARDS, Risk
from seedbed.release.gates.trust import ReplayFidelity, error_budget
from seedbed.release.review.panel import Panel

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
    jury, wrong = _panel(place, protection.get("reviewers", {}), listed)
    problems += wrong
    gates: list[Gate] = []
    for index, item in enumerate(listed):
        found = _gate(f"{place}.require[{index}]", item, jury)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            gates.append(found)
    if any(isinstance(gate, Better) and gate.replays for gate in gates) and not any(
        isinstance(gate, ReplayFidelity) for gate in gates
    ):
        expected = "replay_fidelity beside it"
        problems.append(
            Problem(f"{place}.require", "better: {replays: true}", expected, "Say how far they must agree.")
        )
    if problems:
        raise SettingsError(problems)
    return gates


def panel(channel: str, protection: Mapping[str, Any]) -> Panel:
    """Who reviews for a channel, as its gates are read. Raises SettingsError."""
    found = [gate.panel for gate in required(channel, protection) if isinstance(gate, Review)]
    if found:
        return found[0]
    return _panel(f"channels.{channel}", protection.get("reviewers", {}), [])[0]


def budget_terms(channel: str, protection: Mapping[str, Any]) -> BudgetTerms:
    """What the error budget of a channel promises, and what keeps it. Raises SettingsError as `required` does."""
    place, given = f"channels.{channel}", _budget(protection)
    if problems := [*_unknown(place, protection), *_problems_with_budget(place, given)]:
        raise SettingsError(problems)
    return BudgetTerms(**given)


def _unknown(place: str, protection: Mapping[str, Any]) -> list[Problem]:
    """Keys that nobody reads: who wrote them expects something."""
    known = ("require", "error_budget", "canary", "reviewers")
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


# Gates


PLAIN: Mapping[str, Callable[[Panel], Gate]] = {
    "schema": lambda _: schema,
    "better": lambda _: Better(),
    "held_out": lambda _: held_out,
    "rules_kept": lambda _: rules_kept,
    "redundant": lambda _: redundant,
    "content": lambda _: Content(),
    "risk": lambda jury: Risk(panel=jury),
    "replay_fidelity": lambda _: ReplayFidelity(),
    "error_budget": lambda _: error_budget,
    "review": lambda jury: Review(panel=jury),
}


def _gate(place: str, item: object, jury: Panel) -> Gate | Problem:
    if isinstance(item, str) and item in PLAIN:
        return PLAIN[item](jury)
    name, given = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else (item, None)
    if isinstance(item, dict) and isinstance(name, str) and name in _SET:
        expected, read = _SET[name]
        return read(given, jury) or Problem(f"{place}.{name}", shown(given), expected)
    if isinstance(name, str) and (found := custom(place, name, given)):
        return found
    known = ", ".join([*PLAIN, *names()])
    return Problem(place, shown(item), f"one of: {known}; or with a value: {', '.join(_SET)}; or module:name")


def _better(given: object, _: Panel) -> Gate | None:
    if not isinstance(given, dict) or not given or given.keys() - {"error", "agreement", "replays"}:
        return None
    highest = {"error": 0.5, "agreement": 1.0}
    numbers = {name: value for name, value in given.items() if name in highest}
    known = all(_is_share(value, below=highest[name]) for name, value in numbers.items())
    return Better(**given) if known and isinstance(given.get("replays", False), bool) else None


def _not_worse(given: object, _: Panel) -> Gate | None:
    """`metrics` with one `margin` for all, or a mapping with one for each."""
    if not isinstance(given, dict) or given.keys() - {"metrics", "margin", "error"} or not given.get("metrics"):
        return None
    metrics, margin, error = given["metrics"], given.get("margin"), given.get("error", 0.05)
    margins: dict[Any, Any]
    if isinstance(metrics, list) and margin is not None:
        margins = dict.fromkeys(metrics, margin) if all(isinstance(each, str) for each in metrics) else {}
    elif isinstance(metrics, dict) and margin is None:
        margins = metrics
    else:
        return None
    fits = all(isinstance(name, str) and _is_limit(limit) for name, limit in margins.items())
    return NotWorse(margins, error) if margins and fits and _is_share(error, below=0.5) else None


def _rules_kept(given: object, jury: Panel) -> Gate | None:
    return RulesKept(jury) if given == {"unless": "reviewed"} else None


def _max_change(given: object, jury: Panel) -> Gate | None:
    if not isinstance(given, dict) or not given or given.keys() - {"number", "text", "since_last_review"}:
        return None
    return MaxChange(**given, panel=jury) if all(map(_is_limit, given.values())) else None


def _content(given: object, _: Panel) -> Gate | None:
    if not isinstance(given, dict) or not given or given.keys() - {"constant", "offence", "allow"}:
        return None
    allow = given.get("allow", [])
    shares = {name: value for name, value in given.items() if name != "allow"}
    if not isinstance(allow, list) or any(each not in WORDINGS for each in allow):
        return None
    return (
        Content(**shares, allow=tuple(allow)) if all(_is_share(each, below=1.0) for each in shares.values()) else None
    )


def _risk(given: object, jury: Panel) -> Gate | None:
    if not isinstance(given, dict) or not given or given.keys() - {"impact", "allow"}:
        return None
    allow, most = given.get("allow", []), given.get("impact", 1.0)
    if not isinstance(allow, list) or any(each not in HAZARDS for each in allow) or not _is_limit(most):
        return None
    return Risk(float(most), tuple(allow), jury)


def _replay_fidelity(given: object, _: Panel) -> Gate | None:
    return ReplayFidelity(given) if isinstance(given, float) and _is_share(given, below=1.0) else None


def _is_limit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_share(value: object, *, below: float) -> bool:
    return isinstance(value, float) and 0 < value < below


def _cooldown(given: object, _: Panel) -> Gate | None:
    wait = duration(given)
    return None if wait is None else Cooldown(wait)


def _review(given: object, jury: Panel) -> Gate | None:
    """Who may answer, and for how long, was read before: other gates ask the same people."""
    if not isinstance(given, dict) or given.keys() - _REVIEW or given.get("when", "always") not in get_args(Occasion):
        return None
    return Review(given.get("when", "always"), jury)


_SET: Mapping[str, tuple[str, Callable[[object, Panel], Gate | None]]] = {
    "better": (
        "{error: RATE, agreement: KAPPA, replays: true}, some of it, above 0 and below 0.5 and 1",
        _better,
    ),
    "not_worse": ("{metrics: [METRIC, …], margin: SIZE}, or {metrics: {METRIC: SIZE}}, not below 0", _not_worse),
    "rules_kept": ("{unless: reviewed}", _rules_kept),
    "max_change": (
        "{number: SHARE, text: CHARACTERS, since_last_review: SHARE}, some of it, not below 0",
        _max_change,
    ),
    "cooldown": (A_TIME, _cooldown),
    "content": (
        f"{{constant: SHARE, offence: SHARE, allow: [KIND, …]}}, some of it, with kinds of: {', '.join(WORDINGS)}",
        _content,
    ),
    "risk": (f"{{impact: SHARE, allow: [KIND, …]}}, either or both, with kinds of: {', '.join(HAZARDS)}", _risk),
    "replay_fidelity": ("a share above 0 and below 1, such as 0.9", _replay_fidelity),
    "review": (
        f"{{when: WHEN, roles: [ROLE, …], expires: TIME}}, with a WHEN of: {', '.join(get_args(Occasion))}",
        _review,
    ),
}


# People


_REVIEW = frozenset({"when", "roles", "expires"})


def _panel(place: str, reviewers: object, listed: Sequence[object]) -> tuple[Panel, list[Problem]]:
    """Who reviews: the people of the channel, the roles that its review asks for, and how long a yes holds."""
    problems = []
    if not isinstance(reviewers, Mapping) or not all(_are_roles(roles) for roles in reviewers.values()):
        problems.append(Problem(f"{place}.reviewers", shown(reviewers), "people and their roles: {ann: [safety]}"))
        reviewers = {}
    people = {str(name): tuple(roles) for name, roles in reviewers.items()}
    asked = [
        (number, each["review"]) for number, each in enumerate(listed) if isinstance(each, dict) and "review" in each
    ]
    roles: tuple[str, ...] = ()
    expires: timedelta | None = None
    for number, given in asked[:1]:
        if not isinstance(given, dict):
            continue  # which its gate tells
        where = f"{place}.require[{number}].review"
        wanted = given.get("roles", [])
        if not _are_roles(wanted):
            problems.append(Problem(f"{where}.roles", shown(wanted), "a list of roles, such as [safety]"))
            continue
        roles = tuple(wanted)
        for role in roles:
            if not any(role in held for held in people.values()):
                remedy = f"Write who has it: reviewers: {{NAME: [{role}]}}"
                problems.append(
                    Problem(f"{where}.roles", f"{shown(role)}, which nobody has", "a role of a reviewer", remedy)
                )
        expires = duration(given.get("expires"))
        if "expires" in given and expires is None:
            problems.append(Problem(f"{where}.expires", shown(given["expires"]), A_TIME))
    return Panel(people, roles, expires), problems


def _are_roles(given: object) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(each, str) and each for each in given)
