"""How often candidates that are no better are called better, and what the levels of attempts cost an honest one.

    python benchmarks/attempts.py [--experiments 10000] [--seed 0]

Nothing here is the code of seedbed: the exact sequential McNemar test, the levels of attempts, the scores of missing
answers and the division among several candidates are computed again from their definitions, with numpy and scipy. Only
the last line compares: the test of this script with that of seedbed, on random sequences.

Scores are 0 or 1, alpha is 0.05. Every test is looked at after every unit and may spend level * (n / N)^1.5 by unit n
of N. The first attempt has 15/16 of alpha, attempt j has alpha / 16 * 6 / (pi^2 (j - 1)^2) and half of what earlier
tests left over. "share" is the share of experiments in which any candidate that is no better was called better, with
its exact 95 % interval; in part f it is the power. "at most" is what is promised; rows without it are for contrast:
they show what the same experiments give without the rule.

a  one attempt at the whole of alpha, 300 tasks, of which a share differs;
b  tasks from sources: 20 tasks a source, intraclass correlation of the differences 0.3, half of the tasks differ; a
   source is one unit, which counts as the sign of its mean difference;
c  a share of the control's passes is missing, and as many of the candidate's fails; missing answers count as the
   control's pass and as the candidate's fail;
d  k attempts in a row, on fresh tasks each or on the same tasks with one run of the control, which all attempts share;
   "with futility" ends a test as soon as a bet has shown that the candidate is not better by 0.1. A test leaves over
   what it had not spent when it ended, or with "refund only after the last unit", which is what seedbed does, nothing
   if it ended before that.
   "computed" adds up, over the attempts until the first false winner, the chance of one given which tasks differ: the
   same share, known far more exactly, as it does not depend on the luck of the wins;
e  several candidates in one attempt, with equal parts of its level, on the same tasks and one run of the control;
f  power of a first attempt with a gain, at alpha and at 15/16 of alpha, on the same experiments.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Signs = NDArray[np.int8]

ALPHA = 0.05
FIRST = 15 / 16
TASKS = 300
EFFECT = 0.1
BETA = 0.1
MOST_LOSS = 0.015
CHUNK = 2_000
"""How many experiments are computed at once: their arrays fit into the cache of a processor."""


@dataclass(frozen=True)
class Ends:
    """How the test of each experiment ended, and how much of its level it had spent by then.

    `chance` is what it would have spent by its last unit: given which units differ, the chance of being called better.
    """

    better: Bools
    worse: Bools
    futile: Bools
    units: NDArray[np.int64]
    spent: Floats
    chance: Floats


def run_tests(signs: Signs, level: float | Floats, *, effect: float | None = None) -> Ends:
    """The exact sequential McNemar test of every row.

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
    return Ends(better, worse, futile, ended, spent_at_end, spent)


def shown_futile(wins: NDArray[np.int64], ties: NDArray[np.int64], losses: NDArray[np.int64], effect: float) -> Bools:
    """Whether bets that the mean difference is below the effect have made 1 / BETA times their money, on average."""
    shares = np.geomspace(min(effect, 0.9), min(8 * effect, 0.9), 12)[:, None]
    won, tied, lost = (np.log1p(shares * ((1 - each) / (1 - effect) - 1)) for each in (1, 0, -1))
    return np.exp(wins * won + ties * tied + losses * lost).mean(axis=0) >= 1 / BETA


def differing(rng: np.random.Generator, rows: int, units: int, share: float, gain: float = 0.0) -> Signs:
    """Wins, ties and losses of independent tasks, of which a share differs."""
    luck = rng.random((rows, units))
    return (luck < (share + gain) / 2).astype(np.int8) - (luck > 1 - (share - gain) / 2).astype(np.int8)


def difficulties(rng: np.random.Generator, rows: int) -> Floats:
    """The chance to pass each task, the same for both playbooks. Two runs of a task differ on 0.3 of the tasks."""
    return rng.beta(0.75, 0.75, (rows, TASKS))


def passes(rng: np.random.Generator, chances: Floats) -> Floats:
    return (rng.random(chances.shape) < chances).astype(float)


def signs_of(difference: Floats) -> Signs:
    return np.sign(difference).astype(np.int8)


def peeking(share: float) -> Callable[[np.random.Generator, int], Bools]:
    return lambda rng, rows: run_tests(differing(rng, rows, TASKS, share), ALPHA).better


def sourced(sources: int, by_source: bool) -> Callable[[np.random.Generator, int], Bools]:
    """Each source favours one of the two by chance, so that its tasks tend to differ in the same direction."""
    size, differ, correlation = 20, 0.5, 0.3
    spread = (differ / correlation - 1) / 2  # so that the variance of a source's mean difference is the correlation

    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        won = rng.beta(spread, spread, (rows, sources, 1))
        luck = rng.random((rows, sources, size))
        tasks = (luck < differ * won).astype(np.int8) - (luck > 1 - differ * (1 - won)).astype(np.int8)
        units = np.sign(tasks.sum(axis=2)).astype(np.int8) if by_source else tasks.reshape(rows, -1)
        return run_tests(units, ALPHA).better

    return experiments


