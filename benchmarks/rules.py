"""The stopping rules of comparisons, computed from their definitions for many experiments at once.

Nothing here is the code of seedbed, so that other scripts can check it by these. Each rule takes the gains of many
experiments, one a row and one unit a column, and the error rate of each row or of all. It looks after every unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

BETA = 0.1
SHARES = np.geomspace(1e-4, 0.9, 30)
WEIGHTS = SHARES**0.75 / (SHARES**0.75).sum()
UNSEEN = 1e-3


@dataclass(frozen=True)
class Ends:
    """How the test of each experiment ended, and after how many units."""

    better: Bools
    worse: Bools
    futile: Bools
    units: Counts


@dataclass(frozen=True)
class ExactEnds(Ends):
    """`spent` is what it had spent of its level by then; `chance` is what it would have spent by its last unit: given
    which units differ, the chance of being called better. `needed` is how many wins are after each unit."""

    spent: Floats
    chance: Floats
    needed: NDArray[np.int16]


@dataclass(frozen=True)
class BettingEnds(Ends):
    """`money` is how many times its money the side of the candidate had made by then."""

    money: Floats


@dataclass(frozen=True)
class RatioEnds(Ends):
    """`high` is the bound of the ratio's log where it ended, moved by the overshoot."""

    high: Floats


def exact(signs: NDArray[np.int8], level: float | Floats, *, effect: float | None = None) -> ExactEnds:
    """The exact sequential McNemar test of every row, which may spend level * (n / N)^1.5 by unit n of N.

    If both playbooks are equal, each unit that differs is a win with chance 1/2. `chance[w]` is the chance of w wins
    so far without having been called better. After each unit the largest number of wins that has not been given away
    yet ends the test, as long as its chance fits into what may be spent by now.
    """
    rows, units = signs.shape
    level = np.broadcast_to(np.asarray(level, dtype=float), rows)
    columns = np.ascontiguousarray(signs.T)
    every = np.arange(rows)
    chance = np.zeros((int((signs != 0).sum(axis=1).max(initial=0)) + 2, rows))
    chance[0] = 1.0
    top = np.zeros(rows, dtype=np.int64)
    wins, losses = np.zeros((2, rows), dtype=np.int64)
    spent, spent_at_end = np.zeros((2, rows))
    better, worse, futile = np.zeros((3, rows), dtype=bool)
    going_on, ended = np.ones(rows, dtype=bool), np.full(rows, units)
    needed = np.zeros((units, rows), dtype=np.int16)
    for n in range(1, units + 1):
        sign = columns[n - 1]
        differs = sign != 0
        used = chance[: int(top.max()) + 2]
        moved = used * (0.5 * differs)
        used -= moved
        used[1:] += moved[:-1]
        top += differs
        may_spend = level * (n / units) ** 1.5
        while True:
            largest = chance[top, every]
            fits = spent + largest <= may_spend
            if not fits.any():
                break
            spent[fits] += largest[fits]
            chance[top[fits], every[fits]] = 0.0
            top[fits] -= 1
        needed[n - 1] = top + 1
        wins += sign > 0
        losses += sign < 0
        now_worse = going_on & (losses > top)
        now_better = going_on & (wins > top) & ~now_worse
        ends = now_better | now_worse
        if effect is not None:
            open_ = np.flatnonzero(going_on & ~ends)
            won, lost = wins[open_], losses[open_]
            now_futile = open_[shown_futile(won, n - won - lost, lost, effect)]
            futile[now_futile] = ends[now_futile] = True
        better |= now_better
        worse |= now_worse
        ended[ends] = n
        spent_at_end[ends] = spent[ends]
        going_on &= ~ends
    spent_at_end[going_on] = spent[going_on]
    return ExactEnds(better, worse, futile, ended, spent_at_end, spent, needed.T)


def shown_futile(wins: Counts, ties: Counts, losses: Counts, effect: float) -> Bools:
    """Whether bets that the mean difference is below the effect have made 1 / BETA times their money, on average."""
    shares = np.geomspace(min(effect, 0.9), min(8 * effect, 0.9), 12).reshape(-1, *[1] * np.ndim(wins))
    won, tied, lost = (np.log1p(shares * ((1 - each) / (1 - effect) - 1)) for each in (1, 0, -1))
    return np.exp(wins * won + ties * tied + losses * lost).mean(axis=0) >= 1 / BETA


