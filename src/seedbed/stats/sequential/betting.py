"""Betting: a test of graded scores without a fixed end, and an interval that holds at every look.

A player bets on every task that the mean is above some value, at odds that would be fair if it were not. Then the
player's money grows K-fold with chance at most 1/K, whenever they stop (Ville's inequality). So money is evidence. It
is spread over several sizes of bet, as the best size is not known beforehand (Waudby-Smith and Ramdas 2024).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Bools, Floats, Integers, first_enough
from seedbed.stats.sequential.stopping_rule import (
    Answer,
    Conclusion,
    Ends,
    StoppingRule,
    check_at_most,
    check_between,
    check_rate,
)

BetSide: TypeAlias = Literal["above", "below"]
BettingGoal: TypeAlias = Literal["superior", "non-inferior", "equivalent"]
BetSpread: TypeAlias = Literal["log", "even"]

LARGEST = 0.9
"""The largest share of the money that one task may cost, so that no single result ruins a bet."""


class Stakes(NamedTuple):
    """Sizes of bet, as shares of all that may be lost on one task, and the log of the money that each starts with."""

    shares: Floats
    start: Floats


def bets(effect: float | None = None, spread: BetSpread = "log") -> Stakes:
    """Sizes of bet around the best for the effect; without one, of every size.

    The best share is about the effect over the variance of the differences, which is seldom above 1 or below an eighth
    for paired pass rates. So shares reach from the effect to eight times that. Those of every size reach down to where
    they decide a gain of a ten-thousandth, and most of the money is on the larger ones, which decide sooner; an "even"
    spread, as tests registered before had, never decides a gain of a hundredth.
    """
    if effect is not None:
        shares = np.geomspace(min(effect, LARGEST), min(8 * effect, LARGEST), 12)
    elif spread == "even":
        shares = np.linspace(0.05, LARGEST, 25)
    else:
        shares = np.geomspace(1e-4, LARGEST, 30)
        weights = shares**0.75
        return Stakes(shares, np.log(weights / weights.mean()))
    return Stakes(shares, np.zeros(len(shares)))


class Bet:
    """A bet that the mean of numbers in [`least`, `most`] is above `mean`, or below it."""

    def __init__(self, mean: float, side: BetSide, shares: Floats, least: float = -1.0, most: float = 1.0) -> None:
        self._shares = shares
        self._origin, self._sign = (least, 1.0) if side == "above" else (most, -1.0)
        self._odds = (mean - self._origin) * self._sign

    def growth(self, values: Floats) -> Floats:
        """By how much each value multiplies the money on each size of bet, in logs."""
        gained = np.asarray((values - self._origin) * self._sign / self._odds)[..., None]
        return np.log1p(self._shares * (gained - 1))


def evidence(money: Floats) -> Floats:
    """The log of all the money as a multiple of what there was at the start, from the logs on each size of bet."""
    most = money.max(axis=-1, keepdims=True)
    logs: Floats = np.log(np.exp(money - most).mean(axis=-1)) + most[..., 0]
    return logs


def interval(differences: Mapping[float, int], stakes: Stakes, confidence: float = 0.95) -> tuple[float, float]:
    """A confidence sequence for the mean of differences in [-1, 1]: the true mean stays inside at all looks together.

    `differences` says how often each value came; their order does not matter.
    """
    check_between("confidence", confidence, 0, 1)
    if not differences:
        return -1.0, 1.0
    values, counts = np.array(sorted(differences.items()), dtype=float).T
    enough = math.log(2 / (1 - confidence))

    def excluded(mean: float, side: BetSide) -> bool:
        grown = counts @ Bet(mean, side, stakes.shares).growth(values)
        return bool(evidence(stakes.start + grown) >= enough)

    ends = []
    sides: list[tuple[BetSide, float]] = [("above", -1.0), ("below", 1.0)]
    for side, outer in sides:
        inner = -outer
        for _ in range(50):
            middle = (outer + inner) / 2
            if excluded(middle, side):
                outer = middle
            else:
                inner = middle
        ends.append(outer)
    return ends[0], ends[1]


@dataclass(frozen=True, slots=True)
class _Claim:
    """A verdict, the bets that must each hold `enough` money for it, and whether only the last task may bring it."""

    verdict: Conclusion
    bets: tuple[tuple[BetSide, float], ...]
    enough: float
    last_only: bool = False

    def weigh(self, evidences: Mapping[tuple[BetSide, float], Floats]) -> Floats:
        least: Floats = np.minimum.reduce([evidences[bet] for bet in self.bets])
        return least

    def holds(self, evidences: Mapping[tuple[BetSide, float], Floats], last: bool) -> Bools:
        reached: Bools = self.weigh(evidences) >= self.enough
        return reached & (last or not self.last_only)


class Betting(StoppingRule):
    """Bets that the candidate is better than `d0`, and that it is worse, for differences in [-1, 1].

    Each verdict has its own error rate, at most `alpha`, and `beta` for "futile", over any number of looks. That is the
    chance ever to reach a verdict that is wrong about each task's expected difference, whatever came before that task.
    Tasks need not be alike or independent.

    `goal` says what ends the test:
    - "superior": better than `d0`; also worse than `d0`, which is "inferior"; and with an `effect`, "futile": not
      better than `d0` by that much. With a `margin`, a test that ends at `at_most` tasks may still be "equivalent"
      (within the margin of `d0`) or "non-inferior" (not worse than `d0` by the margin).
    - "non-inferior": that alone, or "inferior", worse by more than the margin.
    - "equivalent": that alone, or "superior" or "inferior", better or worse by more than the margin.

    With an `effect`, bets are of the best sizes for it; without, of every size (see `bets` for their `spread`), which
    takes a few more tasks.
    """

    name: ClassVar[str] = "betting"
    guarantee: ClassVar[str] = "error rates hold for any number of tasks and looks"

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        d0: float = 0.0,
        effect: float | None = None,
        beta: float = 0.1,
        goal: BettingGoal = "superior",
        margin: float | None = None,
        at_most: int | None = None,
        spread: BetSpread = "log",
    ) -> None:
        check_rate("alpha", alpha)
        check_rate("beta", beta)
        check_between("d0", d0, -1, 1)
        if effect is not None:
            check_between("effect", effect, 0, 1 - d0)
        if goal not in get_args(BettingGoal):
            raise SeedbedError(f"goal: found {shown(goal)}; expected superior, non-inferior or equivalent")
        if margin is not None:
            check_between("margin", margin, 0, 1 - abs(d0))
        elif goal != "superior":
            raise SeedbedError(f"margin: found none; expected how much worse still counts as {goal}, such as 0.05")
        if at_most is not None:
            check_at_most(at_most)
        if spread not in get_args(BetSpread):
            raise SeedbedError(f"spread: found {shown(spread)}; expected log or even")
        self.alpha, self.beta, self.d0, self.effect = alpha, beta, d0, effect
        self.goal, self.margin, self.at_most = goal, margin, at_most
        self.spread = spread
        self._stakes = bets(effect, spread)
        self._claims = self._all_claims()
        bet_on = dict.fromkeys(bet for claim in self._claims for bet in claim.bets)
        self._bets = {key: Bet(key[1], key[0], self._stakes.shares) for key in bet_on}
        self._money = {key: self._stakes.start.copy() for key in self._bets}
        self._most = 0.0
        super().__init__()

    def _all_claims(self) -> list[_Claim]:
        """The possible claims, in the order in which they are checked."""
        enough, d0, margin = math.log(1 / self.alpha), self.d0, self.margin or 0.0
        if self.goal == "equivalent":
            return [
                _Claim("superior", (("above", d0 + margin),), enough),
                _Claim("inferior", (("below", d0 - margin),), enough),
                _Claim("equivalent", (("above", d0 - margin), ("below", d0 + margin)), enough),
            ]
        least = d0 - margin if self.goal == "non-inferior" else d0
        claims = [_Claim(self.goal, (("above", least),), enough), _Claim("inferior", (("below", least),), enough)]
        if self.goal == "superior" and self.effect is not None:
            claims.append(_Claim("futile", (("below", d0 + self.effect),), math.log(1 / self.beta)))
        if self.goal == "superior" and self.margin is not None:
            within: tuple[tuple[BetSide, float], ...] = (("above", d0 - margin), ("below", d0 + margin))
            claims.append(_Claim("equivalent", within, enough, last_only=True))
            claims.append(_Claim("non-inferior", within[:1], enough, last_only=True))
        return claims

    def _check(self, difference: float) -> None:
        if isinstance(difference, bool) or not isinstance(difference, int | float) or not -1 <= difference <= 1:
            raise SeedbedError(
                f"difference: found {shown(difference)}; expected a number from -1 to 1. Use a metric with scores "
                "from 0 to 1"
            )

    def _learn(self, difference: float) -> None:
        for key, money in self._money.items():
            money += self._bets[key].growth(np.array(difference))

    def _judge(self, wins: int, ties: int, losses: int) -> Answer:
        n = wins + ties + losses
        evidences = {key: evidence(money) for key, money in self._money.items()}
        verdict: Conclusion = "inconclusive" if n == self.at_most else "continue"
        verdict = next((claim.verdict for claim in self._claims if claim.holds(evidences, n == self.at_most)), verdict)
        sought = next(claim for claim in self._claims if claim.verdict == self.goal)
        against = [claim for claim in self._claims if claim.verdict == "futile"]
        now = float(sought.weigh(evidences))
        self._most = max(self._most, now)
        return Answer(
            verdict,
            n,
            wins,
            ties,
            losses,
            spent=self.alpha if n else 0.0,
            boundary=None,
            p=math.exp(-self._most),
            evidence=now,
            high=sought.enough,
            futility=float(against[0].weigh(evidences)) if against else None,
        )

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """A confidence sequence for the mean difference: the true mean stays inside at all looks together.

        It holds if each task's expected difference is the same, whatever came before it, as for tasks in random order.
        """
        return interval(Counter(self._taken), self._stakes, confidence)

    def at_least(self) -> float:
        """By how much the candidate is better at least, if it is superior: the largest mean that a bet on more than it
        would have refuted, with the error rate of the test."""
        values, counts = np.array(sorted(Counter(self._taken).items()), dtype=float).T
        sought = next(claim for claim in self._claims if claim.verdict == "superior")

        def possible(mean: float) -> bool:
            grown = counts @ Bet(mean, "above", self._stakes.shares).growth(values)
            return bool(evidence(self._stakes.start + grown) < sought.enough)

        return first_enough(possible, sought.bets[0][1], 1.0)

    def ends(self, differences: Floats) -> Ends:
        rows, tasks = differences.shape
        values, which = np.unique(differences, return_inverse=True)
        which = which.reshape(rows, tasks)
        growth = {key: bet.growth(values) for key, bet in self._bets.items()}
        money = {key: np.tile(self._stakes.start, (rows, 1)) for key in self._bets}
        verdicts = np.full(rows, "inconclusive", dtype="<U12")
        ended = np.full(rows, tasks)
        alive: Integers = np.arange(rows)
        for n in range(1, min(tasks, self.at_most or tasks) + 1):
            evidences = {}
            for key in money:
                money[key] += growth[key][which[alive, n - 1]]
                evidences[key] = evidence(money[key])
            going_on = np.ones(len(alive), dtype=bool)
            for claim in self._claims:
                done = going_on & claim.holds(evidences, n == self.at_most)
                verdicts[alive[done]], ended[alive[done]] = claim.verdict, n
                going_on &= ~done
            alive = alive[going_on]
            money = {key: stakes[going_on] for key, stakes in money.items()}
        return Ends(verdicts, ended)
