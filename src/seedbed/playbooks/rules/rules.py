"""Rules: what an agent may do, what it must never do, and what needs confirmation. Enforced at run time; only a person
loosens them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from operator import ge
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from seedbed.errors import Problem
from seedbed.playbooks.rules.patterns import disguise
from seedbed.playbooks.rules.rule import ActionRule, ConditionalRule, Taken, applies, covers, names, rule_text
from seedbed.playbooks.values import is_number

PermissionAnswer = Literal["allowed", "confirm", "forbidden"]
"""From the loosest to the strictest."""
Otherwise: TypeAlias = Literal["allow", "prefer_confirm", "confirm", "never"]
DEFAULT_CONFIRM_BELOW = 0.8
LISTS = ("never", "confirm", "prefer_confirm", "allow")
"""The lists of rules, from the strictest to the loosest."""
STRICTNESS: dict[Otherwise | None, tuple[int, int]] = {
    "allow": (0, 0),
    "prefer_confirm": (1, 1),
    None: (2, 0),
    "confirm": (2, 2),
    "never": (3, 3),
}
"""How strict `otherwise` is with tools that change the world, and with others."""
ONLY_A_PERSON = "Rules may only be tightened; only a person may loosen one."

Item = TypeVar("Item", bound=str | ConditionalRule)


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer to "may I?". True only if the action may be taken right away."""

    answer: PermissionAnswer
    because: str

    def __bool__(self) -> bool:
        return self.answer == "allowed"


