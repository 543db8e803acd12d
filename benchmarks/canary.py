"""The guards of a canary and its sample ratio by simulation, with code of its own.

    python benchmarks/canary.py [--experiments 10000]

A canary is worse by 3 points under a guard that allows +2: how often it is rolled back within 5,000 of its outcomes,
how many it takes in nine of ten cases, and how often one that is worse by exactly 2 points is rolled back within 5,000
and 20,000. Each outcome is set against the mean of 1, 5 or 9 outcomes of the control; "about 9" is with outcomes that
arrive at random, one in ten from the canary, so that some wait for their control.

Then the split of units between two arms: how often it is found out of ratio by 90,000 units, with a look after every
100 and the exact test after each quarter, where it is as planned and where 49.56 % reach one arm; beside it the test
that came before, and two single figures.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammaln

MARGIN, ENOUGH, NEVER = 0.02, 20.0, 10**9
"""What a guard allows, how many-fold the money must grow, and no number of outcomes."""
SHARES = np.geomspace(1e-4, 0.9, 30)
EVERY = SHARES**0.75 / (SHARES**0.75).sum()
MIDDLE = (SHARES > 0.09) & (SHARES < 0.4)
WEIGHTS = 0.75 * MIDDLE / MIDDLE.sum() + 0.25 * EVERY
PART = 2_500


def growth(most: int) -> NDArray:
    """By how much each bet grows with one outcome: by the number of controls, how many are bad, and the canary's."""
    table = np.ones((most + 1, most + 1, 2, len(SHARES)))
    for many in range(1, most + 1):
        for bad in range(many + 1):
            for failed in (0, 1):
                table[many, bad, failed] += SHARES * ((1 - bad / many + failed) / (1 + MARGIN) - 1)
    return table.reshape(-1, len(SHARES)).astype(np.float32)


def rolled_back_after(
    older: float, newer: float, controls: str, outcomes: int, canaries: int, weights: NDArray = WEIGHTS
) -> NDArray:
    """After how many of its outcomes each canary is rolled back; NEVER if it is not. In parts, which is quicker."""
    parts = [min(PART, canaries - first) for first in range(0, canaries, PART)]
    return np.concatenate(
        [_part(older, newer, controls, outcomes, many, weights, seed) for seed, many in enumerate(parts)]
    )


def _part(
    older: float, newer: float, controls: str, outcomes: int, canaries: int, weights: NDArray, seed: int
) -> NDArray:
    luck, most = np.random.default_rng([seed, 1]), 9 if controls == "about 9" else int(controls)
    table, start, ones = growth(most), weights.astype(np.float32), np.ones(len(SHARES), np.float32)
    money, alive = np.zeros((canaries, len(SHARES)), np.float32), np.arange(canaries)
    waiting, ends = np.zeros(canaries, int), np.full(canaries, NEVER)
    for number in range(1, outcomes + 1):
        many: NDArray | int = most
        if controls == "about 9":
            waiting += luck.geometric(0.1, len(alive)) - 1
            many = np.clip(waiting, 1, most)
            waiting -= many
        bad, failed = luck.binomial(many, older, len(alive)), luck.random(len(alive)) < newer
        money += np.float32(0.8 if number == 1 else 0.2 / (number * (number - 1))) * start
        money *= table[(many * (most + 1) + bad) * 2 + failed]
        done = money @ ones >= ENOUGH
        if done.any():
            ends[alive[done]] = number
            alive, money, waiting = alive[~done], money[~done], waiting[~done]
    return ends


def guards(canaries: int) -> None:
    print("| base error rate | controls | rolled back by 5,000 | outcomes for 90 % | false by 5,000, 20,000 |")
    print("|---:|---|---:|---:|---:|")
    for base in (0.01, 0.02, 0.05):
        for controls in ("1", "5", "9", "about 9") if base == 0.01 else ("1", "9"):
            horizon = {0.01: 10_000, 0.02: 15_000, 0.05: 30_000}[base]
            ends = rolled_back_after(base, base + 0.03, controls, horizon, canaries)
            needed = np.sort(ends)[math.ceil(0.9 * canaries) - 1]
            false = rolled_back_after(base, base + MARGIN, controls, 20_000, canaries)
            wrong = f"{share(false <= 5_000)}, {share(false <= 20_000)}"
            print(f"| {base:.0%} | {controls} | {share(ends <= 5_000)} | {needed:,} | {wrong} |", flush=True)
    for controls in ("1", "9"):
        ends = rolled_back_after(0.01, 0.04, controls, 5_000, canaries, EVERY)
        print(f"| 1% | {controls}, bets spread as elsewhere | {share(ends <= 5_000)} | | |", flush=True)


def share(found: NDArray) -> str:
    rate = found.mean()
    return f"{rate:.4f} ± {1.96 * math.sqrt(rate * (1 - rate) / len(found)):.4f}"


# Sample ratio


def evidence(newer: NDArray, total: NDArray, concentrations: NDArray) -> NDArray:
    """The log of the mean of how much likelier the counts are if the shares were drawn around a half."""
    logs = None
    for sum_of in concentrations:
        half = sum_of / 2
        drawn = gammaln(half + newer) + gammaln(half + total - newer) - 2 * gammaln(half)
        log = drawn + gammaln(sum_of) - gammaln(sum_of + total) + total * math.log(2)
        logs = log if logs is None else np.logaddexp(logs, log)
    assert logs is not None
    return logs - math.log(len(concentrations))


def exact(newer: NDArray, total: int) -> NDArray:
    return np.minimum(1, 2 * bdtr(np.minimum(newer, total - newer), total, 0.5))


def ratios(streams: int) -> None:
    print("\n| share of units | by e ≥ 100 | by the exact p at 4 looks | by either | before (e ≥ 1,000) |")
    print("|---:|---:|---:|---:|---:|")
    total, mixture = np.arange(100, 90_001, 100), np.geomspace(30, 3e6, 12)
    for chance in (0.5, 0.4956, 0.48):
        luck, found = np.random.default_rng(2), []
        for first in range(0, streams, 500):
            newer = luck.binomial(100, chance, (min(500, streams - first), len(total))).cumsum(axis=1)
            by_e = evidence(newer, total, mixture).max(axis=1) >= math.log(100)
            looks = [exact(newer[:, look - 1], int(total[look - 1])) for look in (225, 450, 675, 900)]
            by_p = np.min(looks, axis=0) <= 0.01
            before = evidence(newer, total, np.array([300.0])).max(axis=1) >= math.log(1000)
            found.append(np.column_stack([by_e, by_p, by_e | by_p, before]))
        rows = np.concatenate(found)
        print(f"| {chance} | {' | '.join(share(rows[:, column]) for column in range(4))} |", flush=True)
    newer, total = np.array([44_700]), np.array([90_189])
    e, p = np.exp(evidence(newer, total, mixture))[0], exact(newer, 90_189)[0]
    print(f"\n44,700 of 90,189: e = {e:.3g}, exact p = {p:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000, help="of each kind (default %(default)s)")
    options, began = parser.parse_args(), time.monotonic()
    guards(options.experiments)
    ratios(options.experiments)
    print(f"\n{options.experiments:,} experiments each, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
