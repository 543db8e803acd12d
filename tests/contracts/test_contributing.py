"""What CONTRIBUTING shows keeps the contract of its kind, and is shown as it is."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from contributing.gate import short_enough
from contributing.metric import mentions
from contributing.optimizer import Steps
from contributing.store import JsonFileStore

import seedbed
from seedbed import Dataset, Playbook, Task, with_genes
from seedbed.errors import ReleaseRefused
from seedbed.testing import GateContract, MetricContract, OptimizerContract, StoreContract
from seedbed.testing.gate import INCUMBENT, a_change

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/contributing"


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
    shown = dict(re.findall(r"<!-- example: examples/contributing/(\S+) -->\n```\w+\n(.*?)```", page, re.DOTALL))
    assert shown == {path.name: path.read_text() for path in EXAMPLES.glob("*.*")}
    assert len(re.findall("```(?:python|toml)", page)) == len(shown)


async def test_what_an_installed_package_offers_has_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "seedbed_examples-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: seedbed-examples\nVersion: 1.0\n")
    names = ConfigParser()
    names.read_dict(project["entry-points"])
    with (installed / "entry_points.txt").open("w") as file:
        names.write(file)
    monkeypatch.syspath_prepend(tmp_path)

    settings = {"store": f"json:{tmp_path}/notes.json", "by": "ada", "tools": ["order_status"]}
    settings |= {"models": {"clerk": {"use": "scripted", "args": {"replies": {".": "Monday"}}}}}
    settings |= {"channels": {"production": {"require": ["short_enough"]}}}
    (tmp_path / "seedbed.yaml").write_text(json.dumps(settings))
    document = {"roles": {"clerk": {"model": "clerk"}}, "parameters": {"bold": {"value": 0.5, "low": 0.0, "high": 1.0}}}
    clerk = Playbook.from_document(document)
    tasks = Dataset(tuple(Task(f"t{n}", {"order": n}, "monday") for n in range(4)))
    async with seedbed.open(tmp_path / "seedbed.yaml") as space:
        assert isinstance(space.store, JsonFileStore)
        async with space.runs.recording(clerk) as stage:
            assert await stage.call("order_status", order="7") == "sent on Monday"
        assert (await space.evaluate(clerk, tasks, metric="mentions")).interval.mean == 1.0
        optimizer = "steps(gene='parameters.bold')"
        found = await space.evolve(clerk, tasks, metric="mentions", optimizer=optimizer, budget="20 runs")
        assert len(found.pool.playbooks) == 3
        long = with_genes(clerk, {"roles.clerk.system": "Be brief. " * 20})
        with pytest.raises(ReleaseRefused, match="short_enough: found 200 characters"):
            await space.release(long, to="production", because="to see")
    async with seedbed.open(tmp_path / "seedbed.yaml") as space:
        assert space.runs.recent()
