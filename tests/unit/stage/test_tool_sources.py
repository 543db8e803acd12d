from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import seedbed
from seedbed.errors import RunError, SettingsError
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.stage import Stage

SERVER = Path(__file__).with_name("mcp_server.py")
ASKING = Playbook.from_document({"program": f"{__name__}:program", "rules": {"never": ["files_write"]}})


async def program(task: dict[str, Any], stage: Stage) -> Any:
    return await stage.call(task["tool"], **task.get("arguments", {}))


def greet(whom: str) -> str:
    return f"hello {whom}"


NUMBER = 7


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "seedbed.yaml"
    server = f'{{name: files, command: ["{sys.executable}", "{SERVER}", stdio], reads: [lines]}}'
    greeting = f'{{function: "{__name__}:greet", effect: reads}}'
    path.write_text(f"store: 'memory:'\ntools:\n  - {greeting}\n  - mcp: {server}\n")
    return path


async def test_programs_have_the_tools_of_the_workspace_file_and_one_server_for_all_runs(file: Path) -> None:
    async with seedbed.open(file) as space:
        assert (await space.run(ASKING, tool="greet", arguments={"whom": "ada"})).output == "hello ada"
        run = await space.run(ASKING, tool="files_names", arguments={"folder": "etc"})
        assert run.output == ["etc/a", "etc/b"]
        pids = [(await space.run(ASKING, tool="files_process")).output for _ in range(2)]
        assert pids[0] == pids[1]
        async with space.runs.recording(ASKING) as stage:
            assert await stage.call("files_process") == pids[0]
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_rules_hold_for_them(file: Path) -> None:
    async with seedbed.open(file) as space:
        with pytest.raises(RunError, match="files_write"):
            await space.run(ASKING, tool="files_write", arguments={"text": "a"})
    assert not (file.parent / "notes.txt").exists()


async def test_a_dialogue_starts_no_server(tmp_path: Path) -> None:
    path = tmp_path / "seedbed.yaml"
    path.write_text(
        "store: 'memory:'\nmodels: {quick: {use: scripted, args: {replies: {'': fine}}}}\n"
        "tools: [{mcp: {command: [no-such-program]}}]\n"
    )
    talk = {"roles": {"a": {"model": "quick"}}, "steps": [{"name": "b", "role": "a", "prompt": "Why?"}]}
    async with seedbed.open(path) as space:
        assert (await space.run(Playbook.from_document(talk))).output == "fine"
        with pytest.raises(RunError, match="no-such-program"):
            await space.run(ASKING, tool="greet")


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("no_such_module:greet", "ModuleNotFoundError.*PYTHONPATH"),
        (f"{__name__}:meet", "AttributeError"),
        (f"{__name__}:NUMBER", "7; expected a function or a tool"),
    ],
)
async def test_a_function_that_is_none_is_told(tmp_path: Path, named: str, told: str) -> None:
    path = tmp_path / "seedbed.yaml"
    path.write_text(f"store: 'memory:'\ntools: ['{named}']\n")
    async with seedbed.open(path) as space:
        with pytest.raises(SettingsError, match=rf"tools: found {named}.*{told}"):
            await space.run(ASKING, tool="greet")


def test_servers_that_are_declared_and_not_needed_cost_nothing(file: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "import seedbed\n"
        "async def main():\n"
        "    async with seedbed.open(sys.argv[1]) as space:\n"
        "        space.resources.runner\n"
        "asyncio.run(main())\n"
        "print({'mcp', 'httpx2'} & {*sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{function: 'a:b', mcp: {command: [x]}}", "found both function and mcp; expected one of them"),
        ("{effect: reads}", "found neither function nor mcp; expected one of them"),
        ("{mcp: {command: [x]}, effect: reads}", "found effect for a server"),
        ("{mcp: {command: [x]}, simulated: 'a:b'}", "found simulated for a server"),
        ("{function: 'a:b', simulated: 'a:c', sandbox: 'a:d'}", "found both simulated and sandbox"),
        ("{function: 'a:b', simulated: pretend}", "expected module:function"),
        ("{function: 'a:b', effect: writes}", "effect"),
    ],
)
def test_a_source_that_does_not_fit_is_named(source: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "seedbed.yaml"
    path.write_text(f"tools:\n  - {source}\n")
    with pytest.raises(SettingsError, match=told):
        seedbed.open(path)
