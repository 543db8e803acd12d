"""Save each thing as it is done; read runs back, and go on with one that was interrupted."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

from seedbed.errors import NotFound, RunError, shown
from seedbed.runs.journal import Journal
from seedbed.runs.run import Call, Child, Decision, Run, Status, Turn
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest
from seedbed.telemetry import RunEnded, RunStarted, emit, listeners

ENTRIES = ("turn", "routing", "call", "decision", "child", "reading", "remark")
"""What a run is made of: answers, choices of models, uses of tools, decisions, runs it opened, the clock and chance,
log lines."""


class Recorder:
    """The record of one run.

    A `start` fact says what was accepted before anything is asked; each entry is a fact the moment it is done; a `run`
    fact says how it ended. An entry is named by what was asked for, so a run that is taken up again gets the answers
    it already has and asks only for the rest. Raises StoreError for what JSON cannot hold.
    """

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
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.id = run or uuid.uuid4().hex
        self.playbook = playbook
        self.turns: list[Turn] = []
        self.calls: list[Call] = []
        self.decisions: list[Decision] = []
        self.children: list[Child] = []
        self.resumed = False
        self._journal = journal
        self._clock = clock
        self._by = by
        self._about: Json = _kept({"inputs": inputs, "seed": seed, "models": models, "parent": parent})
        self._started = clock()
        self._began = time.perf_counter()
        self._ends = 0
        self._paid_usd = 0.0
        self._known: dict[str, Json] = {}
        self._asked: Counter[str] = Counter()

    @classmethod
    def resume(cls, journal: Journal, run: str, *, by: str) -> Recorder:
        """The record of a run that was interrupted, failed or ran out of money. Raises NotFound, or RunError."""
        store = journal.store
        start, ends = _start(store, run), _ends(store, run)
        if ends and ends[-1].body["status"] == "completed":
            raise RunError(f"run {run[:10]} is complete: found its output; expected one that was interrupted or failed")
        about = {name: start.body[name] for name in ("inputs", "seed", "models", "parent")}
        made = cls(journal, start.subject, by=by, run=run, **about)
        made._started, made._ends = start.at, len(ends)
        made.resumed = True
        for kind in (*ENTRIES, "intent"):
            made._known |= {entry.key: entry.body for entry in store.facts(Query(kind=kind, subject=run))}
        return made

    @property
    def inputs(self) -> Json:
        return dict(self._about["inputs"])

    @property
    def seed(self) -> int:
        return int(self._about["seed"])

    @property
    def cost_usd(self) -> float:
        """What was paid for this run and those it opened, also before it was taken up again."""
        return _cost_usd(self.turns, self.children)

    async def start(self) -> None:
        """Accept the run: from here on it can be taken up again."""
        if not self.resumed:
            await self._add("start", self.id, self.playbook, {**self._about, "seedbed": _version()})
        emit(RunStarted(playbook=self.playbook, resumed=self.resumed))

    async def once(
        self, kind: str, name: str, request: object, work: Callable[[], Awaitable[Json]], *, risky: bool = False
    ) -> Json:
        """What was recorded for this request, or else what the work gives, durable before it is returned.

        The n-th request of the same words gets the n-th answer. What is `risky` is announced before it is done, so that
        after a crash it is known to be in doubt, and is not done again: RunError says so.
        """
        key = self._key(kind, name, request)
        if key in self._known:
            return self._known[key]
        if risky:
            await self._announced(key, name)
        began = time.perf_counter()
        body = await work()
        if kind != "turn":  # which is plain already
            body = _kept(body)
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

    async def turn(self, name: str, request: object, work: Callable[[], Awaitable[Turn]]) -> Turn:
        async def told() -> Json:
            done = await work()
            self._paid_usd += done.cost_usd
            return done.body()

        turn = Turn.from_body(await self.once("turn", name, request, told))
        self.turns.append(turn)
        return turn

    async def child(self, step: str, request: object, work: Callable[[str], Awaitable[Run]]) -> Child:
        """Another run opened by this one. The work is given its id, the same one whenever this run is taken up."""
        key = self._key("child", step, request)
        if key in self._known:
            child = Child(**self._known[key])
        else:
            run = await work(uuid.uuid5(uuid.UUID(self.id), key).hex)
            told = ("status", "output", "error", "tokens", "cost_usd")
            child = Child(run=run.id, step=step, **{name: getattr(run, name) for name in told})
            await self._add("child", key, self.id, child.body(), child.cost_usd)
        self.children.append(child)
        return child

    async def end(self, status: Status, output: Any = None, error: str = "") -> Run:
        """Record the outcome and return the whole run, just as `recall` will give it back."""
        run = Run(
            id=self.id,
            playbook=self.playbook,
            started=self._started,
            status=status,
            output=_kept(output),
            error=error,
            turns=tuple(self.turns),
            calls=tuple(self.calls),
            decisions=tuple(self.decisions),
            children=tuple(self.children),
            tokens=_tokens(self.turns, self.children),
            cost_usd=self.cost_usd,
            latency_seconds=time.perf_counter() - self._began,
            **self._about,
        )
        told = ("status", "output", "error", "tokens", "cost_usd", "latency_seconds")
        outcome = {name: getattr(run, name) for name in told}
        body = {**self._about, **outcome, "turns": len(run.turns), "seedbed": _version()}
        # A run that was taken up again ends again; what it paid before was told by the end before.
        key = f"{self.id}@{self._ends + 1}" if self._ends else self.id
        await self._add("run", key, self.playbook, body, self._paid_usd)
        self.tell(status)
        return run

    def tell(self, status: Status | Literal["interrupted"]) -> None:
        """Tell those who listen how it ended, and what was paid since it was last taken up."""
        if listeners:
            seconds = time.perf_counter() - self._began
            turns, tokens = len(self.turns), _tokens(self.turns, ())
            emit(RunEnded(status=status, turns=turns, tokens=tokens, cost_usd=self._paid_usd, latency_seconds=seconds))

    async def _add(self, kind: str, key: str, subject: str, body: Json, value: float | None = None) -> None:
        at = self._started if kind in ("start", "run") else self._clock()
        await self._journal.add(Fact(kind=kind, key=key, subject=subject, at=at, by=self._by, body=body, value=value))


@cache
def _version() -> str:
    return version("seedbed")


def _kept(value: Any) -> Any:
    """A value as a store gives it back: a copy that no program can alter."""
    return json.loads(canonical(value))


def recall(store: Store, run: str) -> Run:
    """A recorded run by its id, also one that has not ended. Raises NotFound."""
    start, ends = _start(store, run), _ends(store, run)
    entries = {kind: [fact.body for fact in store.facts(Query(kind=kind, subject=run))] for kind in ENTRIES}
    turns = tuple(map(Turn.from_body, entries["turn"]))
    children = tuple(Child(**body) for body in entries["child"])
    return _run(
        ends[-1] if ends else start,
        turns=turns,
        children=children,
        tokens=_tokens(turns, children),
        cost_usd=_cost_usd(turns, children),
        calls=tuple(Call(**body) for body in entries["call"]),
        decisions=tuple(Decision(**body) for body in entries["decision"]),
    )


def recent(store: Store, limit: int, playbook: Digest | None = None) -> Iterator[Run]:
    """The newest runs, without what happened in them."""
    for start in store.facts(Query(kind="start", subject=playbook, newest=True, limit=limit)):
        ends = _ends(store, start.key)
        yield _run(ends[-1] if ends else start)


def _start(store: Store, run: str) -> Fact:
    for fact in store.facts(Query(kind="start", key=run)):
        return fact
    raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")


def _ends(store: Store, run: str) -> list[Fact]:
    return list(store.facts(Query(kind="run", key_from=run)))


def _run(fact: Fact, **entries: Any) -> Run:
    """A run from its end or, if it has none, from its start."""
    body = fact.body
    return Run(
        id=fact.key.partition("@")[0],
        playbook=fact.subject,
        inputs=body["inputs"],
        seed=body["seed"],
        models=body["models"],
        parent=body["parent"],
        started=fact.at,
        status=body.get("status", "running"),
        output=body.get("output"),
        error=body.get("error", ""),
        latency_seconds=body.get("latency_seconds", 0.0),
        **{"turns": (), "tokens": body.get("tokens", 0), "cost_usd": body.get("cost_usd", 0.0), **entries},
    )


def _tokens(turns: Sequence[Turn], children: Sequence[Child]) -> int:
    return sum(turn.prompt_tokens + turn.completion_tokens for turn in turns) + sum(child.tokens for child in children)


def _cost_usd(turns: Sequence[Turn], children: Sequence[Child]) -> float:
    return sum(turn.cost_usd for turn in turns) + sum(child.cost_usd for child in children)
