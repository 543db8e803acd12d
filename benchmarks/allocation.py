"""How many evaluations it takes to find one of the best prompts: halving against trying all alike.

    python benchmarks/allocation.py FOLDER [--repetitions 100]

FOLDER has real prompt landscapes: one CSV for each task, a row for each paraphrase of its prompt, a column `…_acc` for
each model with the accuracy of that prompt. For each task the model is taken whose prompts differ most. The accuracy is
the truth; whether a prompt solves one of the tasks is drawn from it, with tasks that are hard for one being hard for
all (a Gaussian copula of correlation 0.5). A pick is right if its accuracy is within one point of the best.

Halving is the product's own (`seedbed.evolution.allocation.Halving`), with more and more tasks in its first round.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from seedbed.evaluation.cells import Cell
from seedbed.evolution.allocation import Allocation, Halving
from seedbed.evolution.evaluators import Measure
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

TASKS = 1_300
ALIKE = 0.5
UNIFORM = (5, 10, 20, 40, 80, 160, 320, 640)
FIRST = (1, 2, 4, 8, 16)
WITHIN = 0.01 + 1e-9


def landscapes(folder: Path) -> Iterator[tuple[str, Floats]]:
    for path in sorted(folder.glob("*.csv")):
        rows = list(csv.DictReader(path.open(encoding="utf-8")))
        columns = [name for name in rows[0] if name.endswith("_acc")]
        table = np.array([[float(row[name] or "nan") for name in columns] for row in rows])
        table = table[~np.isnan(table).any(axis=1)]
        chosen = int(np.argmax(np.quantile(table, 0.95, axis=0) - np.quantile(table, 0.5, axis=0)))
        yield f"{path.stem}, {columns[chosen].removesuffix('_acc')}", table[:, chosen]


def outcomes(truth: Floats, chance: np.random.Generator) -> Floats:
    """Whether each prompt solves each task."""
    hard = chance.normal(size=TASKS)
    own = chance.normal(size=(len(truth), TASKS))
    return (np.sqrt(ALIKE) * hard + np.sqrt(1 - ALIKE) * own < ndtri(np.clip(truth, 1e-6, 1 - 1e-6))[:, None]) * 1.0


PLAYBOOKS = [Playbook.from_document({"roles": {"w": {"model": "m", "system": f"Prompt {n}"}}}) for n in range(300)]
NAMES = [f"t{number}" for number in range(TASKS)]


def picked(table: Floats, allocation: Allocation, tasks: int) -> tuple[int, int]:
    """Which prompt the allocation ends with, and how many evaluations it took."""
    pool = Pool([Measure()], NAMES[:tasks])
    for playbook in PLAYBOOKS[: len(table)]:
        pool.add(Offer(playbook))
    known: set[tuple[int, int]] = set()
    for wanted in allocation.race(range(len(table)), pool, None):
        cells = []
        for place, items in wanted:
            for task, _ in items:
                number = int(task[1:])
                if (place, number) not in known:
                    known.add((place, number))
                    cells.append(_cell(place, task, table[place, number]))
        pool.tell(cells)
    return pool.best(), len(known)


def _cell(place: int, task: str, value: float) -> Cell:
    return Cell(key="", playbook=PLAYBOOKS[place].digest, task=task, replicate=0, metric="score", value=value)


def needed(curve: Sequence[tuple[float, float]], share: float) -> float:
    """How many evaluations it takes to be right so often, between the points of a curve that rises."""
    evaluations, rights = (np.array(each) for each in zip(*sorted(curve), strict=True))
    rights = np.maximum.accumulate(rights)
    if rights[-1] < share:
        return float("nan")
    return float(np.exp(np.interp(share, rights + 1e-9 * np.arange(len(rights)), np.log(evaluations))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repetitions", type=int, default=100)
    given = parser.parse_args()
    print("| landscape | prompts | within a point | right | uniform needs | halving needs | share |")
    print("|---|---|---|---|---|---|---|")
    shares = []
    for name, truth in landscapes(given.folder):
        good = truth >= truth.max() - WITHIN
        uniform = {size: [0, 0] for size in UNIFORM}
        halving = {first: [0, 0] for first in FIRST}
        for repetition in range(given.repetitions):
            chance = np.random.default_rng([repetition, len(truth)])
            table = outcomes(truth, chance)
            for size, tally in uniform.items():
                means = table[:, :size].mean(axis=1)
                tally[0] += int(good[chance.choice(np.flatnonzero(means == means.max()))])
                tally[1] += size * len(truth)
            for first, tally in halving.items():
                pick, evaluations = picked(table, Halving(first=first), min(TASKS, first * 3**4))
                tally[0] += int(good[pick])
                tally[1] += evaluations
        curves = [
            [(spent / given.repetitions, right / given.repetitions) for right, spent in each.values()]
            for each in (uniform, halving)
        ]
        share = min(max(right for _, right in curve) for curve in curves) * 0.95
        by_uniform, by_halving = needed(curves[0], share), needed(curves[1], share)
        shares.append(by_halving / by_uniform)
        told = f"{share:.2f} | {by_uniform:,.0f} | {by_halving:,.0f} | {shares[-1]:.2f} |"
        print(f"| {name} | {len(truth)} | {good.sum()} | {told}", flush=True)
    told = f"median {np.median(shares):.2f}, highest {max(shares):.2f} of the evaluations"
    print(f"\n{told}, {given.repetitions} repetitions")


if __name__ == "__main__":
    main()
