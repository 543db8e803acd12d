"""Cassette: the answers of a recorded run, for replays: exact, substituted, live or missed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, Literal, get_args

from seedbed.errors import NotFound, Problem, RunError, SettingsError, shown
from seedbed.runs.history import ends_of, entries_of, start_of
from seedbed.runs.messages import to_compare
from seedbed.storage.store import Fact, Json, Store

ReplayLabel = Literal["exact", "substituted", "live", "missed"]
"""How a step of a replay was answered: as recorded for the same request; by the nearest recording of its kind and name;
live, by today's models and tools; or not at all."""

LABELS: tuple[ReplayLabel, ...] = get_args(ReplayLabel)

StepParameters = Callable[[str, str], Json]
"""The parameters with which a step of the recorded playbook asks a role; empty if the playbook is gone."""

ANSWERS = ("turn", "routing", "call", "decision", "child", "reading")
"""The kinds of entries with an answer from outside of the program."""

MISSED = "not replayable: "
"""The beginning of the reason why an item of a replay is invalid."""

CONFIRM = "confirm "
"""The beginning of the points at which a person is asked, before the name of the action."""

_PLACE = re.compile(r"(?P<kind>[a-z]+)/(?P<name>.*)/(?P<request>[0-9a-f]{16})/(?P<time>\d+)(?:@\d+)?", re.DOTALL)
_NEAR = 30


class Missed(RunError):
    """A replay needs an answer that its recording does not have, and must not ask for it live."""


@dataclass(frozen=True, slots=True)
class ReplayMode:
    """How closely a replay follows its recording.

    `strict`: a request that was not recorded is missed. `lenient`: the nearest recording of the same kind and name
    answers it or, if it only reads, it is done live. `fork:K`: strict up to step K; from there on everything that only
    reads is live. No mode changes the world.
    """

    name: Literal["strict", "lenient", "fork"] = "strict"
    live_from: int | None = None

    @classmethod
    def parse(cls, text: str) -> ReplayMode:
        """A mode from its text. Raises SettingsError."""
        if text in ("strict", "lenient"):
            return cls("strict" if text == "strict" else "lenient")
        if fork := re.fullmatch(r"fork:([1-9]\d{0,8})", text):
            return cls("fork", int(fork[1]))
        raise SettingsError(
            [Problem("mode", shown(text), "strict, lenient, or fork:K, live from step K on, as fork:3")]
        )

    def __str__(self) -> str:
        return f"fork:{self.live_from}" if self.name == "fork" else self.name

    def is_live(self, step: int) -> bool:
        """Whether the step of that number, counted from 1, is done live."""
        return self.live_from is not None and step >= self.live_from


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteEntry:
    """One recorded answer, and the request it answers."""

    kind: str
    name: str
    request: str
    """The first characters of the digest of the request."""
    time: int
    """The n-th request with this content, counted from 1."""
    body: Json
    place: int
    """Its number among all entries of its kind and name, counted from 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two requests differ first, with the value now and the recorded one."""

    path: str
    now: str
    recorded: str


