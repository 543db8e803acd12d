"""Past runs as tasks: replayed on a bench, cached by all that matters, with measured fidelity."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from replay_samples import compare_replayed, context_of

from seedbed.errors import BudgetSpent, DatasetError, NotFound, RunError
from seedbed.evaluation.context import seed_of
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.proof.certificate import certificate
from seedbed.experiments.replay.fidelity import adjust_with_live, measure_fidelity
from seedbed.experiments.replay.history import draw_history, find_past_runs
from seedbed.experiments.replay.replay import (
    SUBSTITUTED,
    ReplayCache,
    Replayer,
    ReplayKey,
    find_replayable,
    is_invalid,
    is_replayed,
    replay_all,
    replay_context,
)
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.runs.history import recall, recent
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

STRICT, LENIENT = ReplayMode("strict"), ReplayMode("lenient")

sent: list[str] = []


@tool(changes=True)
def send(to: str) -> str:
    sent.append(to)
    return f"sent to {to}"


async def agent(task: Mapping[str, Any], stage: Stage) -> Any:
    turn = await stage.ask("writer", f"Is {task['n']} even?", step="say")
    if task["n"] % 10 == 3:
        raise RunError("three is too much")
    await stage.call("send", to=str(task["n"]))
    return turn.text


async def loud(task: Mapping[str, Any], stage: Stage) -> Any:
    turn = await stage.ask("writer", f"Is {task['n']} even?", step="say")
    await stage.call("send", to=f"{task['n']}!")
    return turn.text


async def outer(task: Mapping[str, Any], stage: Stage) -> Any:
    if task.get("inner"):
        return (await stage.ask("writer", f"Is {task['n']} even?", step="say")).text
    return (await stage.open({"n": task["n"], "inner": True})).output


BOOK: dict[str, Any] = {
    "program": f"{__name__}:agent",
    "roles": {"writer": {"model": "m", "system": "Answer."}},
    "rules": {"allow": ["send"]},
}
MODELS = {"m": {"use": "scripted", "args": {"replies": {"[02468] even": "yes", ".": "no"}}}}
A = Playbook.from_document(BOOK)
B = Playbook.from_document({**BOOK, "roles": {"writer": {"model": "m", "system": "Answer well."}}})


def with_role(playbook: Playbook, **given: Any) -> Playbook:
    document = playbook.document()
    return Playbook.from_document({**document, "roles": {"writer": {**document["roles"]["writer"], **given}}})


def workspace(store: Any = None, **more: Any) -> Workspace:
    space = Workspace(Settings.model_validate({"by": "ada", "models": MODELS, **more}), store or MemoryStore())
    space.tools = [send]
    return space


async def lived(count: int = 10) -> Workspace:
    """A workspace with so many runs of A, of which every tenth failed."""
    space = workspace()
    for number in range(count):
        try:
            await space.run(A, n=number, seed=number)
        except RunError:
            assert number % 10 == 3
    sent.clear()
    return space


def known(count: int = 10) -> list[Task]:
    return [Task(str(n), {"n": n}, "yes" if n % 2 == 0 else "no") for n in range(count)]


# On a bench


async def test_a_bench_of_replays_scores_past_runs_and_changes_nothing() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store, playbook=A.digest), by=(), known=known())
    bench = replay_context(context_of(space))
    card = await evaluate(A, past.tasks, ExactMatch(), bench)
    values = {cell.task: cell.value for cell in card.cells}
    assert sorted(value for value in values.values() if value is not None) == [1.0] * 9
    assert sent == []
    assert len(list(recent(space.store, 99))) == 10
    space.resources.real_tools = True
    live = await evaluate(A, known(), ExactMatch(), context_of(space))
    assert not {cell.key for cell in live.cells} & {cell.key for cell in card.cells}
    assert not {cell.run for cell in live.cells if cell.run} & {cell.run for cell in card.cells if cell.run}


async def test_what_was_replayed_is_not_replayed_again() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store, statuses=["completed"]), by=(), known=known())
    first = await evaluate(A, past.tasks, ExactMatch(), replay_context(context_of(space)))
    facts = len(list(space.store.facts(Query(kind="turn"))))
    again = await evaluate(A, past.tasks, ExactMatch(), replay_context(context_of(space)))
    assert [cell.value for cell in again.cells] == [cell.value for cell in first.cells]
    other = replay_context(context_of(space))
    for task in past.tasks:
        await other.perform("0" * 32, A, task, seed_of(task, 0), Ledger())
    assert len(list(space.store.facts(Query(kind="turn")))) == facts


async def test_an_item_that_cannot_be_replayed_is_invalid_and_not_a_failure_of_the_playbook() -> None:
    space = await lived(9)
    past = draw_history(find_past_runs(space.store), by=(), known=known(9))
    cells = (await evaluate(B, past.tasks, ExactMatch(), replay_context(context_of(space)))).cells
    assert all(is_invalid(cell) for cell in cells)
    assert "messages.0.text" in cells[0].reason
    ends = len(list(space.store.facts(Query(kind="run"))))
    again = (await evaluate(B, past.tasks, ExactMatch(), replay_context(context_of(space)))).cells
    assert [cell.reason for cell in again] == [cell.reason for cell in cells]
    assert len(list(space.store.facts(Query(kind="run")))) == ends  # a recording does not change
    cells = (await evaluate(A, past.tasks, ExactMatch(), replay_context(context_of(space)))).cells
    (failed,) = (cell for cell in cells if cell.value is None)
    assert not is_invalid(failed)  # it failed then, and fails again


async def test_where_no_item_can_be_replayed_the_evaluation_stops_with_the_reason() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store), by=(), known=known())
    with pytest.raises(RunError, match=r"messages\.0\.text.*Found this in all of the first 10 runs"):
        await evaluate(B, past.tasks, ExactMatch(), replay_context(context_of(space)))


async def test_another_replicate_has_a_seed_that_was_not_recorded() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store, statuses=["completed"]), by=(), known=known())
    card = await evaluate(A, past.tasks, ExactMatch(), replay_context(context_of(space)), replicates=2)
    assert [is_invalid(cell) for cell in card.cells] == [bool(cell.replicate) for cell in card.cells]


async def test_two_runs_on_the_same_inputs_are_two_tasks_of_one_source() -> None:
    space = workspace()
    one, two = await space.run(A, n=2, seed=1), await space.run(A, n=2, seed=2)
    past = draw_history(find_past_runs(space.store), by=(), known=known())
    assert len({task.source for task in past.tasks}) == 1
    assert past.tasks.tasks[0].source
    card = await evaluate(A, past.tasks, ExactMatch(), replay_context(context_of(space)))
    assert {(recall(space.store, cell.run).replay or {})["of"] for cell in card.cells} == {one.id, two.id}


async def test_a_task_that_is_no_past_run_cannot_be_replayed() -> None:
    space = await lived(1)
    with pytest.raises(DatasetError, match='task "0": found no recording'):
        await evaluate(A, known(1), ExactMatch(), replay_context(context_of(space)))
    gone = Task(f"replay of {'f' * 32}", {"n": 0}, "yes")
    with pytest.raises(NotFound, match="no run"):
        await evaluate(A, [gone], ExactMatch(), replay_context(context_of(space)))


async def test_a_bench_of_replays_never_has_them_performed_elsewhere_where_they_would_be_live() -> None:
    space = await lived(1)

    class Others:
        def cells(self, *_: Any) -> Any:
            raise AssertionError("asked others")

    past = draw_history(find_past_runs(space.store), by=(), known=known(1))
    bench = replay_context(replace(context_of(space), remote=Others()))
    assert (await evaluate(A, past.tasks, ExactMatch(), bench)).cells[0].value == 1.0


async def test_batches_keep_the_pairs_together_in_the_order_of_the_tasks() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store), by=())
    perform = Replayer(space.resources.runner, LENIENT)
    found = [pair async for pair in replay_all([A, B], past.tasks, perform, at_once=7)]
    assert [task.id for task, _ in found] == [task.id for task in past.tasks]
    for task, (one, two) in found:
        if isinstance(one, Run) and isinstance(two, Run):
            assert (one.inputs, two.inputs) == (task.inputs, task.inputs)
            assert (one.playbook, two.playbook) == (A.digest, B.digest)
        else:
            assert isinstance(one, RunError) == isinstance(two, RunError) == (task.inputs["n"] == 3)
    assert sent == []


async def test_tasks_that_cannot_be_replayed_for_all_are_found_before_they_are_compared() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store), by=(), known=known())
    perform = Replayer(space.resources.runner, STRICT)
    every = await find_replayable([A], past.tasks, perform)
    assert (every.tasks, every.missed) == (past.tasks, {})
    assert set(every.steps) == {"exact"}
    none = await find_replayable([A, B], past.tasks, perform)
    assert (len(none.tasks), len(none.missed)) == (0, 10)
    assert all("messages.0.text" in each for each in none.missed.values())


async def test_a_task_is_not_answerable_where_the_candidate_heard_what_the_control_was_told() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store), by=(), known=known())
    found = await find_replayable([A, B], past.tasks, Replayer(space.resources.runner, LENIENT))
    assert (len(found.tasks), set(found.missed.values())) == (0, {SUBSTITUTED})  # also where it failed afterwards
    assert not found.steps
    with pytest.raises(DatasetError, match="fork:1"):
        await compare_replayed(space, A, B, metric=ExactMatch(), past=past, mode="lenient")
    assert "comparison" not in space.store.kinds()


async def test_words_that_a_run_opened_by_the_candidate_says_are_the_candidates_too() -> None:
    space = workspace()
    opening = [Playbook.from_document({**each, "program": f"{__name__}:outer"}) for each in (BOOK, B.document())]
    for number in range(3):
        await space.run(opening[0], n=number, seed=number)
    past = draw_history(find_past_runs(space.store, playbook=opening[0].digest), 3, by=())
    found = await find_replayable(opening, past.tasks, Replayer(space.resources.runner, LENIENT))
    assert set(found.missed.values()) == {SUBSTITUTED}
    same = await find_replayable(opening[:1], past.tasks, Replayer(space.resources.runner, LENIENT))
    assert (same.missed, set(same.steps)) == ({}, {"exact"})


async def test_what_a_tool_found_for_another_may_stand_in() -> None:
    space = await lived()
    past = draw_history(find_past_runs(space.store, statuses=["completed"]), by=(), known=known())
    louder = Playbook.from_document({**BOOK, "program": f"{__name__}:loud"})
    found = await find_replayable([A, louder], past.tasks, Replayer(space.resources.runner, LENIENT))
    assert (found.missed, dict(found.steps)) == ({}, {"exact": 9, "substituted": 9})


async def test_live_steps_are_paid_from_one_ledger_and_what_is_not_paid_says_nothing_of_a_recording() -> None:
    space = workspace(models={"m": {**MODELS["m"], "usd_per_million": [0, 1_000_000]}})
    a, b = (with_role(each, max_tokens=1) for each in (A, B))  # an answer costs a dollar
    for number in range(3):
        await space.run(a, n=number, seed=number)
    past = draw_history(find_past_runs(space.store, playbook=a.digest), by=(), known=known())
    anew, metric = ReplayMode("fork", 1), ExactMatch()
    with pytest.raises(BudgetSpent, match="higher limit"):
        await measure_fidelity(past, Replayer(space.resources.runner, anew), ledger=Ledger(0.5, last_share=0.0))
    with pytest.raises(BudgetSpent, match="higher limit"):
        await find_replayable(
            [a, b], past.tasks, Replayer(space.resources.runner, anew), ledger=Ledger(0.5, last_share=0.0)
        )
    with pytest.raises(BudgetSpent, match="higher limit"):  # enough for three replays, not for those of B too
        await compare_replayed(space, a, b, metric=metric, past=past, mode=str(anew), max_cost_usd=4.0)
    verdict, replays = await compare_replayed(space, a, b, metric=metric, past=past, mode=str(anew), max_cost_usd=100.0)
    assert not replays.replayable.missed
    proof = certificate(space.store, verdict.experiment)  # about how they ended, not about how they were broken off
    assert proof.coverage is not None
    assert proof.coverage.steps["candidate"] == {"call": {"exact": 3}, "turn": {"live": 3}}
    assert proof.problems == ()
    assert len(list(space.store.facts(Query(kind="turn")))) == 3 + 6  # what was paid is not paid twice


async def test_a_candidate_is_compared_on_past_runs_and_nothing_is_done_in_the_world() -> None:
    space = workspace(models={**MODELS, "dull": {"use": "scripted", "args": {"replies": {".": "no"}}}})
    dull = Playbook.from_document({**BOOK, "roles": {"writer": {"model": "dull", "system": "Answer."}}})
    for number in (n for n in range(40) if n % 10 != 3):
        await space.run(dull, n=number, seed=number)
    sent.clear()
    past = draw_history(find_past_runs(space.store, playbook=dull.digest), known=known(40))
    bench = replay_context(context_of(space), ReplayMode("fork", 1))
    verdict = await run_experiment(dull, A, past.tasks, ExactMatch(), bench)
    assert (verdict.finding, verdict.losses) == ("superior", 0)
    assert sent == []
    again = await run_experiment(
        dull, A, past.tasks, ExactMatch(), replay_context(context_of(space), ReplayMode("fork", 1))
    )
    assert again == verdict
    assert all(map(is_replayed, space.store.get(verdict.experiment)["models"].values()))
    space.resources.real_tools = True
    live = await run_experiment(dull, A, Dataset(tuple(known(40))), ExactMatch(), context_of(space))
    assert not any(map(is_replayed, space.store.get(live.experiment)["models"].values()))


# Cache

KEY = ReplayKey(
    playbook="b2:" + "1" * 64,
    inputs={"q": "Why?"},
    models={"m": {"use": "scripted", "args": {"temperature": 0.5}}},
    tools={"send": {"changes": True}},
    code="seedbed 1",
    seed=1,
    replicate=2,
    mode="strict",
    recording="a" * 32,
)


def changed(value: Any, chance: random.Random) -> Any:
    """The same value with one part of it changed."""
    if isinstance(value, dict):
        name = chance.choice([*value, "another"])
        return {**value, name: changed(value[name], chance)} if name in value else {**value, name: 1}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + chance.choice([-1, 1, 0.5 if isinstance(value, float) else 2])
    place = chance.randrange(len(value) + 1)
    return value[:place] + chance.choice("0123456789abcdef /:") + value[place:]


@given(some.sampled_from([field.name for field in fields(ReplayKey)]), some.integers())
def test_a_key_with_any_part_changed_never_gives_what_was_kept(part: str, seed: int) -> None:
    run = replace(RUN, id=KEY.id)
    cache = ReplayCache(MemoryStore())
    cache.keep(run)
    other = replace(KEY, **{part: changed(getattr(KEY, part), random.Random(seed))})
    assert other != KEY
    assert cache.get(other.id) is None
    assert cache.get(replace(KEY).id) == run


RUN = Run(
    id="0" * 32,
    playbook="b2:" + "1" * 64,
    inputs={},
    seed=1,
    started=datetime(2026, 1, 1, tzinfo=UTC),
    status="completed",
    output="x" * 1_000,
    error="",
    turns=(),
    tokens=0,
    cost_usd=0.0,
    latency_seconds=0.0,
    models={},
)


async def test_whatever_a_replay_depends_on_is_in_its_key() -> None:
    space = await lived(1)
    (task,) = draw_history(find_past_runs(space.store), by=()).tasks

    def key(
        space: Workspace, book: Playbook = A, mode: ReplayMode = STRICT, task: Task = task, replicate: int = 0
    ) -> str:
        return Replayer(space.resources.runner, mode).key(book, task, seed_of(task, replicate)).id

    other_model = workspace(space.store, models={"m": {"use": "scripted", "args": {"replies": {".": "maybe"}}}})
    other_tool = workspace(space.store)
    other_tool.tools = [tool(name="send", changes=True)(lambda to: "not sent")]
    harmless = workspace(space.store)
    harmless.tools = [tool(name="send", effect="reads")(send.function)]
    served = workspace(space.store, tools=["json:dumps"])
    again = await space.run(A, n=0, seed=9)
    later = replace(task, id=f"replay of {again.id}")
    code = Playbook.from_document({**BOOK, "program": f"{__name__}:lived"})
    keys = [
        key(space),
        key(space, B),
        key(space, code),
        key(space, mode=LENIENT),
        key(space, mode=ReplayMode("fork", 1)),
        key(space, mode=ReplayMode("fork", 2)),
        key(space, replicate=1),
        key(space, task=later),
        key(space, task=replace(task, inputs={"n": 1})),
        key(other_model),
        key(other_tool),
        key(harmless),
        key(served),
    ]
    assert len({*keys}) == len(keys)
    assert key(workspace(space.store)) == keys[0]


async def test_tools_that_are_exchanged_under_way_are_seen() -> None:
    space = await lived(1)
    (task,) = draw_history(find_past_runs(space.store), by=()).tasks
    perform = Replayer(space.resources.runner, STRICT)
    before = perform.key(A, task, 1)
    space.tools = []
    assert space.resources.runner.tools == []
    assert perform.key(A, task, 1) != before


def test_memory_holds_no_more_bytes_than_it_may_and_forgets_what_was_not_used_for_longest() -> None:
    runs = [replace(RUN, id=f"{number:032x}") for number in range(50)]
    one = ReplayCache(MemoryStore())
    one.keep(runs[0])
    cache = ReplayCache(MemoryStore(), at_most_bytes=10 * one.bytes)
    for run in runs[:10]:
        cache.keep(run)
    assert all(run.id in cache for run in runs[:10])
    assert cache.get(runs[0].id) == runs[0]  # now the second is the one that was not used for longest
    cache.keep(runs[10])
    assert runs[0].id in cache
    assert runs[1].id not in cache
    for run in runs * 3:
        cache.keep(run)
        assert cache.bytes <= 10 * one.bytes
    assert sum(run.id in cache for run in runs) == 10
    cache.keep(replace(runs[49], output="y" * 1_000_000))  # alone too large: the old one is not right any more either
    assert runs[49].id not in cache
    assert cache.bytes == 9 * one.bytes


def test_keeping_the_same_twice_counts_once() -> None:
    cache = ReplayCache(MemoryStore())
    cache.keep(RUN)
    size = cache.bytes
    cache.keep(RUN)
    assert cache.bytes == size > 1_000


async def test_what_memory_has_forgotten_is_in_the_store() -> None:
    space = await lived(1)
    past = draw_history(find_past_runs(space.store), by=(), known=known())
    tiny = ReplayCache(space.store, at_most_bytes=0)
    card = await evaluate(A, past.tasks, ExactMatch(), replay_context(context_of(space), cache=tiny))
    (cell,) = card.cells
    assert cell.run not in tiny
    found = tiny.get(cell.run)
    assert found is not None
    assert (found.id, found.output) == (cell.run, "yes")


# Fidelity


async def test_replays_of_what_was_recorded_agree_with_it_in_every_stratum() -> None:
    space = await lived(20)
    past = draw_history(find_past_runs(space.store), by=["outcome"])
    measured = await measure_fidelity(past, Replayer(space.resources.runner, STRICT))
    assert (measured.agreement.agreed, measured.agreement.missed, measured.agreement.rate.n) == (20, 0, 20)
    assert measured.agreement.rate.low == pytest.approx(0.025 ** (1 / 20))  # Clopper and Pearson, all of 20
    assert measured.population == measured.agreement.rate
    assert {name: each.rate.n for name, each in measured.strata.items()} == {"completed": 18, "failed": 2}
    assert measured.steps == {"call": {"exact": 18}, "turn": {"exact": 20}}
    assert measured.share("exact") == measured.share("exact", "turn") == 1.0
    assert sent == []


async def test_what_is_not_the_same_any_more_is_measured_and_not_guessed() -> None:
    space = await lived(10)
    changed = {"m": {"use": "scripted", "args": {"replies": {".": "no"}}}}
    later = workspace(space.store, models=changed)
    past = draw_history(find_past_runs(space.store, statuses=["completed"]), by=[])
    strict = await measure_fidelity(past, Replayer(later.resources.runner, STRICT))
    assert (strict.agreement.agreed, strict.agreement.missed) == (0, 9)
    assert strict.share("missed", "turn") == 1.0
    live = await measure_fidelity(past, Replayer(later.resources.runner, ReplayMode("fork", 1)))
    assert (live.agreement.agreed, live.agreement.missed) == (4, 0)  # as the odd ones said no before
    assert live.share("live", "turn") == 1.0
    assert live.share("exact", "call") == 1.0
    assert live.population.low < 4 / 9 < live.population.high
    (drift,) = live.drift
    assert (drift.kind, drift.compared, drift.differ, drift.path) == ("turn", 9, 5, "text")
    assert not strict.drift
    assert sent == []


# Together with live runs


def test_few_live_runs_correct_many_replays() -> None:
    chance = random.Random(3)
    truth = {str(task): float(chance.choice([-1, 0, 0, 1, 1])) for task in range(2_000)}
    optimistic = {task: 1.0 if chance.random() < 0.1 else each for task, each in truth.items()}
    live = {task: truth[task] for task in chance.sample(sorted(truth), 200)}
    combined = adjust_with_live(optimistic, live)
    mean = sum(truth.values()) / len(truth)
    assert combined.interval.low <= mean <= combined.interval.high
    assert combined.worth > 2
    with pytest.raises(DatasetError, match="live: found 1 tasks that were not replayed"):
        adjust_with_live(optimistic, {"strange": 1.0})


async def test_a_dataset_of_past_runs_is_content_like_any_other() -> None:
    space = await lived(10)
    tasks = draw_history(find_past_runs(space.store)).tasks
    assert Dataset.from_content(tasks.content()) == tasks
