"""Recorder: saves each thing a run does as it is done, and resumes a run that was interrupted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from itertools import count
from typing import Any, Literal, Self

from seedbed.errors import NotFound, RunError, RunTaken, StoreError
from seedbed.redaction import REDACTED, redact, redacted
from seedbed.runs.claims import ENDING, Claims, announced_calls, claims_of
from seedbed.runs.history import (
    ENTRIES,
    TIMED,
    ends_of,
    paid_by_family,
    recall,
    request_of,
    start_of,
    total_cost_usd,
    total_tokens,
    total_unpriced,
)
from seedbed.runs.journal import Journal
from seedbed.runs.messages import MessageHistory
from seedbed.runs.request_keys import RequestKeys
from seedbed.runs.run import Call, Child, Decision, Failure, Run, RunStatus, Turn
from seedbed.runs.run_start import RunStart, conditions, json_copy
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, child_id, digest, new_id, short
from seedbed.telemetry import RunEnded, RunStarted, emit, listeners

PAUSES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 20, 20)
"""How many seconds to wait for a lost store before the result of a call that changed the world is given up."""

Details = Callable[[], Json]
"""Describes a request beyond its text; only a replay calls it."""


class Recorder:
    """The record of one run.

    A `start` fact stores its conditions before any model is asked; each entry is a fact the moment it is done; a `run`
    fact stores how it ended. The key of an entry names the request, so a run that is resumed gets the answers it
    already has and asks only for the rest. Raises StoreError for values that JSON cannot hold.
    """

    _paid_tag: str | None = None
    """The tag of the entries that were paid for, if not all were."""
    unasked: Collection[str] = ()
    """Tools that change the world and that a replay finds recorded without a question to anybody."""

    def __init__(
        self,
        journal: Journal,
        start: RunStart,
        *,
        by: str,
        run: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.id = run or new_id()
        self.playbook = start.playbook
        self.seed = start.seed
        self.parent = start.parent
        self.max_cost_usd = start.max_cost_usd
        self.real_tools, self.quality, self.tags = start.real_tools, start.quality, start.tags
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
        self._was_complete = False
        self.claims = Claims(journal, self.id, by, clock)
        self._known: dict[str, Json] = {}
        self._history = MessageHistory()
        self._again: dict[str, str] = {}
        """The keys of reading calls that failed and are tried again, with the keys of their next tries."""
        self.keys = RequestKeys(self.id)
        self.toolset: Digest | None = None
        """The tools that it may call, as content."""
        self._stored: set[Digest] = set()

    @classmethod
    def resume(cls, journal: Journal, run: str, *, by: str, complete: bool = False) -> Self:
        """The recorder of a run that was interrupted or failed, or even is `complete`. Raises NotFound or RunError."""
        start = start_of(journal.store, run)
        if "replay" in start.body:  # a replay must not change the world, which a live run may
            raise RunError(f"run {short(run)}: found a replay; expected a live run. Replay it again")
        recorder = cls(journal, conditions(start), by=by, run=run)
        recorder._restore(start, complete=complete)
        return recorder

    def _restore(self, start: Fact, *, complete: bool = False) -> None:
        """Load what a run has recorded so far. Raises RunError if it is complete, and may not be."""
        run = self.id
        self._started, self._number, self.resumed = start.at, start.number, True
        self.claims.number = len(claims_of(self._journal.store, run))
        if self._load() and not complete:
            raise RunError(f"run {short(run)}: found it complete; expected one that was interrupted or failed")
        self._was_complete = complete
        if any(REDACTED in canonical(body) for body in (self._start, *self._known.values())):
            raise RunError(
                f"run {short(run)}: found a record from which a secret was taken out, so its steps cannot be repeated "
                "exactly; expected a whole one. Start a new run"
            )

    def _load(self) -> bool:
        """Read what the run has recorded so far. Returns whether that is all."""
        store, run = self._journal.store, self.id
        ends = ends_of(store, run)
        self._ends = len(ends)
        self.claims.announced = announced_calls(store, run)
        for kind in ENTRIES:
            known = {entry.key: entry.body for entry in store.facts(Query(kind=kind, subject=run))}
            self._known |= known
            if kind == "turn":
                for key, body in known.items():
                    self._history.restore(key, body)
        self.failures = [Failure(**fact.body) for fact in store.facts(Query(kind="failure", subject=run))]
        self._forget_failed_reads(list(store.facts(Query(kind="call", subject=run))))
        return bool(ends) and ends[-1].body["status"] == "completed"

    def _forget_failed_reads(self, calls: list[Fact]) -> None:
        """Have calls that failed tried again, if they only read, and if nothing was changed since on their account."""
        announced = self.claims.announced
        last_change = max((call.fact.number for call in announced.values()), default=0)
        tries = Counter(request_of(call.key) for call in calls)
        for call in calls:  # the last try of each counts
            key = request_of(call.key)
            self._known[key] = call.body
            if call.body.get("error") and key not in announced and call.number > last_change:
                self._again[key] = f"{key}@{tries[key] + 1}"
            else:
                self._again.pop(key, None)
        for key in self._again:
            del self._known[key]

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
        return paid_by_family(self._journal.store, self.id, self._number, self._paid_tag)

    async def start(self) -> None:
        """Accept the run: from here on it can be resumed. Raises RunTaken if another worker has accepted it."""
        if self.resumed:
            await self.claims.take()
            # Once more, with what the worker before has recorded meanwhile.
            if await off_loop(self._load) and not self._was_complete:
                done = f"run {short(self.id)}: found that another worker has just completed it"
                raise self.claims.stop(RunTaken(f"{done}; expected one that was interrupted or failed"))
        else:
            body = {**self._start, "seedbed": _version(), "worker": self._journal.worker}
            body |= {"toolset": self.toolset} if self.toolset else {}
            await self.claims.begin(self._add("start", self.id, self.playbook, body))
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
        if its result is lost, it is in doubt and not repeated, and InDoubt says so. `person` (the request asks a
        person) and `details` matter to a replay alone. Raises RunTaken if another worker has taken the run, and
        StoreError if the store refuses an entry: every later request then raises it again.
        """
        self.claims.check()
        key = self.keys.take(kind, name, request)
        if key in self._known and kind == "turn":
            body = self._history.expand(self._known[key])
            self.keys.reserve(key, body["calls"])
            return body
        if key in self._known:
            return self._known[key]
        started, began = self._clock(), time.perf_counter()
        body = await (self.claims.once(key, name, json_copy(request), work) if risky else work())
        if kind in TIMED:
            body = {"started": started.isoformat(), "ended": self._clock().isoformat(), **body}
        seconds = body.get("latency_seconds", time.perf_counter() - began)
        with self.claims.storing(key, name) if risky else nullcontext():
            stored = self._history.shorten(body) if kind == "turn" else (body := json_copy(body))
            key = self._again.get(key, key)
            try:
                added = await self._add(kind, key, self.id, stored, seconds, pauses=PAUSES if risky else ())
            except RunTaken:
                if kind == "turn":  # it was paid for
                    await self._add_failure(_lost_turn(body))
                raise
            if not added:
                recorded = await off_loop(lambda: next(self._journal.store.facts(Query(kind=kind, key=key))))
                body = self._history.expand(recorded.body) if kind == "turn" else recorded.body
        if kind == "turn":  # only now can others go on from it
            self._history.add(key, body)
            self.keys.reserve(key, body.get("calls", ()))
        return body

    async def store_content(self, kind: str, body: Json) -> Digest:
        """The digest of content that an entry names, which is stored first."""
        named = digest(kind, body)
        if named not in self._stored:
            await off_loop(self._journal.store.put, kind, body)
            self._stored.add(named)
        return named

    def add_turn(self, body: Json) -> Turn:
        """Add a recorded turn to the run."""
        self.turns.append(Turn.from_body(body, self._history.messages(body)))
        return self.turns[-1]

    def is_in(self, store: Store) -> bool:
        """Whether that store holds this record."""
        return self._journal.store is store

    def next_child(self, step: str, request: object) -> str:
        """The id of the next run below this one with this content: the same whenever this one is resumed."""
        return child_id(self.id, self.keys.take("child", step, request))

    async def record_failure(self, failure: Failure) -> None:
        """Store what was paid for a turn without an answer. The turn is asked again when the run is resumed."""
        self.paid_usd += failure.cost_usd
        await self._add_failure(failure)

    async def _add_failure(self, failure: Failure) -> None:
        self.failures.append(failure)
        key = f"{self.id}/failure/{self.claims.number}/{len(self.failures)}"
        await self._add("failure", key, self.id, failure.body(), failure.cost_usd, fenced=False)

    async def record_child(self, step: str, request: object, work: Callable[[str], Awaitable[Run]]) -> Child:
        """Another run opened by this one. `work` receives its id, which is the same whenever this run is resumed.

        A child that fails is stored too, with its cost; one that was not completed is resumed with this run.
        """
        key = first = self.keys.take("child", step, request)
        tries = count(2)
        while key in self._known and self._known[key]["status"] != "completed":
            key = f"{first}@{next(tries)}"

        async def store(run: Run) -> Child:
            child = Child.of(run, step, started, self._clock())
            await self._add("child", key, self.id, child.body(), child.cost_usd)
            self.children.append(child)
            return child

        if key in self._known:
            self.children.append(Child.from_body(self._known[key]))
            return self.children[-1]
        run, started = child_id(self.id, first), self._clock()
        try:
            done = await work(run)
        except Exception as error:
            if isinstance(error, ENDING):
                self.claims.stop(error, below=True)
            if not isinstance(error, RunTaken):  # whoever took it records how it ends
                with suppress(NotFound):  # it may not even have begun
                    await store(await off_loop(recall, self._journal.store, run))
            raise
        return await store(done)

    async def end(self, status: RunStatus, output: Any = None, error: str = "") -> Run:
        """Record the outcome and return the whole run, equal to what `recall` returns."""
        run = Run(
            id=self.id,
            playbook=self.playbook,
            started=self._started,
            status=status,
            output=redacted(json_copy(output)),
            error=redact(error),
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
        body = {**self._start, **outcome, "turns": len(run.turns), "seedbed": _version(), "claim": self.claims.number}
        # A resumed run ends again; the fact of its earlier end has what was paid before.
        while not await self._add("run", self._end_key(), self.playbook, body, self.paid_usd):
            self._ends += 1
        self.claims.release()
        self.emit_end(status)
        return run

    def _end_key(self) -> str:
        return f"{self.id}@{self._ends + 1}" if self._ends else self.id

    def emit_end(self, status: RunStatus | Literal["interrupted"]) -> None:
        """Emit how the run ended, and what was paid since it was last resumed."""
        if listeners:
            seconds = self._seconds()
            turns, tokens = len(self.turns), total_tokens(self.turns, self.failures, ())
            emit(RunEnded(status=status, turns=turns, tokens=tokens, cost_usd=self.paid_usd, latency_seconds=seconds))

    def check(self) -> None:
        """Raise the error that makes the run invalid, even if its program caught it."""
        self.claims.check()

    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    async def _add(
        self,
        kind: str,
        key: str,
        subject: str,
        body: Json,
        value: float | None = None,
        *,
        pauses: Sequence[float] = (),
        fenced: bool = True,
    ) -> bool:
        """Store a fact; `fenced`, only while the run is this worker's. Returns false if its key is known already.

        Raises RunTaken, or StoreError after so many pauses.
        """
        at = self._started if kind in ("start", "run") else self._clock()
        tags = self._tags(kind, key)
        fact = partial(Fact, kind=kind, key=key, subject=subject, at=at, by=self._by, body=redacted(body), value=value)
        while True:
            fence = self.claims.fence if fenced else ()
            if await self._store(fact(tags=tags, unless=fence), pauses) or not fenced:
                return True
            await self.claims.expect()
            if fence == self.claims.fence:  # no claim of our own has come between
                return False

    async def _store(self, fact: Fact, pauses: Sequence[float]) -> bool:
        for pause in pauses:
            try:
                return await self._journal.add(fact)
            except StoreError:
                await asyncio.sleep(pause)
        try:
            return await self._journal.add(fact)
        except StoreError as lost:
            raise self.claims.stop(lost) from None

    def _tags(self, kind: str, key: str) -> tuple[str, ...]:
        return self.tags if kind in ("start", "run") else ()


def _lost_turn(body: Json) -> Failure:
    """A turn that was answered when another worker had taken the run."""
    turn, error = Turn.from_body(body), "another worker had taken the run"
    spent = (turn.cost_usd, turn.tokens, turn.unpriced)
    return Failure(step=turn.step, role=turn.role, error=error, cost_usd=spent[0], tokens=spent[1], unpriced=spent[2])


@cache
def _version() -> str:
    return version("seedbed")
