"""Every built-in metric keeps the contract of metrics, and knows what to do with odd answers by itself."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import FunctionMetric, Metric, Score, metric
from seedbed.evaluation.metrics.registry import names, parse_metric
from seedbed.runs.run import Run
from seedbed.testing import MetricContract
from seedbed.testing.metric import ODD_EXPECTATIONS, ODD_OUTPUTS, a_run

WITH_OPTIONS = [
    "numeric(tolerance=0.01, relative=0.1)",
    "contains(case=true, words=true, every=true)",
    "regex(pattern='P(a)?', whole=true)",
    "json_schema(schema={'type': 'object'})",
    "length(unit='characters')",
    "length_within(at_least=1, at_most=9)",
    "rule_violations(never=['look', 'le*'])",
    "calibration(of='f1')",
    "instructions_followed(loose=true)",
    "weighted(f1=0.7, cost_usd={'weight': -0.1, 'scale': 0.01})",
]
ALL = [name for name in names() if name != "weighted"] + WITH_OPTIONS


@pytest.mark.parametrize("written", ALL)
class TestBuiltIn(MetricContract):
    @pytest.fixture
    def metric(self, written: str) -> Metric:
        return parse_metric(written)


@metric
def vowels(run: Run, task: Task, *, of: str = "aeiou") -> float:
    """A user's own: how many letters are vowels."""
    return sum(letter in set(of) for letter in str(run.output))


class TestOwn(MetricContract):
    @pytest.fixture
    def metric(self) -> Metric:
        return vowels.using(of="aeiouy")


@pytest.mark.parametrize("written", ALL)
async def test_no_odd_answer_surprises_a_built_in_metric(written: str) -> None:
    chosen = parse_metric(written)
    short = [output for output in ODD_OUTPUTS.values() if len(str(output)) < 1000]
    for output, expected in product(short, ODD_EXPECTATIONS.values()):
        score = await chosen(a_run(output), Task("t", {"question": "Which city?"}, expected))
        assert " failed: " not in score.reason, (output, expected)


class Moody(FunctionMetric):
    """Another value each time."""

    async def __call__(self, run: Run, task: Task) -> Score:
        self.options["times"] = self.options.get("times", 0) + 1  # type: ignore[index]
        return Score(float(self.options["times"]))


class Silent(FunctionMetric):
    """Unscored, and nobody knows why."""

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(None)


class Ordered(FunctionMetric):
    """An identity that depends on the order of hashes."""

    @property
    def identity(self) -> Any:  # type: ignore[override]
        return {"metric": str({"one", "two", "three", "four", "five", "six", "seven"})}


contract, TASK = MetricContract(), Task("t", {"question": "Which city?"}, "Paris")


async def test_a_metric_that_breaks_a_promise_does_not_pass_the_contract() -> None:
    with pytest.raises(AssertionError):
        await contract.test_every_output_gets_a_score_and_the_same_again(Moody(print, "moody"), TASK, "")
    with pytest.raises(AssertionError, match="no reason"):
        await contract.test_a_run_gets_a_score(Silent(print, "silent"), TASK)
    with pytest.raises(AssertionError):
        contract.test_its_identity_is_json_and_the_same_in_another_process(Ordered(print, "ordered"))
    with pytest.raises(AssertionError):
        contract.test_its_name_is_one_line_and_its_direction_is_known(FunctionMetric(print, "two\nlines"))
