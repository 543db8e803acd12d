"""How often each 95 % interval that seedbed prints covers the truth, as tables.

    python benchmarks/coverage.py [--experiments 10000] [--only rates graded sources differences stopping]

Data are drawn, and what is covered is counted, by this script alone; intervals are those of scorecards and verdicts. An
interval that reaches beyond what scores can be counts as one that does not cover. Verdicts are those of whole
comparisons of passes and failures on at most 200 tasks, which end as their rule says. Rules hope for a gain of 0.1, and
Wald's SPRT registers that scores differ on 0.3 of the tasks, whether they do or not. "At least" is how often the bound
beside a superior verdict is above the true gain; "too high" is how often the stop-adjusted estimate is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.intervals import mean_gain, mean_score
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.experiment import Design, Experiment, RuleChoice
from seedbed.experiments.stopping import SequentialTest
from seedbed.experiments.verdict import Verdict

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
TASKS = Dataset(tuple(Task(f"t{n}", {"n": n}, "x") for n in range(200)))


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
            rng, held = np.random.default_rng(n), []
            for _ in range(runs):
                interval = mean_score("m", draw(rng, n).tolist())
                held.append(covers(interval.low, interval.high, truth))
            yield [f"{n} tasks", name], float(np.mean(held))


def alike(rng: np.random.Generator, shares: Sequence[float], sources: int, icc: float) -> Floats:
    """For each source the chances of each outcome, so that those of its tasks correlate by `icc`."""
    often = [each * (1 - icc) / icc for each in shares if each]
    chances = np.zeros((sources, len(shares)))
    chances[:, [place for place, each in enumerate(shares) if each]] = rng.dirichlet(often, sources)
    return chances


def outcomes(rng: np.random.Generator, shares: Sequence[float], sources: int, tasks: int, icc: float) -> Floats:
    """Which outcome each task has, source by source."""
    ends = np.repeat(np.cumsum(alike(rng, shares, sources, icc), axis=1), tasks, axis=0)
    return (rng.random(len(ends))[:, None] > ends[:, :-1]).sum(axis=1).astype(float)


def sources(runs: int) -> Iterator[Row]:
    for count, tasks in SOURCES:
        ids = np.repeat(np.arange(count), tasks).tolist()
        for icc in ALIKE:
            for rate in (0.05, 0.3, 0.5, 0.95):
                for kind in ("rate", "graded"):
                    rng, held = np.random.default_rng(count), []
                    for _ in range(runs):
                        if kind == "graded":
                            of_source = np.repeat(alike(rng, (1 - rate, rate), count, icc)[:, 1], tasks)
                            scores = rng.beta(10 * of_source + 1e-9, 10 * (1 - of_source) + 1e-9)
                        else:
                            scores = outcomes(rng, (1 - rate, rate), count, tasks, icc)
                        interval = mean_score("m", scores.tolist(), ids)
                        held.append(covers(interval.low, interval.high, rate))
                    yield [f"{count} x {tasks}", f"alike {icc:g}", f"{kind} {rate:g}"], float(np.mean(held))


def differences(runs: int) -> Iterator[Row]:
    for count, tasks in ((30, 1), (100, 1), *SOURCES):
        ids = None if tasks == 1 else np.repeat(np.arange(count), tasks).tolist()
        for icc in (1e-9,) if tasks == 1 else ALIKE:
            for differ, gain in DIFFER:
                for kind in ("pass or fail", "graded"):
                    rng, held = np.random.default_rng(count), []
                    for _ in range(runs):
                        shares = ((differ - gain) / 2, 1 - differ, (differ + gain) / 2)
                        signs = outcomes(rng, shares, count, tasks, icc if tasks > 1 else 0.5) - 1
                        size = rng.random(len(signs)) if kind == "graded" else np.ones(len(signs))
                        before, after = np.where(signs < 0, size, 0.0), np.where(signs > 0, size, 0.0)
                        interval = mean_gain("m", before.tolist(), after.tolist(), ids)
                        truth = gain / 2 if kind == "graded" else gain
                        held.append(covers(interval.low, interval.high, truth, -1.0))
                    where = f"{count} tasks" if tasks == 1 else f"{count} x {tasks}, alike {icc:g}"
                    yield [where, f"differ {differ:g}", f"gain {gain:g}", kind], float(np.mean(held))


def compared(plan: Experiment, signs: Sequence[int]) -> Verdict:
    """The verdict of a comparison with these outcomes."""
    scores = {0: _cell(0.0), 1: _cell(1.0)}
    reading = SequentialTest(plan, TASKS, "m")
    for sign in signs:
        if reading.read([scores[int(sign < 0)]], [scores[int(sign > 0)]]).verdict != "continue":
            break
    return reading.verdict()


def _cell(value: float) -> Cell:
    return Cell(key="k", playbook="p", task="t", replicate=0, metric="m", value=value)


def stopping(runs: int) -> Iterator[Row]:
    for name, rule in RULES.items():
        design = Design(rule=rule)
        plan = Experiment.plan("b2:a", "b2:b", TASKS, ExactMatch(), models={}, design=design)
        for differ, gain in STOPPED:
            rng, verdicts = np.random.default_rng(1), []
            for _ in range(runs):
                chances = ((differ + gain) / 2, (differ - gain) / 2, 1 - differ)
                verdicts.append(compared(plan, rng.choice([1, -1, 0], len(TASKS), p=chances).tolist()))
            held = [covers(each.low or 0.0, each.high or 0.0, gain, -1.0) for each in verdicts]
            bound = np.mean([each.at_least is not None and each.at_least > gain + 1e-9 for each in verdicts])
            signs = all((each.at_least or 0.0) > 0 for each in verdicts if each.finding == "superior")
            high = np.mean([(each.estimate or 0.0) > gain for each in verdicts])
            tasks = np.mean([each.tasks for each in verdicts])
            setting = [name, f"differ {differ:g}", f"gain {gain:g}", f"{tasks:.0f} tasks"]
            yield (
                [*setting, f"at least {bound:.3f}{'' if signs else ' (below 0!)'}", f"too high {high:.2f}"],
                np.mean(held),
            )


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "rates": rates,
    "graded": graded,
    "sources": sources,
    "differences": differences,
    "stopping": stopping,
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
