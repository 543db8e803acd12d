"""Experiment and Verdict: a registered hypothesis, and its answer."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Literal

from seedbed.errors import NotFound
from seedbed.evaluation.dataset import Dataset
from seedbed.evaluation.metrics import Metric
from seedbed.stats.sequential import ExactMcNemar
from seedbed.storage.store import Digest, Json, Query, Store, digest, short

Finding = Literal["superior", "inferior", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is going to be compared, fixed before anything is run. Its digest goes into the verdict."""

    control: Digest
    candidate: Digest
    dataset: Digest
    metric: Json
    models: Json
    rule: Json
    order: tuple[str, ...]
    """The tasks in the order in which results are read, whatever order they finish in."""
    failure_counts_as: float = 0.0

    @classmethod
    def plan(
        cls,
        control: Digest,
        candidate: Digest,
        tasks: Dataset,
        metric: Metric,
        *,
        alpha: float,
        seed: int,
        models: Json,
    ) -> Experiment:
        """Register both playbooks on all tasks, in an order drawn once from the seed."""
        order = [task.id for task in tasks]
        random.Random(f"{tasks.digest} {seed}").shuffle(order)
        rule = ExactMcNemar(alpha=alpha, at_most=max(1, len(order))).state()
        return cls(
            control=control,
            candidate=candidate,
            dataset=tasks.digest,
            metric=metric.identity,
            models=models,
            rule={key: value for key, value in rule.items() if key != "outcomes"},
            order=tuple(order),
        )

    def content(self) -> Json:
        return {**asdict(self), "order": list(self.order)}

    @property
    def digest(self) -> Digest:
        return digest("experiment", self.content())

    def start(self) -> ExactMcNemar:
        return ExactMcNemar.from_state({**self.rule, "outcomes": ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer of a comparison: which two playbooks, on which tasks, by which registered rule, how sure."""

    experiment: Digest
    control: Digest
    candidate: Digest
    dataset: Digest
    metric: str
    finding: Finding
    tasks: int
    at_most: int
    wins: int
    ties: int
    losses: int
    control_mean: float
    candidate_mean: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    alpha: float
    outcomes: str
    """One sign per task in registered order: + better, = equal, - worse. The rule recomputes the finding from it."""

    def __str__(self) -> str:
        known = self.low is not None and self.high is not None
        interval = f"95% {self.low:+.3f} to {self.high:+.3f}" if known else "too few tasks for an interval"
        return (
            f"{self.finding}: {self.control_mean:.3f} → {self.candidate_mean:.3f} ({self.difference:+.3f}, {interval}) "
            f"after {self.tasks} of {self.at_most} tasks, W {self.wins} T {self.ties} L {self.losses}, "
            f"experiment {short(self.experiment)}"
        )

    def body(self) -> Json:
        return asdict(self)

    @classmethod
    def recall(cls, store: Store, experiment: Digest) -> Verdict:
        for fact in store.facts(Query(kind="verdict", key=experiment)):
            return cls(**fact.body)
        raise NotFound(f"experiment {short(experiment)} has no verdict in this store. Run the comparison first")


def verdicts(store: Store, candidate: Digest) -> list[Verdict]:
    """Every verdict about a candidate, oldest first."""
    return [Verdict(**fact.body) for fact in store.facts(Query(kind="verdict", subject=candidate))]
