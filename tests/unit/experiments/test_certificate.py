from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loop_samples import ORACLE, agent, bench, numbers

from seedbed.errors import BudgetSpent, NotFound, QuotaSpent, RunError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.experiments.compare import abort, run_experiment
from seedbed.experiments.evidence import same_numbers
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.certificate import certificate, verify
from seedbed.experiments.verdict import Verdict
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store, now
from seedbed.workspace import Workspace

SOME, ALL = agent("[0-4]|1."), agent(".*")
PATCHY = {"use": "scripted", "args": {"replies": {"[0-3]$": "hm"}}}
"""A model that fails at most tasks."""


class Graded(ExactMatch):
    binary = False

    @property
    def identity(self) -> dict[str, Any]:
        return {"metric": "graded"}

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(0.7 if run.playbook == ALL.digest else 0.2)


async def test_every_number_of_a_verdict_follows_from_the_registered_experiment_and_the_cells() -> None:
    store = MemoryStore()
    verdict = await run_experiment(SOME, ALL, numbers(30), ExactMatch(), bench(store))
    proof = certificate(store, verdict.experiment)
    assert proof.problems == ()
    assert proof.verdict == verdict
    assert len(proof.path) == verdict.tasks
    assert proof.path[-1].verdict == verdict.finding == "superior"
    assert all(proof.flags.values())
    assert not verify(store, [verdict.experiment])[verdict.experiment]


@pytest.mark.usefixtures("sighted")
@pytest.mark.parametrize("replicates", [1, 3])
async def test_so_do_those_of_graded_scores_sources_and_repeats(replicates: int) -> None:
    store = MemoryStore()
    tasks = Dataset(tuple(replace(task, source=f"doc {n // 3}") for n, task in enumerate(numbers(60))))
    verdict = await run_experiment(SOME, ALL, tasks, Graded(), bench(store), Comparing(replicates=replicates))
    assert (verdict.rule, verdict.at_most, verdict.finding) == ("betting", 20, "superior")
    assert not verify(store, [verdict.experiment])[verdict.experiment]


async def test_failures_are_part_of_the_evidence_and_stay_failures_when_they_are_made_good_later() -> None:
    store = MemoryStore()
    verdict = await run_experiment(agent("x"), ALL, numbers(20), ExactMatch(), bench(store, oracle=PATCHY))
    assert verdict.failed
    assert not verify(store, [verdict.experiment])[verdict.experiment]
    assert not certificate(store, verdict.experiment).flags["no_failures"]
    for fact in list(store.facts(Query(kind="cell"))):
        assert fact.key not in verdict.failed
    made_good = next(iter(verdict.failed))
    (known, *_) = store.facts(Query(kind="cell"))
    store.append([replace(known, key=made_good, number=0)])
    assert not verify(store, [verdict.experiment])[verdict.experiment]


