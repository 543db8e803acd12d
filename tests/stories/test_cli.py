"""What a newcomer types: every command is a process of its own, in a fresh folder, with a scripted model."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import forked

SEEDBED = Path(sys.executable).with_name("seedbed")

MODEL = """\
  local: {use: scripted, args: {replies: {"(?s)Good or bad.*love": good, "Good or bad": bad, ".": "no idea"}}}
"""
SORTER = """\
roles:
  sorter: {model: local, system: "Sort mail."}
steps:
  - {name: label, role: sorter, prompt: "Message: {text}"}
rules: {never: [delete_message]}
locked: [roles.sorter.system]
"""
WAITING = """\
import asyncio, sys

async def handle(task, stage):
    await stage.ask("sorter", task["text"])
    print("asked", file=sys.stderr, flush=True)
    await asyncio.Event().wait()
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEEDBED_")}
    return {**kept, "COLUMNS": "160", "PYTHONWARNINGS": "error::ResourceWarning", **more}


def typed(line: str, folder: Path, expected: int = 0, **more: str) -> str:
    """What a command prints. Its exit code must be the expected one."""
    done = forked.run(shlex.split(line), folder, environment(**more), folder / ".command")
    assert done.code == expected, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def document(line: str, folder: Path, expected: int = 0) -> Any:
    return json.loads(typed(f"{line} --json", folder, expected))


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    """A folder in which a newcomer has run `seedbed init` and put in a playbook, tasks and prompts of their own."""
    typed("seedbed init mail", tmp_path)
    folder = tmp_path / "mail"
    settings = (folder / "seedbed.yaml").read_text().splitlines(keepends=True)
    models = next(number for number, line in enumerate(settings) if line.startswith("models:"))
    settings[models + 1] = MODEL
    (folder / "seedbed.yaml").write_text("".join(settings))
    (folder / "sorter.yaml").write_text(SORTER)
    rows = [
        json.dumps({"inputs": {"text": f"I {word} item {2 * number + odd}"}, "expected": answer})
        for number in range(34)
        for odd, (word, answer) in enumerate((("love", "good"), ("hate", "bad")))
    ]
    (folder / "tasks.jsonl").write_text("\n".join(rows))
    (folder / "prompts.txt").write_text("What about {text}\nGood or bad? {text}\n")
    return folder


@pytest.mark.slow
def test_a_newcomer_goes_once_around_the_loop(mail: Path) -> None:
    assert "✓ sorter.yaml" in typed("seedbed playbook check sorter.yaml", mail)
    assert typed("seedbed run sorter.yaml text='I love it'", mail).startswith("no idea\n")
    typed("seedbed dataset split tasks.jsonl --share 0.6", mail)
    assert document("seedbed evaluate sorter.yaml tasks-train.jsonl", mail)["mean"] == 0
    found = document("seedbed evolve sorter.yaml tasks-train.jsonl --bank prompts.txt --branch better", mail)
    assert found["improved"]
    typed("seedbed release sorter.yaml --to production --because 'first release'", mail)
    verdict = document("seedbed compare sorter.yaml better --on tasks-test.jsonl", mail)
    assert verdict["finding"] == "superior"
    typed("seedbed release better --to production", mail)
    assert typed("seedbed run production text='I love it'", mail).startswith("good\n")
    typed("seedbed rollback production --because 'end of the walk'", mail)
    assert typed("seedbed run production text='I love it'", mail).startswith("no idea\n")
    tree = typed("seedbed playbook tree", mail)
    assert "branches/better" in tree
    assert "channels/production" in tree
    moves = document("seedbed channel log production", mail)["moves"]
    assert [move["to"]["how"] for move in moves] == ["rollback", "release", "release"]
    assert moves[1]["to"]["verdict"] == verdict["experiment"]

    # The store moves into plain files and back, and nothing is lost on the way.
    before = document("seedbed store verify", mail)
    assert before["clean"]
    typed("seedbed store copy sqlite:///seedbed.db files:plain", mail)
    typed("seedbed store copy files:plain sqlite:///back.db", mail)
    for url in ("files:plain", "sqlite:///back.db"):
        assert json.loads(typed("seedbed store verify --json", mail, SEEDBED_STORE=url)) == before
        assert typed("seedbed playbook tree", mail, SEEDBED_STORE=url) == tree


