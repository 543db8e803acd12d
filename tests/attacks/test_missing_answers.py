"""Answers that disappear where that suits the candidate."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from scipy.stats import fisher_exact
from world import NEW, OLD, is_released, serve_old, tasks, world

from seedbed import ExactMatch, Playbook, Task
from seedbed.errors import ModelUnavailable
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.metrics.metric import Score, metric
from seedbed.evaluation.remote import RemoteWorkers
from seedbed.experiments.compare import compare
from seedbed.experiments.verdict import Verdict, missing_in_words
from seedbed.parallel.worker_pool import Loop
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.workspace.execution import Execution

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
    # It is told that only the control loses answers, and that the candidate would have won by them alone.
    assert (verdict.missing["control"], verdict.missing["candidate"]) == (17, 0)
    assert verdict.missing["p"] == pytest.approx(fisher_exact([[17, 183], [0, 200]]).pvalue)
    assert verdict.missing["tipping"] == 12  # the other five are enough
    told = missing_in_words(verdict)
    assert "17 of the control, 0 of the candidate (Fisher p 1.1e-05)" in told
    assert told.endswith("; superior if at most 12 of them go against it")
    assert space.experiments.verify([verdict.experiment]) == {verdict.experiment: []}
    before = Verdict.from_body({name: value for name, value in verdict.body().items() if name != "missing"})
    assert missing_in_words(before).endswith("of the others 1.000 → 1.000")


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


async def test_a_winner_says_that_it_wins_even_if_all_that_is_missing_goes_against_it() -> None:
    space = world([n for n in EVERY if n % 3], EVERY)

    @metric(binary=True)
    def sleepy(run: Run, task: Task) -> Score:
        number = int(re.findall(r"\d+", str(task.inputs["text"]))[0])
        return Score(None, "asleep") if number % 16 == 3 else Score(float(run.output == task.expected))

    verdict = await space.compare(OLD, NEW, on=tasks(range(120)), metric=sleepy)
    assert verdict.finding == "superior"
    assert verdict.missing["tipping"] == len(verdict.unscored) > 0
    assert missing_in_words(verdict).endswith("superior even if all of them go against it")


async def test_where_nothing_is_missing_nothing_is_told() -> None:
    verdict = await world([], EVERY).compare(OLD, NEW, on=tasks(range(20)), metric=ExactMatch())
    assert (verdict.missing, missing_in_words(verdict)) == ({}, "")


# Answers that a provider owes


@dataclass(frozen=True)
class Worker:
    context: EvaluationContext


_PROVIDED: list[EvaluationContext] = []


def open_worker(described: object) -> Worker:
    return Worker(_PROVIDED[-1])


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("often", [2, 3])
async def test_what_a_provider_loses_is_asked_for_three_times(often: int, elsewhere: bool) -> None:
    space = world(EVERY, EVERY)
    context = Execution(space.resources).context(None)
    asked: Counter[str] = Counter()

    async def perform(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        asked[run] += 1
        if playbook == NEW and task.id == "t7" and asked[run] <= often:
            raise ModelUnavailable("503", "transient")
        return await context.perform(run, playbook, task, seed, ledger)

    flaky = replace(context, perform=perform)
    _PROVIDED.append(flaky)
    there = replace(flaky, remote=RemoteWorkers(Loop(), open_worker, lambda: f"{often}"))
    verdict = await compare(OLD, NEW, tasks(range(20)), ExactMatch(), there if elsewhere else flaky)
    assert max(asked.values()) == 3
    assert len(verdict.unscored) == (often == 3)
