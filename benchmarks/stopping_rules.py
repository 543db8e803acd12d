"""How often each stopping rule errs and how many tasks it takes, as a table.

    python benchmarks/stopping_rules.py [--runs 10000] [--tasks 300]

Scores are 0 or 1. Two playbooks differ on a share of tasks; of those the candidate wins half if it is equal, and more
or less if it is better or worse by 0.10. Error rates are shares of comparisons of equals that end superior, with the
upper end of the exact 95% interval. "Repeats" are three runs of each task, averaged, of tasks of which each favours one
of the two: rules for signs take the sign of the average.

Beside the rules: the z-test looked at after every task from the 20th, as one does who watches a dashboard, and the
exact McNemar test looked at once, after the last task. "Fixed n" is the smallest number of tasks with which the latter
has the same power as the rule.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import rules
from numpy.typing import NDArray
from scipy import stats

from seedbed.stats.monitors import SampleRatio
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.gsprt import Gsprt, Sprt
from seedbed.stats.sequential.stopping_rule import Ends, StoppingRule

Rows = NDArray[np.float64]
ALPHA, EFFECT, DISCORDANCE = 0.05, 0.10, 0.3


def draw(runs: int, tasks: int, discordance: float, effect: float, seed: int = 0) -> Rows:
    luck = np.random.default_rng(seed).random((runs, tasks))
    return (luck < (discordance + effect) / 2).astype(float) - (luck > 1 - (discordance - effect) / 2)


def repeated(runs: int, tasks: int, seed: int = 1) -> Rows:
    """Average differences of three runs a task; each task favours one playbook by 0.3, half of them either."""
    rng = np.random.default_rng(seed)
    lean = rng.choice([-0.15, 0.15], size=(runs, tasks))
    total = np.zeros((runs, tasks))
    for _ in range(3):
        total += rng.random((runs, tasks)) < 0.5 + lean
        total -= rng.random((runs, tasks)) < 0.5 - lean
    return total / 3


def watched(rows: Rows) -> Ends:
    n = np.arange(1, rows.shape[1] + 1)
    total = np.cumsum(rows, axis=1)
    spread = np.sqrt(np.maximum(np.cumsum(rows**2, axis=1) - total**2 / n, 1e-12))
    hit = (total / spread > stats.norm.isf(ALPHA)) & (n >= 20)
    ended = np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, rows.shape[1])
    return Ends(np.where(hit.any(axis=1), "superior", "inconclusive"), ended)


def once(rows: Rows) -> Ends:
    wins, losses = (rows > 0).sum(axis=1), (rows < 0).sum(axis=1)
    superior = stats.binom.sf(wins - 1, wins + losses, 0.5) <= ALPHA
    return Ends(np.where(superior, "superior", "inconclusive"), np.full(len(rows), rows.shape[1]))


def fixed_size(power: float) -> int:
    """The fewest tasks with which the exact McNemar test, looked at once, has this power."""
    for n in range(20, 1_000):
        differ = np.arange(n + 1)
        needed = stats.binom.isf(ALPHA, differ, 0.5) + 1
        won = stats.binom.sf(needed - 1, differ, 0.5 + EFFECT / DISCORDANCE / 2)
        if stats.binom.pmf(differ, n, DISCORDANCE) @ won >= power:
            return n
    raise ValueError(power)


def rate(ends: Ends) -> str:
    errors = int((ends.verdicts == "superior").sum())
    high = stats.binomtest(errors, len(ends.verdicts)).proportion_ci(method="exact").high
    return f"{errors / len(ends.verdicts):.4f} (≤ {high:.4f})"


def microseconds(rule: StoppingRule) -> str:
    """What an update takes at 10,000 tasks."""
    row = draw(1, 10_000, DISCORDANCE, 0.0)[0].tolist()
    for difference in row[:9_000]:
        rule.update(difference)
    began = time.perf_counter()
    for difference in row[9_000:]:
        rule.update(difference)
    return f"{(time.perf_counter() - began) * 1e3:.0f}"


def table(runs: int, tasks: int) -> None:
    exact = {"at_most": tasks}
    tests: dict[str, StoppingRule] = {
        "exact McNemar, power 1.5": ExactMcNemar(**exact),
        "exact McNemar, linear": ExactMcNemar(**exact, spend="linear"),
        "exact McNemar, O'Brien-Fleming": ExactMcNemar(**exact, spend="o'brien-fleming"),
        "exact McNemar, power 1.5, futility": ExactMcNemar(**exact, effect=EFFECT),
        "betting, every size": Betting(at_most=tasks),
        "betting, for the effect, futility": Betting(at_most=tasks, effect=EFFECT),
        "GSPRT": Gsprt(effect=EFFECT, at_most=tasks),
        "GSPRT, no overshoot correction": Gsprt(effect=EFFECT, at_most=tasks, overshoot=False),
        "Wald's SPRT": Sprt(effect=EFFECT, discordance=DISCORDANCE, at_most=tasks),
    }
    ways: dict[str, tuple[Callable[[Rows], Ends], str]] = {
        name: (rule.ends, "guaranteed" if rule.guaranteed else "by design") for name, rule in tests.items()
    }
    ways["McNemar, looked at once"] = once, "guaranteed"
    ways["z-test after every task"] = watched, "**none**"
    print(
        "| rule | equals, 0.1 differ | 0.3 | 0.5 | repeats | error rate | power | futile if better | tasks if equal "
        "| if better | if worse | fixed n | better / fixed |\n|---|" + "---:|" * 12
    )
    differing = [draw(runs, tasks, discordance, 0.0) for discordance in (0.1, 0.3, 0.5)]
    better, worse = (draw(runs, tasks, DISCORDANCE, effect, seed=2) for effect in (EFFECT, -EFFECT))
    several = repeated(runs, tasks)
    for name, (ends, worth) in ways.items():
        equal = [ends(rows) for rows in differing]
        graded = name.startswith(("betting", "z-test"))
        of_repeats = ends(several if graded else np.sign(several))
        good, bad = ends(better), ends(worse)
        power, length = good.share("superior"), good.tasks.mean()
        size = fixed_size(power) if worth != "**none**" else None
        cells = [
            *map(rate, equal),
            rate(of_repeats),
            worth,
            f"{power:.3f}",
            f"{good.share('futile'):.3f}",
            f"{equal[1].tasks.mean():.0f}",
            f"{length:.0f}",
            f"{bad.tasks.mean():.0f}",
            str(size or "–"),
            f"{length / size:.2f}" if size else "–",
        ]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def orders(runs: int, tasks: int) -> None:
    """Equal playbooks, of which the candidate is three times as fast when it succeeds; half of all runs do."""
    print("\n| workers | read in the order of completion | in the registered order |\n|---:|---:|---:|")
    rng = np.random.default_rng(3)
    rule = ExactMcNemar(at_most=tasks)
    for workers in (8, 32, 100):
        control, candidate = rng.random((2, runs, tasks)) < 0.5
        takes = rng.exponential(np.where(candidate, 1.0, 3.0))
        free = np.zeros((runs, workers))
        finished = np.empty((runs, tasks))
        for task in range(tasks):
            worker = free.argmin(axis=1)
            finished[:, task] = free[np.arange(runs), worker] + takes[:, task]
            free[np.arange(runs), worker] = finished[:, task]
        rows = candidate.astype(float) - control
        completed = np.take_along_axis(rows, finished.argsort(axis=1), axis=1)
        print(f"| {workers} | {rate(rule.ends(completed))} | {rate(rule.ends(rows))} |", flush=True)


def updates() -> None:
    print("\n| rule | microseconds an update, at 10,000 tasks |\n|---|---:|")
    tests: dict[str, StoppingRule] = {
        "exact McNemar, futility": ExactMcNemar(at_most=10_000, alpha=1e-9, effect=EFFECT, beta=1e-250),
        "betting": Betting(alpha=1e-250),
        "GSPRT": Gsprt(effect=EFFECT, alpha=1e-250, beta=1e-250),
        "GSPRT of two repeats": Gsprt(effect=EFFECT, repeats=2, alpha=1e-250, beta=1e-250),
    }
    for name, rule in tests.items():
        print(f"| {name} | {microseconds(rule)} |", flush=True)


def ratios(runs: int) -> None:
    print("\n| true share of the candidate | units | alarms, looked at after every 50 |\n|---:|---:|---:|")
    rng = np.random.default_rng(4)
    for share, units in ((0.5, 20_000), (0.48, 10_000), (0.48, 20_000), (0.45, 4_000)):
        alarms = 0
        for _ in range(runs):
            watch = SampleRatio({"control": 0.5, "candidate": 0.5})
            came = np.cumsum(rng.random(units) < share)[49::50].tolist()
            alarms += any(
                watch.update({"control": n - candidate, "candidate": candidate})
                for n, candidate in zip(range(50, units + 1, 50), came, strict=True)
            )
        print(f"| {share} | {units:,} | {alarms / runs:.3f} |", flush=True)


def spreads(runs: int) -> None:
    """Power of bets whose sizes are spread evenly, as once, and by their logs, as now; by benchmarks/rules.py."""
    print(
        "\n| gain | scores differ on | tasks | power of even bets | of bets of all sizes |\n|---:|---:|---:|---:|---:|"
    )
    even = np.linspace(0.05, 0.9, 25)
    for gain, discordance, tasks in ((0.1, 0.3, 300), (0.05, 0.3, 1_000), (0.05, 0.1, 400), (0.1, 0.5, 600)):
        rows = draw(runs, tasks, discordance, gain, seed=5).astype(np.int8)
        powers = (
            rules.betting(rows, ALPHA, shares=even, weights=np.full(25, 1 / 25)).better.mean(),
            rules.betting(rows, ALPHA).better.mean(),
        )
        print(f"| {gain} | {discordance} | {tasks} | {powers[0]:.3f} | {powers[1]:.3f} |", flush=True)


def small_gain(runs: int) -> None:
    """When bets of all sizes find a gain of 0.01 where scores differ on half of the pairs, looked at every 100."""
    rng, ended = np.random.default_rng(6), []
    for _ in range(runs):
        counts = rng.multinomial(100, [0.255, 0.245, 0.5], 10_000)[:, :2].cumsum(axis=0)
        money = np.exp(counts @ np.log1p(np.array([1, -1])[:, None] * rules.SHARES)) @ rules.WEIGHTS
        ended.append(int((money >= 1 / ALPHA).argmax() + 1) * 100 if (money >= 1 / ALPHA).any() else 10**9)
    decided = np.mean(np.array(ended) <= 10**6)
    print(f"\ngain 0.01, 0.5 differ: found within a million pairs in {decided:.4f}, median {np.median(ended):,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="comparisons of each sort (default %(default)s)")
    parser.add_argument("--tasks", type=int, default=300, help="tasks of each comparison (default %(default)s)")
    asked = parser.parse_args()
    table(asked.runs, asked.tasks)
    orders(4 * asked.runs, asked.tasks)
    updates()
    ratios(max(1, asked.runs // 20))
    spreads(asked.runs)
    small_gain(max(1, asked.runs // 10))


if __name__ == "__main__":
    main()
