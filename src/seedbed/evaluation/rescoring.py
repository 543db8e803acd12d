"""Rescoring: the score that a recorded output has at any task, where output and task alone decide it.

That holds for the metrics of seedbed which compare the output with the task. Judges would have to be paid again, and
code of yours is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from seedbed.errors import SeedbedError, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import judges_in
from seedbed.evaluation.metrics.metric import ExactMatch, FunctionMetric, Score, needs_expected
from seedbed.evaluation.metrics.registry import BUILT_IN, by_name
from seedbed.runs.run import Run
from seedbed.storage.store import Json

Rescorer: TypeAlias = Callable[[Any, Task], float | None]
"""The score of an output at a task; None if it has none."""


def rescorer(identity: Json) -> Rescorer | None:
    """How the metric with this identity scores outputs, if output and task alone decide that; None if not.

    Of a weighted sum the parts that depend on the task count, as much as they did there.
    """
    parts = [(weight, part) for weight, each in _parts(identity) if (part := _rescorer(each))]
    if not parts:
        return None

    def score(output: Any, task: Task) -> float | None:
        values = [part(output, task) for _, part in parts]
        known = [weight * value for (weight, _), value in zip(parts, values, strict=True) if value is not None]
        return sum(known) if len(known) == len(parts) else None

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


def _rescorer(identity: Json) -> Rescorer | None:
    name = str(identity.get("metric"))
    if name not in BUILT_IN:
        return None
    try:
        metric = by_name(name, **identity.get("options", {}))
    except SettingsError:  # another metric of that name, or a package that is not installed
        return None
    asks = needs_expected(metric) or BUILT_IN[name].endswith(".instructions")
    if not asks or metric.identity != identity:  # another version of it
        return None
    function: Callable[[Run, Task], Any]
    if isinstance(metric, ExactMatch):
        function = metric.score
    elif isinstance(metric, FunctionMetric):
        function = partial(metric.function, **metric.options)
    else:
        return None

    def score(output: Any, task: Task) -> float | None:
        try:
            scored = function(_run(output), task)
        except SeedbedError:
            raise
        except Exception:  # noqa: BLE001 - as when it was scored first
            return None
        return scored.value if isinstance(scored, Score) else None

    return score


def _run(output: Any) -> Run:
    """A run of which nothing is known but its output."""
    return Run(
        id="",
        playbook="",
        inputs={},
        seed=0,
        started=datetime.min.replace(tzinfo=UTC),
        status="completed",
        output=output,
        error="",
        turns=(),
        tokens=0,
        cost_usd=0.0,
        latency_seconds=0.0,
        models={},
    )
