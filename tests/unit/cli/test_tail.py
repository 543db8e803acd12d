"""seedbed runs tail: what happens is told as it happens, also in other processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
import pytest
from command_line import Seedbed, keeps_promise
from rich.console import Console

from seedbed.cli.nouns.runs.tail import run_of
from seedbed.cli.nouns.runs.tail import view as told
from seedbed.errors import NotFound
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.store import Fact, short
from seedbed.workspace import Workspace
from seedbed.workspace.nouns.runs import Runs
from seedbed.workspace.resources import Resources


def follow(store: Any, run: str | None = None, **more: Any) -> Iterator[Fact]:
    return Runs(Resources(SETTINGS, store)).follow(run, **more)


AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
SETTINGS = Settings.model_validate({"models": {"m": {"use": "scripted", "args": {"replies": {".": "fine"}}}}})
ROLES = {"w": {"model": "m"}}
STEPS = [{"name": "one", "role": "w", "prompt": "{q}"}, {"name": "two", "role": "w", "prompt": "{one}"}]
DIALOGUE = Playbook.from_document({"roles": ROLES, "steps": STEPS})
SEEDBED = [sys.executable, "-c", "from seedbed.cli.main import run; run()"]


@pytest.fixture(params=["sqlite", "files", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else f"files:{tmp_path}/store"


def perform(url: str, question: str) -> Run:
    """A run of somebody else, who opens the store for himself."""
    with closing(Workspace(SETTINGS, open_store(url))) as space:
        return asyncio.run(space.run(DIALOGUE, q=question, seed=1))


class Stop(Exception):
    """Somebody had enough."""


def one_after_the_other(*works: Callable[[], Any]) -> Callable[[float], None]:
    """What happens each time a follower waits; in the end he stops."""
    left = iter(works)

    def wait(seconds: float) -> None:
        for work in islice(left, 1):
            work()
            return
        raise Stop

    return wait


def until_stopped(facts: Iterator[Fact]) -> list[Fact]:
    found: list[Fact] = []
    try:
        found.extend(facts)
    except Stop:
        return found
    raise AssertionError("it ended by itself")


def test_all_that_happens_from_now_on_is_told_once_and_in_order(url: str) -> None:
    before = perform(url, "before")
    runs: list[Run] = []
    works = [lambda: runs.append(perform(url, "a")), lambda: None, lambda: runs.append(perform(url, "b"))]
    with closing(open_store(url)) as store:
        found = until_stopped(follow(store, wait=one_after_the_other(*works)))
    expected = [(run.id, kind) for run in runs for kind in ("start", "turn", "turn", "run")]
    assert [(run_of(fact), fact.kind) for fact in found] == expected
    assert before.id not in {run_of(fact) for fact in found}


def test_one_run_is_told_from_its_beginning_to_its_end_and_nothing_else(url: str) -> None:
    first, second = perform(url, "a"), perform(url, "b")
    with closing(open_store(url)) as store:
        for run in (first, second):
            found = list(follow(store, run.id))
            assert [fact.kind for fact in found] == ["start", "turn", "turn", "run"]
            assert {run_of(fact) for fact in found} == {run.id}


def fact(kind: str, number: int = 0, **body: Any) -> Fact:
    return Fact(kind=kind, key=f"r/{kind}/{number}", subject="r", at=AT, by="ann", body=body)


def test_a_run_that_is_taken_up_again_is_followed_to_its_last_end(url: str) -> None:
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        start = Fact(kind="start", key="r", subject="b2:1", at=AT, by="ann")
        other.append([start, fact("turn", 1), Fact(kind="run", key="r", subject="b2:1", at=AT, by="ann")])
        other.append([fact("turn", 2)])
        end = Fact(kind="run", key="r@2", subject="b2:1", at=AT, by="ann")
        works = [lambda: other.append([fact("turn", 3)]), lambda: other.append([end])]
        found = list(follow(store, "r", wait=one_after_the_other(*works)))
    assert [fact.key for fact in found] == ["r", "r/turn/1", "r", "r/turn/2", "r/turn/3", "r@2"]


def test_a_fact_whose_number_was_given_before_it_could_be_read_is_not_missed(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as store, psycopg.connect(postgres_url) as slow:
        facts = follow(store, wait=one_after_the_other(lambda: store.append([fact("turn", 2)]), slow.commit))
        slow.execute(
            "INSERT INTO facts (kind, key, subject, at, by, body) VALUES ('turn', 'r/turn/1', 'r', 0, 'b', '{}')"
        )
        found = until_stopped(facts)
    assert [fact.key for fact in found] == ["r/turn/2", "r/turn/1"]
    assert found[0].number > found[1].number


def test_an_unknown_run_is_told_at_once(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("runs", "tail", "0123456789")
    assert done.code == 1
    assert 'no run "0123456789" is recorded here' in done.err
    with closing(open_store("memory:")) as store, pytest.raises(NotFound):
        follow(store, "r")


def shown(fact: Fact) -> str:
    console = Console(width=300, force_terminal=False)
    with console.capture() as captured:
        console.print(told(fact))
    return captured.get()


def test_each_thing_is_one_line_with_what_matters() -> None:
    run = {"tokens": 12, "cost_usd": 0.05, "error": "", "output": {"a": "ü"}}
    call = {
        "tool": "look",
        "arguments": {"at": "ü"},
        "changes": False,
        "latency_seconds": 0.5,
        "result": [1],
        "error": "",
    }
    lines = {
        "decided label: ham, because no links": fact("decision", point="label", action="ham", because="no links"),
        'tool look {"at": "ü"} → [1]  0.50 s': fact("call", **call),
        'tool look {"at": "ü"} ✗ no such place  0.50 s': fact("call", **{**call, "error": "no such place"}),
        "answer · judge ✗ no model answered: found nobody  $0.0500": fact(
            "failure", step="answer", role="judge", error="no model answered:\nfound nobody", cost_usd=0.05
        ),
        "remark half way, of=4": fact("remark", text="half way", of=4),
        'opened 0123456789 by topics, completed: {"a": "ü"}  12 tokens, $0.0500': fact(
            "child", run="0123456789abcdef", step="topics", status="completed", **run
        ),
    }
    for line, one in lines.items():
        assert shown(one) == f"r  {line}\n"
    end = Fact(
        kind="run",
        key="r@2",
        subject="b2:1",
        at=AT,
        by="ann",
        body={**run, "status": "failed", "error": "gone\nwrong", "turns": 1, "latency_seconds": 2},
    )
    assert shown(end) == "r  ✗ failed: gone wrong  1 turn, 12 tokens, $0.0500, 2.00 s\n"


def test_a_finished_run_is_told_line_by_line(space: Path, seedbed: Seedbed) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello\x1b[2J", "--json").json["run"]
    out = seedbed("runs", "tail", run[:8]).out
    start, turn, end = out.splitlines()
    assert start.startswith(f"{short(run)}  started playbook ")
    assert start.endswith("by ann: text=hello␛[2J")
    assert turn.startswith(f"{short(run)}  label · sorter · local: unsure [bold]ä[/bold] 🙂  ")
    assert " tokens, $" in turn
    assert end.startswith(f"{short(run)}  ✓ completed: unsure [bold]ä[/bold] 🙂  1 turn, ")
    documents = [json.loads(line) for line in seedbed("runs", "tail", run, "--json").out.splitlines()]
    assert [each["kind"] for each in documents] == ["start", "turn", "run"]
    assert all(keeps_promise(each, "runs", "tail") for each in documents)


def following(*options: str) -> subprocess.Popen[str]:
    """A follower of everything, in a process of its own that is ready when this returns."""
    environment = {**os.environ, "PYTHONWARNINGS": "default", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*SEEDBED, "runs", "tail", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stderr is not None
    assert "Ctrl-C" in process.stderr.readline()
    return process


def test_another_process_is_followed_until_ctrl_c(space: Path, seedbed: Seedbed) -> None:
    with following("--json") as process:
        run = seedbed("run", "sorter.yaml", "text=hello", "--json").json["run"]
        assert process.stdout is not None
        documents = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert [(each["run"], each["kind"]) for each in documents] == [(run, "start"), (run, "turn"), (run, "run")]
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_who_has_seen_enough_causes_no_traceback(
    space: Path, seedbed: Seedbed, options: tuple[str, ...]
) -> None:
    with following(*options) as process:
        assert process.stdout is not None
        process.stdout.close()
        seedbed("run", "sorter.yaml", "text=hello")
        process.wait(timeout=60)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
