"""Suites: read as a whole, measured as a whole, held against the last results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seedbed.errors import DatasetError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.scorecard import Scorecard
from seedbed.evaluation.suite import Suite, SuiteChange, SuiteDataset, SuiteScore, measure_suite, record_results
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SUITE = """\
baselines: {plain: plain.yaml}
metrics: [exact_match]
datasets:
  reviews: reviews.jsonl
  letters: {tasks: letters.jsonl, metrics: [f1, {numeric: {tolerance: 0.5}}], at_least: {f1: 0.5}, at_most: {f1: 0.9}}
replicates: 2
"""
PLAIN = Playbook.from_document({"roles": {"reader": {"system": "Read."}}})


def rows(count: int, first: int = 0, expected: str = "yes") -> str:
    return "".join(
        json.dumps({"id": f"t{n}", "inputs": {"n": n}, "expected": expected, "source": f"s{n}"}) + "\n"
        for n in range(first, first + count)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    where = tmp_path / "first"
    where.mkdir()
    (where / "suite.yaml").write_text(SUITE)
    (where / "plain.yaml").write_text('roles: {reader: {system: "Read."}}\n')
    (where / "reviews.jsonl").write_text(rows(20))
    (where / "letters.jsonl").write_text(rows(4))
    return where


# Reading


def test_a_suite_is_a_folder(folder: Path) -> None:
    suite = Suite.load(folder)
    assert (suite.name, suite.replicates, suite.baselines) == ("first", 2, {"plain": PLAIN})
    reviews, letters = suite.parts
    assert (reviews.name, len(reviews.tasks), [metric.name for metric in reviews.metrics]) == (
        *("reviews", 20),
        ["exact_match"],
    )
    assert [metric.name for metric in letters.metrics] == ["f1", "numeric(tolerance=0.5)"]
    assert (letters.at_least, letters.at_most) == ({"f1": 0.5}, {"f1": 0.9})
    assert Suite.load(folder / "suite.yaml") == suite


def test_a_bad_suite_tells_all_that_is_wrong_and_where(folder: Path) -> None:
    (folder / "reviews.jsonl").write_text('{"inputs": 3}\n{"inputs": {}, "odd": 1}\n')
    (folder / "suite.yaml").write_text(
        "datasets:\n"
        "  reviews: reviews.jsonl\n"
        "  letters:\n"
        "    tasks: absent.jsonl\n"
        "    metrics: [f1, beauty]\n"
        "    at_least: {bleu: 0.5, f1: high}\n"
        "    weight: 3\n"
        "  odd: 7\n"
        "baselines: {plain: absent.yaml, other: 3}\n"
        "replicates: 0\n"
        "authors: [me]\n"
    )
    with pytest.raises(DatasetError) as wrong:
        Suite.load(folder)
    found = {problem.path for problem in wrong.value.problems}
    assert found >= {
        *("authors (line 11)", "datasets.letters.weight (line 7)", "datasets.letters.metrics[1] (line 5)"),
        *("datasets.letters.at_least.bleu (line 6)", "datasets.letters.at_least.f1 (line 6)"),
        *("datasets.letters.tasks (line 4)", "datasets.reviews.tasks", "datasets.odd (line 8)"),
        *("baselines.plain (line 9)", "baselines.other (line 9)", "replicates (line 10)"),
    }
    assert "suite.yaml" in wrong.value.source


@pytest.mark.parametrize("text", ["", "[]", "3", "metrics: [f1]\n", "datasets: {}\nmetrics: []\n", "a: [\n"])
def test_what_is_no_suite_is_refused(text: str, folder: Path) -> None:
    (folder / "suite.yaml").write_text(text)
    with pytest.raises(DatasetError):
        Suite.load(folder)


def test_a_folder_without_a_suite_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"suite\.yaml"):
        Suite.load(tmp_path)


# Measuring


def card(part: SuiteDataset, values: Mapping[str, float], playbook: Playbook = PLAIN) -> Scorecard:
    """A card by every metric of the part; what is not named scores 1."""
    cells = [
        Cell(
            key=f"{task.id} {metric.name}",
            playbook=playbook.digest,
            task=task.id,
            replicate=0,
            metric=metric.name,
            value=values.get(task.id, 1.0),
        )
        for task in part.tasks
        for metric in part.metrics
    ]
    return Scorecard(playbook.digest, part.metrics[0].name, cells, {task.id: task for task in part.tasks})


async def again(
    suite: Suite, store: Store, values: Mapping[str, float], hours: int = 0, accept: bool = False
) -> dict[tuple[str, str], SuiteScore]:
    """Measure a suite whose tasks score so, and keep that."""

    async def evaluate(name: str, playbook: Playbook, part: SuiteDataset) -> Scorecard:
        return card(part, values, playbook)

    results = await measure_suite(suite, suite.baselines, evaluate, store)
    record_results(results, store, by="ann", at=NOON + timedelta(hours=hours), accept=accept)
    return {(each.dataset, each.metric): each for each in results}


def wrong(count: int) -> dict[str, float]:
    return {f"t{n}": 0.0 for n in range(count)}


REVIEWS = ("reviews", "exact_match")


def change_of(results: Mapping[tuple[str, str], SuiteScore]) -> SuiteChange:
    change = results[REVIEWS].change
    assert change is not None
    return change


async def test_the_first_time_there_is_nothing_to_compare_with(folder: Path) -> None:
    results = await again(Suite.load(folder), MemoryStore(), {})
    assert list(results) == [REVIEWS, ("letters", "f1"), ("letters", "numeric(tolerance=0.5)")]
    assert all(result.change is None for result in results.values())


async def test_a_drop_on_many_tasks_is_a_regression_on_so_many_tasks(folder: Path) -> None:
    suite, store = Suite.load(folder), MemoryStore()
    await again(suite, store, {})
    change = change_of(await again(suite, store, wrong(10), hours=1))
    assert change.regressed
    assert (change.difference.mean, change.difference.n, change.at) == (-0.5, 20, NOON)
    assert change.difference.high < 0


async def test_a_drop_on_few_tasks_is_none_nor_is_a_rise(folder: Path) -> None:
    suite, store = Suite.load(folder), MemoryStore()
    await again(suite, store, wrong(5))
    assert not change_of(await again(suite, store, wrong(8), hours=1)).regressed
    better = change_of(await again(suite, store, {}, hours=2))
    assert (better.regressed, better.difference.mean) == (False, 0.4)


async def test_four_tasks_that_all_turned_are_too_few_to_tell(folder: Path) -> None:
    suite, store = Suite.load(folder), MemoryStore()
    await again(suite, store, {})
    results = await again(suite, store, wrong(4), hours=1)
    letters = results["letters", "f1"].change
    assert letters is not None
    assert (letters.difference.mean, letters.difference.n, letters.regressed) == (-1.0, 4, False)


async def test_what_regressed_is_not_what_the_next_is_held_against_unless_accepted(folder: Path) -> None:
    suite, store = Suite.load(folder), MemoryStore()
    await again(suite, store, {})
    await again(suite, store, wrong(10), hours=1)
    assert change_of(await again(suite, store, wrong(10), hours=2)).regressed
    await again(suite, store, wrong(10), hours=3, accept=True)
    assert change_of(await again(suite, store, wrong(10), hours=4)).difference.mean == 0


async def test_only_tasks_that_ask_the_same_are_compared(folder: Path) -> None:
    store = MemoryStore()
    await again(Suite.load(folder), store, {})
    (folder / "reviews.jsonl").write_text(rows(5, expected="no") + rows(25, first=5))
    change = change_of(await again(Suite.load(folder), store, wrong(5), hours=1))
    assert (change.difference.n, change.difference.mean) == (15, 0.0)


async def test_suites_playbooks_and_metrics_are_not_mixed_up(folder: Path) -> None:
    store = MemoryStore()
    suite = Suite.load(folder)
    await again(suite, store, {})
    other = replace(suite, name="other")
    assert (await again(other, store, wrong(20), hours=1))[REVIEWS].change is None
    renamed = replace(suite, baselines={"second": PLAIN})
    assert (await again(renamed, store, wrong(20), hours=2))[REVIEWS].change is None


async def test_of_a_metric_that_is_better_low_a_rise_is_a_regression(folder: Path) -> None:
    (folder / "suite.yaml").write_text(
        "baselines: {plain: plain.yaml}\nmetrics: [length]\ndatasets: {r: reviews.jsonl}\n"
    )
    suite, store = Suite.load(folder), MemoryStore()
    await again(suite, store, {})
    longer = {f"t{n}": 5.0 + n for n in range(20)}
    (result,) = (await again(suite, store, longer, hours=1)).values()
    assert result.change is not None
    assert result.change.regressed


# Thresholds


@pytest.mark.parametrize(("right", "missed"), [(1, "below 0.5"), (2, ""), (3, ""), (4, "above 0.9")])
async def test_thresholds_are_told_where_they_are_missed(right: int, missed: str, folder: Path) -> None:
    results = await again(Suite.load(folder), MemoryStore(), wrong(4 - right))
    assert results["letters", "f1"].missed == missed
    assert results["letters", "numeric(tolerance=0.5)"].missed == results[REVIEWS].missed == ""


async def test_thresholds_are_for_those_who_are_judged(folder: Path) -> None:
    suite = Suite.load(folder)

    async def evaluate(name: str, playbook: Playbook, part: SuiteDataset) -> Scorecard:
        return card(part, wrong(4), playbook)

    both = {"plain": PLAIN, "mine": PLAIN}
    results = await measure_suite(suite, both, evaluate, MemoryStore(), judged=["mine"])
    assert {result.name for result in results if result.missed} == {"mine"}


# Keeping


async def test_results_are_facts_and_what_has_no_score_is_none(folder: Path) -> None:
    suite, store = Suite.load(folder), MemoryStore()
    results = await again(suite, store, wrong(10))
    fact = next(fact for fact in store.facts(Query(kind="suite")) if fact.body["dataset"] == "reviews")
    assert (fact.value, fact.subject, fact.by, fact.body["tasks"]) == (0.5, PLAIN.digest, "ann", 20)
    assert fact.body["dataset_digest"] == suite.parts[0].tasks.digest
    lost = replace(results[REVIEWS], card=Scorecard(PLAIN.digest, "exact_match", ()))
    record_results([lost], store, by="ann", at=NOON)
    assert sum(1 for _ in store.facts(Query(kind="suite"))) == 3


def test_the_suite_that_ships_can_be_read_and_shows_no_answer_beforehand() -> None:
    suite = Suite.load(Path(__file__).parents[3] / "examples" / "suite")
    assert {part.name: len(part.tasks) for part in suite.parts} == {"reviews": 36, "letters": 28, "problems": 28}
    asked = {task.inputs["text"] for part in suite.parts for task in part.tasks}
    shown = {demo.inputs["text"] for demo in suite.baselines["shown"].demos["answer"]}
    assert len(shown) == 5
    assert not shown & asked
