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
# Someone in a hurry has removed the gates from their own copy of the workspace file.
store: sqlite:///seedbed.db
by: sam
models:
  local: {use: embedded, args: {template: raw}}
channels:
  production: {require: []}
"""
CARELESS = """\
# Someone thought the rules were in the way.
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
        "The starting playbook",
        "A playbook defines an agent: its roles, its steps, and rules that evolution cannot remove.",
        (("playbook", "show", "sorter.yaml"),),
    ),
    Chapter(
        "Run it",
        "A real language model with 135 million parameters answers inside this process. The run is recorded.",
        (("run", "sorter.yaml", init.MESSAGE, "--seed", "1"),),
    ),
    Chapter(
        "Evaluate it",
        "A quarter of the tasks are for learning. The rest are held out until the proof.",
        (
            ("dataset", "split", "messages.jsonl", "--share", "0.25"),
            ("evaluate", "sorter.yaml", "messages-train.jsonl"),
        ),
    ),
    Chapter(
        "Evolve it",
        "The search tries other instructions, with and without worked examples. Each candidate is stored as a child of "
        "the playbook it came from. The branch moves only if tasks that played no part in the choice confirm the gain.",
        (
            (
                *("evolve", "sorter.yaml", "messages-train.jsonl"),
                *("--instructions", "instructions.txt", "--demos", "4", "--branch", "better"),
                *("--budget", "200 runs"),
            ),
        ),
    ),
    Chapter(
        "The first release",
        "Ben approves the first playbook, and it is released. From now on, any replacement has to prove itself.",
        (
            (BEN, "review", "approve", "production", "sorter.yaml", "--because", "we have to start somewhere"),
            ("release", "sorter.yaml", "--to", "production", "--because", "first release"),
        ),
    ),
    Chapter(
        "A shortcut",
        "The candidate would look best on the tasks it learned from, so comparing on them is refused, even reworded.",
        (("compare", "sorter.yaml", "better", "--on", "messages-train.jsonl"),),
        ends=BLOCKED,
    ),
    Chapter(
        "Is it really better?",
        "The best of many candidates looks better than it is, so we compare it on tasks it never saw, in an order "
        "fixed in advance. The exact test checks after every task, yet calls an equal candidate better at most one "
        "time in twenty.",
        (("compare", "sorter.yaml", "better", "--on", "messages-test.jsonl"),),
    ),
    Chapter(
        "The gates",
        "The better playbook has a verdict but has not been reviewed, so it is refused.",
        (("release", "better", "--to", "production", "--because", EXPERIMENT),),
        ends=BLOCKED,
    ),
    Chapter(
        "A person reviews it",
        "Ada cannot approve her own work. With Ben's approval and a verdict on exactly these two playbooks, the better "
        "playbook is released, at first to one user in twenty.",
        (
            ("review", "request", "production", "better", "--because", "nearly all answers are now right"),
            (BEN, "review", "approve", "production", "better", "--because", "I read it and its answers"),
            ("release", "better", "--to", "production", "--because", EXPERIMENT),
        ),
    ),
    Chapter(
        "Step by step",
        "Users arrive, simulated here by the held-out tasks. The canary has a control group of the same size, and each "
        "step is taken only if no guard objects.",
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
        "Someone edits the playbook by hand, drops the rules and provides no evidence.",
        (
            ("playbook", "keep", "careless.yaml", "--parent", "better", "--because", "faster without rules"),
            ("release", "careless.yaml", "--to", "production", "--because", "looks fine to me"),
        ),
        ends=BLOCKED,
    ),
    Chapter(
        "Forced through, then rolled back",
        "Sam uses a copy of the workspace file without gates to serve the first draft to half of all users. The "
        "monitor sees that these users fare worse than the others, and rolls the draft back automatically.",
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
        "What remains",
        "The store holds the family tree and every decision. Each number in the verdict can be recomputed, and you can "
        "verify that no playbook, verdict, approval or release was edited.",
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

    A folder from an earlier demo is replaced; any other folder is left alone.

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
        _say(f"That took {seconds:.0f} seconds, with no API key and no network. Everything is still there to explore:")
        path = [] if shutil.which("seedbed") else [f"source {Path(sys.executable).parent / 'activate'}"]
        for each in (*path, f"cd {folder}", *(init.typed(*arguments) for arguments in LOOK)):
            output.console().print(line((f"  {each}", "cyan")))
    raise typer.Exit(code)


def _clear(folder: Path) -> None:
    if (folder / MARKER).is_file() and not folder.is_symlink():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        remedy = "Choose another with --folder."
        raise SettingsError(
            [Problem(str(folder), "files that no demo created", "an empty or new folder", remedy)], "demo"
        )
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
        _say("No candidate proved better with this model on this machine, so nothing is released.")
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