class Rules(BaseModel):
    """Lists of actions, by the patterns of their names and conditions on their arguments; `*` stands for anything.

    `otherwise` is for actions that no rule covers: by default those that change the world need confirmation and others
    are allowed. `confirm_below` is the confidence under which a `prefer_confirm` action needs confirmation: a number,
    or the name of the parameter that holds it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    never: tuple[ActionRule, ...] = ()
    confirm: tuple[ActionRule, ...] = ()
    prefer_confirm: tuple[ActionRule, ...] = ()
    allow: tuple[ActionRule, ...] = ()
    otherwise: Otherwise | None = None
    confirm_below: float | str = Field(default="confirm_below", union_mode="left_to_right")

    def may(
        self,
        action: str,
        confidence: float | None = None,
        parameters: Mapping[str, object] | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        changes: bool = False,
        taken: Taken = (),
    ) -> Permission:
        """Whether an action may be taken; the strictest rule that covers it decides.

        `changes` says whether it changes the world, `taken` what the run has done before. Without arguments the answer
        is the strictest that any could get. A confidence that is not a number from 0 to 1 does not count.
        """
        if reason := disguise(action):
            return Permission("forbidden", f"never: {reason}")
        doubts: list[Permission] = []
        for level in LISTS:
            for rule in getattr(self, level):
                permission = self._permission(level, f"{level}: {rule_text(rule)}", confidence, parameters)
                if applies(rule, action, arguments, taken, permits=level != "never"):
                    return strictest([*doubts, permission])
                if level != "allow" and applies(rule, action, arguments, taken, permits=False):
                    doubts.append(permission)  # what follows may be stricter
        return strictest([*doubts, self._otherwise(action, changes, confidence, parameters)])

    def _otherwise(
        self, action: str, changes: bool, confidence: float | None, parameters: Mapping[str, object] | None
    ) -> Permission:
        """The permission for an action that no rule covers."""
        named = any(names(rule, action) for rule in self.allow)
        reason = "no rule allows it with these arguments" if named else "no rule names it"
        if self.otherwise is None and not changes:
            return Permission("allowed", reason)
        reason = f"it changes the world and {reason}" if self.otherwise is None else reason
        level = self.otherwise or "confirm"
        return self._permission(level, f"otherwise: {level}, as {reason}", confidence, parameters)

    def _permission(
        self, level: str, because: str, confidence: float | None, parameters: Mapping[str, object] | None
    ) -> Permission:
        if level == "never":
            return Permission("forbidden", because)
        if level != "prefer_confirm":
            return Permission("confirm" if level == "confirm" else "allowed", because)
        floor, sure = self.threshold(parameters or {}), _confidence(confidence)
        if sure is None:
            reason = "no confidence was given" if confidence is None else "the confidence is no number from 0 to 1"
            return Permission("confirm", f"{because}, and {reason}")
        if not sure >= floor:
            return Permission("confirm", f"{because}, confidence {sure:g} is below {floor:g}")
        return Permission("allowed", f"{because}, confidence {sure:g} reaches {floor:g}")

    def all(self) -> list[tuple[str, ActionRule]]:
        """Each rule with its place, such as `never[0]`."""
        return [(f"{level}[{index}]", rule) for level in LISTS for index, rule in enumerate(getattr(self, level))]

    @property
    def asks_for_confidence(self) -> bool:
        return bool(self.prefer_confirm) or self.otherwise == "prefer_confirm"

    def threshold(self, parameters: Mapping[str, object]) -> float:
        """The number behind `confirm_below`."""
        if not isinstance(self.confirm_below, str):
            return self.confirm_below
        value = parameters.get(self.confirm_below, DEFAULT_CONFIRM_BELOW)
        return float(value) if is_number(value) else DEFAULT_CONFIRM_BELOW

    def with_threshold(self, parameters: Mapping[str, object]) -> Rules:
        """These rules with the number behind `confirm_below` instead of its name."""
        return self.model_copy(update={"confirm_below": self.threshold(parameters)})

    # Stricter and looser

    def loosened_by(self, other: Rules) -> list[Problem]:
        """What `other` would allow that these rules do not. Only a person may do that.

        Where `confirm_below` names a parameter, `Playbook.loosened_by` knows its value.
        """
        problems = [
            Problem(
                f"rules.{level}",
                f"{rule_text(rule)} dropped or weakened",
                f"{rule_text(rule)} kept at {level} or stricter",
                ONLY_A_PERSON,
            )
            for place, level in enumerate(LISTS[:3], 1)
            for rule in getattr(self, level)
            if not other._has(rule, LISTS[:place])
        ]
        problems += [
            Problem(f"rules.{level}", f"{rule_text(rule)} added", "no rule that permits more", ONLY_A_PERSON)
            for place, level in enumerate(LISTS[1:], 1)
            for rule in getattr(other, level)
            if not self._permits(rule, level) and not other._has(rule, LISTS[:place])
        ]
        if any(after < before for before, after in self._strictness(other)):
            change = f"{self.otherwise or 'the default'} → {other.otherwise or 'the default'}"
            problems.append(Problem("rules.otherwise", change, f"{self.otherwise or 'the default'} or stricter"))
        if self.asks_for_confidence and stricter(self.confirm_below, other.confirm_below) != other.confirm_below:
            change = f"{self.confirm_below} → {other.confirm_below}"
            problems.append(Problem("rules.confirm_below", change, f"{self.confirm_below} or a higher number"))
        return problems

    def _has(self, rule: ActionRule, levels: Iterable[str]) -> bool:
        return any(covers(wider, rule) for level in levels for wider in getattr(self, level))

    def _permits(self, rule: ActionRule, level: str) -> bool:
        """Whether what a rule of that list permits is permitted here too, apart from what stricter rules say."""
        place = LISTS.index(level)
        return STRICTNESS[self.otherwise][0] <= len(LISTS) - 1 - place or self._has(rule, LISTS[place:])

    def _strictness(self, other: Rules) -> Iterator[tuple[int, int]]:
        return zip(STRICTNESS[self.otherwise], STRICTNESS[other.otherwise], strict=True)

    def tighten(self, other: Rules) -> Rules:
        """Rules that are at least as strict as both. What only one of them permits moves to a stricter list."""
        below = stricter(self.confirm_below, other.confirm_below)
        floor = [max(pair) for pair in self._strictness(other)]
        mine, yours = self._beside(other), other._beside(self)
        return Rules(
            **{level: unite(mine[level], yours[level]) for level in LISTS},
            otherwise=next(name for name, level in STRICTNESS.items() if all(map(ge, level, floor))),
            confirm_below=self.confirm_below if below is None else below,
        )

    def _beside(self, other: Rules) -> dict[str, tuple[ActionRule, ...]]:
        """The lists, with each rule in the loosest one in which `other` permits as much. A rule that allows something
        is left out instead: without it `otherwise` decides."""
        lists: dict[str, list[ActionRule]] = {level: [] for level in LISTS}
        for place, level in enumerate(LISTS):
            for rule in getattr(self, level):
                fitting = [name for name in LISTS[1 : place + 1] if other._permits(rule, name)]
                if level != "allow" or fitting[-1:] == ["allow"]:
                    lists[fitting[-1] if fitting else "never"].append(rule)
        return {level: tuple(rules) for level, rules in lists.items()}


def strictest(permissions: Iterable[Permission]) -> Permission:
    """The strictest permission; of several, the first."""
    return max(permissions, key=lambda each: get_args(PermissionAnswer).index(each.answer))


def stricter(one: float | str, other: float | str) -> float | str | None:
    """The stricter of two `confirm_below`; None if they cannot be compared."""
    if one == other:
        return one
    if isinstance(one, str) or isinstance(other, str):
        return None
    return max(one, other)


def unite(one: tuple[Item, ...], other: tuple[Item, ...]) -> tuple[Item, ...]:
    """All items of both, in the same order whichever comes first."""
    if set(other) < set(one) or one == other:
        return one
    return other if set(one) < set(other) else tuple(sorted({*one, *other}, key=rule_text))


def _confidence(confidence: object) -> float | None:
    """A confidence as a float, from any numeric library; None unless it is a number from 0 to 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        return None
    try:
        sure = float(confidence)
    except OverflowError:
        return None
    return sure if 0 <= sure <= 1 else None