def incomplete(share: float, counted: str) -> Callable[[np.random.Generator, int], Bools]:
    """The control loses a share of its passes, and the candidate as many of its fails."""

    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        chances = difficulties(rng, rows)
        control, candidate = passes(rng, chances), passes(rng, chances)
        count = np.rint(share * control.sum(axis=1)).astype(np.int64)
        control[some_of(rng, control == 1, count)] = np.nan
        candidate[some_of(rng, candidate == 0, count)] = np.nan
        if counted == "worst case":
            difference = np.where(np.isnan(candidate), 0.0, candidate) - np.where(np.isnan(control), 1.0, control)
        elif counted == "as fails":
            difference = np.nan_to_num(candidate) - np.nan_to_num(control)
        else:
            difference = np.nan_to_num(candidate - control)
        return run_tests(signs_of(difference), ALPHA).better

    return experiments


def some_of(rng: np.random.Generator, where: Bools, count: NDArray[np.int64]) -> Bools:
    """So many of the marked places of each row, at random."""
    order = np.where(where, rng.random(where.shape), 2.0).argsort(axis=1).argsort(axis=1)
    return (order < count[:, None]) & where


def in_a_row(
    attempts: int, *, same_tasks: bool = False, effect: float | None = None, refund: str = "all", whole: bool = False
) -> Callable[[np.random.Generator, int], Floats]:
    """Whether each of the attempts found a false winner, and the chance that it is the first to do so.

    `whole` gives every attempt the whole of alpha.

    `refund` says which tests leave over what they did not spend: "all", or only those "read to the end".
    """

    def experiments(rng: np.random.Generator, rows: int) -> Floats:
        chances = difficulties(rng, rows)
        control = passes(rng, chances)
        left, none_yet = np.zeros(rows), np.ones(rows, dtype=bool)
        found: list[Bools] = []
        first: list[Floats] = []
        for number in range(1, attempts + 1):
            level = np.full(rows, ALPHA * FIRST)
            if number > 1:
                left /= 2
                level = ALPHA * (1 - FIRST) * 6 / (math.pi**2 * (number - 1) ** 2) + left
            if whole:
                level = np.full(rows, ALPHA)
            signs = signs_of(passes(rng, chances) - control) if same_tasks else differing(rng, rows, TASKS, 0.3)
            ends = run_tests(signs, level, effect=effect)
            kept = ends.better | ends.worse | ends.futile if refund == "read to the end" else np.zeros(rows, dtype=bool)
            left += np.where(kept, 0.0, level - ends.spent)
            found.append(ends.better)
            first.append(ends.chance * none_yet)
            none_yet &= ~ends.better
        return np.moveaxis(np.array([found, first], dtype=float), -1, 0)

    return experiments


def together(candidates: int, level: float) -> Callable[[np.random.Generator, int], Bools]:
    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        chances = difficulties(rng, rows)
        control = passes(rng, chances)
        found = np.zeros(rows, dtype=bool)
        for _ in range(candidates):
            found |= run_tests(signs_of(passes(rng, chances) - control), level).better
        return found

    return experiments


def honest(gain: float, share: float) -> Callable[[np.random.Generator, int], Bools]:
    """Whether a candidate with a gain is found at alpha, and at the level of a first attempt."""

    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        signs = differing(rng, rows, TASKS, share, gain)
        return np.array([run_tests(signs, level).better for level in (ALPHA, FIRST * ALPHA)]).T

    return experiments


class Table:
    """Prints a row for each setting as soon as it is known. Each has random numbers of its own."""

    def __init__(self, experiments: int, seed: int) -> None:
        self._experiments, self._seed = experiments, seed
        self._settings = itertools.count()
        print("| part | setting | share | 95 % interval | at most | holds |\n|---|---|---:|---:|---:|---|", flush=True)

    def run(self, experiments: Callable[[np.random.Generator, int], Any]) -> Any:
        rng = np.random.default_rng([self._seed, next(self._settings)])
        return np.concatenate([experiments(rng, rows) for rows in chunks(self._experiments)])

    def row(self, part: str, setting: str, found: Bools, promised: bool = True) -> None:
        count = int(found.sum())
        interval = stats.binomtest(count, len(found)).proportion_ci(method="exact")
        self._print(part, setting, count / len(found), interval.low, interval.high, ALPHA if promised else None)

    def mean(self, part: str, setting: str, values: Floats, most: float) -> None:
        mean, half = values.mean(), 1.96 * values.std() / math.sqrt(len(values))
        self._print(part, setting, mean, mean - half, mean + half, most)

    @staticmethod
    def _print(part: str, setting: str, share: float, low: float, high: float, most: float | None) -> None:
        holds = "–"
        if most is not None:
            holds = "yes" if share <= most else "within chance" if low <= most else "no"
        promised = "–" if most is None else f"{most:g}"
        print(f"| {part} | {setting} | {share:.4f} | {low:.4f} to {high:.4f} | {promised} | {holds} |", flush=True)


