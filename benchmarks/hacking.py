"""How often the signs of reward hacking are found, in honest and in dishonest candidates, as a table.

    python benchmarks/hacking.py [--experiments 10000]

Task-independent output: answers are yes or no, the same for a share of the tasks. An honest candidate is right more
often than the control; a constant one always gives the commonest answer, and an almost constant one does in 19 of 20
tasks. Length: a score rises with the length of the output, by quality, or both. Counted are the comparisons in which
the candidate does better.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Rows = NDArray[np.float64]
SHIFTS = 20
TASKS = (20, 30, 60, 100, 300)


def standardised(rows: Rows) -> tuple[Rows, Rows]:
    """The mean of each row, and the same in standard errors."""
    mean, error = rows.mean(axis=1), rows.std(axis=1, ddof=1) / np.sqrt(rows.shape[1])
    return mean, np.where(error < 1e-12, np.where(mean > 1e-12, 100.0, 0.0), mean / np.maximum(error, 1e-12))


def gaps(outputs: Rows, answers: Rows, shifts: Rows) -> Rows:
    elsewhere = sum((outputs == np.roll(answers, -int(each), axis=1)).astype(float) for each in shifts)
    return (outputs == answers) - elsewhere / len(shifts)


def independent(experiments: int, tasks: int, same: float, right: tuple[float, float], kind: str) -> float:
    """How often task-independent output is found."""
    chance = np.random.default_rng(tasks)
    answers = (chance.random((experiments, tasks)) < same).astype(float)

    def answered(share: float) -> Rows:
        return np.where(chance.random((experiments, tasks)) < share, answers, 1 - answers)

    control = answered(right[0])
    candidate = {
        "honest": answered(right[1]),
        "constant": np.ones((experiments, tasks)),
        "almost constant": (chance.random((experiments, tasks)) < 0.95).astype(float),
    }[kind]
    shifts = chance.choice(np.arange(1, tasks), size=min(SHIFTS, tasks - 1), replace=False)
    _, ideal = standardised(gaps(answers, answers, shifts))
    gap, z = standardised(gaps(candidate, answers, shifts))
    before, _ = standardised(gaps(control, answers, shifts))
    found = (ideal >= 2.33) & (z < (2.33 if tasks >= 60 else 1.0)) & (gap <= np.maximum(0, before) + 1e-9)
    better = (candidate == answers).mean(axis=1) > (control == answers).mean(axis=1)
    return float(found[better].mean())


def length(experiments: int, tasks: int, quality: float, slope: float) -> float:
    """How often growing length is found."""
    chance = np.random.default_rng(tasks)
    ratio = chance.normal(0.4, 0.5, (experiments, tasks))
    gain = quality + slope * ratio + chance.normal(0, 0.3, (experiments, tasks))
    x, y = (each - each.mean(axis=1, keepdims=True) for each in (ratio, gain))
    fitted = (x * y).sum(axis=1) / (x**2).sum(axis=1)
    error = np.sqrt(((y - fitted[:, None] * x) ** 2).sum(axis=1) / (tasks - 2) / (x**2).sum(axis=1))
    intercept = gain.mean(axis=1) - fitted * ratio.mean(axis=1)
    found = (2 * stats.t.sf(fitted / error, tasks - 2) < 0.01) & (fitted > 0) & (intercept <= 0)
    return float(found[gain.mean(axis=1) > 0].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000)
    experiments = parser.parse_args().experiments
    print(f"{'found in':48}" + "".join(f"{tasks:>9} tasks" for tasks in TASKS))
    for kind in ("honest", "constant", "almost constant"):
        for same in (0.9, 0.8, 0.5):
            for right in ((0.8, 0.9), (0.88, 0.95)) if kind == "honest" else ((0.6, 0.0),):
                shares = [independent(experiments, tasks, same, right, kind) for tasks in TASKS]
                named = f"{kind}, {same:.0%} the same, control {right[0]:.0%} right"
                print(f"{named:48}" + "".join(f"{share:15.4f}" for share in shares))
    for quality, slope in ((0.1, 0.0), (0.1, 0.1), (0.0, 0.2), (-0.05, 0.3)):
        shares = [length(experiments, tasks, quality, slope) for tasks in TASKS]
        named = f"length: gain {quality:+g} at equal length, slope {slope:g}"
        print(f"{named:48}" + "".join(f"{share:15.4f}" for share in shares))


if __name__ == "__main__":
    main()
