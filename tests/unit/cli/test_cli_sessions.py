"""seedbed sessions, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Seedbed, keeps_promise
from session_samples import LOG, history, outcomes, record

FILE = "sessions_history.json"


@pytest.fixture
def past(tmp_path: Path) -> Path:
    """Four sessions: B is better than A at six tasks of eight, old has no scores, odd contradicts itself."""
    signs = "++++++=="
    return history(
        tmp_path,
        record("old", dict.fromkeys(outcomes(signs, "a"))),
        record("s-a", outcomes(signs, "a"), start_timestamp="2026-01-31T09:30:00", total_time_sec=12.5),
        record("s-b", outcomes(signs, "b"), config={"model_id": "[red]large[/red]"}),
        record("odd", {"task_0": 1.0}, session_score=0.1),
    )


def test_show_tells_of_every_session(past: Path, seedbed: Seedbed) -> None:
    done = seedbed("sessions", "show", FILE)
    assert done.code == 0
    for told in ("s-a", "2026-01-31 09:30", "0.250", "12.5", "model_id [red]large[/red]", "its record has"):
        assert told in done.out
    (old,) = [line for line in done.out.splitlines() if line.startswith("old")]
    assert "–" in old, "no score is not a score of 0"


def test_show_keeps_its_promise(past: Path, seedbed: Seedbed) -> None:
    shown = seedbed("sessions", "show", FILE, "--json").json
    assert [each["session"] for each in shown] == ["old", "s-a", "s-b", "odd"]
    assert [each["mean"] for each in shown] == [None, 0.25, 1.0, 1.0]
    assert list(shown[0]) == ["session", "started", "config", "tasks", "scored", "mean", "tokens", "seconds", "doubts"]


def test_a_log_is_shown_too(tmp_path: Path, seedbed: Seedbed) -> None:
    (tmp_path / "session.log").write_text(LOG, encoding="utf-8")
    assert "s-tea" in seedbed("sessions", "show", "session.log").out


@pytest.mark.parametrize(
    ("a", "b", "code", "finding"),
    [
        ("s-a", "s-b", 0, "superior"),
        ("s-b", "s-a", 1, "inferior"),
        ("old", "s-b", 2, "invalid"),
        ("s-a", "s-a", 2, "invalid"),
        ("s-b", "odd", 2, "invalid"),
        ("config.model_id=[red]large[/red]", "s-a", 1, "inferior"),
    ],
)
def test_the_exit_code_tells_the_finding(a: str, b: str, code: int, finding: str, past: Path, seedbed: Seedbed) -> None:
    done = seedbed("sessions", "compare", FILE, a, b)
    assert done.code == code
    assert done.out.startswith(f"{finding}: ")
    assert "not registered in advance" in done.out


def test_compare_keeps_its_promise_and_stores_nothing(past: Path, seedbed: Seedbed) -> None:
    done = seedbed("sessions", "compare", FILE, "s-a", "s-b", "--json")
    assert keeps_promise(done.json, "sessions", "compare")
    assert (done.json["wins"], done.json["ties"], done.json["losses"]) == (6, 2, 0)
    assert done.json["p_better"] == 1 / 64
    assert done.json["registered"] is False
    assert [file.name for file in past.parent.iterdir()] == [FILE]


def test_tasks_that_went_apart_are_listed(past: Path, seedbed: Seedbed) -> None:
    out = seedbed("sessions", "compare", FILE, "s-a", "s-b").out
    assert out.count("better\n") + out.count("better \n") == 6
    assert "model_id: small → [red]large[/red]" in out
    assert "8 scores" in seedbed("sessions", "compare", FILE, "old", "s-b").out


def test_both_sides_that_name_no_session_are_told_at_once(past: Path, seedbed: Seedbed) -> None:
    done = seedbed("sessions", "compare", FILE, "s-", "x", "--json")
    assert (done.code, done.out) == (1, "")
    assert done.err.count('"path": "session"') == 2


def test_a_wrong_file_and_a_wrong_error_rate_are_refused(past: Path, seedbed: Seedbed) -> None:
    assert "no such file" in seedbed("sessions", "show", "absent.json").err
    done = seedbed("sessions", "compare", FILE, "s-a", "s-b", "--alpha", "1")
    assert (done.code, done.out) == (64, "")
    assert "--alpha" in done.err
