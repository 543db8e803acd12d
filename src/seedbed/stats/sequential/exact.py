"""The exact sequential McNemar test: the default rule, for scores that are 0 or 1 on a known number of tasks."""

from __future__ import annotations

import math
from bisect import bisect_left
from statistics import NormalDist
from typing import ClassVar, TypeAlias

import numpy as np

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Bools, Floats, Integers
from seedbed.stats.sequential.betting import Bet, bets, evidence
from seedbed.stats.sequential.stopping_rule import (
    Answer,
    Conclusion,
    Ends,
    SignRule,
    check_at_most,
    check_between,
    check_rate,
)

HELD_BACK = 1e-9
"""The share of alpha that is never spent: more than the rounding errors of a million updates."""

SPENDING = ("power 1.5", "linear", "o'brien-fleming")

Count: TypeAlias = int | Integers


def may_spend(spend: str, alpha: float, share: float) -> float:
    """How much of alpha may have been spent after this share of the tasks."""
    if spend == "linear":
        part = alpha * share
    elif spend == "power 1.5":
        # Not share**1.5: a square root is the same on every machine, a power need not be.
        part = alpha * share * math.sqrt(share)
    else:
        # Very little at first, most of it at the end, like O'Brien and Fleming's boundary (Lan and DeMets 1983).
        part = math.erfc(NormalDist().inv_cdf(1 - alpha / 2) / math.sqrt(2 * share))
    return part * (1 - HELD_BACK)


class ExactMcNemar(SignRule):
    """The exact sequential McNemar test for scores that are 0 or 1, on at most `at_most` tasks.

    Two error rates, each at most `alpha`, for any share of ties and with a look after every task: the chance to call
    a candidate superior that is not better, and the chance to call one inferior that is not worse. Of two equal
    playbooks either one is preferred with chance at most 2 `alpha`.

    Given which tasks differ, wins of equal playbooks are fair coins, so the number of wins that ends the test needs no
    estimate of anything. By task n of N a part of alpha may be spent: alpha (n/N)^1.5 (`spend="power 1.5"`), alpha n/N
    ("linear": ends sooner if the effect is large), or little before the end ("o'brien-fleming"). A tie is a look too:
    it adds to what may be spent, and so can end the test.

    `p` is known at the end: the chance, if both are equal, of a sequence that ends superior sooner than this one, or
    gets as far with as many wins. It is below alpha exactly when the verdict is superior; after an inferior or futile
    verdict it is 1.

    With an `effect`, the test also ends "futile" once it has shown, with chance of error at most `beta`, that the
    candidate is not better by that much: a bet against it has made 1/`beta` times its money. Most candidates that are
    no better, or worse, end so, long before the last task. Each verdict has its own boundary, which does not depend on
    the others; an end by one can only prevent the others. So all three error rates hold in any order of checking.
    """

    name: ClassVar[str] = "exact mcnemar"
    guarantee: ClassVar[str] = "error rates are exact bounds, for any share of ties and any number of looks"

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        at_most: int,
        spend: str = "power 1.5",
        effect: float | None = None,
        beta: float = 0.1,
    ) -> None:
        if spend not in SPENDING:
            raise SeedbedError(f'spend: found {shown(spend)}; expected "power 1.5", "linear" or "o\'brien-fleming"')
        check_rate("alpha", alpha)
        check_rate("beta", beta)
        check_at_most(at_most)
        if effect is not None:
            check_between("effect", effect, 0, 1)
        self.alpha = alpha
        self.at_most: int = at_most
        self.spend = spend
        self.effect = effect
        self.beta = beta
        self._boundary = Boundary(alpha, at_most, spend)
        self._futility = None if effect is None else Futility(effect, beta)
        super().__init__()

    def _learn(self, difference: float) -> None:
        self._boundary.advance(difference != 0)

    def _judge(self, wins: int, ties: int, losses: int) -> Answer:
        needed = self._boundary.needed
        n = wins + ties + losses
        against = None if self._futility is None else float(self._futility.evidence(wins, ties, losses))
        verdict: Conclusion = "continue"
        p = None
        if losses >= needed:
            verdict, p = "inferior", 1.0
        elif wins >= needed:
            verdict, p = "superior", self._boundary.chance(wins)
        elif against is not None and against >= math.log(1 / self.beta):
            verdict, p = "futile", 1.0
        elif n == self.at_most:
            verdict, p = "inconclusive", self._boundary.chance(wins)
        reachable = needed if needed <= wins + losses else None
        lead = None if reachable is None else float(2 * reachable - wins - losses)
        return Answer(
            verdict,
            n,
            wins,
            ties,
            losses,
            spent=self._boundary.spent,
            boundary=reachable,
            p=p,
            evidence=float(wins - losses),
            low=None if lead is None else -lead,
            high=lead,
            futility=against,
        )

    def ends(self, differences: Floats) -> Ends:
        rows, tasks = differences.shape
        tasks = min(tasks, self.at_most)
        verdicts = np.full(rows, "inconclusive", dtype="<U12")
        ended = np.full(rows, tasks)
        alive: Integers = np.arange(rows)
        wins, losses = np.zeros((2, rows), dtype=np.int64)
        boundaries = _Boundaries(rows, self.alpha, self.at_most, self.spend)
        for n in range(1, tasks + 1):
            now = differences[alive, n - 1]
            boundaries.advance(now != 0)
            wins, losses = wins + (now > 0), losses + (now < 0)
            reached: dict[Conclusion, Bools] = {
                "inferior": losses >= boundaries.needed,
                "superior": wins >= boundaries.needed,
            }
            if self._futility:
                against = self._futility.evidence(wins, n - wins - losses, losses)
                reached["futile"] = against >= self._futility.enough
            stays = np.ones(len(alive), dtype=bool)
            for verdict, where in reached.items():
                done = stays & where
                verdicts[alive[done]], ended[alive[done]] = verdict, n
                stays &= ~done
            alive, wins, losses = alive[stays], wins[stays], losses[stays]
            boundaries.keep(stays)
        return Ends(verdicts, ended)


