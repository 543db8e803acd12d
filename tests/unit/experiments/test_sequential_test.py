from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_samples import agent, bench, numbers
from scipy import stats

from seedbed.errors import BudgetSpent, SeedbedError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.experiment import EDITION, Design, Experiment, drawn
from seedbed.experiments.options import Comparing
from seedbed.experiments.sequential_test import SequentialTest
from seedbed.experiments.verdict import Verdict
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.stats.estimates import paired_interval
from seedbed.stats.sequential.betting import bets, interval
from seedbed.storage.memory import MemoryStore

OLD, NEW = agent("x"), agent(".*")


def cell(value: float | None, run: str = "") -> Cell:
    return Cell(key=f"{value}{run}", playbook="b2:p", task="t", replicate=0, metric="m", value=value, run=run)


def reading(tasks: Dataset, metric: ExactMatch | None = None, **given: Any) -> SequentialTest:
    design = Design(**given)
    plan = Experiment.plan("b2:a", "b2:b", tasks, metric or ExactMatch(), models={}, design=design)
    return SequentialTest(plan, tasks, "m")


# Units


def test_tasks_of_one_source_are_one_unit_and_next_to_each_other() -> None:
    tasks = Dataset(tuple(replace(task, source=f"doc {n % 4}" if n < 12 else "") for n, task in enumerate(numbers(20))))
    units = reading(tasks).units
    assert Counter(map(len, units)) == {3: 4, 1: 8}
    assert all(len({task.source for task in unit}) == 1 for unit in units)
    assert reading(tasks).rule.name == "betting"


def test_the_exact_rule_is_refused_where_units_are_means() -> None:
    with pytest.raises(SeedbedError, match="Register the rule betting"):
        reading(numbers(10), rule="exact", replicates=2)
    with pytest.raises(SeedbedError, match=r'rule: found "guess"; expected one of exact, betting'):
        reading(numbers(10), rule="guess")


@given(st.integers(0, 50), st.integers(2, 5))
def test_every_stretch_of_the_order_has_about_the_shares_of_all_tasks(seed: int, kinds: int) -> None:
    tasks = Dataset(tuple(Task(f"t{n}", {"n": n}, tags=(f"kind {n % kinds}",)) for n in range(40 * kinds)))
    order = [task for unit in drawn(tasks, seed) for task in unit]
    for start in range(0, len(order), 10 * kinds):
        stretch = Counter(task.tags for task in order[start : start + 10 * kinds])
        assert all(8 <= stretch[(f"kind {kind}",)] <= 12 for kind in range(kinds))


# What follows from what was read


def test_the_same_results_give_the_same_verdict() -> None:
    one, other = reading(numbers(20)), reading(numbers(20))
    for each in (one, other):
        for n in range(12):
            each.read([cell(float(n % 2))], [cell(float(n % 3 > 0))])
    assert one.verdict() == other.verdict()


def test_where_less_is_better_the_lower_score_wins() -> None:
    class Errors(ExactMatch):
        better = "lower"

    read = reading(numbers(20), Errors())
    while read.rule.answer.verdict == "continue":
        read.read([cell(1.0)], [cell(0.0)])
    verdict = read.verdict()
    assert (verdict.finding, verdict.difference, verdict.gain) == ("superior", -1.0, 1.0)
    assert set(verdict.outcomes) == {"+"}
    assert read.plan.failure_counts_as == 1.0


def test_a_failed_run_counts_as_was_registered_and_too_many_without_a_score_make_it_invalid() -> None:
    read, unscored = reading(numbers(20)), reading(numbers(20))
    while read.rule.answer.verdict == "continue":
        read.read([cell(1.0)], [cell(None)])
        unscored.read([cell(1.0)], [cell(None, run="r")])
    verdict = read.verdict()
    assert (verdict.finding, verdict.losses, len(verdict.failed)) == ("inferior", verdict.tasks, verdict.tasks)
    doubtful = unscored.verdict()
    assert doubtful.finding == "invalid"
    assert f"{verdict.tasks} of {verdict.tasks} runs of the candidate got no score" in doubtful.because


def test_a_score_beyond_0_and_1_is_refused_as_no_failure_could_be_held_against_it() -> None:
    read = reading(numbers(20), rule="betting")
    with pytest.raises(SeedbedError, match=r"found 2; expected a score from 0 to 1"):
        read.read([cell(2.0)], [cell(None)])


