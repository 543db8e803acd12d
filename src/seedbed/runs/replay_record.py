"""Replaying: the record of a run that is answered by a recording."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple

from seedbed.runs.cassette import MISSED, Cassette, CassetteEntry, Difference, Label, Missed, ReplayMode
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import How, Recorder, kept
from seedbed.runs.run import Child, Run, Status
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest


class Inner(NamedTuple):
    """What a run that a replay opens is answered by: the recording of that id, if there is one, in that mode."""

    recording: str | None
    mode: ReplayMode


class _ReplayAnswer(NamedTuple):
    label: Label
    entry: CassetteEntry | None = None
    body: Json | None = None


class ReplayRecord(Recorder):
    """A recorder that answers from a cassette, and says of each step how: exact, substituted, live or missed.

    What it gives is recorded as a run of its own, which says what it replays. A turn is exact only if its words, the
    model they go to, its parameters and the seed are those of the recording. Clock and chance come from the recording
    and go on from it by the seed. What a program says of itself, its own decisions and remarks, needs no answer.

    A step that is missed makes the whole run worthless, whatever the program makes of it: `check` raises it again.
    """

    _paid_tag = "live"

    def __init__(
        self,
        journal: Journal,
        playbook: Digest,
        inputs: Json,
        *,
        cassette: Cassette,
        mode: ReplayMode,
        above: ReplayRecord | None = None,
        **about: Any,
    ) -> None:
        super().__init__(journal, playbook, inputs, **about)
        self.cassette = cassette
        self.mode = mode
        self.labels: dict[str, Counter[Label]] = {}
        self.misses: list[str] = above.misses if above else []
        self.inner: dict[str, Inner] = {}
        """What answers each run that this one opens, by its id."""
        self._steps = count(1)
        self._clock_ran = 0.0
        self._label_of: dict[str, Label] = {}
        self._about["replay"] = {"of": cassette.run, "mode": str(mode)}

    async def once(
        self,
        kind: str,
        name: str,
        request: object,
        work: Callable[[], Awaitable[Json]],
        *,
        risky: bool = False,
        person: bool = False,
        how: How | None = None,
    ) -> Json:
        """As a recorder does it, with what the cassette knows in the place of the work. Raises Missed."""
        if kind == "remark" or (kind == "decision" and not person):
            return await super().once(kind, name, request, work)
        key, words, time = self._next(kind, name, request)
        doing = work
        if kind == "reading":
            answer = self._reading(name, words, time)
        elif kind == "routing":  # it is asked for by a turn that is live
            answer = _ReplayAnswer("live")
        else:
            asked = {**self._told(kind, name, request, how, words, time), "time": time}
            closed = risky or person or (kind == "call" and name in self.cassette.changing)
            answer = self._answer(kind, name, words, asked, closed=closed)
        self._count(kind, answer.label, key)
        if answer.body is not None:
            body = answer.body

            async def doing() -> Json:
                return body

        return await super().once(kind, name, request, doing)

    async def child(self, step: str, request: object, work: Callable[[str], Awaitable[Run]]) -> Child:
        """A run opened by this one is a replay too: of the run that was opened then, if there is one."""
        key, words, time = self._next("child", step, request)
        playbook, inputs = kept(request)
        asked = {"playbook": playbook or self.playbook, "inputs": inputs, "time": time}
        answer = self._answer("child", step, words, asked, closed=False)
        self._count("child", answer.label, key)
        mode = ReplayMode("fork", 1) if answer.label == "live" and self.mode.name == "fork" else self.mode
        if mode is self.mode and mode.name == "fork":  # its steps are all before the one from which on this one is live
            mode = ReplayMode("strict")
        recording = answer.entry.body["run"] if answer.entry else None
        self.inner[uuid.uuid5(uuid.UUID(self.id), key).hex] = Inner(recording, mode)
        return await super().child(step, request, work)

    async def end(self, status: Status, output: Any = None, error: str = "") -> Run:
        labels = {kind: dict(sorted(labels.items())) for kind, labels in sorted(self.labels.items())}
        self._about["replay"] = {**self._about["replay"], "labels": labels}
        return await super().end(status, output, error)

    def check(self) -> None:
        if self.misses:
            raise Missed(self.misses[0])

    def _seconds(self) -> float:
        """How long the recorded run took, if this one is the same; else what its turns and calls took one by one."""
        then = self.cassette.latency_seconds
        if then is not None and all(set(labels) <= {"exact"} for labels in self.labels.values()):
            return then
        return sum(turn.latency_seconds for turn in self.turns) + sum(call.latency_seconds for call in self.calls)

    def _next(self, kind: str, name: str, request: object) -> tuple[str, str, int]:
        """The key of what is asked next, the digest of its words, and the how manieth time they are asked."""
        words = digest("request", request)[3:19]
        place = f"{self.id}/{kind}/{name}/{words}"
        time = self._asked[place] + 1
        return f"{place}/{time}", words, time

    def _told(self, kind: str, name: str, request: object, how: How | None, words: str, time: int) -> Json:
        """What is asked, so that it can be laid beside what was recorded."""
        if kind == "call":
            return {"arguments": kept(request)}
        if kind == "decision":
            return {"because": kept(request)[1]}
        assert how is not None
        asked: Json = kept(how())
        model = asked.pop("model")
        asked = {
            "role": asked.pop("role"),
            "messages": asked.pop("messages"),
            "model": None,
            **asked,
            "seed": self.seed,
        }
        if asked["wish"] is not None:  # the same wish, then, leads to the model that it led to
            then = self.cassette.find(kind, name, words, time)
            model = self.cassette.chosen(then) if then else None
        asked["model"] = self._about["models"].get(model)
        return asked

    def _answer(self, kind: str, name: str, words: str, asked: Json, *, closed: bool) -> _ReplayAnswer:
        """What answers a step: `closed` is what may not be done anew. Raises Missed."""
        live = self.mode.is_live(next(self._steps)) and not closed
        if live:
            return _ReplayAnswer("live")
        cassette = self.cassette
        entry = cassette.find(kind, name, words, asked["time"])
        if entry and (kind != "turn" or cassette.differs(entry, asked) is None):
            return _ReplayAnswer("exact", entry, entry.body)
        nearest = cassette.nearest(kind, name, asked)
        differs = cassette.differs(nearest, asked) if nearest else None
        if self.mode.name == "lenient":
            if nearest:
                return _ReplayAnswer("substituted", nearest, _instead(nearest, asked, differs, cassette))
            if not closed:
                return _ReplayAnswer("live")
        self._count(kind, "missed")
        self.misses.append(_why(cassette, kind, name, nearest, differs, closed=closed))
        raise Missed(self.misses[-1])

    def _reading(self, name: str, words: str, time: int) -> _ReplayAnswer:
        """The clock and chance: as they were, and from there on by the seed."""
        if entry := self.cassette.find("reading", name, words, time):
            return _ReplayAnswer("exact", entry, entry.body)
        if name != "now":
            return _ReplayAnswer("substituted")
        self._clock_ran += random.Random(f"{self.seed} now {time}").random()
        read = self.cassette.latest + timedelta(seconds=self._clock_ran)
        return _ReplayAnswer("substituted", body={"name": name, "value": read.isoformat()})

    def _count(self, kind: str, label: Label, key: str = "") -> None:
        self.labels.setdefault(kind, Counter())[label] += 1
        if key:
            self._label_of[key] = label

    async def _add(self, kind: str, key: str, subject: str, body: Json, value: float | None = None) -> bool:
        at = self._started if kind in ("start", "run") else self._clock()
        if kind in ("start", "run"):
            tags: tuple[str, ...] = (replays(self.cassette.run),)
        elif kind == "failure":
            tags = ("live",)
        else:
            label = self._label_of.get(key) or self._label_of.get(key.rpartition("@")[0])
            tags = (label,) if label else ()
        return await self._journal.add(
            Fact(kind=kind, key=key, subject=subject, at=at, by=self._by, body=body, value=value, tags=tags)
        )


def replays(run: str) -> str:
    """The tag of the facts that replays of a run begin and end with."""
    return f"replays {run}"


def replay_of(store: Store, run: str) -> Json | None:
    """Of which run in which mode a run is a replay; None if it is none, or not recorded."""
    for fact in store.facts(Query(kind="start", key=run)):
        told: Json | None = fact.body.get("replay")
        return told
    return None


def _instead(entry: CassetteEntry, asked: Json, differs: Difference | None, cassette: Cassette) -> Json:
    """The recorded answer to another request, as the answer to this one; it says so."""
    body = dict(entry.body)
    if entry.kind == "call":
        body["arguments"] = asked["arguments"]
    elif entry.kind == "decision":
        body["because"] = asked["because"]
    elif entry.kind == "turn":
        where = f": {differs.path} differs" if differs else ""
        notice = f"answered by turn {entry.place} of {entry.name} of run {cassette.run[:10]}{where}"
        body |= {
            "messages": [[each["speaker"], each["text"]] for each in asked["messages"]],
            "seed": asked["seed"],
            "notices": [*body["notices"], notice],
        }
    return body


def _why(
    cassette: Cassette, kind: str, name: str, nearest: CassetteEntry | None, differs: Difference | None, *, closed: bool
) -> str:
    """Why a step is missed: the nearest recording, and where it differs first."""
    what = f"{MISSED}{f'run {cassette.run[:10]}' if cassette.run else 'a run that was not recorded'}, {kind} {name}"
    remedy = "Replay it leniently, or live from this step on"
    if closed:
        remedy = "What changes the world or asks a person is never done in a replay"
    if nearest is None:
        return f"{what}: found nothing recorded; expected one of: {cassette.summary()}. {remedy}"
    at = differs or Difference("it", "something else", "the same")
    return f"{what}: {at.path}: found {at.found}; expected {at.recorded}, as in number {nearest.place}. {remedy}"
