"""The states of a channel, and what may happen to it: a pure function from a state and an event to the next state.

    nothing ──release──▶ settled ──release with a share──▶ canary ──promote──▶ a larger share, or settled
                            ▲                                │
                            └────────────rollback────────────┘     and once more: the one settled before

Each state can be frozen: then only a rollback is possible. When a release reaches everybody, some users can be kept
back for a while: they still get the previous playbook, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from seedbed.documents import html_table
from seedbed.errors import Problem
from seedbed.storage.store import Digest, Fact, Json, Target, short


@dataclass(frozen=True, slots=True)
class Canary:
    """A candidate that a share of the users gets."""

    playbook: Digest
    share: float


@dataclass(frozen=True, slots=True)
class Held:
    """The previous playbook, which a share of the users still gets until a date."""

    playbook: Digest
    share: float
    until: datetime


@dataclass(frozen=True, slots=True)
class State:
    """The settled releases that still stand, oldest first; the last is served. And the canary beside it."""

    standing: tuple[Digest, ...] = ()
    canary: Canary | None = None
    frozen: bool = False
    held: Held | None = None

    @property
    def stable(self) -> Digest | None:
        return self.standing[-1] if self.standing else None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._parts())

    def __repr__(self) -> str:
        return f"<Channel {self}>"

    def _repr_html_(self) -> str:
        return html_table("Channel", self._parts())

    def _parts(self) -> list[tuple[str, str]]:
        canary, held = self.canary, self.held
        parts = [("stable", short(self.stable) if self.stable else "nothing")]
        parts += [("canary", f"{short(canary.playbook)} for {percent(canary.share)}")] if canary else []
        kept_until = held and f"{short(held.playbook)} for {percent(held.share)} until {held.until:%Y-%m-%d %H:%M}"
        parts += [("held back", kept_until)] if kept_until else []
        return [*parts, ("frozen", "only a rollback is possible")] if self.frozen else parts


# Events


@dataclass(frozen=True, slots=True)
class KeepBack:
    """The share of users that still get the previous playbook, and until when."""

    share: float
    until: datetime


@dataclass(frozen=True, slots=True)
class Release:
    playbook: Digest
    share: float = 1.0
    keep_back: KeepBack | None = None


@dataclass(frozen=True, slots=True)
class Promote:
    """The canary gets a larger share; at 100 % it is settled."""

    share: float = 1.0
    keep_back: KeepBack | None = None


@dataclass(frozen=True, slots=True)
class Rollback: ...


@dataclass(frozen=True, slots=True)
class Freeze: ...


@dataclass(frozen=True, slots=True)
class Unfreeze: ...


ChannelEvent: TypeAlias = Release | Promote | Rollback | Freeze | Unfreeze


def apply_event(state: State, event: ChannelEvent) -> State | Problem:
    """The state after an event, or why it cannot happen."""
    match event:
        case Rollback():
            return _back(state)
        case Freeze():
            if state.frozen:
                return Problem("freeze", "a frozen channel", "one that moves")
            return replace(state, frozen=True)
        case Unfreeze():
            if not state.frozen:
                return Problem("unfreeze", "a channel that is not frozen", "a frozen one")
            return replace(state, frozen=False)
    if state.frozen:
        return Problem("frozen", "a frozen channel", "one that moves", "Roll it back, or unfreeze it first.")
    if not 0 < event.share <= 1:
        return Problem("share", f"{event.share:g}", "more than 0 % and at most 100 %")
    return _released(state, event) if isinstance(event, Release) else _promoted(state, event)


def _back(state: State) -> State | Problem:
    if state.canary:
        return replace(state, canary=None)
    if len(state.standing) < 2:
        return Problem("rollback", "a first release", "an earlier one to return to")
    return replace(state, standing=state.standing[:-1], held=None)


def _released(state: State, event: Release) -> State | Problem:
    if event.playbook == state.stable:
        return Problem("redundant", "the playbook that is there already", "another one")
    if state.canary:
        actual = f"the canary {short(state.canary.playbook)} at {percent(state.canary.share)}"
        return Problem("canary", actual, "none under way", "Promote it or roll it back first.")
    if event.share == 1:
        return _settled(state, event.playbook, event.keep_back)
    if not state.standing:
        return Problem("share", percent(event.share), "100 % for a first release", "Nothing else is there to serve.")
    return replace(state, canary=Canary(event.playbook, event.share), held=None)


def _promoted(state: State, event: Promote) -> State | Problem:
    if not state.canary:
        return Problem("promote", "no canary", "one under way", "Release a playbook with a share first.")
    if event.share <= state.canary.share:
        now = percent(state.canary.share)
        return Problem("share", percent(event.share), f"more than {now}", "A share only grows: roll it back instead.")
    if event.share == 1:
        return _settled(state, state.canary.playbook, event.keep_back, 1 - state.canary.share)
    return replace(state, canary=replace(state.canary, share=event.share))


def _settled(state: State, playbook: Digest, keep_back: KeepBack | None, left: float = 1.0) -> State:
    """Keep back only users who have not met the canary: no user returns to the old playbook."""
    held = Held(state.stable, min(keep_back.share, left), keep_back.until) if keep_back and state.stable else None
    return State((*state.standing, playbook), held=held)


# What a ref holds


def document(state: State, event: ChannelEvent) -> Json:
    """The target of a channel's ref. Keys without a value are left out."""
    target: Json = {"stable": state.stable, "how": type(event).__name__.lower()}
    if state.canary:
        target["canary"] = {"playbook": state.canary.playbook, "share": state.canary.share}
    if state.held:
        target["held"] = {**asdict(state.held), "until": state.held.until.isoformat()}
    if state.frozen:
        target["frozen"] = True
    return target


def canary_of(target: Target) -> Canary | None:
    value = target.get("canary") if isinstance(target, Mapping) else None
    return Canary(**value) if isinstance(value, Mapping) else None


def held_of(target: Target) -> Held | None:
    value = target.get("held") if isinstance(target, Mapping) else None
    return Held(**{**value, "until": datetime.fromisoformat(value["until"])}) if isinstance(value, Mapping) else None


def stable_of(target: Target) -> Digest:
    return target if isinstance(target, str) else str(target["stable"])


def serves(target: Target | None, playbook: Digest) -> bool:
    """Whether a channel serves a playbook, as the stable one or as the canary."""
    if not target:
        return False
    canary = canary_of(target)
    return playbook in (stable_of(target), canary.playbook if canary else "")


def replay_moves(moves: Iterable[Fact]) -> State:
    """The state that the moves of a channel, oldest first, lead to."""
    state = State()
    for move in moves:
        target: Any = move.body["to"]
        if not target:  # the channel was removed, and starts again
            state = State()
            continue
        standing, stable = state.standing, stable_of(target)
        if stable != state.stable:
            back = isinstance(target, Mapping) and target.get("how") == "rollback" and stable in standing
            # A rollback returns to the last time that this one was settled.
            again = len(standing) - standing[::-1].index(stable) if back else 0
            standing = standing[:again] if back else (*standing, stable)
        frozen = isinstance(target, Mapping) and bool(target.get("frozen"))
        state = State(standing, canary_of(target), frozen, held_of(target))
    return state


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def time_span(time: timedelta) -> str:
    hours = time / timedelta(hours=1)
    if hours >= 48:
        return f"{hours / 24:.3g} days"
    return f"{hours:.3g} hours" if hours >= 1 else f"{60 * hours:.3g} minutes"
