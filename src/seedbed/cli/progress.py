"""Live progress of long work, on the error stream and only on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from seedbed.cli import output
from seedbed.cli.output import money
from seedbed.evaluation.cells import Cell
from seedbed.experiments.slices import SliceProgress
from seedbed.reports.experiment.view import status_line
from seedbed.stats.sequential.stopping_rule import Answer


def _bar(*columns: str) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        *(TextColumn(f"{{task.fields[{column}]}}") for column in columns),
        console=output.errors(),
        transient=True,
        disable=not output.errors().is_terminal,
    )


class _Speed:
    """The rate of work, and the time left."""

    def __init__(self, total: int, began: float | None = None) -> None:
        self.total = total
        self._began = time.monotonic() if began is None else began

    def rate(self, done: int) -> str:
        return f"{done / self._elapsed():,.1f}/s"

    def left(self, done: int) -> str:
        seconds = round(self._elapsed() * (self.total - done) / done) if done else 0
        return f"{seconds // 60}:{seconds % 60:02d} left"

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._began, 1e-6)


@contextmanager
def candidates(total: int) -> Iterator[Callable[[str, Cell], None]]:
    """A watcher of cells that come in rounds: the name of the round, how many, its mean so far, the cost, the pace."""
    pace, mean = _Speed(total), _Mean()
    about, cost, done, drawn_at = "", 0.0, 0, 0.0
    with _bar("mean", "cost", "rate", "left") as bar:
        task = bar.add_task("starting", total=total, mean="", cost="", rate="", left="")

        def watch(name: str, cell: Cell) -> None:
            nonlocal about, cost, done, drawn_at
            if name != about:
                about = name
                mean.forget()
            mean.add(cell.value)
            done += 1
            cost += 0.0 if cell.reused else cell.cost_usd
            now = time.monotonic()
            # Known cells arrive by the thousand in a second.
            if not bar.disable and (now - drawn_at > 0.1 or done == total):
                drawn_at = now
                bar.update(task, completed=done, description=name, mean=str(mean), cost=money(cost))
                bar.update(task, rate=pace.rate(done), left=pace.left(done))

        yield watch


class _Mean:
    """The mean of the values so far, of those that are known."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self._sum += value
            self._count += 1

    def __str__(self) -> str:
        return f"mean {self._sum / self._count:.3f}" if self._count else "no score"


@contextmanager
def comparing(total: int, alpha: float) -> Iterator[Callable[[Answer], None]]:
    """A watcher of a comparison: one status line, as engine testers know it."""
    pace = _Speed(total)
    console = output.errors()
    with Live(Text(""), console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:

        def watch(answer: Answer) -> None:
            if console.is_terminal:
                # Tags end as soon as they are decided, so how long they take is not known.
                left = "" if isinstance(answer, SliceProgress) else f" | {pace.left(answer.n)}"
                live.update(Text(f"{status_line(answer, total, alpha)}{left}", no_wrap=True), refresh=True)

        yield watch


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A watcher of how many are done, of how many."""
    began = time.monotonic()
    with _bar("rate", "left") as bar:
        task = bar.add_task(what, total=None, rate="", left="")

        def watch(done: int, total: int) -> None:
            pace = _Speed(total, began)
            bar.update(task, completed=done, total=total, rate=pace.rate(done), left=pace.left(done))

        yield watch
