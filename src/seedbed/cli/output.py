"""What reaches the terminal: tables and colour for people, JSON for programs, errors on the error stream.

Rich prints no colour if NO_COLOR is set, or into a pipe.
"""

from __future__ import annotations

import json
import os
import shlex
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from seedbed.errors import DocumentError, Problem, ReleaseRefused, SeedbedError, SettingsError
from seedbed.reports.formats import finite
from seedbed.reports.numbers import amount, clipped, counted

PASS, BLOCKED, INCONCLUSIVE, USAGE, DEFECT, INTERRUPTED = 0, 1, 2, 64, 70, 130
"""The exit codes: yes; no or refused; not known yet; called wrongly; a defect of ours; Ctrl-C."""


typed_arguments: list[str] = []
"""The arguments of the command that is performed."""


def same_command() -> str:
    """The command that was typed, to be typed again."""
    return shlex.join(["seedbed", *typed_arguments])


@cache
def console() -> Console:
    return Console(highlight=False)


@cache
def errors() -> Console:
    """Where errors and live progress go, so that standard output stays clean for pipes."""
    return Console(stderr=True, highlight=False)


def coloured() -> bool:
    return console().color_system is not None and not console().no_color


def show(document: object, as_json: bool, *renderables: RenderableType) -> None:
    """The result of a command: its document for programs, or what people get to see."""
    if as_json:
        typer.echo(json.dumps(finite(document), ensure_ascii=False, indent=2))
        return
    for renderable in renderables:
        # A terminal gets lines wrapped between words; a pipe gets them as they are.
        console().print(renderable, soft_wrap=isinstance(renderable, Text) and not console().is_terminal)


def expect_new(file: Path) -> None:
    """Refuse a file that exists or has no folder, before anything is paid. Raises SettingsError."""
    if file.exists():
        raise SettingsError([Problem(str(file), "a file that exists", "a new one", "Remove it or choose another.")])
    if not file.parent.is_dir():
        remedy = "Create it or choose another."
        raise SettingsError([Problem(str(file), f"no folder {file.parent}", "a folder that is there", remedy)])


def hand_over(document: dict[str, Any], text: str, file: Path | None, as_json: bool) -> None:
    """What a command exports: into a new file, or else printed as it is."""
    if file:
        expect_new(file)
        file.write_text(text, encoding="utf-8")
    if as_json or file:
        show({**document, "file": str(file) if file else None}, as_json, line(("✓ ", "bold green"), f"wrote {file}"))
    else:
        typer.echo(text, nl=False)


