from __future__ import annotations

from collections.abc import Sequence

import pytest
from variation_samples import TASKS, demo, search, sorter

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.bootstrap import Bootstrap
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

READ = TASKS[:6]
KNOWN = {(task.inputs["text"], task.expected) for task in READ}


def scored(playbook: Playbook, task: str, value: float, run: str = "") -> Cell:
    key = f"{playbook.digest} {task} {run}"
    return Cell(key=key, playbook=playbook.digest, task=task, replicate=0, metric="exact_match", value=value, run=run)


def shown(offers: Sequence[Offer]) -> list[list[tuple[str, str]]]:
    """The text and the answer of each worked example of each offer."""
    return [[(each.inputs["text"], each.output) for each in offer.playbook.demos["label"]] for offer in offers]


async def begun(optimizer: Bootstrap, given: Search) -> list[Offer]:
    """What it offers after it has looked, where all runs were equally poor."""
    optimizer.begin(given)
    (look,) = await optimizer.ask()
    cells = [scored(look.playbook, task, 0.0) for task in look.tasks or ()]
    given.pool.tell(cells)
    await optimizer.tell(cells)
    return list(await optimizer.ask())


async def test_it_looks_at_the_start_on_tasks_to_read_before_it_offers_anything() -> None:
    optimizer, start = Bootstrap(batch=4), sorter()
    optimizer.begin(search(start, reflect=READ))
    (look,) = await optimizer.ask()
    assert look.playbook == start
    assert look.tasks == tuple(task.id for task in READ[:4])


async def test_then_it_offers_a_brood_of_new_sets_for_the_playbook_that_it_looked_at() -> None:
    start = sorter()
    offers = await begun(Bootstrap(brood=5), search(start, reflect=READ))
    assert 2 <= len({offer.playbook.digest for offer in offers}) == len(offers) <= 5
    for offer in offers:
        assert offer.tasks is None
        assert offer.parents == (start.digest,)
        assert "label" in offer.how
        assert offer.playbook.roles == start.roles
        assert offer.playbook.steps == start.steps


async def test_worked_examples_are_only_of_tasks_that_may_be_read() -> None:
    offers = await begun(Bootstrap(brood=20), search(sorter(), reflect=READ))
    sets = shown(offers)
    assert {each for own in sets for each in own} <= KNOWN
    assert len({tuple(own) for own in sets}) > 5


async def test_its_own_good_answers_are_shown_but_no_poor_ones() -> None:
    fast = {"use": "scripted", "args": {"replies": {"message 3": "positive, I am sure", ".": "no idea"}}}
    space, start = Workspace(Settings(by="ada", models={"fast": fast}), MemoryStore()), sorter()
    runs = {task.id: await space.run(start, text=task.inputs["text"]) for task in READ}
    known: dict[str, Run] = {run.id: run for run in runs.values()}
    given, optimizer = search(start, reflect=READ, transcript=known.get), Bootstrap(brood=20)
    optimizer.begin(given)
    (look,) = await optimizer.ask()
    cells = [scored(start, task, float(task == "t3"), runs[task].id) for task in look.tasks or ()]
    given.pool.tell(cells)
    await optimizer.tell(cells)
    answers = {each for own in shown(await optimizer.ask()) for each in own}
    assert ("message 3", "positive, I am sure") in answers
    assert answers <= {*KNOWN, ("message 3", "positive, I am sure")}


async def test_when_another_is_best_it_looks_at_that_and_goes_on_from_there() -> None:
    given, optimizer = search(sorter(), reflect=READ), Bootstrap()
    await begun(optimizer, given)
    given.pool.tell([scored(given.start, "s1", 0.0)])
    better = sorter(demos={"label": [demo(1), demo(2)]})
    given.pool.add(Offer(better))
    given.pool.tell([scored(better, "s1", 1.0)])
    (look,) = await optimizer.ask()
    assert (look.playbook, look.tasks) == (better, tuple(task.id for task in READ))
    offers = await optimizer.ask()
    assert offers
    assert {offer.parents for offer in offers} == {(better.digest,)}


async def test_without_tasks_to_look_at_it_rearranges_what_there_is_until_nothing_is_new() -> None:
    start = sorter(demos={"label": [demo(1), demo(2)]})
    given, optimizer = search(start, reflect=()), Bootstrap()
    optimizer.begin(given)
    found: list[Offer] = []
    for _ in range(9):
        offers = await optimizer.ask()
        found += offers
        for offer in offers:
            given.pool.add(offer)
    assert not offers
    one, two = ("shown 1", "answer 1"), ("shown 2", "answer 2")
    assert sorted(shown(found)) == [[one], [two], [two, one]]


@pytest.mark.parametrize("locked", [["demos"], ["demos.*"], ["demos.label"]])
def test_without_worked_examples_that_may_change_it_cannot_search(locked: list[str]) -> None:
    with pytest.raises(PlaybookError, match="start: found no worked examples that may change"):
        Bootstrap().begin(search(sorter(locked=locked)))


async def test_the_same_seed_offers_the_same_and_a_new_search_begins_anew() -> None:
    optimizer = Bootstrap()
    one, same, other = [shown(await begun(optimizer, search(sorter(), reflect=READ, seed=seed))) for seed in (1, 1, 2)]
    assert one == same != other


@pytest.mark.parametrize("wrong", [{"brood": 0}, {"batch": 0}])
def test_numbers_that_make_no_offer_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=f"{next(iter(wrong))}: found 0"):
        Bootstrap(**wrong)
    assert Bootstrap(brood=3).identity != Bootstrap().identity != Bootstrap(batch=3).identity
