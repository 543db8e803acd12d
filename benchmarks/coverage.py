"""How often each 95 % interval that seedbed prints covers the truth, as tables.

    python benchmarks/coverage.py [--experiments 10000] [--only rates graded sources differences stopping agreement]

Data are drawn, comparisons are stopped (by benchmarks/rules.py) and what is covered is counted without the code of
seedbed; the intervals are those of scorecards, verdicts and judges. One that reaches beyond what scores can be counts
as one that does not cover. The first twenty experiments of each setting are also run through the product as a whole,
and must give the same verdict and the same interval.

Comparisons are of passes and failures on at most 200 tasks. Rules hope for a gain of 0.1, and Wald's SPRT registers
that scores differ on 0.3 of the tasks, whether they do or not. "At least" is how often the bound beside a superior
verdict is above the true gain; "too high" is how often the stop-adjusted estimate is, where it is one.

Judges and people agree on a share of the answers, and give the others values at random, with the same shares, or
"near" ones: the next value up or down. "Shares" is that of the first value; the others are equally common. Of two
values kappa is plain, of more it is weighted by squared distance, as `seedbed judge check` prints it. With more than
two values or 50 labels there are a twentieth as many experiments.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import rules
from numpy.typing import NDArray

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.intervals import mean_gain, mean_score
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.experiment import Design, Experiment, RuleChoice
from seedbed.experiments.sequential_test import SequentialTest
from seedbed.experiments.verdict import Verdict
from seedbed.stats.agreement import cohen_interval
from seedbed.stats.estimates import Interval, after_stopping, least_after_stopping
from seedbed.stats.scores import difference_interval, score_interval
from seedbed.stats.sequential import betting
from seedbed.stats.sequential.gsprt import Gsprt, Sprt

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
Row = tuple[list[str], float]
"""The texts of a setting and of what else was counted, and how often the interval covers."""

GRADED: dict[str, tuple[Draw, float]] = {
    "even": (lambda rng, n: rng.random(n), 0.5),
    "mostly high": (lambda rng, n: rng.beta(8, 2, n), 0.8),
    "four of five perfect": (lambda rng, n: np.where(rng.random(n) < 0.8, 1.0, rng.random(n)), 0.9),
    "nineteen of twenty nothing": (lambda rng, n: np.where(rng.random(n) < 0.95, 0.0, rng.random(n)), 0.025),
    "in quarters": (lambda rng, n: rng.integers(0, 5, n) / 4, 0.5),
}
SOURCES = ((10, 20), (20, 10), (40, 5))
"""How many sources, and tasks of each."""
ALIKE = (0.02, 0.2, 0.5)
"""How far tasks of one source correlate."""
DIFFER = ((0.05, 0.0), (0.05, 0.05), (0.1, 0.05), (0.3, 0.0), (0.3, 0.1), (0.3, 0.3), (0.5, 0.2))
"""On how many tasks scores differ, and the gain."""
RULES: dict[str, RuleChoice] = {
    "exact": "exact",
    "exact, futility": {"rule": "exact", "effect": 0.1},
    "betting": "betting",
    "sprt": {"rule": "sprt", "effect": 0.1, "discordance": 0.3},
    "gsprt": {"rule": "gsprt", "effect": 0.1},
}
STOPPED = ((0.3, 0.0), (0.3, 0.1), (0.3, -0.1), (0.1, 0.05), (0.5, 0.3))
MOST, ALPHA, EFFECT, REGISTERED = 200, 0.05, 0.1, 0.3
TASKS = Dataset(tuple(Task(f"t{n}", {"n": n}, "x") for n in range(MOST)))
CHECKED = 20
"""So many experiments of each setting are also run through the product as a whole."""


def covers(low: float, high: float, truth: float, least: float = 0.0) -> bool:
    return least <= low <= truth + 1e-9 and truth - 1e-9 <= high <= 1


def rates(runs: int) -> Iterator[Row]:
    for n in (10, 20, 50, 300):
        for rate in (0.01, 0.05, 0.2, 0.5, 0.9):

            @cache
            def held(passed: int, n: int = n, rate: float = rate) -> bool:
                interval = mean_score("m", [1.0] * passed + [0.0] * (n - passed))
                return covers(interval.low, interval.high, rate)

            passes = np.random.default_rng(n).binomial(n, rate, runs).tolist()
            yield [f"{n} tasks", f"{rate:g}"], float(np.mean([held(passed) for passed in passes]))


def graded(runs: int) -> Iterator[Row]:
    for name, (draw, truth) in GRADED.items():
        for n in (20, 50, 200):
            rng = np.random.default_rng(n)
            yield [f"{n} tasks", name], scored([draw(rng, n) for _ in range(runs)], truth)


def scored(samples: Sequence[Floats], truth: float, ids: Sequence[int] | None = None) -> float:
    found = [score_interval(scores, ids) for scores in samples]
    for scores, interval in zip(samples[:CHECKED], found, strict=False):
        assert mean_score("m", scores.tolist(), ids) == interval
    return float(np.mean([covers(each.low, each.high, truth) for each in found]))


def alike(rng: np.random.Generator, shares: Sequence[float], size: tuple[int, int], icc: float) -> Floats:
    """For each source the chances of each outcome, so that those of its tasks correlate by `icc`."""
    often = [each * (1 - icc) / icc for each in shares if each]
    chances = np.zeros((*size, len(shares)))
    chances[..., [place for place, each in enumerate(shares) if each]] = rng.dirichlet(often, size)
    return chances


def outcomes(rng: np.random.Generator, shares: Sequence[float], runs: int, size: tuple[int, int], icc: float) -> Floats:
    """Which outcome each task has, one experiment a row, source by source; `size` is how many sources and tasks."""
    ends = np.cumsum(alike(rng, shares, (runs, size[0]), icc), axis=2)[:, :, None, :-1]
    return (rng.random((runs, *size, 1)) > ends).sum(axis=3).reshape(runs, -1).astype(float)


def sources(runs: int) -> Iterator[Row]:
    for count, tasks in SOURCES:
        ids = np.repeat(np.arange(count), tasks).tolist()
        for icc, rate, kind in product(ALIKE, (0.05, 0.3, 0.5, 0.95), ("rate", "graded")):
            rng = np.random.default_rng(count)
            if kind == "graded":
                of_source = np.repeat(alike(rng, (1 - rate, rate), (runs, count), icc)[..., 1], tasks, axis=1)
                scores = rng.beta(10 * of_source + 1e-9, 10 * (1 - of_source) + 1e-9)
            else:
                scores = outcomes(rng, (1 - rate, rate), runs, (count, tasks), icc)
            yield [f"{count} x {tasks}", f"alike {icc:g}", f"{kind} {rate:g}"], scored(list(scores), rate, ids)


def differences(runs: int) -> Iterator[Row]:
    for count, tasks in ((30, 1), (100, 1), *SOURCES):
        ids = None if tasks == 1 else np.repeat(np.arange(count), tasks).tolist()
        for icc, (differ, gain), kind in product((0.5,) if tasks == 1 else ALIKE, DIFFER, ("pass or fail", "graded")):
            rng = np.random.default_rng(count)
            shares = ((differ - gain) / 2, 1 - differ, (differ + gain) / 2)
            signs = outcomes(rng, shares, runs, (count, tasks), icc) - 1
            size = rng.random(signs.shape) if kind == "graded" else np.ones(signs.shape)
            found = [difference_interval(each, ids) for each in signs * size]
            for before, after, interval in zip(
                np.where(signs < 0, size, 0.0)[:CHECKED], np.where(signs > 0, size, 0.0), found, strict=False
            ):
                assert mean_gain("m", before.tolist(), after.tolist(), ids) == interval
            truth = gain / 2 if kind == "graded" else gain
            where = f"{count} tasks" if tasks == 1 else f"{count} x {tasks}, alike {icc:g}"
            held = np.mean([covers(each.low, each.high, truth, -1.0) for each in found])
            yield [where, f"differ {differ:g}", f"gain {gain:g}", kind], float(held)


def compared(plan: Experiment, signs: Sequence[int]) -> Verdict:
    """The verdict of a comparison with these outcomes, by the product."""
    scores = {0: _cell(0.0), 1: _cell(1.0)}
    reading = SequentialTest(plan, TASKS, "m")
    for sign in signs:
        if reading.read([scores[int(sign < 0)]], [scores[int(sign > 0)]]).verdict != "continue":
            break
    return reading.verdict()


def _cell(value: float) -> Cell:
    return Cell(key="k", playbook="p", task="t", replicate=0, metric="m", value=value)


@cache
def sequence(wins: int, ties: int, losses: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval that holds at every look."""
    return betting.interval({1.0: wins, 0.0: ties, -1.0: losses}, betting.bets(), confidence)


