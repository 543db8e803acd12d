"""seedbed demo: the whole loop on SQLite and the embedded model, with the commands a user would type."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.rule import Rule

from seedbed.cli import output
from seedbed.cli.command import Invocation, command
from seedbed.cli.main import main
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, line
from seedbed.cli.start import init
from seedbed.errors import Problem, SettingsError
from seedbed.storage.store import Json, short
from seedbed.workspace.resources import FILE

app = typer.Typer(add_completion=False)

MARKER = ".made-by-seedbed-demo"
SETTINGS = """\
# The workspace of a small team: ada writes playbooks, ben reviews them.
store: sqlite:///seedbed.db
by: ada
reviewers: {ben: [product]}
models:
  local: {use: embedded, args: {template: raw}}
channels:
  production:
    require: [better, held_out, rules_kept, review]
    canary:
      shares: [5%, 25%, 100%]
      hold: 3 runs
      roll_back_if: {rating: -0.05, error_rate: +0.05}
"""
HASTY = """\
# Somebody in a hurry has taken the gates out of their own copy of the workspace file.
store: sqlite:///seedbed.db
by: sam
models:
  local: {use: embedded, args: {template: raw}}
channels:
  production: {require: []}
"""
CARELESS = """\
# Somebody found the rules in the way.
extends: sorter
overrides: {rules.never: null}
"""
EXPERIMENT = "EXPERIMENT"
"""Stands for the digest of the newest experiment."""
BEN = "SEEDBED_BY=ben"


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading, a sentence or two, and the commands that follow; the last of them ends with this exit code."""

    title: str
    text: str
    commands: tuple[tuple[str, ...], ...]
    ends: int = PASS


STORY = (
    Chapter(
        "The playbook we start from",
        "What an agent runs under: its roles, its steps, and rules that nothing may evolve away.",
        (("playbook", "show", "sorter.yaml"),),
    ),
    Chapter(
        "Run it",
        "A real language model of 135 million weights answers inside this process. The run is recorded.",
        (("run", "sorter.yaml", init.MESSAGE, "--seed", "1"),),
    ),
    Chapter(
        "Evaluate it",
        "A quarter of the tasks is to learn on. The rest is held out and stays unseen until the proof.",
        (
            ("dataset", "split", "messages.jsonl", "--share", "0.25"),
            ("evaluate", "sorter.yaml", "messages-train.jsonl"),
        ),
    ),
    Chapter(
        "Evolve it",
        "Other instructions, with and without worked examples. Each candidate is stored as a child of the start.",
        (
            (
                *("evolve", "sorter.yaml", "messages-train.jsonl"),
                *("--instructions", "instructions.txt", "--demos", "4", "--branch", "better"),
                *("--budget", "200 runs", "--confirm", "none"),
            ),
        ),
    ),
    Chapter(
        "Is it really better?",
        "The best of many looks better than it is. So: tasks it never saw, in an order fixed beforehand, and an exact "
        "test that may look after every task and still calls an equal candidate better at most once in twenty times.",
        (("compare", "sorter.yaml", "better", "--on", "messages-test.jsonl"),),
    ),
    Chapter(
        "The gates",
        "Ben has looked at the first one, and it is served. Nobody has looked at the better one yet.",
        (
            (BEN, "review", "approve", "production", "sorter.yaml", "--because", "we have to begin somewhere"),
            ("release", "sorter.yaml", "--to", "production", "--because", "first release"),
            ("release", "better", "--to", "production", "--because", EXPERIMENT),
        ),
        ends=BLOCKED,
    ),
    Chapter(
        "A person looks",
        "Ada cannot approve what is hers. With Ben's word and the verdict about exactly these two playbooks it may go: "
        "to one in twenty of those who ask.",
        (
            ("review", "request", "production", "better", "--because", "nearly all right now"),
            (BEN, "review", "approve", "production", "better", "--because", "read it, and its answers"),
            ("release", "better", "--to", "production", "--because", EXPERIMENT),
        ),
    ),
    Chapter(
        "Step by step",
        "People come; here the tasks that were held out. As many of them as meet the canary are its control. Each step "
        "is taken only if nothing speaks against it.",
        (
            ("channel", "drill", "production", "messages-test.jsonl", "--units", "160"),
            ("channel", "watch", "production", "--once", "--promote"),
            ("channel", "drill", "production", "messages-test.jsonl", "--units", "40", "--first", "161"),
            ("channel", "watch", "production", "--once", "--promote"),
            ("run", "production", init.MESSAGE, "--seed", "1"),
        ),
    ),
    Chapter(
        "What the gates refuse",
        "Somebody edits the playbook by hand, drops the rules, and brings no evidence.",
        (
            ("playbook", "keep", "careless.yaml", "--parent", "better", "--because", "faster without rules"),
            ("release", "careless.yaml", "--to", "production", "--because", "looks fine to me"),
        ),
        ends=BLOCKED,
    ),
    Chapter(
        "Forced through, and taken back",
        "Sam has a copy of the workspace file without gates, and puts the first draft back for half of all people. The "
        "monitor sees that they are served worse than the others, and takes it back by itself.",
        (
            (
                *("release", "sorter.yaml", "--to", "production", "--share", "50%"),
                *("--because", "I liked it better", "-w", "hasty.yaml"),
            ),
            ("channel", "drill", "production", "messages-test.jsonl", "--units", "120", "--first", "201"),
            ("channel", "watch", "production", "--once"),
        ),
        ends=BLOCKED,
    ),
    Chapter(
        "What is left",
        "The family tree; every number of the verdict computed again; the proof that no playbook, verdict, approval or "
        "release was edited; and the decisions, to paste where people read them.",
        (
            ("playbook", "tree"),
            ("evidence", "verify"),
            ("store", "verify"),
            ("channel", "log", "production", "--markdown"),
        ),
    ),
)

