"""What reaches the terminal, and what must not."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from seedbed.cli import output
from seedbed.errors import PlaybookError, Problem, ReleaseRefused, RunError, SettingsError, StoreError
from seedbed.reports.formats import finite
from seedbed.reports.numbers import clipped, counted


def printed(renderable: Any, width: int = 60) -> str:
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(renderable)
    return file.getvalue()


# Documents


def test_a_document_is_json_whatever_its_values() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    document = {"at": noon, "mean": math.nan, "high": math.inf, "pairs": ((1, 2),), "text": "ä\n🙂"}
    assert json.loads(json.dumps(finite(document))) == {
        "at": "2026-11-15T12:00:00+00:00",
        "mean": None,
        "high": None,
        "pairs": [[1, 2]],
        "text": "ä\n🙂",
    }


def test_json_is_printed_without_what_people_see(capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"text": "Ü [bold]"}, True, output.line("for people"))
    out = capsys.readouterr().out
    assert json.loads(out) == {"text": "Ü [bold]"}
    assert "Ü" in out


def test_a_pipe_gets_long_lines_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "word " * 200 + "end"
    output.show({}, False, output.line(text))
    assert capsys.readouterr().out == f"{text}\n"


# Rows


@pytest.fixture
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.usefixtures("eighty")
def test_a_row_is_one_line_and_its_numbers_are_never_cut() -> None:
    score = "exact_match 0.333 [0.193, 0.849]"
    row = ("sorter", "word " * 40, score, "1,234,567", "a reason\non two lines")
    _, _, line = printed(output.table("name", "text", "score#", "tasks#", "because", rows=[row]), 80).splitlines()
    assert score in line
    assert "1,234,567" in line
    assert "word word…" in line or "word wor…" in line
    assert "reason" not in line


@pytest.mark.usefixtures("eighty")
def test_the_last_columns_of_a_table_are_dropped_first() -> None:
    row = [f"{column} {'7' * 20}" for column in "abcdef"]
    heading, _, line = printed(output.table(*(f"{each[0]}#" for each in row), rows=[row]), 80).splitlines()
    assert heading.split() == ["a", "b", "c"]
    assert line.split("   ") == row[:3]


def test_a_cell_with_line_breaks_stays_on_its_row() -> None:
    columns = [output.Column("text", lambda each: output.line((each, "bold"))), output.Column("other", str)]
    assert printed(output.listing(columns, ["one\ntwo"])).splitlines()[2].split() == ["one", "two"] * 2


@pytest.mark.usefixtures("eighty")
def test_a_long_error_is_wrapped_between_words_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(StoreError("a reason of many words, " * 10 + "the end"), False)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert {line.split()[-1].strip(",") for line in lines} <= {"a", "reason", "of", "many", "words", "the", "end"}


# Text of users and models


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[/]", "[link=http://x]", ":smile:", "ä 日本 🙂", "\\[x]"])
def test_texts_are_never_read_as_markup(text: str) -> None:
    assert text in printed(output.line(text))
    assert text in printed(output.table("heading", rows=[(text,)]))
    assert text in printed(output.table("heading", rows=[("x" * 40,)], title=text))
    assert printed(output.facts([(text, text)])).count(text) == 2
    assert text in printed(output.problem_view(Problem(text, text, text, text)))


@pytest.mark.parametrize("escape", ["\x1b[31mred", "\x1b]0;title\x07", "\x9b2J"])
def test_texts_cannot_command_the_terminal(escape: str) -> None:
    shown = [
        output.line(escape, (escape, "bold")),
        output.table("heading", rows=[(escape,)]),
        output.facts([("name", escape)]),
        output.problem_view(Problem(escape, escape, escape, escape)),
    ]
    for each in shown:
        assert not {"\x1b", "\x9b"} & set(printed(each))
        assert "␛" in printed(each)


def test_a_fact_without_a_value_is_left_out() -> None:
    assert "gone" not in printed(output.facts([("gone", ""), ("there", "x")]))


def test_long_texts_are_clipped_to_one_line() -> None:
    assert clipped("a\n b\t c") == "a b c"
    assert clipped("x" * 61) == "x" * 59 + "…"
    assert clipped("x" * 60) == "x" * 60


@pytest.mark.parametrize(
    ("usd", "text"), [(0, "$0.00"), (0.00012, "$0.0001"), (0.099, "$0.0990"), (0.1, "$0.10"), (12.345, "$12.35")]
)
def test_small_sums_keep_their_digits(usd: float, text: str) -> None:
    assert output.money(usd) == text


def test_counting_knows_one_from_many() -> None:
    assert [counted(number, "fact") for number in (0, 1, 1200)] == ["0 facts", "1 fact", "1,200 facts"]


# Colour


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colour_is_for_those_who_watch_and_want_it(
    variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    output.show({}, False, output.line(("text", "red")))
    assert output.coloured() is expected
    assert ("\x1b[31m" in capsys.readouterr().out) is expected


# Errors


PROBLEMS = [Problem("roles.a", "[x]", "text", "Write some."), Problem("steps", "none", "one")]


def test_every_problem_is_told_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(PlaybookError(PROBLEMS, "my.yaml"), as_json=False)
    said = capsys.readouterr()
    assert not said.out
    assert [" ".join(line.split()) for line in said.err.splitlines()] == [
        "✗ my.yaml: 2 problems",
        "roles.a",
        "found [x]",
        "expected text",
        "do Write some.",
        "steps",
        "found none",
        "expected one",
    ]


def test_a_refused_release_gives_every_reason(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(ReleaseRefused(PROBLEMS), as_json=False)
    err = capsys.readouterr().err
    assert err.startswith("✗ release refused, 2 reasons")
    assert "Write some." in err


def test_an_error_as_json_is_one_document_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(PlaybookError(PROBLEMS, "my.yaml"), as_json=True)
    said = capsys.readouterr()
    assert not said.out
    document = json.loads(said.err)
    assert list(document) == ["error", "message", "problems"]
    assert document["error"] == "PlaybookError"
    assert document["problems"][0] == {
        "path": "roles.a",
        "found": "[x]",
        "expected": "text",
        "remedy": "Write some.",
    }


def test_a_defect_of_ours_asks_for_a_report_and_shows_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(ValueError("odd"), as_json=False)
    err = capsys.readouterr().err
    assert "unexpected ValueError: odd" in err
    assert "SEEDBED_DEBUG=1" in err
    assert "Traceback" not in err


def test_the_debug_variable_shows_the_traceback_of_a_defect_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEEDBED_DEBUG", "1")
    output.show_error(ValueError("odd"), as_json=False)
    assert "ValueError: odd\n" in capsys.readouterr().err
    output.show_error(StoreError("full"), as_json=False)
    assert capsys.readouterr().err == "✗ full\n"


def test_no_control_character_reaches_the_terminal_in_any_view(capsys: pytest.CaptureFixture[str]) -> None:
    controls = [*map(chr, (*range(9), *range(11, 32), *range(127, 160), 0x61C, 0x200E, 0x202E, 0x2066, 0x2069))]
    for control in controls:
        hostile = f"a{control}b"
        output.console().print(hostile, Text(hostile), Panel(hostile, title=hostile))
        output.show({"x": hostile}, True)
    shown = capsys.readouterr().out
    assert not {*controls} & {*shown}
    output.show({"x": "".join(controls)}, True)
    assert json.loads(capsys.readouterr().out) == {"x": "".join(controls)}


def test_an_error_names_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6" * 3
    for as_json in (True, False):
        output.show_error(SettingsError([Problem("models.a", key, "another")]), as_json)
        output.show_error(RunError(f"the provider refused {key}"), as_json)
    shown = capsys.readouterr().err
    assert key not in shown
    assert shown.count("[secret]") == 6
