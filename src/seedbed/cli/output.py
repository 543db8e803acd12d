"""What reaches the terminal: tables and colour for people, JSON for programs, errors on the error stream.

Rich prints no colour if NO_COLOR is set, or into a pipe.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from seedbed.errors import DocumentError, Problem, ReleaseRefused, SeedbedError, SettingsError
from seedbed.files import write_private
from seedbed.redaction import redact
from seedbed.reports.formats import finite
from seedbed.reports.numbers import amount, clipped, counted

PASS, BLOCKED, INCONCLUSIVE, USAGE, DEFECT, INTERRUPTED = 0, 1, 2, 64, 70, 130
"""The exit codes: yes; no or refused; not known yet; called wrongly; a defect of ours; Ctrl-C."""


typed_arguments: list[str] = []
"""The arguments of the command that is performed."""


def same_command() -> str:
    """The command that was typed, to be typed again."""
    return shlex.join(["seedbed", *typed_arguments])


class SafeConsole(Console):
    """A console on which no text can command the terminal, whoever wrote it and whatever view it is in."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else safe(text), style, control)


@cache
def console() -> Console:
    return SafeConsole(highlight=False)


@cache
def errors() -> Console:
    """Where errors and live progress go, so that standard output stays clean for pipes."""
    return SafeConsole(stderr=True, highlight=False)


def coloured() -> bool:
    return console().color_system is not None and not console().no_color


def show(document: object, as_json: bool, *renderables: RenderableType) -> None:
    """The result of a command: its document for programs, or what people get to see."""
    if as_json:
        typer.echo(as_json_text(document, indent=2))
        return
    for renderable in renderables:
        _print(console(), renderable)


def _print(to: Console, renderable: RenderableType) -> None:
    """Print on a stream: a terminal gets lines wrapped between words, a pipe gets them as they are."""
    to.print(renderable, soft_wrap=isinstance(renderable, Text) and not to.is_terminal)


def expect_new(file: Path) -> None:
    """Refuse a file that exists or has no folder, before anything is paid. Raises SettingsError."""
    if file.exists():
        raise SettingsError([Problem(str(file), "a file that exists", "a new one", "Remove it or choose another.")])
    if not file.parent.is_dir():
        remedy = "Create it or choose another."
        raise SettingsError([Problem(str(file), f"no folder {file.parent}", "an existing folder", remedy)])


def hand_over(document: dict[str, Any], text: str, file: Path | None, as_json: bool) -> None:
    """What a command exports: into a new file, or else printed as it is."""
    if file:
        expect_new(file)
        write_private(file, text)
    if as_json or file:
        show({**document, "file": str(file) if file else None}, as_json, line(("✓ ", "bold green"), f"wrote {file}"))
    else:
        typer.echo(safe(text) if console().is_terminal else text, nl=False)


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


def table(*headings: str, rows: Iterable[Sequence[RenderableType]], title: str = "") -> Table:
    """One line for each row. A heading that ends with # is over numbers, which are never cut, other texts are.

    In a narrow terminal the last columns are dropped first.
    """
    columns = [
        Column(heading.rstrip("# "), itemgetter(place), place, number=is_number, flexible=not is_number)
        for place, heading in enumerate(headings)
        for is_number in [heading.endswith("#")]
    ]
    return listing(columns, list(rows), title=title)


def wrapped_table(*headings: str, rows: Iterable[Sequence[str]]) -> Table:
    """Long texts beside each other, each in as many lines as it needs."""
    result = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in headings:
        result.add_column(heading, overflow="fold")
    for row in rows:
        result.add_row(*(Text(safe(cell)) for cell in row))
    return result


