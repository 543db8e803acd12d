"""Metrics that know whom they score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from world import NEW, OLD, serve_old, tasks, world

from seedbed import Playbook, Task
from seedbed.errors import SeedbedError
from seedbed.evaluation.metrics.metric import metric
from seedbed.runs.run import Run

WAYS: dict[str, Callable[[Run], Any]] = {
    "the playbook": lambda run: run.playbook == NEW.digest,
    "the id": lambda run: run.id > "8",
    "the models": lambda run: "new" in run.models,
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_metric_that_reads_whom_it_scores_is_refused(way: str) -> None:
    @metric(binary=True)
    def partial(run: Run, task: Task) -> float:
        return float(bool(WAYS[way](run)))

    space = await serve_old(world())
    with pytest.raises(SeedbedError, match=r"run\.\w+: found a metric that reads it; expected one that does not"):
        await space.compare(OLD, NEW, on=tasks(range(30)), metric=partial)
    with pytest.raises(SeedbedError, match="A score must not depend on which playbook or model is scored"):
        await space.evaluate(NEW, tasks(range(3)), metric=partial)


async def test_neither_the_model_nor_the_prompts_of_a_turn_are_shown() -> None:
    @metric(binary=True)
    def nosy(run: Run, task: Task) -> float:
        return float(any("new" in f"{turn.model} {turn.messages} {run!r}" for turn in run.turns))

    space = await serve_old(world())
    verdict = await space.compare(OLD, NEW, on=tasks(range(30)), metric=nosy)
    assert (verdict.candidate_mean, verdict.finding) == (0.0, "inconclusive")


async def test_nor_is_the_order_in_which_answers_are_shown_a_hint_at_whose_they_are() -> None:
    """Whoever counts the answers would otherwise know that every second one is the candidate's."""
    shown: list[str] = []

    @metric(binary=True)
    def counting(run: Run, task: Task) -> float:
        shown.append(task.id)
        return float(shown.count(task.id) == 2)

    space = await serve_old(world())
    verdict = await space.compare(OLD, NEW, on=tasks(range(60)), metric=counting)
    assert (verdict.finding, verdict.ties, verdict.tasks) == ("inconclusive", 0, 60)
    assert verdict.wins > 15 < verdict.losses


def named(step: str, role: str) -> Playbook:
    content = {"roles": {role: {"model": "old"}}, "steps": [{"name": step, "role": role, "prompt": "{text}"}]}
    return Playbook.from_document(content)


@pytest.mark.parametrize("names", [("reply", "clerk"), ("answer", "helper")])
async def test_nor_are_the_names_of_steps_and_roles_which_a_candidate_can_choose(names: tuple[str, str]) -> None:
    @metric(binary=True)
    def nosy(run: Run, task: Task) -> float:
        return float(any(turn.step == "reply" or turn.role == "helper" for turn in run.turns))

    old, new = named("answer", "clerk"), named(*names)
    space = world()
    await space.release(old, to="production", because="the first one")
    verdict = await space.compare(old, new, on=tasks(range(30)), metric=nosy)
    assert (verdict.candidate_mean, verdict.finding) == (0.0, "inconclusive")
