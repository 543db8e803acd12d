"""Playbooks, cells and pools made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.metrics.metric import Metric
from seedbed.evolution.evaluators import Measure
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook

SCORE, LENGTH = Measure(), Measure("length", better="lower")


def book(number: int) -> Playbook:
    return Playbook.from_document({"roles": {"agent": {"model": "fast", "system": f"Be number {number}."}}})


def cell(of: Playbook, task: str, value: float | None, replicate: int = 0, metric: str = "score") -> Cell:
    key = f"{of.digest}/{task}/{replicate}/{metric}"
    return Cell(key=key, playbook=of.digest, task=task, replicate=replicate, metric=metric, value=value)


def pool_of(scores: Mapping[int, Sequence[float | None]], tasks: int | None = None, arm: str = "") -> Pool:
    """A pool in which each of these books has these scores on the first tasks."""
    select = [f"t{n}" for n in range(tasks or max(map(len, scores.values())))]
    pool = Pool([SCORE], select)
    for number, own in scores.items():
        pool.add(Offer(book(number), arm=arm))
        pool.tell(cell(book(number), task, value) for task, value in zip(select, own, strict=False))
    return pool


def pool_by(metrics: Sequence[Metric], scores: Mapping[int, Sequence[float]]) -> Pool:
    """A pool of one task in which each of these books has one score for each metric."""
    pool = Pool(metrics, ["t0"])
    for number, own in scores.items():
        pool.add(Offer(book(number)))
        pool.tell(
            cell(book(number), "t0", value, metric=metric.name) for metric, value in zip(metrics, own, strict=True)
        )
    return pool
