"""DSPy's bootstrapping, by its own package, inside a search of ours."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from driven import playbook

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import Score
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import evolve
from seedbed.evolution.optimizers.external.dspy import DSPy
from seedbed.evolution.plan import Plan
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Search
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.testing import OptimizerContract
from seedbed.testing.optimizer import Make

READ = Dataset(tuple(Task(f"r{n}", {"n": str(n)}, f"label {n}") for n in range(8)))
DECIDING = Dataset(tuple(Task(f"s{n}", {"n": str(n)}, f"label {n}") for n in range(12)))


def score(found: Playbook, task: Task, replicate: int) -> Score:
    """Even tasks it can do; the others only if it is shown an answer of its own."""
    demos = found.demos.get("answer", ())
    own = any(demo.output.startswith("answer") for demo in demos)
    return Score(float(own or int(task.id[1:]) % 2 == 0), answer=f"answer {task.id}")


async def searched(optimizer: DSPy, start: Playbook | None = None, runs: int = 400) -> Evolution:
    store = MemoryStore()
    begin = start or playbook()
    plan = Plan(start=begin, select=DECIDING, reflect=READ, optimizer=optimizer, budget=Budget(runs=runs))
    return await evolve(plan, FunctionEvaluator(score, store, "ann"), Library(store, "ann"), because="test")


def demos(found: Evolution, how: str) -> list[list[Any]]:
    places = [place for place in range(len(found.pool)) if found.pool.how[place] == how]
    return [list(found.pool.playbooks[place].demos["answer"]) for place in places]


class TestContract(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda means: DSPy(sets=6)


async def test_it_shows_the_agent_its_own_good_runs_and_known_answers() -> None:
    found = await searched(DSPy(demos=2, labelled=4, sets=3))
    (labelled,) = demos(found, "labelled examples")
    assert {demo.output.split()[0] for demo in labelled} == {"label"}
    sets = demos(found, "bootstrapped examples")
    assert sets
    for some in sets:
        own = [demo for demo in some if demo.output.startswith("answer")]
        assert 1 <= len(own) <= 2
        assert len(some) == 4
        assert len({demo.inputs["n"] for demo in some}) == 4
    assert found.improved
    assert found.ended == "the optimizer had nothing more to offer"


async def test_without_labels_only_runs_that_went_well_are_shown() -> None:
    found = await searched(DSPy(demos=3, labelled=0, sets=2))
    shown = {demo.output for some in demos(found, "bootstrapped examples") for demo in some}
    assert shown
    assert shown <= {f"answer r{n}" for n in range(0, 8, 2)}


async def test_it_leaves_the_terminal_alone(capfd: pytest.CaptureFixture[str]) -> None:
    await searched(DSPy(sets=2))
    assert capfd.readouterr() == ("", "")


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dspy", None)
    with pytest.raises(SettingsError, match=r"Run: pip install 'seedbed\[dspy\]'"):
        DSPy().begin(Search(playbook(), READ.tasks, Pool([], [])))


def test_what_it_cannot_search_from_is_said_at_once() -> None:
    with pytest.raises(PlaybookError, match="no demos that may evolve"):
        DSPy().begin(Search(playbook(locked=["demos"]), READ.tasks, Pool([], [])))
    with pytest.raises(SettingsError, match="no tasks"):
        DSPy().begin(Search(playbook(), (), Pool([], [])))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingsError, match="demos"):
        DSPy(demos=0)
    with pytest.raises(SettingsError, match="sets"):
        DSPy(sets=-1)
