"""Whatever operators do to a channel, in any order, at once, and however they crash: it stays sound."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_samples import agent

from seedbed.errors import Problem, RefMoved, ReleaseRefused
from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.channels import Rollout
from seedbed.release.states import (
    Canary,
    Freeze,
    Held,
    KeepBack,
    Promote,
    Release,
    Rollback,
    State,
    Unfreeze,
    apply_event,
    held_of,
)
from seedbed.storage import open_store
from seedbed.storage.store import Digest, Fact, Query, Ref, UpkeptStore
from seedbed.storage.upkeep import verify

T = TypeVar("T")

NAMES = "abcd"
PLAYBOOKS = [agent(name).digest for name in NAMES]
A, B, C, D = PLAYBOOKS
KEEP = KeepBack(0.5, datetime(2030, 1, 1, tzinfo=UTC))
HELD = Held(A, KEEP.share, KEEP.until)
SEQUENCES = int(os.environ.get("SEEDBED_TEST_SEQUENCES", "200"))
"""In memory; a database gets a fortieth of it."""


# One step at a time


@pytest.mark.parametrize(
    ("before", "event", "then"),
    [
        (State(), Release(A), State((A,))),
        (State((A,)), Release(B), State((A, B))),
        (State((A,)), Release(B, 0.05), State((A,), Canary(B, 0.05))),
        (State((A,), Canary(B, 0.05)), Promote(0.25), State((A,), Canary(B, 0.25))),
        (State((A,), Canary(B, 0.25)), Promote(), State((A, B))),
        (State((A,), Canary(B, 0.25)), Rollback(), State((A,))),
        (State((A, B)), Rollback(), State((A,))),
        (State((A,), Canary(B, 0.25)), Freeze(), State((A,), Canary(B, 0.25), frozen=True)),
        (State((A,), Canary(B, 0.25), frozen=True), Rollback(), State((A,), frozen=True)),
        (State((A, B), frozen=True), Rollback(), State((A,), frozen=True)),
        (State((A,), frozen=True), Unfreeze(), State((A,))),
        (State(), Release(A, keep_back=KEEP), State((A,))),  # there is nothing to keep anybody back with
        (State((A,)), Release(B, keep_back=KEEP), State((A, B), held=HELD)),
        (State((A,)), Release(B, 0.05, KEEP), State((A,), Canary(B, 0.05))),
        (State((A,), Canary(B, 0.05)), Promote(0.25, KEEP), State((A,), Canary(B, 0.25))),
        (State((A,), Canary(B, 0.25)), Promote(keep_back=KEEP), State((A, B), held=HELD)),
        (State((A,), Canary(B, 0.75)), Promote(keep_back=KEEP), State((A, B), held=replace(HELD, share=0.25))),
        (State((A, B), held=HELD), Freeze(), State((A, B), frozen=True, held=HELD)),
        (State((A, B), frozen=True, held=HELD), Unfreeze(), State((A, B), held=HELD)),
        (State((A, B), held=HELD), Rollback(), State((A,))),
        (State((A, B), held=HELD), Release(C, 0.05), State((A, B), Canary(C, 0.05))),
        (State((A, B), held=HELD), Release(C), State((A, B, C))),
    ],
)
def test_a_channel_goes_from_state_to_state(before: State, event: Any, then: State) -> None:
    assert apply_event(before, event) == then


@pytest.mark.parametrize(
    ("state", "event", "told"),
    [
        (State(), Release(A, 0.05), "share: found 5 %; expected 100 % for a first release"),
        (State((A,)), Release(A), "redundant: found the playbook that is there already"),
        (State((A,)), Release(A, 0.5), "redundant"),
        (State((A,)), Release(B, 0.0), "share: found 0; expected more than 0 % and at most 100 %"),
        (State((A,)), Release(B, 1.5), "share: found 1.5; expected more than 0 %"),
        (State((A,), Canary(B, 0.05)), Release(C), "expected none under way. Promote it or roll it back first."),
        (State((A,), Canary(B, 0.05)), Release(B, 0.25), "canary: found the canary"),
        (State((A,)), Promote(), "promote: found no canary"),
        (State((A,), Canary(B, 0.25)), Promote(0.25), "share: found 25 %; expected more than 25 %"),
        (State((A,), Canary(B, 0.25)), Promote(0.05), "A share only grows: roll it back instead."),
        (State((A,), frozen=True), Release(B), "frozen: found a frozen channel; expected one that moves. Roll it back"),
        (State((A,), Canary(B, 0.25), frozen=True), Promote(), "frozen: found a frozen channel"),
        (State((A,), frozen=True), Freeze(), "freeze: found a frozen channel"),
        (State((A,)), Unfreeze(), "unfreeze: found a channel that is not frozen"),
        (State((A,)), Rollback(), "rollback: found a first release; expected an earlier one to return to"),
    ],
)
def test_what_may_not_happen_is_refused_with_what_to_do(state: State, event: Any, told: str) -> None:
    refused = apply_event(state, event)
    assert isinstance(refused, Problem)
    assert told in str(refused)


# Any sequence of them


class Crash(Exception):
    """The operator's process ends here."""


