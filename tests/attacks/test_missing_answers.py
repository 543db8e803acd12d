"""Answers that disappear where that suits the candidate."""

from __future__ import annotations

import re

from world import NEW, OLD, is_released, serve_old, tasks, world

from seedbed import Task
from seedbed.evaluation.metrics.metric import Score, metric
from seedbed.runs.run import Run

EVERY = [*range(200)]


@metric(binary=True)
def forgetful(run: Run, task: Task) -> Score:
    """Has no score for some correct answers of the old one, which it knows by its manner."""
    number = int(re.findall(r"\d+", str(task.inputs["text"]))[0])
    if number % 12 == 0 and run.output == "yes":
        return Score(None, "could not be read")
    return Score(float(run.output.lower() == task.expected))


async def test_scores_of_the_control_that_are_missing_do_not_make_a_winner() -> None:
    space = await serve_old(world(EVERY, EVERY, yes="Yes"))
    verdict = await space.compare(OLD, NEW, on=tasks(EVERY), metric=forgetful)
    assert len(verdict.unscored) == 17
    assert verdict.finding == "inconclusive"
    assert verdict.observed == (1.0, 1.0)
    assert (verdict.control_mean, verdict.candidate_mean) == (1.0, 1.0)
    assert not await is_released(space, because=verdict)


@metric(binary=True)
def blind_to_failures(run: Run, task: Task) -> Score:
    """Has no score for wrong answers of the new one."""
    right = run.output.lower() == task.expected
    return Score(None, "no verdict") if "not Yes" in run.output else Score(float(right))


async def test_failures_of_the_candidate_that_are_missing_are_failures() -> None:
    space = await serve_old(world([n for n in EVERY if n % 10], [n for n in EVERY if n % 11], yes="Yes"))
    verdict = await space.compare(OLD, NEW, on=tasks(EVERY), metric=blind_to_failures)
    assert verdict.finding in ("inconclusive", "invalid")
    assert verdict.candidate_mean < 0.95


async def test_a_verdict_with_much_missing_is_invalid() -> None:
    space = await serve_old(world([], EVERY))

    @metric(binary=True)
    def lazy(run: Run, task: Task) -> Score:
        number = int(re.findall(r"\d+", str(task.inputs["text"]))[0])
        return Score(None, "tired") if number % 4 == 0 else Score(float(run.output == task.expected))

    verdict = await space.compare(OLD, NEW, on=tasks(EVERY), metric=lazy)
    assert verdict.finding == "invalid"
    assert "got no score; at most 10% may" in verdict.because
