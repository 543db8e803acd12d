"""How the nouns look."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from command_line import BETTER, SORTER
from rich.console import Console

from seedbed.cli import output
from seedbed.cli.views import playbook as views
from seedbed.documents import parse
from seedbed.errors import PlaybookError
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.changes import Change, diff
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.numbers import interval_text
from seedbed.settings import Settings
from seedbed.stats.estimates import Interval
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact
from seedbed.workspace.nouns.playbooks import Playbooks
from seedbed.workspace.resources import Resources

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
A, B, X, T = (f"b2:{letter * 64}" for letter in "abcd")
START = Playbook.from_document(parse(SORTER, "sorter", PlaybookError).value)


def printed(renderable: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=200, highlight=False).print(renderable)
    return file.getvalue()


VERDICT = Verdict(
    experiment=X,
    control=A,
    candidate=B,
    dataset=T,
    metric="exact_match",
    finding="superior",
    tasks=3,
    at_most=20,
    wins=2,
    ties=1,
    losses=0,
    control_mean=0.0,
    candidate_mean=2 / 3,
    difference=2 / 3,
    low=-0.1,
    high=1.4,
    p=0.012,
    alpha=0.05,
    outcomes="+=+",
)


def test_an_interval_without_tasks_is_no_score() -> None:
    assert interval_text(Interval(math.nan, 0.0, 1.0, 0.95, 0)) == "no score"
    assert interval_text(Interval(0.5, 0.25, 0.75, 0.95, 4)) == "0.500 [0.250, 0.750]"


def test_where_no_interval_can_be_told_the_mean_stands_alone() -> None:
    assert interval_text(Interval(0.5, -math.inf, math.inf, 0.95, 1)) == "0.500"


def test_scores_are_means_over_all_cells_by_metric() -> None:
    store = MemoryStore()
    for key, value in (("a", 1.0), ("b", 0.0), ("c", None)):
        body = {"metric": "exact_match", "task": key}
        store.append([Fact(kind="cell", key=key, subject=A, at=NOON, by="ann", body=body, value=value)])
    assert Playbooks(Resources(Settings(by="ann"), store)).scores(A) == {"exact_match": {"mean": 0.5, "cells": 2}}
    assert Playbooks(Resources(Settings(by="ann"), store)).scores(B) == {}
    assert views.scores_text({"exact_match": {"mean": 0.5, "cells": 4}}) == "exact_match 0.500 on 4 tasks"


# Changes


def test_numbers_change_from_and_to() -> None:
    assert printed(views.change_view(Change("a.b", 0.5, 0.25))) == "a.b  0.5 → 0.25\n"
    assert printed(views.change_view(Change("a.b", None, "x"))) == "a.b  nothing → x\n"


TEXTS = Change("system", "Sort [b]all[/b] mail", "Sort [i]some[/i] mail")


def test_without_colour_words_carry_the_marks_of_wdiff() -> None:
    assert printed(views.change_view(TEXTS)) == "system  Sort [-[b]all[/b]-]{+[i]some[/i]+} mail\n"


def test_with_colour_words_carry_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert str(views.change_view(TEXTS)) == "system  Sort [b]all[/b][i]some[/i] mail"


def test_who_wants_no_colour_gets_the_marks_also_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert not output.coloured()
    assert "[-[b]all[/b]-]" in printed(views.change_view(TEXTS))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nothing"),
        (0.5, "0.5"),
        (3.0, "3"),
        (True, "True"),
        ([], ""),
        ([{"inputs": {"q": "1"}, "output": "2"}], "1 demo"),
        ([{"says": "ü"}, {"stable": 2}], '{"says": "ü"}, {"stable": 2}'),
        (["x"], '"x"'),
    ],
)
def test_values_fit_on_a_line(value: object, text: str) -> None:
    assert views.value_text(value) == text


def test_what_a_candidate_says_differently_fits_on_a_line() -> None:
    other = with_genes(START, {"steps.label.prompt": BETTER, "parameters.caution": 0.25})
    assert views.changes_text(diff(START, other)) == f"parameters.caution: 0.25 + “{BETTER}”"
    assert views.changes_text(()) == ""


def test_only_playbooks_are_called_by_the_names_of_playbooks() -> None:
    store = MemoryStore()
    playbook, tasks = store.put("playbook", {"roles": {}}), store.put("dataset", {"tasks": []})
    store.move("branches/line", playbook, expected=None, because="x", by="ann")
    store.move("datasets/mail", tasks, expected=None, because="x", by="ann")
    assert Playbooks(Resources(Settings(by="ann"), store)).names() == {playbook: ["branches/line"]}
