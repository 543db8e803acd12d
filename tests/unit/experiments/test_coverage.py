"""How far past runs could be replayed, in the certificate of a verdict about them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from replay_samples import compare_replayed, context_of

from seedbed.errors import RunError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.proof.certificate import certificate, verify
from seedbed.experiments.replay.coverage import measure_coverage
from seedbed.experiments.replay.history import History, draw_history, find_past_runs
from seedbed.experiments.replay.replay import Replayer, replay_context
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.experiment.report import to_html, to_markdown
from seedbed.reports.experiment.view import ExperimentView
from seedbed.runs.cassette import ReplayMode
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.stage.stage import Stage
from seedbed.storage import open_store, upkeep
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store, Upkeep, UpkeptStore
from seedbed.workspace import Workspace


async def agent(task: Mapping[str, Any], stage: Stage) -> Any:
    """One that takes care asks another question about every fourth number."""
    careful = stage.playbook.parameter("care") == 2 and task["n"] % 4 == 0
    said = (await stage.ask("writer", f"Is {task['n']} {'really ' if careful else ''}even?", step="say")).text
    if task["n"] == 13:
        raise RunError("thirteen is too much")
    return said


async def outer(task: Mapping[str, Any], stage: Stage) -> Any:
    if task.get("inner"):
        return (await stage.ask("writer", f"Is {task['n']} even?", step="say")).text
    return (await stage.open({"n": task["n"], "inner": True})).output


MODELS = {"m": {"use": "scripted", "args": {"replies": {"[02468] even": "yes", ".": "no"}}}}


def book(care: float, program: str = "agent") -> Playbook:
    roles = {"writer": {"model": "m", "system": "Answer."}}
    parameters = {"care": {"value": care, "low": 0, "high": 2}}
    return Playbook.from_document({"program": f"{__name__}:{program}", "roles": roles, "parameters": parameters})


A, SAME, CAREFUL = book(0), book(1), book(2)
"""Recordings of A answer one that asks the same, and three of four questions of a careful one."""


def workspace(store: Store | None = None) -> Workspace:
    return Workspace(Settings.model_validate({"by": "ada", "models": MODELS}), store or MemoryStore())


async def lived(space: Workspace, playbook: Playbook = A, count: int = 16) -> History:
    for number in range(count):
        try:
            await space.run(playbook, n=number, seed=number)
        except RunError:
            assert number == 13
    known = [Task(str(n), {"n": n}, "yes" if n % 2 == 0 else "no") for n in range(count)]
    return draw_history(find_past_runs(space.store, playbook=playbook.digest), by=["outcome"], known=known)


def is_sound(store: Store, verdict: Verdict) -> bool:
    return not verify(store, [verdict.experiment])[verdict.experiment]


async def test_a_verdict_about_replays_says_how_many_could_be_answered_and_how() -> None:
    space = workspace()
    past = await lived(space)
    verdict, replays = await compare_replayed(space, A, SAME, metric=ExactMatch(), past=past)
    proof = certificate(space.store, verdict.experiment)
    assert (proof.problems, proof.flags["replay_coverage"]) == ((), True)
    found = proof.coverage
    assert found is not None
    assert (found.mode, found.requested, len(found.answered)) == ("strict", 16, 16)
    assert found.steps == {arm: {"turn": {"exact": 16}} for arm in ("control", "candidate")}
    assert found.agreement == replays.fidelity.agreement
    assert (found.agreement.agreed, found.agreement.rate.n) == (16, 16)
    assert proof.document()["coverage"] == {name: verdict.replay[name] for name in found.document()}
    json.dumps(proof.document(), allow_nan=False)


async def test_past_runs_that_cannot_be_answered_are_counted_and_the_flag_says_so() -> None:
    space = workspace()
    past = await lived(space)
    verdict, *_ = await compare_replayed(space, A, CAREFUL, metric=ExactMatch(), past=past)
    proof = certificate(space.store, verdict.experiment)
    assert (proof.problems, proof.flags["replay_coverage"], verdict.at_most) == ((), False, 12)
    assert proof.coverage is not None
    assert (proof.coverage.requested, len(proof.coverage.answered)) == (16, 12)
    assert proof.coverage.steps["candidate"] == {"turn": {"exact": 12, "missed": 4}}
    assert proof.coverage.steps["control"] == {"turn": {"exact": 16}}
    tasks = Dataset.from_content(space.store.get(verdict.dataset))
    view = ExperimentView.of(proof, tasks)
    for text in (to_markdown(view), to_html(view)):
        for told in ("12 of 16", "100%", "75%", "25%", "Not every requested past run"):
            assert told in text


async def test_a_verdict_about_live_runs_has_no_such_flag_and_one_that_says_nothing_of_its_replays_is_doubted() -> None:
    space = workspace()
    past = await lived(space)
    live = await space.compare(A, SAME, on=past.tasks, metric=ExactMatch())
    assert "replay_coverage" not in certificate(space.store, live.experiment).flags
    silent = await run_experiment(A, SAME, past.tasks, ExactMatch(), replay_context(context_of(space)))
    proof = certificate(space.store, silent.experiment)
    assert (proof.problems, proof.coverage, proof.flags["replay_coverage"]) == ((), None, False)


async def test_steps_of_runs_that_a_replay_opened_count() -> None:
    space = workspace()
    old, new = book(0, "outer"), book(1, "outer")
    past = await lived(space, old, 3)
    verdict, *_ = await compare_replayed(space, old, new, metric=ExactMatch(), past=past, mode="fork:1")
    found = certificate(space.store, verdict.experiment).coverage
    assert found is not None
    assert found.steps["candidate"] == {"child": {"live": 3}, "turn": {"live": 3}}
    assert is_sound(space.store, verdict)


async def test_a_replay_that_is_tried_again_later_does_not_make_a_verdict_doubtful() -> None:
    space = workspace()
    past = await lived(space)
    verdict, *_ = await compare_replayed(space, A, SAME, metric=ExactMatch(), past=past, mode="lenient")
    ends = len(list(space.store.facts(Query(kind="run"))))
    thirteen = next(task for task in past.tasks if task.inputs["n"] == 13)
    for playbook in (A, SAME):  # it fails again, and ends once more
        with pytest.raises(RunError):
            await Replayer(space.resources.runner, ReplayMode("lenient"))("", playbook, thirteen, 1, Ledger())
    assert len(list(space.store.facts(Query(kind="run")))) > ends
    assert is_sound(space.store, verdict)


REPLAYS = "kind = 'run' AND json_extract(body, '$.replay') IS NOT NULL"
EDITS = {
    "how many were asked for": "UPDATE facts SET body = json_set(body, '$.replay.asked', 12) WHERE kind = 'verdict'",
    "which were asked for": "UPDATE content SET body = replace(body, 'strict', 'strikt') WHERE kind = 'sample'",
    "a sample that is gone": "DELETE FROM content WHERE kind = 'sample'",
    "how a recorded run ended": "UPDATE facts SET body = json_set(body, '$.output', 'x') WHERE kind = 'run' AND "
    "json_extract(body, '$.replay') IS NULL",
    "what a recorded run was told": "UPDATE facts SET body = json_set(body, '$.text', 'x') WHERE kind = 'turn' AND "
    f"subject NOT IN (SELECT key FROM facts WHERE {REPLAYS})",
    "a label": f"UPDATE facts SET body = json_set(body, '$.replay.labels.turn.exact', 2) WHERE {REPLAYS}",
    "why one was missed": "UPDATE facts SET body = json_set(body, '$.error', json_extract(body, '$.error') || '.') "
    f"WHERE {REPLAYS} AND body LIKE '%Missed: %'",
    "one that was missed": f"DELETE FROM facts WHERE {REPLAYS} AND body LIKE '%Missed: %'",
    "what a replay was told": "UPDATE facts SET body = json_set(body, '$.text', 'x') WHERE kind = 'turn' AND "
    f"subject IN (SELECT key FROM facts WHERE {REPLAYS})",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edited_byte_of_what_a_verdict_about_replays_rests_on_is_found(edit: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'seedbed.db'}"
    store = open_store(url)
    space = workspace(store)
    past = await lived(space)
    verdict, *_ = await compare_replayed(space, A, CAREFUL, metric=ExactMatch(), past=past)
    assert is_sound(store, verdict)
    assert isinstance(store, Upkeep)
    store.close()
    with sqlite3.connect(tmp_path / "seedbed.db") as db:
        assert db.execute(edit).rowcount > 0
    assert not is_sound(open_store(url), verdict)


async def test_what_was_copied_to_another_kind_of_store_follows_there_too(tmp_path: Path, postgres_url: str) -> None:
    space = workspace(open_store(f"sqlite:///{tmp_path / 'seedbed.db'}"))
    verdict, *_ = await compare_replayed(space, A, CAREFUL, metric=ExactMatch(), past=await lived(space))
    other = open_store(postgres_url)
    assert isinstance(space.store, Upkeep)
    assert isinstance(other, Upkeep)
    try:
        upkeep.copy(cast(UpkeptStore, space.store), cast(UpkeptStore, other))
        assert is_sound(other, verdict)
        assert certificate(other, verdict.experiment) == certificate(space.store, verdict.experiment)
    finally:
        other.close()
        space.close()


async def test_a_sample_with_replays_of_other_runs_or_playbooks_is_not_covered_by_them() -> None:
    space = workspace()
    past = await lived(space)
    verdict, *_ = await compare_replayed(space, A, SAME, metric=ExactMatch(), past=past)
    sample = space.store.get(verdict.replay["sample"])
    first, second, *_ = sample["items"]
    swapped = {**sample, "items": [{**first, "candidate": second["candidate"]}]}
    assert not measure_coverage(space.store, swapped).answered
    assert not measure_coverage(space.store, {**swapped, "items": [{**first, "candidate": first["control"]}]}).answered
    assert measure_coverage(space.store, {**swapped, "items": [first]}).is_whole
