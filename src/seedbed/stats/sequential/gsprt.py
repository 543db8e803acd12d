"""Likelihood ratio tests of "better by nothing" against "better by the effect", as used to test chess engines.

They take the fewest tasks. Their error rates hold approximately, if no single task moves the ratio much and the cap is
rarely reached, but are not guaranteed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from typing import ClassVar, Literal

import numpy as np

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Bools, Floats, Integers, first_enough
from seedbed.stats.sequential.stopping_rule import (
    SIGNS,
    Answer,
    Conclusion,
    Ends,
    StoppingRule,
    check_at_most,
    check_between,
    check_rate,
)

UNSEEN = 1e-3
"""The count used for an outcome that never came, so that every mean stays possible."""


def log_likelihood_ratio(counts: Floats, d0: float, d1: float) -> Floats:
    """How much likelier the counts are if the mean difference is `d1` than if it is `d0`, in logs.

    `counts` holds, along its last axis, how often each of several evenly spaced differences from -1 to 1 came. Both
    likelihoods are the largest that any distribution on these differences with that mean gives.
    """
    counts = np.where(counts == 0, UNSEEN, counts)
    differences = np.linspace(-1.0, 1.0, counts.shape[-1])
    shares = counts / counts.sum(axis=-1, keepdims=True)
    logs: Floats = (counts * (_tilt(shares, differences - d0) - _tilt(shares, differences - d1))).sum(axis=-1)
    return logs


def _tilt(shares: Floats, values: Floats) -> Floats:
    """By how much the likeliest distribution in which these values have mean 0 lowers each share, in logs."""
    solve = _solve_three if len(values) == 3 else _solve
    return np.log1p(solve(shares, values)[..., None] * values)


def _solve_three(shares: Floats, values: Floats) -> Floats:
    """The x for which the sum of shares * values / (1 + x values) is 0: with three values, a root of a quadratic."""
    constant = shares @ values
    linear = shares @ (values * (values.sum() - values))
    square = float(np.prod(values))
    root = np.sqrt(np.maximum(linear**2 - 4 * square * constant, 0.0))
    # In this form the quadratic may also be linear, as for a mean of 0.
    x: Floats = 2 * constant / (root - linear)
    return x


def _solve(shares: Floats, values: Floats) -> Floats:
    """The same x for any values: Newton's steps, shortened where one leaves the interval with the root."""
    flat = shares.reshape(-1, len(values))
    x = np.zeros(len(flat))
    low, high = np.full(len(flat), -1 / values.max()), np.full(len(flat), -1 / values.min())
    rest = np.arange(len(flat))
    for _ in range(200):
        parts = values / (1 + x[rest, None] * values)
        height = (flat[rest] * parts).sum(axis=-1)
        low[rest] = np.where(height > 0, x[rest], low[rest])
        high[rest] = np.where(height < 0, x[rest], high[rest])
        then = x[rest] + height / (flat[rest] * parts**2).sum(axis=-1)
        # Not to an end: there the sum is infinite, and every further step tiny.
        then = np.clip(then, x[rest] + 0.9 * (low[rest] - x[rest]), x[rest] + 0.9 * (high[rest] - x[rest]))
        # At the root the likelihood is flat, so an error of this size in x does not matter.
        far = np.abs(then - x[rest]) > 1e-10 * np.maximum(1, np.abs(then))
        x[rest] = then
        rest = rest[far]
        if not len(rest):
            break
    return x.reshape(shares.shape[:-1])


