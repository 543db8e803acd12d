from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import ActionForbidden, RunError, SettingsError
from seedbed.models.cards import Registry
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.settings import McpServer
from seedbed.stage.mcp import Connection, connected
from seedbed.stage.stage import Stage, StageOptions
from seedbed.stage.tools import Tool, toolbox
from seedbed.storage.memory import MemoryStore

SERVER = Path(__file__).with_name("mcp_server.py")


def files(**more: Any) -> McpServer:
    return McpServer(name="files", command=[sys.executable, str(SERVER), "stdio"], **more)


def python(program: str, **more: Any) -> McpServer:
    return McpServer(name="odd", command=[sys.executable, "-c", program], **more)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[str]:
    """The URL of a server on loopback that lets in whoever knows the key."""
    environment = {**os.environ, "SHOP_KEY": "open-sesame"}
    process = subprocess.Popen(
        [sys.executable, str(SERVER), "http"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    process.kill()
    process.wait()
    process.stdout.close()


def stage(tools: list[Tool], person: Any = None, **rules: Any) -> Stage:
    playbook = Playbook.from_document({"rules": rules or {"otherwise": "allow"}})
    recorder = Recorder(Journal(MemoryStore()), RunStart(playbook.digest, {}, seed=1, models={}), by="ada")
    return Stage(playbook, Registry({}).__getitem__, recorder, StageOptions(tools=toolbox(tools), confirm=person))


async def test_a_programs_tools_are_called_and_recorded_like_ones_own(tmp_path: Path) -> None:
    async with connected(files(), tmp_path) as tools:
        on = stage(tools)
        assert await on.call("files_names", folder="etc") == ["etc/a", "etc/b"]
        assert await on.call("files_size", of="abc") == {"abc": 3}
        assert await on.call("files_lines") == "first\nsecond"
    assert [(call.tool, call.changes) for call in on.recorder.calls] == [
        ("files_names", False),
        ("files_size", False),
        ("files_lines", True),
    ]
    assert next(tool.about for tool in tools if tool.name == "files_names") == "The names in a folder."


async def test_a_server_without_a_name_leaves_its_tools_their_own(tmp_path: Path) -> None:
    server = McpServer(command=[sys.executable, str(SERVER), "stdio"])
    async with connected(server, tmp_path) as tools:
        assert {"names", "write"} <= {tool.name for tool in tools}


async def test_what_is_not_marked_as_reading_changes_the_world_unless_the_settings_say_otherwise(
    tmp_path: Path,
) -> None:
    async with connected(files(reads=["lines"]), tmp_path) as tools:
        changing = {tool.name for tool in tools if tool.changes}
    assert changing == {"files_write", "files_spoil"}


async def test_a_tool_that_should_only_read_and_is_none_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r'MCP server files: reads: found "nmaes"; expected one of: names'):
        async with connected(files(reads=["nmaes"]), tmp_path):
            pass


async def test_rules_hold_for_the_tools_of_others(tmp_path: Path) -> None:
    async with connected(files(), tmp_path) as tools:
        with pytest.raises(ActionForbidden, match="files_write"):
            await stage(tools, never=["files_write"]).call("files_write", text="a")
        with pytest.raises(ActionForbidden, match="never"):  # although its server says that it only reads
            await stage(tools, never=["files_names"]).call("files_names", folder="etc")
        with pytest.raises(ActionForbidden, match="nobody confirmed"):
            await stage(tools, confirm=["files_*"]).call("files_write", text="a")
        assert not (tmp_path / "notes.txt").exists()

        async def yes(action: str, because: str) -> bool:
            return True

        assert await stage(tools, yes, confirm=["files_*"]).call("files_write", text="a") == "written"
    assert (tmp_path / "notes.txt").read_text() == "a"


async def test_a_tool_that_fails_is_recorded_with_what_it_said(tmp_path: Path) -> None:
    async with connected(files(), tmp_path) as tools:
        on = stage(tools)
        with pytest.raises(RunError, match=r"tool files_spoil failed.*the disk is full"):
            await on.call("files_spoil")
        with pytest.raises(RunError, match=r"tool files_names failed.*folder"):
            await on.call("files_names", holder="etc")
        assert await on.call("files_size", of="abc") == {"abc": 3}
    assert ["the disk is full" in call.error for call in on.recorder.calls] == [True, False, False]


async def test_a_tool_that_hangs_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    async with connected(files(timeout_seconds=3), tmp_path) as tools:
        on = stage(tools)
        with pytest.raises(RunError, match=r"files_wait: MCP server files: found no answer in time.*3 seconds"):
            await on.call("files_wait")
        assert await on.call("files_size", of="abc") == {"abc": 3}


async def test_a_server_killed_in_the_middle_of_a_call_is_named_and_started_again_for_the_next_run(
    tmp_path: Path,
) -> None:
    connection = Connection(files(), tmp_path)
    on = stage(await connection.tools())
    pid = await on.call("files_process")
    call = asyncio.ensure_future(on.call("files_wait"))
    while not (tmp_path / "notes.txt").exists():
        await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RunError, match=r"files_wait: MCP server files: found a connection that was closed"):
        await call
    assert await stage(await connection.tools()).call("files_process") != pid
    await connection.aclose()