class Boundary:
    """How many wins end the test by now, depending on which tasks differed."""

    def __init__(self, alpha: float, at_most: int, spend: str) -> None:
        self.spent = 0.0
        self.needed = 1
        self._alpha = alpha
        self._at_most = at_most
        self._spend = spend
        self._n = 0
        self._spent_before = 0.0
        self._wins = np.ones(1)  # the chance of each number of wins, the test having gone on until this look

    def advance(self, differs: bool) -> None:
        """Look after the next task: spend what has become available on the largest numbers of wins."""
        self._n += 1
        going_on = self._wins[: self.needed]
        self._wins = toss(going_on, 0.5) if differs else going_on
        available = may_spend(self._spend, self._alpha, self._n / self._at_most)
        self._spent_before = self.spent
        self.needed = len(self._wins)
        while (spent := self.spent + self._wins.item(self.needed - 1)) <= available:
            self.spent = spent
            self.needed -= 1

    def chance(self, wins: int) -> float:
        """If both are equal, the chance of having ended superior before this look, or of this many wins at it."""
        return self._spent_before + math.fsum(self._wins[wins:])


class _Boundaries:
    """The boundaries of many tests at once, one a row."""

    def __init__(self, rows: int, alpha: float, at_most: int, spend: str) -> None:
        self._alpha, self._at_most, self._spend = alpha, at_most, spend
        self._n = 0
        self._spent = np.zeros((rows, 1))
        self._wins = np.ones((rows, 1))
        self._differed = np.zeros(rows, dtype=np.int64)
        self.needed = np.ones(rows, dtype=np.int64)

    def advance(self, differs: Bools) -> None:
        self._n += 1
        self._differed = self._differed + differs
        if self._differed.max(initial=0) >= self._wins.shape[1]:
            self._wins = np.pad(self._wins, ((0, 0), (0, 1)))
        half = self._wins[differs] / 2
        self._wins[differs] = half
        self._wins[differs, 1:] += half[:, :-1]
        spent = self._spent + np.cumsum(self._wins[:, ::-1], axis=1)  # from the most wins down
        affordable = spent <= may_spend(self._spend, self._alpha, self._n / self._at_most)
        count = affordable.sum(axis=1)
        self._spent = np.where(count > 0, spent[np.arange(len(count)), count - 1], self._spent[:, 0])[:, None]
        self._wins[affordable[:, ::-1]] = 0
        self.needed = self._wins.shape[1] - count

    def keep(self, rows: Bools) -> None:
        self._spent, self._wins = self._spent[rows], self._wins[rows]
        self._differed, self.needed = self._differed[rows], self.needed[rows]


class Futility:
    """A bet that the candidate is not better by `effect`: with `enough` evidence the test is futile."""

    def __init__(self, effect: float, beta: float) -> None:
        self.enough = math.log(1 / beta)
        self._growth = Bet(effect, "below", bets(effect).shares).growth(np.array([1.0, 0.0, -1.0]))

    def evidence(self, wins: Count, ties: Count, losses: Count) -> Floats:
        """The log of the money after these wins, ties and losses, in any order."""
        won, tied, lost = (np.expand_dims(count, -1) for count in (wins, ties, losses))
        return evidence(won * self._growth[0] + tied * self._growth[1] + lost * self._growth[2])

    def most_wins(self, differed: int, ties: int) -> int:
        """The most wins among the tasks that differed with which the test is futile; -1 if it is with none."""

        def going_on(wins: int) -> int:
            return int(self.evidence(wins, ties, differed - wins) < self.enough)

        return bisect_left(range(differed + 1), 1, key=going_on) - 1


def toss(wins: Floats, chance: float | Floats) -> Floats:
    """The chances of each number of wins after one more toss."""
    after = np.zeros((*wins.shape[:-1], wins.shape[-1] + 1))
    won = wins * chance
    after[..., :-1] = wins - won
    after[..., 1:] += won
    return after
