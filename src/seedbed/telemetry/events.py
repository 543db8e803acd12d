"""Events: what happens in runs, where it happens, and the listeners that receive it."""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run started, or was resumed."""

    playbook: str
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A role has answered. `model` is the model that did, which may be a fallback; its `provider` calls it `provided`
    and was asked with these settings."""

    role: str
    model: str
    provider: str
    provided: str
    temperature: float | None
    max_tokens: int | None
    seed: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A tool was used, really or not, or failed."""

    tool: str
    seconds: float
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbStarted:
    """An evaluation, a comparison, a search or a release began."""

    verb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbEnded:
    """It ended; `error` is the class of what it raised."""

    verb: str
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRefused:
    """A gate refused a release or a promotion."""

    channel: str
    gate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMoved:
    """A channel serves something else, was frozen or unfrozen."""

    channel: str
    move: str
    playbook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelWatched:
    """The monitor looked at a channel and found so many alarms; `moved` if it rolled the canary back."""

    channel: str
    alarms: int
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed:
    """The store did not take a fact of that kind."""

    kind: str
    error: str


TelemetryEvent: TypeAlias = (
    RunStarted
    | TurnEnded
    | ToolEnded
    | RunEnded
    | ModelFailed
    | Substituted
    | Hedged
    | VerbStarted
    | VerbEnded
    | GateRefused
    | ChannelMoved
    | ChannelWatched
    | StoreFailed
)

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


def level(event: TelemetryEvent) -> LogLevel:
    """How serious an event is."""
    match event:
        case StoreFailed() | RunEnded(status="failed"):
            return "error"
        case ModelFailed() | Substituted() | GateRefused() | ToolEnded(failed=True) | ChannelWatched(moved=True):
            return "warning"
        case VerbEnded(error=error) if error:
            return "warning"
        case Hedged() | ChannelWatched(alarms=0):
            return "debug"
    return "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an event happened: the run, the run that opened it, the step, and the model that is called.

    `verb` is the id of the verb under way, if it is more than one run. `correlation` is that of the outermost verb or
    run, and `trace` the same, unless a trace of your own was under way.
    """

    run: str = ""
    parent: str = ""
    step: str = ""
    model: str = ""
    verb: str = ""
    correlation: str = ""
    trace: str = ""


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
        parent = before.run if before.run != run else before.parent
        here = replace(_rooted(before, run), run=run, parent=parent, step=step, model=model)
    else:
        here = replace(before, step=step or before.step, model=model or before.model)
    _place.set(here)
    try:
        yield
    finally:
        _place.set(before)  # not by a token: the block of a generator may end in another task than it began in


@contextmanager
def during(verb: str) -> Iterator[None]:
    """A block in which a verb is at work; runs in it belong to it."""
    if not listeners:
        yield
        return
    before, began, own = _place.get(), time.perf_counter(), uuid.uuid4().hex
    _place.set(replace(_rooted(before, own), verb=own))
    error = ""
    try:
        emit(VerbStarted(verb=verb))
        yield
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        emit(VerbEnded(verb=verb, seconds=time.perf_counter() - began, error=error))
        _place.set(before)


def _rooted(place: Place, name: str) -> Place:
    """A place with the correlation and the trace of the outermost run or verb, which may be the one of that name."""
    if place.correlation:
        return place
    trace = name[-32:]  # ids of live runs begin with a letter
    if otel := sys.modules.get("opentelemetry.trace"):
        yours = otel.get_current_span().get_span_context()
        trace = f"{yours.trace_id:032x}" if yours.is_valid else trace
    return replace(place, correlation=name, trace=trace)
