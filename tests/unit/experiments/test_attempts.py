"""What attempts leave over for later ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

from seedbed.experiments.experiment import Design, Experiment
from seedbed.experiments.live import LiveSource, plan_live
from seedbed.experiments.proof.attempts import AttemptTerms, next_share, take_attempt
from seedbed.experiments.verdict import Finding, Verdict
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, now

OLD, ONE = "b2:" + "1" * 64, "b2:" + "2" * 64
SECOND = (1 / 16) * 6 / math.pi**2


def tried(finding: Finding, spent: float | None) -> MemoryStore:
    """A store in which the first attempt to replace OLD has ended."""
    store = MemoryStore()
    terms = {"number": 1, "experiment": ONE, "candidate": "c", "rate": 0.05, "first": 15 / 16, "share": 15 / 16}
    numbers: dict[str, Any] = {"tasks": 44, "at_most": 300, "wins": 0, "ties": 0, "losses": 0, "control_mean": 0.5}
    verdict = Verdict(
        experiment=ONE,
        control=OLD,
        candidate="c",
        dataset="d",
        metric="exact_match",
        finding=finding,
        candidate_mean=0.5,
        difference=0.0,
        low=None,
        high=None,
        p=None,
        alpha=0.05,
        outcomes="",
        spent=spent,
        **numbers,
    )
    store.append(
        [
            Fact(kind="attempt", key=f"{OLD}@1", subject=OLD, at=now(), by="ann", body={**terms, "level": 0.047}),
            Fact(kind="verdict", key=ONE, subject="c", at=now(), by="ann", body=verdict.body()),
        ]
    )
    return store


def test_an_exact_test_that_read_its_last_task_leaves_half_of_the_rest_to_the_next() -> None:
    assert next_share(tried("inconclusive", 0.03), OLD, AttemptTerms()) == pytest.approx(
        SECOND + (15 / 16 - 0.03 / 0.05) / 2
    )


@pytest.mark.parametrize("finding", ["futile", "inferior", "superior", "invalid"])
def test_a_test_that_ended_before_leaves_nothing(finding: Finding) -> None:
    """Given back what a hopeless candidate did not spend, twenty attempts err in 11 % (benchmarks/attempts.py)."""
    assert next_share(tried(finding, 0.002), OLD, AttemptTerms()) == pytest.approx(SECOND)


def test_a_test_that_does_not_know_what_it_spent_leaves_nothing() -> None:
    assert next_share(tried("inconclusive", None), OLD, AttemptTerms()) == pytest.approx(SECOND)


def test_the_same_experiment_takes_one_attempt_however_often_it_is_registered() -> None:
    """Two processes that look at a canary at the same time register one comparison."""
    store, source = MemoryStore(), LiveSource("channels/live", ("m",), ("control", "canary"))

    def planned(level: float, number: int) -> list[Experiment]:
        return [plan_live(source, OLD, ONE, "rating", Design(level, mode="confirmatory", attempt=number))]

    one, again, stricter = (
        take_attempt(store, OLD, AttemptTerms(), rate, planned, by="ann", clock=now) for rate in (0.05, 0.05, 0.01)
    )
    assert (one.key, again.key, stricter.key) == (f"{OLD}@1", f"{OLD}@1", f"{OLD}@2")
