"""Agents that act on the world while they are only tried: by evaluations, comparisons, searches and drills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import seedbed
from seedbed import Dataset, Playbook, Task, Workspace, past_runs, tool
from seedbed.errors import RunError, SettingsError
from seedbed.evolution.training import Training
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore

refunded: list[str] = []
pretended: list[str] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    refunded.clear()
    pretended.clear()


def refund(order: str) -> str:
    refunded.append(order)
    return f"refunded {order}"


def pretend(order: str) -> str:
    pretended.append(order)
    return f"refunded {order}"


async def desk(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("refund", order=task["order"])


DESK = Playbook.from_document(
    {
        "program": f"{__name__}:desk",
        "parameters": {"patience": {"value": 1, "low": 0, "high": 9}},
        "rules": {"allow": ["refund"]},
    }
)
IMPATIENT = Playbook.from_document({**DESK.content(), "parameters": {"patience": {"value": 0, "low": 0, "high": 9}}})


def orders(number: int) -> Dataset:
    return Dataset(tuple(Task(f"t{n}", {"order": str(n)}, f"refunded {n}") for n in range(number)))


def space(*tools: Any, real_tools: bool = False) -> Workspace:
    settings = Settings.model_validate({"by": "ada", "channels": {"shop": {"require": []}}})
    return seedbed.open(settings, store=MemoryStore(), tools=tools or [refund], real_tools=real_tools)


async def drill(at: Workspace) -> Any:
    await at.release(DESK, to="shop", because="first")
    return await at.channels.drill("shop", orders(3), range(1, 4), at.scorecards.metric("exact_match"))


async def train(at: Workspace) -> Any:
    at.playbooks.name("desk", DESK, because="start")
    return await at.train("desk", {"order": "1"}, "refunded 1", training=Training("desk"))


TRYING: dict[str, Callable[[Workspace], Any]] = {
    "evaluate": lambda at: at.evaluate(DESK, orders(3)),
    "several": lambda at: at.scorecards.evaluate_each({"one": Playbook.from_document(SAYS), "two": DESK}, orders(3)),
    "compare": lambda at: at.compare(DESK, IMPATIENT, on=orders(20)),
    "evolve": lambda at: at.evolve(DESK, orders(80), optimizer="best_of", budget="100 runs"),
    "sentinel": lambda at: at.experiments.sentinel(DESK, orders(3)),
    "train": train,
    "drill": drill,
}
SAYS = {"roles": {"clerk": {"model": "fast"}}}


@pytest.mark.parametrize("trying", TRYING)
async def test_what_only_tries_an_agent_refuses_to_change_the_world_and_says_the_four_ways(trying: str) -> None:
    async with space() as at:
        with pytest.raises(SettingsError, match="refund, which would really change the world") as refused:
            await TRYING[trying](at)
        for way in ("simulated=", "sandbox=", "--replay", "--real-tools"):
            assert way in str(refused.value)
        assert at.runs.recent() == []
    assert refunded == []


@pytest.mark.parametrize("trying", [name for name in TRYING if name != "several"])
async def test_a_simulated_twin_acts_in_its_place(trying: str) -> None:
    async with space(tool(refund, simulated=pretend)) as at:
        await TRYING[trying](at)
        assert not any(run.real_tools for run in at.runs.recent())
        assert refunded == []
        assert pretended
        await at.run(DESK, order="7")
    assert refunded == ["7"]


async def test_a_person_may_let_tools_really_act_and_such_scores_are_not_those_of_a_twin() -> None:
    store = MemoryStore()
    async with seedbed.open(store=store, tools=[refund], by="ada", real_tools=True) as at:
        real = await at.evaluate(DESK, orders(2))
        assert sorted(refunded) == ["0", "1"]
    async with seedbed.open(store=store, tools=[tool(refund, simulated=pretend)], by="ada") as at:
        tried = await at.evaluate(DESK, orders(2))
    assert sorted(pretended) == ["0", "1"]
    assert not {cell.run for cell in real.cells} & {cell.run for cell in tried.cells}


@pytest.mark.parametrize("kind", ["object", "mapping", "with", "async with"])
async def test_a_sandbox_is_made_for_each_run_shared_by_its_tools_and_thrown_away(kind: str) -> None:
    made: list[list[str]] = []
    left: list[list[str]] = []

    def functions(done: list[str]) -> Any:
        def refund(order: str) -> str:
            done.append(order)
            return f"refunded {order}"

        def count() -> int:
            return len(done)

        made.append(done)
        return {"refund": refund, "count": count}

    class Books:
        def __init__(self) -> None:
            vars(self).update(functions([]))

    @contextmanager
    def books() -> Iterator[Any]:
        yield functions([])
        left.append(made[-1])

    @asynccontextmanager
    async def books_later() -> Any:
        yield functions([])
        left.append(made[-1])

    sandbox: Any = {"object": Books, "mapping": lambda: functions([]), "with": books, "async with": books_later}[kind]
    playbook = Playbook.from_document({"program": f"{__name__}:counting"})
    tools = [tool(refund, sandbox=sandbox), tool(count, effect="reads", sandbox=sandbox)]
    async with space(*tools) as at:
        at.playbooks.keep(DESK, because="to open")
        card = await at.evaluate(playbook, Dataset(tuple(Task(f"t{n}", {"order": str(n)}, 2) for n in range(3))))
        assert card.interval.mean == 1.0
    assert [len(each) for each in made] == [2, 2, 2]
    assert len(left) == (3 if "with" in kind else 0)
    assert refunded == []


def count() -> int:
    raise AssertionError("this is the world")


async def counting(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.call("refund", order=task["order"])
    await stage.open({**task}, playbook=DESK.digest)  # a run within it has the same sandbox
    return await stage.call("count")


async def test_a_sandbox_without_the_tool_is_a_mistake_that_is_named() -> None:
    async with space(tool(refund, sandbox=dict)) as at:
        with pytest.raises(SettingsError, match="tool refund: sandbox: found a dict without it"):
            await at.evaluate(DESK, orders(2))


async def test_a_tool_that_sends_is_treated_like_one_that_changes_and_one_that_reads_is_not() -> None:
    async with space(tool(refund, effect="sends")) as at:
        with pytest.raises(SettingsError, match="refund"):
            await at.evaluate(DESK, orders(2))
    async with space(tool(refund, effect="reads")) as at:
        assert (await at.evaluate(DESK, orders(2))).interval.mean == 1.0
    with pytest.raises(SettingsError, match='effect: found "writes"; expected one of: reads, changes, sends'):
        tool(refund, effect="writes")  # type: ignore[arg-type]


async def test_who_cannot_call_a_tool_is_not_refused() -> None:
    """A dialogue calls none, and a rule may forbid it."""
    model = {"use": "scripted", "args": {"replies": {"": "refunded 0"}}}
    async with seedbed.open(store=MemoryStore(), models={"fast": model}, tools=[refund], by="ada") as at:
        assert (await at.evaluate(Playbook.from_document(SAYS), orders(1))).interval.mean == 1.0
        forbidden = Playbook.from_document({**DESK.content(), "rules": {"never": ["ref*"]}})
        assert (await at.evaluate(forbidden, orders(1))).cells[0].value is None
        sometimes = Playbook.from_document(
            {**DESK.content(), "rules": {"never": [{"refund": {"order": {"one_of": ["1"]}}}]}}
        )
        with pytest.raises(SettingsError, match="refund, which"):
            await at.evaluate(sometimes, orders(1))
    assert refunded == []


async def test_a_run_that_is_not_live_refuses_by_itself_whoever_has_it_performed() -> None:
    async with space() as at:
        with pytest.raises(SettingsError, match="refund, which would really change the world"):
            await at.resources.runner.perform_once("a" * 32, DESK, {"order": "1"}, 1)
    assert refunded == []


async def test_recorded_results_are_the_fourth_way() -> None:
    async with space() as at:
        for n in range(12):
            await at.run(DESK, order=str(n))
        assert len(refunded) == 12
        verdict = await at.compare(DESK, IMPATIENT, on=past_runs(expected=orders(12)))
        assert verdict.finding == "inconclusive"
    assert len(refunded) == 12


async def test_an_evaluation_that_is_resumed_as_a_run_does_not_act_for_real_either() -> None:
    async with space(tool(refund, simulated=pretend)) as at:
        failing = Playbook.from_document({"program": f"{__name__}:fails_once"})
        await at.evaluate(failing, orders(1))
        (run,) = at.runs.recent()
        assert run.status == "failed"
        done = await at.runs.resume(run)
        assert (done.status, done.real_tools) == ("completed", False)
    assert refunded == []
    assert pretended == ["0", "again"]


async def fails_once(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.call("refund", order=task["order"])
    if len(pretended) < 2 and "again" not in pretended:
        pretended.append("again")
        raise RunError("the power is out")
    return "done"


async def test_the_sandbox_of_a_run_that_is_resumed_knows_what_was_done_in_it() -> None:
    done: list[list[str]] = []

    def books() -> Any:
        own: list[str] = []
        done.append(own)
        return {"refund": lambda order: own.append(order), "count": lambda: len(own)}

    tools = [tool(refund, sandbox=books), tool(count, effect="reads", sandbox=books)]
    async with space(*tools) as at:
        playbook = Playbook.from_document({"program": f"{__name__}:counts_later"})
        await at.evaluate(playbook, orders(1))
        (run,) = at.runs.recent()
        assert (await at.runs.resume(run)).output == 2
    assert done == [["0"], ["0", "0"]]


async def counts_later(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.call("refund", order=task["order"])
    if not pretended:
        pretended.append("the power was out")
        raise RunError("the power is out")
    await stage.call("refund", order=task["order"])
    return await stage.call("count")


# On the command line

SHOP = """
from pathlib import Path

