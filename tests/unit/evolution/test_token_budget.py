"""A search with a budget in tokens never takes more of them, wherever its runs are and however often it is ended."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from loop_samples import agent, bench, count, numbers, searched

import seedbed
from seedbed import BestOf, Dataset, ExactMatch, Playbook, Task
from seedbed.errors import BudgetSpent
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.evaluate import all_cells
from seedbed.evolution.evaluators import RunEvaluator
from seedbed.evolution.payments import Payments
from seedbed.evolution.variation.operators import reword
from seedbed.models.calling.limits import ModelLimits, Retry, Tolerance
from seedbed.models.cards import Registry
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.library import Library
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.spending.account import Account
from seedbed.spending.budget import Budget
from seedbed.spending.ledger import Ledger
from seedbed.spending.quota import Spending
from seedbed.stage.runner import Runner
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store
from seedbed.testing.optimizer import outcome_of
from seedbed.workspace.execution import Execution

ORACLE = {"use": "scripted", "args": {"replies": {".": "hm hm"}}}
START = agent("[0-4]")
BOOKS = [agent("[0-5]"), agent("[0-9]"), agent("1[0-9]|[0-9]")]


class Greedy(ScriptedChat):
    """Takes every token it may, now and then does not come to an answer, and tells the test what it took."""

    seed: int
    taken: list[int]

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        result = await super()._agenerate(messages, *args, **given)
        chance = random.Random(f"{self.seed} {messages[-1].text} {len(self.taken)}")
        read, written = sum(len(str(message.text).encode()) + 16 for message in messages), given["max_tokens"]
        self.taken.append(read + written)
        await asyncio.sleep(0)
        if chance.random() < 0.1:
            raise TimeoutError  # and wants to be paid
        told = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
        result.generations[0].message.usage_metadata = told if chance.random() < 0.8 else None
        return result


def greedy(store: Store, number: int, taken: list[int]) -> EvaluationContext:
    card = {"use": f"{__name__}.Greedy", "args": {"replies": {".": "hm"}, "seed": number, "taken": []}}
    settings = Settings(by="ada", models={"oracle": card})
    models = Registry(settings.models)
    models["oracle"].chat.taken = taken  # type: ignore[attr-defined]
    runner = Runner(settings, store, Library(store, "ada"), models, Spending(settings, store))
    runner.limits = ModelLimits(retry=Retry(tries=2, first_seconds=0.0), tolerance=Tolerance(failures=1_000_000))

    async def performed(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        return await runner.perform_once(run, playbook, dict(task.inputs), seed, ledger=ledger)

    return EvaluationContext(store, performed, lambda _: {"oracle": "1"}, "ada", at_once=5)


def used(store: Store) -> int:
    names = ("prompt_tokens", "completion_tokens", "uncounted_tokens", "tokens")
    bodies = [fact.body for kind in ("turn", "failure") for fact in store.facts(Query(kind=kind))]
    return sum(int(body.get(name, 0)) for body in bodies for name in names)


async def test_no_search_takes_more_tokens_than_it_may_at_any_limit() -> None:
    for number in range(60):
        chance, store, taken = random.Random(number), MemoryStore(), list[int]()
        budget = Budget(tokens=chance.randrange(20, 60_000))
        found = await searched(START, numbers(12), BestOf(BOOKS), greedy(store, number, taken), budget=budget)
        assert sum(taken) == used(store) == found.spent["tokens"] <= (budget.tokens or 0), number


@pytest.mark.parametrize("calls", [0, 3, 13, 20, 31])
async def test_a_search_that_is_taken_up_again_has_spent_the_tokens_of_its_earlier_lives(calls: int) -> None:
    budget = Budget(tokens=5_000)
    expected = await searched(START, numbers(12), BestOf(BOOKS), bench(MemoryStore(), oracle=ORACLE), budget=budget)
    store, begun = MemoryStore(), 0

    async def dies(playbook: Playbook, task: Task, seed: int) -> None:
        nonlocal begun
        begun += 1
        if begun > calls:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await searched(START, numbers(12), BestOf(BOOKS), bench(store, dies, oracle=ORACLE), budget=budget)
    assert count(store, "run") == calls
    for _ in range(2):
        found = await searched(START, numbers(12), BestOf(BOOKS), bench(store, oracle=ORACLE), budget=budget)
        assert outcome_of(found) == outcome_of(expected)
        assert found.spent["tokens"] == expected.spent["tokens"] == used(store)


async def test_what_is_spent_of_a_budget_in_tokens_is_not_spent_again_by_who_comes_back() -> None:
    store, budget = MemoryStore(), Budget(tokens=150)
    first = await searched(START, numbers(12), BestOf(BOOKS), bench(store, oracle=ORACLE), budget=budget)
    runs = count(store, "run")
    assert 0 < runs < 4 * 12
    again = await searched(START, numbers(12), BestOf(BOOKS), bench(store, oracle=ORACLE), budget=budget)
    assert count(store, "run") == runs
    assert first.spent["tokens"] == again.spent["tokens"] == used(store)


async def test_what_a_round_took_that_the_tokens_did_not_last_for_is_counted_once() -> None:
    store, spent = MemoryStore(), []
    work = [(START, [(task, 0) for task in numbers(40)])]
    for fresh in ({START.digest}, set[str]()):
        arena = RunEvaluator(bench(store, oracle=ORACLE), [ExactMatch()])
        till = Payments("b2:search", arena, Account(Budget(tokens=150)))
        till.fresh |= fresh
        for _ in range(2):
            with pytest.raises(BudgetSpent):
                await till.pay(work)
        spent.append(till.account.spent["tokens"])
    assert spent == [used(store)] * 2
    assert spent[0] > 0


TWO = Playbook.from_document(
    {
        "roles": {"a": {"model": "one"}, "b": {"model": "other"}},
        "steps": [{"name": "x", "role": "a", "prompt": "{n}"}, {"name": "y", "role": "b", "prompt": "{x}"}],
    }
)


async def test_a_run_that_is_taken_up_again_has_spent_the_tokens_of_its_turns() -> None:
    store, ledgers = MemoryStore(), [Ledger(limit_tokens=9_000), Ledger(limit_tokens=9_000)]
    one, gone, back = ({"use": "scripted", "args": {"replies": each}} for each in ({".": "so so"}, [], {".": "well"}))
    (task,) = numbers(1)
    for other, ledger in zip((gone, back), ledgers, strict=True):
        its = bench(store, models={"one": one, "other": other})
        await asyncio.gather(its.perform("7" * 32, TWO, task, 1, ledger), return_exceptions=True)
    assert [ledger.spent_tokens for ledger in ledgers] == [1 + 2, 1 + 2 + 2 + 1] == [3, used(store)]


@pytest.mark.parametrize("parallel", [None, "2"], ids=["this loop", "processes"])
async def test_a_workspace_holds_a_budget_in_tokens_wherever_its_runs_are(parallel: str | None, tmp_path: Path) -> None:
    start = Playbook.from_document(
        {
            "roles": {"a": {"model": "m", "max_tokens": 9}},
            "steps": [{"name": "answer", "role": "a", "prompt": "Hey: {q}"}],
        }
    )
    books = list(reword(start, "steps.answer.prompt", ["Please: {q}", "Well: {q}", "Now: {q}", "Look here: {q}"]))
    tasks = Dataset(tuple(Task(f"t{n}", {"q": f"task {n}"}, "yes") for n in range(40)))
    card = {"use": "scripted", "args": {"replies": {"^Please.*[0-6]$": "yes", ".": "no " * 20}}}
    space = seedbed.open(Settings(store=f"sqlite:///{tmp_path}/seedbed.db", by="ada", models={"m": card}))
    try:
        optimizer, metric = BestOf(books), ExactMatch()
        found = await space.evolve(
            start, tasks, metric=metric, optimizer=optimizer, budget="600 tokens", parallel=parallel
        )
        assert 300 < used(space.store) == found.spent["tokens"] <= 600
        assert found.spent["usd"] == 0.0
        runs = count(space.store, "run")
        again = await space.evolve(start, tasks, metric=metric, optimizer=optimizer, budget="600 tokens")
        assert (again.spent["tokens"], count(space.store, "run")) == (found.spent["tokens"], runs)
    finally:
        space.close()


async def test_other_processes_take_no_more_tokens_than_there_are_slices_of(tmp_path: Path) -> None:
    book = Playbook.from_document({"roles": {"a": {"model": "m", "max_tokens": 40}}})
    card = {"use": "scripted", "args": {"replies": {".": "no " * 90}}}
    space = seedbed.open(Settings(store=f"sqlite:///{tmp_path}/seedbed.db", by="ada", models={"m": card}))
    try:
        context = Execution(space.resources).context("2")
        for replicate, limit in enumerate((1, 400, 1_500)):
            before, ledger = used(space.store), Ledger(limit_tokens=limit, last_share=0.0)
            plan = [(task, replicate) for task in numbers(60)]
            cells = await all_cells(book, plan, [ExactMatch()], replace(context, ledger=ledger))
            assert used(space.store) - before == ledger.spent_tokens <= limit
            assert sum(cell.tokens for cell in cells) >= limit - 150
            assert ledger.is_short
    finally:
        space.close()


def test_no_more_runs_are_launched_than_the_tokens_would_last_for() -> None:
    account = Account(Budget(tokens=1_000, usd=5.0))
    assert account.runs_left() is None
    account.learn(0.5, 90)
    account.learn(0.25, 100)
    account.ledger.spend(0.75, 190)
    assert (account.runs_left(), account.runs_left(reserve=3)) == (8, 5)
    account.ledger.spend(0.0, 801)
    assert account.is_over()
    assert account.spent == {"runs": 0, "tokens": 991, "usd": 0.75, "seconds": 0.0}
