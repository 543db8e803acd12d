"""How many evaluations CMAES needs to solve functions of numbers, next to pycma, from the same starts.

python benchmarks/vectors.py [--seeds 10]

Needs `pip install cma`. Each function is minimised until it is below 1e-8. Our optimizer is driven as in a search: a
playbook whose parameters are the vector, one task whose score is the function, by ask and tell; so it is the real class
that is measured, and the time includes making and checking every playbook.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import cma
import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import FunctionMetric
from seedbed.evolution.optimizers.cmaes import CMAES
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.playbook import Playbook

TARGET = 1e-8
MOST = 50_000
LOW, HIGH = -5.0, 5.0
STEP = 0.2

Function = Callable[[np.ndarray], float]


def sphere(x: np.ndarray) -> float:
    return float((x**2).sum())


def ellipsoid(x: np.ndarray) -> float:
    return float((10 ** (6 * np.arange(len(x)) / (len(x) - 1)) * x**2).sum())


def rosenbrock(x: np.ndarray) -> float:
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


@dataclass(frozen=True)
class Solved:
    evaluations: int | None
    cpu_us: float


async def ours(function: Function, at: np.ndarray, seed: int) -> Solved:
    names = [f"x{n}" for n in range(len(at))]
    start = Playbook.from_document(
        {
            "program": "vectors:vector",
            "parameters": {
                name: {"value": float(x), "low": LOW, "high": HIGH} for name, x in zip(names, at, strict=True)
            },
        }
    )
    loss = FunctionMetric(lambda run, task: None, "loss", better="lower")
    pool = Pool([loss], ["t"])

    def paid(offer: Offer) -> Cell:
        pool.add(offer)
        vector = np.array([offer.playbook.parameter(name) for name in names])
        named = offer.playbook.digest
        cell = Cell(key=named, playbook=named, task="t", replicate=0, metric="loss", value=function(vector))
        pool.tell([cell])
        return cell

    paid(Offer(start))
    optimizer = CMAES(step=STEP, precision=0)
    optimizer.begin(Search(start, [Task("r", {})], pool, seed))
    began, evaluations = time.process_time(), 0
    while evaluations < MOST:
        cells = [paid(offer) for offer in await optimizer.ask()]
        evaluations += len(cells)
        if any(cell.value is not None and cell.value < TARGET for cell in cells):  # whole generations, as pycma counts
            return Solved(evaluations, (time.process_time() - began) / evaluations * 1e6)
        await optimizer.tell(cells)
    return Solved(None, (time.process_time() - began) / evaluations * 1e6)


def theirs(function: Function, at: np.ndarray, seed: int) -> Solved:
    options = {"bounds": [LOW, HIGH], "seed": seed + 1, "verbose": -9, "ftarget": TARGET, "maxfevals": MOST}
    began = time.process_time()
    # Restarts with larger generations, as ours.
    _, strategy = cma.fmin2(function, at, STEP * (HIGH - LOW), options, restarts=9)
    spent = (time.process_time() - began) / strategy.result.evaluations * 1e6
    solved = strategy.result.fbest < TARGET
    return Solved(strategy.result.evaluations if solved else None, spent)


def shown(solved: list[Solved]) -> str:
    needed = [each.evaluations for each in solved if each.evaluations is not None]
    if not needed:
        return f"none of {len(solved)} solved"
    return f"{statistics.median(needed):,.0f} ({min(needed):,}–{max(needed):,}), {len(needed)} of {len(solved)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("| function | genes | seedbed: evaluations (range), solved | pycma | ratio | µs per evaluation | pycma |")
    print("|---|---|---|---|---|---|---|")
    for function in (sphere, ellipsoid, rosenbrock):
        for size in (5, 10):
            starts = [np.random.default_rng(seed).uniform(-4, 4, size) for seed in range(seeds)]
            us = [asyncio.run(ours(function, at, seed)) for seed, at in enumerate(starts)]
            them = [theirs(function, at, seed) for seed, at in enumerate(starts)]
            medians = [statistics.median(each.evaluations or MOST for each in some) for some in (us, them)]
            times = [statistics.median(each.cpu_us for each in some) for some in (us, them)]
            print(
                f"| {function.__name__} | {size} | {shown(us)} | {shown(them)} | {medians[0] / medians[1]:.2f} "
                f"| {times[0]:.0f} | {times[1]:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
