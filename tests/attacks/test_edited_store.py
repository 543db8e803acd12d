"""Somebody with write access to the database edits what a verdict rests on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from world import NEW, OLD, serve_old, tasks, world

from seedbed import Workspace
from seedbed.storage import open_store


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def opened(database: Path) -> Workspace:
    return world([], [*range(100)], store=open_store(f"sqlite:///{database}"))


def edit(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute(statement).rowcount


async def test_a_deleted_attempt_is_missed(database: Path) -> None:
    with closing(await serve_old(opened(database))) as space:
        await space.compare(OLD, NEW, on=tasks(range(100, 130)))
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        assert space.experiments.verify([verdict.experiment]) == {verdict.experiment: []}
    edit(database, "DELETE FROM facts WHERE kind = 'attempt' AND key LIKE '%@1'")
    with closing(opened(database)) as space:
        problems = space.experiments.verify([verdict.experiment])[verdict.experiment]
    assert f"attempt 2 against {OLD.digest[3:13]}" in [each.path for each in problems]


async def test_a_level_that_was_raised_is_found(database: Path) -> None:
    with closing(await serve_old(opened(database))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
    edit(database, "UPDATE facts SET body = replace(body, '\"share\":0.9375', '\"share\":1.0') WHERE kind = 'attempt'")
    with closing(opened(database)) as space:
        problems = space.experiments.verify([verdict.experiment])[verdict.experiment]
    assert [each.found for each in problems if each.path.startswith("attempt 1")][:1] == ["a share of 1"]


async def test_scores_of_before_that_appear_later_are_found(database: Path) -> None:
    """Scores of the candidate were known first; to hide that, the experiment is said to be confirmatory."""
    with closing(await serve_old(opened(database))) as space:
        await space.evaluate(NEW, tasks(range(30)))
        await space.evaluate(OLD, tasks(range(30)))
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        assert verdict.mode == "exploratory"
    edit(database, "UPDATE facts SET body = replace(body, 'exploratory', 'confirmatory') WHERE kind = 'verdict'")
    with closing(opened(database)) as space:
        assert space.experiments.verify([verdict.experiment])[verdict.experiment]


async def test_a_sign_of_reward_hacking_that_was_edited_is_found(database: Path) -> None:
    with closing(await serve_old(opened(database))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
    edit(database, "UPDATE facts SET body = replace(body, '\"outputs\":0', '\"outputs\":1') WHERE kind = 'verdict'")
    with closing(opened(database)) as space:
        problems = space.experiments.verify([verdict.experiment])[verdict.experiment]
    assert "hacking.flattery" in [each.path for each in problems]