@cache
def futile_at() -> NDArray[np.int64]:
    """After n tasks of which so many differed, the most wins that are futile; -1 if none are."""
    differed, wins = np.ogrid[: MOST + 1, : MOST + 1]
    table = np.zeros((MOST + 1, MOST + 1), dtype=np.int64)
    for tasks in range(MOST + 1):
        futile = rules.shown_futile(wins, tasks - differed, differed - wins, EFFECT)
        table[tasks] = (futile & (wins <= differed)).sum(axis=1) - 1
    return table


class Stopped:
    """Comparisons that one rule stopped: their intervals, and the bound of those that ended superior."""

    def __init__(self, rule: str, signs: NDArray[np.int8]) -> None:
        self.rule, self.signs = rule, signs
        effect = EFFECT if rule == "exact, futility" else None
        self.ends: rules.Ends
        if rule.startswith("exact"):
            self.ends = rules.exact(signs, ALPHA, effect=effect)
        elif rule == "betting":
            self.ends = rules.betting(signs, ALPHA)
        elif rule == "sprt":
            self.ends = rules.sprt(signs, ALPHA, effect=EFFECT, discordance=REGISTERED)
        else:
            self.ends = rules.gsprt(signs, ALPHA, effect=EFFECT)

    def verdict(self, row: int) -> str:
        kinds = {"superior": self.ends.better, "inferior": self.ends.worse, "futile": self.ends.futile}
        return next((name for name, ended in kinds.items() if ended[row]), "inconclusive")

    def interval(self, row: int) -> tuple[Interval, float | None]:
        """The product's interval, and its bound if the verdict is superior."""
        gains = self.signs[row, : self.ends.units[row]].astype(float)
        counts = Counter(gains.tolist())
        wins, ties, losses = (counts[sign] for sign in (1.0, 0.0, -1.0))
        better = bool(self.ends.better[row])
        if isinstance(self.ends, rules.ExactEnds):
            looks = self.looks(row, gains)
            return after_stopping(gains, *looks), least_after_stopping(gains, *looks, ALPHA) if better else None
        low, high = sequence(wins, ties, losses)
        mean = (wins - losses) / len(gains)
        if not better:
            least = None
        elif isinstance(self.ends, rules.RatioEnds):
            least = ratio_bound(Gsprt(effect=EFFECT), (losses, ties, wins), float(self.ends.high[row]))
        elif self.rule == "sprt":
            least = ratio_bound(Sprt(effect=EFFECT, discordance=REGISTERED), (losses, ties, wins), 0.0)
        else:
            least = sequence(wins, ties, losses, 1 - 2 * ALPHA)[0]
        return Interval(mean, low, high, 0.95, len(gains)), least

    def looks(self, row: int, gains: Floats) -> tuple[list[int | None], list[int | None] | None]:
        """How many wins would have ended it superior, and at how many or fewer otherwise, after each task."""
        assert isinstance(self.ends, rules.ExactEnds)
        differed = np.cumsum(gains != 0)
        needed = self.ends.needed[row, : len(gains)]
        superior = [int(need) if need <= most else None for need, most in zip(needed, differed, strict=True)]
        if self.rule == "exact":
            return superior, None
        least = np.maximum(differed - needed, futile_at()[np.arange(1, len(gains) + 1), differed])
        return superior, [int(wins) if wins >= 0 else None for wins in least]


