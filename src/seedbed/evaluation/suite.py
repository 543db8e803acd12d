"""Suite: a folder of datasets, metrics and baselines that is run repeatedly and compared with the last time."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from seedbed import documents
from seedbed.documents import Document
from seedbed.errors import DatasetError, DocumentError, Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.intervals import mean_gain
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.evaluation.metrics.registry import by_name, parse_metric
from seedbed.evaluation.scorecard import Scorecard, finite
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.estimates import Interval, mcnemar
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest

FILE = "suite.yaml"
KEYS = ("name", "metrics", "baselines", "datasets", "replicates")
BOUNDS = ("at_least", "at_most")
PART_KEYS = ("tasks", "split", "metrics", *BOUNDS)


@dataclass(frozen=True)
class SuiteDataset:
    """One dataset of a suite: its metrics, of which the first decides, and thresholds for their means."""

    name: str
    tasks: Dataset
    metrics: tuple[Metric, ...]
    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Datasets with their metrics, and baselines to compare with."""

    name: str
    parts: tuple[SuiteDataset, ...]
    baselines: Mapping[str, Playbook]
    replicates: int = 1

    @classmethod
    def load(cls, folder: Path | str) -> Suite:
        """Read `suite.yaml` of a folder and all it names. Raises DatasetError with every problem and its place."""
        path = Path(folder)
        path = path / FILE if path.is_dir() else path
        document = documents.read(path, DatasetError)
        reader = _SuiteReader(document, path.parent)
        suite = reader.suite(path.resolve().parent.name)
        if reader.problems or suite is None:
            raise DatasetError(reader.problems, str(path))
        return suite


@dataclass(frozen=True)
class SuiteChange:
    """How much better or worse than the last time, on the tasks that both evaluations share.

    The interval is that of the paired difference, above 0 for better. `playbook` was evaluated then.
    """

    difference: Interval
    playbook: Digest
    at: datetime
    regressed: bool


@dataclass(frozen=True)
class SuiteScore:
    """One playbook on one dataset of a suite by one metric. `missed` names the threshold that it misses."""

    suite: str
    name: str
    dataset: str
    digest: Digest
    card: Scorecard
    change: SuiteChange | None = None
    missed: str = ""

    @property
    def metric(self) -> str:
        return self.card.metric

    def body(self) -> Json:
        """What is stored: the score of each task by the digest of the task."""
        interval = self.card.interval
        names = {task: self.card.tasks[task].digest[3:19] for task in self.card.means}
        return {
            "suite": self.suite,
            "name": self.name,
            "dataset": self.dataset,
            "dataset_digest": self.digest,
            "metric": self.metric,
            "low": finite(interval.low),
            "high": finite(interval.high),
            "tasks": interval.n,
            "cost_usd": self.card.worth_usd,
            "regressed": bool(self.change and self.change.regressed),
            "means": {names[task]: mean for task, mean in self.card.means.items()},
        }


EvaluateDataset = Callable[[str, Playbook, SuiteDataset], Awaitable[Scorecard]]
"""Scores a playbook, given with its name, on a dataset of a suite."""


async def measure_suite(
    suite: Suite,
    playbooks: Mapping[str, Playbook],
    evaluate: EvaluateDataset,
    store: Store,
    *,
    judged: Iterable[str] = (),
) -> list[SuiteScore]:
    """Evaluate every playbook on every dataset by every metric, and compare with the last stored results.

    Thresholds apply to the playbooks that are `judged`; default: to all.
    """
    strict = {*judged} or {*playbooks}
    results = []
    for part in suite.parts:
        for name, playbook in playbooks.items():
            card = await evaluate(name, playbook, part)
            for metric in part.metrics:
                by = card.of(metric.name)
                change = _since(store, suite.name, part.name, name, by, better(metric) == "lower")
                missed = _missed(part, by) if name in strict else ""
                results.append(SuiteScore(suite.name, name, part.name, part.tasks.digest, by, change, missed))
    return results


def record_results(results: Iterable[SuiteScore], store: Store, *, by: str, at: datetime, accept: bool = False) -> None:
    """Store results for the next comparison. Results that are worse count only if they are accepted."""
    facts = []
    for result in results:
        if result.card.interval.n:
            body = {**result.body(), **({"regressed": False} if accept else {})}
            key = f"{_prefix(result.suite, result.dataset, result.metric, result.name)}{at.isoformat()}"
            mean, subject = result.card.interval.mean, result.card.playbook
            facts.append(Fact(kind="suite", key=key, subject=subject, at=at, by=by, body=body, value=mean))
    store.append(facts)


def _prefix(*about: str) -> str:
    return f"{digest('suite', list(about))[3:35]}/"


def _since(store: Store, suite: str, dataset: str, name: str, card: Scorecard, lower: bool) -> SuiteChange | None:
    query = Query(kind="suite", key_from=_prefix(suite, dataset, card.metric, name), newest=True)
    last = next((fact for fact in store.facts(query) if not fact.body["regressed"]), None)
    if last is None:
        return None
    before = last.body["means"]
    names = {task: card.tasks[task].digest[3:19] for task in card.means}
    shared = [task for task in card.means if names[task] in before]
    then, now = [before[names[task]] for task in shared], [card.means[task] for task in shared]
    if lower:
        then, now = now, then
    difference = mean_gain(card.metric, then, now, card.sources(shared))
    regressed, gains = difference.high < 0, [after - before for before, after in zip(then, now, strict=True)]
    if regressed and {*gains} <= {-1.0, 0.0, 1.0}:  # an interval of few changes is not exact
        regressed = mcnemar(gains.count(1.0), gains.count(-1.0)) <= 0.05
    return SuiteChange(difference, last.subject, last.at, regressed)


