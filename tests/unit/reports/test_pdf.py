"""A run on paper. What a PDF says is read back by another program."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfReader

sys.path.insert(0, str(Path(__file__).parent))

from test_run_report import CHILD, ROUTING, RUN, TURN

from seedbed.errors import SettingsError
from seedbed.reports import run as report
from seedbed.reports.pdf import PdfReport
from seedbed.reports.run import RunView
from seedbed.runs.run import Run
from seedbed.storage.store import Json


def to_pdf(run: Run, routing: Sequence[Json] = ()) -> PdfReport:
    return report.to_pdf(RunView(run, routing))


def read(paper: PdfReport) -> str:
    """All words of a PDF, with single spaces between them and without places where a line may be broken."""
    text = " ".join(page.extract_text() for page in PdfReader(io.BytesIO(paper.pdf)).pages)
    return " ".join(text.replace("\u200b", "").replace("\u00a0", " ").split())


def printed(text: str) -> PdfReport:
    return to_pdf(replace(RUN, turns=(replace(TURN, text=text),)))


def test_it_holds_the_task_every_turn_what_came_of_it_what_it_cost_and_how_models_were_chosen() -> None:
    text = read(to_pdf(replace(RUN, children=(CHILD,)), ROUTING))
    for part in (
        "Run 0123456789",
        "seed 7, started 2026-01-02 03:04 UTC, completed",
        "question Why?",
        "answer writer · fast",
        "1,200 tokens, US$ 0.2500, 0.50 s",
        "strong did not answer, so fast did",
        "Because ✓ <script>alert(1)</script>",
        "writer · strong",
        'look {"at":"it|"} 3',
        "label ham no links",
        "fedcba9876 topics failed",
        '{"label":"ü"}',
        "all 3 3,650 3.5000",
        "answer fast 75% it is | the cheapest <b>",
        "tiny: it cannot do reasoning",
    ):
        assert part in text, part


def test_a_run_that_failed_before_the_first_turn_is_told_too() -> None:
    text = read(to_pdf(replace(RUN, turns=(), calls=(), decisions=(), inputs={}, output=None, error="gone wrong")))
    assert "Outcome gone wrong" in text
    assert "Routing" not in text


def test_other_alphabets_are_printed() -> None:
    words = "Žluťoučký kůň; Привет, мир; Ελληνικά; ½ ≤ ∑ → “so”"
    paper = printed(words)
    assert words in read(paper)
    assert not paper.unprintable
    assert not paper.notice


def test_what_no_font_can_print_stands_there_as_its_number_and_is_told() -> None:
    # Cuneiform, a private use and a control character: fonts of CJK or emoji may be installed.
    paper = printed("a \U00012000 b \ue9ff c \x07 d")
    assert sorted(paper.unprintable) == ["\x07", "\ue9ff", "\U00012000"]
    text = read(paper)
    assert "a [U+12000] b [U+E9FF] c [U+0007] d" in text
    assert "3 characters have no glyph" in paper.notice
    assert paper.notice in text


def test_nothing_that_was_said_is_obeyed() -> None:
    commands = '#read("/etc/hostname") #panic("x") #sys.inputs = *a* _b_ $ 1/2 $ = Title <label> @ref \\ // /* `x`'
    text = read(to_pdf(replace(RUN, turns=(replace(TURN, text=commands, notices=(commands,)),), output=commands)))
    assert text.count(commands) == 3
    nasty = replace(TURN, step=commands, role=commands, model=commands)
    everywhere = replace(RUN, turns=(nasty,), inputs={commands: commands})
    assert read(to_pdf(everywhere, [{**ROUTING[0], "because": commands}])).count("#panic") >= 6


def test_code_keeps_its_indentation_and_a_fence_that_is_not_closed_loses_nothing() -> None:
    pdf = printed("Do:\n```python\ndef f():\n    return 1\n```\nThen:\n```\nthe rest").pdf
    text = PdfReader(io.BytesIO(pdf)).pages[0].extract_text().replace("\u00a0", " ")
    assert "def f():\n    return 1" in text
    assert "the rest" in text
    assert "```" not in text
    assert "```inline``` words" in read(printed("```inline``` words"))


def test_a_word_that_is_wider_than_the_paper_is_not_cut_off() -> None:
    word = "https://example.org/" + "0123456789" * 30
    paper = to_pdf(replace(RUN, turns=(replace(TURN, text=word, model="m" * 200, notices=(word,)),), output=word))
    text = PdfReader(io.BytesIO(paper.pdf)).pages[0].extract_text().replace("\u200b", "")
    assert max(map(len, text.splitlines())) < 140
    assert text.replace("\n", "").count(word) == 3


def test_the_same_run_gives_the_same_paper_dated_when_it_began() -> None:
    paper = to_pdf(RUN, ROUTING)
    assert paper == to_pdf(RUN, ROUTING)
    about = PdfReader(io.BytesIO(paper.pdf)).metadata
    assert about is not None
    assert (about.title, about.creation_date) == ("Run 0123456789", RUN.started.replace(microsecond=0))


def test_a_megabyte_fits() -> None:
    paper = printed("A sentence of some words. " * 40_000)
    assert len(PdfReader(io.BytesIO(paper.pdf)).pages) > 100


def test_without_typst_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(SettingsError, match=r"pip install 'seedbed\[pdf\]'"):
        to_pdf(RUN)
