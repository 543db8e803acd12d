"""Three-way merge of playbooks, leaf by leaf.

A change of one side is taken. Where both sides changed a leaf differently there is a clash, which a resolver settles;
MergeClash lists the clashes that none settled. For rules, their threshold and locks the stricter side
wins, whatever a resolver says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from seedbed.errors import MergeClash, PlaybookError, Problem, shown
from seedbed.playbooks.genes import build, flatten, genes
from seedbed.playbooks.loading import leaves
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules import Rules, locks, stricter, unite
from seedbed.playbooks.values import is_number
from seedbed.storage.store import Json

GONE: Any = None
"""A leaf that does not exist; no leaf of a playbook is null."""


@dataclass(frozen=True, slots=True)
class Clash:
    """One leaf that both sides changed differently. None stands for removed."""

    path: str
    base: Any
    ours: Any
    theirs: Any
    whole: bool = False

    def problem(self) -> Problem:
        sides = f"ours {_shown(self.ours)}, theirs {_shown(self.theirs)}"
        remedy = "Choose ours, theirs, mean (numbers), or give the value."
        return Problem(self.path, sides, f"one value (it was {_shown(self.base)})", remedy)


def _shown(value: object) -> str:
    return "nothing" if value is GONE else shown(value)


class Unresolved(Exception):
    """Raised by a resolver that leaves a clash to the next one."""


Resolver = Callable[[Clash], Any]


def ours(clash: Clash) -> Any:
    return clash.ours


def theirs(clash: Clash) -> Any:
    return clash.theirs


def mean(clash: Clash) -> Any:
    """The middle of two numbers, which is within their bounds; other clashes are left to the next resolver."""
    if not (is_number(clash.ours) and is_number(clash.theirs)):
        raise Unresolved
    middle: float = (clash.ours + clash.theirs) / 2
    return round(middle) if clash.whole else middle


def manual(values: Mapping[str, Any]) -> Resolver:
    """Settle clashes by hand: path to value, None to remove."""

    def resolve(clash: Clash) -> Any:
        if clash.path not in values:
            raise Unresolved
        return values[clash.path]

    return resolve


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged playbook, and the clashes that were settled."""

    playbook: Playbook
    settled: tuple[Clash, ...]


def merge(base: Playbook, one: Playbook, other: Playbook, resolvers: Iterable[Resolver] = ()) -> Merge:
    """Merge `one` (ours) and `other` (theirs). The first resolver that can settles a clash.

    Raises MergeClash with every clash that none settles, or if the result would not be a valid playbook.
    """
    shared = _shared_threshold(one, other)
    sides = [{**_unprotected(side), **shared} for side in (base, one, other)]
    result, clashes = _three_way(*sides)
    whole = {path for path, gene in genes(one).items() if gene.kind == "integer"}
    clashes = [replace(clash, whole=clash.path in whole) for clash in clashes]
    if stricter(one.rules.confirm_below, other.rules.confirm_below) is None:
        was, mine, yours = (side.rules.confirm_below for side in (base, one, other))
        clashes.append(Clash("rules.confirm_below", was, mine, yours))
    settled, left = {}, []
    for clash in clashes:
        try:
            settled[clash.path] = _settle(clash, tuple(resolvers))
        except Unresolved:
            left.append(clash)
    if left:
        raise MergeClash([clash.problem() for clash in left])
    rules = one.rules.tighten(other.rules)
    if "rules.confirm_below" in settled:
        rules = rules.model_copy(update={"confirm_below": settled.pop("rules.confirm_below")})
    for path, value in settled.items():
        _put(result, path, value)
    return Merge(_assemble(result, rules, one, other), tuple(clashes))


def _shared_threshold(one: Playbook, other: Playbook) -> Json:
    """The stricter value of the parameter that both sides' rules name as their threshold, by path."""
    name = one.threshold_parameter or other.threshold_parameter
    if name is None or one.rules.confirm_below != other.rules.confirm_below:
        return {}
    values = [side.parameter(name) for side in (one, other) if name in side.parameters]
    return {f"parameters.{name}": max(values)} if len(values) == 2 and all(map(is_number, values)) else {}


