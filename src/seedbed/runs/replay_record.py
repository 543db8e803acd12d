"""ReplayRecord: the record of a run whose requests a recording answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple, Self

from seedbed.runs.cassette import MISSED, Cassette, CassetteEntry, Difference, Missed, ReplayLabel, ReplayMode
from seedbed.runs.drift import COMPARED, AnswerDrift, add_up, compare_answers
from seedbed.runs.history import start_of
from seedbed.runs.journal import Journal
from seedbed.runs.messages import from_compared
from seedbed.runs.recorder import Details, Recorder
from seedbed.runs.run import TIMES, Child, Run, RunStatus
from seedbed.runs.run_start import RunStart, conditions, json_copy
from seedbed.storage.store import Json, Query, Store, child_id, short


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The recording that answers a replay, and how closely; `above` is the replay that opened it, if any."""

    cassette: Cassette
    mode: ReplayMode
    above: ReplayRecord | None = None


class ChildSource(NamedTuple):
    """What answers a run that a replay opens: the recording of that id, if there is one, in that mode."""

    recording: str | None
    mode: ReplayMode


class _ReplayAnswer(NamedTuple):
    label: ReplayLabel
    entry: CassetteEntry | None = None
    body: Json | None = None


class ReplayRecord(Recorder):
    """A recorder that answers from a cassette, and labels each step: exact, substituted, live or missed.

    The replay is recorded as a run of its own, which names the run it replays. A turn is exact only if its messages,
    its model, its parameters and the seed are those of the recording. Clock and chance come from the recording and
    continue from it by the seed. A program's own decisions and remarks need no answer.

    A missed step makes the whole run invalid, even if the program catches the error: `check` raises it again.
    """

    _paid_tag = "live"

    def __init__(self, journal: Journal, start: RunStart, source: ReplaySource, *, by: str, run: str = "") -> None:
        super().__init__(journal, start, by=by, run=run)
        self.real_tools = False
        self.cassette = source.cassette
        self.mode = source.mode
        self.unasked = self.cassette.unasked
        self.labels: dict[str, Counter[ReplayLabel]] = {}
        self.drift: list[AnswerDrift] = []
        """How live answers differ from those recorded for the same request."""
        self.misses: list[str] = source.above.misses if source.above else []
        self.child_sources: dict[str, ChildSource] = {}
        """What answers each run that this one opens, by its id."""
        self._steps = count(1)
        self._clock_ran = 0.0
        self._label_of: dict[str, ReplayLabel] = {}
        self._start["replay"] = {"of": self.cassette.run, "mode": str(self.mode)}

    @classmethod
    def resume_replay(cls, journal: Journal, run: str, source: ReplaySource, *, by: str) -> Self:
        """The record of a replay that was interrupted or failed. Raises NotFound or RunError."""
        start = start_of(journal.store, run)
        recorder = cls(journal, conditions(start), source, by=by, run=run)
        recorder._restore(start)
        return recorder

    async def record(
        self,
        kind: str,
        name: str,
        request: object,
        work: Callable[[], Awaitable[Json]],
        *,
        risky: bool = False,
        person: bool = False,
        details: Details | None = None,
    ) -> Json:
        """As in Recorder, but the cassette answers instead of the work. Raises Missed."""
        key, words, time = self._next(kind, name, request)
        if kind == "remark" or (kind == "decision" and not person):
            then = self.cassette.find(kind, name, words, time) if self.mode.name == "strict" else None

            async def decide() -> Json:
                return {**await work(), **(_times(then.body) if then else {})}

            return await super().record(kind, name, request, decide)
        if kind == "reading":
            answer = self._reading(name, words, time)
        elif kind == "routing":  # a live turn chooses its model
            answer = _ReplayAnswer("live")
        else:
            document = {**self._describe(kind, name, request, details, words, time), "time": time}
            closed = risky or person or (kind == "call" and name in self.cassette.changing)
            answer = self._answer(kind, name, words, document, closed=closed)
        self._count(kind, answer.label, key)
        body = answer.body
        if body is None:
            now = await super().record(kind, name, request, work)
            if answer.entry and kind in COMPARED:
                self.drift = add_up([*self.drift, compare_answers(kind, name, now, answer.entry.body)])
            return now

        async def replay() -> Json:
            return {**body, **_times(body)}

        return await super().record(kind, name, request, replay)

    async def record_child(self, step: str, request: object, work: Callable[[str], Awaitable[Run]]) -> Child:
        """A run opened by this one is a replay too: of the run that was opened then, if there is one."""
        key, words, time = self._next("child", step, request)
        playbook, inputs = json_copy(request)
        document = {"playbook": playbook or self.playbook, "inputs": inputs, "time": time}
        answer = self._answer("child", step, words, document, closed=False)
        self._count("child", answer.label, key)
        mode = ReplayMode("fork", 1) if answer.label == "live" and self.mode.name == "fork" else self.mode
        if mode is self.mode and mode.name == "fork":  # all its steps come before the one from which this run is live
            mode = ReplayMode("strict")
        recording = answer.entry.body["run"] if answer.entry else None
        self.child_sources[child_id(self.id, key)] = ChildSource(recording, mode)
        return await super().record_child(step, request, work)

    async def end(self, status: RunStatus, output: Any = None, error: str = "") -> Run:
        labels = {kind: dict(sorted(labels.items())) for kind, labels in sorted(self.labels.items())}
        self._start["replay"] = {**self._start["replay"], "labels": labels}
        if self.drift:
            self._start["replay"]["drift"] = [asdict(each) for each in self.drift]
        return await super().end(status, output, error)

    def check(self) -> None:
        super().check()
        if self.misses:
            raise Missed(self.misses[0])

    def _seconds(self) -> float:
        """The seconds of the recorded run, if this one is the same; else the sum over its turns and calls."""
        recorded = self.cassette.latency_seconds
        if recorded is not None and all(set(labels) <= {"exact"} for labels in self.labels.values()):
            return recorded
        return sum(turn.latency_seconds for turn in self.turns) + sum(call.latency_seconds for call in self.calls)

    def _next(self, kind: str, name: str, request: object) -> tuple[str, str, int]:
        """The key of the next request, the digest of its content, and how often that was requested, with this time."""
        key = self.keys.next(kind, name, request)
        _, words, time = key.rsplit("/", 2)
        return key, words, int(time)

    def _describe(self, kind: str, name: str, request: object, details: Details | None, words: str, time: int) -> Json:
        """A request as a document that can be compared with a recorded one."""
        if kind == "call":
            return {"arguments": json_copy(request)}
        if kind == "decision":
            return {"because": json_copy(request)[1]}
        assert details is not None
        document: Json = json_copy(details())
        model = document.pop("model")
        first = {"role": document.pop("role"), "messages": document.pop("messages"), "model": None}
        document = {**first, **document, "seed": self.seed}
        if document["wish"] is not None:  # the same requirements lead to the model that they led to then
            entry = self.cassette.find(kind, name, words, time)
            model = self.cassette.routed_model(entry) if entry else None
        document["model"] = self._start["models"].get(model)
        return document

    def _answer(self, kind: str, name: str, words: str, request: Json, *, closed: bool) -> _ReplayAnswer:
        """The answer to a step; a `closed` one may not be done again. Raises Missed."""
        cassette = self.cassette
        entry = cassette.find(kind, name, words, request["time"])
        if self.mode.is_live(next(self._steps)) and not closed:
            return _ReplayAnswer("live", entry if kind in COMPARED else None)
        if entry and (kind != "turn" or cassette.difference(entry, request) is None):
            return _ReplayAnswer("exact", entry, entry.body)
        nearest = cassette.nearest(kind, name, request)
        difference = cassette.difference(nearest, request) if nearest else None
        if self.mode.name == "lenient":
            if nearest:
                return _ReplayAnswer("substituted", nearest, _substitute(nearest, request, difference, cassette))
            if not closed:
                return _ReplayAnswer("live")
        self._count(kind, "missed")
        self.misses.append(_explain_miss(cassette, f"{kind} {name}", nearest, difference, closed=closed))
        raise Missed(self.misses[-1])

    def _reading(self, name: str, words: str, time: int) -> _ReplayAnswer:
        """The clock and chance: as recorded, and from there on by the seed."""
        if entry := self.cassette.find("reading", name, words, time):
            return _ReplayAnswer("exact", entry, entry.body)
        if name != "now":
            return _ReplayAnswer("substituted")
        self._clock_ran += random.Random(f"{self.seed} now {time}").random()
        read = self.cassette.latest + timedelta(seconds=self._clock_ran)
        return _ReplayAnswer("substituted", body={"name": name, "value": read.isoformat()})

    def _count(self, kind: str, label: ReplayLabel, key: str = "") -> None:
        self.labels.setdefault(kind, Counter())[label] += 1
        if key:
            self._label_of[key] = label

    def _tags(self, kind: str, key: str) -> tuple[str, ...]:
        if kind in ("start", "run"):
            return (replays(self.cassette.run),)
        if kind == "failure":
            return ("live",)
        label = self._label_of.get(key) or self._label_of.get(key.rpartition("@")[0])
        return (label,) if label else ()


