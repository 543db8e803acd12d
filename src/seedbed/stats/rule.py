"""What every stopping rule is: it takes differences in the registered order until it answers."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats, Integers

Conclusion: TypeAlias = Literal[
    "continue", "superior", "non-inferior", "equivalent", "inferior", "futile", "inconclusive"
]

SIGNS = {1.0: "+", 0.0: "=", -1.0: "-"}
"""How a state writes differences of scores that are 0 or 1: candidate better, equal, worse."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a stopping rule says after a task.

    `boundary` is how many wins would end the test now, and equally how many losses; None if no number would, or if the
    rule does not count. `spent` bounds the chance that an equal candidate would have been called superior by now.
    `p` is the p-value of "the candidate is not better"; None while the rule has none to give.

    `evidence` is what the rule watches. At `high` or above it ends in favour of the candidate, at `low` or below
    against it; None where no value would. `futility` is the log of the evidence that the hoped-for effect is not
    there; None if the rule does not look for that.
    """

    verdict: Conclusion
    n: int
    wins: int
    ties: int
    losses: int
    spent: float
    boundary: int | None
    p: float | None
    evidence: float = 0.0
    low: float | None = None
    high: float | None = None
    futility: float | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """How a rule ended on each of many sequences, and after how many tasks."""

    verdicts: NDArray[np.str_]
    tasks: Integers

    def share(self, *verdicts: Conclusion) -> float:
        return float(np.isin(self.verdicts, verdicts).mean())


class StoppingRule(ABC):
    """Takes differences, candidate minus incumbent, one task at a time in the registered order, until it answers.

    A rule is content: its settings are the arguments that make it, and `state()` is them and what it has taken. What
    it answers depends on nothing else.
    """

    name: ClassVar[str]
    guarantee: ClassVar[str]
    """What its error rates are worth, in words for a report."""
    guaranteed: ClassVar[bool] = True

    alpha: float
    at_most: int | None

    def __init__(self) -> None:
        self._taken: list[float] = []
        self._answer = self._judge(0, 0, 0)

    @property
    def answer(self) -> Answer:
        """The latest answer."""
        return self._answer

    def update(self, difference: float, place: int | None = None) -> Answer:
        """Take the next task's difference, and answer.

        With its `place` in the registered order, from 1, a task may be told again: nothing is counted twice, and a
        task left out or told otherwise than before is refused.
        """
        before = self._answer
        if place is not None and self._told_before(difference, place):
            return before
        if before.verdict != "continue":
            raise SeedbedError(
                f"difference: found one after task {before.n}, where the test ended {before.verdict}; expected none. "
                "Keep that answer, or register a new test on other tasks"
            )
        self._check(difference)
        difference = float(difference)
        self._taken.append(difference)
        self._learn(difference)
        self._answer = self._judge(
            before.wins + (difference > 0), before.ties + (difference == 0), before.losses + (difference < 0)
        )
        return self._answer

    def _told_before(self, difference: float, place: int) -> bool:
        if not 1 <= place <= len(self._taken) + 1:
            raise SeedbedError(
                f"place: found {shown(place)} after {len(self._taken)} tasks; expected at most "
                f"{len(self._taken) + 1}. Tell the results in the registered order, none left out"
            )
        if place > len(self._taken):
            return False
        if difference != self._taken[place - 1]:
            raise SeedbedError(
                f"difference: found {shown(difference)} at place {place}; expected {self._taken[place - 1]:g}, as told "
                "before. A result that has been read stays as it is"
            )
        return True

    @abstractmethod
    def _check(self, difference: float) -> None:
        """Refuse a difference the rule cannot take."""

    def _learn(self, difference: float) -> None:  # noqa: B027 - a rule that needs only the counts has nothing to do
        """Let the evidence take in the difference."""

    @abstractmethod
    def _judge(self, wins: int, ties: int, losses: int) -> Answer:
        """What the rule says now."""

    @abstractmethod
    def ends(self, differences: Floats) -> Ends:
        """How the rule would end on many sequences at once, one a row: for plans and for checking its promises."""

    def settings(self) -> dict[str, Any]:
        """The arguments that make this rule."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _outcomes(self) -> str | list[float]:
        return list(self._taken)

    def state(self) -> dict[str, Any]:
        """The rule and the outcomes so far, as JSON: all that is needed to go on elsewhere."""
        return {"rule": self.name, **self.settings(), "outcomes": self._outcomes()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The test as it was: outcomes are taken again, so that what it does next cannot depend on the interruption."""
        settings = {key: value for key, value in state.items() if key not in ("rule", "outcomes")}
        known = inspect.signature(cls).parameters
        needed = {name for name, parameter in known.items() if parameter.default is parameter.empty}
        told = state.get("outcomes")
        named = state.get("rule", cls.name) == cls.name
        if not named or not needed <= settings.keys() <= known.keys() or not isinstance(told, str | list):
            expected = ", ".join(["rule", *known, "outcomes"])
            raise SeedbedError(f"state: found {shown(state)}; expected {expected}, as from {cls.__name__}.state()")
        rule = cls(**settings)
        differences = {sign: difference for difference, sign in SIGNS.items()}
        for outcome in told:
            if isinstance(outcome, str) and outcome not in differences:
                raise SeedbedError(f"outcomes: found {shown(outcome)}; expected only + = -, as from state()")
            rule.update(differences[outcome] if isinstance(outcome, str) else outcome)
        return rule


class SignRule(StoppingRule):
    """A rule for scores that are 0 or 1: differences are 1, 0 or -1, and are written as signs."""

    def _check(self, difference: float) -> None:
        if difference not in SIGNS:
            raise SeedbedError(
                f"difference: found {shown(difference)}; expected -1, 0 or 1, as this rule is for scores of 0 or 1. "
                'For graded scores register the rule "betting", or make them pass or fail by a threshold set in advance'
            )

    def _outcomes(self) -> str:
        return "".join(SIGNS[difference] for difference in self._taken)


def check_rate(name: str, rate: object) -> None:
    # From one half on, the boundaries of wins and of losses could be reached together.
    if not isinstance(rate, float) or not 0 < rate < 0.5:
        raise SeedbedError(f"{name}: found {shown(rate)}; expected an error rate above 0 and below 0.5, such as 0.05")


def check_at_most(at_most: object) -> None:
    if not isinstance(at_most, int) or isinstance(at_most, bool) or at_most < 1:
        raise SeedbedError(f"at_most: found {shown(at_most)}; expected how many tasks there are, at least 1")


def check_between(name: str, value: object, low: float, high: float) -> None:
    if not isinstance(value, int | float) or not (math.isfinite(value) and low < value < high):
        raise SeedbedError(f"{name}: found {shown(value)}; expected a number above {low:g} and below {high:g}")


__all__ = ["Answer", "Conclusion", "Ends", "SignRule", "StoppingRule"]
