"""What a search costs besides its evaluations: CPU time for each of them, durable, beside GEPA in the same run.

    python benchmarks/evolve.py [--only growth,steps,gepa] [--repeat 3] [--most 3000] [--gepa 95,320]

The evaluator is instant: right or wrong by a checksum of a text and a task. seedbed searches in a new SQLite file. Its
time is all that `evolve` takes: candidates are made from the start, checked and kept with their lineage, rounds are
reserved, and each score is a fact, synced to the disk, before the search goes on. GEPA is its own package
(`pip install gepa`), in memory and with a folder for its state; its proposer is instant too, and every proposal is
accepted. Times are CPU time of the process, the best of some repetitions; those of GEPA are of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from typing import Any
from zlib import crc32

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.allocation import Allocation, Halving, Uniform
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import evolve
from seedbed.evolution.plan import Plan
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.storage import open_store

GENE = "roles.writer.system"
START = "Answer the question in one word."
TASKS = 33
MANY_TASKS = 100


def right(text: str, task: str) -> float:
    return float(crc32(f"{text}/{task}".encode()) & 1)


def table(title: str, columns: list[str], rows: Iterable[list[str]]) -> None:
    print(f"\n| {' | '.join([title, *columns])} |")
    print(f"|---|{'---:|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


# seedbed


class Handed:
    """Offers what it was given, so many at a time."""

    reads = False

    def __init__(self, candidates: Sequence[Playbook], brood: int) -> None:
        self._waiting, self._brood = deque(candidates), brood
        self.identity = {"optimizer": "handed", "candidates": len(candidates), "brood": brood}

    def begin(self, search: Search) -> None:
        self._search = search

    async def ask(self) -> Sequence[Offer]:
        left = min(self._brood, len(self._waiting))
        return [Offer(self._waiting.popleft(), (self._search.start.digest,)) for _ in range(left)]

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None


def seedbed(candidates: int, tasks: int, allocation: Allocation, brood: int | None = None) -> tuple[float, int]:
    """CPU seconds of a search over so many candidates, offered `brood` at a time or all at once, and how many runs."""
    start = Playbook.from_document({"roles": {"writer": {"model": "any", "system": START}}})
    select = Dataset(tuple(Task(f"t{number}", {"question": f"Is {number} prime?"}, "yes") for number in range(tasks)))
    with tempfile.TemporaryDirectory() as folder, closing(open_store(f"sqlite:///{folder}/seedbed.db")) as store:
        arena = FunctionEvaluator(
            lambda playbook, task, _: right(playbook.roles["writer"].system, task.id), store, "benchmark"
        )
        begun = time.process_time()
        texts = (f"{START} Mind rule {number}." for number in range(candidates))
        offered = [with_genes(start, {GENE: text}) for text in texts]
        optimizer = Handed(offered, brood or candidates)
        plan = Plan(start=start, select=select, optimizer=optimizer, allocation=allocation, budget=Budget(runs=10**7))
        found = asyncio.run(evolve(plan, arena, Library(store, "benchmark"), because="a benchmark"))
        return time.process_time() - begun, int(found.spent["runs"])


def fastest(search: Callable[[], tuple[float, int]], times: int) -> tuple[float, int]:
    return min(search() for _ in range(times))


def each(seconds: float, evaluations: int) -> str:
    return f"{seconds / evaluations * 1e6:.1f}"


def growth(most: int, times: int) -> None:
    """What an evaluation costs as candidates become many."""

    def rows() -> Iterator[list[str]]:
        for candidates in (number for number in (100, 300, 1_000, 3_000, 10_000) if number <= most):
            repeat = times if candidates < 3_000 else 1
            seconds, runs = fastest(lambda: seedbed(candidates, TASKS, Uniform()), repeat)  # noqa: B023
            halving = fastest(lambda: seedbed(candidates, TASKS, Halving()), repeat)  # noqa: B023
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            told = [f"{runs:,}", f"{seconds:.2f}", each(seconds, runs), f"{halving[1]:,}", each(*halving)]
            yield [f"{candidates:,}", *told, f"{memory:,.0f}"]

    columns = ["evaluations", "s", "µs each", "with halving", "µs each", "peak memory, MB"]
    table(f"candidates, {TASKS} tasks", columns, rows())


def steps(times: int) -> None:
    """What a step costs: each has transactions of its own."""

    def rows() -> Iterator[list[str]]:
        for brood in (1, 10, 100):
            seconds, runs = fastest(lambda: seedbed(300, TASKS, Uniform(), brood), times)  # noqa: B023
            yield [f"{brood:,}", f"{runs:,}", f"{seconds:.2f}", each(seconds, runs)]

    table("of 300 candidates offered at a time", ["evaluations", "s", "µs each"], rows())


# GEPA


def gepa(candidates: int, tasks: int, folder: str | None) -> tuple[float, int]:
    """CPU seconds of a search of GEPA until it has so many candidates, and its evaluations."""
    from gepa import optimize
    from gepa.core.adapter import EvaluationBatch

    evaluations, made = 0, count(1)

    class Adapter:
        propose_new_texts = None

        def evaluate(self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False) -> Any:
            nonlocal evaluations
            evaluations += len(batch)
            scores = [right(candidate[GENE], task) for task in batch]
            return EvaluationBatch(outputs=batch, scores=scores, trajectories=batch if capture_traces else None)

        def make_reflective_dataset(self, candidate: object, batch: object, names: list[str]) -> dict[str, Any]:
            return {name: [{}] for name in names}

    class Accepts:
        def should_accept(self, proposal: object, state: object) -> bool:
            return True

    class Silent:
        def log(self, message: str) -> None: ...

    begun = time.process_time()
    optimize(
        seed_candidate={GENE: START},
        trainset=[f"r{number}" for number in range(tasks)],
        valset=[f"t{number}" for number in range(tasks)],
        adapter=Adapter(),
        custom_candidate_proposer=lambda *_: {GENE: f"{START} Mind rule {next(made)}."},
        acceptance_criterion=Accepts(),
        skip_perfect_score=False,
        stop_callbacks=lambda state: len(state.program_candidates) > candidates,
        logger=Silent(),
        run_dir=folder,
    )
    return time.process_time() - begun, evaluations


def beside(sizes: list[int], times: int) -> None:
    if not find_spec("gepa"):
        return

    def rows() -> Iterator[list[str]]:
        for candidates in sizes:
            mine = fastest(lambda: seedbed(candidates, MANY_TASKS, Uniform()), times)  # noqa: B023
            stepwise = fastest(lambda: seedbed(candidates, MANY_TASKS, Uniform(), 1), times)  # noqa: B023
            theirs = gepa(candidates, MANY_TASKS, None)
            with tempfile.TemporaryDirectory() as folder:
                kept = gepa(candidates, MANY_TASKS, folder)
            ratio = (kept[0] / kept[1]) / (mine[0] / mine[1])
            yield [f"{candidates:,}", each(*mine), each(*stepwise), each(*theirs), each(*kept), f"{ratio:.1f}×"]

    columns = ["seedbed, all at once", "seedbed, one by one", f"GEPA {version('gepa')}", "GEPA, with its folder"]
    table(f"µs for an evaluation; candidates, {MANY_TASKS} tasks", [*columns, "ratio"], rows())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="growth,steps,gepa")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--most", type=int, default=3_000, help="candidates at most")
    parser.add_argument("--gepa", default="95,320", help="how many candidates beside GEPA")
    given = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "growth": lambda: growth(given.most, given.repeat),
        "steps": lambda: steps(given.repeat),
        "gepa": lambda: beside([int(size) for size in given.gepa.split(",")], given.repeat),
    }
    for name in given.only.split(","):
        parts[name]()


if __name__ == "__main__":
    main()
