"""Tasks that are held out, retired or new: who may open them, and what may be dropped from a set of tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import NEW, OLD, agent, is_released, joined, question, serve_old, tasks, world

import seedbed
from seedbed import Comparing, Dataset, SearchOptions, Task, Workspace
from seedbed.errors import DatasetError
from seedbed.storage.store import Query

OTHER = agent("new", roles={"clerk": {"model": "new", "system": "Something else entirely, in many other words."}})


async def mailing(old: range = range(0), new: range = range(100)) -> Workspace:
    """A workspace with a dataset of 100 tasks, of which 40 are held out."""
    space = await serve_old(world(old, new))
    space.datasets.add("mail", tasks(range(100)), because="new")
    assert len(space.datasets.hold_out("mail", share=0.4, seed=1).ids) == 40
    return space


def sealed(space: Workspace) -> Dataset:
    return space.datasets.get("mail:held-out")


async def test_a_name_means_the_rest_and_its_held_out_part_releases() -> None:
    space = await mailing()
    rest, held = space.datasets.get("mail"), sealed(space)
    assert (len(rest), len(held), space.datasets.held_out("mail")) == (60, 40, 40)
    assert not {task.id for task in rest} & {task.id for task in held}
    await space.evaluate(NEW, "mail")
    verdict = await space.compare(OLD, NEW, on="mail:held-out")
    assert (verdict.finding, verdict.mode, verdict.at_most) == ("superior", "confirmatory", 40)
    assert space.experiments.verify([verdict.experiment]) == {verdict.experiment: []}
    assert await is_released(space, because=verdict)


async def test_nobody_else_opens_what_is_held_out() -> None:
    space = await mailing()
    before = {kind: len([*space.store.facts(Query(kind=kind))]) for kind in ("start", "attempt", "comparison")}
    renamed = Dataset(
        tuple(Task(f"x{n}", {"text": f" {task.inputs['text'].upper()}"}, "yes") for n, task in enumerate(sealed(space)))
    )
    for held in ("mail:held-out", joined(tasks(range(200, 230)), renamed)):
        with pytest.raises(DatasetError, match="40 that are held out in mail"):
            await space.evaluate(NEW, held)
        with pytest.raises(DatasetError, match="that are held out in mail"):
            await space.evolve(NEW, held, options=SearchOptions(budget="20 runs"))
        with pytest.raises(DatasetError, match="exploratory: it was registered as exploratory"):
            await space.compare(OLD, NEW, on=held, options=Comparing(exploratory=True))
        with pytest.raises(DatasetError, match="exploratory: no channel serves the control"):
            await space.compare(NEW, OTHER, on=held)
        with pytest.raises(DatasetError, match="exploratory: releases to production need not be paid"):
            await space.compare(OLD, NEW, on=held, options=Comparing(channel="production"))
    with pytest.raises(DatasetError, match="held out in mail"):
        await space.evolve(NEW, "mail", options=SearchOptions(budget="20 runs", confirm="mail:held-out"))
    assert {kind: len([*space.store.facts(Query(kind=kind))]) for kind in before} == before


async def test_nor_does_a_candidate_show_it() -> None:
    space = await mailing()
    demos = [{"inputs": dict(task.inputs), "output": "yes"} for task in sealed(space).tasks[:2]]
    shown = agent("new", demos={"answer": demos})
    with pytest.raises(DatasetError, match="demos: found 2 that are held out in mail"):
        await space.evaluate(shown, "mail")
    with pytest.raises(DatasetError, match="2 of 40 that the candidate was evolved on or is shown"):
        await space.compare(OLD, shown, on="mail:held-out")


async def test_the_hold_out_serves_for_other_candidates_but_no_part_of_it_does() -> None:
    space = await mailing(new=range(40, 100))
    first = await space.compare(OLD, NEW, on="mail:held-out")
    assert first.mode == "confirmatory"
    half, _ = sealed(space).split(0.5, seed=2)
    with pytest.raises(DatasetError, match="results of the control were known before this set of tasks was named"):
        await space.compare(OLD, OTHER, on=half)
    second = await space.compare(OLD, OTHER, on="mail:held-out")
    assert (second.mode, second.attempt) == ("confirmatory", 2)


async def test_what_was_known_before_is_not_held_out() -> None:
    space = await serve_old(world((), range(100)))
    space.datasets.add("mail", tasks(range(100)), because="new")
    await space.evaluate(OLD, tasks(range(80)))
    held = space.datasets.hold_out("mail", share=0.5, seed=1)
    assert {int(name[1:]) for name in held.ids} < {*range(80, 100)}
    assert len(held.ids) == 10
    with pytest.raises(DatasetError, match="a part that is held out"):
        space.datasets.hold_out("mail", share=0.5, seed=2)


async def test_seals_and_retirements_are_chained() -> None:
    space = await mailing()
    space.datasets.retire("mail", "t1", because="the answer is wrong")
    space.datasets.not_leaked("mail", "t2", because="another customer")
    assert all(fact.link for kind in ("seal", "retire", "cleared") for fact in space.store.facts(Query(kind=kind)))


# Retired


async def test_a_task_that_is_retired_before_any_result_is_gone() -> None:
    space = await mailing()
    for task in sealed(space).tasks[:3]:
        assert not space.datasets.retire("mail", task.id, because="the answer is wrong").known
    assert len(sealed(space)) == 37
    assert (await space.compare(OLD, NEW, on="mail:held-out")).at_most == 37
    again = await space.compare(OLD, OTHER, on="mail:held-out")
    assert (again.mode, again.at_most) == ("confirmatory", 37)
    assert not any(space.experiments.verify().values())


async def test_retiring_the_losses_afterwards_makes_no_winner() -> None:
    """The new one wins 30 tasks and loses 30: without the losses it would be superior."""
    space = await serve_old(world(range(30, 60), range(30)))
    space.datasets.add("mail", tasks(range(60)), because="new")
    assert (await space.compare(OLD, NEW, on="mail")).finding == "inconclusive"
    for task in tasks(range(30, 35)):
        assert space.datasets.retire("mail", task.id, because="it does not suit me").known
    assert len(space.datasets.get("mail")) == 55
    verdict = await space.compare(OLD, OTHER, on="mail")
    assert (verdict.mode, verdict.at_most, len(verdict.unscored)) == ("confirmatory", 60, 10)
    assert (verdict.finding, verdict.losses) == ("inconclusive", 30)
    assert not any(space.experiments.verify().values())
    assert len(list(space.store.facts(Query(kind="start", subject=OTHER.digest)))) == 55


async def test_nor_are_retired_tasks_run_by_other_processes(tmp_path: Path) -> None:
    settings = world((), range(30)).settings.model_copy(update={"store": f"sqlite:///{tmp_path / 'store.db'}"})
    async with seedbed.open(settings) as space:
        await serve_old(space)
        space.datasets.add("mail", tasks(range(30)), because="new")
        assert (await space.compare(OLD, NEW, on="mail")).mode == "confirmatory"
        space.datasets.retire("mail", "t1", because="the answer is wrong")
        await space.compare(OLD, OTHER, on="mail", options=Comparing(rule="betting"), parallel=1)
        run = {fact.body["inputs"]["text"] for fact in space.store.facts(Query(kind="start", subject=OTHER.digest))}
    assert run
    assert question(1) not in run


async def test_an_exploratory_comparison_leaves_retired_tasks_out() -> None:
    space = await serve_old(world((), range(60)))
    space.datasets.add("mail", tasks(range(60)), because="new")
    await space.evaluate(OLD, "mail")
    space.datasets.retire("mail", "t1", because="the answer is wrong")
    verdict = await space.compare(OLD, NEW, on="mail", options=Comparing(exploratory=True))
    assert verdict.at_most == 59


# New to both


async def test_what_is_new_to_both_is_fresh_after_a_dataset_has_grown() -> None:
    space = await serve_old(world((), range(100)))
    space.datasets.add("mail", tasks(range(40)), because="new")
    await space.evaluate(NEW, "mail")
    await space.evaluate(OLD, tasks(range(40, 45)))
    space.datasets.add("mail", tasks(range(100)), because="more")
    verdict = await space.compare(OLD, NEW, on="mail:fresh")
    assert (verdict.mode, verdict.at_most, verdict.finding) == ("confirmatory", 55, "superior")
    assert (await space.compare(OLD, NEW, on="mail:fresh")) == verdict
    assert space.experiments.verify([verdict.experiment]) == {verdict.experiment: []}
    with pytest.raises(DatasetError, match="fresh: found none; expected two playbooks"):
        await space.evaluate(NEW, "mail:fresh")


async def test_a_source_with_a_known_task_is_not_new() -> None:
    space = await serve_old(world((), range(60)))
    sourced = Dataset(
        tuple(Task(t.id, t.inputs, t.expected, source=f"s{n // 2}") for n, t in enumerate(tasks(range(60))))
    )
    space.datasets.add("mail", sourced, because="new")
    await space.evaluate(OLD, tasks([0]))
    assert (await space.compare(OLD, NEW, on="mail:fresh")).at_most == 29


async def test_an_exploratory_comparison_of_what_is_new_is_resumed() -> None:
    space = world((), range(60))
    space.datasets.add("mail", tasks(range(60)), because="new")
    await space.evaluate(OLD, tasks(range(10)))
    one = await space.compare(OLD, NEW, on="mail:fresh")
    assert (one.mode, one.at_most) == ("exploratory", 50)
    assert await space.compare(OLD, NEW, on="mail:fresh") == one
    await space.evaluate(OLD, tasks(range(60)))
    with pytest.raises(DatasetError, match="60, all with results of the control or the candidate"):
        await space.compare(OLD, OTHER, on="mail:fresh")
