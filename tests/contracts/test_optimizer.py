"""Every optimizer keeps the contract of optimizers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from seedbed.evolution.lessons import Lesson
from seedbed.evolution.optimizers import Means, names, optimizer
from seedbed.evolution.portfolio import Portfolio
from seedbed.evolution.reflection import Failure, Reflection
from seedbed.playbooks.genes import Gene
from seedbed.playbooks.playbook import Playbook
from seedbed.testing import OptimizerContract
from seedbed.testing.optimizer import BANK, Make

WITHOUT_A_MODEL = [name for name in names() if name not in ("reflection", "gepa", "dspy")]


@pytest.mark.parametrize("name", WITHOUT_A_MODEL)
class TestByName(OptimizerContract):
    @pytest.fixture
    def make(self, name: str) -> Make:
        return lambda means: optimizer(name, means)


def proposed(
    parent: Playbook, gene: Gene, poor: Sequence[Failure], lessons: Sequence[Lesson], chance: np.random.Generator
) -> list[str]:
    """Whatever failed, another sentence will do."""
    return [f"{gene.value} {chance.choice(BANK)}"]


class TestReflection(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda means: Reflection(propose=proposed)


class TestAPortfolioWithReflection(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        def made(means: Means) -> Portfolio:
            return Portfolio({"best_of": optimizer("best_of", means), "reflection": Reflection(propose=proposed)})

        return made
