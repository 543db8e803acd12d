"""Weighted: one reward of several metrics, each in units of its scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Metric, Score, better, needs_expected
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.playbooks.values import is_number
from seedbed.runs.run import Run
from seedbed.storage.store import Json


@dataclass(frozen=True)
class WeightedMetric:
    """One metric of a reward: it adds `weight` times its value, counted in units of `scale`."""

    metric: Metric
    weight: float
    scale: float = 1.0

    @property
    def identity(self) -> Json:
        return {"metric": self.metric.identity, "weight": self.weight, "scale": self.scale}


@dataclass(frozen=True)
class Weighted:
    """The sum of weight * value / scale over metrics; unscored if one of them is.

    `Weighted({"f1": 0.7, "cost_usd": {"weight": -0.1, "scale": 0.01}})`: one cent takes away as much as an f1 of 0.14
    adds. The default scale is 1. A metric for which lower is better needs a negative weight. `normalised` divides by
    the sum of the absolute weights, so that rewards of parts between 0 and 1 stay between -1 and 1.
    """

    parts: Mapping[str | Metric, Any] = field(hash=False)
    normalised: bool = False
    name: str = "weighted"

    def __post_init__(self) -> None:
        assert self._parts  # raises SettingsError with all problems, now

    @cached_property
    def _parts(self) -> tuple[WeightedMetric, ...]:
        problems: list[Problem] = []
        parts = [part for name, weight in self.parts.items() if (part := _part(name, weight, problems))]
        if not problems and not parts:
            problems.append(Problem(self.name, "no parts", "metrics and their weights, such as {f1: 0.7}"))
        if problems:
            raise SettingsError(problems)
        return tuple(parts)

    @property
    def identity(self) -> Json:
        parts = [part.identity for part in self._parts]
        return {"metric": "weighted", "version": 1, "parts": parts, "normalised": self.normalised}

    @property
    def needs_expected(self) -> bool:
        return any(needs_expected(part.metric) for part in self._parts)

    async def __call__(self, run: Run, task: Task) -> Score:
        total, cost, tokens, unpriced, terms, answer = 0.0, 0.0, 0, 0, list[str](), ""
        for part in self._parts:
            score = await part.metric(run, task)
            cost, tokens, unpriced = cost + score.cost_usd, tokens + score.tokens, unpriced + score.unpriced
            if score.value is None:
                return Score(None, f"{part.metric.name}: {score.reason}", score.answer, cost, tokens, unpriced)
            total += part.weight * score.value / part.scale
            terms.append(f"{part.weight:g} * {part.metric.name} {score.value:g}")
            answer = answer or score.answer
        if self.normalised:
            total /= sum(abs(part.weight) for part in self._parts)
        if not math.isfinite(total):
            return Score(None, f"not a finite number: {' + '.join(terms)}", answer, cost, tokens, unpriced)
        return Score(total, " + ".join(terms), answer, cost, tokens, unpriced)


def weighted(**parts: Any) -> Weighted:
    """The metric by its name on the command line: `weighted(f1=0.7, cost_usd=-0.1)`."""
    weights: dict[str | Metric, Any] = dict(parts.items())
    return Weighted(weights)


def _part(key: str | Metric, about: Any, problems: list[Problem]) -> WeightedMetric | None:
    name = key if isinstance(key, str) else key.name
    options = dict(about) if isinstance(about, Mapping) else {"weight": about}
    weight, scale = options.pop("weight", None), options.pop("scale", 1.0)
    if options or not (
        is_number(weight) and is_number(scale) and scale > 0 and weight and math.isfinite(weight + scale)
    ):
        expected = "a weight other than 0, or {weight: …, scale: …} with a scale above 0"
        problems.append(Problem(name, shown(about), expected))
        return None
    try:
        metric = parse_metric(key) if isinstance(key, str) else key
    except SettingsError as wrong:
        problems += wrong.problems
        return None
    if better(metric) == "lower" and weight > 0:
        problems.append(Problem(name, f"a weight of {weight:g}", "one below 0: lower is better"))
        return None
    return WeightedMetric(metric, float(weight), float(scale))
