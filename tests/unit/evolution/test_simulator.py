"""The world by which benchmarks/evolution.py compares: whether its truth is what it says."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).parents[3] / "benchmarks" / "simulator.py"


@pytest.fixture(scope="module")
def simulator() -> Any:
    spec = spec_from_file_location("simulator", PATH)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules["simulator"] = module  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["simulator"]


@pytest.fixture
def world(simulator: Any) -> Any:
    return simulator.World(3, simulator.SETTINGS[1], 200)


def added(simulator: Any, texts: dict[str, str], sentence: str, gene: str) -> dict[str, str]:
    return {**texts, gene: f"{texts[gene]} {sentence}"}


def test_rules_help_where_they_belong_and_nowhere_else(simulator: Any, world: Any) -> None:
    before = world.truth(world.start)
    for rule in range(simulator.RULES - simulator.KEPT_AT_START):
        right = simulator.gene_of(rule)
        (wrong,) = {*simulator.GENES} - {right}
        sentence = f"Always keep rule R{rule}."
        assert world.truth(added(simulator, world.start, sentence, right)) > before
        assert world.truth(added(simulator, world.start, sentence, wrong)) == before


def test_notes_help_nobody_and_about_as_many_harm_as_the_setting_says(simulator: Any, world: Any) -> None:
    before, gene = world.truth(world.start), simulator.GENES[0]
    gains = [
        world.truth(added(simulator, world.start, f"Remember note N{note}.", gene)) - before
        for note in range(simulator.NOTES)
    ]
    assert max(gains) == 0
    assert np.mean(np.array(gains) < 0) == pytest.approx(world.setting.harms, abs=0.1)


def test_outcomes_come_as_often_as_their_probability_and_are_the_same_for_who_asks_again(
    simulator: Any, world: Any
) -> None:
    evaluator = simulator.Evaluator(world)
    outcomes = [evaluator(world.start, task, replicate) for task in range(200) for replicate in range(20)]
    assert outcomes[:100] == [evaluator(world.start, n // 20, n % 20) for n in range(100)]
    assert np.mean(outcomes) == pytest.approx(world.chances(world.start)[:200].mean(), abs=0.02)
    assert evaluator.runs == 4_100


def test_the_reflector_reveals_rules_that_failing_tasks_need_as_often_as_it_should(simulator: Any, world: Any) -> None:
    chance, gene = np.random.default_rng(0), simulator.GENES[0]
    needy = [n for n in range(200) if any(world.needs[n][: simulator.RULES - simulator.KEPT_AT_START : 2])]
    revealed = 0
    for task in needy * 5:
        text = world.reflect(world.start[gene], gene, [task], chance)
        assert text != world.start[gene]
        new = text.removeprefix(world.start[gene]).strip()
        if new.startswith("Always"):
            revealed += 1
            assert world.needs[task][int(new.rstrip(".").rpartition("R")[2])]
    assert revealed / (5 * len(needy)) == pytest.approx(world.setting.reveals, abs=0.06)


def test_a_perfect_playbook_is_better_than_the_start_by_far(world: Any) -> None:
    assert world.perfect > world.truth(world.start) + 0.15