@dataclass
class Fallible:
    """A store whose next move dies before or after it is written; or somebody else moves first, at some moment."""

    within: UpkeptStore
    fate: str = ""
    meanwhile: Callable[[], None] | None = None
    """What somebody else does: once the `ref` was read, once the `facts` were, or just before the `move`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    def _at(self, moment: str) -> None:
        if self.fate == moment and self.meanwhile:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()

    def ref(self, name: str) -> Ref | None:
        found = self.within.ref(name)
        self._at("ref")
        return found

    def facts(self, query: Query) -> Iterator[Fact]:
        found = list(self.within.facts(query))
        if query.kind == "move":
            self._at("facts")
        return iter(found)

    def move(self, name: str, to: Any, **told: Any) -> Ref:
        if self.fate == "before":
            raise Crash
        self._at("move")
        ref = self.within.move(name, to, **told)
        if self.fate == "after":
            raise Crash
        return ref


@dataclass(frozen=True)
class Model:
    """What a channel should be, told in the simplest words."""

    standing: tuple[Digest, ...] = ()
    canary: tuple[Digest, float] | None = None
    frozen: bool = False
    moves: int = 0
    held: tuple[Digest, float] | None = None

    def after(self, act: tuple[Any, ...]) -> Model | None:
        """None: that has to be refused."""
        moved = replace(self, moves=self.moves + 1)
        match act:
            case ("rollback",) if self.canary:
                return replace(moved, canary=None)
            case ("rollback",) if len(self.standing) > 1:
                return replace(moved, standing=self.standing[:-1], held=None)
            case ("freeze",) if self.standing and not self.frozen:
                return replace(moved, frozen=True)
            case ("unfreeze",) if self.frozen:
                return replace(moved, frozen=False)
            case ("release", playbook, None, keep) if not (self.frozen or self.canary):
                return None if playbook in self.standing[-1:] else moved.settled(playbook, keep and keep.share)
            case ("release", playbook, share, _) if share and self.standing and not (self.frozen or self.canary):
                return None if playbook == self.standing[-1] else replace(moved, canary=(playbook, share), held=None)
            case ("promote", None, keep) if self.canary and not self.frozen:
                return moved.settled(self.canary[0], keep and min(keep.share, 1 - self.canary[1]))
            case ("promote", share, _) if share and self.canary and not self.frozen and share > self.canary[1]:
                return replace(moved, canary=(self.canary[0], share))
        return None

    def settled(self, playbook: Digest, kept: float | None) -> Model:
        held = (self.standing[-1], kept) if kept and self.standing else None
        return replace(self, standing=(*self.standing, playbook), canary=None, held=held)


SHARES = st.sampled_from([None, None, 0.05, 0.25, 0.5, 0.75])
KEPT = st.sampled_from([None, KEEP, replace(KEEP, share=0.02)])
ACTS = st.one_of(
    st.tuples(st.just("release"), st.sampled_from(PLAYBOOKS), SHARES, KEPT),
    st.tuples(st.just("release"), st.sampled_from(PLAYBOOKS), SHARES, KEPT),
    st.tuples(st.just("promote"), SHARES, KEPT),
    st.tuples(st.just("rollback")),
    st.tuples(st.sampled_from(["freeze", "unfreeze"])),
)
MEANWHILE = st.tuples(st.sampled_from(["ref", "facts", "move"]), ACTS)
CRASHES = st.tuples(st.sampled_from(["", "before", "after"]), st.none())
STEPS = st.lists(st.tuples(ACTS, CRASHES | MEANWHILE), min_size=5, max_size=25)
"""What somebody does, and what comes between: nothing, a crash, or what somebody else does at the same moment."""


def finished(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine that waits for nothing gives: a loop for each would take most of the time."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def perform(store: Any, channel: str, by: str, act: tuple[Any, ...]) -> Ref:
    library = Library(store, by)
    match act:
        case ("release", playbook, share, keep):
            rollout = Rollout(share=share, keep_back=keep)
            work = channels.release(library, channel, playbook, [], verdict=None, because="a reason", rollout=rollout)
            return finished(work)
        case ("promote", share, keep):
            return finished(
                channels.promote(library, channel, because="a reason", rollout=Rollout(share=share, keep_back=keep))
            )
        case (name,):
            return getattr(channels, name)(library, channel, because="a reason")  # type: ignore[no-any-return]
    raise AssertionError(act)


def attempted(store: Any, channel: str, by: str, act: tuple[Any, ...]) -> Ref | Exception:
    try:
        return perform(store, channel, by, act)
    except (ReleaseRefused, RefMoved, Crash) as ended:
        return ended


def step(
    store: UpkeptStore, channel: str, model: Model, act: tuple[Any, ...], fate: str, other: tuple[Any, ...] | None
) -> Model:
    """Do it, and hold what came of it against the model; the model after it."""
    wanted, quicker = model.after(act), []

    def meanwhile() -> None:
        quicker.append(attempted(store, channel, "bob", other or ()))

    ended = attempted(Fallible(store, fate, meanwhile if other else None), channel, "ann", act)
    if quicker and isinstance(quicker[0], Ref):
        won = model.after(other or ())
        assert won is not None
        # Who is told what the other left may find it forbidden; who acts on what was there before has lost.
        assert isinstance(ended, RefMoved if wanted and fate != "ref" else RefMoved | ReleaseRefused)
        return won
    if wanted is None:
        assert isinstance(ended, ReleaseRefused)
        return model
    if fate in ("before", "after"):
        assert isinstance(ended, Crash)
        return model if fate == "before" else wanted
    assert isinstance(ended, Ref)
    return wanted


def check(store: UpkeptStore, channel: str, model: Model) -> None:
    name = f"channels/{channel}"
    ref, moves = store.ref(name), list(store.facts(Query(kind="move", subject=name)))
    assert len(moves) == model.moves
    assert [move.key for move in moves] == [f"{name}@{number}" for number in range(1, model.moves + 1)]
    assert all(move.by in ("ann", "bob") and move.body["because"] and move.link for move in moves)
    if ref is None:
        assert model == Model()
        return
    assert isinstance(ref.target, dict)
    assert ref.target["stable"] == model.standing[-1]
    canary = ref.target.get("canary")
    assert (canary and (canary["playbook"], canary["share"])) == model.canary
    assert ref.target.get("frozen", False) == model.frozen
    held = held_of(ref.target)
    assert (held and (held.playbook, held.share)) == model.held
    now = channels.state(store, channel)
    assert (now.standing, now.frozen, now.held) == (model.standing, model.frozen, held)


def unwind(store: UpkeptStore, channel: str, model: Model) -> None:
    """Whatever happened, it can be rolled back, one settled playbook after the other, frozen or not."""
    wanted = [*reversed(model.standing if model.canary else model.standing[:-1])]
    for stable in wanted:
        ref = channels.rollback(Library(store, "eve"), channel, because="back")
        assert isinstance(ref.target, dict)
        assert (ref.target["stable"], "canary" in ref.target) == (stable, False)
        assert "held" not in ref.target or (model.canary is None and stable == model.standing[-1])
    if model.standing:
        with pytest.raises(ReleaseRefused, match="a first release"):
            channels.rollback(Library(store, "eve"), channel, because="back")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UpkeptStore]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/x.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    with closing(open_store(url)) as store:
        for name in NAMES:
            Library(store, "ann").keep(agent(name), because="written")
        yield store


def test_whatever_is_done_a_channel_has_one_stable_a_way_back_and_a_record_of_every_move(
    store: UpkeptStore, request: pytest.FixtureRequest
) -> None:
    sequences = SEQUENCES if "memory" in request.node.name else max(SEQUENCES // 40, 5)
    numbers = count()

    @settings(max_examples=sequences, deadline=None, database=None)
    @given(STEPS)
    def play(steps: list[Any]) -> None:
        channel, model = f"c{next(numbers)}", Model()
        for act, (fate, other) in steps:
            if not model.standing and {act[0], other[0] if other else "release"} != {"release"}:
                continue  # there is no such channel yet
            model = step(store, channel, model, act, fate, other)
            check(store, channel, model)
        unwind(store, channel, model)

    play()
    assert verify(store).problems == ()


def test_a_channel_is_read_as_its_moves_say_also_those_that_an_older_seedbed_wrote() -> None:
    from seedbed.release.states import replay_moves

    with closing(open_store("memory:")) as store:
        ref = None
        for target in (A, {"stable": B}, {"stable": C, "how": "release"}, {"stable": B, "how": "rollback"}):
            ref = store.move("channels/x", target, expected=ref, because="so", by="ann")
        moves: list[Fact] = list(store.facts(Query(kind="move")))
        assert replay_moves(moves) == State((A, B))
        store.move("channels/x", None, expected=ref, because="gone", by="ann")
        store.move("channels/x", {"stable": D}, expected=None, because="anew", by="ann")
        assert replay_moves(store.facts(Query(kind="move"))) == State((D,))
