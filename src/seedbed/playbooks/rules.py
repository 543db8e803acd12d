"""Rules: what an agent must never do, and what needs confirmation. Enforced at run time; only a person loosens them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from seedbed.errors import Problem
from seedbed.playbooks.values import is_number

PermissionAnswer = Literal["allowed", "confirm", "forbidden"]
"""From the loosest to the strictest."""
DEFAULT_CONFIRM_BELOW = 0.8
LEVELS = ("never", "confirm", "prefer_confirm")
"""The lists of rules, from the strictest to the loosest."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The answer to "may I?". True only if the action may be taken right away."""

    answer: PermissionAnswer
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

        A confidence that is not a number from 0 to 1 does not count.
        """
        if rule := _first(self.never, action):
            return Permission("forbidden", f"never: {rule}")
        if rule := _first(self.confirm, action):
            return Permission("confirm", f"confirm: {rule}")
        if rule := _first(self.prefer_confirm, action):
            floor, sure = self.threshold(parameters or {}), _confidence(confidence)
            if sure is None:
                reason = "no confidence was given" if confidence is None else "the confidence is no number from 0 to 1"
                return Permission("confirm", f"prefer_confirm: {rule}, and {reason}")
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

    def with_threshold(self, parameters: Mapping[str, object]) -> Rules:
        """These rules with the number behind `confirm_below` instead of its name."""
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
                "Rules may only be tightened; only a person may loosen one.",
            )
            for place, level in enumerate(LEVELS, 1)
            for pattern in getattr(self, level)
            if not any(matches(wider, pattern) for name in LEVELS[:place] for wider in getattr(other, name))
        ]
        if self.prefer_confirm and stricter(self.confirm_below, other.confirm_below) != other.confirm_below:
            change = f"{self.confirm_below} → {other.confirm_below}"
            problems.append(Problem("rules.confirm_below", change, f"{self.confirm_below} or a higher number"))
        return problems

    def tighten(self, other: Rules) -> Rules:
        """The loosest rules that are at least as strict as both."""
        below = stricter(self.confirm_below, other.confirm_below)
        return Rules(
            never=unite(self.never, other.never),
            confirm=unite(self.confirm, other.confirm),
            prefer_confirm=unite(self.prefer_confirm, other.prefer_confirm),
            confirm_below=self.confirm_below if below is None else below,
        )


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


def unite(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """All patterns of both, in the same order whichever comes first."""
    if set(other) < set(one) or one == other:
        return one
    return other if set(one) < set(other) else tuple(sorted({*one, *other}))


def _confidence(confidence: object) -> float | None:
    """A confidence as a float, from any numeric library; None unless it is a number from 0 to 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, Real):
        return None
    try:
        sure = float(confidence)
    except OverflowError:
        return None
    return sure if 0 <= sure <= 1 else None


def _first(patterns: tuple[str, ...], action: str) -> str | None:
    return next((pattern for pattern in patterns if matches(pattern, action)), None)


# Patterns for actions and paths: `*` stands for anything, everything else for itself, letter case included.


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern covers a name. As `*` is the only wildcard, `name` may itself be a pattern."""
    return pattern == name or _compile(pattern).fullmatch(name) is not None


def locks(lock: str, path: str) -> bool:
    """Whether a lock covers a path: it matches the path or one of its parents."""
    return matches(lock, path) or matches(f"{lock}.*", path)


@lru_cache(maxsize=4096)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
