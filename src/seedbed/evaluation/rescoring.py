"""Rescoring: scores computed again from what is recorded of a run, by metrics of seedbed.

Judges would have to be paid again, and code of yours is not run.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from seedbed.errors import SeedbedError, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import judges_in
from seedbed.evaluation.metrics.metric import ExactMatch, FunctionMetric, Score, needs_expected
from seedbed.evaluation.metrics.registry import BUILT_IN, by_name
from seedbed.runs.run import Run
from seedbed.storage.store import Json

Rescorer: TypeAlias = Callable[[Any, Task], float | None]
"""The score of an output, or of what is recorded of a run, at a task; None if it has none."""

BY_TASK = ("matching", "similarity", "instructions")
"""The modules of metrics that may compare the output with the task."""
RECORDED = ("latency_seconds", "tokens", "cost_usd", "finished", "length", "length_within")
"""The other metrics that the end of a run decides."""


def rescorer(identity: Json) -> Rescorer | None:
    """How the metric with this identity scores outputs, if output and task alone decide that; None if not.

    Of a weighted sum the parts that depend on the task count, as much as they did there.
    """
    parts = [(weight, metric) for weight, each in _parts(identity) if (metric := _known(each)) and _depends(metric)]
    return _sum(parts, lambda output: _run({"output": output})) if parts else None


def recorded_rescorer(identity: Json) -> Rescorer | None:
    """How the metric with this identity scores a run, by the body of the fact that it ended; None if that, or the
    metrics of seedbed, do not decide it."""
    parts = [(weight, _known(each)) for weight, each in _parts(identity)]
    known = [(weight, metric) for weight, metric in parts if metric]
    return _sum(known, _run) if known and len(known) == len(parts) else None


def _sum(parts: Sequence[tuple[float, FunctionMetric | ExactMatch]], run_of: Callable[[Any], Run]) -> Rescorer:
    def score(of: Any, task: Task) -> float | None:
        run = run_of(of)
        values = [_score(metric, run, task) for _, metric in parts]
        known = [weight * value for (weight, _), value in zip(parts, values, strict=True) if value is not None]
        return math.fsum(known) if len(known) == len(parts) else None

    return score


def rewards_likeness(identity: Json) -> bool:
    """Whether a judge or a similarity to the expected answer gives the scores, so that length alone may raise them."""
    return any(judges_in(identity)) or any(
        BUILT_IN.get(str(each.get("metric")), "").endswith(".similarity") for _, each in _parts(identity)
    )


def _parts(identity: Json) -> Iterator[tuple[float, Json]]:
    """The metrics of a weighted sum with their weights, or the metric itself."""
    if identity.get("metric") != "weighted":
        yield 1.0, identity
        return
    parts = identity["parts"]
    total = sum(abs(part["weight"]) for part in parts) if identity["normalised"] else 1.0
    for part in parts:
        yield from ((part["weight"] / part["scale"] / total * weight, each) for weight, each in _parts(part["metric"]))


def _depends(metric: FunctionMetric | ExactMatch) -> bool:
    """Whether a metric compares the output with the task."""
    return needs_expected(metric) or BUILT_IN[str(metric.identity["metric"])].endswith(".instructions")


def _known(identity: Json) -> FunctionMetric | ExactMatch | None:
    """The metric of seedbed with this identity, if what is recorded of a run decides its scores."""
    name = str(identity.get("metric"))
    if name not in RECORDED and BUILT_IN.get(name, "").rpartition(".")[2] not in BY_TASK:
        return None
    try:
        metric = by_name(name, **identity.get("options", {}))
    except SettingsError:  # another metric of that name, or a package that is not installed
        return None
    if metric.identity != identity:  # another version of it
        return None
    if isinstance(metric, FunctionMetric) and not inspect.iscoroutinefunction(metric.function):
        return metric
    return metric if isinstance(metric, ExactMatch) else None


def _score(metric: FunctionMetric | ExactMatch, run: Run, task: Task) -> float | None:
    if isinstance(metric, ExactMatch):
        return metric.score(run, task).value
    try:
        scored = metric.function(run, task, **metric.options)
    except SeedbedError:
        raise
    except Exception:  # noqa: BLE001 - as when it was scored first
        return None
    return scored.value if isinstance(scored, Score) else float(scored)  # type: ignore[arg-type]


def _run(end: Json) -> Run:
    """A run of which only its end is known."""
    return Run(
        id="",
        playbook="",
        inputs={},
        seed=0,
        started=datetime.min.replace(tzinfo=UTC),
        status=end.get("status", "completed"),
        output=end.get("output"),
        error=end.get("error", ""),
        turns=(),
        tokens=end.get("tokens", 0),
        cost_usd=end.get("cost_usd", 0.0),
        latency_seconds=end.get("latency_seconds", 0.0),
        models={},
    )
