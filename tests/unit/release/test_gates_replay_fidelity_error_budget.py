"""Whether a verdict can be trusted: replays that agree, and an error budget that was paid from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from loop_samples import bench
from release_samples import NEW, OLD, TASKS, change, compared, kept

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.evidence_sources import past_runs
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.error_budget import error_budget
from seedbed.release.gates.replay_fidelity import ReplayFidelity
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, now, short
from seedbed.workspace import Workspace

FOR = f"seedbed compare {short(OLD.digest)} {short(NEW.digest)} --on DATASET --for production"


@pytest.fixture
def library() -> Library:
    return kept()


# error_budget


async def test_a_verdict_that_was_paid_from_the_channel_s_budget_passes(library: Library) -> None:
    verdict = await compared(library, channel="production", terms=BudgetTerms())
    assert await error_budget(change(library, verdict)) is None


async def test_a_verdict_that_nobody_paid_for_is_refused(library: Library) -> None:
    refusal = await error_budget(change(library, await compared(library)))
    assert refusal
    assert refusal.found == "one that was not paid from an error budget"
    assert refusal.remedy == f"Run: {FOR}"


async def test_a_verdict_that_another_channel_paid_for_is_refused(library: Library) -> None:
    verdict = await compared(library, channel="staging", terms=BudgetTerms())
    refusal = await error_budget(change(library, verdict))
    assert refusal
    assert refusal.found == "one for staging"


async def test_a_verdict_that_says_it_was_paid_but_has_no_place_in_line_is_refused(library: Library) -> None:
    """Copied from another store, say, whose places are not those of this one."""
    elsewhere = kept()
    verdict = await compared(elsewhere, channel="production", terms=BudgetTerms())
    library.store.put("experiment", elsewhere.store.get(verdict.experiment))
    told: dict[str, Any] = {"key": verdict.experiment, "subject": verdict.candidate, "at": now(), "by": "eve"}
    library.store.append([Fact(kind="verdict", body=verdict.body(), **told)])
    refusal = await error_budget(change(library, verdict))
    assert refusal
    assert refusal.found == "one without a reservation"


async def test_without_a_verdict_the_command_pays_from_the_budget(library: Library) -> None:
    refusal = await error_budget(change(library))
    assert refusal
    assert (refusal.found, refusal.remedy) == ("no verdict", f"Run: {FOR}")


async def test_an_alarmed_sentinel_stops_everything(library: Library) -> None:
    verdict = await compared(library, channel="production", terms=BudgetTerms())
    for game in range(20):
        won = replace(verdict, experiment=f"b2:game {game}", candidate=OLD.digest)
        told: dict[str, Any] = {"key": won.experiment, "subject": OLD.digest, "at": now(), "by": "ada"}
        facts = [Fact(kind="verdict", body=won.body(), **told), Fact(kind="sentinel", body={"alpha": 0.1}, **told)]
        library.store.append(facts)
    refusal = await error_budget(change(library, verdict))
    assert refusal
    assert "100.0% of 20 playbooks called better than themselves" in refusal.found


# replay_fidelity


async def test_a_verdict_about_live_runs_needs_no_replays(library: Library) -> None:
    assert await ReplayFidelity()(change(library, await compared(library))) is None


async def test_replays_whose_agreement_nobody_measured_are_refused(library: Library) -> None:
    live = bench(library.store)
    past = replace(live, identity=lambda _: {"replay": {"mode": "strict", "models": {}, "code": ""}})
    verdict = await run_experiment(OLD, NEW, TASKS, ExactMatch(), past)
    asked = change(library, verdict)
    refusal = await ReplayFidelity()(asked)
    assert refusal
    assert refusal.found == "no measured agreement"
    assert await BetterGate(replays=True)(asked) is None
    assert await BetterGate()(asked)


async def test_without_a_verdict_replays_are_not_trusted(library: Library) -> None:
    refusal = await ReplayFidelity()(change(library))
    assert refusal
    assert refusal.found == "no verdict"


async def desk(task: Mapping[str, Any], stage: Stage) -> Any:
    """One that answers the same with any care."""
    return (await stage.ask("writer", f"Is {task['n']} even?", step="say")).text


def cautious(care: float) -> Playbook:
    roles = {"writer": {"model": "m", "system": "Answer."}}
    parameters = {"care": {"value": care, "low": 0, "high": 2}}
    return Playbook.from_document({"program": f"{__name__}:desk", "roles": roles, "parameters": parameters})


async def test_replays_count_as_far_as_they_are_known_to_agree() -> None:
    """All of 16 agree: at least 79 % will, as far as 16 can tell."""
    models = {"m": {"use": "scripted", "args": {"replies": {"[02468] even": "yes", ".": "no"}}}}
    space = Workspace(Settings.model_validate({"by": "ada", "models": models}), MemoryStore())
    before, after = cautious(0), cautious(1)
    for number in range(16):
        await space.run(before, n=number, seed=number)
    known = [Task(str(n), {"n": n}, "no" if n % 2 else "yes") for n in range(16)]
    past = past_runs(expected=Dataset(tuple(known)))
    verdict = await space.compare(before, after, on=past, metric=ExactMatch())
    asked = change(space.resources.library, verdict, candidate=after.digest, incumbent=before.digest)
    refusal = await ReplayFidelity(0.9)(asked)
    assert refusal
    assert refusal.found == "100% [79%, 100%] of 16"
    assert await ReplayFidelity(0.75)(asked) is None