EDITS = {
    "a score": "UPDATE facts SET value = 0 WHERE kind = 'cell' AND value = 1",
    "an answer": "UPDATE facts SET body = json_set(body, '$.answer', 'forged') WHERE kind = 'cell'",
    "a time": "UPDATE facts SET at = at + 1 WHERE kind = 'cell'",
    "who paid": "UPDATE facts SET by = 'eve' WHERE kind = 'cell'",
    "a lost cell": "DELETE FROM facts WHERE number = (SELECT min(number) FROM facts WHERE kind = 'cell')",
    "how a run ended": "UPDATE facts SET body = json_set(body, '$.output', 'forged') WHERE kind = 'run'",
    "what a model said": "UPDATE facts SET body = json_set(body, '$.text', 'forged') "
    "WHERE number = (SELECT min(number) FROM facts WHERE kind = 'turn')",
    "who was asked": "UPDATE facts SET by = 'eve' WHERE kind = 'turn'",
    "a lost turn": "DELETE FROM facts WHERE number = (SELECT min(number) FROM facts WHERE kind = 'turn')",
    "the finding": "UPDATE facts SET body = replace(body, 'superior', 'inferior') WHERE kind = 'verdict'",
    "the order": "UPDATE content SET body = replace(body, '\"seed\":0', '\"seed\":1') WHERE kind = 'experiment'",
    "the wins": "UPDATE facts SET body = json_set(body, '$.wins', 3) WHERE kind = 'verdict'",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edited_byte_is_found(edit: str, tmp_path: Path) -> None:
    file = tmp_path / "seedbed.db"
    store = open_store(f"sqlite:///{file}")
    verdict = await run_experiment(SOME, ALL, numbers(30), ExactMatch(), bench(store))
    assert not verify(store, [verdict.experiment])[verdict.experiment]
    store.close()
    with sqlite3.connect(file) as db:
        assert db.execute(edit).rowcount > 0
    assert _is_refused(open_store(f"sqlite:///{file}"), verdict.experiment)


def _is_refused(store: Store, experiment: str) -> bool:
    return bool(verify(store, [experiment])[experiment])


FAMILY = {
    "what a tool gave": "UPDATE facts SET body = json_set(body, '$.result', 'forged') WHERE kind = 'call'",
    "what was said to one that was opened": "UPDATE facts SET body = json_set(body, '$.text', 'x') WHERE kind = 'turn'",
    "how a run ended that was taken up": "UPDATE facts SET body = json_set(body, '$.output', 'x') WHERE key LIKE '%@2'",
}


@pytest.mark.parametrize("edit", FAMILY.values(), ids=FAMILY)
async def test_so_is_one_of_what_tools_gave_of_runs_that_were_opened_and_of_runs_taken_up(
    edit: str, tmp_path: Path
) -> None:
    file = tmp_path / "seedbed.db"
    store = open_store(f"sqlite:///{file}")
    space = Workspace(Settings.model_validate({"by": "ada", "models": {"oracle": ORACLE}}), store)
    space.tools = [counted]
    tries.clear()
    old, new = (agent(known, program=f"{__name__}:opening") for known in ("x", "y"))
    for _ in range(2):  # the first time every run fails, and the next time is taken up
        await space.evaluate(old, numbers(3), metric=ExactMatch())
    verdict = await space.compare(old, new, on=numbers(3), metric=ExactMatch(), options=Comparing(rule="betting"))
    assert not _is_refused(store, verdict.experiment)
    store.close()
    with sqlite3.connect(file) as db:
        assert db.execute(edit).rowcount > 0
    assert _is_refused(open_store(f"sqlite:///{file}"), verdict.experiment)


async def test_the_evidence_of_many_runs_is_that_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Workspace(Settings.model_validate({"by": "ada", "models": {"oracle": ORACLE}}), MemoryStore())
    space.tools = [counted]
    old, new = (agent(known, program=f"{__name__}:opening") for known in ("y", "z"))
    await space.evaluate(agent("more"), numbers(3), metric=ExactMatch())  # runs of others before and after
    verdict = await space.compare(old, new, on=numbers(3), metric=ExactMatch(), options=Comparing(rule="betting"))
    await space.evaluate(agent("and more"), numbers(3), metric=ExactMatch())
    assert not _is_refused(space.store, verdict.experiment)
    monkeypatch.setattr("seedbed.experiments.evidence.FEW", 2)  # so that they are looked through and not asked for
    assert not _is_refused(space.store, verdict.experiment)


tries: Counter[str] = Counter()


@tool(effect="reads")
def counted(n: int) -> str:
    return f"the number {n}"


async def opening(task: Mapping[str, Any], stage: Stage) -> Any:
    """Has another run of itself ask; at first it fails at the end."""
    if task.get("inner"):
        return (await stage.ask("agent", str(task["n"]))).text
    await stage.open({"n": task["n"], "inner": True})
    await stage.call("counted", n=task["n"])
    tries[f"{stage.playbook.digest} {task['n']}"] += 1
    if tries[f"{stage.playbook.digest} {task['n']}"] == 1 and stage.playbook.roles["agent"].system == "x":
        raise RunError("not yet")
    return str(task["n"])


async def test_reading_on_after_the_rule_has_ended_is_found() -> None:
    store = MemoryStore()
    verdict = await run_experiment(SOME, ALL, numbers(30), ExactMatch(), bench(store))
    for playbook in (SOME, ALL):
        await evaluate(playbook, numbers(30), ExactMatch(), bench(store))
    longer = replace(verdict, tasks=verdict.tasks + 1)
    (fact,) = store.facts(Query(kind="verdict"))
    forged = MemoryStore()
    for content in store.contents():
        forged.put(content.kind, content.body)
    forged.append(replace(each, number=0, link="") for each in store.facts(Query(kind="cell")))
    forged.append([replace(fact, body=longer.body(), number=0, link="")])
    problems = {problem.path for problem in certificate(forged, verdict.experiment).problems}
    assert {"tasks"} <= problems


async def test_an_experiment_that_was_stopped_by_hand_is_invalid_and_says_why() -> None:
    store = MemoryStore()
    left = iter(range(9))

    async def stop(*_: Any) -> None:
        if next(left, None) is None:
            raise QuotaSpent("no more than 9 runs")

    with pytest.raises(BudgetSpent):
        await run_experiment(SOME, ALL, numbers(30), ExactMatch(), bench(store, stop))
    (begun,) = store.facts(Query(kind="comparison"))
    verdict = abort(store, begun.key, because="looked bad", by="ada", clock=now)
    assert (verdict.finding, verdict.because) == ("invalid", "stopped by hand: looked bad")
    assert await run_experiment(SOME, ALL, numbers(30), ExactMatch(), bench(store)) == verdict
    assert Verdict.recall(store, begun.key) == verdict
    assert not certificate(store, begun.key).flags["ended_by_rule"]
    assert not verify(store, [begun.key])[begun.key]


def test_an_experiment_without_a_verdict_has_no_certificate() -> None:
    with pytest.raises(NotFound, match="has no verdict"):
        certificate(MemoryStore(), "b2:" + "0" * 64)


def test_the_last_digits_of_another_machine_make_no_other_number() -> None:
    there = {"e": 3.4976705729166673, "tags": [(0.1 + 0.2, "de")], "n": 12, "why": ""}
    here = {"e": 3.497670572916666, "tags": [(0.3, "de")], "n": 12, "why": ""}
    assert same_numbers(there, here)
    for changed in ({"e": 3.4976706}, {"tags": [(0.3, "fr")]}, {"tags": []}, {"n": 13}, {"more": 1}, {"e": None}):
        assert not same_numbers(there, {**here, **changed})
    assert same_numbers(float("inf"), float("inf"))
    assert not same_numbers(float("nan"), 0.0)