class _Walk:
    """The ratio of one test, or of many at once, on its way between two bounds.

    The last step leads past a bound, so tests that stop at the bound itself are more certain than necessary. The
    overshoot is estimated from the steps that took the ratio further than ever before, on each side (Siegmund 1985,
    corollary 8.33; Van den Bergh). The bounds move closer by that.
    """

    def __init__(self, low: float, high: float, *, rows: int | None = None, correct: bool) -> None:
        self._bounds = low, high
        self._correct = correct
        # For the lowest and the highest value ever: it, the sum of the steps to it, and of their squares.
        self._records = np.zeros((2, 3) if rows is None else (2, 3, rows))

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        low, high = self._bounds
        steps, squares = self._records[:, 1], self._records[:, 2]
        over = squares / np.maximum(2 * steps, 1e-300) if self._correct else np.zeros_like(steps)
        return low + over[0], high - over[1]

    def step(self, ratio: Floats) -> tuple[Bools, Bools]:
        """Whether the ratio is at or beyond the lower and the upper bound now."""
        for record, sign in zip(self._records, (-1, 1), strict=True):
            further = np.maximum(sign * ratio - record[0], 0.0)
            record += np.array([further, further, further**2])
        low, high = self.bounds
        return ratio <= low, ratio >= high

    def keep(self, rows: Bools) -> None:
        self._records = self._records[..., rows]


class _RatioTest(StoppingRule):
    """Superior at the upper bound, futile at the lower one, inconclusive after `at_most` tasks."""

    guarantee: ClassVar[str] = "design error rates, not guaranteed"
    guaranteed: ClassVar[bool] = False

    _differences: tuple[float, ...]

    def __init__(self, alpha: float, beta: float, d0: float, effect: float, at_most: int | None, correct: bool) -> None:
        check_rate("alpha", alpha)
        check_rate("beta", beta)
        check_between("d0", d0, -1, 1)
        check_between("effect", effect, 0, 1 - d0)
        if at_most is not None:
            check_at_most(at_most)
        self.alpha, self.beta, self.d0, self.effect, self.at_most = alpha, beta, d0, effect, at_most
        self._bounds = math.log(beta / (1 - alpha)), math.log((1 - beta) / alpha)
        self._correct = correct
        self._walk = _Walk(*self._bounds, correct=correct)
        self._counts = np.zeros(len(self._differences))
        super().__init__()

    @abstractmethod
    def _ratio(self, counts: Floats) -> Floats:
        """The log of the likelihood ratio, from how often each difference came."""

    def _check(self, difference: float) -> None:
        if difference not in self._differences:
            *most, last = (f"{one:g}" for one in self._differences)
            raise SeedbedError(
                f"difference: found {shown(difference)}; expected {', '.join(most)} or {last}. "
                'For other scores register the rule "betting"'
            )

    def _learn(self, difference: float) -> None:
        self._counts[self._differences.index(difference)] += 1

    def _judge(self, wins: int, ties: int, losses: int) -> Answer:
        n = wins + ties + losses
        ratio = self._ratio(self._counts) if n else np.zeros(())
        below, above = self._walk.step(ratio)
        verdict: Conclusion = "inconclusive" if n == self.at_most else "continue"
        if below:
            verdict = "futile"
        elif above:
            verdict = "superior"
        low, high = map(float, self._walk.bounds)
        spent = self.alpha if n else 0.0
        return Answer(verdict, n, wins, ties, losses, spent, None, None, float(ratio), low, high)

    def _outcomes(self) -> str | list[float]:
        written = self._differences == tuple(sorted(SIGNS))
        return "".join(SIGNS[difference] for difference in self._taken) if written else super()._outcomes()

    def ends(self, differences: Floats) -> Ends:
        rows, tasks = differences.shape
        tasks = min(tasks, self.at_most or tasks)
        verdicts = np.full(rows, "inconclusive", dtype="<U12")
        ended = np.full(rows, tasks)
        alive: Integers = np.arange(rows)
        counts = np.zeros((rows, len(self._differences)))
        walk = _Walk(*self._bounds, rows=rows, correct=self._correct)
        for n in range(1, tasks + 1):
            counts += differences[alive, n - 1, None] == np.array(self._differences)
            below, above = walk.step(self._ratio(counts))
            verdicts[alive[above]], verdicts[alive[below]] = "superior", "futile"
            stays = ~(below | above)
            ended[alive[~stays]] = n
            alive, counts = alive[stays], counts[stays]
            walk.keep(stays)
        return Ends(verdicts, ended)