def betting(
    gains: Floats | NDArray[np.int8], level: float, *, shares: Floats = SHARES, weights: Floats = WEIGHTS
) -> BettingEnds:
    """Thirty players bet a share of their money on every unit, for the candidate and, with money of their own, against
    it: the test ends when their mean has made 1 / level times its money."""
    rows, units = gains.shape
    (better, worse), ended, money = np.zeros((2, rows), dtype=bool), np.full(rows, units), np.ones(rows)
    alive, up = np.arange(rows), np.tile(weights, (rows, 1))
    down = up.copy()
    for n in range(1, units + 1):
        gained = shares * gains[alive, n - 1, None]
        up *= 1 + gained
        down *= 1 - gained
        money[alive] = up.sum(axis=1)
        won, lost = money[alive] >= 1 / level, down.sum(axis=1) >= 1 / level
        better[alive[won]], worse[alive[lost]] = True, True
        if (ends := won | lost).any():
            ended[alive[ends]] = n
            alive, up, down = alive[~ends], up[~ends], down[~ends]
    return BettingEnds(better, worse, np.zeros(rows, dtype=bool), ended, money)


def bounds(level: float) -> tuple[float, float]:
    """Wald's bounds for the log of a likelihood ratio."""
    return math.log(BETA / (1 - level)), math.log((1 - BETA) / level)


def sprt(signs: NDArray[np.int8], level: float, *, effect: float, discordance: float) -> Ends:
    """Wald's test: how much likelier the wins and losses are if the candidate is better by the effect, and scores
    differ on a share of tasks that is registered."""
    low, high = bounds(level)
    won, lost = (math.log((discordance + sign * effect) / discordance) for sign in (1, -1))
    ratio = np.cumsum(np.where(signs > 0, won, np.where(signs < 0, lost, 0.0)), axis=1)
    below, above = ratio <= low, ratio >= high
    over = below | above
    ends = over.any(axis=1)
    at = np.where(ends, over.argmax(axis=1), signs.shape[1] - 1)
    rows = np.arange(len(signs))
    return Ends(above[rows, at], np.zeros(len(signs), dtype=bool), below[rows, at], at + 1)


def gsprt(gains: Floats, level: float, *, effect: float, repeats: int = 1) -> RatioEnds:
    """The generalised test: each mean gets the likelihood of the best distribution with that mean. The bounds are
    moved by how far, on average, the records of the ratio so far went beyond the ones before."""
    rows, units = gains.shape
    (low, high), values = bounds(level), np.linspace(-1, 1, 2 * repeats + 1)
    better, futile, ended, at_high = *np.zeros((2, rows), dtype=bool), np.full(rows, units), np.full(rows, high)
    alive, counts = np.arange(rows), np.zeros((rows, len(values)))
    records = np.zeros((2, 3, rows))  # of the lowest and the highest ratio: it, the steps to it, and their squares
    for n in range(1, units + 1):
        counts += gains[alive, n - 1, None] == values
        ratio = likelihood(counts, effect) - likelihood(counts, 0.0)
        for record, sign in zip(records, (-1, 1), strict=True):
            further = np.maximum(sign * ratio - record[0], 0.0)
            record += np.array([further, further, further**2])
        over = records[:, 2] / np.maximum(2 * records[:, 1], 1e-300)
        below = ratio <= low + over[0]
        above = (ratio >= high - over[1]) & ~below
        futile[alive[below]], better[alive[above]], at_high[alive] = True, True, high - over[1]
        if (ends := below | above).any():
            ended[alive[ends]] = n
            alive, counts, records = alive[~ends], counts[~ends], records[..., ~ends]
    return RatioEnds(better, np.zeros(rows, dtype=bool), futile, ended, at_high)


def likelihood(counts: Floats, mean: float) -> Floats:
    """The log-likelihood of the distribution with this mean that makes the counts of evenly spaced values likeliest."""
    counts = np.where(counts == 0, UNSEEN, counts)
    if counts.shape[-1] == 3:  # the share of losses is the root of a quadratic
        lost, tied, won = counts.T
        n, linear = lost + tied + won, (won + lost) * (1 - mean) - 2 * mean * (lost + tied)
        losses = (linear + np.sqrt(linear**2 + 8 * n * lost * mean * (1 - mean))) / (4 * n)
        return lost * np.log(losses) + tied * np.log(1 - mean - 2 * losses) + won * np.log(losses + mean)
    values = np.linspace(-1, 1, counts.shape[-1]) - mean
    shares = counts / counts.sum(axis=-1, keepdims=True)
    low, high = np.full(len(counts), -1 / values.max()), np.full(len(counts), -1 / values.min())
    for _ in range(45):
        middle = (low + high) / 2
        falls = (shares * values / (1 + middle[:, None] * values)).sum(axis=1) > 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return (counts * np.log(shares / (1 + low[:, None] * values))).sum(axis=1)
