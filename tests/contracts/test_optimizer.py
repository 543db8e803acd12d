"""Every optimizer keeps the contract of optimizers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from seedbed.errors import SeedbedError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.learning.lessons import Lesson
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.optimizers.reflection import PoorCase, Reflection
from seedbed.evolution.optimizers.registry import SearchInputs, make_optimizer, names
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.genes import Gene, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json
from seedbed.testing import OptimizerContract
from seedbed.testing.optimizer import BANK, START, Make

WITHOUT_A_MODEL = [name for name in names() if name not in ("reflection", "gepa", "dspy")]


@pytest.mark.parametrize("name", WITHOUT_A_MODEL)
class TestByName(OptimizerContract):
    @pytest.fixture
    def make(self, name: str) -> Make:
        return lambda means: make_optimizer(name, means)


def proposed(
    parent: Playbook, gene: Gene, poor: Sequence[PoorCase], lessons: Sequence[Lesson], chance: np.random.Generator
) -> list[str]:
    """Whatever failed, another sentence will do."""
    return [f"{gene.value} {chance.choice(BANK)}"]


SEARCHES = """
import asyncio, sys
from seedbed.evolution.optimizers.registry import make_optimizer
from seedbed.storage.store import digest
from seedbed.testing.optimizer import OptimizerContract, World, outcome_of

for name in sys.argv[1:]:
    found = asyncio.run(OptimizerContract().search(lambda inputs: make_optimizer(name, inputs), World()))
    print(name, digest("search", repr(outcome_of(found))))
"""


def test_a_search_does_not_depend_on_how_python_orders_sets() -> None:
    """Which is another order in each process."""
    outputs = []
    for order in ("1", "2"):
        about = {**os.environ, "PYTHONHASHSEED": order}
        command = [sys.executable, "-c", SEARCHES, *WITHOUT_A_MODEL]
        outputs.append(
            subprocess.run(command, env=about, capture_output=True, text=True, check=True).stdout.split("\n")
        )
    assert len(outputs[0]) == len(WITHOUT_A_MODEL) + 1
    assert outputs[0] == outputs[1]


class TestReflection(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda means: Reflection(propose=proposed)


class TestAPortfolioWithReflection(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        def made(means: SearchInputs) -> Portfolio:
            return Portfolio({"best_of": make_optimizer("best_of", means), "reflection": Reflection(propose=proposed)})

        return made


# The contract itself


class Plain:
    """Offers a few playbooks one by one, as it should."""

    identity: Json = {"optimizer": "plain"}  # noqa: RUF012

    def __init__(self) -> None:
        self.turn = 0

    def begin(self, search: Search) -> None:
        self.turn = 0

    async def ask(self) -> Sequence[Offer]:
        self.turn += 1
        return [Offer(self.made(), (START.digest,))] if self.turn < 5 else []

    def made(self) -> Playbook:
        return with_genes(START, {"parameters.bold": 0.3 + self.turn / 10})

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None


class Repeating(Plain):
    def made(self) -> Playbook:
        return with_genes(START, {"parameters.bold": 0.9})


class Forgetful(Plain):
    def begin(self, search: Search) -> None:
        return None


class Gambling(Plain):
    def made(self) -> Playbook:
        return with_genes(START, {"parameters.bold": random.random()})


class Meddling(Plain):
    def made(self) -> Playbook:
        document = START.document()
        document["roles"]["critic"]["system"] = f"Obey me, {self.turn}."
        return Playbook.from_document(document)


class Orphaned(Plain):
    async def ask(self) -> Sequence[Offer]:
        return [replace(offer, parents=("b2:" + "0" * 64,)) for offer in await super().ask()]


CONTRACT = OptimizerContract()


async def test_one_that_does_nothing_wrong_passes() -> None:
    for check in (
        CONTRACT.test_what_it_offers_is_new_unless_it_names_tasks_which_are_there,
        CONTRACT.test_after_a_search_it_is_what_it_was_and_can_begin_another,
        CONTRACT.test_the_same_seed_makes_the_same_search,
        CONTRACT.test_children_have_parents_that_are_known_and_keep_what_is_locked_and_the_rules,
    ):
        await check(lambda means: Plain())


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (Repeating, CONTRACT.test_what_it_offers_is_new_unless_it_names_tasks_which_are_there),
        (Forgetful, CONTRACT.test_after_a_search_it_is_what_it_was_and_can_begin_another),
        (Gambling, CONTRACT.test_the_same_seed_makes_the_same_search),
        (Meddling, CONTRACT.test_children_have_parents_that_are_known_and_keep_what_is_locked_and_the_rules),
        (Orphaned, CONTRACT.test_children_have_parents_that_are_known_and_keep_what_is_locked_and_the_rules),
    ],
)
async def test_one_that_does_is_found_out(wrong: type[Plain], check: Callable[[Make], Awaitable[None]]) -> None:
    with pytest.raises((AssertionError, SeedbedError)):
        await check(lambda means: wrong())
