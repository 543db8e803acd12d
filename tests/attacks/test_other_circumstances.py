"""A comparison under other circumstances than those in which the candidate would serve."""

from __future__ import annotations

from typing import Any

import pytest
from world import NEW, OLD, agent, is_released, question, says_yes, serve_old, tasks, world

from seedbed import Dataset, Task, Workspace, metric
from seedbed.errors import StoreError
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore

BY_FORM = "length_within(unit='characters', at_least=5)"
"""NEW answers "not yes" to everything, OLD "yes"."""


async def test_an_input_with_the_answer_that_callers_do_not_pass_releases_nothing() -> None:
    reads = agent("new", steps=[{"name": "answer", "role": "clerk", "prompt": "{text} {label}"}])
    replies = {"use": "scripted", "args": {"replies": {"yes$": "yes", "": "no"}}}
    models, gates = {"old": says_yes(range(40)), "new": replies}, {"require": ["better", "held_out", "rules_kept"]}
    space = await serve_old(
        Workspace(Settings(by="eve", models=models, channels={"production": gates}), MemoryStore())  # type: ignore[arg-type]
    )
    labels = [("yes" if n % 3 else "no", n) for n in range(60)]
    with_label = Dataset(tuple(Task(f"t{n}", {"text": question(n), "label": say}, say) for say, n in labels))
    verdict = await space.compare(OLD, reads, on=with_label)
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    assert not await is_released(space, reads, verdict)


@pytest.mark.parametrize("crippled", ["old", "new"])
async def test_a_model_that_was_something_else_in_the_comparison_releases_nothing(crippled: str) -> None:
    """The model of the served one answers nothing while the two are compared; or the candidate's gets help."""
    store, settings = MemoryStore(), world(range(60), range(60)).settings
    await serve_old(Workspace(settings, store))
    others = Settings(models={"old": says_yes(()), "new": says_yes(range(100))}).models
    there = settings.model_copy(update={"models": {**settings.models, crippled: others[crippled]}})
    on = tasks(range(60) if crippled == "old" else range(50, 100))
    verdict = await Workspace(there, store).compare(OLD, NEW, on=on)
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    assert not await is_released(Workspace(settings, store), because=verdict)
    assert await is_released(Workspace(there, store), because=verdict)


async def test_a_dry_run_shows_no_results_that_nobody_would_know_of() -> None:
    space = await serve_old(world(range(20, 60), range(40)))
    with pytest.raises(StoreError, match="run: found one in a dry run"):
        await space.dry_run().run(NEW, text=question(1))
    with pytest.raises(StoreError, match="run: found one in a dry run"):
        await space.dry_run().compare(OLD, NEW, on=tasks(range(60)))


def judged(require: list[Any]) -> Workspace:
    return world(range(60), [], require=[*require, "held_out", "rules_kept"])


async def test_a_metric_that_the_gate_does_not_name_releases_nothing() -> None:
    space = await serve_old(judged([{"better": {"metrics": ["exact_match", "f1"]}}]))
    verdict = await space.compare(OLD, NEW, on=tasks(range(60)), metric=BY_FORM)
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    assert not await is_released(space, because=verdict)


@metric(name="exact_match", binary=True)
def by_another_name(run: Run, task: Task) -> bool:
    return len(str(run.output)) > 5


async def test_nor_does_one_that_took_its_name() -> None:
    space = await serve_old(judged([{"better": {"metrics": ["exact_match"]}}]))
    verdict = await space.compare(OLD, NEW, on=tasks(range(60)), metric=by_another_name)
    assert (verdict.finding, verdict.metric) == ("superior", "exact_match")
    assert not await is_released(space, because=verdict)


@metric(name="kind", binary=True)
def kind(run: Run, task: Task) -> bool:
    return True


async def test_a_function_with_the_name_of_a_judge_does_not_pass_in_its_place() -> None:
    plain = judged([{"better": {"metrics": [BY_FORM]}}, {"not_worse": {"metrics": ["kind"], "margin": 0.2}}])
    judge = {"kind": {"judge": "rubric", "model": "old", "rubric": "Is it kind?"}}
    judges = Settings.model_validate({"metrics": judge}).metrics
    settings = plain.settings.model_copy(update={"metrics": judges})
    space = await serve_old(Workspace(settings, MemoryStore()))
    verdict = await space.compare(OLD, NEW, on=tasks(range(60)), metric=BY_FORM)
    for playbook in (OLD, NEW):
        await space.evaluate(playbook, tasks(range(60)), metric=kind)
    assert not await is_released(space, because=verdict)
    renamed = settings.model_copy(update={"metrics": {}})  # where no judge has that name, the function is meant
    assert await is_released(Workspace(renamed, space.store), because=verdict)
