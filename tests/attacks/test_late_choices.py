"""A metric, replicates or a rule that suit what is known of the served one."""

from __future__ import annotations

from typing import Any

import pytest
from world import NEW, OLD, agent, is_released, serve_old, tasks, world

from seedbed import ExactMatch, Task, Workspace, metric
from seedbed.experiments.options import Comparing
from seedbed.runs.run import Run

WINS, LOSSES = range(35), range(35, 69)
NEW_TOO = agent("new", roles={"clerk": {"model": "new", "system": "Something else entirely, in many other words."}})


@metric(binary=True)
def is_yes(run: Run, task: Task) -> float:
    return float(run.output == "yes")


async def mail_known(**more: Any) -> Workspace:
    """A stored dataset on which the results of the served one are known, by exact_match."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    space.datasets.add("mail", tasks(range(20, 50)), because="new")
    await space.evaluate(OLD, "mail", **more)
    return space


@pytest.mark.parametrize(
    ("chosen", "what"),
    [
        ({"metric": is_yes}, "the metric"),
        ({"options": Comparing(replicates=2)}, "the number of replicates"),
        ({"options": Comparing(rule="sprt", effect=0.1, discordance=0.3)}, "the rule"),
        ({"options": Comparing(rule={"rule": "exact", "spend": "linear"})}, "the rule"),
    ],
)
async def test_none_is_chosen_by_what_the_served_one_is_known_to_fail(chosen: Any, what: str) -> None:
    space = await mail_known(replicates=2, metric=[ExactMatch(), is_yes])
    verdict = await space.compare(OLD, NEW, on="mail", **chosen)
    assert verdict.mode == "exploratory"
    assert verdict.why == f"results of the control were known when {what} was chosen"
    assert (await space.compare(OLD, NEW_TOO, on="mail")).mode == "confirmatory"


async def test_the_metric_of_the_first_score_was_chosen_before_it() -> None:
    """Honest work: evaluate by a metric of your own, then compare by it."""
    space = await mail_known(metric=is_yes)
    verdict = await space.compare(OLD, NEW_TOO, on="mail", metric=is_yes)
    assert verdict.mode == "confirmatory"
    assert not any(space.experiments.verify().values())


async def test_but_not_if_answers_were_looked_at_before_that() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    space.datasets.add("mail", tasks(range(20, 50)), because="new")
    for task in tasks(range(20, 50)):
        await space.run(OLD, **task.inputs)
    await space.evaluate(OLD, "mail", metric=is_yes)
    assert (await space.compare(OLD, NEW, on="mail", metric=is_yes)).mode == "exploratory"


async def test_what_the_first_attempt_registered_holds_for_later_candidates() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    space.datasets.add("mail", tasks(range(20, 50)), because="new")
    thrice = Comparing(replicates=3)
    assert (await space.compare(OLD, NEW, on="mail", metric=is_yes, options=thrice)).mode == "confirmatory"
    later = await space.compare(OLD, NEW_TOO, on="mail", metric=is_yes, options=thrice)
    assert (later.mode, later.attempt) == ("confirmatory", 2)
    other = agent("new", parameters={"p": {"value": 0.5}})
    assert (await space.compare(OLD, other, on="mail", metric=is_yes)).mode == "exploratory"
    assert not any(space.experiments.verify().values())


PADDING = (
    "Paper is made of wood. Many rivers end in a sea. Bread is baked in ovens. Trains run on rails. Clocks tell time."
)
TWIN = agent("new", roles={"clerk": {"model": "new", "system": f"You are the new one. {PADDING}"}})


async def test_tasks_that_a_twin_of_the_candidate_passes_release_nothing() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    await space.evaluate(NEW, tasks(range(69)))
    verdict = await space.compare(OLD, TWIN, on=tasks(WINS))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    assert verdict.why.startswith("results of another playbook were known before this set of tasks was named")
    assert not await is_released(space, TWIN, verdict)


async def test_a_stored_dataset_stays_fresh_though_another_playbook_was_evaluated_on_it() -> None:
    """Honest work: a first draft is evaluated, and a later one compared on the same whole dataset."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    space.datasets.add("mail", tasks(WINS), because="new")
    await space.evaluate(NEW, "mail")
    verdict = await space.compare(OLD, TWIN, on="mail")
    assert verdict.mode == "confirmatory"
    assert await is_released(space, TWIN, verdict)
    assert not any(space.experiments.verify().values())
