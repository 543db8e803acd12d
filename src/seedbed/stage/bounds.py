"""Bounds: what holds for every run inside another run or a search: its rules, its money, and how tools act."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import start_of
from seedbed.runs.recorder import Recorder
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Store


@dataclass(frozen=True, slots=True)
class RunBounds:
    """The playbooks whose rules hold here too, the ledger that everything is also paid from, and whether tools may act
    on the world. `record` is that of the run around, if there is one."""

    playbooks: tuple[Playbook, ...] = ()
    ledger: Ledger | None = None
    real_tools: bool = True
    record: Recorder | None = None


_bounds: ContextVar[RunBounds] = ContextVar("bounds", default=RunBounds())  # noqa: B039 - it is frozen


def bounds() -> RunBounds:
    """The bounds of where this is called."""
    return _bounds.get()


def playbooks_above(recorder: Recorder, library: Library) -> tuple[Playbook, ...]:
    """The playbooks that bound a run: those around it, and those of the runs above one that is resumed directly."""
    playbooks, run = list(bounds().playbooks), recorder.parent if recorder.resumed else ""
    while run:
        above = start_of(library.store, run)
        playbooks.append(library.get(above.subject))
        run = above.body["parent"]
    return tuple(dict.fromkeys(playbooks))


def record_above(store: Store) -> Recorder | None:
    """The record of the run in which this is called, if it is in that store."""
    record = bounds().record
    return record if record and record.is_in(store) else None


@contextmanager
def bounded(by: RunBounds) -> Iterator[None]:
    """A block with these bounds, in all tasks and threads that are started in it."""
    token = _bounds.set(by)
    try:
        yield
    finally:
        _bounds.reset(token)


@contextmanager
def under(*playbooks: Playbook) -> Iterator[None]:
    """A block in which the rules of these playbooks hold as well."""
    now = bounds()
    with bounded(replace(now, playbooks=tuple(dict.fromkeys((*playbooks, *now.playbooks))))):
        yield