REFUNDS = Path(__file__).with_name("refunds.txt")


def refund(order: str) -> str:
    with REFUNDS.open("a") as file:
        file.write(order + "\\n")
    return f"refunded {order}"


def pretend(order: str) -> str:
    return f"refunded {order}"


async def handle(task, stage):
    return await stage.call("refund", order=task["order"])
"""
BOOK = "program: shop:handle\nrules: {allow: [refund]}\nparameters: {patience: {value: 1, low: 0, high: 9}}\n"


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "seedbed", *words]
    return subprocess.run(
        call, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "400"}
    )


def shop(folder: Path, source: str) -> list[str]:
    (folder / "shop.py").write_text(SHOP)
    (folder / "desk.yaml").write_text(BOOK)
    (folder / "seedbed.yaml").write_text(f"store: sqlite:///seedbed.db\nby: ada\ntools:\n  - {source}\n")
    lines = [json.dumps({"inputs": {"order": str(n)}, "expected": f"refunded {n}"}) for n in range(50)]
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    return ["evolve", "desk.yaml", "tasks.jsonl", "--optimizer", "best_of", "--budget", "100 runs"]


def test_a_search_on_the_command_line_makes_no_refunds(tmp_path: Path) -> None:
    """It made 50, and said nothing."""
    done = command(tmp_path, *shop(tmp_path, "shop:refund"))
    assert done.returncode == 1
    assert "refund, which would really change the world" in done.stderr
    assert "--real-tools" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "refunds.txt").exists()


@pytest.mark.parametrize(
    ("source", "words", "refunds"),
    [
        ("{function: 'shop:refund', effect: changes}", ["--real-tools"], 4),
        ("{function: 'shop:refund', simulated: 'shop:pretend'}", ["--parallel", "2"], 0),
    ],
)
def test_the_ways_on_the_command_line(source: str, words: list[str], refunds: int, tmp_path: Path) -> None:
    shop(tmp_path, source)
    lines = (tmp_path / "tasks.jsonl").read_text().splitlines()[:4]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    done = command(tmp_path, "evaluate", "desk.yaml", "tasks.jsonl", "--json", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean"] == 1.0
    written = tmp_path / "refunds.txt"
    assert (len(written.read_text().splitlines()) if written.exists() else 0) == refunds


# MCP servers

SERVER = """
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("shop")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(order: str) -> str:
    return f"refunded {order}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True))
