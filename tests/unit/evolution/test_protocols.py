"""Operators that need no model: a child is valid, differs, and depends on its event alone. Offers say where they came
from."""

from __future__ import annotations

import pytest
from driven import AddWord, Driven, playbook

from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Search
from seedbed.evolution.variation.operators import operators
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.testing.optimizer import BANK, READ, START

WAYS = operators(START, instructions=BANK, tasks=READ.tasks, models=("fast", "deep"))
MATE = with_genes(START, {"parameters.bold": 0.9, "roles.writer.system": "Be kind. Name your source."})


def search(seed: int = 0) -> Search:
    return Search(START, READ.tasks, Pool([], []), seed)


def test_their_names_say_what_they_do_and_to_whom() -> None:
    names = [way.name for way in WAYS]
    assert len({*names}) == len(names)
    assert any("roles.writer.system" in name for name in names)
    assert not any("roles.critic.system" in name for name in names)  # which is locked


async def test_children_are_valid_differ_and_keep_what_is_locked_and_the_rules() -> None:
    made = 0
    for way in WAYS:
        for number in range(10):
            child = await way(START, [MATE], search(), f"e{number}")
            if child is not None:
                made += 1
                assert child.digest != START.digest, way.name
                assert Playbook.from_document(child.document()) == child
                assert (child.rules, child.locked) == (START.rules, START.locked)
                assert child.roles["critic"].system == START.roles["critic"].system
    assert made > 5 * len(WAYS)


async def test_the_same_event_makes_the_same_child_whatever_was_made_before() -> None:
    for way in WAYS:
        first = [await way(START, [MATE], search(), f"e{number}") for number in range(6)]
        backwards = [await way(START, [MATE], search(), f"e{number}") for number in reversed(range(6))]
        assert first == backwards[::-1], way.name


async def test_another_seed_or_event_makes_others() -> None:
    for seed, event in ((1, "e{}"), (0, "f{}")):
        ours = [await way(START, [MATE], search(), f"e{number}") for way in WAYS for number in range(4)]
        theirs = [await way(START, [MATE], search(seed), event.format(number)) for way in WAYS for number in range(4)]
        assert ours != theirs


async def test_one_that_names_its_tasks_is_tried_on_those_alone() -> None:
    driven = Driven(BestOf([]), playbook(), lambda each, task: 1.0, tasks=3)
    cells: list[Cell] = driven.pay([Offer(playbook("Be long."), tasks=("t1", "r0"))])
    assert [cell.task for cell in cells] == ["t1", "r0"]


async def test_an_offer_says_what_was_made_from_what_and_cannot_be_changed() -> None:
    driven = Driven(BestOf(operators=[AddWord()], brood=1), playbook(), lambda each, task: 1.0)
    (offer,) = await driven.step()
    assert (offer.parents, offer.arm, offer.tasks) == ((playbook().digest,), "best_of", None)
    assert offer.how.startswith("add a word")
    with pytest.raises(AttributeError):
        offer.how = "by magic"  # type: ignore[misc]