def test_tasks_that_ask_the_same_count_as_one() -> None:
    tasks = Dataset(tuple(Task(f"t{n}", {"n": n // 4}, "x") for n in range(20)))
    assert Counter(map(len, reading(tasks).units)) == {4: 5}


@pytest.mark.parametrize("taken", [{"alpha": 0.4}, {"at_most": 3}, {"rule": "betting", "d0": -0.5}])
def test_a_rule_cannot_take_back_what_the_experiment_says(taken: dict[str, object]) -> None:
    with pytest.raises(SeedbedError, match=r"expected none of these|expected at least 0"):
        reading(numbers(20), rule=taken)


def test_a_rule_for_passes_and_failures_is_refused_for_graded_scores_before_anything_is_paid() -> None:
    class Graded(ExactMatch):
        binary = False

    with pytest.raises(SeedbedError, match="which is graded; expected scores of 0 or 1"):
        reading(numbers(20), Graded(), rule={"rule": "gsprt", "effect": 0.1})


def test_repeats_of_a_task_are_averaged_before_anything_is_counted() -> None:
    read = reading(numbers(20), replicates=3)
    read.read([cell(0.0), cell(1.0), cell(1.0)], [cell(1.0), cell(1.0), cell(0.0)])
    assert read.rule.answer.ties == 1
    read.read([cell(0.0), cell(0.0), cell(1.0)], [cell(1.0), cell(1.0), cell(0.0)])
    assert read.verdict().scores[1] == (pytest.approx(1 / 3), pytest.approx(2 / 3))


def test_the_stop_adjusted_estimate_is_smaller_than_the_plain_one_after_a_lucky_streak() -> None:
    read = reading(numbers(100))
    outcomes = iter("+=+=+++=+=+=+++++++++")
    while read.rule.answer.verdict == "continue":
        read.read([cell(0.0)], [cell(float(next(outcomes) == "+"))])
    verdict = read.verdict()
    assert verdict.estimate is not None
    assert verdict.estimate < verdict.difference


# Rules that are not the default


@pytest.mark.usefixtures("sighted")
async def test_graded_scores_are_judged_by_betting_unless_told_otherwise() -> None:
    class Graded(ExactMatch):
        binary = False

        async def __call__(self, run: Run, task: Task) -> Score:
            return Score(0.9 if run.playbook == NEW.digest else 0.1)

    verdict = await run_experiment(OLD, NEW, numbers(40), Graded(), bench(MemoryStore()))
    assert (verdict.rule, verdict.finding) == ("betting", "superior")
    assert verdict.e is not None
    assert verdict.e >= 20
    told = await run_experiment(
        OLD, NEW, numbers(40), ExactMatch(), bench(MemoryStore()), Comparing(rule={"rule": "gsprt", "effect": 0.2})
    )
    assert told.finding == "superior"
    assert "not guaranteed" in told.guarantee


async def test_a_candidate_that_falls_short_of_what_was_hoped_for_is_futile() -> None:
    verdict = await run_experiment(
        agent("[0-4]|1."),
        agent("[0-4]|2."),
        numbers(60),
        ExactMatch(),
        bench(MemoryStore()),
        Comparing(rule={"effect": 0.5}),
    )
    assert verdict.finding == "futile"
    assert verdict.tasks < 60


async def test_what_the_money_does_not_last_for_is_not_decided_and_goes_on_with_more() -> None:
    store = MemoryStore()
    dear = {"use": "scripted", "args": {"replies": {".": "one"}}, "usd_per_million": [1000, 1000]}
    with pytest.raises(BudgetSpent, match="Compare again with a higher limit"):
        await run_experiment(
            OLD, NEW, numbers(40), ExactMatch(), replace(bench(store, oracle=dear), ledger=Ledger(0.02, last_share=0.0))
        )
    assert "verdict" not in store.kinds()
    verdict = await run_experiment(OLD, NEW, numbers(40), ExactMatch(), bench(store, oracle=dear))
    assert not verdict.failed


# What is printed of a test that stopped early

RULES: list[Any] = [
    "exact",
    {"rule": "exact", "effect": 0.1},
    "betting",
    {"rule": "betting", "d0": 0.02, "effect": 0.1},
    {"rule": "sprt", "effect": 0.1, "discordance": 0.3},
    {"rule": "gsprt", "effect": 0.1},
]


def signs(seed: int, differ: float, gain: float, tasks: int) -> list[int]:
    rng = np.random.default_rng(seed)
    return rng.choice([1, -1, 0], tasks, p=[(differ + gain) / 2, (differ - gain) / 2, 1 - differ]).tolist()


def stopped(rule: Any, outcomes: list[int], edition: int = EDITION) -> Verdict:
    tasks = numbers(len(outcomes))
    plan = Experiment.plan("b2:a", "b2:b", tasks, ExactMatch(), models={}, design=Design(rule=rule))
    read = SequentialTest(replace(plan, edition=edition), tasks, "m")
    for sign in outcomes:
        if read.rule.answer.verdict == "continue":
            read.read([cell(float(sign < 0))], [cell(float(sign > 0))])
    return read.verdict()


@pytest.mark.parametrize("rule", RULES)
def test_every_superior_has_a_bound_above_nothing_and_no_other_verdict_has_one(rule: Any) -> None:
    verdicts = [stopped(rule, signs(seed, 0.4, 0.15 * (seed % 3), 120)) for seed in range(18)]
    assert {each.finding for each in verdicts} > {"superior"}
    for each in verdicts:
        assert (each.at_least is not None) == (each.finding == "superior")
        if each.at_least is not None and each.estimate is not None:
            assert 0 < each.at_least < each.estimate


@pytest.mark.parametrize("rule", RULES)
def test_intervals_hold_after_an_early_stop_and_have_the_estimate_inside(rule: Any) -> None:
    gain, held, runs = 0.25, 0, 30
    for seed in range(runs):
        verdict = stopped(rule, signs(seed, 0.5, gain, 150))
        assert verdict.low is not None
        assert verdict.high is not None
        assert verdict.estimate is not None
        assert -1 <= verdict.low <= verdict.estimate <= verdict.high <= 1
        held += verdict.low <= gain <= verdict.high
    assert held >= stats.binom.ppf(0.001, runs, 0.95)


def test_where_less_is_better_the_interval_is_of_candidate_minus_control() -> None:
    class Errors(ExactMatch):
        better = "lower"

    read = reading(numbers(40), Errors(), rule="exact")
    while read.rule.answer.verdict == "continue":
        read.read([cell(1.0)], [cell(0.0)])
    verdict = read.verdict()
    assert (verdict.low, verdict.high) == (-(verdict.estimate_high or 0), -(verdict.estimate_low or 0))
    assert verdict.at_least is not None
    assert verdict.at_least > 0


def test_the_estimate_of_sprt_does_not_depend_on_the_discordance_that_was_registered() -> None:
    errors = []
    for seed in range(60):
        registered = {"rule": "sprt", "effect": 0.1, "discordance": 0.6}
        verdict = stopped(registered, signs(seed, 0.2, -0.05, 200))
        errors.append((verdict.estimate or 0.0) + 0.05)
    assert abs(float(np.median(errors))) < 0.025


@pytest.mark.parametrize("rule", RULES[-2:])
def test_likelihood_ratio_tests_have_the_interval_that_holds_at_every_look(rule: Any) -> None:
    verdict = stopped(rule, signs(4, 0.4, 0.2, 200))
    counts = {1.0: verdict.wins, 0.0: verdict.ties, -1.0: verdict.losses}
    assert (verdict.low, verdict.high) == interval(counts, bets())


@pytest.mark.parametrize("rule", RULES)
def test_an_old_experiment_keeps_its_numbers_and_its_digest(rule: Any) -> None:
    old = stopped(rule, signs(5, 0.4, 0.2, 100), edition=1)
    student = paired_interval([before for before, _ in old.scores], [after for _, after in old.scores])
    assert (old.low, old.high) == (student.low, student.high)
    assert (old.at_least, old.warning) == (None, "")
    tasks = numbers(5)
    plan = Experiment.plan("b2:a", "b2:b", tasks, ExactMatch(), models={}, design=Design())
    assert plan.content()["edition"] == EDITION
    assert "edition" not in replace(plan, edition=1).content()
    assert Experiment.from_content(plan.content()) == plan


def test_a_comparison_on_few_sources_warns_of_that() -> None:
    shared = Dataset(tuple(replace(task, source=f"doc {n % 12}") for n, task in enumerate(numbers(60))))
    read, alone = reading(shared), reading(numbers(12))
    for _ in range(12):
        read.read([cell(0.0)] * 5, [cell(0.0)] * 5)
        alone.read([cell(0.0)], [cell(0.0)])
    assert read.verdict().warning.startswith("too few sources: 12")
    assert not alone.verdict().warning


def test_a_comparison_of_tasks_that_seem_to_share_sources_says_so() -> None:
    letters = [{"letter": f"A letter of some length, number {n % 8}", "question": n} for n in range(40)]
    read = reading(Dataset(tuple(Task(f"t{n}", inputs, "x") for n, inputs in enumerate(letters))))
    for _ in range(40):
        read.read([cell(0.0)], [cell(0.0)])
    assert read.verdict().warning.startswith("40 tasks have 8 different texts as letter")