def ratio_bound(rule: Gsprt | Sprt, counts: tuple[int, int, int], high: float) -> float:
    """The bound of a likelihood ratio test that ended superior with these losses, ties and wins."""
    rule._counts = np.array(counts, dtype=float)
    rule._answer = replace(rule._answer, high=high)
    return rule.at_least()


def stopping(runs: int) -> Iterator[Row]:
    for name, rule in RULES.items():
        plan = Experiment.plan("b2:a", "b2:b", TASKS, ExactMatch(), models={}, design=Design(rule=rule))
        for differ, gain in STOPPED:
            luck = np.random.default_rng(1).random((runs, MOST))
            signs = (luck < (differ + gain) / 2).astype(np.int8) - (luck > 1 - (differ - gain) / 2).astype(np.int8)
            stopped = Stopped(name, signs)
            found = [stopped.interval(row) for row in range(runs)]
            for row, (shown, least) in enumerate(found[:CHECKED]):
                verdict = compared(plan, signs[row].tolist())
                ended = verdict.finding, verdict.tasks
                assert ended == (stopped.verdict(row), stopped.ends.units[row]), (name, ended)
                told, same = (verdict.low, verdict.high, verdict.at_least or 0.0), (shown.low, shown.high, least or 0.0)
                assert np.allclose(told, same, atol=1e-6), (name, told, same)
            held = np.mean([covers(each.low, each.high, gain, -1.0) for each, _ in found])
            bound = np.mean([least is not None and least > gain + 1e-9 for _, least in found])
            signs_held = all(least > 0 for _, least in found if least is not None)
            high = f"{np.mean([each.mean > gain for each, _ in found]):.2f}" if name.startswith("exact") else "–"
            setting = [name, f"differ {differ:g}", f"gain {gain:g}", f"{stopped.ends.units.mean():.0f} tasks"]
            below = "" if signs_held else " (below 0!)"
            yield [*setting, f"at least {bound:.3f}{below}", f"too high {high}"], float(held)


