"""What is told of a search: each number means what it says, and what is not known is not made up."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf, isinf

import pytest
from search_samples import GOOD, START, playbook, searched, tasks

from seedbed.evolution.confirmation import Confirmation
from seedbed.evolution.evaluators import Measure
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.evolution.searches import SearchStep
from seedbed.playbooks.genes import distance
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.search.report import to_document
from seedbed.reports.search.view import ANCESTORS, LOOKS, NO_ARM, ArmTotals, SearchView, arm_totals
from seedbed.stats.estimates import Interval
from seedbed.storage.store import short

SET = [playbook(f"Sort the mail. {' '.join(GOOD[:count])}") for count in (1, 2, 3)]


async def of_set(**given: object) -> SearchView:
    return SearchView(await searched(optimizer=BestOf(SET), **given))


# Who earned what


def pool_of(*arms: str) -> tuple[Pool, list[str]]:
    pool = Pool([Measure()], ["t"])
    pool.add(Offer(START, how="start"))
    others = [playbook(f"Try {number}.") for number in range(len(arms))]
    for each, arm in zip(others, arms, strict=True):
        pool.add(Offer(each, (START.digest,), arm=arm))
    return pool, [each.digest for each in others]


def test_a_gain_belongs_to_whoever_brought_the_new_best() -> None:
    pool, (one, two, three) = pool_of("sample", "breed", "sample")
    steps = [
        SearchStep(0, (one,), 10, one, 0.5, 0.1),
        SearchStep(1, (two,), 20, two, 0.75, 0.1),
        SearchStep(2, (three, two), 5, two, 0.875, 0.1),  # more is believed of the old best, whoever had the turn
        SearchStep(3, (START.digest,), 3, two, 0.875, 0.1),
    ]
    assert arm_totals(steps, pool) == {
        "sample": ArmTotals(turns=2, new_bests=1, gain=0.5, runs=15, candidates=2),
        "breed": ArmTotals(turns=1, new_bests=1, gain=0.25, runs=20, candidates=1),
        NO_ARM: ArmTotals(turns=1, new_bests=0, gain=0.0, runs=3, candidates=0),
    }


async def test_what_arms_earned_adds_up_to_the_search() -> None:
    summary = SearchView(found := await searched())
    assert set(summary.arms) == {"assembly", "best_of", "population"}
    assert sum(each.turns for each in summary.arms.values()) == len(found.steps)
    assert sum(each.runs for each in summary.arms.values()) == sum(step.runs for step in found.steps)
    assert sum(each.candidates for each in summary.arms.values()) == len(found.pool) - 1
    # What is believed of a best may change while it stays the best: nobody earned that.
    before = [(START.digest, found.pool.standing(0).mean), *((step.best, step.score) for step in found.steps)]
    gained = sum(
        max(0.0, step.score - score)
        for (best, score), step in zip(before, found.steps, strict=False)
        if step.best != best and step.best in step.offered
    )
    assert gained > 0
    assert sum(each.gain for each in summary.arms.values()) == pytest.approx(gained)
    together, later, whole = (float(each) for each in re.findall(r"[+-]\d\.\d{3}", summary.gains))
    assert together == pytest.approx(gained, abs=0.0005)
    assert together + later == pytest.approx(whole, abs=0.0015)
    assert whole == pytest.approx(found.pool.standing(summary.best).mean - found.pool.standing(0).mean, abs=0.0005)


# The answer


def confirmed(low: float, mean: float, high: float) -> Confirmation:
    level = Interval(0.5, 0.4, 0.6, 0.95, 20)
    return Confirmation(20, level, level, Interval(mean, low, high, 0.95, 20))


@pytest.mark.parametrize(
    ("bounds", "answer"),
    [
        ((0.1, 0.2, 0.3), "yes"),
        ((-0.1, 0.2, 0.5), "open"),
        ((-0.3, -0.2, -0.1), "no"),
        ((-inf, 0.4, inf), "open"),
        ((0.0, 0.1, 0.2), "open"),
    ],
)
async def test_the_answer_is_what_other_tasks_say(bounds: tuple[float, float, float], answer: str) -> None:
    summary = await of_set()
    found = SearchView(replace(summary.evolution, confirmed=confirmed(*bounds)))
    assert found.answer == answer
    assert found.sentence.startswith({"yes": "Yes", "no": "No:", "open": "Undecided"}[answer])
    assert "inf" not in found.sentence


async def test_a_better_score_that_nothing_confirmed_is_no_yes() -> None:
    summary = await of_set(confirm=NO_TASKS)
    assert summary.evolution.improved
    assert summary.answer == "open"
    assert "proves little" in summary.sentence
    assert "No new tasks have confirmed it" in summary.sentence


async def test_a_search_that_found_nothing_says_so() -> None:
    summary = SearchView(await searched(optimizer=BestOf([playbook("Sort the mail. loudly")])))
    assert (summary.answer, summary.changes()) == ("nothing", [])
    assert summary.sentence == "The search tried 1 candidate and found none better than the start."
    assert ("gain, confirmed", "–", "The search found nothing better than the start.") in summary.figures


async def test_optimism_stands_beside_the_score_and_is_not_made_up() -> None:
    summary = await of_set()
    told = {name: value for name, value, _ in summary.figures}
    assert float(told["selection bias (optimism)"]) == pytest.approx(summary.evolution.optimism, abs=5e-4)
    less = summary.standing(summary.best).mean - summary.evolution.optimism
    assert float(told["score less bias"]) == pytest.approx(less, abs=5e-4)
    pool, _ = pool_of("a")
    nobody = SearchView(replace(summary.evolution, pool=pool, best=START.digest, steps=()))
    assert nobody.optimism is None
    assert {name: value for name, value, _ in nobody.figures}["selection bias (optimism)"] == "–"


# Scores


async def test_scores_are_told_as_the_metric_gives_them() -> None:
    found = await searched(several=True)
    summary = SearchView(found)
    place = found.pool.place(found.best)
    assert found.pool.standing(place, 1).mean < 0 < summary.standing(place, 1).mean
    assert summary.standing(place, 1).low < summary.standing(place, 1).mean < summary.standing(place, 1).high
    assert isinf(summary.standing(0).high)  # the others are seen from the start: what is unsure is how far they are


async def test_the_front_is_whoever_nobody_beats() -> None:
    summary = SearchView(await searched(several=True))
    lit = {place for place, on in summary.front.items() if on}
    scores = {
        place: [summary.pool.standing(place, metric).mean for metric in (0, 1)] for place in summary.front
    }  # both turned: higher is better

    def beaten(place: int) -> bool:
        mine = scores[place]
        return any(all(o >= m for o, m in zip(other, mine, strict=True)) and other != mine for other in scores.values())

    assert lit == {place for place in scores if not beaten(place)}
    assert 0 in lit  # nothing is as short as the start
    assert 1 < len(lit) < len(summary.front)


async def test_with_one_metric_there_is_no_front() -> None:
    assert (await of_set()).front == {}


async def test_those_told_first_are_the_best_and_the_start_is_never_left_out() -> None:
    summary = SearchView(await searched())
    members = summary.candidates(5)
    assert members[0].playbook == summary.evolution.best
    means = [member.scores["score"].mean for member in members[:5]]
    assert means == sorted(means, reverse=True)
    assert [member.place for member in members].count(0) == 1


# Over time


async def test_the_curve_is_over_runs_and_ends_at_the_last_step() -> None:
    summary = SearchView(found := await searched())
    runs = [n for n, _ in summary.curve]
    assert runs == sorted(runs)
    assert runs[-1] == sum(step.runs for step in found.steps) <= found.spent["runs"]
    last = summary.curve[-1][1]
    step = found.steps[-1]
    assert (last.mean, last.low) == (step.score, step.score - 2 * step.deviation)


async def test_no_range_leaves_what_scores_can_be() -> None:
    """Where all scores are shares; lengths have no such ends."""
    summary = SearchView(found := await searched(several=True, confirm=NO_TASKS))
    told = [summary.standing(place) for place in range(1, len(found.pool))]
    assert any(found.pool.standing(place).mean + 2 * found.pool.standing(place).deviation > 1 for place in range(1, 20))
    assert all(0 <= each.low <= each.mean <= each.high <= 1 for each in told)
    assert max(each.high for _, each in summary.curve) <= 1
    longest = max((summary.standing(place, 1) for place in range(1, len(found.pool))), key=lambda each: each.high)
    assert longest.high > longest.mean > 1


async def test_a_score_above_what_scores_can_be_is_shown_at_the_most() -> None:
    summary = await of_set()
    high = replace(summary.evolution.steps[-1], score=1.048, deviation=0.1)
    last = SearchView(replace(summary.evolution, steps=(*summary.evolution.steps[:-1], high))).curve[-1][1]
    assert (last.mean, last.low, last.high) == (1.0, pytest.approx(0.848), 1.0)
    assert summary.evolution.confirmed is not None
    wide = replace(summary.evolution.confirmed, best=Interval(0.95, 0.8, 1.1, 0.95, 40))
    rows = {name: value for name, value, _ in SearchView(replace(summary.evolution, confirmed=wide)).figures}
    assert rows["best, confirmed"] == "0.950 [0.800, 1.000]"


async def test_a_gain_ends_where_scores_do() -> None:
    evolution = (await of_set()).evolution
    assert evolution.confirmed is not None
    wide = replace(evolution.confirmed, gain=Interval(0.9, 0.7, 1.1, 0.95, 40))
    summary = SearchView(replace(evolution, confirmed=wide))
    assert "a gain of +0.900 [+0.700, +1.000]" in summary.sentence
    assert to_document(summary)["confirmed"]["gain"]["high"] == 1.0


async def test_a_difference_of_nothing_does_not_look_like_a_gain() -> None:
    evolution = (await of_set()).evolution
    assert evolution.confirmed is not None
    none = replace(evolution.confirmed, gain=Interval(0.0, -0.1, 0.1, 0.95, 40))
    summary = SearchView(replace(evolution, confirmed=none))
    assert summary.answer == "open"
    assert summary.sentence.endswith("a difference of 0.000 [-0.100, +0.100]. On new tasks it gains nothing.")


async def test_diversity_is_the_mean_distance_between_the_newest() -> None:
    summary = await of_set()
    apart = [distance(one, other) for place, one in enumerate(SET) for other in SET[:place]]
    assert summary.diversity == [(1, pytest.approx(sum(apart) / len(apart)))]
    alone = SearchView(await searched(optimizer=BestOf(SET[:1])))
    assert alone.diversity == []


async def test_of_very_many_steps_only_some_are_looked_at() -> None:
    summary = await of_set()
    (step,) = summary.evolution.steps
    many = [replace(step, number=number) for number in range(20 * LOOKS + 7)]
    looked = SearchView(replace(summary.evolution, steps=tuple(many))).diversity
    assert len(looked) <= LOOKS + 1
    assert looked[-1][0] == len(many)


# Where it came from


def family(*parents: tuple[int, ...]) -> tuple[Pool, list[Playbook]]:
    pool = Pool([Measure()], ["t"])
    made = [START]
    pool.add(Offer(START, how="start"))
    for number, own in enumerate(parents, 1):
        made.append(playbook(f"Number {number}."))
        pool.add(Offer(made[-1], tuple(made[place].digest for place in own), f"way {number}"))
    return pool, made


async def lineage(pool: Pool, best: Playbook) -> list[str]:
    return SearchView(replace((await of_set()).evolution, pool=pool, best=best.digest)).lineage


async def test_the_family_tree_has_every_parent_and_how_each_was_made() -> None:
    pool, made = family((0,), (0,), (1, 2), (3,))
    names = [short(each.digest) for each in made]
    lines = await lineage(pool, made[4])
    assert [line.partition("  0")[0] for line in lines] == [
        names[4],
        names[3],
        f"├─ {names[1]}",
        f"│  {names[0]}",
        f"└─ {names[2]}",
        f"   {names[0]}",
    ]
    assert [line.partition("tasks  ")[2] for line in lines[:3]] == ["way 4", "way 3", "way 1"]


async def test_an_ancestor_is_told_once() -> None:
    pool, made = family((0,), (1,), (1,), (2, 3))
    lines = await lineage(pool, made[4])
    assert sum("as above" in line for line in lines) == 1
    assert sum(short(START.digest) in line for line in lines) == 1


async def test_a_long_family_is_cut_and_says_so() -> None:
    pool, made = family(*((number,) for number in range(3000)))
    lines = await lineage(pool, made[-1])
    assert len(lines) == ANCESTORS + 1
    assert lines[-1] == f"… and {3001 - ANCESTORS} more"


async def test_what_was_there_before_the_search_is_named() -> None:
    pool, _ = family()
    child = playbook("A child.")
    pool.add(Offer(child, (SET[0].digest,)))
    assert (await lineage(pool, child))[1] == f"{short(SET[0].digest)}  from before this search"


async def test_few_tasks_that_confirm_give_no_range() -> None:
    summary = await of_set(confirm=tasks(2, "c"))
    assert summary.evolution.confirmed is not None
    one = replace(summary.evolution.confirmed, gain=Interval(1.0, -inf, inf, 0.95, 1))
    told = {name: value for name, value, _ in SearchView(replace(summary.evolution, confirmed=one)).figures}
    assert told["gain, not confirmed"] == "+1.000"
