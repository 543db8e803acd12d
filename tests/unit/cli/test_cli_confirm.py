"""seedbed confirm: what runs wait to be allowed, and yes or no."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_line import Seedbed, held, keeps_promise

from seedbed.stage.confirmation import Questions
from seedbed.storage import open_store
from seedbed.storage.store import Fact

WHY = ("--because", "looked at [b]it[/b]")


def ask(run: str, minutes: float = 5, order: str = "[red]7[/red]\x1b[2K") -> str:
    """The key of a question that a run puts into the store, to be answered in so many minutes."""
    question = Questions(run, "b2:p").next("refund", "confirm: refund", {"order": order})
    at = datetime.now(UTC)
    body = {**question.body(), "until": (at + timedelta(minutes=minutes)).isoformat()}
    with closing(open_store("sqlite:///seedbed.db")) as store:
        store.append([Fact(kind="question", key=question.key, subject=run, at=at, by="ann", body=body)])
    return question.key


def test_an_open_question_is_listed_until_it_is_answered(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seedbed("confirm", "list").out == "No questions are open.\n"
    key = ask("run1")
    shown = seedbed("confirm", "list")
    assert 'wants to refund {"order":"[red]7[/red]' in shown.out
    assert key[:10] in shown.out
    assert "\x1b" not in shown.out
    listed = seedbed("confirm", "list", "--json")
    assert keeps_promise(listed.json, "confirm", "list")
    (open_one,) = listed.json["questions"]
    assert (open_one["question"], open_one["run"], open_one["status"]) == (key, "run1", "open")
    assert open_one["arguments"] == {"order": "[red]7[/red]\x1b[2K"}
    monkeypatch.setenv("SEEDBED_BY", "bob")
    before = held()
    rehearsed = seedbed("confirm", "yes", key[:8], *WHY, "--dry-run", "--json")
    assert keeps_promise(rehearsed.json, "confirm", "yes")
    assert (rehearsed.code, held()) == (0, before)
    said = seedbed("confirm", "yes", key[:8], *WHY)
    assert (said.code, "bob said yes" in said.out) == (0, True)
    assert seedbed("confirm", "list", "--json").json["questions"] == []
    (answered,) = seedbed("confirm", "list", "--all", "--json").json["questions"]
    assert (answered["status"], answered["answered_by"], answered["answer"]) == ("yes", "bob", WHY[1])
    assert seedbed("store", "verify").code == 0


def test_the_end_of_a_long_argument_is_shown_in_a_narrow_terminal_too(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    ask("run1", order=f"7{' ' * 300}and all others")
    assert 'and all others"} (confirm: refund)' in " ".join(seedbed("confirm", "list").out.split())


def test_the_second_answer_is_told_who_was_quicker(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ask("run1")
    no = seedbed("confirm", "no", key, *WHY, "--json")
    assert keeps_promise(no.json, "confirm", "no")
    assert (no.json["answer"], no.json["by"]) == ("no", "ann")
    monkeypatch.setenv("SEEDBED_BY", "bob")
    second = seedbed("confirm", "yes", key, *WHY)
    assert second.code == 1
    assert "found that ann said no" in second.err


def test_a_question_whose_time_is_over_is_open_no_more(space: Path, seedbed: Seedbed) -> None:
    key = ask("run1", minutes=0)
    assert seedbed("confirm", "list", "--json").json["questions"] == []
    assert "timed out" in seedbed("confirm", "list", "--all").out
    late = seedbed("confirm", "yes", key, *WHY)
    assert late.code == 1
    assert "its time is over" in late.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("yes", "abcdef", *WHY), 1, "is no question of this store"),
        (("yes", "", *WHY), 1, "is no question of this store"),
        (("yes", "abcdef"), 64, "--because"),
        (("no",), 64, "QUESTION"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    space: Path, seedbed: Seedbed, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = seedbed("confirm", *arguments)
    assert done.code == code
    assert told in done.err
