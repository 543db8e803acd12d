"""Reviews: what waits for one, what there is to look at, and who may answer."""

from __future__ import annotations

import pytest
from loop_samples import agent, numbers
from workspace_samples import in_memory

from seedbed.errors import ReleaseRefused, SettingsError
from seedbed.workspace import Workspace

OLD, NEW = agent("x"), agent(".*")


def reviewed() -> Workspace:
    return in_memory(channels={"production": {"require": ["better", "review"]}}, reviewers={"ben": ["product"]})


async def test_a_request_waits_until_somebody_else_answers_it() -> None:
    ada = reviewed()
    ben = ada.acting("ben")
    ada.reviews.request("production", NEW, because="it knows more")
    (waiting,) = ben.reviews.queue()
    assert (waiting.candidate, waiting.status) == (NEW.digest, "waiting")
    with pytest.raises(ReleaseRefused):
        ada.reviews.approve("production", NEW, because="mine")
    assert ben.reviews.approve("production", NEW, because="read it").by == "ben"
    assert ben.reviews.queue() == []
    assert [each.status for each in ben.reviews.queue(everything=True)] == ["approved"]


async def test_before_anything_is_served_there_is_nothing_to_compare_with() -> None:
    page = await reviewed().reviews.show("production", NEW)
    assert (page.incumbent, page.verdict, list(page.changes), list(page.samples)) == (None, None, [], [])
    assert page.no_samples == "none: the two were never compared"


async def test_a_refusal_holds_and_is_shown() -> None:
    ada = reviewed()
    ben = ada.acting("ben")
    ada.playbooks.keep(NEW, because="written")
    ben.reviews.refuse("production", NEW, because="too bold")
    page = await ada.reviews.show("production", NEW)
    assert [(fact.by, fact.body["because"]) for fact in page.answers] == [("ben", "too bold")]


async def test_outputs_that_differ_are_side_by_side() -> None:
    ada = in_memory()
    await ada.release(OLD, to="production")
    verdict = await ada.compare(OLD, NEW, on=numbers(20))
    page = await ada.reviews.show("production", NEW, samples=3)
    assert (page.verdict, page.incumbent, len(page.samples), page.no_samples) == (verdict, OLD.digest, 3, "")
    assert [change.path for change in page.changes] == ["roles.agent.system"]
    for sample in page.samples:
        assert {sample.left, sample.right} == {"hm", str(sample.task.inputs["n"])}


def test_a_channel_that_nobody_declared_has_no_reviews() -> None:
    with pytest.raises(SettingsError, match="Did you mean production"):
        reviewed().reviews.request("prodction", NEW, because="a slip")
