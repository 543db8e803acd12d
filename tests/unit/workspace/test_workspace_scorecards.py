"""Evaluations: their limits, several on one budget, and what people call playbooks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from loop_samples import agent, numbers
from workspace_samples import in_memory

from seedbed.errors import DatasetError, NotFound
from seedbed.evaluation.suite import Suite
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.stage import Stage
from seedbed.workspace.execution import Execution
from seedbed.workspace.resources import Evaluating

KNOWN = (("none", "x"), ("all", ".*"))


async def never(task: Mapping[str, Any], stage: Stage) -> str:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_an_evaluation_gives_up_on_runs_that_take_too_long() -> None:
    waits = Playbook.from_document({"program": "test_workspace_scorecards:never", "roles": {}})
    space = in_memory()
    card = await space.evaluate(waits, numbers(2), timeout_seconds=0.01)
    assert card.reasons == {"it took longer than 0.01 s": 2}
    # The limit was that of one evaluation.
    assert Execution(space.resources).context().timeout_seconds is None


async def test_several_evaluations_share_one_budget() -> None:
    space, seen = in_memory(), []
    cards = await space.scorecards.evaluate_each(
        {
            name: agent("", roles={"agent": {"model": "oracle", "system": known, "max_tokens": 1}})
            for name, known in KNOWN
        },
        numbers(4),
        options=Evaluating(max_cost_usd=6),
        on_event=lambda name, cell: seen.append(name),
    )
    assert sum(card.cost_usd for card in cards.values()) <= 6
    assert [len(card.unpaid) for card in cards.values()] == [0, 2]
    assert list(dict.fromkeys(seen)) == ["none", "all"]
    front = space.scorecards.front(cards)
    assert "all" in front.names


def test_files_are_called_by_their_names_where_that_is_enough(tmp_path: Path) -> None:
    space = in_memory()
    for folder, name in (("a", "one.yaml"), ("b", "one.yaml"), ("b", "two.yaml")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(agent(folder).to_yaml())
    paths = [str(tmp_path / each) for each in ("a/one.yaml", "b/one.yaml", "b/two.yaml")]
    assert list(space.scorecards.called([*paths, paths[2]])) == [paths[0], paths[1], "two.yaml"]


async def test_a_suite_needs_a_playbook() -> None:
    with pytest.raises(DatasetError, match="no playbook at all"):
        await in_memory().scorecards.suite(Suite("digits", (), {}), {})


def test_specialised_playbooks_and_their_tasks_are_missed_with_a_remedy() -> None:
    space = in_memory()
    with pytest.raises(NotFound, match=r"seedbed playbook specialise BASE CORPUS/qa"):
        space.scorecards.specialists("qa")
    space.playbooks.name("main", agent("x"), because="try")
    space.playbooks.specialise("main", "law/qa", because="try")
    chosen = space.scorecards.specialists("qa")
    with pytest.raises(DatasetError, match=r"seedbed dataset add FILE --name law/qa"):
        space.scorecards.corpora("qa", chosen, {}, every=False)
    space.datasets.add("law/qa", numbers(3), because="the first")
    assert {name: len(tasks) for name, tasks in space.scorecards.corpora("qa", chosen, {}, every=False).items()} == {
        "law": 3
    }
