"""Cell: one playbook on one task, once, by one metric. Cells: many of them, in columns."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np

from seedbed.errors import StoreDamaged
from seedbed.evaluation.datasets.dataset import Task
from seedbed.storage.store import BriefFact, Digest, Fact, Json, Query, Store, canonical, digest, in_brief, short

FEW = 500
"""Up to this many cells are queried by key; beyond that, all cells of the playbook are read."""

SOME = 200
"""How many bodies are parsed at a time: few enough not to trigger the garbage collector."""

ALIKE = 3
"""How many characters the ids of the runs of one playbook share, so that databases store them near each other: with
many cells that halves the cost of adding one. The other characters still distinguish them where people see ten."""


Fault: TypeAlias = Literal["", "agent", "infrastructure", "metric"]
"""Whose fault it is that there is no score: that of the agent itself; of a provider, a network or a worker; or of the
metric, which gave a completed run none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One (playbook, task, replicate) by one metric: the unit of evaluation, caching and resume.

    Without a value it was not scored: `reason` says why, and `fault` whose fault it is. A `reused` cell was paid for
    before. It cost at least `cost_usd` if `unpriced` calls of its run have an unknown price.
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
    tokens: int = 0
    latency_seconds: float = 0.0
    reused: bool = False
    fault: Fault = ""
    unpriced: int = 0

    def fact(self, at: datetime, by: str) -> Fact:
        body = {name: getattr(self, name) for name in _IN_BODY} | ({"unpriced": self.unpriced} if self.unpriced else {})
        return Fact(kind="cell", key=self.key, subject=self.playbook, at=at, by=by, body=body, value=self.value)


_IN_BODY = ("task", "replicate", "metric", "reason", "answer", "run", "cost_usd", "tokens", "latency_seconds")
_columns = itemgetter(*_IN_BODY)
_NUMBERS = {"value": "d", "cost_usd": "d", "tokens": "q", "latency_seconds": "d"}
_NUMBERS |= {"replicate": "l", "metric": "h", "reused": "b", "unpriced": "l"}
_TEXTS = ("key", "task", "reason", "answer", "run", "fault")


class RunNames(NamedTuple):
    """The id of a run, and the keys of its cells in the order of the metrics."""

    run: str
    cells: Sequence[str]


