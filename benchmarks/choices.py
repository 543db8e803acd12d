"""How often a candidate that is no better wins, if the metric, the replicates or the rule are chosen by what is known
of the control.

    python benchmarks/choices.py [--experiments 10000] [--seed 0]

Nothing here is the code of seedbed. 300 tasks; alpha is 0.05, of which a first attempt has 15/16. The control's results
on all tasks are known and kept; the candidate is run afterwards and is exactly as good as the control by every metric.
"fixed" is an agent that always answers a task alike, "noisy" one whose chance of a right answer depends on the task.

metric      the one of so many by which the control did worst; the scores of an answer by two metrics are correlated;
            exact test
replicates  the first so many of 5, by whose mean the control did worst; one-sided t-test of the tasks' mean differences
rule        the one that is most likely to call the candidate better, given how well the control did, as learned from
            half of the experiments and tried on the others: exact test, bets, sequential probability ratio for a gain
            of 0.1; all three are looked at after every task
"honest" is the first metric, one replicate, the exact test. Each share is given with its exact 95 % interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import rules
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEVEL, TASKS, CHUNK = 0.05 * 15 / 16, 300, 500
BINS = 12


def chances(chance: np.random.Generator, rows: int, kind: str) -> Floats:
    """The chance of a right answer to each task. Of agents that always answer alike, every answer is drawn anew."""
    return np.full((rows, TASKS), 0.5) if kind == "fixed" else chance.beta(1.0, 1.0, (rows, TASKS))


def scored(chance: np.random.Generator, right: Floats, metrics: int, correlation: float) -> Bools:
    """The scores of one answer to each task by each metric."""
    shared, own = chance.standard_normal(right.shape), chance.standard_normal((metrics, *right.shape))
    drawn = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    return np.asarray(drawn < stats.norm.ppf(right), dtype=bool)


def signs(control: Bools, candidate: Bools) -> NDArray[np.int8]:
    return candidate.astype(np.int8) - control.astype(np.int8)


def exact(control: Bools, candidate: Bools) -> Bools:
    return rules.exact(signs(control, candidate), LEVEL).better


def bets(control: Bools, candidate: Bools) -> Bools:
    return rules.betting(signs(control, candidate), LEVEL).better


def ratio(control: Bools, candidate: Bools) -> Bools:
    return rules.sprt(signs(control, candidate), LEVEL, effect=0.1, discordance=0.3).better


def by_metric(chance: np.random.Generator, rows: int, kind: str, metrics: int, correlation: float) -> Bools:
    right = chances(chance, rows, kind)
    control, candidate = (scored(chance, right, metrics, correlation) for _ in range(2))
    worst = control.mean(-1).argmin(0)
    each = np.arange(rows)
    return exact(control[worst, each], candidate[worst, each])


def by_replicates(chance: np.random.Generator, rows: int, kind: str, most: int) -> Bools:
    right = chances(chance, rows, kind)
    draws = (
        (lambda: np.stack([chance.random(right.shape) < right for _ in range(most)]))
        if kind == "noisy"
        else (lambda: np.broadcast_to(chance.random(right.shape) < right, (most, *right.shape)))
    )
    control, candidate = (np.cumsum(draws(), 0) / np.arange(1, most + 1)[:, None, None] for _ in range(2))
    worst = control.mean(-1).argmin(0)
    each = np.arange(rows)
    gain = candidate[worst, each] - control[worst, each]
    t = gain.mean(-1) / (gain.std(-1, ddof=1) / np.sqrt(TASKS))
    return np.asarray(stats.t.sf(t, TASKS - 1) <= LEVEL, dtype=bool)


def by_rule(chance: np.random.Generator, rows: int, kind: str) -> Floats:
    right = chances(chance, rows, kind)
    control, candidate = (chance.random(right.shape) < right for _ in range(2))
    known = control.mean(-1)
    return np.stack([known, exact(control, candidate), bets(control, candidate), ratio(control, candidate)])


def suiting(rules: list[Floats], bins: NDArray[np.int64], half: int) -> Bools:
    """The second half of the experiments, each by the rule that called most candidates better in its bin before."""
    chosen = np.zeros(len(bins) - half, dtype=bool)
    for each in range(BINS):
        learn, use = bins[:half] == each, bins[half:] == each
        best = max(rules, key=lambda rule: float(rule[:half][learn].mean()))
        chosen[use] = best[half:][use] > 0
    return chosen


def told(name: str, kind: str, better: Bools) -> None:
    low, high = stats.binomtest(int(better.sum()), len(better)).proportion_ci()
    print(f"{name:44s} {kind:6s} {better.mean():.4f} [{low:.4f}, {high:.4f}]", flush=True)


def gathered(
    draw: Callable[..., NDArray[Any]], chance: np.random.Generator, experiments: int, *how: Any
) -> NDArray[Any]:
    parts = [draw(chance, min(CHUNK, experiments - done), *how) for done in range(0, experiments, CHUNK)]
    return np.concatenate(parts, -1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--experiments", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    chance, experiments = np.random.default_rng(asked.seed), asked.experiments
    for kind in ("fixed", "noisy"):
        for metrics, correlation in ((1, 0.0), (2, 0.8), (3, 0.5), (10, 0.5), (10, 0.8)):
            name = "honest" if metrics == 1 else f"the worst of {metrics} metrics, correlation {correlation}"
            told(name, kind, gathered(by_metric, chance, experiments, kind, metrics, correlation))
        for most in (1, 2, 5):
            name = "one replicate, t-test" if most == 1 else f"the worst of 1 to {most} replicates"
            told(name, kind, gathered(by_replicates, chance, experiments, kind, most))
        known, *rules = gathered(by_rule, chance, 2 * experiments, kind)
        bins = np.digitize(known, np.quantile(known, np.linspace(0, 1, BINS + 1)[1:-1]))
        named = dict(zip(("exact", "bets", "ratio"), rules, strict=True))
        for name, rule in named.items():
            told(f"always the rule {name}", kind, rule[experiments:] > 0)
        for some in (("exact", "bets"), ("exact", "bets", "ratio")):
            better = suiting([named[each] for each in some], bins, experiments)
            told(f"of {', '.join(some)} the one that suits", kind, better)


if __name__ == "__main__":
    main()
