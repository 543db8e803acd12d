"""Patterns in runs: what is planted is found, luck is not, and tasks that are alike do not count as many."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_samples import scored

from seedbed.errors import SeedbedError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.patterns.patterns import PatternFinding, Patterns, find_patterns
from seedbed.experiments.patterns.traits import ScoredRun
from seedbed.runs.run import Run


def mentions(task: Task, word: str) -> bool:
    return f"{word} " in task.inputs["text"]


def conditions(found: Patterns) -> list[str]:
    return [each.condition for each in found.findings]


def test_a_planted_word_is_found_and_nothing_else() -> None:
    runs = scored(1, 200, chance=lambda task, _: 0.15 if mentions(task, "word3") else 0.85)
    found = find_patterns(runs, "exact_match")
    assert conditions(found) == ['whose input mentions "word3"']
    (finding,) = found.findings
    assert finding.worse
    assert finding.low < -0.7 < finding.high < 0
    assert finding.p < 0.001
    inside = {each.run.id: each.score for each in runs if mentions(each.task, "word3")}
    assert [inside[run] for run in finding.runs] == [0.0] * 5
    assert len(finding.contrast) == 5
    assert not {*finding.contrast} & inside.keys()
    assert str(finding).startswith('Runs whose input mentions "word3" score 0.')
    assert f"{finding.tested.inside:.2f} against {finding.tested.outside:.2f}, {finding.tested.tasks} tasks" in str(
        finding
    )


def test_two_planted_conditions_are_both_found() -> None:
    def chance(task: Task, run: Run) -> float:
        return 0.95 - 0.45 * ("red" in task.tags) - 0.45 * (len(run.turns) > 3)

    found = find_patterns(scored(2, 400, chance=chance), "m")
    assert sorted(conditions(found)) == ['on tasks tagged "red"', "with more than 3 turns"]


def test_what_takes_two_conditions_is_found_as_both_of_them() -> None:
    def chance(task: Task, run: Run) -> float:
        return 0.1 if "red" in task.tags and run.calls else 0.9

    found = find_patterns(scored(3, 300, chance=chance), "m")
    assert conditions(found)[0] == 'on tasks tagged "red" and in which the tool "search" failed'


def test_runs_of_one_task_are_compared_with_each_other_where_they_differ() -> None:
    found = find_patterns(scored(4, 60, replicates=4, chance=lambda _, run: 0.2 if run.calls else 0.85), "m")
    assert conditions(found) == ['in which the tool "search" failed']
    assert found.findings[0].level == "run"
    assert found.tasks == found.units == 60
    assert found.runs == 240


def test_where_less_is_better_higher_scores_are_the_worse_ones() -> None:
    runs = scored(1, 200, chance=lambda task, _: 0.85 if mentions(task, "word3") else 0.15)
    (finding,) = find_patterns(runs, "error_rate", better="lower").findings
    assert finding.worse
    assert "higher" in str(finding)
    assert all(mentions(task, "word3") for task in (*finding.weak_found, *finding.weak_tested))


def test_what_is_good_about_runs_names_the_tasks_of_the_others_as_weak() -> None:
    runs = scored(1, 200, chance=lambda task, _: 0.9 if mentions(task, "word3") else 0.2)
    (finding,) = find_patterns(runs, "m").findings
    assert not finding.worse
    assert not any(mentions(task, "word3") for task in (*finding.weak_found, *finding.weak_tested))


def test_luck_alone_gives_a_finding_in_at_most_one_of_twenty_datasets() -> None:
    lucky = sum(bool(find_patterns(scored(seed, 60), "m").findings) for seed in range(80))
    assert lucky <= 4


def test_tasks_of_one_source_do_not_pass_for_many() -> None:
    """Sources differ, and have words of their own: without a notion of sources those words seem to matter."""
    fooled = kept = 0
    for seed in range(24):
        runs = scored(seed, 200, sources=30, source_spread=0.4, topics=True, chance=lambda *_: 0.5)
        kept += bool(find_patterns(runs, "m").findings)
        fooled += bool(
            find_patterns([replace(each, task=replace(each.task, source="")) for each in runs], "m").findings
        )
    assert kept <= 2
    assert fooled >= 6


def test_no_source_is_on_both_sides_of_the_cut() -> None:
    runs = scored(7, 300, sources=60, chance=lambda task, _: 0.1 if "red" in task.tags else 0.9)
    (finding,) = find_patterns(runs, "m").findings
    assert finding.level == "task"
    first, second = ({task.source for task in half} for half in (finding.weak_found, finding.weak_tested))
    assert first
    assert second
    assert not first & second


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_same_runs_in_any_order_give_the_same_findings(chance: random.Random) -> None:
    runs = scored(2, 120, chance=lambda task, _: 0.2 if mentions(task, "word5") else 0.8, replicates=2)
    expected = find_patterns(runs, "m")
    shuffled = list(runs)
    chance.shuffle(shuffled)
    assert find_patterns(shuffled, "m") == expected
    assert expected.tested


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 50), st.sampled_from([0.5, 2.0, 100.0]), st.sampled_from([-3.0, 0.0, 10.0]))
def test_another_scale_of_scores_changes_no_finding(seed: int, times: float, plus: float) -> None:
    runs = scored(seed, 80, chance=lambda task, _: 0.3 if "red" in task.tags else 0.8)
    plain = find_patterns(runs, "m")
    scaled = find_patterns([replace(each, score=each.score * times + plus) for each in runs], "m")
    assert conditions(scaled) == conditions(plain)
    assert [each.p for each in scaled.tested] == pytest.approx([each.p for each in plain.tested])
    effects = [each.tested.effect * times for each in plain.tested]
    assert [each.tested.effect for each in scaled.tested] == pytest.approx(effects)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_only_what_is_below_the_error_rate_in_the_tested_half_is_a_finding(seed: int) -> None:
    found = find_patterns(scored(seed, 50, chance=lambda task, _: 0.4 if "red" in task.tags else 0.7), "m", alpha=0.2)
    for each in found.tested:
        if math.isnan(each.tested.effect):  # nothing of that kind is in the other half
            assert not each.holds
            continue
        assert each.holds == (each.p <= 0.2 and each.suggested.effect * each.tested.effect > 0)
        assert each.low <= each.tested.effect <= each.high
    assert len(found.tested) <= 5


def test_too_few_tasks_are_told_and_nothing_is_claimed() -> None:
    found = find_patterns(scored(1, 19, replicates=10, chance=lambda task, _: float("red" in task.tags)), "m")
    assert found.because == "found 19 tasks with scored runs; expected at least 20"
    assert not found.tested


def test_tasks_of_few_sources_are_as_few_as_these() -> None:
    found = find_patterns(scored(1, 200, sources=8), "m")
    assert found.because.startswith("found 8 sources (tasks of one source count as one)")


def test_without_spread_there_is_nothing_to_find() -> None:
    assert "the same score, 1, for all runs" in find_patterns(scored(1, 40, chance=lambda *_: 2.0), "m").because
    assert find_patterns([], "m").because.startswith("found 0 tasks")


def test_many_tests_promise_a_share_of_false_findings_and_few_that_there_is_none() -> None:
    runs = scored(1, 200, chance=lambda task, _: 0.2 if mentions(task, "word3") else 0.8)
    few, many = find_patterns(runs, "m"), find_patterns(runs, "m", at_most=20)
    assert "the chance that any of the findings is there by luck alone is at most 0.05 (Holm" in few.promise
    assert "on average at most a share 0.05 of the findings" in many.promise
    assert conditions(many)[0] == conditions(few)[0]


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1.5}, {"at_most": 0}])
def test_senseless_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SeedbedError, match="found"):
        find_patterns(scored(1, 30), "m", **wrong)  # type: ignore[arg-type]


def test_a_score_that_is_no_number_is_refused() -> None:
    runs = scored(1, 30)
    with pytest.raises(SeedbedError, match="a score of nan; expected a finite number"):
        find_patterns([*runs[1:], ScoredRun(runs[0].run, float("nan"), runs[0].task)], "m")


def test_a_later_finding_says_that_it_holds_beyond_the_earlier_ones() -> None:
    runs = scored(1, 200, chance=lambda task, _: 0.15 if mentions(task, "word3") else 0.85)
    (finding,) = find_patterns(runs, "m").findings
    later: PatternFinding = replace(finding, beyond=(finding.slice,))
    assert str(later).endswith("beyond what the findings above explain")
    assert later.document()["beyond"] == [finding.condition]