class Gsprt(_RatioTest):
    """The generalised sequential probability ratio test: the share of ties need not be known.

    It weighs "better by `d0` + `effect`" against "better by `d0`". Scores are 0 or 1: of one run a task (`repeats=1`,
    differences -1, 0, 1), or the mean of two (`repeats=2`, differences in halves).
    """

    name: ClassVar[str] = "gsprt"

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        beta: float = 0.1,
        d0: float = 0.0,
        effect: float,
        repeats: Literal[1, 2] = 1,
        overshoot: bool = True,
        at_most: int | None = None,
    ) -> None:
        if repeats not in (1, 2):
            raise SeedbedError(f"repeats: found {shown(repeats)}; expected 1 or 2 runs of each task")
        self.repeats, self.overshoot = repeats, overshoot
        self._differences = (-1.0, 0.0, 1.0) if repeats == 1 else (-1.0, -0.5, 0.0, 0.5, 1.0)
        super().__init__(alpha, beta, d0, effect, at_most, overshoot)

    def _ratio(self, counts: Floats) -> Floats:
        return log_likelihood_ratio(counts, self.d0, self.d0 + self.effect)

    def at_least(self) -> float:
        """By how much the candidate is better at least, if it is superior: the largest `d0` with which the same
        differences would still have ended the test superior."""
        enough = self.answer.high or 0.0

        def possible(d0: float) -> bool:
            return bool(log_likelihood_ratio(self._counts, d0, d0 + self.effect) < enough)

        return first_enough(possible, self.d0, 1 - self.effect)


class Sprt(_RatioTest):
    """Wald's sequential probability ratio test of the tasks that differ, for scores that are 0 or 1.

    It weighs "better by `d0` + `effect`" against "better by `d0`", if scores differ on a share `discordance` of tasks,
    which must be known beforehand.
    """

    name: ClassVar[str] = "sprt"

    def __init__(
        self,
        *,
        alpha: float = 0.05,
        beta: float = 0.1,
        d0: float = 0.0,
        effect: float,
        discordance: float,
        at_most: int | None = None,
    ) -> None:
        check_between("discordance", discordance, max(abs(d0), abs(d0 + effect)), 1 + 1e-12)
        self.discordance = discordance
        self._differences = (-1.0, 0.0, 1.0)
        lost, won = (math.log((discordance + sign * (d0 + effect)) / (discordance + sign * d0)) for sign in (-1, 1))
        self._worth = np.array([lost, 0.0, won])
        super().__init__(alpha, beta, d0, effect, at_most, False)

    def _ratio(self, counts: Floats) -> Floats:
        logs: Floats = counts @ self._worth
        return logs

    def wins_to_end(self, differed: int) -> tuple[int | None, int | None]:
        """Of tasks that differ, the fewest wins with which the test ends superior, and the most with which it ends
        futile; None where no number does."""
        low, high = self._bounds

        def ratio(wins: int) -> float:
            return float(self._ratio(np.array([differed - wins, 0.0, wins])))

        wins = range(differed + 1)
        superior, going_on = (
            bisect_left(wins, 1, key=way)
            for way in (lambda won: int(ratio(won) >= high), lambda won: int(ratio(won) > low))
        )
        return superior if superior <= differed else None, going_on - 1 if going_on else None

    def at_least(self) -> float:
        """By how much the candidate is better at least, if it is superior.

        The largest share of wins among tasks that differ against which the same wins and losses, weighed with the odds
        of the test, would still have ended it superior; times the share of tasks that did differ, whatever was
        registered.
        """
        lost, tied, won = self._counts.tolist()
        odds = float(self._worth[2] - self._worth[0])
        differed = lost + won
        share = math.expm1((won * odds - self._bounds[1]) / differed) / math.expm1(odds)
        return (2 * min(share, 1.0) - 1) * differed / (differed + tied)
