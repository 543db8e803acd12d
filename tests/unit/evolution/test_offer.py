from __future__ import annotations

import pytest
from driven import AddWord, Driven, playbook

from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.protocols import Offer


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
