"""Live experiments: computed again from raw exposures and feedback, reported, and asked for by the gates."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loop_samples import ORACLE, agent

from seedbed.errors import Problem, ReleaseRefused, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.evidence_sources import live
from seedbed.experiments.proof.certificate import certificate, verify
from seedbed.experiments.verdict import Verdict
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.content import ContentGate
from seedbed.release.gates.error_budget import error_budget
from seedbed.release.gates.gate import Gate, ReleaseRequest
from seedbed.release.gates.held_out import held_out
from seedbed.release.gates.not_worse import NotWorse
from seedbed.release.gates.replay_fidelity import ReplayFidelity
from seedbed.release.gates.risk import Risk
from seedbed.reports.experiment.report import to_html, to_markdown
from seedbed.reports.experiment.view import ExperimentView
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Store, digest
from seedbed.workspace import Workspace

OLD, NEW, OTHER = agent("[0-4]"), agent(".*"), agent("x")


def workspace(store: Store, *build_gates: str) -> Workspace:
    channels: dict[str, Any] = {"live": {"require": []}, "next": {"require": list(build_gates)}}
    settings = {"by": "ada", "models": {"oracle": ORACLE}, "channels": channels}
    return Workspace(Settings.model_validate(settings), store)


def _verdict(space: Workspace, channel: str, *, conclude: bool = False, **options: Any) -> Verdict | None:
    """What was found live of the canary of a channel, if it is decided."""
    (found,) = space.experiments.compare_live(live(channel, conclude=conclude), **options)
    return found.verdict


async def shown(
    space: Workspace, good: dict[str, float], users: int = 160, channel: str = "live", looks: Sequence[float] = ()
) -> Verdict | None:
    """A canary is tried on a channel that has nothing yet; what was found of it. `looks` are the error rates of
    comparisons that are registered before the first user comes."""
    await space.release(OLD, to=channel)
    await space.release(NEW, to=channel, because="try it", share=0.5)
    for alpha in looks:
        _verdict(space, channel, alpha=alpha)
    chance = random.Random(7)
    for number in range(users):
        choice = await space.channels.choose(channel, key=f"user {number}")
        space.feedback(choice, float(chance.random() < good[choice.arm]))
    return _verdict(space, channel)


CLEAR = {"canary": 1.0, "control": 0.3}


# Evidence

EDITS = {
    "a rating": "UPDATE facts SET value = 0.5 WHERE number = (SELECT min(number) FROM facts WHERE kind = 'feedback')",
    "a comment": "UPDATE facts SET body = json_set(body, '$.comment', 'x') WHERE kind = 'feedback'",
    "who rated": "UPDATE facts SET by = 'eve' WHERE kind = 'feedback'",
    "when it was rated": "UPDATE facts SET at = at + 1 WHERE kind = 'feedback'",
    "what was rated": "UPDATE facts SET tags = replace(tags, 'rating', 'ratinG') WHERE kind = 'feedback'",
    "a lost rating": "DELETE FROM facts WHERE number = (SELECT min(number) FROM facts WHERE kind = 'feedback')",
    "an arm": "UPDATE facts SET body = replace(body, 'canary', 'control') WHERE kind = 'exposure'",
    "a unit": "UPDATE facts SET body = json_set(body, '$.unit', 'eve') "
    "WHERE number = (SELECT max(number) FROM facts WHERE kind = 'exposure' AND number < "
    "(SELECT min(number) FROM facts WHERE kind = 'feedback'))",
    "a chance": "UPDATE facts SET body = json_set(body, '$.propensity', 0.4) WHERE kind = 'exposure'",
    "a lost exposure": "DELETE FROM facts WHERE number = (SELECT min(number) FROM facts WHERE kind = 'exposure')",
    "the finding": "UPDATE facts SET body = replace(body, 'superior', 'inferior') WHERE kind = 'verdict'",
    "the experiment": "UPDATE content SET body = replace(body, '0.05', '0.15') WHERE kind = 'experiment'",
    "what it is about": "UPDATE content SET body = replace(body, 'arrival', 'choosing') WHERE kind = 'live'",
    "what was read": "UPDATE content SET body = replace(body, 'exposure', 'feedback') WHERE kind = 'arrivals'",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edited_byte_in_what_a_live_verdict_rests_on_is_found(edit: str, tmp_path: Path) -> None:
    file = tmp_path / "seedbed.db"
    store = open_store(f"sqlite:///{file}")
    verdict = await shown(workspace(store), CLEAR, users=60)
    assert verdict
    assert verdict.finding == "superior"
    assert not verify(store, [verdict.experiment])[verdict.experiment]
    store.close()
    with sqlite3.connect(file) as db:
        assert db.execute(edit).rowcount > 0
    store = open_store(f"sqlite:///{file}")
    assert verify(store, [verdict.experiment])[verdict.experiment]
    store.close()


async def test_a_rating_that_comes_to_be_seen_late_is_no_forgery_but_is_told(tmp_path: Path) -> None:
    file = tmp_path / "seedbed.db"
    store = open_store(f"sqlite:///{file}")
    space = workspace(store)
    await shown(space, CLEAR, users=4)
    for number in range(100):
        choice = await space.channels.choose("live", key=f"late {number}")
        space.feedback(choice, CLEAR[choice.arm])
    second = "SELECT number FROM facts WHERE kind = 'feedback' ORDER BY number LIMIT 1 OFFSET 1"
    with sqlite3.connect(file) as db:  # it has its number, and cannot be seen before it is committed
        db.execute(f"CREATE TABLE hidden AS SELECT * FROM facts WHERE number = ({second})")
        assert db.execute(f"DELETE FROM facts WHERE number = ({second})").rowcount == 1
    verdict = _verdict(space, "live")
    assert verdict
    assert certificate(store, verdict.experiment).flags["nothing_left_out"]
    with sqlite3.connect(file) as db:
        db.execute("INSERT INTO facts SELECT * FROM hidden")
        db.execute("DROP TABLE hidden")
    proof = certificate(store, verdict.experiment)
    assert proof.problems == ()
    assert not proof.flags["nothing_left_out"]
    store.close()


async def test_a_report_of_a_live_verdict_speaks_of_pairs_and_of_those_who_met_each() -> None:
    store = MemoryStore()
    verdict = await shown(workspace(store), CLEAR)
    assert verdict
    proof = certificate(store, verdict.experiment)
    for write in (to_markdown, to_html):
        told = write(ExperimentView.of(proof, Dataset(()), ("before", "after")))
        assert "after is better than before" in told
        assert f"on {verdict.losses:,} and as well on {verdict.ties:,} of {verdict.tasks:,} pairs of outcomes" in told
        assert "units served by after" in told
        assert "Got worse" not in told
        assert "an order drawn from seed" not in told
    assert str(verdict).startswith("superior: ")
    assert f"after {verdict.tasks} pairs of outcomes" in str(verdict)


# Gates


def change(space: Workspace, verdict: Verdict | None, **given: Any) -> ReleaseRequest:
    about: dict[str, Any] = {"candidate": NEW.digest, "incumbent": OLD.digest, **given}
    return ReleaseRequest("next", verdict=verdict, library=space.resources.library, **about)


async def refusal(gate: Gate, its: ReleaseRequest) -> Problem:
    found = await gate(its)
    assert found
    return found


async def test_better_and_held_out_take_a_live_verdict_about_exactly_these_two() -> None:
    space = workspace(MemoryStore())
    verdict = await shown(space, CLEAR, looks=[0.05])
    space.resources.library.keep(OTHER, because="written")
    gates: tuple[Gate, ...] = (BetterGate(), held_out, ReplayFidelity())
    for gate in gates:
        assert await gate(change(space, verdict)) is None
        assert (await refusal(gate, change(space, verdict, incumbent=OTHER.digest))).found.startswith("a verdict about")
        assert (await refusal(gate, change(space, verdict, candidate=OTHER.digest))).found.startswith("a verdict about")
    await space.release(OLD, to="next")
    await space.release(NEW, to="next", because=verdict)


async def test_better_takes_no_live_verdict_that_says_something_else_and_no_second_one() -> None:
    space = workspace(MemoryStore(), "better")
    verdict = await shown(space, {"canary": 0.3, "control": 1.0}, looks=[0.05, 0.01])
    assert (await refusal(BetterGate(), change(space, verdict))).found == "the finding inferior"
    again = _verdict(space, "live", alpha=0.01, conclude=True)
    second = await refusal(BetterGate(), change(space, again))
    assert second.found == "a second comparison on the same outcomes; the first was inferior"
    lax = _verdict(space, "live", conclude=True, metric="other", alpha=0.2)
    assert (await refusal(BetterGate(), change(space, lax))).found == "an exploratory verdict"


@pytest.mark.parametrize("gate", [NotWorse({"exact_match": 0.1}), Risk()])
async def test_gates_that_look_at_tasks_refuse_a_live_verdict(gate: Gate) -> None:
    space = workspace(MemoryStore())
    found = await refusal(gate, change(space, await shown(space, CLEAR)))
    assert "live verdict" in found.found
    assert found.remedy


async def test_behind_a_live_verdict_only_the_changed_texts_are_read() -> None:
    space = workspace(MemoryStore())
    asked = change(space, await shown(space, CLEAR))
    assert await ContentGate()(asked) is None
    found = await refusal(ContentGate(), replace(asked, verdict=None))
    assert found.found == "no verdict"


async def test_a_live_verdict_that_nobody_paid_for_is_refused_by_the_error_budget() -> None:
    space = workspace(MemoryStore(), "error_budget")
    unpaid = await shown(space, CLEAR)
    assert (await refusal(error_budget, change(space, unpaid))).found == "one that was not paid from an error budget"


async def test_a_live_verdict_is_paid_from_the_budget_that_the_channel_requires() -> None:
    channels: dict[str, Any] = {"next": {"require": []}}
    store = MemoryStore()
    free = Workspace(Settings.model_validate({"by": "ada", "channels": channels}), store)
    await free.release(OLD, to="next")
    await free.release(NEW, to="next", because="try it", share=0.5)
    channels = {"next": {"require": ["error_budget"], "error_budget": 0.05}}
    space = Workspace(Settings.model_validate({"by": "ada", "channels": channels}), store)
    with pytest.raises(SettingsError, match=r"alpha: found 0\.01; expected none for a channel"):
        _verdict(space, "next", alpha=0.01)
    chance = random.Random(7)
    for number in range(300):
        choice = await space.channels.choose("next", key=f"user {number}")
        space.feedback(choice, float(chance.random() < CLEAR[choice.arm]))
    verdict = _verdict(space, "next")
    assert verdict
    assert (verdict.finding, verdict.alpha < 0.05) == ("superior", True)
    assert await error_budget(change(space, verdict)) is None
    assert not verify(store, [verdict.experiment])[verdict.experiment]
    elsewhere = ReleaseRequest("live", NEW.digest, OLD.digest, verdict, space.resources.library)
    assert (await refusal(error_budget, elsewhere)).found == "one for next"


async def test_a_forged_live_verdict_is_refused() -> None:
    space = workspace(MemoryStore(), "held_out")
    verdict = await shown(space, CLEAR)
    assert verdict
    forged = Verdict.from_body({**verdict.body(), "experiment": digest("experiment", {})})
    await space.release(OLD, to="next")
    with pytest.raises(ReleaseRefused, match="a verdict that this store does not hold"):
        await space.release(NEW, to="next", because=forged)
