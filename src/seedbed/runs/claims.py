"""Claims: which worker performs a run, and what it is about to change.

The claims of a run are numbered without gaps, and the number is in the key, so of two workers that write the same
number one succeeds. A worker claims a run to take it over, and claims it again, with the next number, to announce a
call that changes the world. So it can announce nothing once another worker has followed it, however long it slept.
Nor can it store anything else but what a lost turn has cost: the store refuses facts `unless` the next claim is free.
The same holds below: who has lost a run has lost the runs it opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, TypeVar

from seedbed.errors import InDoubt, NotFound, QuotaSpent, RunTaken, SeedbedError, Stopped, StoreError
from seedbed.runs.history import ends_of, start_of
from seedbed.runs.journal import Journal
from seedbed.runs.run import Call
from seedbed.runs.worker_presence import is_alive, may_count_as_gone, seconds
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Json, Query, Store, digest, now, short

NO_WORKER = ""

ENDING = (InDoubt, RunTaken, StoreError, Stopped, QuotaSpent)
"""What ends a run so, ends the one above it: its program must not go on without it."""

Ending = TypeVar("Ending", bound=SeedbedError)


class Holder(NamedTuple):
    """The worker that performs a run, and when it last claimed it."""

    worker: str
    at: datetime


class Announced(NamedTuple):
    """A call that was announced and, if a person found out whether it has happened, what that person told."""

    fact: Fact
    settled: Json | None = None


def claims_of(store: Store, run: str) -> list[Fact]:
    """The claims of a run, in order."""
    return list(store.facts(Query(kind="claim", subject=run)))


def claim_fact(run: str, number: int, body: Json, at: datetime, by: str) -> Fact:
    return Fact(kind="claim", key=f"{run}@{number}", subject=run, at=at, by=by, body=body)


def holder_of(store: Store, run: str) -> Holder | None:
    """Who performs a run, dead or alive; None if it has ended or was left. Raises NotFound."""
    claims = claims_of(store, run)
    if any(end.body["claim"] == len(claims) for end in ends_of(store, run)):
        return None
    last = claims[-1] if claims else start_of(store, run)
    return Holder(last.body["worker"], last.at) if last.body["worker"] else None


def is_taken(store: Store, run: str) -> bool:
    """Whether a worker performs a run and may be alive. Raises NotFound."""
    holder = holder_of(store, run)
    return holder is not None and is_alive(holder.worker, run, holder.at, store, now())


def announced_calls(store: Store, run: str | None = None) -> dict[str, Announced]:
    """The calls that a run, or any, has announced, by the keys of their results."""
    before = store.facts(Query(kind="intent", subject=run))  # older runs announced them so
    calls = {fact.key.removeprefix("intent "): Announced(fact) for fact in before}
    for fact in store.facts(Query(kind="claim", subject=run)):
        if "settled" in fact.body:
            calls[fact.body["call"]] = Announced(calls[fact.body["call"]].fact, fact.body)
        elif "call" in fact.body:
            calls[fact.body["call"]] = Announced(fact)
    return calls


def idempotency_key(key: str) -> str:
    """What a tool receives with the call of that key: the same whenever its run is resumed, and for no other call."""
    return digest("call", key)[3:35]


class Claims:
    """The claims of one worker on a run.

    Once it has lost the run to another worker or a part of its record to the store, or has left a call in doubt, it can
    do nothing more in it: `stopped` is the error that says so.
    """

    def __init__(self, journal: Journal, run: str, by: str, clock: Callable[[], datetime]) -> None:
        self.number = 0
        """Of the last claim that this worker knows of. The start of a run is its claim 0."""
        self.announced: dict[str, Announced] = {}
        self.stopped: Exception | None = None
        self.held = False
        """Whether others may see that this worker has the run."""
        self._sure = True
        """Whether all claims that this worker wrote are known to be stored or not."""
        self.above: Claims | None = None
        """On the run that opened this one, by the same worker."""
        self._journal, self._run, self._by, self._clock = journal, run, by, clock
        self._writing = asyncio.Lock()

    @property
    def fence(self) -> tuple[tuple[str, str], ...]:
        """The claims by which another worker would have the run, or one above it."""
        return (*self._fence_above, ("claim", f"{self._run}@{self.number + 1}"))

    @property
    def _fence_above(self) -> tuple[tuple[str, str], ...]:
        return self.above.fence if self.above else ()

    async def begin(self, starting: Awaitable[bool]) -> None:
        """Store the start of a new run. Raises RunTaken if another worker is quicker."""
        self.held = True
        if not await starting:
            raise self.stop(self._taken())

    async def take(self) -> None:
        """Take a run over from whoever had it. Raises RunTaken if another worker is quicker."""
        self.held = True
        await self._write({})

    async def once(self, key: str, tool: str, arguments: Json, work: Callable[[], Awaitable[Json]]) -> Json:
        """The result of a call that changes the world. It is announced before, so that no worker repeats it.

        Raises RunTaken if another worker has the run; InDoubt if the call was announced before and has no result, or
        if it is cut off now.
        """
        known = self.announced.get(key)
        if known and known.settled is None:
            raise self.stop(self._doubt(key, f"{tool} was started, and its result is unknown"))
        if known and known.settled and known.settled["settled"] == "done":
            return _settled_call(known)
        began = seconds()
        try:
            await self._write({"what": tool, "call": key, "arguments": arguments})
            if may_count_as_gone(since=began):
                await self.expect()
            return await work()
        except InDoubt as cut_off:
            raise self.stop(self._doubt(key, str(cut_off))) from cut_off
        except StoreError as lost:  # the call was not made
            raise self.stop(lost) from None
        except asyncio.CancelledError:
            self.stop(self._doubt(key, f"{tool} was cancelled"))
            raise

    @contextmanager
    def storing(self, key: str, tool: str) -> Iterator[None]:
        """A block that stores the result of a call that was made: if it fails, the call is in doubt."""
        try:
            yield
        except StoreError as lost:
            raise self.stop(self._doubt(key, f"the result of {tool} was not stored: {lost}")) from lost
        except asyncio.CancelledError:
            self.stop(self._doubt(key, f"{tool} was cancelled"))
            raise

    def check(self) -> None:
        """Raise what stopped this worker, if anything did."""
        if self.stopped:
            raise self.stopped

    async def expect(self) -> None:
        """Raise RunTaken if another worker has claimed the run, or one above it, since this one did."""
        await self._expect_above()
        async with self._writing:
            claims = await off_loop(claims_of, self._journal.store, self._run)
            if len(claims) > self.number:
                raise self.stop(self._taken())

    async def _expect_above(self) -> None:
        try:
            if self.above:
                await self.above.expect()
        except RunTaken as taken:
            raise self.stop(taken) from None

    def release(self) -> None:
        """The end of the run is stored, and so it is free: unless the store lost our connection after it took a claim
        which we do not know of."""
        self.held = not self._sure

    def leave(self) -> bool:
        """Record that this worker has left the run, if it still has it, so that others need not wait.

        Returns false if the store cannot be reached.
        """
        store, worker = self._journal.store, self._journal.worker
        try:
            while self.held and (holder := holder_of(store, self._run)) and holder.worker == worker:
                number = len(claims_of(store, self._run)) + 1
                if store.append([claim_fact(self._run, number, {"worker": NO_WORKER}, self._clock(), self._by)]):
                    break
        except NotFound:  # it has not even begun
            pass
        except StoreError:
            return False
        self.held = False
        return True

    async def _write(self, body: Json) -> None:
        """Add the next claim. One after the other, for none may count after one that does not."""
        async with self._writing:
            self.check()
            body = {"worker": self._journal.worker, **body}
            fact = claim_fact(self._run, self.number + 1, body, self._clock(), self._by)
            while True:
                above = self._fence_above
                self._sure = False
                mine = await self._journal.add(replace(fact, unless=above))
                self._sure = True
                if mine:
                    break
                await self._expect_above()
                if above == self._fence_above:  # a claim of our own on a run above may have come between
                    raise self.stop(self._taken())
            self.number += 1

    def stop(self, error: Ending, *, below: bool = False) -> Ending:
        """Let this worker do nothing more in the run, for what befell it or a run `below`; returns the error.

        A loss of the record is the first one.
        """
        later = self.stopped is not None and isinstance(error, StoreError | Stopped | QuotaSpent)
        if not isinstance(self.stopped, RunTaken) and not later:
            self.stopped = error
        self.held &= below or not isinstance(error, RunTaken)
        return error

    def _taken(self) -> RunTaken:
        return RunTaken(f"run {short(self._run)}: found that another worker has taken it; expected it to be free")

    def _doubt(self, key: str, problem: str) -> InDoubt:
        run = short(self._run)
        return InDoubt(
            f"run {run}: {problem}; it may have happened. Check whether it did, then: "
            f"seedbed runs settle {run} {idempotency_key(key)[:10]} done|not-done --because REASON, and "
            f"seedbed run --resume {run}"
        )


def leave_all(left: list[Claims]) -> None:
    """Leave runs that could not be left when they ended here; those that still cannot stay in the list."""
    every, left[:] = list(left), []
    left += [claims for claims in every if not claims.leave()]


def _settled_call(call: Announced) -> Json:
    """The record of a call that has happened, as a person said."""
    assert call.settled is not None
    return Call(
        tool=call.fact.body["what"],
        arguments=call.fact.body.get("arguments") or {},
        result=call.settled["result"],
        error="",
        changes=True,
        latency_seconds=0.0,
    ).body()
