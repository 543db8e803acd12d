from __future__ import annotations

import asyncio
import importlib
import linecache
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import ModelUnavailable, PlaybookError, RunError, SeedbedError, StoreError
from seedbed.models.cards import Registry
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.stage.dialogue.dialogue import dialogue
from seedbed.stage.program import code_of, is_same_code, perform, program_of, program_source
from seedbed.stage.stage import Stage
from seedbed.stage.tools import Tool, tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Json, Query

# Programs of users


async def handle(task: Mapping[str, Any], stage: Stage) -> Any:
    reply = await stage.ask("sorter", f"Label: {task['mail']}")
    return {"label": reply.text}


async def stumble(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.ask("sorter", "first")
    return task["absent"]


async def curse(task: Mapping[str, Any], stage: Stage) -> Any:
    raise ValueError("half a smile: \ud83d")


async def return_a_set(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.ask("sorter", "first")
    return {1, 2}


async def overwrite(task: dict[str, Any], stage: Stage) -> Any:
    task["mail"]["subject"] = task["more"] = "something else"
    return "done"


async def wait_forever(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.ask("sorter", "first")
    await asyncio.get_running_loop().create_future()


def plain(task: Mapping[str, Any], stage: Stage) -> str:
    return "not awaitable"


def wrapped(task: Mapping[str, Any], stage: Stage) -> Any:
    return handle(task, stage)


class Agent:
    async def __call__(self, task: Mapping[str, Any], stage: Stage) -> str:
        return "from an object"


agent = Agent()
no_program = 5


def playing(program: str | None, store: MemoryStore, *, replies: Any = ("ham", "spam"), model: str = "fast") -> Stage:
    document = {"roles": {"sorter": {"model": model}}, **({"program": f"{__name__}:{program}"} if program else {})}
    playbook = Playbook.from_document(document)
    models = Registry({"fast": {"use": "scripted", "args": {"replies": list(replies)}}})
    recorder = Recorder(Journal(store), RunStart(playbook.digest, {"mail": "Hello"}, seed=1, models={}), by="ada")
    return Stage(playbook, models.__getitem__, recorder)


def recorded(store: MemoryStore) -> Fact:
    (fact,) = store.facts(Query(kind="run"))
    return fact


async def test_a_playbook_without_a_program_performs_its_dialogue() -> None:
    store = MemoryStore()
    run = await perform(playing(None, store), {"mail": "Hello"})
    assert (run.status, run.output) == ("completed", "ham")
    assert recall(store, run.id) == run


@pytest.mark.parametrize(
    ("program", "output"), [("handle", {"label": "ham"}), ("wrapped", {"label": "ham"}), ("agent", "from an object")]
)
async def test_a_users_own_program_performs_on_the_same_stage(program: str, output: Any) -> None:
    store = MemoryStore()
    run = await perform(playing(program, store), {"mail": "Hello"})
    assert run.output == output
    assert recall(store, run.id) == run


async def test_a_failed_run_is_recorded_with_its_turns_and_its_error_and_the_error_is_raised() -> None:
    store = MemoryStore()
    with pytest.raises(RunError, match=r"stumble failed: KeyError: 'absent'") as caught:
        await perform(playing("stumble", store), {"mail": "Hello"})
    assert isinstance(caught.value.__cause__, KeyError)
    run = recall(store, recorded(store).key)
    assert run.status == "failed"
    assert "KeyError: 'absent'" in run.error
    assert [turn.text for turn in run.turns] == ["ham"]


async def test_errors_of_seedbed_itself_are_raised_as_they_are() -> None:
    store = MemoryStore()
    with pytest.raises(ModelUnavailable) as caught:
        await perform(playing(None, store, replies=[]), {"mail": "Hello"})
    assert recorded(store).body["error"] == f"ModelUnavailable: {caught.value}"
    with pytest.raises(SeedbedError, match='no model named "slow"'):
        await perform(playing(None, MemoryStore(), model="slow"), {"mail": "Hello"})


async def test_an_error_that_cannot_be_written_down_as_it_is_does_not_hide_itself() -> None:
    store = MemoryStore()
    with pytest.raises(RunError, match="half a smile"):
        await perform(playing("curse", store), {"mail": "Hello"})
    assert "half a smile" in recorded(store).body["error"]


async def test_an_output_that_cannot_be_kept_fails_the_run_instead_of_losing_it() -> None:
    store = MemoryStore()
    with pytest.raises(RunError, match=r"an output that cannot be recorded.*set"):
        await perform(playing("return_a_set", store), {"mail": "Hello"})
    run = recall(store, recorded(store).key)
    assert (run.status, len(run.turns)) == ("failed", 1)


async def test_a_program_that_alters_its_task_alters_it_for_nobody_else() -> None:
    inputs = {"mail": {"subject": "Hello"}}
    await perform(playing("overwrite", MemoryStore()), inputs)
    assert inputs == {"mail": {"subject": "Hello"}}


async def test_a_cancelled_run_is_neither_completed_nor_failed_and_its_turns_stay() -> None:
    store = MemoryStore()
    performing = asyncio.ensure_future(perform(playing("wait_forever", store), {"mail": "Hello"}))
    while "turn" not in store.kinds():
        await asyncio.sleep(0)
    performing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await performing
    assert store.kinds() == {"start": 1, "turn": 1, "claim": 1}  # which says that nobody is at it any more


# Finding the program


def program(name: str) -> Playbook:
    return Playbook.from_document({"program": name})


def test_no_program_means_the_dialogue() -> None:
    assert program_of(Playbook.from_document({"roles": {"a": {}}})) is dialogue


def test_a_program_is_found_by_module_and_function() -> None:
    assert program_of(program(f"{__name__}:handle")) is handle


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_module:handle", "no_such_module:handle (ModuleNotFoundError"),
        (f"{__name__}:absent", "AttributeError"),
        (f"{__name__}:no_program", "5; expected an async function"),
        ("..odd:handle", "..odd:handle (TypeError"),
        ("broken_agent:handle", "SyntaxError"),
        ("raising_agent:handle", "ZeroDivisionError"),
    ],
)
async def test_a_program_that_cannot_be_found_is_told_with_the_reason_and_recorded(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_agent.py").write_text("def handle(:\n")
    (tmp_path / "raising_agent.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    store = MemoryStore()
    recorder = Recorder(Journal(store), RunStart("b2:0", {}, seed=1, models={}), by="ada")
    stage = Stage(program(name), Registry({}).__getitem__, recorder)
    with pytest.raises(PlaybookError) as caught:
        await perform(stage, {})
    assert told in str(caught.value)
    assert recorded(store).body["status"] == "failed"


async def test_a_program_that_is_not_async_is_told_so() -> None:
    with pytest.raises(PlaybookError, match="plain, which is not async; expected an async function"):
        await perform(playing("plain", MemoryStore()), {"mail": "Hello"})


async def test_trouble_with_the_store_is_not_taken_for_a_failure_of_the_program() -> None:
    class Full(MemoryStore):
        def append(self, facts: Any) -> int:
            raise StoreError("no space left")

    with pytest.raises(StoreError, match="no space left"):
        await perform(playing(None, Full()), {"mail": "Hello"})


def test_an_edited_program_or_tool_makes_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of before the edit must not pass for scores of the new code; comments make no difference."""
    monkeypatch.syspath_prepend(tmp_path)

    def source(text: str, *tools: Tool) -> Json | None:
        (tmp_path / "edited_agent.py").write_text(text)
        sys.modules.pop("edited_agent", None)
        linecache.clearcache()
        importlib.invalidate_caches()
        document = {"roles": {"r": {"model": "m"}}, "program": "edited_agent:answer"}
        return program_source(Playbook.from_document(document), tools, store, "ann")

    store = MemoryStore()
    one = "async def answer(inputs, stage):\n    return 1\n"
    assert source(one, tool(_adds)) is None
    assert source(f"# a remark\n{one}", tool(_adds)) is None
    edited = source(one.replace("1", "22"), tool(_adds))
    assert edited
    assert edited == source(one.replace("1", "22"), tool(_adds))
    assert source(one, tool(_subtracts, name="_adds")) not in (None, edited)


def test_an_edited_module_beside_a_program_or_a_tool_makes_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "clerk/__init__.py": "",
        "clerk/agent.py": "from clerk import rules\nasync def answer(inputs, stage):\n    return rules.answer()\n",
        "clerk/rules.py": "from .words import YES\ndef answer():\n    return YES\n",
        "clerk/words.py": "YES = 'yes'\n",
        "clerk/unused.py": "NO = 1\n",
        "clerk_tools.py": "def price(item: str) -> int:\n    import clerk_prices\n    return clerk_prices.PRICE\n",
        "clerk_prices.py": "PRICE = 3\n",
    }
    (tmp_path / "clerk").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    agent = Playbook.from_document({"roles": {"r": {"model": "m"}}, "program": "clerk.agent:answer"})
    price, store = tool(importlib.import_module("clerk_tools").price), MemoryStore()

    def source() -> Json | None:
        return program_source(agent, [], store, "ann", listed=[price])

    assert source() is None
    before = code_of(agent)
    for name in ("clerk/rules.py", "clerk/words.py", "clerk_prices.py"):
        (tmp_path / name).write_text(f"{files[name]}MORE = 1\n")
        assert source() is not None, name
        assert is_same_code(code_of(agent), before) is (name == "clerk_prices.py")
        (tmp_path / name).write_text(f"# a remark\n{files[name]}")
        assert source() is None
    (tmp_path / "clerk/unused.py").write_text("NO = 2\n")
    assert source() is None
    assert is_same_code(code_of(agent), before.partition("/")[0])  # as an older version recorded it


def _adds(a: int) -> int:
    return a + 1


def _subtracts(a: int) -> int:
    return a - 1
