"""How often a search confirms a gain: of a candidate that is no better, and of one that is.

A gain is confirmed if Student's 95 % interval of the differences on at least ten new tasks lies above 0. Binary scores
differ on a share of the tasks; graded ones have normal or very skewed differences. The simulation has its own code.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

TASKS = (10, 20, 40, 100)


def confirmed(differences: np.ndarray) -> float:
    """The share of the rows that are confirmed."""
    count = differences.shape[1]
    error = differences.std(axis=1, ddof=1) / np.sqrt(count)
    return float((differences.mean(axis=1) > stats.t.ppf(0.975, count - 1) * error).mean())


def binary(rng: np.random.Generator, rows: int, tasks: int, differs: float, gain: float) -> np.ndarray:
    chance = rng.random((rows, tasks))
    return (chance < (differs + gain) / 2).astype(float) - (chance > 1 - (differs - gain) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=20_000)
    rows = parser.parse_args().experiments
    rng = np.random.default_rng(14)
    print(f"{'new tasks':34}" + "".join(f"{tasks:>8}" for tasks in TASKS))
    for differs in (0.1, 0.3, 0.5, 1.0):
        for gain in (0.0, 0.1, 0.3, 0.5):
            if gain <= differs:
                shares = [confirmed(binary(rng, rows, tasks, differs, gain)) for tasks in TASKS]
                print(f"{f'binary, {differs:g} differ, gain {gain:g}':34}" + "".join(f"{each:8.3f}" for each in shares))
    for name, draw in {
        "normal": lambda tasks: rng.normal(0, 0.2, (rows, tasks)),
        "rarely a large gain": lambda tasks: rng.exponential(0.1, (rows, tasks)) - 0.1,
        "rarely a large loss": lambda tasks: 0.1 - rng.exponential(0.1, (rows, tasks)),
    }.items():
        shares = [confirmed(draw(tasks)) for tasks in TASKS]
        print(f"{f'graded, {name}, gain 0':34}" + "".join(f"{each:8.3f}" for each in shares))


if __name__ == "__main__":
    main()
