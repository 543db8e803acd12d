from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from seedbed.errors import RunError
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

EMAIL = Playbook.from_document({"roles": {"sorter": {"model": "quick"}}})


@pytest.fixture
async def space() -> AsyncIterator[Workspace]:
    card = {"use": "scripted", "args": {"replies": {"": "refund it"}}, "usd_per_million": [1e6, 1e6]}
    space = Workspace(Settings.model_validate({"by": "ada", "models": {"quick": card}}), MemoryStore())
    yield space
    space.close()


def runs(space: Workspace) -> list[Run]:
    return [recall(space.store, fact.key) for fact in space.store.facts(Query(kind="start"))]


async def test_each_call_is_a_run_with_its_arguments_and_its_result(space: Workspace) -> None:
    @space.runs.recorded(EMAIL, seed=5)
    async def handle(mail: str, stage: Stage, *, urgent: bool = False) -> str:
        """Sort one mail."""
        return (await stage.ask("sorter", mail)).text + ("!" if urgent else "")

    assert await handle("It broke.") == "refund it"
    assert await handle(mail="It broke.", urgent=True) == "refund it!"
    first, second = runs(space)
    assert (first.inputs, first.output) == ({"mail": "It broke.", "urgent": False}, "refund it")
    assert (second.inputs, second.output) == ({"mail": "It broke.", "urgent": True}, "refund it!")
    assert {(run.status, run.seed, run.playbook, run.turns[0].role) for run in (first, second)} == {
        ("completed", 5, EMAIL.digest, "sorter")
    }
    assert (handle.__name__, handle.__doc__) == ("handle", "Sort one mail.")


async def test_the_stage_may_stand_anywhere_or_be_left_out(space: Workspace) -> None:
    @space.runs.recorded(EMAIL)
    async def first(stage: Stage, mail: str) -> str:
        await stage.log("seen")
        return mail

    @space.runs.recorded(EMAIL)
    async def without(mail: str) -> str:
        return mail

    assert (await first("a"), await without("b")) == ("a", "b")
    assert [run.output for run in runs(space)] == ["a", "b"]


async def test_what_is_raised_is_recorded_and_raised_again(space: Workspace) -> None:
    @space.runs.recorded(EMAIL)
    async def handle(mail: str) -> None:
        raise KeyError(mail)

    with pytest.raises(KeyError, match="lost"):
        await handle("lost")
    (run,) = runs(space)
    assert (run.status, run.error) == ("failed", "KeyError: 'lost'")


async def test_a_call_spends_no_more_than_it_may(space: Workspace) -> None:
    @space.runs.recorded(EMAIL, max_cost_usd=0.001)
    async def handle(mail: str, stage: Stage) -> str:
        return (await stage.ask("sorter", mail)).text

    with pytest.raises(RunError):
        await handle("It broke.")
    (run,) = runs(space)
    assert (run.status, run.cost_usd) == ("cost_limited", 0.0)


async def test_arguments_that_do_not_fit_are_told_as_ever_and_are_no_run(space: Workspace) -> None:
    @space.runs.recorded(EMAIL)
    async def handle(mail: str, stage: Stage) -> str:
        return mail

    with pytest.raises(TypeError, match="mail"):
        await handle()
    with pytest.raises(TypeError, match="stage"):
        await handle("a", stage=None)
    assert runs(space) == []


def plain(mail: str) -> str:
    return mail


async def several(*mails: str) -> None: ...


async def whatever(**mails: str) -> None: ...


@pytest.mark.parametrize("function", [plain, several, whatever])
async def test_a_function_that_cannot_be_recorded_is_told_at_once(space: Workspace, function: Any) -> None:
    with pytest.raises(RunError, match=rf"found {function.__name__}\(.*expected an async function"):
        space.runs.recorded(EMAIL)(function)


async def test_an_argument_is_never_taken_for_a_wish_about_the_run(space: Workspace) -> None:
    @space.runs.recorded(EMAIL, seed=5)
    async def handle(seed: int) -> int:
        return seed

    with pytest.raises(TypeError, match="seed"):
        await handle(7)
    assert runs(space) == []
