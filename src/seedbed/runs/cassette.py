"""Cassette: what a recording can answer, and what it cannot: exact, substituted, live, missed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

from seedbed.errors import NotFound, Problem, RunError, SettingsError, shown
from seedbed.storage.store import Fact, Json, Query, Store

Label = Literal["exact", "substituted", "live", "missed"]
"""How a step of a replay was answered: as recorded for the same request; by the nearest recording of its kind and name;
by the world of today; or not at all."""

LABELS: tuple[Label, ...] = ("exact", "substituted", "live", "missed")

How = Callable[[str, str], Json]
"""How a step of the recorded playbook asks a role, beyond the words; empty if that is not known any more."""

ANSWERS = ("turn", "routing", "call", "decision", "child", "reading")
"""The kinds of entries that something outside of the program answered."""

MISSED = "not replayable: "
"""How the reason begins why an item of a replay is invalid."""

_PLACE = re.compile(r"(?P<kind>[a-z]+)/(?P<name>.*)/(?P<request>[0-9a-f]{16})/(?P<time>\d+)(?:@\d+)?", re.DOTALL)
_NEAR = 30


class Missed(RunError):
    """A replay asked for something that its recording cannot answer, and that may not be done anew."""


@dataclass(frozen=True, slots=True)
class ReplayMode:
    """How close a replay keeps to its recording.

    `strict`: what was not recorded is missed. `lenient`: the nearest recording of the same kind and name answers, or
    the world of today where it is only asked or read. `fork:K`: strict up to step K; from there on all that only asks
    or reads is live. What changes the world is not done in any of them.
    """

    name: Literal["strict", "lenient", "fork"] = "strict"
    live_from: int | None = None

    @classmethod
    def parse(cls, text: str) -> ReplayMode:
        """A mode as it is written. Raises SettingsError."""
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
        """Whether the step of that number, counted from 1, is one that is asked anew."""
        return self.live_from is not None and step >= self.live_from


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteEntry:
    """Something that a run was told: for which request, the how manieth time of the same words."""

    kind: str
    name: str
    request: str
    """The first characters of the digest of what was asked."""
    time: int
    body: Json
    place: int
    """Which one it is of all of its kind and name, counted from 1."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two requests differ first, and what is there now and in the recording."""

    path: str
    found: str
    recorded: str


