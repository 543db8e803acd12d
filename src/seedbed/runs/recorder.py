"""Recorder: saves each thing a run does as it is done, and resumes a run that was interrupted."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from itertools import count
from typing import Any, Literal, Self

from seedbed.errors import NotFound, RunError, RunTaken
from seedbed.runs.history import (
    ENTRIES,
    START_FIELDS,
    claims_of,
    ends_of,
    recall,
    start_of,
    total_cost_usd,
    total_tokens,
    total_unpriced,
    worker_at,
)
from seedbed.runs.journal import Journal
from seedbed.runs.messages import MessageHistory
from seedbed.runs.run import Call, Child, Decision, Failure, Run, RunStatus, Turn
from seedbed.storage.store import Digest, Fact, Json, Query, canonical, digest
from seedbed.telemetry import RunEnded, RunStarted, emit, listeners

TOKENS = ("prompt_tokens", "completion_tokens", "uncounted_tokens", "tokens")
"""The fields of turns and failures that count tokens."""

NO_WORKER = ""

Details = Callable[[], Json]
"""Describes a request beyond its text; only a replay calls it."""


@dataclass(frozen=True, slots=True)
class RunStart:
    """The conditions of a run, known when it starts. `parent` is the run that opened it, if any."""

    playbook: Digest
    inputs: Json
    seed: int
    models: Json
    parent: str = ""
    max_cost_usd: float | None = None

    def body(self) -> Json:
        body: Json = json_copy({name: getattr(self, name) for name in START_FIELDS})
        return body


class Recorder:
    """The record of one run.

    A `start` fact stores its conditions before any model is asked; each entry is a fact the moment it is done; a `run`
    fact stores how it ended. The key of an entry names the request, so a run that is resumed gets the answers it
    already has and asks only for the rest. Raises StoreError for values that JSON cannot hold.
    """

    _paid_tag: str | None = None
    """The tag of the entries that were paid for, if not all were."""

    def __init__(
        self,
        journal: Journal,
        start: RunStart,
        *,
        by: str,
        run: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.id = run or uuid.uuid4().hex
        self.playbook = start.playbook
        self.seed = start.seed
        self.parent = start.parent
        self.max_cost_usd = start.max_cost_usd
        self.turns: list[Turn] = []
        self.calls: list[Call] = []
        self.decisions: list[Decision] = []
        self.children: list[Child] = []
        self.failures: list[Failure] = []
        self.resumed = False
        self.paid_usd = 0.0
        """What was paid since the run was last resumed, without the runs it opened."""
        self._journal = journal
        self._clock = clock
        self._by = by
        self._start = start.body()
        self._started = clock()
        self._began = time.perf_counter()
        self._number: int | None = None
        self._ends = 0
        self._claims = 0
        self._known: dict[str, Json] = {}
        self._history = MessageHistory()
        self._requests: Counter[str] = Counter()

    @classmethod
    def resume(cls, journal: Journal, run: str, *, by: str) -> Self:
        """The recorder of a run that was interrupted or failed. Raises NotFound or RunError."""
        start = start_of(journal.store, run)
        if "replay" in start.body:  # a replay must not change the world, which a live run may
            raise RunError(f"run {run[:10]}: found a replay; expected a live run. Replay it again")
        recorder = cls(journal, conditions(start), by=by, run=run)
        recorder._restore(start)
        return recorder

    def _restore(self, start: Fact) -> None:
        """Load what a run has recorded so far. Raises RunError if it is complete."""
        store, run = self._journal.store, self.id
        ends = ends_of(store, run)
        if ends and ends[-1].body["status"] == "completed":
            raise RunError(f"run {run[:10]}: found it complete; expected one that was interrupted or failed")
        self._started, self._ends, self._claims = start.at, len(ends), len(claims_of(store, run))
        self._number = start.number
        self.resumed = True
        for kind in (*ENTRIES, "intent"):
            known = {entry.key: entry.body for entry in store.facts(Query(kind=kind, subject=run))}
            self._known |= known
            if kind == "turn":
                for key, body in known.items():
                    self._history.restore(key, body)
        self.failures += (Failure(**fact.body) for fact in store.facts(Query(kind="failure", subject=run)))

    @property
    def inputs(self) -> Json:
        return dict(self._start["inputs"])

    @property
    def cost_usd(self) -> float:
        """The cost of this run and of those it opened, before and since it was resumed."""
        return total_cost_usd(self.turns, self.failures, self.children)

    @property
    def paid_before(self) -> tuple[float, int]:
        """The US dollars and tokens known to have been used by this run and all below it, ended or not."""
        store, family = self._journal.store, {self.id}
        # By the order in the store, not by the clock: a parent is stored before its children.
        for start in store.facts(Query(kind="start", after=self._number)):
            if start.body["parent"] in family:
                family.add(start.key)
        paid = (Query(kind=kind, subject=run, tag=self._paid_tag) for run in family for kind in ("turn", "failure"))
        bodies = [fact.body for query in paid for fact in store.facts(query)]
        tokens = sum(int(body.get(name, 0)) for body in bodies for name in TOKENS)
        return sum(float(body["cost_usd"]) for body in bodies), tokens

    async def start(self) -> None:
        """Accept the run: from here on it can be resumed. Raises RunTaken if another worker has accepted it."""
        worker = self._journal.worker
        if self.resumed:
            mine = await self._add("claim", f"{self.id}@{self._claims + 1}", self.id, {"worker": worker})
        else:
            body = {**self._start, "seedbed": _version(), "worker": worker}
            mine = await self._add("start", self.id, self.playbook, body)
        if not mine:
            raise RunTaken(f"run {self.id[:10]}: found that another worker has just begun it; expected it to be free")
        emit(RunStarted(playbook=self.playbook, resumed=self.resumed))

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
        """The recorded answer to this request, or else the result of `work`, stored before it is returned.

        The n-th request with the same content gets the n-th answer. A `risky` request is announced before it is done:
        after a crash the announcement shows that it is in doubt, it is not repeated, and RunError says so. `person`
        (the request asks a person) and `details` matter to a replay alone.
        """
        key = self._key(kind, name, request)
        if key in self._known:
            return self._history.expand(self._known[key]) if kind == "turn" else self._known[key]
        if risky:
            await self._announce(key, name)
        began = time.perf_counter()
        body = await work()
        stored = self._history.shorten(body) if kind == "turn" else (body := json_copy(body))
        await self._add(kind, key, self.id, stored, body.get("latency_seconds", time.perf_counter() - began))
        if kind == "turn":  # only now can others go on from it
            self._history.add(key, body)
        return body

    def add_turn(self, body: Json) -> Turn:
        """Add a recorded turn to the run."""
        self.turns.append(Turn.from_body(body, self._history.messages(body)))
        return self.turns[-1]

    def _key(self, kind: str, name: str, request: object) -> str:
        place = f"{self.id}/{kind}/{name}/{digest('request', request)[3:19]}"
        self._requests[place] += 1
        return f"{place}/{self._requests[place]}"

    async def _announce(self, key: str, name: str) -> None:
        intent = f"intent {key}"
        if intent in self._known:
            raise RunError(
                f"run {self.id[:10]}: found {name} begun and not ended, so it may have happened; expected its end. "
                "Check whether it has happened, then start a new run"
            )
        await self._add("intent", intent, self.id, {"what": name})

    async def record_failure(self, failure: Failure) -> None:
        """Store what was paid for a turn without an answer. The turn is asked again when the run is resumed."""
        self.paid_usd += failure.cost_usd
        self.failures.append(failure)
        key = f"{self.id}/failure/{self._claims + self.resumed}/{len(self.failures)}"
        await self._add("failure", key, self.id, failure.body(), failure.cost_usd)

    async def record_child(self, step: str, request: object, work: Callable[[str], Awaitable[Run]]) -> Child:
        """Another run opened by this one. `work` receives its id, which is the same whenever this run is resumed.

        A child that fails is stored too, with its cost; one that was not completed is resumed with this run.
        """
        key = first = self._key("child", step, request)
        tries = count(2)
        while key in self._known and self._known[key]["status"] != "completed":
            key = f"{first}@{next(tries)}"

        async def store(run: Run) -> Child:
            fields = ("status", "output", "error", "tokens", "cost_usd", "unpriced")
            child = Child(run=run.id, step=step, **{name: getattr(run, name) for name in fields})
            await self._add("child", key, self.id, child.body(), child.cost_usd)
            self.children.append(child)
            return child

        if key in self._known:
            self.children.append(Child(**self._known[key]))
            return self.children[-1]
        run = uuid.uuid5(uuid.UUID(self.id), first).hex
        try:
            done = await work(run)
        except Exception:
            with suppress(NotFound):  # it may not even have begun
                await store(recall(self._journal.store, run))
            raise
        return await store(done)

    async def end(self, status: RunStatus, output: Any = None, error: str = "") -> Run:
        """Record the outcome and return the whole run, equal to what `recall` returns."""
        run = Run(
            id=self.id,
            playbook=self.playbook,
            started=self._started,
            status=status,
            output=json_copy(output),
            error=error,
            turns=tuple(self.turns),
            calls=tuple(self.calls),
            decisions=tuple(self.decisions),
            children=tuple(self.children),
            failures=tuple(self.failures),
            tokens=total_tokens(self.turns, self.failures, self.children),
            cost_usd=self.cost_usd,
            unpriced=total_unpriced(self.turns, self.failures, self.children),
            latency_seconds=self._seconds(),
            **self._start,
        )
        fields = ("status", "output", "error", "tokens", "cost_usd", "latency_seconds")
        outcome = {name: getattr(run, name) for name in fields} | ({"unpriced": run.unpriced} if run.unpriced else {})
        claim = self._claims + self.resumed  # the number of the worker that ends it
        body = {**self._start, **outcome, "turns": len(run.turns), "seedbed": _version(), "claim": claim}
        # A resumed run ends again; the fact of its earlier end has what was paid before.
        key = f"{self.id}@{self._ends + 1}" if self._ends else self.id
        await self._add("run", key, self.playbook, body, self.paid_usd)
        self.emit_end(status)
        return run

    def leave(self) -> None:
        """Record that this worker has left the run, if it performed it, so that others need not wait."""
        body, store = {"worker": NO_WORKER}, self._journal.store
        try:
            mine = worker_at(store, self.id) == self._journal.worker
        except NotFound:  # it has not even begun
            return
        if not mine:
            return
        key = f"{self.id}@{len(claims_of(store, self.id)) + 1}"
        store.append([Fact(kind="claim", key=key, subject=self.id, at=self._clock(), by=self._by, body=body)])

    def emit_end(self, status: RunStatus | Literal["interrupted"]) -> None:
        """Emit how the run ended, and what was paid since it was last resumed."""
        if listeners:
            seconds = self._seconds()
            turns, tokens = len(self.turns), total_tokens(self.turns, self.failures, ())
            emit(RunEnded(status=status, turns=turns, tokens=tokens, cost_usd=self.paid_usd, latency_seconds=seconds))

    def check(self) -> None:
        """Raise the error that makes the run invalid, even if its program caught it. A live run is always valid."""

    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    async def _add(self, kind: str, key: str, subject: str, body: Json, value: float | None = None) -> bool:
        at = self._started if kind in ("start", "run") else self._clock()
        tags = self._tags(kind, key)
        fact = Fact(kind=kind, key=key, subject=subject, at=at, by=self._by, body=body, value=value, tags=tags)
        return await self._journal.add(fact)

    def _tags(self, kind: str, key: str) -> tuple[str, ...]:
        return ()


def conditions(start: Fact) -> RunStart:
    """The conditions of a run, from the fact it began with."""
    return RunStart(start.subject, **{name: start.body[name] for name in START_FIELDS})


@cache
def _version() -> str:
    return version("seedbed")


def json_copy(value: Any) -> Any:
    """A value as a store returns it: a copy that no program can alter."""
    return json.loads(canonical(value))
