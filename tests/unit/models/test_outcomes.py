"""Whether choosing models helped, and how each did."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seedbed.models.cards import Registry
from seedbed.models.routing.outcomes import helps, table
from seedbed.models.routing.request import RoutingRequest
from seedbed.models.routing.router import Router, RoutingPolicy


def logged(truth: dict[str, float], seed: int, times: int, policy: RoutingPolicy | None = None) -> list[dict[str, Any]]:
    """Decisions of a router that learns, with the scores they led to."""
    router = Router(Registry({name: {"use": "scripted"} for name in truth}), policy)
    rng = np.random.default_rng(seed)
    decisions = []
    for number in range(times):
        choice = router.choose(
            RoutingRequest(task_type="law", prompt_tokens=10, max_tokens=10, seed=f"{seed}/{number}")
        )
        score = float(rng.random() < truth[choice.model])
        router.learn("law", choice.model, score, 0.0, 0.1)
        decisions.append({**choice.document(), "score": score})
    return decisions


def test_routing_that_helps_is_seen_to_help() -> None:
    truth = {"a": 0.2, "b": 0.9, "c": 0.4}
    found = helps(logged(truth, 1, 800, RoutingPolicy(explore=0.1)))
    assert found["verdict"] == "helps"
    assert found["gain"]["low"] > 0
    assert found["blind"] == pytest.approx(0.5, abs=0.12)
    assert found["routed"] > 0.8
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def fixed(rng: np.random.Generator, truth: list[float], odds: list[float], times: int) -> list[dict[str, Any]]:
    """Decisions among three models with the same chances each time, and guesses that are wrong."""
    arms = rng.choice(3, times, p=odds)
    scores = (rng.random(times) < np.array(truth)[arms]).astype(float)
    considered = [
        {"model": name, "rejected": "", "expected": guess, "chance": chance}
        for name, guess, chance in zip("abc", [0.6, 0.5, 0.5], odds, strict=True)
    ]
    return [
        {"model": "abc"[arm], "considered": considered, "preferred": False, "score": score}
        for arm, score in zip(arms.tolist(), scores.tolist(), strict=True)
    ]


@pytest.mark.parametrize("odds", [[0.9, 0.06, 0.04], [0.97, 0.015, 0.015]])
@pytest.mark.parametrize("truth", [[0.6, 0.6, 0.6], [0.95, 0.95, 0.95], [0.8, 0.5, 0.3]])
def test_intervals_cover_the_true_gain_and_false_claims_are_rare(odds: list[float], truth: list[float]) -> None:
    rng = np.random.default_rng(1)
    gain = float(np.dot(odds, truth) - np.mean(truth))
    found = [helps(fixed(rng, truth, odds, 1000)) for _ in range(100)]
    covered = sum(each["gain"]["low"] <= gain <= each["gain"]["high"] for each in found)
    wrong = sum(each["verdict"] == ("hurts" if gain > 0 else "helps") for each in found)
    assert covered >= 88  # 95 % of 100 less three standard errors
    assert wrong <= 9


def test_little_evidence_decides_nothing() -> None:
    assert helps(logged({"a": 0.0, "b": 1.0}, 1, 20))["verdict"] == "undecided"
    # A hundred choices of which all fell on the favourite say nothing about the others, though they look alike.
    favourite = fixed(np.random.default_rng(1), [1, 1, 1], [0.98, 0.01, 0.01], 100)
    assert helps(favourite)["blind_worth"] < 5
    assert helps(favourite)["verdict"] == "undecided"
    nothing = helps([])
    assert nothing == {
        "verdict": "undecided",
        "n": 0,
        "left_out": 0,
        "routed": None,
        "blind": None,
        "gain": {"mean": None, "low": None, "high": None},
        "blind_worth": 0.0,
    }


def test_choices_that_were_not_the_routers_are_left_out_and_counted() -> None:
    decisions = logged({"a": 0.2, "b": 0.9}, 1, 50)
    router = Router(Registry({"a": {"use": "scripted"}, "b": {"use": "scripted", "can": ["vision"]}}))
    law = RoutingRequest(task_type="law", prompt_tokens=1, max_tokens=1, seed=1)
    preferred = router.choose(replace(law, prefer="a"))
    alone = router.choose(replace(law, needs=("vision",)))
    free = router.choose(law)
    sure = [{"model": "a", "rejected": "", "expected": 0.5, "chance": 1.0}]
    never = [*sure, {"model": "b", "rejected": "", "expected": 0.5, "chance": 0.0}]
    more = [{**preferred.document(), "score": 1.0}, {**alone.document(), "score": 1.0}, free.document()]
    more.append({"model": "a", "preferred": False, "considered": never, "score": 1.0})
    found = helps([*decisions, *more])
    assert found["left_out"] == 4
    assert {**found, "left_out": 0} == helps(decisions)


def test_choices_of_one_run_are_not_taken_for_independent_ones() -> None:
    decisions = logged({"a": 0.2, "b": 0.9, "c": 0.4}, 1, 400)
    repeated = [{**each, "run": number} for number, each in enumerate(decisions) for _ in range(4)]
    once, again = helps(decisions)["gain"], helps(repeated)["gain"]
    assert (again["low"], again["high"]) == pytest.approx((once["low"], once["high"]))


def outcome(
    task: str, model: str, score: float, cost: float | None = 0.1, latency: float | None = 1.0
) -> dict[str, Any]:
    return {"task_type": task, "model": model, "score": score, "cost_usd": cost, "latency_seconds": latency}


def test_the_table_has_a_row_for_every_model_at_every_type_of_task() -> None:
    outcomes = [
        outcome("law", "b", 1.0, 0.1, 1.0),
        outcome("law", "b", 0.0, 0.3, None),
        outcome("law", "a", 0.5),
        outcome("law", "a", 0.7, None, 3.0),
        outcome("art", "a", 1.0),
    ]
    decisions = [{"task_type": "law", "model": "b"}] * 3 + [{"task_type": "law", "model": "c"}]
    rows = table(outcomes, decisions)
    assert [(row["task_type"], row["model"], row["n"]) for row in rows] == [
        ("art", "a", 1),
        ("law", "a", 2),
        ("law", "b", 2),
        ("law", "c", 0),
    ]
    art, graded, passed, chosen = rows
    assert passed["score"]["mean"] == 0.5
    assert 0 < passed["score"]["low"] < 0.2
    assert passed["cost_usd"] == pytest.approx(0.2)
    assert passed["latency_seconds"] == 1.0
    assert graded["score"]["mean"] == pytest.approx(0.6)
    assert graded["cost_usd"] == pytest.approx(0.1)
    assert chosen["score"] == {"mean": None, "low": 0.0, "high": 1.0}
    assert (chosen["cost_usd"], chosen["latency_seconds"]) == (None, None)
    assert [row["share"] for row in rows] == [None, 0.0, 0.75, 0.25]
    assert art["score"]["high"] == 1.0
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_an_empty_table_is_empty() -> None:
    assert table([]) == []
