"""Hindsight in Python: patterns of past runs, and what another policy would have scored. Nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from loop_samples import agent, count, numbers
from workspace_samples import in_memory

from seedbed.errors import DocumentError, NotFound
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.workspace import Workspace

KNOWS_SHORT_NUMBERS = agent(r"\d\d?")
NUMBERS = Dataset((*numbers(60), *numbers(60, first=1000)))


@pytest.fixture
async def space() -> Workspace:
    its = in_memory()
    await its.evaluate(KNOWS_SHORT_NUMBERS, NUMBERS)
    return its


async def test_what_sets_good_runs_apart_is_found_and_can_become_an_experiment(
    space: Workspace, tmp_path: Path
) -> None:
    before = count(space.store, "start")
    patterns, runs = space.analysis.patterns(KNOWS_SHORT_NUMBERS, on=NUMBERS)
    assert (patterns.runs, patterns.failed) == (120, 0)
    assert patterns.findings
    file = tmp_path / "next.yaml"
    space.analysis.suggest(patterns, runs, file, playbook=None, metric="exact_match", number=1)
    assert KNOWS_SHORT_NUMBERS.digest in file.read_text()
    assert count(space.store, "start") == before


async def test_a_policy_for_a_decision_that_no_run_made_is_refused(space: Workspace, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"ask": 0.5, "go": 0.5}')
    with pytest.raises(NotFound, match='no run decided at "way"'):
        await space.analysis.screen("way", str(policy), on=NUMBERS)
    with pytest.raises(DocumentError, match="No such file"):
        await space.analysis.screen("way", str(tmp_path / "none.json"))