def listing(columns: Sequence[Column], documents: Sequence[Any], *, title: str = "") -> Table:
    """One line for each document, as many columns as fit the terminal; the least important are dropped first."""
    shown = [_Filled(column, [_one_line(column.cell(each)) for each in documents]) for column in columns]
    shown = [each for each in shown if each.column.drop == 0 or any(cell.plain for cell in each.cells)]
    while _needed(shown) > console().width and any(each.column.drop for each in shown):
        shown.remove(max(shown, key=lambda each: each.column.drop))
    called = Text(safe(title)) if title else None
    result = Table(box=SIMPLE_HEAD, title=called, title_justify="left", show_edge=False, pad_edge=False)
    for each, width in zip(shown, _widths(shown), strict=True):
        justify: Literal["left", "right"] = "right" if each.column.number else "left"
        result.add_column(Text(each.column.heading), justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in zip(*(each.cells for each in shown), strict=True):
        result.add_row(*row)
    return result


def _one_line(cell: object) -> Text:
    """A cell that is never read as markup: texts come from users and models."""
    if not isinstance(cell, Text):
        return Text(safe(" ".join(str(cell).split())))
    text = cell.copy()
    text.plain = text.plain.replace("\n", " ")
    return text


@dataclass(frozen=True, eq=False)
class _Filled:
    """A column with its cells."""

    column: Column
    cells: Sequence[Text]

    @cached_property
    def width(self) -> int:
        """What it needs to show everything."""
        return max([cell_len(self.column.heading), *(each.cell_len for each in self.cells)])


def _needed(shown: Sequence[_Filled]) -> int:
    """The least width that columns need beside each other."""
    widths = (min(each.width, NARROWEST) if each.column.flexible else each.width for each in shown)
    return sum(widths) + 3 * (len(shown) - 1)


def _widths(shown: Sequence[_Filled]) -> list[int]:
    """The width of each column; flexible ones share what the others leave, each as much as it needs."""
    widths = [each.width for each in shown]
    flexible = sorted((place for place, each in enumerate(shown) if each.column.flexible), key=widths.__getitem__)
    room = console().width - 3 * (len(shown) - 1) - sum(widths) + sum(widths[place] for place in flexible)
    for left, place in zip(range(len(flexible), 0, -1), flexible, strict=True):
        widths[place] = max(1, min(widths[place], room // left))
        room -= widths[place]
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


_CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    **dict.fromkeys([0x7F, *range(0x80, 0xA0)], 0xFFFD),
    **dict.fromkeys([0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
    0x9B: 0x241B,
}
"""Control characters, and those that reverse the direction of a text: what is shown in place of each."""

_UNSAFE = re.compile(f"[{''.join(map(chr, filter(lambda code: code >= 0x7F, _CONTROLS)))}]")


def safe(text: str) -> str:
    """A text that cannot command the terminal or show itself in another order: it may come from users and models."""
    return text.translate(_CONTROLS)


def as_json_text(document: object, *, indent: int | None = None) -> str:
    """JSON on which no text in it can command the terminal that shows it."""
    text = json.dumps(finite(document), ensure_ascii=False, indent=indent)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def when(at: datetime) -> str:
    """A time as people read it, in their own zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def money(usd: float, unpriced: int = 0) -> str:
    """An amount; with calls of unknown price, the least that it can be."""
    return amount(usd, unpriced, lambda known: f"${known:.4f}" if 0 < known < 0.1 else f"${known:.2f}")


# Errors


def problem_documents(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"path": p.path, "found": redact(p.found), "expected": p.expected, "remedy": p.remedy} for p in problems]


def problems_of(error: Exception) -> tuple[Problem, ...]:
    """What is wrong, at least one thing; a wrong call names the option or argument."""
    if isinstance(error, SeedbedError):
        return error.problems
    if isinstance(error.__cause__, SeedbedError):
        return error.__cause__.problems
    context = getattr(error, "ctx", None)
    remedy = f"See {context.command_path} --help." if context else ""
    if not isinstance(error, typer.BadParameter):
        return (replace(Problem.read(_message(error)), remedy=remedy),)
    hint = error.param_hint or (error.param.get_error_hint() if error.param else "")
    problem = Problem.read(error.message or _message(error))
    return (replace(problem, path=str(hint).replace("'", ""), remedy=problem.remedy or remedy),)


def show_error(error: Exception, as_json: bool) -> None:
    """An error as one JSON document, or as a heading and each problem with what to do."""
    unexpected = not isinstance(error, SeedbedError | OSError | typer.TyperException)
    if unexpected and os.environ.get("SEEDBED_DEBUG"):
        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if as_json:
        document = {"error": type(error).__name__, "message": _message(error)}
        problems = problem_documents(problems_of(error))
        typer.echo(as_json_text({**document, "problems": problems}, indent=2), err=True)
    elif unexpected:
        report = "This is a bug in seedbed: please report it in the issue tracker, with the output of SEEDBED_DEBUG=1."
        _cross(f"unexpected {type(error).__name__}: {clipped(error, 300)}. {report}")
    else:
        _cross(_heading(error))
        for problem in problems_of(error) if isinstance(error, DocumentError | ReleaseRefused) else ():
            errors().print(problem_view(problem))


def _cross(text: str) -> None:
    _print(errors(), line(("✗ ", "bold red"), text))


def _heading(error: Exception) -> str:
    problems = problems_of(error)
    if isinstance(error, ReleaseRefused):
        return f"release refused, {counted(len(problems), 'reason')}"
    if isinstance(error, DocumentError):
        head = f"{error.source}: " if error.source else ""
        return f"{head}{counted(len(problems), 'problem')}"
    return _message(error)


def _message(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        return redact(error.format_message())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return redact(str(error))


def problem_view(problem: Problem) -> RenderableType:
    """One thing that is wrong: where, what was found, what belongs there, what to do."""
    parts = facts([("found", redact(problem.found)), ("expected", problem.expected), ("do", problem.remedy)])
    path = Text(safe(problem.path), style="bold")
    return Group(Padding(path, (0, 0, 0, 2), expand=False), Padding(parts, (0, 0, 0, 4), expand=False))


def say(text: str) -> None:
    """Print a remark on the error stream."""
    _print(errors(), line((text, "dim")))


def warn(text: str) -> None:
    """Print a warning on the error stream."""
    _print(errors(), line(("! ", "bold yellow"), text))
