from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Score, metric
from seedbed.evaluation.metrics.registry import by_name, parse_metric
from seedbed.evaluation.metrics.weighted import Weighted
from seedbed.runs.run import Run
from seedbed.testing.metric import a_run

TASK = Task("t", {"q": 1}, "the capital is Paris")
PARTS: dict[Any, Any] = {"f1": 0.7, "cost_usd": {"weight": -0.1, "scale": 0.01}, "latency_seconds": -0.2}


async def test_a_reward_is_the_sum_of_weighted_values_on_their_scales() -> None:
    told = await Weighted(PARTS)(a_run("Paris", cost_usd=0.004, latency_seconds=0.5), TASK)
    assert told.value == pytest.approx(0.7 * 0.5 - 0.1 * 0.4 - 0.2 * 0.5)
    assert told.reason == "0.7 * f1 0.5 + -0.1 * cost_usd 0.004 + -0.2 * latency_seconds 0.5"
    fair = await Weighted(PARTS, normalised=True)(a_run("Paris", cost_usd=0.004, latency_seconds=0.5), TASK)
    assert fair.value == pytest.approx(told.value)
    half = await Weighted({"f1": 2, "cost_usd": -2}, normalised=True)(a_run("Paris", cost_usd=0), TASK)
    assert half.value == pytest.approx(0.25)


async def test_a_part_that_is_unscored_leaves_the_reward_unscored_and_names_itself() -> None:
    told = await Weighted(PARTS)(a_run(), Task("t", {"q": 1}))
    assert told == Score(None, "f1: the task has no expected answer")


async def test_parts_may_be_metrics_with_options_and_ones_own_and_their_costs_add_up() -> None:
    @metric(version=1)
    def paid(run: Run, task: Task) -> Score:
        return Score(1.0, answer="yes", cost_usd=0.25)

    both = Weighted({paid: 1, "numeric(tolerance=0.5)": 2})
    assert await both(a_run("4.2"), Task("t", {"q": 1}, 4)) == Score(
        3.0, "1 * paid 1 + 2 * numeric(tolerance=0.5) 1", "yes", 0.25
    )
    assert await both(a_run("4.2"), TASK) == Score(
        None, "numeric(tolerance=0.5): the expected answer has no number", "", 0.25
    )


def test_what_a_reward_is_changes_with_each_weight_scale_and_part() -> None:
    others = [{**PARTS, "f1": 0.8}, {**PARTS, "cost_usd": -0.1}, {"f1": 0.7}, {**PARTS, "tokens": -1}]
    identities = [Weighted(parts).identity for parts in (PARTS, *others)] + [Weighted(PARTS, normalised=True).identity]
    assert all(one not in identities[:place] for place, one in enumerate(identities))
    assert Weighted(PARTS, name="reward").identity == identities[0]


@pytest.mark.parametrize("parts", [{"f1": 0.7, "cost_usd": {"weight": -0.1, "scale": 0.01}}])
def test_a_reward_is_named_like_any_metric(parts: dict[str, Any]) -> None:
    written = "weighted(f1=0.7, cost_usd={'weight': -0.1, 'scale': 0.01})"
    assert parse_metric(written).identity == by_name({"weighted": parts}).identity == Weighted({**parts}).identity


def test_all_that_is_wrong_with_the_parts_is_said_at_once_and_before_anything_is_paid() -> None:
    wrong = {
        "rougel": 1,
        "f1": "much",
        "bleu": 0,
        "chrf": {"weight": 1, "scale": 0},
        "cost_usd": 0.1,
        "tokens": {"w": 1},
    }
    with pytest.raises(SettingsError) as caught:
        Weighted({**wrong, "turns": float("nan"), "contains": True})
    assert len(caught.value.problems) == 8
    assert "lower is better" in str(caught.value)
    assert "Did you mean rouge_l?" in str(caught.value)
    with pytest.raises(SettingsError, match="no parts"):
        Weighted({})
