"""Rules: what must never be done, what needs confirmation. Enforced at run time; nothing loosens them but a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from seedbed.errors import Problem
from seedbed.playbooks.patterns import matches
from seedbed.playbooks.values import is_number

Answer = Literal["allowed", "confirm", "forbidden"]
"""From the loosest to the strictest."""
DEFAULT_CONFIRM_BELOW = 0.8


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer to "may I?". True only if the action may be taken right away."""

    answer: Answer
    because: str

    def __bool__(self) -> bool:
        return self.answer == "allowed"


class Rules(BaseModel):
    """Lists of action names; `*` in a name stands for anything.

    `confirm_below` is the confidence under which a `prefer_confirm` action needs confirmation: a number,
    or the name of the parameter that holds it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    never: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    prefer_confirm: tuple[str, ...] = ()
    confirm_below: float | str = Field(default="confirm_below", union_mode="left_to_right")

    def may(
        self, action: str, confidence: float | None = None, parameters: Mapping[str, object] | None = None
    ) -> Permission:
        """Whether an action may be taken; the strictest rule that matches decides.

        A confidence that is no number from 0 to 1 is none.
        """
        if rule := _first(self.never, action):
            return Permission("forbidden", f"never: {rule}")
        if rule := _first(self.confirm, action):
            return Permission("confirm", f"confirm: {rule}")
        if rule := _first(self.prefer_confirm, action):
            floor, sure = self.threshold(parameters or {}), _sure(confidence)
            if sure is None:
                told = "no confidence was given" if confidence is None else "the confidence is no number from 0 to 1"
                return Permission("confirm", f"prefer_confirm: {rule}, and {told}")
            if not sure >= floor:
                return Permission("confirm", f"prefer_confirm: {rule}, confidence {sure:g} is below {floor:g}")
            return Permission("allowed", f"prefer_confirm: {rule}, confidence {sure:g} reaches {floor:g}")
        return Permission("allowed", "no rule names it")

    def threshold(self, parameters: Mapping[str, object]) -> float:
        """The number behind `confirm_below`."""
        if not isinstance(self.confirm_below, str):
            return self.confirm_below
        value = parameters.get(self.confirm_below, DEFAULT_CONFIRM_BELOW)
        return float(value) if is_number(value) else DEFAULT_CONFIRM_BELOW

    def fixed(self, parameters: Mapping[str, object]) -> Rules:
        """These rules with the number behind `confirm_below` in its place."""
        return self.model_copy(update={"confirm_below": self.threshold(parameters)})

    def loosened_by(self, other: Rules) -> list[Problem]:
        """What `other` would allow that these rules do not. Only a person may do that.

        Where `confirm_below` names a parameter, `Playbook.loosened_by` knows its value.
        """
        problems = [
            Problem(
                f"rules.{level}",
                f"{pattern} dropped or weakened",
                f"{pattern} kept at {level} or stricter",
                "Rules may only be tightened; loosening one is for a person to decide.",
            )
            for level, pattern in self._strictness()
            if not any(matches(wider, pattern) for wider in other._at_least(level))
        ]
        if self.prefer_confirm and stricter(self.confirm_below, other.confirm_below) != other.confirm_below:
            found = f"{self.confirm_below} → {other.confirm_below}"
            problems.append(Problem("rules.confirm_below", found, f"{self.confirm_below} or a higher number"))
        return problems

    def tightened_with(self, other: Rules) -> Rules:
        """The loosest rules that are at least as strict as both."""
        below = stricter(self.confirm_below, other.confirm_below)
        return Rules(
            never=united(self.never, other.never),
            confirm=united(self.confirm, other.confirm),
            prefer_confirm=united(self.prefer_confirm, other.prefer_confirm),
            confirm_below=self.confirm_below if below is None else below,
        )

    def _strictness(self) -> Iterator[tuple[str, str]]:
        for level in ("never", "confirm", "prefer_confirm"):
            for pattern in getattr(self, level):
                yield level, pattern

    def _at_least(self, level: str) -> tuple[str, ...]:
        levels = ("never", "confirm", "prefer_confirm")
        return tuple(pattern for name in levels[: levels.index(level) + 1] for pattern in getattr(self, name))


def strictest(permissions: Iterable[Permission]) -> Permission:
    """The first of those that allow the least."""
    return max(permissions, key=lambda each: get_args(Answer).index(each.answer))


def stricter(one: float | str, other: float | str) -> float | str | None:
    """The stricter of two `confirm_below`; None if they cannot be compared."""
    if one == other:
        return one
    if isinstance(one, str) or isinstance(other, str):
        return None
    return max(one, other)


def united(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Everything in either, the same whichever is given first."""
    if set(other) < set(one) or one == other:
        return one
    return other if set(one) < set(other) else tuple(sorted({*one, *other}))


def _sure(confidence: object) -> float | None:
    """A confidence as it counts: a number from 0 to 1, whatever library it comes from."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        return None
    try:
        sure = float(confidence)
    except OverflowError:
        return None
    return sure if 0 <= sure <= 1 else None


def _first(patterns: tuple[str, ...], action: str) -> str | None:
    return next((pattern for pattern in patterns if matches(pattern, action)), None)
