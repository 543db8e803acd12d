"""Channels: release a playbook through its gates, promote it, roll it back, freeze the channel.

`states` decides what may happen. This module reads the state and moves the ref, unless another process was quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from seedbed.errors import NotFound, Problem, RefMoved, ReleaseRefused, shown
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library, check_ref_name
from seedbed.release.assignment import unknown_channel
from seedbed.release.gates.gate import Gate, InUse, Refusal, ReleaseRequest
from seedbed.release.live_comparison import find_live_verdict
from seedbed.release.ramp import NO_RAMP, Ramp
from seedbed.release.states import (
    Canary,
    ChannelEvent,
    Freeze,
    KeepBack,
    Promote,
    Release,
    Rollback,
    State,
    Unfreeze,
    apply_event,
    canary_of,
    document,
    replay_moves,
    stable_of,
)
from seedbed.stage.program import code_of
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, Store, in_brief, short
from seedbed.telemetry import ChannelMoved, GateRefused, emit


@dataclass(frozen=True, slots=True)
class Rollout:
    """How a playbook reaches the users of a channel.

    `share` is the share of users that get it; by default it is the next step of the `ramp`. When it reaches
    everybody, the users in `keep_back` still get the previous playbook. `require` holds the gates as in the settings:
    the move records which gates the playbook has passed.
    """

    share: float | None = None
    ramp: Ramp = NO_RAMP
    keep_back: KeepBack | None = None
    require: tuple[Any, ...] = ()
    in_use: InUse | None = None


AT_ONCE = Rollout()


def stable(store: Store, channel: str) -> Digest | None:
    """What a channel serves, if anything."""
    ref = store.ref(f"channels/{channel}")
    return stable_of(ref.target) if ref else None


def state(store: Store, channel: str) -> State:
    """The stable playbook of a channel, its canary, and the releases that it can return to."""
    return replay_moves(moves(store, channel))


async def release(
    library: Library,
    channel: str,
    candidate: Digest,
    gates: Sequence[Gate],
    *,
    verdict: Verdict | None,
    because: str,
    rollout: Rollout = AT_ONCE,
) -> Ref:
    """Put a candidate on a channel. Raises ReleaseRefused with the refusal of every gate.

    A first release reaches everybody: there is nothing else to serve.
    """
    store, share = library.store, rollout.share
    check_ref_name(f"channels/{channel}")
    library.entry(candidate)
    current, now = store.ref(f"channels/{channel}"), state(store, channel)
    first = rollout.ramp.first(share) if now.standing else 1.0 if share is None else share
    event = Release(candidate, 1.0 if isinstance(first, Problem) else first, rollout.keep_back)
    then = first if isinstance(first, Problem) else apply_event(now, event)
    refusals = [then] if isinstance(then, Problem) else []
    if candidate != now.stable:
        code = _released_code(store, channel, now.stable)
        share, in_use = event.share, rollout.in_use
        request = ReleaseRequest(channel, candidate, now.stable, verdict, library, share, code, in_use)
        refusals += [refusal for gate in gates if (refusal := await gate(request))]
    if isinstance(then, Problem) or refusals:
        raise _refused(channel, refusals)
    evidence: Json = {"verdict": verdict.experiment if verdict else None, "require": [*rollout.require]}
    if code := code_of(library.get(candidate)):
        evidence["code"] = {candidate: code}
    target = {**document(then, event), **evidence}
    return _write(library, f"channels/{channel}", target, current, because)


async def promote(
    library: Library, channel: str, gates: Sequence[Gate] = (), *, because: str, rollout: Rollout = AT_ONCE
) -> Ref:
    """Give the canary of a channel its next share; after the last step it is what the channel serves.

    The gates are those that depend on the share. Each step takes as many runs of the canary as the ramp says. If
    the ramp wants an approval, only a person who neither released nor wrote the canary can take the step to everybody.
    That is checked last, so that nobody approves a canary before its figures are known.
    """
    store, ramp = library.store, rollout.ramp
    current, past = _known(store, channel), moves(store, channel)
    now = replay_moves(past)
    canary = now.canary
    step = ramp.after(canary.share, rollout.share) if canary else 1.0
    event = Promote(1.0 if isinstance(step, Problem) else step, rollout.keep_back)
    then = step if isinstance(step, Problem) else apply_event(now, event)
    if isinstance(then, Problem):
        raise ReleaseRefused([then])
    assert canary  # without a canary it was refused above
    came, grew = _began(past, canary)
    code = _released_code(store, channel, now.stable)
    request = ReleaseRequest(
        channel, canary.playbook, now.stable, _evidence(store, current), library, event.share, code
    )
    refusals = [refusal for gate in gates if (refusal := await gate(request))]
    if (live := find_live_verdict(store, channel)) and live.finding == "inferior":
        reason = f"worse by {live.metric}, experiment {short(live.experiment)}"
        refusals.append(Refusal("live", reason, "a canary that is not worse", "Roll it back."))
    seen = _exposed(store, channel, canary, grew, ramp.hold) if ramp.hold else 0
    if seen < ramp.hold:
        remedy = "Wait for them, or roll it back."
        refusals.append(Refusal("hold", f"{seen} runs of the canary at this share", f"{ramp.hold}", remedy))
    last = ramp.approval and event.share == 1
    if last and not refusals and library.by in (came.by, library.entry(canary.playbook).by):
        person = f"{library.by}, who released or wrote it"
        refusals.append(Refusal("approval", person, "another person", "Ask somebody else to promote it."))
    if refusals:
        raise _refused(channel, refusals)
    return _move(library, current, then, event, because)


def rollback(library: Library, channel: str, *, because: str, of: Digest | None = None) -> Ref:
    """Return a channel to the last settled release, and again to the one before that. No gate can forbid it.

    With `of`, raises RefMoved if that would take back any other playbook.
    """
    current = _known(library.store, channel)
    canary, stable = canary_of(current.target), stable_of(current.target)
    taken = canary.playbook if canary else stable
    if of is not None and of != taken:
        raise RefMoved(f"channel {shown(channel)}: found {short(taken)}; expected {short(of)} to take back")
    return _happen(library, channel, Rollback(), because, current)


def freeze(library: Library, channel: str, *, because: str) -> Ref:
    """Allow nothing but rollbacks on a channel: the emergency stop."""
    return _happen(library, channel, Freeze(), because)


def unfreeze(library: Library, channel: str, *, because: str) -> Ref:
    """Allow a frozen channel to move again."""
    return _happen(library, channel, Unfreeze(), because)


def seen_by_canary(store: Store, channel: str) -> int:
    """The number of exposures to the canary since it got its current share."""
    past = moves(store, channel)
    canary = replay_moves(past).canary
    return _exposed(store, channel, canary, _began(past, canary)[1], None) if canary else 0


def _happen(library: Library, channel: str, event: ChannelEvent, because: str, current: Ref | None = None) -> Ref:
    current = current or _known(library.store, channel)
    then = apply_event(state(library.store, channel), event)
    if isinstance(then, Problem):
        raise ReleaseRefused([then])
    if isinstance(event, Rollback) and then.stable:  # whoever is served next must find it whole
        library.get(then.stable)
    return _move(library, current, then, event, because)


def _move(library: Library, current: Ref, then: State, event: ChannelEvent, because: str) -> Ref:
    target: Json = document(then, event)
    if not isinstance(event, Rollback) and isinstance(current.target, dict) and "verdict" in current.target:
        target["verdict"] = current.target["verdict"]
    return _write(library, current.name, target, current, because)


def _write(library: Library, name: str, target: Json, current: Ref | None, because: str) -> Ref:
    ref = library.store.move(name, target, expected=current, because=because, by=library.by)
    channel, playbook = name.removeprefix("channels/"), str(target["stable"])
    emit(ChannelMoved(channel=channel, move=str(target["how"]), playbook=playbook))
    return ref


def _refused(channel: str, refusals: list[Problem]) -> ReleaseRefused:
    for each in refusals:
        emit(GateRefused(channel=channel, gate=each.path))
    return ReleaseRefused(refusals)


def _known(store: Store, channel: str) -> Ref:
    # Read before the moves: a move in between makes the compare-and-swap fail, and nothing is lost.
    ref = store.ref(f"channels/{channel}")
    if ref is None:
        raise unknown_channel(store, channel)
    return ref


def moves(store: Store, channel: str) -> list[Fact]:
    """Every move of a channel, oldest first."""
    return list(store.facts(Query(kind="move", subject=f"channels/{channel}")))


def _released_code(store: Store, channel: str, playbook: Digest | None) -> str:
    """The hash of the source that a playbook's program had when it was last released; empty if it is not known."""
    targets = [move.body["to"] or {} for move in reversed(moves(store, channel))]
    known = [target["code"] for target in targets if isinstance(target, dict) and "code" in target]
    return str(next((code[playbook] for code in known if playbook in code), ""))


def _began(past: Sequence[Fact], canary: Canary) -> tuple[Fact, Fact]:
    """The moves with which the canary came and with which it got its current share."""
    canaries = [(move, canary_of(move.body["to"] or {})) for move in reversed(past)]
    since = list(takewhile(lambda each: each[1] is not None and each[1].playbook == canary.playbook, canaries))
    return since[-1][0], [move for move, was in since if was == canary][-1]


def _evidence(store: Store, channel: Ref) -> Verdict | None:
    """The verdict that a channel's canary was released with."""
    named = channel.target.get("verdict") if isinstance(channel.target, dict) else None
    with suppress(NotFound):  # the gates report it
        return Verdict.recall(store, named) if named else None
    return None


def _exposed(store: Store, channel: str, canary: Canary, began: Fact, at_most: int | None) -> int:
    subject, after = f"channels/{channel}", began.number
    query = Query(kind="exposure", subject=subject, tag=canary.playbook, after=after, limit=at_most)
    return sum(1 for _ in in_brief(store, query))
