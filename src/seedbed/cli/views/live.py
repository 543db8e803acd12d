"""Turns as they arrive: each of several at a time has its own block, with finished turns above."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from seedbed.cli.output import line, money, safe
from seedbed.cli.views.run import call_line
from seedbed.reports.numbers import counted
from seedbed.runs.run import RunEvent, Turn
from seedbed.storage.store import short

REFRESH_SECONDS = 0.08
"""How often the screen is drawn; people read no faster."""


@contextmanager
def turns(console: Console) -> Iterator[Callable[[RunEvent], None]]:
    """A listener for a run that shows it on a terminal as it is spoken; elsewhere it prints turns as they end."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda event: _print_lines(console, event)
        return
    with LiveTurns(console) as shown:
        yield shown.on_event


def _print_lines(console: Console, event: RunEvent) -> None:
    """Print a turn or a call that ended, or why it failed: the name of the step before each line."""
    if event.call:
        console.print(call_line(event.call.body()), soft_wrap=True)
    lines = (*event.turn.notices, *event.turn.text.splitlines()) if event.turn else ()
    for each in lines or (f"not answered: {event.failed}".splitlines() if event.failed else ()):
        console.print(line(f"{_place(event)}: {each}"), soft_wrap=True)


def _place(event: RunEvent) -> str:
    """The name of the step; for a child run, after the start of its id."""
    return f"{short(event.run)} {event.step}" if event.depth else event.step


@dataclass
class _Spoken:
    """A turn under way."""

    step: str
    role: str
    model: str
    pieces: list[str] = field(default_factory=list)
    discarded: str = ""

    @property
    def title(self) -> RenderableType:
        return line(("▶ ", "bold green"), (self.step, "bold"), (f" · {self.role} · {self.model}", "cyan"))

    def end(self, length: int) -> str:
        """The end of the text, at least `length` characters, without joining all of it."""
        last: list[str] = []
        for piece in reversed(self.pieces):
            last.append(piece)
            length -= len(piece)
            if length <= 0:
                break
        return "".join(reversed(last))


class LiveTurns:
    """The turns under way on a terminal, each with the end of what it has said so far.

    A turn that is done is printed above in full. At the end, unfinished turns are printed as far as they came.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._drawn = 0.0
        self._under_way: dict[tuple[str, str, str], _Spoken] = {}
        self._live = Live(self, console=console, auto_refresh=False, transient=True, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        left = list(self._under_way.values())
        self._under_way.clear()
        for spoken in left:
            self._print(spoken.title, "".join(spoken.pieces), [("did not finish", "yellow")])
        self._live.stop()

    def on_event(self, event: RunEvent) -> None:
        place = (event.run, event.step, event.role)
        if event.call:
            self._console.print(call_line(event.call.body()))
            self._draw()
            return
        if event.failed:
            spoken = self._under_way.pop(place, None) or _Spoken(_place(event), event.role, event.model)
            self._print(spoken.title, "".join(spoken.pieces), [(f"not answered: {event.failed}", "red")])
            self._draw()
            return
        if event.turn:
            self._under_way.pop(place, None)
            spoken = _Spoken(_place(event), event.role, event.turn.model)
            self._print(spoken.title, event.turn.text, _remarks(event.turn))
            self._draw()
            return
        spoken = self._under_way.setdefault(place, _Spoken(_place(event), event.role, event.model))
        if event.discarded:
            spoken.pieces.clear()
            spoken.discarded = event.discarded
        else:
            spoken.pieces.append(event.piece or "")
        if self._clock() - self._drawn >= REFRESH_SECONDS:
            self._draw()

    def _draw(self) -> None:
        self._live.refresh()
        self._drawn = self._clock()

    def _print(self, title: RenderableType, text: str, remarks: list[tuple[str, str]]) -> None:
        self._console.print(Group(title, _indented(line(text)), *(_indented(line(remark)) for remark in remarks)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, (console.height - 1) // max(1, len(self._under_way)) - 2)
        for spoken in self._under_way.values():
            yield spoken.title
            if spoken.discarded:
                yield _indented(line((f"starting over: {spoken.discarded}", "yellow")))
            said = Text(safe(spoken.end(room * console.width))).wrap(console, max(1, console.width - 2))
            yield _indented(Text("\n").join(said[-room:]))


def _indented(text: RenderableType) -> RenderableType:
    return Padding(text, (0, 0, 0, 2), expand=False)


def _remarks(turn: Turn) -> list[tuple[str, str]]:
    tokens = counted(turn.tokens, "token")
    spent = f"{tokens}, {money(turn.cost_usd, turn.unpriced)}, {turn.latency_seconds:.2f} s"
    return [*((notice, "yellow") for notice in turn.notices), (spent, "dim")]
