"""What is wrong with an argument is said with a remedy, before anything is paid."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from loop_samples import ORACLE, agent, count, numbers

import seedbed
from seedbed import Dataset, Playbook, SearchOptions, SeedbedError, Settings, Task, Workspace, live
from seedbed.errors import StoreError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.storage.memory import MemoryStore
from seedbed.workspace.blocking import Blocking
from seedbed.workspace.workspace import PARTS

UNKNOWN = Dataset((Task("t0", {"n": 1}),))
"""A task whose answer nobody knows."""

FILES = {"agent.yaml": agent("x").to_yaml(), "tasks.jsonl": '{"n": 1, "expected": "1"}\n'}


@pytest.fixture
def space() -> Workspace:
    settings: Any = {"by": "ada", "models": {"oracle": ORACLE}, "channels": {"production": {}}}
    return Workspace(Settings(**settings), MemoryStore())


MISUSE: dict[str, tuple[Callable[[Workspace], Awaitable[object]], str]] = {
    "a dataset where a playbook is meant": (
        lambda space: space.evaluate("tasks.jsonl", "agent.yaml"),
        "The playbook comes first, then the tasks",
    ),
    "a playbook where a dataset is meant": (
        lambda space: space.evaluate("agent.yaml", "agent.yaml"),
        "Name a file such as tasks.jsonl",
    ),
    "a playbook to compare on": (
        lambda space: space.compare(agent("x"), agent("y"), on="agent.yaml"),
        "Name a file such as tasks.jsonl",
    ),
    "a dataset to run": (lambda space: space.run("tasks.jsonl", n=1), "Name a .yaml or .json file"),
    "tasks to search by before the playbook": (
        lambda space: space.evolve("tasks.jsonl", "agent.yaml"),
        "The playbook comes first, then the tasks",
    ),
    "options of a search as a mapping": (
        lambda space: space.evolve(agent("x"), numbers(9), options={"demos": 4}),  # type: ignore[arg-type]
        r"options: found \{'demos': 4\}; expected SearchOptions. Write seedbed.SearchOptions\(demos=4\)",
    ),
    "options of a comparison as a mapping": (
        lambda space: space.compare(agent("x"), agent("y"), on=numbers(9), options={}),  # type: ignore[arg-type]
        r"options: found \{\}; expected Comparing. Write seedbed.Comparing",
    ),
    "training as a mapping": (
        lambda space: space.train("main", {"n": 1}, "1", training={}),  # type: ignore[arg-type]
        r"training: found \{\}; expected Training. Write seedbed.Training",
    ),
    "a budget without a unit": (
        lambda space: space.evolve(agent("x"), numbers(9), budget=5),  # type: ignore[arg-type]
        "budget: found 5; expected what may be spent, such as 400 runs",
    ),
    "a metric of a search that nobody knows": (
        lambda space: space.evolve(agent("x"), numbers(40), options=SearchOptions(metrics=("exact_mach",))),
        r"Did you mean exact_match\?",
    ),
    "no replicates": (lambda space: space.evaluate(agent("x"), numbers(2), replicates=0), "replicates: found 0"),
    "a seed of a run in words": (
        lambda space: space.run(agent("x"), n=1, seed="q"),  # type: ignore[arg-type]
        'seed: found "q"; expected a whole number',
    ),
    "something to call that is a number": (
        lambda space: space.run(agent("x"), n=1, on_event=3),  # type: ignore[arg-type]
        "on_event: found 3; expected a function",
    ),
    "an amount in words": (
        lambda space: space.run(agent("x"), n=1, max_cost_usd="little"),  # type: ignore[arg-type]
        'max_cost_usd: found "little"; expected an amount in dollars',
    ),
    "no reason to release": (
        lambda space: space.release(agent("x"), to="production", because=None),  # type: ignore[arg-type]
        "because: found None; expected a verdict or a reason. Give the verdict that `compare` returned",
    ),
    "a number as the reason to release": (
        lambda space: space.release(agent("x"), to="production", because=3),  # type: ignore[arg-type]
        "because: found 3; expected a verdict or a reason",
    ),
    "something that is no playbook": (lambda space: space.run(7, n=1), "expected a Playbook, the path of one"),  # type: ignore[arg-type]
    "something that is no dataset": (
        lambda space: space.evaluate(agent("x"), 7),  # type: ignore[arg-type]
        "expected a Dataset, the path of one",
    ),
    "an unknown metric": (
        lambda space: space.evaluate(agent("x"), numbers(2), metric="exact_mach"),
        r"Did you mean exact_match\?",
    ),
    "something that is no metric": (
        lambda space: space.evaluate(agent("x"), numbers(2), metric=len),  # type: ignore[arg-type]
        "Put @metric above your function",
    ),
    "an unknown optimizer": (
        lambda space: space.evolve(agent("x"), numbers(9), optimizer="portfolo"),
        r"Did you mean portfolio\?",
    ),
    "an unknown model": (
        lambda space: space.evaluate(
            Playbook.from_document({"roles": {"a": {"model": "oracel"}}}), Dataset((Task("t", {"n": 1}, "1"),))
        ),
        'no model named "oracel"',
    ),
    "an unknown channel": (
        lambda space: space.release(agent("x"), to="nowhere"),
        "Add it under channels in the workspace file",
    ),
    "an unknown channel to compare on": (
        lambda space: space.compare(agent("x"), agent("y"), on=live("nowhere"), metric="rating"),
        'no channel named "nowhere"; expected one of: production',
    ),
    "tasks to evaluate without what was expected": (lambda space: space.evaluate(agent("x"), UNKNOWN), "expected"),
    "tasks to compare on without what was expected": (
        lambda space: space.compare(agent("x"), agent("y"), on=UNKNOWN),
        "expected",
    ),
    "tasks to search by without what was expected": (
        lambda space: space.evolve(agent("x"), Dataset(tuple(Task(f"t{n}", {"n": n}) for n in range(9)))),
        "expected",
    ),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("case", MISUSE.values(), ids=MISUSE)
async def test_misuse_is_an_error_with_a_remedy_before_anything_is_paid(
    case: tuple[Callable[[Workspace], Awaitable[object]], str], space: Workspace
) -> None:
    call, remedy = case
    with pytest.raises(SeedbedError, match=remedy):
        await call(space)
    assert count(space.store, "start") == count(space.store, "turn") == 0


NEED_A_REMEDY = [name for name in MISUSE if re.match("an unknown|tasks to|.* is meant|.* nobody knows", name)]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", NEED_A_REMEDY)
def test_misuse_without_await_is_the_same_error_with_a_remedy(name: str, space: Workspace) -> None:
    call, message = MISUSE[name]
    with asyncio.Runner() as runner:
        blocking: Any = Blocking(space, runner)
        with pytest.raises(SeedbedError, match=message) as wrong:
            call(blocking)
    assert all(each.found and each.expected and each.remedy for each in wrong.value.problems), wrong.value.problems
    assert count(space.store, "start") == count(space.store, "turn") == 0


def with_a_plain_with() -> None:
    with seedbed.open(store="memory:"):
        pass


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a difference from nothing": (
        lambda: seedbed.diff(agent("x"), None),  # type: ignore[arg-type]
        "playbook: found None; expected a Playbook, or the path of one. Playbook.load",
    ),
    "the genes of a mapping": (lambda: seedbed.genes({}), "playbook: found {}; expected a Playbook"),  # type: ignore[arg-type]
    "genes of nothing": (lambda: seedbed.with_genes(None, {}), "playbook: found None"),  # type: ignore[arg-type]
    "genes without values": (lambda: seedbed.with_genes(agent("x"), None), "values: found None"),  # type: ignore[arg-type]
    "a playbook from nowhere": (lambda: Playbook.load(None), "path: found None; expected the path of a playbook"),  # type: ignore[arg-type]
    "a dataset from nowhere": (lambda: Dataset.load(None), "path: found None; expected the path of a dataset"),  # type: ignore[arg-type]
    "a dataset of texts": (
        lambda: Dataset(["a"]),  # type: ignore[arg-type]
        r'tasks\[0\]: found "a"; expected a Task .* Write Task\(id, inputs, expected\)',
    ),
    "a dataset of one text": (lambda: Dataset("ab"), r'tasks\[0\]: found "ab"'),  # type: ignore[arg-type]
    "a task without named inputs": (
        lambda: Task("a", "b"),  # type: ignore[arg-type]
        r'inputs: found "b"; expected inputs by name. Write Task\(id, inputs, expected\)',
    ),
    "evidence from nowhere": (lambda: seedbed.verify_evidence(None), "expected the path of an evidence file"),  # type: ignore[arg-type]
    "a workspace that is a number": (lambda: seedbed.open_blocking(3), "expected the path of a workspace file"),
    "a metric that is a number": (
        lambda: seedbed.metric(3),  # type: ignore[call-overload]
        "metric: found 3; expected a function that has a name. Write @metric above a function",
    ),
    "a metric that takes too much": (
        lambda: seedbed.metric(lambda run, task, limit: 1),
        r"missing a required argument: 'limit'; expected a function of \(run, task\)",
    ),
    "a tool that is a number": (lambda: seedbed.tool(3), "tool: found 3; .* Write @tool above a function"),  # type: ignore[arg-type]
    "demos in words": (lambda: SearchOptions(demos="4"), 'demos: found "4"; expected at least 0'),  # type: ignore[arg-type]
    "fewer demos than none": (lambda: SearchOptions(demos=-1), "demos: found -1; expected at least 0"),
    "patience in words": (lambda: SearchOptions(patience="x"), 'patience: found "x"; expected a number of steps'),  # type: ignore[arg-type]
    "one text as instructions": (
        lambda: SearchOptions(instructions="Be brief."),  # type: ignore[arg-type]
        'instructions: found "Be brief."; expected a list of texts',
    ),
    "a seed in words": (lambda: SearchOptions(seed="x"), 'seed: found "x"; expected a whole number'),  # type: ignore[arg-type]
    "one metric as all": (lambda: SearchOptions(metrics="f1"), 'metrics: found "f1"; expected a list of names'),  # type: ignore[arg-type]
    "an error rate in words": (lambda: seedbed.Comparing(alpha="x"), 'alpha: found "x"; expected above 0'),  # type: ignore[arg-type]
    "a rule that is a number": (lambda: seedbed.Comparing(rule=3), "rule: found 3; expected one of: exact"),  # type: ignore[arg-type]
    "an order drawn by words": (lambda: seedbed.Comparing(seed="x"), 'seed: found "x"; expected a whole number'),  # type: ignore[arg-type]
    "past runs by number": (lambda: seedbed.past_runs(3), "where: found 3; expected conditions in words"),  # type: ignore[arg-type]
    "traffic of nothing": (lambda: live(None), "channels: found None; expected the name of a channel"),  # type: ignore[arg-type]
    "a list of models": (lambda: seedbed.open(models=["a"]), "models: found .* expected models by name"),  # type: ignore[arg-type]
    "one tool as all": (lambda: seedbed.open(tools=print), "tools: found .* expected a list of tools"),  # type: ignore[arg-type]
    "a store that is a number": (lambda: seedbed.open(store=3), "store: found 3; expected a store or its URL"),  # type: ignore[arg-type]
    "a person that is a number": (lambda: seedbed.open(store="memory:").acting(3), "by: found 3"),  # type: ignore[arg-type]
    "a name that is a number": (
        lambda: seedbed.open(store="memory:").playbooks.name(3, agent("x"), because="x"),  # type: ignore[arg-type]
        "name: found 3; expected the name of a branch",
    ),
    "a reason that is a number": (
        lambda: seedbed.open(store="memory:").playbooks.name("x", agent("x"), because=3),  # type: ignore[arg-type]
        "because: found 3; expected a reason in words",
    ),
    "recent runs by name": (lambda: seedbed.open(store="memory:").runs.recent("a"), 'limit: found "a"'),  # type: ignore[arg-type]
    "the best of a number": (lambda: BestOf(3), "candidates: found 3; expected a list of playbooks"),  # type: ignore[arg-type]
    "a score in words": (lambda: seedbed.Score("a"), 'score: found "a"; expected a number'),  # type: ignore[arg-type]
    "a share in words": (lambda: numbers(3).split("a", 1), 'share: found "a"; expected more than 0'),  # type: ignore[arg-type]
    "a tool without a function": (lambda: seedbed.Tool("a", 3), "tool: found 3; expected a function"),  # type: ignore[arg-type]
    "training of a number": (lambda: seedbed.Training(3), "branch: found 3; expected the name of a branch"),  # type: ignore[arg-type]
    "a metric named by a number": (lambda: ExactMatch(3), "name: found 3; expected the name of a metric"),  # type: ignore[arg-type]
    "an async workspace in a plain with": (with_a_plain_with, r"Write `async with`, or `with seedbed.open_blocking"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_python_says_what_was_expected(mistake: tuple[Callable[[], object], str]) -> None:
    call, message = mistake
    with pytest.raises(SeedbedError, match=message) as wrong:
        call()
    assert all(problem.found and problem.expected for problem in wrong.value.problems)


def test_playbooks_are_compared_by_their_files(tmp_path: Path) -> None:
    for name in "xy":
        (tmp_path / name).with_suffix(".yaml").write_text(agent(name).to_yaml(), encoding="utf-8")
    x, y = tmp_path / "x.yaml", str(tmp_path / "y.yaml")
    assert seedbed.diff(x, y) == seedbed.diff(agent("x"), agent("y")) != []
    assert seedbed.genes(y) == seedbed.genes(agent("y"))
    assert seedbed.with_genes(x, {}) == agent("x")


async def test_a_workspace_that_was_closed_says_so(tmp_path: Path) -> None:
    space = seedbed.open(store=f"sqlite:///{tmp_path}/seedbed.db", models={"oracle": ORACLE}, by="ada")
    async with space:
        await space.run(agent(".*"), n=3)
        assert len(space.runs.recent()) == 1
    space.close()  # a second time does nothing
    with pytest.raises(StoreError, match="workspace: found one that was closed; expected one that is open"):
        await space.run(agent(".*"), n=4)
    with pytest.raises(StoreError, match="open another one"):
        space.runs.recent()
    assert "closed" in repr(space)


def test_a_blocking_workspace_that_was_closed_says_so() -> None:
    with seedbed.open_blocking(store="memory:", models={"oracle": ORACLE}, by="ada") as space:
        assert space.run(agent(".*"), n=3).output == "3"
    for late in (lambda: space.run(agent(".*"), n=3), lambda: space.runs.recent()):
        with pytest.raises(StoreError, match="workspace: found one that was closed"):
            late()


async def test_a_blocking_workspace_in_an_event_loop_names_the_other() -> None:
    with pytest.raises(SeedbedError, match=r"found a running event loop; .* async with seedbed.open\(\)"):
        seedbed.open_blocking(store="memory:")


async def test_a_search_takes_its_metric_from_the_options(space: Workspace) -> None:
    options = SearchOptions(metrics=["contains"], budget="40 runs")  # type: ignore[arg-type]
    search = await space.evolve(agent("x"), numbers(9), options=options)
    assert space.searches.get(search.search).options.metrics == ("contains",)


async def test_a_reason_that_is_no_text_moves_nothing(space: Workspace) -> None:
    await space.release(agent("x"), to="production", because="the first one")
    with pytest.raises(StoreError, match="because: found None; expected a reason in words"):
        await space.channels.freeze("production", because=None)  # type: ignore[arg-type]


async def test_a_workspace_has_its_parts_and_says_what_it_has_not(space: Workspace) -> None:
    assert {*PARTS, "run", "evaluate", "compare", "evolve", "release"} <= {*dir(space)}
    assert all(getattr(space, part) is getattr(space, part) for part in PARTS)
    with pytest.raises(AttributeError, match="a workspace has no 'playbok'"):
        _ = space.playbok
    assert "ada" in repr(space)


async def test_another_person_works_in_the_same_workspace(space: Workspace) -> None:
    ben = space.acting("ben")
    await ben.release(agent(".*"), to="production", because="the first one")
    ref = space.store.ref("channels/production")
    assert ref
    assert (ref.by, space.by, ben.by, ben.store is space.store) == ("ben", "ada", "ben", True)
    assert (await space.run("production", n=3)).output == "3"


async def test_closing_the_workspace_of_another_person_closes_nothing(tmp_path: Path) -> None:
    async with seedbed.open(store=f"sqlite:///{tmp_path}/seedbed.db", models={"oracle": ORACLE}, by="ada") as space:
        async with space.acting("ben") as ben:
            assert (await ben.run(agent(".*"), n=3)).output == "3"
        assert (await space.run(agent(".*"), n=4)).output == "4"
        assert len(space.runs.recent()) == 2
