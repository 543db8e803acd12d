"""Save each thing as it is done; read runs back, and go on with one that was interrupted."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from itertools import count, islice
from typing import Any, Literal, Self

from seedbed.errors import NotFound, RunError, RunTaken, shown
from seedbed.runs.journal import Journal
from seedbed.runs.run import Call, Child, Decision, Failure, Run, Status, Turn
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest
from seedbed.telemetry import RunEnded, RunStarted, emit, listeners

ENTRIES = ("turn", "failure", "routing", "call", "decision", "child", "reading", "remark")
"""What a run is made of: answers, what was paid for none, choices of models, uses of tools, decisions, runs it opened,
the clock and chance, log lines."""

ABOUT = ("inputs", "seed", "models", "parent", "max_cost_usd")
"""What is known of a run when it starts."""

TOKENS = ("prompt_tokens", "completion_tokens", "uncounted_tokens", "tokens")
"""Where turns and failures say how many they took."""

NOBODY = ""

How = Callable[[], Json]
"""Tells how something is asked beyond its words, to those who have to know."""


class Recorder:
    """The record of one run.

    A `start` fact says what was accepted before anything is asked; each entry is a fact the moment it is done; a `run`
    fact says how it ended. An entry is named by what was asked for, so a run that is taken up again gets the answers
    it already has and asks only for the rest. Raises StoreError for what JSON cannot hold.
    """

    _paid_tag: str | None = None
    """What the entries that were paid for have in common, if not all were."""

    def __init__(
        self,
        journal: Journal,
        playbook: Digest,
        inputs: Json,
        *,
        seed: int,
        by: str,
        models: Json,
        parent: str = "",
        run: str = "",
        max_cost_usd: float | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.id = run or uuid.uuid4().hex
        self.playbook = playbook
        self.turns: list[Turn] = []
        self.calls: list[Call] = []
        self.decisions: list[Decision] = []
        self.children: list[Child] = []
        self.failures: list[Failure] = []
        self.resumed = False
        self._journal = journal
        self._clock = clock
        self._by = by
        about = (inputs, seed, models, parent, max_cost_usd)
        self._about: Json = kept(dict(zip(ABOUT, about, strict=True)))
        self._started = clock()
        self._began = time.perf_counter()
        self._ends = 0
        self._claims = 0
        self._paid_usd = 0.0
        self._known: dict[str, Json] = {}
        self._asked: Counter[str] = Counter()

    @classmethod
    def resume(cls, journal: Journal, run: str, *, by: str, **more: Any) -> Self:
        """The record of a run that was interrupted, failed or ran out of money. Raises NotFound, or RunError."""
        store = journal.store
        start, ends = _start(store, run), _ends(store, run)
        if cls is Recorder and "replay" in start.body:  # what it may not do would be done
            raise RunError(f"run {run[:10]}: found a replay; expected a run that was live. Replay it again")
        if ends and ends[-1].body["status"] == "completed":
            raise RunError(f"run {run[:10]} is complete: found its output; expected one that was interrupted or failed")
        made = cls(journal, start.subject, by=by, run=run, **{name: start.body[name] for name in ABOUT}, **more)
        made._started, made._ends, made._claims = start.at, len(ends), len(_claims(store, run))
        made.resumed = True
        for kind in (*ENTRIES, "intent"):
            made._known |= {entry.key: entry.body for entry in store.facts(Query(kind=kind, subject=run))}
        made.failures += (Failure(**fact.body) for fact in store.facts(Query(kind="failure", subject=run)))
        return made

    @property
    def inputs(self) -> Json:
        return dict(self._about["inputs"])

    @property
    def seed(self) -> int:
        return int(self._about["seed"])

    @property
    def parent(self) -> str:
        """The run that opened this one, if one did."""
        return str(self._about["parent"])

    @property
    def max_cost_usd(self) -> float | None:
        """What the run was allowed to cost when it started."""
        limit: float | None = self._about["max_cost_usd"]
        return limit

    @property
    def cost_usd(self) -> float:
        """What was paid for this run and those it opened, also before it was taken up again."""
        return _cost_usd(self.turns, self.failures, self.children)

    @property
    def paid_before(self) -> tuple[float, int]:
        """The US dollars and tokens known to have been used by this run and all under it, also those not ended."""
        store, family = self._journal.store, {self.id}
        for start in store.facts(Query(kind="start", since=self._started)):  # whoever opens a run started before it
            if start.body["parent"] in family:
                family.add(start.key)
        paid = (Query(kind=kind, subject=run, tag=self._paid_tag) for run in family for kind in ("turn", "failure"))
        bodies = [fact.body for query in paid for fact in store.facts(query)]
        tokens = sum(int(body.get(name, 0)) for body in bodies for name in TOKENS)
        return sum(float(body["cost_usd"]) for body in bodies), tokens

    async def start(self) -> None:
        """Accept the run: from here on it can be taken up again. Raises RunTaken if another worker has accepted it."""
        worker = self._journal.worker
        if self.resumed:
            mine = await self._add("claim", f"{self.id}@{self._claims + 1}", self.id, {"worker": worker})
        else:
            about = {**self._about, "seedbed": _version(), "worker": worker}
            mine = await self._add("start", self.id, self.playbook, about)
        if not mine:
            raise RunTaken(f"run {self.id[:10]}: found that another worker has just begun with it; expected it free")
        emit(RunStarted(playbook=self.playbook, resumed=self.resumed))

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
        """What was recorded for this request, or else what the work gives, durable before it is returned.

        The n-th request of the same words gets the n-th answer. What is `risky` is announced before it is done, so that
        after a crash it is known to be in doubt, and is not done again: RunError says so. That it asks a `person`, and
        `how` it asks beyond its words, matters to a replay alone.
        """
        key = self._key(kind, name, request)
        if key in self._known:
            return self._known[key]
        if risky:
            await self._announced(key, name)
        began = time.perf_counter()
        body = await work()
        if kind != "turn":  # which is plain already
            body = kept(body)
        await self._add(kind, key, self.id, body, body.get("latency_seconds", time.perf_counter() - began))
        return body

    def _key(self, kind: str, name: str, request: object) -> str:
        place = f"{self.id}/{kind}/{name}/{digest('request', request)[3:19]}"
        self._asked[place] += 1
        return f"{place}/{self._asked[place]}"

    async def _announced(self, key: str, name: str) -> None:
        intent = f"intent {key}"
        if intent in self._known:
            raise RunError(
                f"run {self.id[:10]}: found {name} begun and not ended, so it may have happened; expected to know. "
                "Check the outside world, then start a new run"
            )
        await self._add("intent", intent, self.id, {"what": name})

    async def turn(
        self, name: str, request: object, work: Callable[[], Awaitable[Turn]], how: How | None = None
    ) -> Turn:
        async def told() -> Json:
            done = await work()
            self._paid_usd += done.cost_usd
            return done.body()

        turn = Turn.from_body(await self.once("turn", name, request, told, how=how))
        self.turns.append(turn)
        return turn

    async def failure(self, failure: Failure) -> None:
        """Keep what was paid for a turn that nobody answered. It is asked anew when the run is taken up again."""
        self._paid_usd += failure.cost_usd
        self.failures.append(failure)
        key = f"{self.id}/failure/{self._claims + self.resumed}/{len(self.failures)}"
        await self._add("failure", key, self.id, failure.body(), failure.cost_usd)

    async def child(self, step: str, request: object, work: Callable[[str], Awaitable[Run]]) -> Child:
        """Another run opened by this one. The work is given its id, the same one whenever this run is taken up.

        One that fails is kept too, with what it cost; one that was not completed goes on when this run does.
        """
        key = first = self._key("child", step, request)
        tries = count(2)
        while key in self._known and self._known[key]["status"] != "completed":
            key = f"{first}@{next(tries)}"

        async def ended(run: Run) -> Child:
            told = ("status", "output", "error", "tokens", "cost_usd")
            child = Child(run=run.id, step=step, **{name: getattr(run, name) for name in told})
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
                await ended(recall(self._journal.store, run))
            raise
        return await ended(done)

    async def end(self, status: Status, output: Any = None, error: str = "") -> Run:
        """Record the outcome and return the whole run, just as `recall` will give it back."""
        run = Run(
            id=self.id,
            playbook=self.playbook,
            started=self._started,
            status=status,
            output=kept(output),
            error=error,
            turns=tuple(self.turns),
            calls=tuple(self.calls),
            decisions=tuple(self.decisions),
            children=tuple(self.children),
            failures=tuple(self.failures),
            tokens=_tokens(self.turns, self.failures, self.children),
            cost_usd=self.cost_usd,
            latency_seconds=self._seconds(),
            **self._about,
        )
        told = ("status", "output", "error", "tokens", "cost_usd", "latency_seconds")
        outcome = {name: getattr(run, name) for name in told}
        claim = self._claims + self.resumed  # which of those who took it up this is the end of
        body = {**self._about, **outcome, "turns": len(run.turns), "seedbed": _version(), "claim": claim}
        # A run that was taken up again ends again; what it paid before was told by the end before.
        key = f"{self.id}@{self._ends + 1}" if self._ends else self.id
        await self._add("run", key, self.playbook, body, self._paid_usd)
        self.tell(status)
        return run

    def leave(self) -> None:
        """Say that nobody is at this run any more, so that others need not wait; if it was this recorder that was."""
        body, store = {"worker": NOBODY}, self._journal.store
        try:
            mine = worker_at(store, self.id) == self._journal.worker
        except NotFound:  # it has not even begun
            return
        if not mine:
            return
        key = f"{self.id}@{len(_claims(store, self.id)) + 1}"
        store.append([Fact(kind="claim", key=key, subject=self.id, at=self._clock(), by=self._by, body=body)])

    def tell(self, status: Status | Literal["interrupted"]) -> None:
        """Tell those who listen how it ended, and what was paid since it was last taken up."""
        if listeners:
            seconds = self._seconds()
            turns, tokens = len(self.turns), _tokens(self.turns, self.failures, ())
            emit(RunEnded(status=status, turns=turns, tokens=tokens, cost_usd=self._paid_usd, latency_seconds=seconds))

    def check(self) -> None:
        """Raise what makes the run worthless, although the program may have gone on: nothing, if it is a live one."""

    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    async def _add(self, kind: str, key: str, subject: str, body: Json, value: float | None = None) -> bool:
        at = self._started if kind in ("start", "run") else self._clock()
        return await self._journal.add(
            Fact(kind=kind, key=key, subject=subject, at=at, by=self._by, body=body, value=value)
        )


@cache
def _version() -> str:
    return version("seedbed")


def kept(value: Any) -> Any:
    """A value as a store gives it back: a copy that no program can alter."""
    return json.loads(canonical(value))


def recall(store: Store, run: str) -> Run:
    """A recorded run by its id, also one that has not ended. Raises NotFound."""
    start, ends = _start(store, run), _ends(store, run)
    entries = {kind: [fact.body for fact in store.facts(Query(kind=kind, subject=run))] for kind in ENTRIES}
    turns = tuple(map(Turn.from_body, entries["turn"]))
    children = tuple({body["run"]: Child(**body) for body in entries["child"]}.values())  # as they last ended
    failures = tuple(Failure(**body) for body in entries["failure"])
    return _run(
        ends[-1] if ends else start,
        turns=turns,
        children=children,
        failures=failures,
        tokens=_tokens(turns, failures, children),
        cost_usd=_cost_usd(turns, failures, children),
        calls=tuple(Call(**body) for body in entries["call"]),
        decisions=tuple(Decision(**body) for body in entries["decision"]),
    )


def recent(
    store: Store, limit: int, playbook: Digest | None = None, *, children: bool = True, replays: bool = False
) -> Iterator[Run]:
    """The newest runs, without what happened in them; those that others opened, and replays, only if asked for."""
    starts = store.facts(Query(kind="start", subject=playbook, newest=True))
    wanted = (
        each for each in starts if (children or not each.body["parent"]) and (replays or "replay" not in each.body)
    )
    for start in islice(wanted, limit):
        ends = _ends(store, start.key)
        yield _run(ends[-1] if ends else start)


def _start(store: Store, run: str) -> Fact:
    for fact in store.facts(Query(kind="start", key=run)):
        return fact
    raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")


def _claims(store: Store, run: str) -> list[Fact]:
    return list(store.facts(Query(kind="claim", subject=run)))


def worker_at(store: Store, run: str) -> str | None:
    """The worker who began with a run, or took it up last, and neither ended nor left it. Raises NotFound."""
    claims = _claims(store, run)
    if any(end.body["claim"] == len(claims) for end in _ends(store, run)):
        return None
    return str([_start(store, run), *claims][-1].body["worker"]) or None


def _ends(store: Store, run: str) -> list[Fact]:
    return list(store.facts(Query(kind="run", key_from=run)))


def _run(fact: Fact, **entries: Any) -> Run:
    """A run from its end or, if it has none, from its start."""
    body = fact.body
    return Run(
        id=fact.key.partition("@")[0],
        playbook=fact.subject,
        **{name: body[name] for name in ABOUT},
        replay=body.get("replay"),
        started=fact.at,
        status=body.get("status", "running"),
        output=body.get("output"),
        error=body.get("error", ""),
        latency_seconds=body.get("latency_seconds", 0.0),
        **{"turns": (), "tokens": body.get("tokens", 0), "cost_usd": body.get("cost_usd", 0.0), **entries},
    )


def _tokens(turns: Sequence[Turn], failures: Sequence[Failure], children: Sequence[Child]) -> int:
    return sum(sum(each.tokens for each in used) for used in (turns, failures, children))


def _cost_usd(turns: Sequence[Turn], failures: Sequence[Failure], children: Sequence[Child]) -> float:
    return sum(sum(each.cost_usd for each in paid) for paid in (turns, failures, children))
