"""Save each turn as it completes, and the run when it ends; read runs back."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from seedbed.errors import NotFound, shown
from seedbed.runs.run import Run, Status, Turn
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical


class Recorder:
    """The record of one run: turns are facts the moment they are done, the run is one when it ends.

    Raises StoreError for inputs, and for an output, that JSON cannot hold.
    """

    def __init__(
        self,
        store: Store,
        playbook: Digest,
        inputs: Json,
        *,
        seed: int,
        by: str,
        models: Json,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.id = uuid.uuid4().hex
        self.turns: list[Turn] = []
        self._store = store
        self._clock = clock
        self._by = by
        about = {"inputs": inputs, "seed": seed, "models": models, "seedbed": version("seedbed")}
        self._about: Json = _kept(about)
        self._playbook = playbook
        self._started = clock()
        self._began = time.perf_counter()

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        key = f"{self.id}/{len(self.turns)}"
        self._append("turn", key, self.id, turn.body(), turn.latency_seconds)

    def end(self, status: Status, output: Any = None, error: str = "") -> Run:
        """Record the outcome and return the whole run, just as `recall` will give it back."""
        output = _kept(output)
        seconds = time.perf_counter() - self._began
        run = Run(
            id=self.id,
            playbook=self._playbook,
            inputs=self._about["inputs"],
            seed=self._about["seed"],
            models=self._about["models"],
            started=self._started,
            status=status,
            output=output,
            error=error,
            turns=tuple(self.turns),
            latency_seconds=seconds,
        )
        outcome = {"status": status, "output": output, "error": error, "latency_seconds": seconds}
        body = {**self._about, **outcome, "cost_usd": run.cost_usd, "tokens": run.tokens, "turns": len(self.turns)}
        self._append("run", self.id, self._playbook, body, run.cost_usd)
        return run

    def _append(self, kind: str, key: str, subject: str, body: Json, value: float) -> None:
        at = self._started if kind == "run" else self._clock()
        self._store.append([Fact(kind=kind, key=key, subject=subject, at=at, by=self._by, body=body, value=value)])


def _kept(value: Any) -> Any:
    """A value as a store gives it back: a copy that no program can alter."""
    return json.loads(canonical(value))


def recall(store: Store, run: str) -> Run:
    """A recorded run by its id. Raises NotFound."""
    for fact in store.facts(Query(kind="run", key=run)):
        return _run(fact, [Turn.from_body(turn.body) for turn in store.facts(Query(kind="turn", subject=run))])
    raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")


def recent(store: Store, limit: int) -> Iterator[Run]:
    """The newest runs, without their turns."""
    return (_run(fact, []) for fact in store.facts(Query(kind="run", newest=True, limit=limit)))


def _run(fact: Fact, turns: list[Turn]) -> Run:
    body = fact.body
    return Run(
        id=fact.key,
        playbook=fact.subject,
        inputs=body["inputs"],
        seed=body["seed"],
        models=body["models"],
        started=fact.at,
        status=body["status"],
        output=body["output"],
        error=body["error"],
        turns=tuple(turns),
        latency_seconds=body["latency_seconds"],
    )
