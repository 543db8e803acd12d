"""How fast evaluations are when the model costs no time: alone, durable, known again, and by other processes.

    python benchmarks/evaluate.py [--size 10000] [--postgres URL] [--redis URL] [ROW ...]

Rows: engine, runs, durable, known, known-postgres, stall, processes, ray, dspy, inspect. Those that lack what they
need are left out: `known-postgres` wants --postgres, `ray` that and Ray, `dspy` and `inspect` their packages. The
engine row has a performer that does nothing, the others whole recorded runs of a scripted model; the peers ask a model
of their own kind that answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import seedbed
from seedbed import Dataset, ExactMatch, Playbook, Task
from seedbed.evaluation.cells import Cell, Naming
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.scorecard import Scorecard
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.storage import open_store
from seedbed.storage.store import Store

PLAYBOOK = Playbook.from_document({"roles": {"writer": {"model": "instant", "system": "Say yes."}}})
METRIC = ExactMatch()
NAMING = Naming(PLAYBOOK.digest, {}, [METRIC.identity])
NOW = datetime.now(UTC)


def tasks(size: int) -> Dataset:
    return Dataset(tuple(Task(f"t{n}", {"question": f"Is {n} a number?"}, "yes") for n in range(size)))


def settings(url: str, cache: str = "") -> Settings:
    instant = {"use": "scripted", "args": {"replies": {".": "yes"}}}
    return Settings(store=url, by="bench", models={"instant": instant}, cache=cache)


def told(row: str, size: int, wall: float, cpu: float | None = None) -> None:
    spent = f"{cpu / size * 1e6:,.0f}" if cpu is not None else "-"
    print(f"| {row} | {size:,} | {size / wall:,.0f} | {spent} | {wall:.2f} |", flush=True)


async def timed(
    row: str, size: int, work: Awaitable[Any], *, here: bool = True, scored: Callable[[Any], int] | None = None
) -> None:
    """Tell how long it took, if everything was scored: what failed took no time that means anything."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = await work
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = scored(result) if scored else len(result.scored)
    if done == size:
        told(row, size, wall, cpu if here else None)
    else:
        print(f"| {row} | only {done:,} of {size:,} were scored | - | - | - |", flush=True)


async def engine(size: int) -> None:
    await timed("engine, in memory", size, evaluate(PLAYBOOK, tasks(size), METRIC, _bench(open_store("memory:"))))