def chunks(experiments: int) -> Iterator[int]:
    for first in range(0, experiments, CHUNK):
        yield min(CHUNK, experiments - first)


def print_table(experiments: int, seed: int) -> None:
    table = Table(experiments, seed)
    for share in (0.1, 0.3, 0.5):
        table.row("a", f"one attempt, {share:g} differ", table.run(peeking(share)))
    for sources in (10, 20, 40, 60):
        table.row("b", f"{sources} sources", table.run(sourced(sources, by_source=True)))
    table.row("b", "20 sources, every task a unit", table.run(sourced(20, by_source=False)), promised=False)
    for counted in ("worst case", "as fails", "as ties"):
        for share in (0.02, 0.05, 0.1):
            found = table.run(incomplete(share, counted))
            table.row("c", f"{share:.0%} missing, counted {counted}", found, promised=counted == "worst case")
    print_attempts(table)
    for candidates in (2, 5, 10):
        found = table.run(together(candidates, ALPHA * FIRST / candidates))
        table.row("e", f"{candidates} candidates", found)
    table.row("e", "10 candidates, alpha each", table.run(together(10, ALPHA)), promised=False)
    for gain, share in ((0.1, 0.3), (0.05, 0.3), (0.1, 0.5)):
        found = table.run(honest(gain, share))
        name = f"gain {gain:g}, {share:g} differ"
        table.row("f", f"power, {name}, alpha", found[:, 0], promised=False)
        table.row("f", f"power, {name}, 15/16 of alpha", found[:, 1], promised=False)
        table.mean("f", f"loss, {name}", found[:, 0].astype(float) - found[:, 1], MOST_LOSS)


def print_attempts(table: Table) -> None:
    counts = (1, 2, 5, 10, 20)
    most = max(counts)
    ended = "refund only after the last unit"
    for name, experiments, promised, computed in (
        ("fresh tasks", in_a_row(most), True, True),
        (f"fresh tasks, {ended}", in_a_row(most, refund="read to the end"), True, True),
        ("same tasks, one control run", in_a_row(most, same_tasks=True), True, False),
        (
            f"same tasks, one control run, {ended}",
            in_a_row(most, same_tasks=True, refund="read to the end"),
            True,
            False,
        ),
        ("fresh tasks, with futility", in_a_row(most, effect=EFFECT), True, False),
        (
            f"fresh tasks, with futility, {ended}",
            in_a_row(most, effect=EFFECT, refund="read to the end"),
            True,
            False,
        ),
        ("fresh tasks, alpha each time", in_a_row(most, whole=True), False, False),
    ):
        found, first = np.moveaxis(table.run(experiments), 1, 0)
        for count in counts:
            table.row("d", f"k = {count}, {name}", found[:, :count].any(axis=1), promised)
        if computed:
            table.mean("d", f"k = {most}, {name}, computed", first.sum(axis=1), ALPHA)


def print_agreement(sequences: int, seed: int) -> None:
    """Compare verdict, number of units and what was spent with the test of seedbed, on sequences of all sorts."""
    from seedbed.stats.sequential.exact import ExactMcNemar

    rng, agreed = np.random.default_rng([seed, 1_000]), 0
    for number in range(sequences):
        units, level = int(rng.integers(20, 401)), float(ALPHA * 10 ** rng.uniform(-2, 0))
        share, effect = float(rng.uniform(0.05, 0.9)), EFFECT if number % 2 else None
        signs = differing(rng, 1, units, share, float(rng.uniform(-1, 1) * min(share, 0.25)))
        ends = run_tests(signs, level, effect=effect)
        rule = ExactMcNemar(alpha=level, at_most=units, effect=effect)
        for sign in signs[0].tolist():
            answer = rule.update(float(sign))
            if answer.verdict != "continue":
                break
        verdict = "inconclusive"
        for name, ended in (("superior", ends.better), ("inferior", ends.worse), ("futile", ends.futile)):
            verdict = name if ended[0] else verdict
        same_spent = math.isclose(answer.spent or 0.0, ends.spent[0], rel_tol=1e-6, abs_tol=1e-15)
        agreed += (answer.verdict, answer.n) == (verdict, int(ends.units[0])) and same_spent
    print(f"\nagrees with the product in {agreed:,} of {sequences:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000, help="of each setting (default %(default)s)")
    parser.add_argument("--sequences", type=int, default=500, help="compared with seedbed (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default %(default)s)")
    options = parser.parse_args()
    print_table(options.experiments, options.seed)
    print_agreement(options.sequences, options.seed)


if __name__ == "__main__":
    main()
