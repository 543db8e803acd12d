"""Sequential tests: look after every task, stop as soon as the answer is known, keep the promised error rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seedbed.errors import SeedbedError, shown

Conclusion: TypeAlias = Literal["continue", "superior", "inferior", "inconclusive"]
Floats: TypeAlias = NDArray[np.float64]

SIGNS = {1.0: "+", 0.0: "=", -1.0: "-"}
"""How a state writes the differences seen so far: candidate better, equal, worse."""

HELD_BACK = 1e-9
"""The share of alpha that is never spent: more than rounding can hide in a million updates."""

PATTERNS = 200
"""How many draws of which tasks differ `plan` averages over."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a stopping rule says after a task.

    `boundary` is how many wins would end the test now, and equally how many losses; None if no number would.
    `spent` bounds the chance that an equal candidate would have been called superior by now.
    `p` is None until the test has ended. Then it is the p-value of "the candidate is not better": the chance, were
    both equal, of a sequence that ends superior sooner than this one, or gets as far with as many wins. It is below
    alpha exactly when the verdict is superior; after an inferior verdict it is 1.
    """

    verdict: Conclusion
    n: int
    wins: int
    ties: int
    losses: int
    spent: float
    boundary: int | None
    p: float | None


class StoppingRule(Protocol):
    """Takes differences, candidate minus incumbent, one task at a time in the registered order, until it answers."""

    @property
    def answer(self) -> Answer: ...

    def update(self, difference: float) -> Answer: ...

    def state(self) -> dict[str, Any]:
        """All that is needed to go on elsewhere, as JSON."""


class ExactMcNemar:
    """The exact sequential McNemar test for scores that are 0 or 1, on at most `at_most` tasks.

    Two error rates, each at most `alpha`, for any share of ties and with a look after every task: the chance to call
    a candidate superior that is not better, and the chance to call one inferior that is not worse. Of two equal
    playbooks one is thus preferred, one way or the other, with chance at most 2 `alpha`.

    Given which tasks differ, wins of equal playbooks are fair coins, so the number of wins that ends the test needs no
    estimate of anything. By task n of N at most alpha (n/N)^1.5 is spent (`spend="power 1.5"`). A tie is a look too:
    it adds to what may be spent, and so can end the test.
    """

    def __init__(self, *, alpha: float = 0.05, at_most: int, spend: str = "power 1.5") -> None:
        if spend != "power 1.5":
            raise SeedbedError(f'spend: found {shown(spend)}; expected "power 1.5", the only one there is')
        _check(alpha, at_most)
        self.alpha = alpha
        self.at_most = at_most
        self.spend = spend
        self._boundary = _Boundary(alpha, at_most)
        self._signs: list[str] = []
        self._answer = Answer("continue", 0, 0, 0, 0, spent=0.0, boundary=None, p=None)

    @property
    def answer(self) -> Answer:
        """The latest answer."""
        return self._answer

    def update(self, difference: float) -> Answer:
        """Take the next task's difference, candidate minus incumbent: 1, 0 or -1."""
        before = self._answer
        if before.verdict != "continue":
            raise SeedbedError(
                f"difference: found one after task {before.n}, where the test ended {before.verdict}; expected none. "
                "Keep that answer, or register a new test on other tasks"
            )
        if difference not in SIGNS:
            raise SeedbedError(
                f"difference: found {shown(difference)}; expected -1, 0 or 1, as this rule is for scores of 0 or 1. "
                "The rule for graded scores is not there yet: make them pass or fail by a threshold set in advance"
            )
        self._signs.append(SIGNS[difference])
        self._boundary.advance(difference != 0)
        self._answer = self._judge(
            wins=before.wins + (difference > 0),
            ties=before.ties + (difference == 0),
            losses=before.losses + (difference < 0),
        )
        return self._answer

    def _judge(self, wins: int, ties: int, losses: int) -> Answer:
        needed = self._boundary.needed
        n = wins + ties + losses
        verdict: Conclusion = "continue"
        p = None
        if losses >= needed:
            verdict, p = "inferior", 1.0
        elif wins >= needed:
            verdict, p = "superior", self._boundary.chance(wins)
        elif n == self.at_most:
            verdict, p = "inconclusive", self._boundary.chance(wins)
        reachable = needed if needed <= wins + losses else None
        return Answer(verdict, n, wins, ties, losses, self._boundary.spent, reachable, p)

    def state(self) -> dict[str, Any]:
        """The rule and the outcomes so far, one sign per task."""
        return {"alpha": self.alpha, "at_most": self.at_most, "spend": self.spend, "outcomes": "".join(self._signs)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The test as it was: outcomes are taken again, so that what it does next cannot depend on the interruption."""
        expected = {"alpha", "at_most", "spend", "outcomes"}
        if state.keys() != expected or not isinstance(state["outcomes"], str):
            raise SeedbedError(f"state: found {shown(state)}; expected {', '.join(sorted(expected))}, as from state()")
        rule = cls(alpha=state["alpha"], at_most=state["at_most"], spend=state["spend"])
        differences = {sign: difference for difference, sign in SIGNS.items()}
        for sign in state["outcomes"]:
            if sign not in differences:
                raise SeedbedError(f"outcomes: found {shown(sign)}; expected only + = -, as from state()")
            rule.update(differences[sign])
        return rule


class _Boundary:
    """How many wins end the test, by now, given which tasks differed."""

    def __init__(self, alpha: float, at_most: int) -> None:
        self.spent = 0.0
        self.needed = 1
        self._alpha = alpha
        self._at_most = at_most
        self._n = 0
        self._spent_before = 0.0
        self._wins = np.ones(1)  # the chance of each number of wins, the test having gone on until this look

    def advance(self, differs: bool) -> None:
        """Look after the next task: spend what has become available on the largest numbers of wins."""
        self._n += 1
        going_on = self._wins[: self.needed]
        self._wins = _toss(going_on, 0.5) if differs else going_on
        share = self._n / self._at_most
        # Not share**1.5: a square root is the same on every machine, a power need not be.
        available = self._alpha * share * math.sqrt(share) * (1 - HELD_BACK)
        self._spent_before = self.spent
        self.needed = len(self._wins)
        while (spent := self.spent + self._wins.item(self.needed - 1)) <= available:
            self.spent = spent
            self.needed -= 1

    def chance(self, wins: int) -> float:
        """Were both equal: the chance to have ended superior before this look, or to have this many wins at it."""
        return self._spent_before + math.fsum(self._wins[wins:])


@dataclass(frozen=True, slots=True)
class Plan:
    """What to expect of a test before it is paid for.

    `power` is the chance to call the better candidate superior, `false_alarm` the chance to call an equal one so;
    `tasks_if_…` are expected numbers of tasks. Wins and losses are treated alike, so better and worse take as long.
    """

    power: float
    false_alarm: float
    tasks_if_equal: float
    tasks_if_better: float
    tasks_if_worse: float


def plan(*, alpha: float = 0.05, at_most: int, effect: float, discordance: float) -> Plan:
    """How `ExactMcNemar` will do if scores differ on a share `discordance` of tasks, for better or worse by `effect`.

    Exact given which tasks differ; averaged over 200 fixed draws of those, spread evenly over how many there can be.
    So it is repeatable, and within about 0.003 of the true power.
    """
    _check(alpha, at_most)
    if not 0 < discordance <= 1:
        raise SeedbedError(f"discordance: found {shown(discordance)}; expected a share of tasks above 0 and at most 1")
    if not 0 < effect <= discordance:
        raise SeedbedError(f"effect: found {shown(effect)}; expected above 0 and at most discordance, {discordance:g}")
    lean = effect / discordance / 2
    to_win = np.array([[0.5], [0.5 + lean], [0.5 - lean]])
    superior, tasks = np.zeros(3), np.zeros(3)
    for differing in _patterns(at_most, discordance):
        boundary = _Boundary(alpha, at_most)
        going_on = np.ones((3, 1))
        last_look = differed = 0
        for n, differs in enumerate(differing, 1):
            needed = boundary.needed
            boundary.advance(differs)
            if not differs and boundary.needed == needed:
                continue
            tasks += (n - last_look) * going_on.sum(axis=1)
            last_look = n
            if differs:
                going_on = _toss(going_on, to_win)
                differed += 1
            superior += going_on[:, boundary.needed :].sum(axis=1)
            going_on = going_on[:, : boundary.needed]
            going_on[:, : max(0, differed - boundary.needed + 1)] = 0
        tasks += (at_most - last_look) * going_on.sum(axis=1)
    superior, tasks = superior / PATTERNS, tasks / PATTERNS
    return Plan(float(superior[1]), float(superior[0]), *map(float, tasks))


def _patterns(at_most: int, discordance: float) -> Iterator[list[bool]]:
    """Which tasks differ: evenly spaced quantiles of how many, in random places."""
    how_many = np.ones(1)
    for _ in range(at_most):
        how_many = _toss(how_many, discordance)
    quantiles = (np.arange(PATTERNS) + 0.5) / PATTERNS
    places = np.random.default_rng(0)
    for count in np.searchsorted(np.cumsum(how_many), quantiles):
        yield (places.permutation(at_most) < count).tolist()


def _toss(wins: Floats, chance: float | Floats) -> Floats:
    """The chances of each number of wins after one more toss."""
    after = np.zeros((*wins.shape[:-1], wins.shape[-1] + 1))
    won = wins * chance
    after[..., :-1] = wins - won
    after[..., 1:] += won
    return after


def _check(alpha: float, at_most: int) -> None:
    # From one half on, the boundaries of wins and of losses could be reached together.
    if not isinstance(alpha, float) or not 0 < alpha < 0.5:
        raise SeedbedError(f"alpha: found {shown(alpha)}; expected an error rate above 0 and below 0.5, such as 0.05")
    if not isinstance(at_most, int) or at_most < 1:
        raise SeedbedError(f"at_most: found {shown(at_most)}; expected how many tasks there are, at least 1")


__all__ = ["Answer", "ExactMcNemar", "Plan", "StoppingRule", "plan"]