class Cassette:
    """The answers that a recorded run was given, by what was asked for. It never changes, and asks nobody."""

    latency_seconds: float | None = None
    """How long the run took, if it has ended."""

    def __init__(self, start: Fact, entries: Iterable[Fact], how: How, opened: Callable[[str], Fact]) -> None:
        """`start` and `entries` are facts of the run; `opened` gives the start of a run that it opened."""
        self.run = start.key
        self.playbook = start.subject
        self.started: datetime = start.at
        self.inputs: Json = start.body["inputs"]
        self.seed: int = start.body["seed"]
        self.models: Json = start.body["models"]
        self._how = how
        self._opened = opened
        self._entries: dict[tuple[str, str, str, int], CassetteEntry] = {}
        self._of: dict[tuple[str, str], list[CassetteEntry]] = {}
        for fact in entries:
            self._add(fact)

    @classmethod
    def load(cls, store: Store, run: str, how: How) -> Cassette:
        """The recording of a run. Raises NotFound."""

        def start(run: str) -> Fact:
            for fact in store.facts(Query(kind="start", key=run)):
                return fact
            raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")

        facts = (fact for kind in ANSWERS for fact in store.facts(Query(kind=kind, subject=run)))
        made = cls(start(run), facts, how, start)
        for end in store.facts(Query(kind="run", key_from=run)):
            made.latency_seconds = end.body["latency_seconds"]
        return made

    def without_answers(self) -> Cassette:
        """One of the same time and seed that was told nothing, and is no run's."""
        start = Fact(
            kind="start",
            key=self.run,
            subject=self.playbook,
            at=self.started,
            by="",
            body={"inputs": {}, "seed": self.seed, "models": self.models},
        )
        made = Cassette(start, (), self._how, self._opened)
        made.run = ""
        return made

    def _add(self, fact: Fact) -> None:
        found = _PLACE.fullmatch(fact.key.removeprefix(f"{self.run}/"))
        if found is None:
            return
        kind, name, request, time = found["kind"], found["name"], found["request"], int(found["time"])
        others = self._of.setdefault((kind, name), [])
        known = self._entries.get((kind, name, request, time))
        if known is not None:  # it was tried again, and what came last is what the run went on with
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
        """The tools that are known to have changed the world."""
        calls = (entry for entry in self._entries.values() if entry.kind == "call")
        return frozenset(entry.name for entry in calls if entry.body["changes"])

    @property
    def latest(self) -> datetime:
        """The last time that the run was told, or when it began."""
        read = [entry.body["value"] for entry in self._of.get(("reading", "now"), ())]
        return datetime.fromisoformat(read[-1]) if read else self.started

    def find(self, kind: str, name: str, request: str, time: int) -> CassetteEntry | None:
        """What was told for the same words."""
        return self._entries.get((kind, name, request, time))

    def differs(self, entry: CassetteEntry, asked: Json) -> Difference | None:
        """Where what was asked for an entry differs first from what is asked now; None if nowhere."""
        return first_difference(asked, self._asked(entry, asked))

    def nearest(self, kind: str, name: str, asked: Json) -> CassetteEntry | None:
        """The recording of the same kind and name that is most like what is asked now; of equals the earlier one."""
        found = self._of.get((kind, name), ())
        return min(found, key=lambda entry: _distance(asked, self._asked(entry, asked)), default=None)

    def chosen(self, entry: CassetteEntry) -> str | None:
        """The model that a router chose for a turn."""
        name = entry.body["step"] or entry.body["role"]
        tries = (self.find("routing", name, entry.request, time) for time in (entry.time, 1))
        return next((found.body["model"] for found in tries if found), None)

    def summary(self) -> str:
        """What there is in it, in a few words."""
        kinds = [f"{kind} {name}" for kind, name in self._of if kind not in ("routing", "reading")]
        told = ", ".join(kinds[:6]) + (", …" if len(kinds) > 6 else "")
        return told or "nothing"

    def _asked(self, entry: CassetteEntry, now: Json) -> Json:
        """What was asked for an entry, in the form of what is asked `now`."""
        body, asked = entry.body, Json()
        if entry.kind == "turn":
            how = dict(self._how(body["step"], body["role"]))
            name = how.pop("model", None) or self.chosen(entry)
            if now.get("wish") is None:  # a model is named now, so it does not matter how it came to the one then
                how["wish"] = None
            spoken = [{"speaker": speaker, "text": text} for speaker, text in body["messages"]]
            model = self.models.get(name or "") or {"unknown": name}
            asked = {"role": body["role"], "messages": spoken, "model": model, **how}
            asked["seed"] = body["seed"]
        elif entry.kind == "call":
            asked = {"arguments": body["arguments"]}
        elif entry.kind == "decision":
            asked = {"because": body["because"]}
        elif entry.kind == "child":
            start = self._opened(body["run"])
            asked = {"playbook": start.subject, "inputs": start.body["inputs"]}
        return {**asked, "time": entry.time}


def first_difference(now: Any, recorded: Any, path: str = "") -> Difference | None:
    """The first place at which two JSON values differ, in the order of the first one's keys."""
    if type(now) is type(recorded) and isinstance(now, dict):
        for key in dict.fromkeys([*now, *recorded]):
            inner = f"{path}.{key}" if path else str(key)
            if key not in now or key not in recorded:
                return Difference(inner, _told(now, key), _told(recorded, key))
            if found := first_difference(now[key], recorded[key], inner):
                return found
        return None
    if isinstance(now, list) and isinstance(recorded, list):
        for place, (one, other) in enumerate(zip_longest(now, recorded, fillvalue=_Nothing)):
            if one is _Nothing or other is _Nothing:
                return Difference(f"{path}.{place}", _quoted(one), _quoted(other))
            if found := first_difference(one, other, f"{path}.{place}"):
                return found
        return None
    if now == recorded and isinstance(now, bool) == isinstance(recorded, bool):
        return None
    if isinstance(now, str) and isinstance(recorded, str):
        at = next((i for i, (a, b) in enumerate(zip(now, recorded, strict=False)) if a != b), None)
        at = min(len(now), len(recorded)) if at is None else at
        return Difference(path, _around(now, at), _around(recorded, at))
    return Difference(path, _quoted(now), _quoted(recorded))


class _Nothing: ...


def _told(value: Json, key: str) -> str:
    return _quoted(value[key]) if key in value else "nothing"


def _quoted(value: Any) -> str:
    return "nothing" if value is _Nothing or value is None else shown(value)


def _around(text: str, at: int) -> str:
    """A text as it is where it differs."""
    start = max(0, at - _NEAR)
    return shown(f"{'…' if start else ''}{text[start : at + _NEAR]}", 2 * _NEAR + 10)


def _distance(now: Any, recorded: Any) -> float:
    """How unlike two JSON values are: of each leaf from 0 to 1, of texts by the words that they do not share."""
    ours, theirs = dict(_leaves(now)), dict(_leaves(recorded))
    return sum(_apart(ours.get(path), theirs.get(path)) for path in {**ours, **theirs})


def _apart(one: Any, other: Any) -> float:
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
