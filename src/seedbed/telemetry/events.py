"""Events: what happens in runs, where it happens, and the listeners that receive it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run started, or was resumed."""

    playbook: str
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A role has answered. `model` is the model that did, which may be a fallback."""

    role: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_seconds: float
    waited_seconds: float
    finish_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run ended. The status of one that was cancelled, and can be resumed, is `interrupted`."""

    status: str
    turns: int
    tokens: int
    cost_usd: float
    latency_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A request to a model got no answer; `why` is one of `errors.Why`."""

    model: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Substituted:
    """One model answered in place of another."""

    requested: str
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedged:
    """A request was sent twice because its answer took longer than `after_seconds`; `won` if the second was faster."""

    model: str
    after_seconds: float
    won: bool


TelemetryEvent: TypeAlias = RunStarted | TurnEnded | RunEnded | ModelFailed | Substituted | Hedged


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an event happened: the run, the run that opened it, the step, and the model that is called."""

    run: str = ""
    parent: str = ""
    step: str = ""
    model: str = ""


Listener: TypeAlias = Callable[[TelemetryEvent, Place], None]

listeners: list[Listener] = []
"""Each receives every event. Where an event is expensive to build, check first: `if listeners: emit(…)`."""


def emit(event: TelemetryEvent) -> None:
    """Pass an event to every listener. One that raises is logged and removed, so that no run fails because of it."""
    if not listeners:
        return
    for listener in tuple(listeners):
        try:
            listener(event, place())
        except Exception:
            logging.getLogger("seedbed").exception("a telemetry listener failed and was removed")
            listeners.remove(listener)


_OFF = nullcontext()
_NOWHERE = Place()
_place: ContextVar[Place] = ContextVar("seedbed_place", default=_NOWHERE)


def place() -> Place:
    """Where the running code is; your own log lines can name it too. A task inherits the place of its creator."""
    return _place.get()


def within(*, run: str = "", step: str = "", model: str = "") -> AbstractContextManager[None]:
    """Set the place for a block: a run, or a step of the current run. A run within another is its child."""
    return _within(run, step, model) if listeners else _OFF


@contextmanager
def _within(run: str, step: str, model: str) -> Iterator[None]:
    before = _place.get()
    if run:
        here = Place(run=run, parent=before.run if before.run != run else before.parent, step=step, model=model)
    else:
        here = replace(before, step=step or before.step, model=model or before.model)
    _place.set(here)
    try:
        yield
    finally:
        _place.set(before)  # not by a token: the block of a generator may end in another task than it began in
