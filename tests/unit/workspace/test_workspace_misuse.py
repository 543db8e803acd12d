"""What is wrong with an argument is said with a remedy, before anything is paid."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from loop_samples import ORACLE, agent, count, numbers

import seedbed
from seedbed import Dataset, Playbook, SeedbedError, Settings, Task, Workspace, live
from seedbed.storage.memory import MemoryStore
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
        "The playbook comes first, then the tasks",
    ),
    "a playbook to compare on": (
        lambda space: space.compare(agent("x"), agent("y"), on="agent.yaml"),
        "The playbook comes first, then the tasks",
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
        lambda space: space.release(agent("x"), to="prodction"),
        "Add it under channels in the workspace file",
    ),
    "an unknown channel to compare on": (
        lambda space: space.compare(agent("x"), agent("y"), on=live("nowhere"), metric="rating"),
        'no channel "nowhere". Channels: production',
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


@pytest.mark.parametrize("case", MISUSE.values(), ids=MISUSE)
async def test_misuse_is_an_error_with_a_remedy_before_anything_is_paid(
    case: tuple[Callable[[Workspace], Awaitable[object]], str],
    space: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    call, remedy = case
    with pytest.raises(SeedbedError, match=remedy):
        await call(space)
    assert count(space.store, "start") == count(space.store, "turn") == 0


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


async def test_live_models_and_tools_need_no_file() -> None:
    def look(at: str) -> str:
        return at

    model = FakeListChatModel(responses=["blue", "blue"])
    async with seedbed.open(models={"fast": model, "oracle": ORACLE}, tools=[look], by="ada") as space:
        sky = Playbook.from_document({"roles": {"one": {"model": "fast"}}})
        assert (await space.run(sky, q="Which colour has the sky?")).output == "blue"
        assert (await space.run(agent(".*"), n=3)).output == "3"
        assert (space.tools, space.by) == ([look], "ada")