def _missed(part: SuiteDataset, card: Scorecard) -> str:
    mean, n = card.interval.mean, card.interval.n
    least, most = part.at_least.get(card.metric), part.at_most.get(card.metric)
    if least is None and most is None:
        return ""
    if not n:
        return "no score"
    if least is not None and mean < least:
        return f"below {least:g}"
    return f"above {most:g}" if most is not None and mean > most else ""


class _SuiteReader:
    """Reads a suite and collects all its problems."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.document = document
        self.folder = folder
        self.problems: list[Problem] = []

    def suite(self, name: str) -> Suite | None:
        body = self._mapping("", self.document.value, KEYS)
        metrics = self._metrics("metrics", body.get("metrics", ["exact_match"]))
        parts = [
            self._part(each, about, metrics) for each, about in self._mapping("datasets", body.get("datasets")).items()
        ]
        if "datasets" not in body:
            self._wrong("datasets", "nothing", "at least one dataset by its name")
        baselines = {
            each: playbook
            for each, file in self._mapping("baselines", body.get("baselines", {})).items()
            if (playbook := self._playbook(f"baselines.{each}", file))
        }
        replicates = body.get("replicates", 1)
        if not isinstance(replicates, int) or isinstance(replicates, bool) or replicates < 1:
            self._wrong("replicates", shown(replicates), "a whole number, at least 1")
        called = body.get("name", name)
        if not isinstance(called, str) or not called:
            self._wrong("name", shown(called), "a text")
        if self.problems:
            return None
        return Suite(called, tuple(part for part in parts if part), baselines, replicates)

    def _part(self, name: str, about: Any, default: tuple[Metric, ...]) -> SuiteDataset | None:
        path = f"datasets.{name}"
        body = self._mapping(path, {"tasks": about} if isinstance(about, str) else about, PART_KEYS)
        if not body and about != {}:
            return None
        metrics = self._metrics(f"{path}.metrics", body["metrics"]) if "metrics" in body else default
        at_least, at_most = (self._bounds(f"{path}.{key}", body.get(key, {}), metrics) for key in BOUNDS)
        tasks = self._tasks(path, body)
        return SuiteDataset(name, tasks, metrics, at_least, at_most) if tasks else None

    def _tasks(self, path: str, body: Mapping[str, Any]) -> Dataset | None:
        file, split = body.get("tasks"), body.get("split")
        if not isinstance(file, str):
            self._wrong(f"{path}.tasks", shown(file) if file is not None else "nothing", "a file or folder of tasks")
            return None
        try:
            tasks = Dataset.load(self.folder / file)
            return tasks.only(split=str(split)) if split is not None else tasks
        except DocumentError as wrong:
            self._within(f"{path}.tasks", file, wrong)
        return None

    def _playbook(self, path: str, file: Any) -> Playbook | None:
        if not isinstance(file, str):
            self._wrong(path, shown(file), "the file of a playbook")
            return None
        try:
            return Playbook.load(self.folder / file)
        except DocumentError as wrong:
            self._within(path, file, wrong)
        return None

    def _metrics(self, path: str, listed: Any) -> tuple[Metric, ...]:
        metrics: dict[str, Metric] = {}
        if not isinstance(listed, list) or not listed:
            self._wrong(path, shown(listed), "a list of metrics, such as [exact_match]")
            return ()
        for place, each in enumerate(listed):
            try:
                metric = parse_metric(each) if isinstance(each, str) else by_name(each)
                metrics[metric.name] = metric
            except DocumentError as wrong:
                self._within(f"{path}[{place}]", "", wrong)
            except TypeError:
                self._wrong(f"{path}[{place}]", shown(each), "a metric")
        return tuple(metrics.values())

    def _bounds(self, path: str, body: Any, metrics: Sequence[Metric]) -> dict[str, float]:
        bounds = self._mapping(path, body)
        known = [metric.name for metric in metrics]
        for name, bound in bounds.items():
            if known and name not in known:
                self._wrong(f"{path}.{name}", "no metric of this dataset", f"one of: {', '.join(known)}")
            if not isinstance(bound, int | float) or isinstance(bound, bool) or not math.isfinite(bound):
                self._wrong(f"{path}.{name}", shown(bound), "a number")
        return bounds

    def _mapping(self, path: str, value: Any, keys: Sequence[str] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            if value is not None or path != "datasets":
                self._wrong(path or "document", shown(value), "names with values")
            return {}
        for key in value:
            if keys and key not in keys:
                self._wrong(f"{path}.{key}".lstrip("."), "no such key", f"one of: {', '.join(keys)}")
        return value

    def _within(self, path: str, file: str, wrong: DocumentError) -> None:
        for each in wrong.problems:
            about = f"{file}: {each.path}: {each.found}" if file else each.found
            self._wrong(path, about, each.expected, each.remedy)

    def _wrong(self, path: str, actual: str, expected: str, remedy: str = "") -> None:
        line = self.document.lines.get(path)
        place = f"{path} (line {line})" if line else path
        self.problems.append(Problem(place, actual, expected, remedy))