async def test_the_last_words_of_a_server_that_dies_are_told(tmp_path: Path) -> None:
    async with connected(files(), tmp_path) as tools:
        with pytest.raises(RunError, match=r"MCP server files.*closed.*I have had enough"):
            await stage(tools).call("files_quit")


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (McpServer(name="odd", command=["no-such-program"]), '"no-such-program", which cannot be started.*Install it'),
        (python("raise SystemExit('out of order')"), "connection that was closed.*out of order"),
        (python("print('{}', flush=True); input(); input()", timeout_seconds=1), "no answer in time"),
        (python("import time; time.sleep(60)", timeout_seconds=1), "no answer in time.*1 seconds"),
        (
            python("import time; print('\\xff{]', flush=True); time.sleep(60)", timeout_seconds=1),
            "no answer in time.*not a message",
        ),
        (McpServer(name="odd", url="http://127.0.0.1:9/mcp", timeout_seconds=5), "ConnectError.*Is it running"),
    ],
    ids=["no program", "dies at once", "no message", "silent", "garbage", "nobody listens"],
)
async def test_a_server_that_cannot_be_talked_to_is_named_with_what_to_do(server: McpServer, told: str) -> None:
    with pytest.raises(RunError, match=f"^MCP server odd: (?s:.*){told}"):
        async with connected(server):
            pass


async def test_a_server_sees_no_variables_but_those_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "open-sesame")
    monkeypatch.setenv("OTHER_KEY", "not yours")
    async with connected(files(env=["SHOP_KEY"]), tmp_path) as tools:
        on = stage(tools)
        assert await on.call("files_variable", name="SHOP_KEY") == "open-sesame"
        assert await on.call("files_variable", name="OTHER_KEY") == "nothing"
    monkeypatch.delenv("SHOP_KEY")
    with pytest.raises(SettingsError, match=r"MCP server files: env.*no variable SHOP_KEY"):
        async with connected(files(env=["SHOP_KEY"]), tmp_path):
            pass


async def test_a_server_at_a_url_is_spoken_to_with_its_key(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = McpServer(name="shop", url=shop, key={"env": "MY_KEY"})
    monkeypatch.setenv("MY_KEY", "open-sesame")
    async with connected(server) as tools:
        on = stage(tools)
        assert await on.call("shop_names", folder="etc") == ["etc/a", "etc/b"]
        with pytest.raises(RunError, match="the disk is full"):
            await on.call("shop_spoil")
        with pytest.raises(RunError, match="shop_quit: MCP server shop: found"):
            await on.call("shop_quit")
    monkeypatch.setenv("MY_KEY", "wrong-key-entirely")
    with pytest.raises(RunError, match=r"MCP server shop: found.*are url and key right") as refused:
        async with connected(server):
            pass
    assert "wrong-key" not in str(refused.value)


async def test_what_goes_wrong_within_the_block_is_raised_as_it_is_and_the_server_ends(tmp_path: Path) -> None:
    pids = []

    async def block() -> None:
        async with connected(files(), tmp_path) as tools:
            pids.append(await stage(tools).call("files_process"))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await block()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_server_ends_with_the_loop_it_was_started_on(tmp_path: Path) -> None:
    connection = Connection(files(), tmp_path)

    async def once() -> int:
        return int(await stage(await connection.tools()).call("files_process"))

    first, second = asyncio.run(once()), asyncio.run(once())
    assert first != second
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    connection.close()


async def test_a_secret_that_a_server_blurts_out_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "open-sesame")
    server = python("import os; raise SystemExit('no entry with ' + os.environ['SHOP_KEY'])", env=["SHOP_KEY"])
    with pytest.raises(RunError, match="no entry with …"):
        async with connected(server):
            pass