def _bench(store: Store) -> EvaluationContext:
    async def performed(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        return Run(
            id=run,
            playbook=playbook.digest,
            inputs=dict(task.inputs),
            seed=seed,
            models={},
            started=NOW,
            status="completed",
            output="yes",
            error="",
            turns=(),
            tokens=0,
            cost_usd=0.0,
            latency_seconds=0.0,
        )

    return EvaluationContext(store, performed, lambda _: {}, "bench", at_once=64)


async def runs(size: int) -> None:
    space = seedbed.open(settings("memory:"))
    await timed("whole runs, in memory", size, space.evaluate(PLAYBOOK, tasks(size), metric=METRIC))
    space.close()


async def durable(size: int) -> None:
    """Cells alone, as an evaluation appends them: in groups."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/seedbed.db")
        cells = [_cell(task) for task in tasks(size)]
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(0, size, 500):
            store.append(cell.fact(NOW, "bench") for cell in cells[start : start + 500])
        told("durable cells on SQLite, 500 together", size, time.perf_counter() - wall, time.process_time() - cpu)
        store.close()


def _cell(task: Task) -> Cell:
    names = NAMING(task, 0)
    return Cell(
        key=names.cells[0],
        playbook=PLAYBOOK.digest,
        task=task.id,
        replicate=0,
        metric=METRIC.name,
        value=1.0,
        answer="yes",
        run=names.run,
    )


async def known(size: int, url: str = "") -> None:
    """Ten times as many cells as the other rows have, all paid before: opened, then opened and summed up."""
    size *= 10
    with tempfile.TemporaryDirectory() as folder:
        where = "PostgreSQL" if url else "SQLite"
        store = open_store(url or f"sqlite:///{folder}/seedbed.db")
        wanted = tasks(size)
        for start in range(0, size, 5000):
            store.append(_cell(task).fact(NOW, "bench") for task in wanted.tasks[start : start + 5000])
        await timed(f"known cells on {where}", size, evaluate(PLAYBOOK, wanted, METRIC, _bench(store)))
        await timed(f"known cells on {where}, with their scorecard", size, _summed_up(wanted, store))
        store.close()


async def _summed_up(wanted: Dataset, store: Store) -> Scorecard:
    card = await evaluate(PLAYBOOK, wanted, METRIC, _bench(store))
    _ = card.interval, card.worst(), card.cost_usd, card.latency_seconds, card.reused
    return card


async def stall(size: int) -> None:
    """How long the event loop keeps others waiting during an evaluation on SQLite."""
    waits: list[float] = []

    async def look() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            waits.append(time.perf_counter() - began - 0.001)

    with tempfile.TemporaryDirectory() as folder:
        space = seedbed.open(settings(f"sqlite:///{folder}/seedbed.db"))
        looking = asyncio.ensure_future(look())
        await timed("whole runs, on SQLite", size, space.evaluate(PLAYBOOK, tasks(size), metric=METRIC))
        looking.cancel()
        waits.sort()
        p99, most = (1000 * waits[round(share * (len(waits) - 1))] for share in (0.99, 1.0))
        print(f"\nThe event loop kept others waiting for {p99:.0f} ms (p99), {most:.0f} ms at most.\n")
        space.close()


async def processes(size: int, url: str = "", parallel: str = "2", cache: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        space = seedbed.open(settings(url or f"sqlite:///{folder}/seedbed.db", cache))
        where = ("PostgreSQL and Redis" if cache else "PostgreSQL") if url else "SQLite"
        # Playbooks of their own, so that what another row paid for is not known: once to start the workers, then timed.
        first, second = (_another(f"{os.getpid()} {parallel} {each}") for each in range(2))
        await space.evaluate(first, tasks(64), metric=METRIC, parallel=parallel)
        name = "Ray" if parallel == "ray" else "2 processes"
        work = space.evaluate(second, tasks(size), metric=METRIC, parallel=parallel)
        await timed(f"whole runs, {name}, on {where}", size, work, here=False)
        space.close()


def _another(name: str) -> Playbook:
    return Playbook.from_document({"roles": {"writer": {"model": "instant", "system": f"Say yes. {name}"}}})


async def ray(size: int, url: str, cache: str) -> None:
    import ray as its

    its.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    await processes(size, url, "ray", cache)
    its.shutdown()


async def dspy(size: int) -> None:
    import dspy as its
    from dspy.utils import DummyLM

    its.configure(lm=DummyLM([{"answer": "yes"}] * 4 * size))
    examples = [
        its.Example(question=task.inputs["question"], answer="yes").with_inputs("question") for task in tasks(size)
    ]
    scored = its.Evaluate(
        devset=examples,
        metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
        num_threads=8,
        display_progress=False,
    )
    work = asyncio.to_thread(scored, its.Predict("question -> answer"))
    await timed(
        "dspy.Evaluate, in memory",
        size,
        work,
        scored=lambda result: sum(map(bool, (each[2] for each in result.results))),
    )


async def inspect(size: int) -> None:
    from inspect_ai import Task as Theirs
    from inspect_ai import eval_async
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import exact
    from inspect_ai.solver import generate

    samples = [Sample(input=str(task.inputs["question"]), target="yes", id=task.id) for task in tasks(size)]
    # With its usage told, so that it does not count tokens, for which it would fetch a table from the network.
    yes = ModelOutput.from_content("mockllm/model", "yes")
    yes.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=lambda *_: yes.model_copy())
    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(dataset=MemoryDataset(samples), solver=generate(), scorer=exact())
        work = eval_async(theirs, model=model, log_dir=folder, max_connections=64)
        await timed("inspect_ai, its log on disk", size, work, scored=_correct)


def _correct(logs: Any) -> int:
    (log,) = logs
    return sum(sample.scores["exact"].value == "C" for sample in log.samples or [] if sample.scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--postgres", default="", metavar="URL")
    parser.add_argument("--redis", default="", metavar="URL")
    given = parser.parse_args()
    rows: dict[str, Callable[[int], Awaitable[None]]] = {
        "engine": engine,
        "runs": runs,
        "durable": durable,
        "known": known,
        "stall": stall,
        "processes": processes,
    }
    if given.postgres:
        rows["known-postgres"] = lambda size: known(size, given.postgres)
    if given.postgres and find_spec("ray"):
        rows["ray"] = lambda size: ray(size, given.postgres, given.redis)
    for name, module, row in (("dspy", "dspy", dspy), ("inspect", "inspect_ai", inspect)):
        if find_spec(module):
            rows[name] = row
    print("| | evaluations | a second | µs of CPU each | seconds |\n|---|---:|---:|---:|---:|")
    for name in given.rows or rows:
        asyncio.run(rows[name](given.size))


if __name__ == "__main__":
    main()