def _unprotected(playbook: Playbook) -> Json:
    flat = flatten(playbook)
    return {path: value for path, value in flat.items() if path != "locked" and path.split(".")[0] != "rules"}


def _three_way(base: Json, one: Json, other: Json) -> tuple[Json, list[Clash]]:
    clashes = list(_entity_clashes(base, one, other))
    clashed = {clash.path for clash in clashes}
    if any(path.startswith("steps.") for path in clashed):
        # Which steps there are and what they say must be settled alike.
        clashes.append(Clash("steps", base.get("steps"), one.get("steps"), other.get("steps")))
        clashed.add("steps")
    result: Json = {}
    for path in sorted({**base, **one, **other}):
        if path in clashed or _entity(path) in clashed:
            continue
        was, mine, yours = base.get(path), one.get(path), other.get(path)
        if mine != yours and mine != was and yours != was:
            clashes.append(Clash(path, was, mine, yours))
        else:
            chosen = yours if mine == was else mine
            if chosen is not GONE:
                result[path] = chosen
    return result, clashes


def _entity(path: str) -> str:
    """The role, step or parameter a leaf belongs to."""
    head, *rest = path.split(".")
    return f"{head}.{rest[0]}" if rest and head in ("roles", "steps", "parameters") else path


def _entity_clashes(base: Json, one: Json, other: Json) -> Iterable[Clash]:
    """Roles, steps and parameters that one side removed while the other changed them."""
    for entity in sorted({_entity(path) for path in base}):
        was, mine, yours = (_inside(flat, entity) for flat in (base, one, other))
        if (not mine and yours and yours != was) or (not yours and mine and mine != was):
            yield Clash(entity, was, mine or GONE, yours or GONE)


def _inside(flat: Json, entity: str) -> Json:
    return {path: value for path, value in flat.items() if _entity(path) == entity}


def _settle(clash: Clash, resolvers: tuple[Resolver, ...]) -> Any:
    for resolver in resolvers:
        try:
            return resolver(clash)
        except Unresolved:
            continue
    raise Unresolved


def _put(flat: Json, path: str, value: Any) -> None:
    if value is GONE:
        flat.pop(path, None)
    elif isinstance(value, dict) and _entity(path) == path and path.count(".") == 1:
        flat.update(value)
    else:
        flat[path] = value


def _assemble(flat: Json, rules: Rules, one: Playbook, other: Playbook) -> Playbook:
    named = {name for item in flat.get("steps", ()) for name in (item if isinstance(item, list) else [item])}
    # Steps that a settled clash removed take their prompts and demos with them.
    remaining = {path: v for path, v in flat.items() if not path.startswith("steps.") or path.split(".")[1] in named}
    try:
        strict = rules.model_dump(mode="json", exclude_defaults=True)
        playbook = build({**remaining, **{f"rules.{name}": value for name, value in strict.items()}})
        return _protect(playbook, one, other)
    except PlaybookError as wrong:
        remedy = "Both sides are valid, their union is not: settle it by hand."
        raise MergeClash([Problem(p.path, p.found, p.expected, p.remedy or remedy) for p in wrong.problems]) from wrong


def _protect(playbook: Playbook, one: Playbook, other: Playbook) -> Playbook:
    """The playbook with the locks of both sides, and a threshold that is at least as high as each of theirs."""
    content = playbook.content()
    paths = [*(named for named, _, _ in leaves(content)), *genes(playbook)]
    locked = [lock for lock in unite(one.locked, other.locked) if any(locks(lock, path) for path in paths)]
    floor = max((side.threshold for side in (one, other) if side.rules.asks_for_confidence), default=0.0)
    if playbook.threshold < floor:
        # The two sides have it in different places, so there is no single parameter to raise.
        content["rules"] = {**content["rules"], "confirm_below": floor}
    elif not locked:
        return playbook
    return Playbook.from_document({**content, "locked": locked})
