"""A candidate that lost its comparison stays marked, whatever is said of it later without proof."""

from __future__ import annotations

from world import NEW, OLD, serve_old, tasks, world

from seedbed import ExactMatch, Workspace
from seedbed.experiments.options import Comparing


async def lost(space: Workspace) -> str:
    """NEW loses against OLD on the tasks that only OLD can do."""
    verdict = await space.compare(OLD, NEW, on=tasks(range(60)), metric=ExactMatch())
    assert verdict.finding == "inferior"
    return verdict.experiment


async def test_a_candidate_that_lost_is_marked_wherever_it_is_listed() -> None:
    space = world(range(100), range(100, 300))
    space.playbooks.keep(OLD, because="first")
    space.playbooks.keep(NEW, because="second", parents=[OLD])
    space.playbooks.name("new", NEW, because="to try")
    assert space.playbooks.about(NEW)["failed"] is None
    assert [each.state for each in space.playbooks.branches()] == ["active"]
    mark = {"experiment": await lost(space), "finding": "inferior", "control": OLD.digest}
    assert space.playbooks.about(NEW)["failed"] == mark
    assert space.playbooks.about(OLD)["failed"] is None
    (root,) = space.playbooks.tree(NEW)
    assert (root["failed"], root["children"][0]["failed"]) == (None, mark)
    (branch,) = space.playbooks.branches()
    assert branch.state == "failed"
    assert branch.because.startswith("inferior against ")


async def test_an_exploratory_win_does_not_remove_the_mark_and_a_confirmatory_one_does() -> None:
    space = world(range(100), range(100, 300))
    await lost(space)
    tried = await space.compare(
        OLD, NEW, on=tasks(range(100, 160)), metric=ExactMatch(), options=Comparing(exploratory=True)
    )
    assert (tried.finding, tried.mode) == ("superior", "exploratory")
    assert space.playbooks.failed(NEW.digest)
    await serve_old(space)
    proved = await space.compare(OLD, NEW, on=tasks(range(200, 300)), metric=ExactMatch())
    assert (proved.finding, proved.mode) == ("superior", "confirmatory")
    assert space.playbooks.failed(NEW.digest) is None
