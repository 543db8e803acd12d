"""How many of the candidates that are called better are not, over the life of a channel; and what selection does.

    python benchmarks/discoveries.py [--streams 2000]

Streams of 500 candidates, one in ten truly better by 0.10, each compared with its incumbent on 400 fresh tasks of which
0.3 differ. All rules see the same results: one-sided exact McNemar p-values, or the money of a mixture of bets.
Unadjusted, each candidate is tested at 0.05 as if it were the only one. Benjamini-Hochberg and e-BH wait until all 500
are in; LORD++ and e-LOND answer one by one.

Then the same for candidates that are all judged on the same 400 tasks against one run of the incumbent: if it had bad
luck, all of them look better. Here the bets end where they reach the level of e-LOND, as in a comparison for a channel.

Below, the best of 20 candidates that are all no better: how good it looks on the 100 tasks it was chosen by, and on 100
others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seedbed.stats.multiplicity import ELond, Lord, benjamini_hochberg, e_bh
from seedbed.stats.sequential.betting import Bet, bets, evidence

ALPHA, CANDIDATES, BETTER, EFFECT, DIFFER, TASKS = 0.05, 500, 0.1, 0.1, 0.3, 400
Found = NDArray[np.bool_]


def draws(rng: np.random.Generator, effect: NDArray[np.float64], tasks: int) -> NDArray[np.int64]:
    """Wins, losses and ties against the incumbent, of candidates better by so much each."""
    return rng.multinomial(tasks, np.stack([(DIFFER + effect) / 2, (DIFFER - effect) / 2, 1 - DIFFER + 0 * effect], -1))


def p_values(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    wins, losses = counts[..., 0], counts[..., 1]
    return np.asarray(stats.binom.sf(wins - 1, wins + losses, 0.5))


def e_values(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    growth = Bet(0.0, "above", bets(EFFECT).shares).growth(np.array([1.0, -1.0, 0.0]))
    return np.asarray(np.exp(evidence(counts @ growth)))


def told(budget: Lord | ELond, values: NDArray[np.float64]) -> Found:
    return np.array([budget.tell(str(place), value) for place, value in enumerate(values.tolist())])


RULES: dict[str, Callable[[NDArray[np.float64], NDArray[np.float64]], Found]] = {
    "unadjusted": lambda p, e: p <= ALPHA,
    "Benjamini-Hochberg, all at once": lambda p, e: np.array(benjamini_hochberg(p.tolist(), ALPHA).rejected),
    "LORD++, one by one": lambda p, e: told(Lord(alpha=ALPHA), p),
    "e-BH, all at once": lambda p, e: np.array(e_bh(e.tolist(), ALPHA).rejected),
    "e-LOND, one by one": lambda p, e: told(ELond(alpha=ALPHA), e),
}


def lifetimes(streams: int) -> None:
    rng = np.random.default_rng(11)
    rates: dict[str, list[tuple[float, float, bool]]] = {name: [] for name in RULES}
    for _ in range(streams):
        better = rng.random(CANDIDATES) < BETTER
        counts = draws(rng, np.where(better, EFFECT, 0.0), TASKS)
        p, e = p_values(counts), e_values(counts)
        for name, rule in RULES.items():
            found = rule(p, e)
            false = int((found & ~better).sum())
            power = float((found & better).sum() / max(1, better.sum()))
            rates[name].append((false / max(1, found.sum()), power, false > 0))
    print(f"{streams} streams of {CANDIDATES} candidates, {BETTER:.0%} truly better\n")
    print("| rule | false among those called better | truly better ones found | streams with a false one |")
    print("|---|---:|---:|---:|")
    for name, each in rates.items():
        false_share, power, any_false = np.mean(each, axis=0)
        error = np.std([share for share, _, _ in each]) / np.sqrt(streams)
        print(f"| {name} | {false_share:.1%} ± {1.96 * error:.1%} | {power:.0%} | {any_false:.0%} |")


def against_one_run(rng: np.random.Generator, better: Found) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The p-value of each candidate after all tasks, and the most that its bets ever held.

    Whoever answers a task that is not easy is right by chance, so that two who are alike differ on the usual share.
    """
    hard = rng.permutation(TASKS) < 2 * DIFFER * TASKS
    incumbent = rng.random(TASKS) < 0.5
    chance = 0.5 + np.where(better, EFFECT / (2 * DIFFER), 0.0)
    right = rng.random((len(better), TASKS)) < chance[:, None]
    outcomes = np.where(hard, right.astype(int) - incumbent.astype(int), 0)
    growth = Bet(0.0, "above", bets(EFFECT).shares).growth(np.array([-1.0, 0.0, 1.0]))
    held = np.array([evidence(growth[each + 1].cumsum(axis=0)).max() for each in outcomes])
    counts = np.stack([(outcomes > 0).sum(axis=1), (outcomes < 0).sum(axis=1)], -1)
    return p_values(counts), np.exp(held)


def one_run_for_all(streams: int) -> None:
    rng = np.random.default_rng(5)
    print(f"\n{streams} streams of {CANDIDATES} candidates against one run of the incumbent\n")
    print("| rule | false among those called better | in the worst twentieth of streams | truly better ones found |")
    print("|---|---:|---:|---:|")
    rules = {name: rule for name, rule in RULES.items() if "one by one" in name}
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in rules}
    for _ in range(streams):
        better = rng.random(CANDIDATES) < BETTER
        values = against_one_run(rng, better)
        for name, rule in rules.items():
            found = rule(*values)
            power = float((found & better).sum() / max(1, better.sum()))
            rates[name].append(((found & ~better).sum() / max(1, found.sum()), power))
    for name, each in rates.items():
        shares = np.array([share for share, _ in each])
        error = shares.std() / np.sqrt(streams)
        told = f"{shares.mean():.1%} ± {1.96 * error:.1%} | over {np.quantile(shares, 0.95):.0%}"
        print(f"| {name} | {told} | {np.mean([power for _, power in each]):.0%} |")


def selection(rounds: int, candidates: int = 20, tasks: int = 100) -> None:
    rng = np.random.default_rng(2)
    none = np.zeros((rounds, candidates))
    counts = draws(rng, none, tasks)
    gains = (counts[..., 0] - counts[..., 1]) / tasks
    best = gains.argmax(axis=1)
    chosen = counts[np.arange(rounds), best]
    fresh = draws(rng, none[:, 0], tasks)
    print(f"\n{rounds} times the best of {candidates} candidates that are no better, {tasks} tasks\n")
    print("| measured on | looks better by | called better at 0.05 |")
    print("|---|---:|---:|")
    for name, seen in (("the tasks it was chosen by", chosen), ("fresh tasks", fresh)):
        gain = (seen[:, 0] - seen[:, 1]).mean() / tasks
        print(f"| {name} | {gain:+.3f} | {(p_values(seen) <= ALPHA).mean():.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000, help="streams of candidates (default %(default)s)")
    streams = parser.parse_args().streams
    lifetimes(streams)
    one_run_for_all(streams // 5)
    selection(10 * streams)


if __name__ == "__main__":
    main()
