from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import NotFound, StoreError
from seedbed.runs.recorder import Recorder, recall, recent
from seedbed.runs.run import Turn
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, Store

PLAYBOOK = "b2:" + "1" * 64
TURN = Turn(
    step="answer",
    role="writer",
    model="fast",
    messages=(("user", "Why?"),),
    text="Because.",
    prompt_tokens=5,
    completion_tokens=2,
    cost_usd=0.25,
    latency_seconds=0.5,
    finish_reason="stop",
    seed=7,
)


def recorder(store: Store, inputs: Any = None, **given: Any) -> Recorder:
    about = {"seed": 7, "by": "ada", "models": {"fast": {"use": "scripted"}}}
    return Recorder(store, PLAYBOOK, {"question": "Why?"} if inputs is None else inputs, **{**about, **given})


def facts(store: Store, kind: str) -> list[Fact]:
    return list(store.facts(Query(kind=kind)))


def test_a_turn_is_a_fact_at_once_and_the_run_only_at_its_end() -> None:
    store = MemoryStore()
    record = recorder(store)
    record.add(TURN)
    (turn,) = facts(store, "turn")
    assert (turn.subject, turn.by) == (record.id, "ada")
    assert Turn.from_body(turn.body) == TURN
    assert facts(store, "run") == []
    record.end("completed", output="Because.")
    (run,) = facts(store, "run")
    assert (run.key, run.subject, run.by, run.value) == (record.id, PLAYBOOK, "ada", 0.25)


def test_a_run_says_under_which_conditions_it_happened() -> None:
    store = MemoryStore()
    recorder(store).end("completed", output="x")
    (run,) = facts(store, "run")
    assert run.body["inputs"] == {"question": "Why?"}
    assert run.body["seed"] == 7
    assert run.body["models"] == {"fast": {"use": "scripted"}}
    assert run.body["seedbed"]


def test_a_run_is_dated_by_its_start_and_its_turns_by_their_end() -> None:
    times = iter(datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(3))
    store = MemoryStore()
    record = recorder(store, clock=lambda: next(times))
    record.add(TURN)
    run = record.end("completed")
    assert run.started.hour == 0
    assert [fact.at.hour for fact in (*facts(store, "run"), *facts(store, "turn"))] == [0, 1]


@pytest.mark.parametrize("url", ["memory:", "sqlite:///runs.db", "files:runs"])
def test_recall_gives_back_an_equal_run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store: Any = open_store(url)
    record = recorder(store, {"question": "Why?", "odd": [1, 2.5, None, True, {"ü": "\u2028\n"}], "pair": (1, 2.0)})
    for number in range(3):
        record.add(replace(TURN, text=f"answer {number}"))
    run = record.end("completed", output={"label": ("a", 1.0), "score": 0.1})
    assert recall(store, record.id) == run
    store.close()
    if url != "memory:":
        again: Any = open_store(url)
        assert recall(again, record.id) == run
        again.close()


def test_a_failed_run_is_recorded_with_its_error() -> None:
    store = MemoryStore()
    record = recorder(store)
    record.add(TURN)
    run = record.end("failed", error="ModelUnavailable: gone")
    assert (run.status, run.output, run.error) == ("failed", None, "ModelUnavailable: gone")
    assert run.cost_usd == 0.25
    assert recall(store, record.id) == run


def test_turns_of_runs_at_the_same_time_do_not_mix() -> None:
    store = MemoryStore()
    one, other = recorder(store), recorder(store)
    one.add(replace(TURN, text="one 1"))
    other.add(replace(TURN, text="other 1"))
    one.add(replace(TURN, text="one 2"))
    one.end("completed")
    other.end("completed")
    assert [turn.text for turn in recall(store, one.id).turns] == ["one 1", "one 2"]
    assert [turn.text for turn in recall(store, other.id).turns] == ["other 1"]


def test_a_program_that_alters_its_inputs_and_output_does_not_alter_the_record() -> None:
    store = MemoryStore()
    inputs: dict[str, Any] = {"mail": {"subject": "Hello"}}
    record = recorder(store, inputs)
    inputs["mail"]["subject"] = inputs["extra"] = "overwritten"
    output = ["first"]
    run = record.end("completed", output=output)
    output.append("second")
    assert run.inputs == {"mail": {"subject": "Hello"}}
    assert run.output == ["first"]
    assert recall(store, record.id) == run


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), "\ud800"])
def test_inputs_that_cannot_be_kept_are_refused_before_anything_is_paid(value: object) -> None:
    store = MemoryStore()
    with pytest.raises(StoreError):
        recorder(store, {"question": value})
    assert store.kinds() == {}


def test_an_unknown_run_is_not_found_and_the_error_says_where_to_look() -> None:
    with pytest.raises(NotFound, match="seedbed runs list"):
        recall(MemoryStore(), "absent")


def test_a_run_that_is_still_under_way_is_not_there_to_recall() -> None:
    store = MemoryStore()
    record = recorder(store)
    record.add(TURN)
    with pytest.raises(NotFound):
        recall(store, record.id)


def test_recent_runs_come_newest_first_without_their_turns() -> None:
    store = MemoryStore()
    ids = []
    for number in range(4):
        record = recorder(store, {"number": number})
        record.add(TURN)
        ids.append(record.end("completed").id)
    assert [run.id for run in recent(store, 3)] == ids[:0:-1]
    assert all(run.turns == () for run in recent(store, 3))


KILLED = """
import sys, time
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Turn
from seedbed.storage import open_store

store = open_store(sys.argv[1])
record = Recorder(store, "b2:" + "1" * 64, {"question": "Why?"}, seed=7, by="ada", models={})
for number in range(3):
    record.add(Turn(step="s", role="r", model="m", messages=(("user", "Why?"),), text=f"answer {number}",
        prompt_tokens=1, completion_tokens=1, cost_usd=0.5, latency_seconds=0.1, finish_reason="stop", seed=7))
print(record.id, flush=True)
time.sleep(600)
record.end("completed")
"""


@pytest.mark.parametrize("scheme", ["sqlite:///", "files:"])
def test_a_killed_process_leaves_the_turns_it_had_paid_for(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}{tmp_path / 'runs'}"
    with subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        run = process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    store: Any = open_store(url)
    turns = list(store.facts(Query(kind="turn", subject=run)))
    assert [turn.body["text"] for turn in turns] == ["answer 0", "answer 1", "answer 2"]
    assert sum(turn.body["cost_usd"] for turn in turns) == 1.5
    with pytest.raises(NotFound):
        recall(store, run)
    store.close()