class TaskTexts:
    """The texts of tasks, made once for all playbooks."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Task, str, str]] = {}  # holds the task, so that its id() is not reused

    def __call__(self, task: Task) -> tuple[str, str]:
        """The text of its inputs, and the beginning of its digest."""
        known = self._known.get(id(task))
        if known is None:
            inputs = canonical(dict(task.inputs))
            # This is the digest of the task; its inputs, which may be long, are serialised only once.
            text = f'task\n{{"expected":{canonical(task.expected)},"id":{canonical(task.id)},"inputs":{inputs}}}'
            known = task, inputs, blake2b(text.encode(), digest_size=32).hexdigest()[:16]
            self._known[id(task)] = known
        return known[1:]


class Naming:
    """The ids of runs and the keys of cells: always the same for the same playbook, models, inputs and replicate.

    Another metric, or another expected answer, reuses the run that was paid for. `metrics` are identities of metrics.
    """

    def __init__(self, playbook: Digest, models: Json, metrics: Sequence[Json], texts: TaskTexts | None = None) -> None:
        self._texts = texts or TaskTexts()
        self._about = digest("work", {"playbook": playbook, "models": models})
        self._beginning = self._about[3 : 3 + ALIKE]
        self._metrics = [digest("metric", identity)[3:19] for identity in metrics]

    def __call__(self, task: Task, replicate: int) -> RunNames:
        inputs, what = self._texts(task)
        work = blake2b(f"{self._about}/{replicate}/{inputs}".encode(), digest_size=16).hexdigest()
        run = self._beginning + work[ALIKE:]
        return RunNames(run, [f"{run}/{metric}/{what}" for metric in self._metrics])


def run_of(key: str) -> str:
    """The id of the run that the cell of that key scores."""
    return key.partition("/")[0]


def recorded_cells(store: Store, playbook: Digest, keys: Collection[str]) -> Cells:
    """The stored cells among these keys, in the order in which they were stored."""
    cells = Cells(playbook)
    cells.read(_known(store, "cell", playbook, keys))
    return cells


def completed_runs(store: Store, playbook: Digest, runs: Collection[str]) -> set[str]:
    """The runs among these that were completed before."""
    return {key for key, _, body in _known(store, "run", playbook, runs) if json.loads(body)["status"] == "completed"}


def _known(store: Store, kind: str, playbook: Digest, keys: Collection[str]) -> Iterator[BriefFact]:
    if not keys:
        return iter(())
    if len(keys) <= FEW:
        return in_brief(store, Query(kind=kind, keys=sorted(keys)))
    wanted = keys if isinstance(keys, Set | Mapping) else {*keys}
    return (brief for brief in in_brief(store, Query(kind=kind, subject=playbook)) if brief[0] in wanted)


class Cells(Sequence[Cell]):
    """Cells in columns: a few bytes for each number, and its texts.

    Of cells read from a store, keys and values are parsed at once, bodies only when another column is needed, or when
    `append` adds a cell after them.
    """

    def __init__(self, playbook: Digest, cells: Iterable[Cell] = ()) -> None:
        self.playbook = playbook
        self._numbers: dict[str, array[Any]] = {name: array(kind) for name, kind in _NUMBERS.items()}
        self._texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self._names: dict[str, int] = {}
        self._bodies: list[str] = []
        for cell in cells:
            self.append(cell)

    def append(self, cell: Cell) -> None:
        self._open()
        metric = self._names.setdefault(cell.metric, len(self._names))
        value = math.nan if cell.value is None else cell.value
        took = (cell.cost_usd, cell.tokens, cell.latency_seconds)
        numbers = (value, *took, cell.replicate, metric, cell.reused, cell.unpriced)
        for column, number in zip(self._numbers.values(), numbers, strict=True):
            column.append(number)
        for name, texts in self._texts.items():
            texts.append(getattr(cell, name))

    def read(self, facts: Iterable[BriefFact]) -> None:
        """Append stored cells, by their facts."""
        keys, values = self._texts["key"], self._numbers["value"]
        for key, value, body in facts:
            keys.append(key)
            values.append(math.nan if value is None else value)
            self._bodies.append(body)

    def take(self, places: Iterable[int]) -> Cells:
        """The cells at those places, in that order."""
        if len(self._bodies) < len(self):
            self._open()
        some, wanted = Cells(self.playbook), list(places)
        for name, column in self._numbers.items():
            some._numbers[name].extend([column[place] for place in wanted] if column else ())
        for name, texts in self._texts.items():
            some._texts[name] += [texts[place] for place in wanted] if texts else ()
        some._bodies += [self._bodies[place] for place in wanted] if self._bodies else ()
        some._names |= self._names
        return some

    @property
    def metrics(self) -> list[str]:
        """Their metrics, in the order in which they come."""
        self._open()
        names = list(self._names)
        return [names[number] for number in dict.fromkeys(self._numbers["metric"])]

    def column(self, name: str) -> np.ndarray:
        """The values (NaN where there is none), costs, tokens or latencies of all cells, or which are reused."""
        if name != "value":
            self._open()
        return np.array(self._numbers[name], bool if name == "reused" else None)

    def texts(self, name: str) -> Sequence[str]:
        """The keys, tasks, reasons, answers or runs of all cells."""
        if name != "key":
            self._open()
        return self._texts[name]

    def of(self, metric: str) -> Cells:
        """The cells of one metric."""
        self._open()
        return self.where(self.column("metric") == self._names.get(metric, -1))

    def where(self, chosen: np.ndarray) -> Cells:
        """The cells for which `chosen` is true."""
        return self if chosen.all() else self.take(chosen.nonzero()[0].tolist())

    def _open(self) -> None:
        """Parse the bodies that are still text."""
        if not self._bodies:
            return
        read: dict[str, list[Any]] = {name: [] for name in _IN_BODY}
        unpriced: list[int] = []
        try:
            for start in range(0, len(self._bodies), SOME):
                some = self._bodies[start : start + SOME]
                bodies = json.loads(f"[{','.join(some)}]")  # together they take half the time
                if len(bodies) != len(some):
                    raise ValueError("not one body each")
                for column, values in zip(read.values(), zip(*map(_columns, bodies), strict=True), strict=True):
                    column.extend(values)
                unpriced += [body.get("unpriced", 0) for body in bodies]
        except (ValueError, KeyError, TypeError):
            name = short(self.playbook)
            raise StoreDamaged(
                f"a cell of {name} is no longer a complete fact. Find it: seedbed store verify"
            ) from None
        read["metric"] = [self._names.setdefault(metric, len(self._names)) for metric in read["metric"]]
        read["reused"] = [True] * len(self._bodies)
        read["fault"] = [""] * len(self._bodies)
        read["unpriced"] = unpriced
        for name, numbers in self._numbers.items():
            numbers.extend(read.get(name, ()))
        for name, texts in self._texts.items():
            texts.extend(read.get(name, ()))
        self._bodies = []

    def __len__(self) -> int:
        return len(self._texts["key"])

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> Cells: ...
    def __getitem__(self, index: int | slice) -> Cell | Cells:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        self._open()
        numbers = (column[index] for column in self._numbers.values())
        value, cost, tokens, latency, replicate, metric, reused, unpriced = numbers
        return Cell(
            playbook=self.playbook,
            value=None if value != value else value,
            cost_usd=cost,
            tokens=tokens,
            latency_seconds=latency,
            replicate=replicate,
            metric=list(self._names)[metric],
            reused=bool(reused),
            unpriced=unpriced,
            **{name: texts[index] for name, texts in self._texts.items()},  # type: ignore[arg-type]
        )

    def __iter__(self) -> Iterator[Cell]:
        return (self[position] for position in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
