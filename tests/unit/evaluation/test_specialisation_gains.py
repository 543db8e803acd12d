"""Across corpora: paired gains over the base, what transfers, and which corpus is hard."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.scorecard import Scorecard
from seedbed.evaluation.specialisation import Specialisation, Specialist, evaluate_specialisation
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.specialisation import gain_text, to_csv, to_html, to_json, to_markdown
from seedbed.stats.estimates import Interval
from seedbed.stats.scores import difference_interval, score_interval


def playbook(system: str) -> Playbook:
    return Playbook.from_document({"roles": {"reader": {"system": system}}})


BASE, LAW, POST = (playbook(word) for word in ("Answer.", "Answer as a lawyer.", "Answer as a clerk."))
SPECIALISTS = [Specialist("corpora/law/qa", "law", "main", LAW), Specialist("corpora/post/qa", "post", "main", POST)]


def tasks(corpus: str, count: int = 8) -> Dataset:
    return Dataset(tuple(Task(f"{corpus} {n}", {"q": f"{corpus} {n}"}, "yes") for n in range(count)))


def card(played: Playbook, on: Dataset, values: Mapping[str, float | None], lower: bool = False) -> Scorecard:
    about = {"playbook": played.digest, "replicate": 0, "metric": "m", "run": "r"}
    cells = [Cell(key=task, task=task, value=value, **about) for task, value in values.items()]
    return Scorecard(played.digest, "m", cells, {task.id: task for task in on}, frozenset({"m"} if lower else ()))


CORPORA = {"law": tasks("law"), "post": tasks("post")}
SCORES = {  # how many of the first tasks of a corpus each passes
    BASE.digest: {"law": 2, "post": 6},
    LAW.digest: {"law": 7, "post": 3},
    POST.digest: {"law": 2, "post": 8},
}


def won_and_lost(wins: int, losses: int, of: int) -> Interval:
    return difference_interval([1.0] * wins + [-1.0] * losses + [0.0] * (of - wins - losses))


async def by_table(name: str, played: Playbook, corpus: str, on: Dataset) -> Scorecard:
    passed = SCORES[played.digest][corpus]
    return card(played, on, {task.id: float(place < passed) for place, task in enumerate(on)})


async def found(**given: object) -> Specialisation:
    return await evaluate_specialisation({"main": BASE}, SPECIALISTS, CORPORA, by_table, **given)  # type: ignore[arg-type]


async def test_the_effect_is_the_gain_on_its_own_corpus_and_the_rest_is_transfer() -> None:
    everywhere = await found()
    law, post = SPECIALISTS
    assert everywhere.gain(law, "law") == won_and_lost(5, 0, 8)
    assert everywhere.transfer(law) == {"post": won_and_lost(0, 3, 8)}
    assert everywhere.gain(post, "post") == won_and_lost(2, 0, 8)
    assert everywhere.transfer(post)["law"].mean == 0


async def test_every_playbook_is_scored_on_every_corpus() -> None:
    everywhere = await found()
    means = {key: each.interval.mean for key, each in everywhere.cards.items()}
    assert means["corpora/law/qa", "post"] == 3 / 8
    assert len(means) == 6


async def test_the_hardest_corpus_comes_first_and_one_without_a_score_last() -> None:
    async def evaluate(name: str, played: Playbook, corpus: str, on: Dataset) -> Scorecard:
        value = {"easy": 0.9, "hard": 0.1, "unknown": None}[corpus]
        return card(played, on, {task.id: value for task in on}, lower=played == LAW)

    corpora = {name: tasks(name) for name in ("unknown", "easy", "hard")}
    everywhere = await evaluate_specialisation({"main": BASE, "short": LAW}, [], corpora, evaluate)
    assert [corpus for corpus, _ in everywhere.difficulty("main")] == ["hard", "easy", "unknown"]
    assert [corpus for corpus, _ in everywhere.difficulty("short")] == ["easy", "hard", "unknown"]


def one_gain(
    base: Mapping[str, float | None], other: Mapping[str, float | None], on: Dataset, **given: bool
) -> Interval:
    cards = {("main", "law"): card(BASE, on, base, **given), ("corpora/law/qa", "law"): card(LAW, on, other, **given)}
    return Specialisation(("main",), (SPECIALISTS[0],), ("law",), cards).gain(SPECIALISTS[0], "law")


def test_gains_are_paired_by_task() -> None:
    rng = random.Random(3)
    on = tasks("law", 40)
    before = {task.id: rng.random() for task in on}
    after = {name: value + 0.1 + rng.gauss(0, 0.01) for name, value in reversed(before.items())}
    gain = one_gain(before, after, on)
    assert gain.low > 0.08
    assert gain.high < 0.12
    spread = score_interval(list(before.values()))
    assert gain.high - gain.low < (spread.high - spread.low) / 5


def test_only_tasks_that_both_have_scores_for_count() -> None:
    on = tasks("law", 4)
    before = {"law 0": 0.0, "law 1": None, "law 2": 0.5, "law 3": 0.5}
    after = {"law 0": 1.0, "law 1": 1.0, "law 2": None, "law 3": 1.0}
    gain = one_gain(before, after, on)
    assert (gain.mean, gain.n) == (0.75, 2)


def test_of_a_metric_that_should_be_low_less_is_a_gain() -> None:
    on = tasks("law", 3)
    gain = one_gain({t.id: 9.0 for t in on}, {t.id: 4.0 for t in on}, on, lower=True)
    assert gain.mean == 5.0


def test_agreement_on_few_tasks_is_no_certainty() -> None:
    def agreed(on: Dataset) -> Interval:
        return one_gain({task.id: 1.0 for task in on}, {task.id: 1.0 for task in on}, on)

    alone = tasks("law", 6)
    shared = Dataset(tuple(replace(task, source=f"court {place // 2}") for place, task in enumerate(alone)))
    for gain in (agreed(alone), agreed(shared)):
        assert (gain.mean, gain.n) == (0.0, 6)
        assert gain.low < -0.3
        assert 0.3 < gain.high < 1
    assert agreed(shared).high > agreed(alone).high  # three courts are less than six tasks


async def test_the_same_playbook_gains_nothing_for_sure() -> None:
    same = [Specialist("corpora/law/qa", "law", "main", BASE)]
    everywhere = await evaluate_specialisation({"main": BASE}, same, CORPORA, by_table)
    assert everywhere.gain(same[0], "law") == Interval(0.0, 0.0, 0.0, 0.95, 8)
    assert gain_text(everywhere.gain(same[0], "law"), own=True) == "the same *"


async def test_tasks_that_a_specialist_has_seen_say_nothing_about_its_gain() -> None:
    def seen(played: Playbook, on: Dataset) -> list[Task]:
        return [task for task in on if played == LAW and task.id in ("law 2", "law 3", "law 4")]

    everywhere = await found(seen=seen)
    law, post = SPECIALISTS
    assert everywhere.gain(law, "law") == won_and_lost(2, 0, 5)
    assert everywhere.gain(post, "law").n == 8
    assert list(everywhere.notes) == [
        "corpora/law/qa has seen 3 of 8 tasks of law: its gain is over the others only",
    ]
    everything = await found(seen=lambda played, on: list(on))
    assert everything.gain(law, "law").n == 0
    assert gain_text(everything.gain(law, "law"), own=True) == "no task left *"


async def test_every_form_tells_the_same() -> None:
    everywhere = await found(seen=lambda played, on: [task for task in on if played == LAW and task.id == "law 7"])
    document = json.loads(to_json(everywhere))
    assert document == everywhere.document()
    [effect, _] = document["effects"]
    assert (effect["name"], effect["corpus"], effect["seen"], effect["tasks"]) == ("corpora/law/qa", "law", 1, 7)
    assert [(each["name"], each["corpus"]) for each in document["transfer"]] == [
        ("corpora/law/qa", "post"),
        ("corpora/post/qa", "law"),
    ]
    gain = gain_text(everywhere.gain(SPECIALISTS[0], "law"), own=False)
    assert gain.startswith("+0.714 [")
    for text in (to_markdown(everywhere).replace("\\", ""), to_html(everywhere)):
        assert gain in text
        assert "seen 1 of 8 tasks" in text
    rows = list(csv.DictReader(io.StringIO(to_csv(everywhere))))
    assert len(rows) == 48
    assert {row["name"] for row in rows} >= {"main on law", "corpora/post/qa on law"}


async def test_names_in_reports_stay_text() -> None:
    hostile = "<script>|`"
    everywhere = await evaluate_specialisation({hostile: BASE}, [], CORPORA, by_table)
    assert "<script>" not in to_html(everywhere) + to_markdown(everywhere)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.25, -0.1, 0.6, 0.95, 8), "+0.250 [-0.100, +0.600]"),
        (Interval(-0.5, float("-inf"), float("inf"), 0.95, 1), "-0.500"),
    ],
)
def test_a_gain_has_a_sign_and_a_range_where_there_is_one(interval: Interval, text: str) -> None:
    assert gain_text(interval, own=False) == text
