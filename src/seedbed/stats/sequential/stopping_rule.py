"""Stopping rules: a rule takes differences in the registered order until it has an answer."""

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
    """The answer of a stopping rule after a task.

    `boundary` is how many wins, or losses, would end the test now; None if no number would, or if the rule does not
    count them. `spent` bounds the chance that an equal candidate would have been called superior by now.
    `p` is the p-value of "the candidate is not better"; None while the rule has none to give.

    `evidence` is the number that the rule compares with its bounds. At `high` or above it ends in favour of the
    candidate, at `low` or below against it; None where no value would. `futility` is the log of the evidence against
    the effect hoped for; None if the rule does not test for it.
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
    """Takes differences, candidate minus incumbent, one task at a time in the registered order, until it has an answer.

    A rule is content: its settings are the arguments that make it, and `state()` is these and the differences taken.
    Its answer depends on nothing else.
    """

    name: ClassVar[str]
    guarantee: ClassVar[str]
    """What holds for its error rates, in words for a report."""
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

        With its `place` in the registered order, from 1, a difference may be repeated: nothing is counted twice. A
        place left out, or a difference that has changed, is refused.
        """
        before = self._answer
        if place is not None and self._is_repeated(difference, place):
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

    def _is_repeated(self, difference: float, place: int) -> bool:
        if not 1 <= place <= len(self._taken) + 1:
            raise SeedbedError(
                f"place: found {shown(place)} after {len(self._taken)} tasks; expected at most "
                f"{len(self._taken) + 1}. Pass the results in the registered order, none left out"
            )
        if place > len(self._taken):
            return False
        if difference != self._taken[place - 1]:
            raise SeedbedError(
                f"difference: found {shown(difference)} at place {place}; expected {self._taken[place - 1]:g}, as "
                "before. A result that was read cannot change"
            )
        return True

    @abstractmethod
    def _check(self, difference: float) -> None:
        """Refuse a difference the rule cannot take."""

    def _learn(self, difference: float) -> None:  # noqa: B027 - a rule that needs only the counts has nothing to do
        """Add the difference to the evidence."""

    @abstractmethod
    def _judge(self, wins: int, ties: int, losses: int) -> Answer:
        """The answer now."""

    @abstractmethod
    def ends(self, differences: Floats) -> Ends:
        """How the rule would end on many sequences, one a row: for plans, and to check its error rates."""

    def settings(self) -> dict[str, Any]:
        """The arguments that make this rule."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _outcomes(self) -> str | list[float]:
        return list(self._taken)

    def state(self) -> dict[str, Any]:
        """The rule and the outcomes so far, as JSON: enough to continue elsewhere."""
        return {"rule": self.name, **self.settings(), "outcomes": self._outcomes()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore a test by taking its outcomes again, so that it continues as if it had not been interrupted."""
        settings = {key: value for key, value in state.items() if key not in ("rule", "outcomes")}
        known = inspect.signature(cls).parameters
        needed = {name for name, parameter in known.items() if parameter.default is parameter.empty}
        outcomes = state.get("outcomes")
        named = state.get("rule", cls.name) == cls.name
        if not named or not needed <= settings.keys() <= known.keys() or not isinstance(outcomes, str | list):
            expected = ", ".join(["rule", *known, "outcomes"])
            raise SeedbedError(f"state: found {shown(state)}; expected {expected}, as from {cls.__name__}.state()")
        rule = cls(**settings)
        differences = {sign: difference for difference, sign in SIGNS.items()}
        for outcome in outcomes:
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
