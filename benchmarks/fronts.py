"""Fronts, selection and archives beside pymoo and pyribs, in one run.

    python benchmarks/fronts.py [--only survival,selection,archive,zdt,generation] [--seeds 11] [--population 100000]

Peers that are not installed are left out (`pip install pymoo ribs`). Times are CPU time, the best of several calls.
Survival keeps half of uniform points. ZDT: NSGA-II with a population of 100, the median hypervolume over seeds from the
reference (1.1, 1.1), at the same number of evaluations. A generation of playbooks: children of all are made and told,
with instant scores, and the better half is kept; the population itself is made before.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import moocore
import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers import selection
from seedbed.evolution.optimizers.map_elites import Archive
from seedbed.evolution.optimizers.nsga2 import NSGA2, rank_points
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Search
from seedbed.evolution.variation.numbers import polynomial, sbx
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.pareto import survivors

Floats = np.ndarray[Any, np.dtype[np.float64]]


def fastest(call: Callable[[], object], times: int = 9) -> float:
    """CPU seconds of the fastest of some calls."""
    taken = []
    for _ in range(times):
        begun = time.process_time()
        call()
        taken.append(time.process_time() - begun)
    return min(taken)


def ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:,.2f}" if seconds < 0.01 else f"{seconds * 1e3:,.1f}"


def table(title: str, columns: list[str], rows: Iterable[list[str]]) -> None:
    print(f"\n| {' | '.join([title, *columns])} |")
    print(f"|---|{'---:|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


# Survival


def pymoo_survival(points: Floats) -> Callable[[], object] | None:
    if not find_spec("pymoo"):
        return None
    from pymoo.algorithms.moo.nsga2 import RankAndCrowding
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem

    survival, problem = RankAndCrowding(), Problem(n_var=1, n_obj=points.shape[1])
    everybody = Population.new("F", points, "X", points[:, :1])
    return lambda: survival.do(problem, everybody, n_survive=len(points) // 2)


def survival() -> None:
    rows = []
    for size, objectives in ((1_000, 2), (10_000, 2), (100_000, 2), (1_000, 3), (10_000, 3), (100_000, 3)):
        points = np.random.default_rng(0).random((size, objectives))

        def ours(points: Floats = points) -> object:
            return survivors(points, ["lower"] * points.shape[1], len(points) // 2)

        times = 9 if size < 50_000 else 3
        mine = fastest(ours, times)
        peer = pymoo_survival(points)
        theirs = fastest(peer, times) if peer else None
        ratio = f"{theirs / mine:.1f}×" if theirs else ""
        rows.append([f"{size:,} × {objectives}", ms(mine), ms(theirs), ratio])
    table("survival, ms", ["seedbed", "pymoo RankAndCrowding", "ratio"], rows)


# Selection


def selecting() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((1_000, 1_000))
    tables = {
        "continuous": scores,
        "right or wrong": (scores < 0.5) * 1.0,
        "a third known": np.where(rng.random(scores.shape) < 2 / 3, np.nan, scores),
    }
    methods: dict[str, Callable[..., object]] = {
        "tournament, of known means": lambda given, means, count: selection.tournament(means, count, rng),
        "roulette, of known means": lambda given, means, count: selection.roulette(means, count, rng),
        "rank, of known means": lambda given, means, count: selection.rank(means, count, rng),
        "Pareto on posteriors": lambda given, means, count: selection.pareto(given, count, rng),
    }
    rows = []
    for name, draw in methods.items():
        calls = [
            partial(draw, given, np.nanmean(given, axis=1), count) for given in tables.values() for count in (1, 10)
        ]
        rows.append([name, *(ms(fastest(call)) for call in calls)])
    columns = [f"{name}, {count}" for name in tables for count in ("1 parent", "10")]
    table("selection from 1,000 × 1,000, ms", columns, rows)


# Archives


def archive() -> None:
    rows = []
    for size, bins in ((1_000, 50), (10_000, 50), (100_000, 50), (100_000, 200)):
        rng = np.random.default_rng(0)
        scores, behaviour, who = rng.random(size), rng.random((size, 2)), np.arange(size)
        mine = fastest(lambda: Archive([0, 0], [1, 1], [bins, bins]).add(who, scores, behaviour))  # noqa: B023
        theirs = None
        if find_spec("ribs"):
            from ribs.archives import GridArchive

            def add(bins: int = bins, who: Any = who, scores: Any = scores, behaviour: Any = behaviour) -> None:
                grid = GridArchive(solution_dim=1, dims=[bins, bins], ranges=[(0, 1), (0, 1)])
                grid.add(who[:, None], scores, behaviour)

            theirs = fastest(add)
        rate = f"{size / mine / 1e6:.0f} million/s"
        rows.append([f"{size:,} into {bins**2:,} cells", ms(mine), rate, ms(theirs)])
    table("archive add, ms", ["seedbed", "that is", "pyribs GridArchive"], rows)


# ZDT


def zdt(number: int, x: Floats) -> Floats:
    """Both costs of each row, for the problems of Zitzler, Deb and Thiele that have real numbers."""
    first, rest = x[:, 0], x[:, 1:]
    match number:
        case 4:
            g = 1 + 10 * rest.shape[1] + (rest**2 - 10 * np.cos(4 * np.pi * rest)).sum(axis=1)
        case 6:
            first = 1 - np.exp(-4 * first) * np.sin(6 * np.pi * first) ** 6
            g = 1 + 9 * rest.mean(axis=1) ** 0.25
        case _:
            g = 1 + 9 * rest.mean(axis=1)
    share = first / g
    match number:
        case 1 | 4:
            second = 1 - np.sqrt(share)
        case 3:
            second = 1 - np.sqrt(share) - share * np.sin(10 * np.pi * first)
        case _:
            second = 1 - share**2
    return np.column_stack([first, g * second])


def bounds(number: int) -> tuple[Floats, Floats]:
    if number == 4:
        return np.array([0.0] + [-5.0] * 9), np.array([1.0] + [5.0] * 9)
    genes = 10 if number == 6 else 30
    return np.zeros(genes), np.ones(genes)


def nsga2(number: int, generations: int, seed: int, size: int = 100) -> Floats:
    """NSGA-II on vectors, from the parts that the optimizer is made of; as in pymoo no child is a copy."""
    rng = np.random.default_rng(seed)
    low, high = bounds(number)
    x = low + (high - low) * rng.random((size, len(low)))
    y = zdt(number, x)
    for _ in range(generations - 1):
        parents = selection.tournament(rank_points(-y), 2 * size, rng)
        children = polynomial(np.concatenate(sbx(x[parents[::2]], x[parents[1::2]], low, high, rng)), low, high, rng)
        sources = x[np.concatenate([parents[::2], parents[1::2]])]
        children = children[(children != sources).any(axis=1)][:size]
        x, y = np.concatenate([x, children]), np.concatenate([y, zdt(number, children)])
        kept = survivors(y, ["lower", "lower"], size)
        x, y = x[kept], y[kept]
    return y


def pymoo_nsga2(number: int, generations: int, seed: int) -> Floats:
    from pymoo.algorithms.moo import nsga2 as theirs
    from pymoo.optimize import minimize
    from pymoo.problems import get_problem

    found = minimize(get_problem(f"zdt{number}"), theirs.NSGA2(pop_size=100), ("n_gen", generations), seed=seed)
    return np.asarray(found.F)


def problems(seeds: int, generations: int) -> None:
    peer = find_spec("pymoo") is not None
    evaluations = f"{100 * generations:,} evaluations, {seeds} seeds"
    columns = ["seedbed", "pymoo", "difference", "seedbed, s", "pymoo, s"] if peer else ["seedbed", "seedbed, s"]
    table(f"hypervolume after {evaluations}", columns, _volumes(seeds, generations, peer))


def _volumes(seeds: int, generations: int, peer: bool) -> Iterator[list[str]]:
    for number in (1, 2, 3, 4, 6):
        volumes: dict[str, list[float]] = {"ours": [], "theirs": []}
        seconds = {"ours": 0.0, "theirs": 0.0}
        for seed in range(seeds):
            for name, search in (("ours", nsga2), ("theirs", pymoo_nsga2)):
                if name == "theirs" and not peer:
                    continue
                begun = time.process_time()
                front = search(number, generations, seed)
                seconds[name] += time.process_time() - begun
                volumes[name].append(moocore.hypervolume(front, ref=[1.1, 1.1]))
        mine = float(np.median(volumes["ours"]))
        row = [f"ZDT{number}", f"{mine:.4f}"]
        if peer:
            theirs = float(np.median(volumes["theirs"]))
            row += [f"{theirs:.4f}", f"{100 * (mine / theirs - 1):+.2f} %"]
        yield [*row, *(f"{seconds[name] / seeds:.2f}" for name in ("ours", "theirs") if volumes[name])]


# A generation of playbooks


class Instant:
    better = "higher"

    def __init__(self, name: str) -> None:
        self.name = name


def playbooks(size: int) -> None:
    numbers = {f"x{place}": {"value": 0.5, "low": 0, "high": 1} for place in range(3)}
    writer = {"system": "Answer in one word. Be brief. Think first. Name the source.", "temperature": 0.5}
    start = Playbook.from_document({"roles": {"writer": writer}, "parameters": numbers})
    metrics: Any = [Instant("quality"), Instant("cost")]
    search = Search(start, (), Pool(metrics, ["t"]))
    optimizer = NSGA2(size=size)
    optimizer.begin(search)
    rng = np.random.default_rng(0)
    before = _memory()

    async def generation() -> list[str]:
        steps = [time.process_time()]
        offers = await optimizer.ask()
        steps.append(time.process_time())
        cells = [cell for offer in offers for cell in _cells(offer, search.pool, rng)]
        search.pool.tell(cells)
        steps.append(time.process_time())
        await optimizer.tell(cells)
        steps.append(time.process_time())
        made, told, kept = np.diff(steps).tolist()
        return [f"{len(offers):,}", f"{made:.1f}", f"{told:.2f}", f"{kept:.2f}", f"{_memory() - before:,.0f}"]

    async def generations() -> None:
        rows = [[name, *await generation()] for name in ("the population", "its next generation")]
        table("playbooks", ["how many", "made, s", "cells told, s", "survival, s", "peak memory, MB"], rows)

    asyncio.run(generations())


def _cells(offer: Offer, pool: Pool, rng: np.random.Generator) -> Iterator[Cell]:
    pool.add(offer)
    for metric, value in zip(pool.metrics, rng.random(len(pool.metrics)).tolist(), strict=True):
        yield Cell(key="", playbook=offer.playbook.digest, task="t", replicate=0, metric=metric, value=value)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="survival,selection,archive,zdt,generation")
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--generations", type=int, default=250)
    parser.add_argument("--population", type=int, default=100_000)
    given = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "survival": survival,
        "selection": selecting,
        "archive": archive,
        "zdt": lambda: problems(given.seeds, given.generations),
        "generation": lambda: playbooks(given.population),
    }
    for name in given.only.split(","):
        parts[name]()


if __name__ == "__main__":
    main()
