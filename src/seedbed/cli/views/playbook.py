"""How playbooks and their changes look."""

from __future__ import annotations

import json
from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from seedbed.cli import output
from seedbed.cli.output import Column, line, when
from seedbed.errors import shown
from seedbed.playbooks.changes import Change
from seedbed.reports.numbers import clipped, counted
from seedbed.storage.store import Json, short


def scores_text(scores: Json) -> str:
    """The mean scores by metric, each with its number of tasks or cells."""
    return ", ".join(
        f"{metric} {score['mean']:.3f} on {counted(score.get('tasks') or score['cells'], 'task')}"
        for metric, score in scores.items()
    )


def _first_score(scores: Json) -> str:
    """The score by the first metric, and how many other metrics there are."""
    more = f", +{len(scores) - 1}" if len(scores) > 1 else ""
    return scores_text(dict(list(scores.items())[:1])).removesuffix("s").removesuffix(" task") + more


def _short_names(names: Iterable[str]) -> str:
    """Branches and channels by the names that people type."""
    return ", ".join(name.removeprefix("branches/").removeprefix("channels/") for name in names)


def failed_mark(playbook: Json) -> str:
    """What marks a candidate that failed its comparison."""
    return " failed" if playbook["failed"] else ""


COLUMNS = (
    Column("playbook", lambda each: line((short(each["playbook"]), "yellow"), (failed_mark(each), "red"))),
    Column("names", lambda each: _short_names(each["names"]), flexible=True),
    Column("score", lambda each: _first_score(each["scores"]), drop=1),
    Column("how", lambda each: f"{each['how']}: {clipped(each['because'], 50)}", 2, flexible=True),
    Column("by", lambda each: each["by"], drop=4),
    Column("at", lambda each: when(each["at"]), drop=3),
)


def change_document(change: Change) -> Json:
    return {"path": change.path, "before": change.before, "after": change.after}


def change_view(change: Change) -> RenderableType:
    """Numbers before and after; texts word by word, removed words in red and new ones in green."""
    text = Text.assemble((output.safe(change.path), "bold"), "  ")
    if not change.is_text:
        before, after = (output.safe(value_text(value)) for value in (change.before, change.after))
        return text.append(before, "red").append(" → ").append(after, "green")
    styles = {"kept": "", "removed": "red strike", "added": "green"}
    # Without colour the marks of wdiff tell the words apart.
    marks = {} if output.coloured() else {"removed": ("[-", "-]"), "added": ("{+", "+}")}
    for what, piece in change.pieces():
        before, after = marks.get(what, ("", ""))
        text.append(f"{before}{output.safe(piece)}{after}", styles[what])
    return text


def value_text(value: object) -> str:
    """A value of a playbook on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, list) and value and all(isinstance(each, dict) and "output" in each for each in value):
        return counted(len(value), "demo")
    if isinstance(value, list):
        texts = (json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else shown(each) for each in value)
        return clipped(", ".join(texts), 200)
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else clipped(value, 200)


def changes_text(changes: Iterable[Change]) -> str:
    """Changes in one line: texts in quotes and last, everything else by its path."""
    return " + ".join(
        f"“{clipped(change.after, 90)}”"
        if change.is_text
        else value_text(change.after)
        if change.path.startswith("demos.")
        else f"{change.path}: {value_text(change.after)}"
        for change in sorted(changes, key=lambda change: change.is_text)
    )