class Cassette:
    """The answers of a recorded run, by request. It never changes."""

    latency_seconds: float | None = None
    """How long the run took, if it has ended."""

    def __init__(
        self, start: Fact, entries: Iterable[Fact], parameters: StepParameters, child_start: Callable[[str], Fact]
    ) -> None:
        """`start` and `entries` are facts of the run; `child_start` returns the start of a run that it opened."""
        self.run = start.key
        self.playbook = start.subject
        self.started: datetime = start.at
        self.inputs: Json = start.body["inputs"]
        self.seed: int = start.body["seed"]
        self.models: Json = start.body["models"]
        self.toolset: Json = {}
        """The tools that the run was offered, as content."""
        self._parameters = parameters
        self._child_start = child_start
        self._entries: dict[tuple[str, str, str, int], CassetteEntry] = {}
        self._of: dict[tuple[str, str], list[CassetteEntry]] = {}
        for fact in entries:
            self._add(fact)

    @classmethod
    def load(cls, store: Store, run: str, parameters: StepParameters) -> Cassette:
        """The recording of a run. Raises NotFound."""
        facts = (fact for kind in ANSWERS for fact in entries_of(store, run, kind))
        start = start_of(store, run)
        cassette = cls(start, facts, parameters, partial(start_of, store))
        with suppress(NotFound):
            cassette.toolset = store.get(start.body["toolset"]) if "toolset" in start.body else {}
        for end in ends_of(store, run):
            cassette.latency_seconds = end.body["latency_seconds"]
        return cassette

    def without_answers(self) -> Cassette:
        """A cassette of the same time and seed that has no answers and belongs to no run."""
        start = Fact(
            kind="start",
            key=self.run,
            subject=self.playbook,
            at=self.started,
            by="",
            body={"inputs": {}, "seed": self.seed, "models": self.models},
        )
        empty = Cassette(start, (), self._parameters, self._child_start)
        empty.run = ""
        return empty

    def _add(self, fact: Fact) -> None:
        match = _PLACE.fullmatch(fact.key.removeprefix(f"{self.run}/"))
        if match is None:
            return
        kind, name, request, time = match["kind"], match["name"], match["request"], int(match["time"])
        others = self._of.setdefault((kind, name), [])
        known = self._entries.get((kind, name, request, time))
        if known is not None:  # it was repeated, and the run went on with the last answer
            entry = replace(known, body=fact.body)
            others[known.place - 1] = entry
        else:
            place = len(others) + 1
            entry = CassetteEntry(kind=kind, name=name, request=request, time=time, body=fact.body, place=place)
            others.append(entry)
        self._entries[kind, name, request, time] = entry

    @property
    def tools(self) -> frozenset[str]:
        """The tools that were used."""
        return frozenset(name for kind, name in self._of if kind == "call")

    @cached_property
    def changing(self) -> frozenset[str]:
        """The tools that are known to have changed the world, or that a person allowed: they are not used again."""
        calls = {name for (kind, name), entries in self._of.items() if kind == "call" and _change(entries)}
        points = (name for (kind, name), entries in self._of.items() if kind == "decision" and _allow(entries))
        return frozenset(calls | {point.removeprefix(CONFIRM) for point in points if point.startswith(CONFIRM)})

    @property
    def unasked(self) -> frozenset[str]:
        """Tools that changed the world without anybody being asked."""
        return frozenset(name for name in self.changing if ("decision", f"confirm {name}") not in self._of)

    @property
    def latest(self) -> datetime:
        """The last time that the run read from the clock, or when it began."""
        read = [entry.body["value"] for entry in self._of.get(("reading", "now"), ())]
        return datetime.fromisoformat(read[-1]) if read else self.started

    def find(self, kind: str, name: str, request: str, time: int) -> CassetteEntry | None:
        """The answer to the same request."""
        return self._entries.get((kind, name, request, time))

    def difference(self, entry: CassetteEntry, request: Json) -> Difference | None:
        """Where the request that an entry answers differs first from this one; None if they are equal."""
        return first_difference(request, self._request(entry, request))

    def nearest(self, kind: str, name: str, request: Json) -> CassetteEntry | None:
        """The entry of the same kind and name whose request is most like this one; of equals the earlier one."""
        entries = self._of.get((kind, name), ())
        return min(entries, key=lambda entry: _distance(request, self._request(entry, request)), default=None)

    def routed_model(self, entry: CassetteEntry) -> str | None:
        """The model that a router chose for a turn."""
        name = entry.body["step"] or entry.body["role"]
        choices = (self.find("routing", name, entry.request, time) for time in (entry.time, 1))
        return next((choice.body["model"] for choice in choices if choice), None)

    def summary(self) -> str:
        """Its entries in a few words."""
        kinds = [f"{kind} {name}" for kind, name in self._of if kind not in ("routing", "reading")]
        return ", ".join(kinds[:6]) + (", …" if len(kinds) > 6 else "") or "nothing"

    def _request(self, entry: CassetteEntry, now: Json) -> Json:
        """The request that an entry answers, in the form of the request `now`."""
        body, request = entry.body, Json()
        if entry.kind == "turn":
            parameters = dict(self._parameters(body["step"], body["role"]))
            name = parameters.pop("model", None) or self.routed_model(entry)
            if now.get("wish") is None:  # a model is named now, so it does not matter how the other one was chosen
                parameters["wish"] = None
            messages = to_compare(body["messages"])
            model = self.models.get(name or "") or {"unknown": name}
            request = {"role": body["role"], "messages": messages, "model": model, **parameters}
            request |= {"seed": body["seed"], **{name: body[name] for name in ("toolset", "options") if body.get(name)}}
        elif entry.kind == "call":
            request = {"arguments": body["arguments"]}
        elif entry.kind == "decision":
            request = {"because": body["because"]}
        elif entry.kind == "child":
            start = self._child_start(body["run"])
            request = {"playbook": start.subject, "inputs": start.body["inputs"]}
        return {**request, "time": entry.time}


