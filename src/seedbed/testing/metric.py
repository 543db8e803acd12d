"""The contract of a metric. To test yours, inherit MetricContract and add one fixture:

class TestMyMetric(MetricContract):
    @pytest.fixture
    def metric(self): return my_metric
"""

from __future__ import annotations

import atexit
import json
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Metric, Score
from seedbed.runs.run import Call, Decision, Run, Turn
from seedbed.storage.store import canonical

ODD_OUTPUTS: dict[str, Any] = {
    "empty": "",
    "none": None,
    "blank": " \n\t\u2028",
    "zero": 0,
    "number": -1.5e300,
    "truth": True,
    "object": {"answer": {"city": "Paris", "sizes": [1, 2.5, None]}},
    "list": ["Paris", {"a": 1}, []],
    "json": '{"answer": 42, "nan": NaN}',
    "broken json": '```json\n{"answer": [[[',
    "unicode": "naïve Übung Ελλάδα 日本語 עברית \u202e\u0000 👩‍🚀",
    "punctuation": "#### !!! (((*** ?) [.^$|+ %s {x} \\",
    "numbers": "1,2,3 1/0 --5 ### 1e999 5%% ٣ ½",
    "long word": "x" * 1_000_000,
    "long text": "Four small words here. " * 44_000,
}
ODD_EXPECTATIONS: dict[str, Any] = {
    "none": None,
    "empty": "",
    "text": "Paris",
    "letter": "(B)",
    "number": 42,
    "truth": False,
    "list": ["Paris", "the city of Paris"],
    "empty list": [],
    "object": {"answer": {"city": "Paris"}, "n": 1},
    "broken pattern": "(unclosed [",
    "unicode": "日本語 👩‍🚀",
}


def a_run(output: Any = "Paris", **changes: Any) -> Run:
    """A run of two turns, a call and a decision, with this output."""
    turn = Turn(
        step="answer",
        role="writer",
        model="fast",
        messages=(("user", "Which city?"),),
        text="Paris",
        prompt_tokens=9,
        completion_tokens=3,
        cost_usd=0.001,
        latency_seconds=0.2,
        finish_reason="stop",
        seed=1,
        confidence=0.9,
    )
    run = Run(
        id="r",
        playbook="b2:0",
        inputs={"question": "Which city?"},
        seed=1,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        status="completed",
        output=output,
        error="",
        turns=(turn, turn),
        tokens=24,
        cost_usd=0.002,
        latency_seconds=0.5,
        models={},
        calls=(Call(tool="look", arguments={}, result=1, error="", changes=False, latency_seconds=0.1),),
        decisions=(Decision(point="way", action="left", because="x", propensity=0.5, confidence=None),),
    )
    return replace(run, **changes)


class MetricContract:
    """The promises of a metric, one test each."""

    @pytest.fixture
    def metric(self) -> Metric:
        raise NotImplementedError("add a fixture called metric to the class that inherits MetricContract")

    @pytest.fixture
    def task(self) -> Task:
        """A task that it can score; override it with one that suits your metric."""
        return Task("t", {"question": "Which city?"}, "Paris")

    async def test_a_run_gets_a_score(self, metric: Metric, task: Task) -> None:
        _check(await metric(a_run(), task))

    @pytest.mark.parametrize("output", ODD_OUTPUTS.values(), ids=ODD_OUTPUTS)
    async def test_every_output_gets_a_score_and_the_same_again(self, metric: Metric, task: Task, output: Any) -> None:
        first = await metric(a_run(output), task)
        _check(first)
        assert await metric(a_run(output), task) == first

    @pytest.mark.parametrize("expected", ODD_EXPECTATIONS.values(), ids=ODD_EXPECTATIONS)
    async def test_whatever_is_expected_it_gets_a_score_or_a_reason(
        self, metric: Metric, task: Task, expected: Any
    ) -> None:
        odd = replace(task, expected=expected)
        for output in ("Paris", "", "(B) 42", {"answer": {"city": "Paris"}}):
            score = await metric(a_run(output), odd)
            _check(score)
            assert await metric(a_run(output), odd) == score

    async def test_a_run_that_ended_badly_gets_a_score_or_a_reason(self, metric: Metric, task: Task) -> None:
        for status in ("cost_limited", "failed", "running"):
            bad = a_run(None, status=status, error="no model", turns=(), calls=(), decisions=())
            _check(await metric(bad, task))

    def test_its_name_is_one_line_and_its_direction_is_known(self, metric: Metric) -> None:
        assert metric.name.strip() == metric.name
        assert len(metric.name.splitlines()) == 1
        assert getattr(metric, "better", "higher") in ("higher", "lower")

    def test_its_identity_is_json_and_the_same_in_another_process(self, metric: Metric) -> None:
        here = canonical(metric.identity)
        assert json.loads(here)
        assert _elsewhere(metric) == here


_PRINT_IDENTITIES = """
import pickle, sys, traceback
from seedbed.storage.store import canonical
while True:
    try:
        answer = canonical(pickle.load(sys.stdin.buffer).identity)
    except EOFError:
        break
    except Exception:
        answer = traceback.format_exc()
    sys.stdout.buffer.write(pickle.dumps(answer))
    sys.stdout.flush()
"""


def _elsewhere(metric: Metric) -> str:
    """Its identity in another process, or the error there."""
    process = _other_process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps(metric))
    process.stdin.flush()
    return str(pickle.load(process.stdout))  # noqa: S301 - from a process that we started


@cache
def _other_process() -> subprocess.Popen[bytes]:
    # With another hash seed, so that an identity that depends on the order of sets differs.
    path = os.pathsep.join(each for each in sys.path if each)
    process = subprocess.Popen(
        [sys.executable, "-c", _PRINT_IDENTITIES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path},
    )
    atexit.register(process.communicate)
    return process


def _check(score: Score) -> None:
    assert isinstance(score, Score)
    assert isinstance(score.reason, str)
    assert isinstance(score.answer, str)
    if score.value is None:
        assert score.reason, "found no value and no reason; expected why it is not scored"
    else:
        assert isinstance(score.value, int | float)
        assert math.isfinite(score.value)
