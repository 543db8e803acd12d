"""Recorded outputs are scored again where output and task alone decide the score."""

from __future__ import annotations

import pytest

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Metric, metric
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.evaluation.metrics.weighted import Weighted
from seedbed.evaluation.rescoring import recorded_rescorer, rescorer, rewards_likeness
from seedbed.runs.run import Run

TASK = Task("t", {"text": "How many?"}, "3.14")


@pytest.mark.parametrize(
    ("written", "output", "score"),
    [
        ("exact_match", "3.14.", 1.0),
        ("contains", "It is 3.14, I think", 1.0),
        ("numeric(tolerance=0.01)", "3.145", 1.0),
        ("numeric", "3.145", 0.0),
        ("f1", "exactly 3.14", 2 / 3),
    ],
)
def test_a_metric_scores_an_output_as_it_did(written: str, output: str, score: float) -> None:
    again = rescorer(parse_metric(written).identity)
    assert again
    assert again(output, TASK) == pytest.approx(score)


def test_a_metric_without_a_score_has_none_again() -> None:
    again = rescorer(parse_metric("exact_match").identity)
    assert again
    assert again("3.14", Task("t", {})) is None


@pytest.mark.parametrize("normalised", [False, True])
def test_of_a_sum_the_parts_count_that_depend_on_the_task(normalised: bool) -> None:
    reward = Weighted({"exact_match": 0.6, "cost_usd": {"weight": -0.2, "scale": 0.01}}, normalised)
    again = rescorer(reward.identity)
    assert again
    assert again("3.14", TASK) == pytest.approx(0.75 if normalised else 0.6)


@metric(binary=True)
def mine(run: Run, task: Task) -> bool:
    return bool(run.output == task.expected)


@pytest.mark.parametrize("each", [mine, parse_metric("cost_usd"), parse_metric("regex")])
def test_code_of_others_and_what_the_task_does_not_decide_are_not_scored_again(each: Metric) -> None:
    assert rescorer(each.identity) is None


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (Weighted({"exact_match": 0.6, "cost_usd": {"weight": -0.2, "scale": 0.01}}), 0.5),
        (Weighted({"exact_match": 1, "length": -1}, normalised=True), 0.0),
        (Weighted({"exact_match": 1, Weighted({"tokens": -0.1, "finished": 1}): 0.5}), 0.7),
        (parse_metric("latency_seconds"), 1.5),
    ],
)
def test_what_a_run_cost_counts_too_where_its_end_is_known(metric: Metric, score: float) -> None:
    end = {"output": "3.14", "status": "completed", "cost_usd": 0.005, "tokens": 16, "latency_seconds": 1.5}
    again = recorded_rescorer(metric.identity)
    assert again
    assert again(end, TASK) == pytest.approx(score)


@pytest.mark.parametrize(
    "metric",
    [
        Weighted({"exact_match": 1, mine: 1}),
        Weighted({"exact_match": 1, "turns": -1}),
        Weighted({"exact_match": 1, "regex": 1}),
    ],
)
def test_a_sum_is_not_scored_again_if_one_part_is_not(metric: Metric) -> None:
    assert recorded_rescorer(metric.identity) is None


def test_another_version_or_another_metric_of_that_name_is_not_scored_again() -> None:
    assert rescorer({"metric": "exact_match", "version": 0}) is None
    assert rescorer({"metric": "f1", "version": 1, "options": {"strange": 1}}) is None


def test_judges_and_similarities_may_reward_length() -> None:
    judge = {"judge": "kind", "playbook": "p", "models": {}}
    assert rewards_likeness(judge)
    assert rewards_likeness(parse_metric("rouge_l").identity)
    assert rewards_likeness(Weighted({"f1": 0.5, "exact_match": 0.5}).identity)
    assert not rewards_likeness(parse_metric("exact_match").identity)
    assert rescorer(judge) is None
