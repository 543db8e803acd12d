"""What CONTRIBUTING shows keeps the contract of its kind, and is shown as it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from contributing.gate import short_enough
from contributing.metric import mentions
from contributing.optimizer import Steps
from contributing.store import JsonFileStore

from seedbed.testing import GateContract, MetricContract, OptimizerContract, StoreContract
from seedbed.testing.gate import INCUMBENT, a_change

ROOT = Path(__file__).parents[2]


class TestMetric(MetricContract):
    @pytest.fixture
    def metric(self) -> Any:
        return mentions


class TestGate(GateContract):
    @pytest.fixture
    def gate(self) -> Any:
        return short_enough

    @pytest.fixture
    def passing(self) -> Any:
        return a_change({**INCUMBENT, "roles": {"writer": {"model": "fast", "system": "Be brief."}}})

    @pytest.fixture
    def refused(self) -> Any:
        return a_change({**INCUMBENT, "roles": {"writer": {"model": "fast", "system": "Be brief. " * 20}}})


class TestOptimizer(OptimizerContract):
    @pytest.fixture
    def make(self) -> Any:
        return lambda means: Steps("parameters.bold")


class TestStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        return JsonFileStore(tmp_path / "store.json")

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: JsonFileStore(tmp_path / "store.json")


def test_contributing_shows_the_examples_as_they_are() -> None:
    """`<!-- example: PATH -->` before a block says which file it is."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    shown = dict(re.findall(r"<!-- example: examples/contributing/(\S+) -->\n```python\n(.*?)```", page, re.DOTALL))
    assert shown == {path.name: path.read_text() for path in (ROOT / "examples/contributing").glob("*.py")}
    assert page.count("```python") == len(shown)