def table(*headings: str, rows: Iterable[Sequence[RenderableType]], title: str = "") -> Table:
    """A table whose cells are never read as markup: texts come from users and models."""
    called = Text(safe(title)) if title else None
    result = Table(box=SIMPLE_HEAD, title=called, title_justify="left", show_edge=False, pad_edge=False)
    for heading in headings:
        numeric = heading.endswith("#")
        result.add_column(heading.rstrip("#"), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        result.add_row(*(Text(safe(cell)) if isinstance(cell, str) else cell for cell in row))
    return result


@dataclass(frozen=True)
class Column:
    """A column of a list: its heading, what it shows of a document, and when it is dropped in a narrow terminal.

    The column with the highest `drop` goes first; 0 always stays. A `flexible` one is cut to what is left.
    """

    heading: str
    cell: Callable[[Any], object]
    drop: int = 0
    number: bool = False
    flexible: bool = False


NARROWEST = 14
"""The narrowest that a flexible column gets; if there is less room, another column is dropped."""


def listing(columns: Sequence[Column], documents: Sequence[Any]) -> Table:
    """One line for each document, as many columns as fit the terminal; the least important are dropped first."""
    cells = {
        column.heading: [
            each if isinstance(each, Text) else Text(safe(str(each))) for each in map(column.cell, documents)
        ]
        for column in columns
    }
    wide = {
        column.heading: max([len(column.heading), *(each.cell_len for each in cells[column.heading])])
        for column in columns
    }
    columns = [column for column in columns if column.drop == 0 or any(each.plain for each in cells[column.heading])]

    def needed() -> int:
        widths = (min(wide[each.heading], NARROWEST) if each.flexible else wide[each.heading] for each in columns)
        return sum(widths) + 3 * (len(columns) - 1)

    while needed() > console().width and any(column.drop for column in columns):
        dropped = max(columns, key=lambda column: column.drop)
        columns = [column for column in columns if column is not dropped]
    widths = _widths(columns, wide)
    result = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.number else "left"
        width = widths[column.heading]
        result.add_column(column.heading, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in zip(*(cells[column.heading] for column in columns), strict=True):
        result.add_row(*row)
    return result


def _widths(columns: Sequence[Column], wide: dict[str, int]) -> dict[str, int]:
    """The width of each column; flexible ones share what the others leave, each as much as it needs."""
    room = console().width - 3 * (len(columns) - 1) - sum(wide[each.heading] for each in columns if not each.flexible)
    widths = dict(wide)
    left = sorted((each.heading for each in columns if each.flexible), key=lambda name: wide[name])
    while left:
        name = left.pop(0)
        widths[name] = max(1, min(wide[name], room // (len(left) + 1)))
        room -= widths[name]
    return widths


def facts(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values below each other; a value that is empty is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value != "":
            grid.add_row(Text(name), Text(safe(value)) if isinstance(value, str) else value)
    return grid


def line(*parts: str | tuple[str, str]) -> Text:
    """One line of text; a part may be a pair of text and style."""
    return Text.assemble(*(safe(part) if isinstance(part, str) else (safe(part[0]), part[1]) for part in parts))


def safe(text: str) -> str:
    """A text that cannot command the terminal: texts come from users and models, and Rich lets escapes pass."""
    return text.replace("\x1b", "␛").replace("\x9b", "␛")


def when(at: datetime) -> str:
    """A time as people read it, in their own zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def money(usd: float, unpriced: int = 0) -> str:
    """An amount; with calls of unknown price, the least that it can be."""
    return amount(usd, unpriced, lambda known: f"${known:.4f}" if 0 < known < 0.1 else f"${known:.2f}")


# Errors


def problem_documents(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"path": p.path, "found": p.found, "expected": p.expected, "remedy": p.remedy} for p in problems]


def problems_of(error: Exception) -> tuple[Problem, ...]:
    if isinstance(error, DocumentError):
        return error.problems
    return error.refusals if isinstance(error, ReleaseRefused) else ()


def show_error(error: Exception, as_json: bool) -> None:
    """An error as one JSON document, or as a heading and each problem with what to do."""
    unexpected = not isinstance(error, SeedbedError | OSError | typer.TyperException)
    if unexpected and os.environ.get("SEEDBED_DEBUG"):
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if as_json:
        document = {"error": type(error).__name__, "message": _message(error)}
        problems = problem_documents(problems_of(error))
        typer.echo(json.dumps({**document, "problems": problems}, ensure_ascii=False, indent=2), err=True)
    elif unexpected:
        report = "This is a defect of seedbed: please report it, with what SEEDBED_DEBUG=1 shows, to its issue tracker."
        _cross(f"unexpected {type(error).__name__}: {clipped(error, 300)}. {report}")
    else:
        _cross(_heading(error))
        for problem in problems_of(error):
            errors().print(problem_view(problem))


def _cross(text: str) -> None:
    errors().print(line(("✗ ", "bold red"), text), soft_wrap=True)


def _heading(error: Exception) -> str:
    problems = problems_of(error)
    if isinstance(error, ReleaseRefused):
        return f"release refused, {counted(len(problems), 'reason')}"
    if isinstance(error, DocumentError):
        head = f"{error.source}: " if error.source else ""
        return f"{head}{counted(len(problems), 'problem')}"
    return _message(error)


def _message(error: Exception) -> str:
    return error.format_message() if isinstance(error, typer.TyperException) else str(error)


def problem_view(problem: Problem) -> RenderableType:
    """One thing that is wrong: where, what was found, what belongs there, what to do."""
    parts = facts([("found", problem.found), ("expected", problem.expected), ("do", problem.remedy)])
    path = Text(safe(problem.path), style="bold")
    return Group(Padding(path, (0, 0, 0, 2), expand=False), Padding(parts, (0, 0, 0, 4), expand=False))


def warn(text: str) -> None:
    """Print a warning on the error stream."""
    errors().print(line(("! ", "bold yellow"), text), soft_wrap=True)