LOOK = (
    ("playbook", "diff", "sorter.yaml", "better"),
    ("channel", "watch", "production"),
    ("runs", "list", "--limit", "5"),
    ("store", "stats"),
)


@command(app, workspace=False)
def demo(
    call: Invocation,
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="The folder to work in.")] = Path(
        "seedbed-demo"
    ),
) -> None:
    """Show the whole loop offline in two or three minutes: run, evaluate, evolve, compare, review, release, roll back.

    A folder made by an earlier demo is replaced; any other is left alone.

    Exits with code 2 if no candidate proved better.
    """
    _clear(folder)
    init.write_starter(folder)
    for name, text in ((FILE, SETTINGS), ("hasty.yaml", HASTY), ("careless.yaml", CARELESS)):
        (folder / name).write_text(text, encoding="utf-8")
    began = time.monotonic()
    steps: list[Json] = []
    with chdir(folder), _variables(OWN):
        code = _tell(steps, as_json=call.as_json)
    seconds = time.monotonic() - began
    if call.as_json:
        output.show({"folder": str(folder), "seconds": seconds, "steps": steps}, True)
    elif code in (PASS, INCONCLUSIVE):
        _say(f"{seconds:.0f} seconds, no key, no network. It is all still there; look around:")
        path = [] if shutil.which("seedbed") else [f"source {Path(sys.executable).parent / 'activate'}"]
        for each in (*path, f"cd {folder}", *(init.typed(*arguments) for arguments in LOOK)):
            output.console().print(line((f"  {each}", "cyan")))
    raise typer.Exit(code)


def _clear(folder: Path) -> None:
    if (folder / MARKER).is_file() and not folder.is_symlink():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        remedy = "Name another with --folder."
        raise SettingsError([Problem(str(folder), "something no demo made", "an empty place", remedy)], "demo")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text("seedbed demo made this folder, and its next run replaces it.\n", encoding="utf-8")


OWN = {"SEEDBED_STORE": "sqlite:///seedbed.db", "SEEDBED_ENCRYPTED": "false", "SEEDBED_BY": None}
"""The demo writes to its own store as its own people, whatever the variables of this shell say."""


@contextmanager
def _variables(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of this process for a while; None removes one."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _tell(steps: list[Json], *, as_json: bool) -> int:
    """Run the story chapter by chapter, and return the exit code; each step is added to `steps`."""
    for number, chapter in enumerate(STORY, 1):
        if not as_json:
            _head(f"{number}. {chapter.title}", chapter.text)
        for position, arguments in enumerate(chapter.commands, 1):
            expected = chapter.ends if position == len(chapter.commands) else PASS
            code = _do(arguments, steps, as_json=as_json)
            if code != expected:
                return _ended_early(arguments[0], code, as_json=as_json)
    return PASS


def _ended_early(verb: str, code: int, *, as_json: bool) -> int:
    undecided = (verb == "evolve" and code == INCONCLUSIVE) or (verb == "compare" and code in (BLOCKED, INCONCLUSIVE))
    if undecided and not as_json:
        _say("Nothing proved to be better with this model on this machine, and so nothing is released.")
    return INCONCLUSIVE if undecided else code or BLOCKED


def _do(arguments: tuple[str, ...], steps: list[Json], *, as_json: bool) -> int:
    """Run one command as if it had been typed, as the person it names."""
    words = tuple(_newest_experiment() if each == EXPERIMENT else each for each in arguments)
    by, words = (words[:1], words[1:]) if words[0] == BEN else ((), words)
    typed = " ".join((*by, init.typed(*words)))
    with _variables({"SEEDBED_BY": "ben"} if by else {}):
        if not as_json:
            output.console().print(line(("\n$ ", "dim"), (typed, "cyan")))
            return main(words)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main((*words, "--json"))
    document = json.loads(out.getvalue() or err.getvalue() or "null")
    steps.append({"command": typed, "exit_code": code, "output": document})
    return code


def _newest_experiment() -> str:
    with Invocation().open() as space:
        return short(space.experiments.newest_verdict())


def _head(title: str, text: str) -> None:
    output.console().print(line(""), Rule(line((title, "bold")), align="left", style="green"))
    _say(text)


def _say(text: str) -> None:
    output.console().print(line((text, "italic")))
