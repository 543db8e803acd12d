"""Cell: one playbook at one task, once, by one metric. Cells: many of them, kept in columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, overload

from seedbed.evaluation.dataset import Task
from seedbed.evaluation.metrics import Metric
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest

if TYPE_CHECKING:
    import numpy as np

FEW = 500
"""So many cells are asked for by name; of more, all that a playbook has are looked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One (playbook, task, replicate) by one metric: the unit of evaluation, caching and resume.

    Without a value it was not scored, and `reason` says why. What is `reused` was paid before.
    """

    key: str
    playbook: Digest
    task: str
    replicate: int
    metric: str
    value: float | None
    reason: str = ""
    answer: str = ""
    run: str = ""
    cost_usd: float = 0.0
    latency_seconds: float = 0.0
    reused: bool = False

    def fact(self, at: datetime, by: str) -> Fact:
        body = {name: getattr(self, name) for name in _IN_BODY}
        return Fact(kind="cell", key=self.key, subject=self.playbook, at=at, by=by, body=body, value=self.value)

    @classmethod
    def known(cls, fact: Fact) -> Cell:
        return cls(key=fact.key, playbook=fact.subject, value=fact.value, reused=True, **fact.body)


_IN_BODY = ("task", "replicate", "metric", "reason", "answer", "run", "cost_usd", "latency_seconds")


class Names(NamedTuple):
    """The id of a run, and the keys of its cells in the order of the metrics."""

    run: str
    cells: tuple[str, ...]


class Naming:
    """The names of runs and cells: the same for the same playbook, models, inputs and replicate, whoever asks.

    Whatever else is to be scored, another metric or another expected answer, finds the run that was paid already.
    """

    def __init__(self, playbook: Digest, models: Json, metrics: Sequence[Metric]) -> None:
        self._about = digest("work", {"playbook": playbook, "models": models})
        self._metrics = [digest("metric", metric.identity)[3:19] for metric in metrics]

    def __call__(self, task: Task, replicate: int) -> Names:
        asked = canonical(dict(task.inputs))
        run = blake2b(f"{self._about}/{replicate}/{asked}".encode(), digest_size=16).hexdigest()
        what = task.digest[3:19]
        return Names(run, tuple(f"{run}/{metric}/{what}" for metric in self._metrics))


def recorded(store: Store, playbook: Digest, keys: Collection[str]) -> dict[str, Cell]:
    """Those of the cells that were paid before."""
    if not keys:
        return {}
    wanted = keys if isinstance(keys, set | frozenset | dict) else {*keys}
    query = Query(kind="cell", keys=sorted(keys)) if len(keys) <= FEW else Query(kind="cell", subject=playbook)
    return {fact.key: Cell.known(fact) for fact in store.facts(query) if fact.key in wanted}


def performed(store: Store, playbook: Digest, runs: Collection[str]) -> set[str]:
    """Those of the runs that were completed before."""
    if not runs:
        return set()
    query = Query(kind="run", keys=sorted(runs)) if len(runs) <= FEW else Query(kind="run", subject=playbook)
    return {fact.key for fact in store.facts(query) if fact.key in runs and fact.body["status"] == "completed"}


class Cells(Sequence[Cell]):
    """Cells in columns: a few bytes for each number, and its texts."""

    def __init__(self, playbook: Digest, cells: Iterable[Cell] = ()) -> None:
        self.playbook = playbook
        self._values, self._costs, self._latencies = array("d"), array("d"), array("d")
        self._replicates, self._metrics, self._reused = array("l"), array("b"), array("b")
        self._names: dict[str, int] = {}
        self._texts: list[tuple[str, str, str, str, str]] = []
        for cell in cells:
            self.append(cell)

    def append(self, cell: Cell) -> None:
        self._values.append(float("nan") if cell.value is None else cell.value)
        self._costs.append(cell.cost_usd)
        self._latencies.append(cell.latency_seconds)
        self._replicates.append(cell.replicate)
        self._metrics.append(self._names.setdefault(cell.metric, len(self._names)))
        self._reused.append(cell.reused)
        self._texts.append((cell.key, cell.task, cell.reason, cell.answer, cell.run))

    @property
    def metrics(self) -> list[str]:
        return list(self._names)

    def column(self, name: str) -> np.ndarray:
        """The values, costs or latencies of all cells, with NaN where there is no value."""
        import numpy as np

        columns = {"value": self._values, "cost_usd": self._costs, "latency_seconds": self._latencies}
        return np.frombuffer(columns[name], dtype=np.float64) if self._values else np.empty(0)

    def of(self, metric: str) -> Cells:
        """The cells of one metric."""
        return self.where(lambda cell: cell.metric == metric) if len(self._names) > 1 else self

    def where(self, test: Callable[[Cell], bool]) -> Cells:
        return Cells(self.playbook, filter(test, self))

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> Cells: ...
    def __getitem__(self, index: int | slice) -> Cell | Cells:
        if isinstance(index, slice):
            return Cells(self.playbook, (self[position] for position in range(*index.indices(len(self)))))
        key, task, reason, answer, run = self._texts[index]
        value = self._values[index]
        return Cell(
            key=key,
            playbook=self.playbook,
            task=task,
            replicate=self._replicates[index],
            metric=list(self._names)[self._metrics[index]],
            value=None if value != value else value,
            reason=reason,
            answer=answer,
            run=run,
            cost_usd=self._costs[index],
            latency_seconds=self._latencies[index],
            reused=bool(self._reused[index]),
        )

    def __iter__(self) -> Iterator[Cell]:
        return (self[position] for position in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
