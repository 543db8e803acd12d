"""Sessions that an agent did elsewhere."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from session_samples import LOG, history, log, record

from seedbed.errors import DocumentError
from seedbed.runs.imports.sessions import Session, SessionStep, load


def problems(file: Path) -> list[str]:
    with pytest.raises(DocumentError) as refused:
        load(file)
    assert str(file) in str(refused.value)
    return [str(problem) for problem in refused.value.problems]


def test_a_log_is_one_session_with_all_that_it_tells(tmp_path: Path) -> None:
    file = tmp_path / "session.log"
    file.write_text(LOG, encoding="utf-8")
    (session,) = load(file)
    assert (session.id, session.config, session.tokens, session.seconds) == ("s-tea", {"model_id": "small"}, 350, 2.5)
    tea, nothing = session.tasks
    assert (tea.id, tea.name, tea.text) == ("t-1", "buy_tea", "Buy tea.\nGreen, if there is some.")
    assert (tea.code, tea.summary) == ("completed", ("Looked.", "Bought what's there."))
    assert (tea.score, tea.evaluation) == (0.0, ("FAIL: green tea is bought", "black tea was"))
    assert (nothing.code, nothing.score, nothing.steps) == ("failed", None, ())
    look, blocked, report = tea.steps
    assert look == SessionStep(
        function="look", args={"shelf": "tea"}, result={"found": ["green"]}, tokens=100, seconds=1.5, notes=look.notes
    )
    assert look.notes["current_state"] == "Nothing is known."
    assert (blocked.result, blocked.error) == (None, "BLOCKED: Look again first")
    assert blocked.seconds is None, "a clock that went back tells no duration"
    assert report.args == "not JSON"
    assert tea.notes == {"events": ["RATE_LIMIT (attempt 1/5)"]}


def test_a_history_has_a_session_for_each_record(tmp_path: Path) -> None:
    first = record("s-1", {"a": 1.0, "b": 0.0}, session_score=0.5, session_tasks_quantity=2, total_time_sec=9)
    second = record("s-2", {"a": None}, start_timestamp="2026-01-31T09:30:00", commit="abc")
    one, two = load(history(tmp_path, first, second))
    assert (one.mean, one.score, one.quantity, one.seconds, one.tokens) == (0.5, 0.5, 2, 9.0, 100)
    assert one.doubts == ()
    assert two.started == datetime(2026, 1, 31, 9, 30)  # noqa: DTZ001 - the record names no zone
    assert two.config == {"model_id": "small", "commit": "abc"}
    assert (two.mean, two.scores) == (None, ())


@pytest.mark.parametrize("wrapped", [lambda tasks: tasks, lambda tasks: {"tasks": tasks}], ids=["list", "object"])
def test_a_log_may_be_parsed_already(wrapped: Any, tmp_path: Path) -> None:
    step = {"function": "look", "args": {"at": 1}, "result": [2], "plan": ["look"]}
    task = {"task_id": "t", "task_code": "tea", "task_text": "Buy tea", "steps": [step], "score": 1, "level": 3}
    (session,) = load(history(tmp_path, {"session_id": "s", "session_log": wrapped([task])}))
    (found,) = session.tasks
    assert (found.name, found.text, found.score, found.notes) == ("tea", "Buy tea", 1.0, {"level": 3})
    assert found.steps == (SessionStep(function="look", args={"at": 1}, result=[2], notes={"plan": ["look"]}),)
    assert (session.tokens, session.seconds) == (None, None)


def test_the_sum_of_tokens_is_not_known_where_a_task_does_not_say(tmp_path: Path) -> None:
    tasks = [{"name": "a", "tokens": 5}, {"name": "b"}]
    (session,) = load(history(tmp_path, {"session_id": "s", "session_log": tasks}))
    assert session.tokens is None


def test_a_record_without_a_log_is_a_session_without_tasks(tmp_path: Path) -> None:
    (session,) = load(history(tmp_path, {"session_id": "s"}))
    assert session == Session(id="s")


@pytest.mark.parametrize(
    ("declared", "doubt"),
    [({"session_score": 0.9}, "0.9, its log 0.667"), ({"session_tasks_quantity": 4}, "4 tasks, its log 3")],
)
def test_a_record_that_contradicts_its_log_is_doubted(declared: Any, doubt: str, tmp_path: Path) -> None:
    (session,) = load(history(tmp_path, record("s", {"a": 1.0, "b": 1.0, "c": 0.0}, **declared)))
    assert doubt in session.doubts[0]


def test_a_rounded_score_is_not_doubted(tmp_path: Path) -> None:
    (session,) = load(history(tmp_path, record("s", {"a": 1.0, "b": 1.0, "c": 0.0}, session_score=0.667)))
    assert session.doubts == ()


def test_everything_that_is_wrong_is_told_at_once_with_session_and_field(tmp_path: Path) -> None:
    good = record("s-1", {"a": 1.0})
    bad = {**record("s-2", {}), "session_score": True, "config": [1], "token_statistics": {"total": -1}}
    bad |= {"start_timestamp": "soon", "total_time_sec": -1, "session_log": 7}
    told = problems(history(tmp_path, good, bad, "text", {**good, "session_log": log({"a": 1.0}, "s-1")}))
    for path in (
        "session_score",
        "config",
        "token_statistics.total",
        "start_timestamp",
        "total_time_sec",
        "session_log",
    ):
        assert sum(each.startswith(f"[1].{path}: found") for each in told) == 1, path
    assert any(each.startswith("[2]: found") for each in told)
    assert any(each.startswith("[3].session_id: found") and "[0] has this one" in each for each in told)
    assert len(told) == 8


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"session_id": None, "session_log": []}, "[0].session_id"),
        ({"session_id": "other"}, '[0].session_log: found the log of session "s"'),
        ({"session_log": "nonsense"}, "[0].session_log"),
        ({"session_log": [{"task_id": "t"}]}, "[0].session_log[0].task_code"),
        ({"session_log": [{"name": "t", "score": "1"}]}, "[0].session_log[0].score"),
        ({"session_log": [{"name": "t", "score": 10**400}]}, "[0].session_log[0].score"),
        ({"session_log": [{"name": "t", "steps": [1]}]}, "[0].session_log[0].steps"),
        ({"session_log": log({"a": float("nan")}, "s")}, "[0].session_log line 6.score"),
    ],
)
def test_a_wrong_field_is_named(changed: Any, told: str, tmp_path: Path) -> None:
    (problem,) = problems(history(tmp_path, record("s", {"a": 1.0}) | changed))
    assert problem.startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[{]", "line 1"),
        (b'[{"session_id": "s", "session_score": NaN}]', "NaN"),
        (b"[" * 200_000, "nesting"),
        (b"\xff\xfe", "UTF-8"),
        (b"", "a log"),
        (json.dumps({"session_id": 3}).encode(), "[0].session_id"),
    ],
    ids=["broken", "NaN", "deep", "bytes", "empty", "one record"],
)
def test_a_file_that_holds_no_sessions_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "sessions"
    file.write_bytes(content)
    assert told in problems(file)[0]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "no such file" in problems(tmp_path / "absent.json")[0]
    assert "no such file" in problems(tmp_path)[0]