def fetch(order: str) -> str:
    return f"refunded {order}"


@server.tool()
def refund(order: str) -> str:
    with Path("refunds.txt").open("a") as file:
        file.write(order)
    return f"refunded {order}"


server.run()
"""


async def looks(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("shop_look", order=task["order"])


async def refunds(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("shop_refund", order=task["order"])


class Pretended:
    def shop_refund(self, order: str) -> str:
        return refund(order)

    def shop_look(self, order: str) -> str:
        return refund(order)

    shop_fetch = shop_look


async def test_tools_of_a_server_change_the_world_unless_it_marks_them_or_a_sandbox_stands_in(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    served: dict[str, Any] = {"mcp": {"name": "shop", "command": [sys.executable, "server.py"]}}

    def at(source: Any) -> Workspace:
        found = Settings.model_validate({"by": "ada", "tools": [source], "source": str(tmp_path / "seedbed.yaml")})
        return Workspace(found, MemoryStore())

    looking = Playbook.from_document({"program": f"{__name__}:looks", "rules": {"never": ["*_refund", "*_fetch"]}})
    refunding = Playbook.from_document({"program": f"{__name__}:refunds", "rules": {"allow": ["shop_refund"]}})
    async with at(served) as plain:
        assert (await plain.evaluate(looking, orders(1))).interval.mean == 1.0
        with pytest.raises(SettingsError, match="found shop_fetch, shop_refund, which"):
            await plain.evaluate(refunding, orders(1))
    assert not (tmp_path / "refunds.txt").exists()
    async with at({**served, "sandbox": f"{__name__}:Pretended"}) as boxed:
        assert (await boxed.evaluate(refunding, orders(1))).interval.mean == 1.0
        assert refunded == ["0"]
        await boxed.run(refunding, order="1")
    assert (tmp_path / "refunds.txt").read_text() == "1"
