"""Scorecard: the cells of one playbook over one set of tasks, and their means with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.documents import html_table
from seedbed.errors import amount
from seedbed.evaluation.cells import Cell, Cells
from seedbed.evaluation.datasets.check import shared_source
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.intervals import mean_score
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.plugins import load, optional
from seedbed.stats.estimates import Interval
from seedbed.stats.scores import few_sources
from seedbed.storage.store import Digest, Json, canonical, short

if TYPE_CHECKING:
    import pandas as pd

FEW = 12
"""Sources and expected answers get a line each if there are at most this many."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of the latency of runs, in seconds. None where nothing was run."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One task of a scorecard: its score, and its worst replicate."""

    task: str
    value: float
    cell: Cell


@dataclass(frozen=True)
class Scorecard:
    """The scores of a playbook. `metric` is the one that decides; there may be cells of others.

    `lower` names the metrics for which lower is better.
    """

    playbook: Digest
    metric: str
    cells: Sequence[Cell]
    tasks: Mapping[str, Task] = field(default_factory=dict, compare=False, repr=False)
    lower: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    paid_usd: float | None = field(default=None, compare=False, repr=False)
    """What this evaluation cost, with judges and failed runs; None where only the costs of the cells are known."""

    def __repr__(self) -> str:
        return f"<Scorecard {short(self.playbook)} {self.metric} {self.interval} on {self.interval.n} tasks>"

    def _repr_html_(self) -> str:
        cards = [self.of(metric) for metric in self.metrics]
        rows = [(card.metric, card.interval, card.interval.n, len(card.unscored)) for card in cards]
        worth = amount(self.worth_usd, self.worth_unpriced, "${:.4f}".format)
        note = f"95 % intervals. All runs cost {worth}, of which ${self.cost_usd:.4f} was paid now."
        return html_table(f"Scorecard of {short(self.playbook)}", rows, ("metric", "mean", "tasks", "not scored"), note)

    @cached_property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys([self.metric, *self._columns.metrics]))

    def of(self, metric: str) -> Scorecard:
        """The same by another metric."""
        return self if metric == self.metric else replace(self, metric=metric, cells=self._columns)

    @cached_property
    def _columns(self) -> Cells:
        return self.cells if isinstance(self.cells, Cells) else Cells(self.playbook, self.cells)

    def only(self, tasks: Mapping[str, Task]) -> Scorecard:
        """The same over some of the tasks."""
        places = (place for place, task in enumerate(self._columns.texts("task")) if task in tasks)
        return replace(self, cells=self._columns.take(places), tasks=tasks, paid_usd=None)

    @cached_property
    def own(self) -> Cells:
        """The cells of its metric."""
        return self._columns.of(self.metric)

    @cached_property
    def scored(self) -> Cells:
        return self.own.where(self.own.column("value") == self.own.column("value"))

    @cached_property
    def unscored(self) -> Cells:
        return self.own.where(self.own.column("value") != self.own.column("value"))

    @property
    def reasons(self) -> dict[str, int]:
        """Why cells have no value, and how many for each reason, the commonest first."""
        return dict(Counter(cell.reason for cell in self.unscored).most_common())

    @property
    def unpaid(self) -> tuple[Cell, ...]:
        """Cells without a value because the budget of the evaluation was spent."""
        return tuple(cell for cell in self.unscored if any(sign in cell.reason for sign in _UNPAID))

    @property
    def reused(self) -> int:
        """How many of its cells were paid for before."""
        return int(self.own.column("reused").sum())

    # How good

    @cached_property
    def means(self) -> dict[str, float]:
        """The score of each task, replicates averaged."""
        by_task: dict[str, list[float]] = {}
        for task, value in zip(self.scored.texts("task"), self.scored.column("value").tolist(), strict=True):
            by_task.setdefault(task, []).append(value)
        return {task: math.fsum(values) / len(values) for task, values in by_task.items()}

    @cached_property
    def interval(self) -> Interval:
        """The mean over tasks with its interval, which allows for tasks that share a source."""
        return mean_score(self.metric, list(self.means.values()), self.sources(self.means))

    @cached_property
    def warning(self) -> str:
        """Why to expect little of its interval, if there is a reason: few sources, or tasks that seem to share some."""
        if sources := self.sources(self.means):
            return few_sources(len({*sources}))
        return shared_source([self.tasks[name] for name in self.means if name in self.tasks])

    def sources(self, tasks: Iterable[str]) -> list[Hashable] | None:
        """The source of each task; None if no tasks share one."""
        known = [(name, self.tasks.get(name)) for name in tasks]
        sources: list[Hashable] = [("in", task.source) if task and task.source else name for name, task in known]
        return sources if len({*sources}) < len(sources) else None

    @cached_property
    def strata(self) -> dict[str, dict[str, Scorecard]]:
        """The same for each tag, source and expected answer; sources and answers where they are few."""
        cards_of: dict[str, dict[str, Scorecard]] = {"tag": self._by(lambda task: task.tags)}
        # Within one source its tasks count as independent.
        by_source = self._by(lambda task: (task.source,) if task.source else (), few=True)
        cards_of["source"] = {name: replace(card, tasks=_apart(card.tasks)) for name, card in by_source.items()}
        cards_of["expected"] = self._by(lambda task: () if task.expected is None else (_text(task.expected),), few=True)
        return {kind: cards for kind, cards in cards_of.items() if cards}

    def _by(self, names: Callable[[Task], Iterable[str]], few: bool = False) -> dict[str, Scorecard]:
        groups: dict[str, dict[str, Task]] = {}
        for task in self.tasks.values():
            for name in names(task):
                groups.setdefault(name, {})[task.id] = task
        if few and not 2 <= len(groups) <= FEW:
            return {}
        places: dict[str, list[int]] = {}
        for place, its in enumerate(self._columns.texts("task")):
            places.setdefault(its, []).append(place)
        rows = {name: [place for each in its for place in places.get(each, ())] for name, its in groups.items()}
        return {
            name: replace(self, cells=self._columns.take(rows[name]), tasks=tasks, paid_usd=None)
            for name, tasks in sorted(groups.items())
        }

    def worst(self, limit: int = 5) -> list[TaskScore]:
        """The tasks with the worst scores, each with its worst replicate; tasks with a perfect score are left out."""
        sign = -1.0 if self.metric in self.lower else 1.0
        perfect = 0.0 if self.metric in self.lower else 1.0
        wrong = [task for task, mean in self.means.items() if mean != perfect]
        worst = sorted(wrong, key=lambda task: sign * self.means[task])[:limit]
        cells: dict[str, list[Cell]] = {task: [] for task in worst}
        for place, task in enumerate(self.scored.texts("task")):
            if task in cells:
                cells[task].append(self.scored[place])
        return [
            TaskScore(task, self.means[task], min(cells[task], key=lambda cell: sign * (cell.value or 0.0)))
            for task in worst
        ]

    # What it took

    @cached_property
    def runs(self) -> dict[str, Cell]:
        """One cell for each run, by any of its metrics."""
        return {cell.run: cell for cell in self._performed}

    @cached_property
    def _performed(self) -> Cells:
        places = {run: place for place, run in enumerate(self._columns.texts("run")) if run}
        return self._columns.take(places.values())

    @property
    def cost_usd(self) -> float:
        """What this evaluation cost."""
        if self.paid_usd is not None:
            return self.paid_usd
        return math.fsum(self.own.column("cost_usd")[~self.own.column("reused")])

    @property
    def unpriced(self) -> int:
        """How many calls of this evaluation have an unknown price: it cost at least `cost_usd`."""
        return int(self.own.column("unpriced")[~self.own.column("reused")].sum())

    @property
    def worth_usd(self) -> float:
        """What all of its runs and their judges cost, whenever they were paid for."""
        return self._worth("cost_usd")

    @property
    def worth_unpriced(self) -> int:
        """How many of all its calls have an unknown price."""
        return int(self._worth("unpriced"))

    def _worth(self, name: str) -> float:
        costs: dict[str, list[float]] = {}
        for run, cost in zip(self._columns.texts("run"), self._columns.column(name).tolist(), strict=True):
            if run:
                costs.setdefault(run, []).append(cost)
        # Each cell has the cost of the run and that of its own judge, if it has one.
        return math.fsum(min(each) + math.fsum(cost - min(each) for cost in each) for each in costs.values())

    @cached_property
    def latencies(self) -> list[float]:
        """How long each run took, in seconds, the quickest first."""
        return sorted(self._performed.column("latency_seconds").tolist())

    @property
    def latency_seconds(self) -> Percentiles:
        if not self.latencies:
            return Percentiles()
        return Percentiles(*(_percentile(self.latencies, share) for share in (0.5, 0.95, 0.99)))

    def export(self, to: str | Path, *, name: str = "") -> str | bytes | Path:
        """The scorecard as `json`, `csv`, `md` or `html`; or the path of the file that it was written to, if `to` is
        one that ends so. `name` is the name of its playbook."""
        report: str | bytes | Path = load("seedbed.reports.scorecard:export", "export")(self, to, name=name)
        return report

    def figures(self, *, name: str = "") -> Mapping[str, Any]:
        """The figures of its report by their titles. Each shows itself in a notebook, and `save(path)` writes it to a
        file: .svg, .png or .pdf."""
        drawn: Mapping[str, Any] = load("seedbed.reports.scorecard:figures", "figures")(self, name)
        return drawn

    def to_json(self) -> str:
        return str(self.export("json"))

    def to_pandas(self) -> pd.DataFrame:
        """Its cells, a row each, with the tags, source and expected answer of their tasks.

        Raises SettingsError where pandas is not installed.
        """
        pandas = optional("pandas", extra="frames", needed_for="to_pandas()")
        frame: pd.DataFrame = pandas.DataFrame(list(self.rows()), columns=[*ROW])
        return frame

    def rows(self) -> Iterable[dict[str, Any]]:
        """Its cells as flat rows with the keys of ROW."""
        for cell in self.cells:
            task = self.tasks.get(cell.task)
            about = {
                "tags": " ".join(task.tags) if task else "",
                "source": task.source if task else "",
                "expected": _text(task.expected) if task and task.expected is not None else "",
            }
            row = {**asdict(cell), **about}
            yield {name: row[name] for name in ROW}


_UNPAID = ("the money for this evaluation was spent", "expected enough for another answer", "cost_limited")
"""What reasons contain where the budget was spent."""

ROW = (
    *("playbook", "task", "replicate", "metric", "value", "reason", "answer", "expected", "tags", "source"),
    *("run", "cost_usd", "tokens", "latency_seconds", "reused", "unpriced"),
)
"""The columns of a row about a cell."""


def scorecard(
    playbook: Digest,
    metrics: Sequence[Metric],
    cells: Cells,
    tasks: Sequence[Task],
    *,
    paid_usd: float | None = None,
) -> Scorecard:
    lower = frozenset(metric.name for metric in metrics if better(metric) == "lower")
    return Scorecard(playbook, metrics[0].name, cells, {task.id: task for task in tasks}, lower, paid_usd)


def _apart(tasks: Mapping[str, Task]) -> dict[str, Task]:
    return {name: replace(task, source="") for name, task in tasks.items()}


def _text(expected: object) -> str:
    return expected if isinstance(expected, str) else canonical(expected)


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest values, as in numpy."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def finite(number: float) -> float | None:
    """The number, or None if it is NaN or infinite, for which JSON has no text."""
    return number if math.isfinite(number) else None


def interval_document(interval: Interval) -> Json:
    return {
        "mean": finite(interval.mean),
        "low": finite(interval.low),
        "high": finite(interval.high),
        "confidence": interval.confidence,
        "tasks": interval.n,
    }