def replays(run: str) -> str:
    """The tag of the first and last facts of the replays of a run."""
    return f"replays {run}"


def replay_of(store: Store, run: str) -> Json | None:
    """The `of` (run) and `mode` of a replay; None if the run is not a replay, or not recorded."""
    for fact in store.facts(Query(kind="start", key=run)):
        replay: Json | None = fact.body.get("replay")
        return replay
    return None


def _times(recorded: Json) -> Json:
    """When a step happened that a recording answers; none where that is not known."""
    return {name: recorded.get(name) for name in TIMES}


def _substitute(entry: CassetteEntry, request: Json, difference: Difference | None, cassette: Cassette) -> Json:
    """The recorded answer to another request, as the answer to this one; a turn gets a notice that says so."""
    body = dict(entry.body)
    if entry.kind == "call":
        body["arguments"] = request["arguments"]
    elif entry.kind == "decision":
        body["because"] = request["because"]
    elif entry.kind == "turn":
        where = f": {difference.path} differs" if difference else ""
        notice = f"answered by turn {entry.place} of {entry.name} of run {short(cassette.run)}{where}"
        body |= {
            "messages": [from_compared(each) for each in request["messages"]],
            "seed": request["seed"],
            "notices": [*body["notices"], notice],
        }
    return body


def _explain_miss(
    cassette: Cassette, step: str, nearest: CassetteEntry | None, difference: Difference | None, *, closed: bool
) -> str:
    """Why a step is missed: the nearest recording, and where it differs first."""
    what = f"{MISSED}{f'run {short(cassette.run)}' if cassette.run else 'a run that was not recorded'}, {step}"
    remedy = "Replay it leniently, or live from this step on"
    if closed:
        remedy = "What changes the world or asks a person is never done in a replay"
    if nearest is None:
        return f"{what}: found nothing recorded; expected one of: {cassette.summary()}. {remedy}"
    at = difference or Difference("it", "something else", "the same")
    return f"{what}: {at.path}: found {at.now}; expected {at.recorded}, as in number {nearest.place}. {remedy}"