def _change(calls: Iterable[CassetteEntry]) -> bool:
    return any(call.body["changes"] for call in calls)


def _allow(decisions: Iterable[CassetteEntry]) -> bool:
    return any(decision.body["action"] == "yes" for decision in decisions)


def first_difference(now: Any, recorded: Any, path: str = "") -> Difference | None:
    """The first place at which two JSON values differ, in the order of the first one's keys."""
    if type(now) is type(recorded) and isinstance(now, dict):
        for key in dict.fromkeys([*now, *recorded]):
            inner = f"{path}.{key}" if path else str(key)
            if key not in now or key not in recorded:
                return Difference(inner, _quote(now.get(key, _Nothing)), _quote(recorded.get(key, _Nothing)))
            if difference := first_difference(now[key], recorded[key], inner):
                return difference
        return None
    if isinstance(now, list) and isinstance(recorded, list):
        for place, (one, other) in enumerate(zip_longest(now, recorded, fillvalue=_Nothing)):
            if one is _Nothing or other is _Nothing:
                return Difference(f"{path}.{place}", _quote(one), _quote(other))
            if difference := first_difference(one, other, f"{path}.{place}"):
                return difference
        return None
    if now == recorded and isinstance(now, bool) == isinstance(recorded, bool):
        return None
    if isinstance(now, str) and isinstance(recorded, str):
        at = next((i for i, (a, b) in enumerate(zip(now, recorded, strict=False)) if a != b), None)
        at = min(len(now), len(recorded)) if at is None else at
        return Difference(path, _around(now, at), _around(recorded, at))
    return Difference(path, _quote(now), _quote(recorded))


class _Nothing: ...


def _quote(value: Any) -> str:
    return "nothing" if value is _Nothing or value is None else shown(value)


def _around(text: str, at: int) -> str:
    """The part of a text around a place."""
    start = max(0, at - _NEAR)
    return shown(f"{'…' if start else ''}{text[start : at + _NEAR]}", 2 * _NEAR + 10)


def _distance(now: Any, recorded: Any) -> float:
    """How different two JSON values are: 0 to 1 for each leaf, for texts the share of words not in common."""
    ours, theirs = dict(_leaves(now)), dict(_leaves(recorded))
    return sum(_leaf_distance(ours.get(path), theirs.get(path)) for path in {**ours, **theirs})


def _leaf_distance(one: Any, other: Any) -> float:
    if one == other:
        return 0.0
    if not (isinstance(one, str) and isinstance(other, str)):
        return 1.0
    words, others = Counter(one.split()), Counter(other.split())
    return 1 - 2 * (words & others).total() / (words.total() + others.total() or 1)


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, item in enumerate(value):
            yield from _leaves(item, (*path, place))
    else:
        yield path, value
