"""After a superior verdict: what becomes of every tag."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from loop_samples import CONFIRMING, agent, bench, count

from seedbed.errors import SettingsError, StoreDamaged
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch, Metric, Score, metric
from seedbed.experiments.compare import compare
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.certificate import certificate
from seedbed.experiments.proof.evidence_file import export_evidence, verify_evidence
from seedbed.experiments.slices import Slices, SliceTerms
from seedbed.experiments.verdict import Verdict
from seedbed.runs.run import Run
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

TERMS = SliceTerms()
LOOKING = replace(CONFIRMING, slices=(TERMS,))
OLD, NEW = agent(".*[02468]"), agent(".*[0-46-9]|.*[13579]5")
"""OLD knows even numbers. NEW knows all but some that end in 5."""


def tagged(size: int = 120, source: str = "") -> Dataset:
    return Dataset(tuple(_task(n, source) for n in range(size)))


def _task(n: int, source: str = "") -> Task:
    tags = ("fives", "odd") if n % 10 == 5 else ("odd",) if n % 2 else ("even",)
    return Task(f"t{n}", {"n": n}, str(n), tags, f"{source}{n // 10}" if source else "")


async def decided(
    store: MemoryStore, tasks: Dataset, by: Metric | None = None, options: Comparing = LOOKING, at_once: int = 8
) -> Verdict:
    verdict = await compare(OLD, NEW, tasks, by or ExactMatch(), bench(store, at_once=at_once), options)
    assert verdict.finding == "superior"
    return verdict


def findings(verdict: Verdict) -> dict[str, str]:
    assert verdict.slices
    return {each.tag: each.finding for each in verdict.slices.tags}


async def test_a_tag_with_few_tasks_is_not_looked_at() -> None:
    verdict = await decided(MemoryStore(), tagged())
    assert findings(verdict) == {"odd": "not worse", "even": "not worse"}


async def test_without_a_tag_that_has_enough_tasks_nothing_is_run_or_recorded() -> None:
    store = MemoryStore()
    verdict = await decided(store, Dataset(tuple(replace(task, tags=()) for task in tagged())))
    assert verdict.slices is None
    assert count(store, "slices") == 0


async def test_a_tag_ends_alone_and_only_what_an_open_tag_needs_is_run() -> None:
    store = MemoryStore()
    verdict = await decided(store, tagged(300))
    assert verdict.slices
    odd, even = (next(each for each in verdict.slices.tags if each.tag == tag) for tag in ("odd", "even"))
    assert odd.tasks < even.tasks < even.at_most == 150
    assert (even.difference, even.wins, even.ties, even.losses) == (0.0, 0, even.tasks, 0)
    assert verdict.tasks < verdict.slices.tasks <= verdict.tasks + even.tasks
    # Nothing is run again, and little in vain.
    assert 2 * verdict.slices.tasks <= count(store, "run") <= 2 * verdict.slices.tasks + 40


async def test_how_many_run_at_once_changes_nothing() -> None:
    several = [await decided(MemoryStore(), tagged(), at_once=at_once) for at_once in (1, 50)]
    one, other = (each.slices for each in several)
    assert one
    assert other
    assert one.tags == other.tags
    assert (one.tasks, one.cost_usd) == (other.tasks, pytest.approx(other.cost_usd))


async def test_the_first_result_counts_and_is_read_again_with_the_verdict() -> None:
    store = MemoryStore()
    verdict = await decided(store, tagged())
    runs = count(store, "run")
    again = await decided(store, tagged())
    assert (again, again.slices, count(store, "run")) == (verdict, verdict.slices, runs)
    assert Verdict.recall(store, verdict.experiment).slices == verdict.slices
    proof = certificate(store, verdict.experiment)
    assert (proof.problems, proof.verdict.slices) == ((), verdict.slices)
    assert proof.document()["verdict"]["slices"]["terms"] == {"margin": 0.1, "false": 0.1, "least": 30}


async def test_a_file_of_evidence_has_the_tags_and_they_are_verified_without_the_store(tmp_path: Path) -> None:
    store = MemoryStore()
    verdict = await decided(store, tagged())
    check = verify_evidence(export_evidence(store, verdict.experiment, tmp_path / "x.evidence"))
    assert check.problems == ()
    assert check.certificate
    assert check.certificate.verdict.slices == verdict.slices


async def test_other_terms_are_another_result_of_the_same_verdict() -> None:
    store = MemoryStore()
    verdict = await decided(store, tagged())
    narrow = await decided(store, tagged(), options=replace(CONFIRMING, slices=(SliceTerms(least=10), TERMS)))
    assert narrow == verdict
    assert narrow.slices == verdict.slices
    assert count(store, "slices") == 2
    assert {each.tag for each in Slices.recall(store, verdict.experiment, SliceTerms(least=10)).tags} >= {"fives"}
    assert certificate(store, verdict.experiment).problems == ()


@metric(binary=False)
def closeness(run: Run, task: Task) -> Score:
    return Score(0.8 if run.output == task.expected else 0.3)


@metric(better="lower", binary=True)
def mistake(run: Run, task: Task) -> Score:
    return Score(float(run.output != task.expected))


@pytest.mark.parametrize("by", [closeness, mistake])
async def test_graded_scores_and_those_where_lower_is_better(by: Metric) -> None:
    """OLD knows what ends in 5 as NEW does not: it is the worst tag, in the direction of the metric."""
    store = MemoryStore()
    old, new = agent(".*[02468]|.*5"), agent(".*[0-46-9]")
    tasks = tagged(300)
    verdict = await compare(old, new, tasks, by, bench(store), replace(LOOKING, slices=(TERMS,)))
    assert verdict.finding == "superior"
    assert verdict.slices
    worst = verdict.slices.tags[0]
    assert (worst.tag, worst.finding) == ("fives", "worse")
    assert worst.difference == pytest.approx({"closeness": -0.5, "mistake": 1.0}[by.name])
    assert worst.low <= worst.difference <= worst.high
    assert worst.high < 0 if by is closeness else worst.low > 0
    assert certificate(store, verdict.experiment).problems == ()


async def test_of_a_source_only_the_tasks_with_the_tag_count_for_it() -> None:
    """Each source has ten tasks: all tags have as many units, and one of ten tasks is worse."""
    old, new = agent(".*[02468]|.*5"), agent(".*[0-46-9]")
    terms = SliceTerms(least=20)
    options = replace(CONFIRMING, slices=(terms,))
    store = MemoryStore()
    verdict = await compare(old, new, tagged(300, source="s"), ExactMatch(), bench(store), options)
    assert verdict.slices
    by_tag = {each.tag: each for each in verdict.slices.tags}
    assert by_tag["fives"].difference == -1.0
    assert by_tag["odd"].difference == pytest.approx(0.6)
    assert by_tag["fives"].finding == "worse"
    assert certificate(store, verdict.experiment).problems == ()


async def test_a_record_that_does_not_follow_from_the_cells_is_told() -> None:
    store = MemoryStore()
    verdict = await decided(store, tagged())
    (fact,) = store.facts(Query(kind="slices"))
    tags = fact.body["tags"]
    forged = {
        "a tag left out": {**fact.body, "tags": tags[1:]},
        "another finding": {**fact.body, "tags": [{**tags[0], "finding": "inconclusive"}, *tags[1:]]},
        "other evidence": {**fact.body, "evidence": verdict.evidence, "tasks": 3},
        "tags that were never read": {**fact.body, "terms": {"margin": 0.001, "false": 0.1, "least": 30}},
    }
    store.append([replace(fact, key=name, body=body) for name, body in forged.items()])
    paths = [each.path for each in certificate(store, verdict.experiment).problems]
    assert paths == ["slices", f"slices.{tags[0]['tag']}", "slices.tasks", "slices.evidence", "slices"]
    with pytest.raises(StoreDamaged, match="expected whole slices"):
        Slices.from_body({**fact.body, "tags": None})


async def test_nothing_is_run_after_a_verdict_that_can_release_nothing() -> None:
    store = MemoryStore()
    verdict = await decided(store, tagged(), options=replace(LOOKING, exploratory=True))
    assert (verdict.slices, count(store, "slices")) == (None, 0)


def test_terms_that_cannot_be_are_told_together() -> None:
    with pytest.raises(SettingsError) as caught:
        SliceTerms(margin=1.0, false=0.5, least=0)
    assert [each.path for each in caught.value.problems] == ["margin", "false", "least"]