def joint(values: int, first: float, agree: float, near: bool) -> Floats:
    """How often people give each value and the judge each other."""
    shares = np.full(values, (1 - first) / (values - 1))
    shares[0] = first
    apart = np.outer(shares, shares)
    if near:
        beside = np.abs(np.subtract.outer(range(values), range(values))) == 1
        apart = shares[:, None] * beside / beside.sum(axis=1, keepdims=True)
        apart = (apart + apart.T) / 2
    return agree * np.diag(shares) + (1 - agree) * apart


def agreement(runs: int) -> Iterator[Row]:
    for values, first, agree, near in product((2, 3, 5), (0.1, 0.5, 0.9), (0.0, 0.3, 0.6, 0.9), (False, True)):
        if (near and (values == 2 or agree == 0)) or (values == 2 and first > 0.5) or (values > 2 and first == 0.5):
            continue
        table, places = joint(values, first, agree, near), np.arange(values)
        apart = np.subtract.outer(places, places) ** 2
        truth = 1 - (table * apart).sum() / (np.outer(table.sum(axis=1), table.sum(axis=0)) * apart).sum()
        for n in (10, 20, 50, 200) if values == 2 else (10, 50):
            many = runs if values == 2 and n <= 50 else max(1, runs // 20)
            drawn = np.random.default_rng(n).multinomial(n, table.ravel(), many)
            tables, times = np.unique(drawn, axis=0, return_counts=True)
            held = 0
            for cells, count in zip(tables, times.tolist(), strict=True):
                people, judge = (each.tolist() for each in np.divmod(np.repeat(np.arange(values**2), cells), values))
                scale = sorted({0, values - 1, *people, *judge})
                shown = cohen_interval(people, judge, weights=None if values == 2 else "quadratic", labels=scale)
                held += count * covers(shown.low, shown.high, truth, -1.0)
            setting = [f"{values} values", f"shares {first:g}", f"agree {agree:g}{', near' if near else ''}"]
            yield [*setting, f"kappa {truth:.2f}", f"{n} labels"], held / len(drawn)


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "rates": rates,
    "graded": graded,
    "sources": sources,
    "differences": differences,
    "stopping": stopping,
    "agreement": agreement,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000, help="of each setting (default %(default)s)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="which tables (default: all)")
    options = parser.parse_args()
    for part in options.only:
        print(f"\n{part}\n")
        least = (1.0, "")
        for setting, held in PARTS[part](options.experiments):
            print(f"| {' | '.join(setting)} | {held:.3f} |", flush=True)
            least = min(least, (held, ", ".join(setting)))
        print(f"\nleast coverage {least[0]:.3f}: {least[1]}")


if __name__ == "__main__":
    main()
