from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from loop_samples import agent, bench, count, numbers
from pool_samples import LENGTH, SCORE, book
from search_samples import tasks

import seedbed
from seedbed.errors import QuotaSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import EvaluationContext, TaskReplicate
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.evolution.evaluators import FunctionEvaluator, RunEvaluator, cost_of, known_cells
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.variation.operators import reword
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, now
from seedbed.testing.optimizer import outcome_of

ITEMS: list[TaskReplicate] = [(task, 0) for task in tasks(4, "t")]


def paid_by(arena: Any, work: Any, ledger: Ledger | None = None) -> Any:
    return arena.pay(work, ledger or Ledger(), lambda cells: None)


async def test_a_spot_is_known_when_all_its_scores_are() -> None:
    store = MemoryStore()
    await paid_by(FunctionEvaluator(lambda *given: 1.0, store, "ann", [SCORE]), [(book(0), ITEMS)])
    both = FunctionEvaluator(lambda *given: (1.0, Score(None, "no")), store, "ann", [SCORE, LENGTH])
    assert known_cells(both, [(book(0), ITEMS)]) == {}
    paid = await paid_by(both, [(book(0), ITEMS[:2])])
    lapses = FailedRuns(store, "b2:search")
    assert known_cells(both, [(book(0), ITEMS)], lapses) == {}
    lapses.new([cell for cells in paid.values() for cell in cells], now(), "ann")
    found = known_cells(both, [(book(0), ITEMS), (book(1), ITEMS)], lapses)
    assert {spot: [cell.value for cell in cells] for spot, cells in found.items()} == {
        (book(0).digest, task.id, 0): [1.0, None] for task, _ in ITEMS[:2]
    }


def test_the_run_is_paid_once_however_many_scores_it_has() -> None:
    def cost(*of: tuple[float, int]) -> tuple[float, int]:
        one = Cell(key="k", playbook="b2:0", task="t", replicate=0, metric="m", value=1.0)
        return cost_of([replace(one, cost_usd=usd, tokens=tokens) for usd, tokens in of])

    assert cost((1.0, 100)) == (1.0, 100)
    assert cost((1.0, 100), (1.0, 100)) == (1.0, 100)
    assert cost((1.0, 100), (1.25, 130)) == (1.25, 130)  # a judge was asked


# On a bench


async def test_all_candidates_get_on_together_task_by_task() -> None:
    store, begun = MemoryStore(), []

    async def listen(playbook: Playbook, task: Task, seed: int) -> None:
        begun.append((playbook.roles["agent"].system, task.id))

    items = [(task, 0) for task in numbers(3)]
    await paid_by(
        RunEvaluator(bench(store, listen, at_once=1), [ExactMatch()]), [(agent("a"), items), (agent("b"), items)]
    )
    assert begun == [(system, f"t{n}") for n in range(3) for system in "ab"]


async def test_also_a_run_that_failed_did_cost_something() -> None:
    """The first of two answers is a dollar, the second never comes."""
    store, ledger = MemoryStore(), Ledger()
    twice = Playbook.from_document(
        {
            "roles": {"a": {"model": "oracle"}, "b": {"model": "silent"}},
            "steps": [{"name": "x", "role": "a", "prompt": "{n}"}, {"name": "y", "role": "b", "prompt": "{x}"}],
        }
    )
    models = {
        "oracle": {"use": "scripted", "args": {"replies": {".": "hm"}}, "usd_per_million": [0, 1_000_000]},
        "silent": {"use": "scripted", "args": {"replies": []}},
    }
    failed: list[Cell] = []
    arena = RunEvaluator(bench(store, models=models), [ExactMatch(), ExactMatch(name="again")])
    paid = await arena.pay(
        [(twice, [(task, 0) for task in numbers(2)])], ledger, lambda runs: failed.extend(chain(*runs))
    )
    assert [cell.value for cells in paid.values() for cell in cells] == [None] * 4
    assert [cost_of(cells) for cells in paid.values()] == [(1.0, 2), (1.0, 2)]
    assert sorted(cell.key for cell in failed) == sorted(cell.key for cells in paid.values() for cell in cells)
    assert ledger.spent_usd == 2.0


async def test_if_one_of_those_at_work_elsewhere_fails_the_others_are_ended() -> None:
    ended, begun = [], asyncio.Event()

    class Remote:
        async def cells(
            self, playbook: Playbook, plan: Sequence[TaskReplicate], metrics: Any, context: EvaluationContext
        ) -> AsyncGenerator[Sequence[Cell], None]:
            try:
                if playbook == agent("a"):
                    await begun.wait()
                    raise QuotaSpent("enough for today")
                begun.set()
                await asyncio.Event().wait()
                yield []
            finally:
                ended.append(playbook)

    arena = RunEvaluator(replace(bench(MemoryStore()), remote=Remote()), [ExactMatch()])
    items = [(task, 0) for task in numbers(3)]
    with pytest.raises(QuotaSpent):
        await paid_by(arena, [(agent("a"), items), (agent("b"), items)])
    assert ended == [agent("a"), agent("b")]


START = Playbook.from_document(
    {"roles": {"a": {"model": "m"}}, "steps": [{"name": "answer", "role": "a", "prompt": "Hey: {q}"}]}
)
CANDIDATES = list(reword(START, "steps.answer.prompt", ["Please: {q}", "Well: {q}", "Now: {q}", "Look here: {q}"]))
REPLIES = {"^Please.*[0-6]$": "yes", "^Now.*[7-9]$": "yes", "^Look.*1": "yes", "[0-2]$": "yes", ".": "no"}
FORTY = Dataset(tuple(Task(f"t{n}", {"q": f"task {n}"}, "yes") for n in range(40)))


async def test_a_search_by_other_processes_is_the_same_as_one_in_this_loop(tmp_path: Path) -> None:
    searches, cells = [], []
    for name, parallel in (("loop", None), ("processes", "2")):
        card = {"use": "scripted", "args": {"replies": REPLIES}, "usd_per_million": [0, 1_000_000]}
        settings = Settings(store=f"sqlite:///{tmp_path}/{name}.db", by="ada", models={"m": card})
        space = seedbed.open(settings)
        try:
            found = await space.evolve(
                START, FORTY, metric=ExactMatch(), optimizer=BestOf(CANDIDATES), budget="200 runs", parallel=parallel
            )
            searches.append((outcome_of(found), found.search, found.confirmed, found.spent["usd"], found.optimism))
            facts = space.store.facts(Query(kind="cell"))
            cells.append(sorted((fact.key, fact.value, fact.body["answer"], fact.body["cost_usd"]) for fact in facts))
            assert count(space.store, "run") == found.spent["runs"] == len(cells[-1])
        finally:
            space.close()
    assert searches[0] == searches[1]
    assert cells[0] == cells[1]
    assert searches[0][0][0] == CANDIDATES[0].digest