def test_a_candidate_without_proof_is_refused(mail: Path) -> None:
    typed("seedbed release sorter.yaml --to production --because first", mail)
    typed("seedbed playbook derive sorter.yaml --set 'steps.label.prompt=Hm: {text}' --branch hm --because hm", mail)
    done = subprocess.run(
        [SEEDBED, "release", "hm", "--to", "production"],
        cwd=mail,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    for told in ("release refused, 4 reasons", "found", "expected", "do", "seedbed compare"):
        assert told in done.stderr


def test_ctrl_c_ends_with_130_and_what_was_said_is_kept(mail: Path) -> None:
    (mail / "waiting.py").write_text(WAITING)
    (mail / "agent.yaml").write_text("roles: {sorter: {model: local}}\nprogram: waiting:handle\n")
    process = subprocess.Popen(
        [SEEDBED, "run", "agent.yaml", "text=hello"],
        cwd=mail,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(
        r"! To continue: seedbed run --resume \w+\nInterrupted. Everything recorded so far is stored.\n", err
    )
    assert document("seedbed store stats", mail)["facts"]["turn"] == 1


def test_a_reader_that_stops_reading_is_no_error_worth_a_traceback(mail: Path) -> None:
    piped = ["bash", "-c", f"{SEEDBED} playbook schema | head -n 1"]
    assert subprocess.run(piped, cwd=mail, capture_output=True, check=False).stderr == b""
    reading, writing = os.pipe()
    os.close(reading)
    for command in (["playbook", "show", "sorter.yaml"], ["playbook", "schema"]):
        process = subprocess.run(
            [SEEDBED, *command], cwd=mail, env=environment(), stdout=writing, stderr=subprocess.PIPE, check=False
        )
        assert (process.returncode, process.stderr) == (1, b"")
    os.close(writing)


def test_a_stream_that_knows_no_unicode_gets_escapes(mail: Path) -> None:
    command = [SEEDBED, "playbook", "check", "sorter.yaml"]
    printed = subprocess.run(
        command, cwd=mail, env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=True
    )
    assert printed.stdout.startswith(b"\\u2713 sorter.yaml")


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_colour_unless_it_wants_none(no_color: bool, mail: Path) -> None:
    (mail / "other.yaml").write_text(SORTER.replace("Message: {text}", "Mail: {text}"))
    ours, theirs = pty.openpty()
    given = environment(TERM="xterm-256color", **({"NO_COLOR": "1"} if no_color else {}))
    try:
        command = [SEEDBED, "playbook", "diff", "sorter.yaml", "other.yaml"]
        subprocess.run(command, cwd=mail, env=given, stdout=theirs, check=True)
    finally:
        os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        shown = terminal.read1(10_000).decode()
    coloured, plain = "\x1b[32m" in shown, re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert coloured is not no_color
    assert ("[-Message:-]{+Mail:+} {text}" in plain) is no_color


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The packages that a command has imported when it ends."""
    script = (
        "import sys\n"
        "from seedbed.cli.main import run\n"
        "try: run()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_who_only_asks_for_help_waits_for_no_database_and_no_model(tmp_path: Path) -> None:
    heavy = {"sqlalchemy", "langchain_core", "numpy", "scipy", "pydantic", "yaml", "xllamacpp", "psycopg", "asyncio"}
    assert not heavy & loaded_by(tmp_path, "--help")


def test_a_run_waits_for_no_statistics_and_a_list_of_runs_for_no_model_either(mail: Path) -> None:
    statistics = {"sqlalchemy", "psycopg", "numpy", "scipy", "mcp", "jinja2", "typst"}
    assert not statistics & loaded_by(mail, "run", "sorter.yaml", "text=Hello")
    models = {"langchain_core", "langsmith", "httpx", "anyio", "xllamacpp"}
    assert not (statistics | models) & loaded_by(mail, "runs", "list")
