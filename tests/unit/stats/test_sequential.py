from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.sequential import Answer, ExactMcNemar, StoppingRule, plan

differences = st.lists(st.sampled_from([-1, 0, 1]), max_size=60)


def answers(sequence: Iterable[float], *, at_most: int, alpha: float = 0.05) -> list[Answer]:
    """What the rule says after each task, until it ends."""
    rule: StoppingRule = ExactMcNemar(alpha=alpha, at_most=at_most)
    told = []
    for difference in sequence:
        told.append(rule.update(difference))
        if told[-1].verdict != "continue":
            break
    return told


def boundaries(differs: Sequence[bool], alpha: float = 0.05) -> list[Answer]:
    """The answers along tasks that differ so, with wins and losses in turn, so that the test never ends early."""
    turns = itertools.cycle([1, -1])
    told = answers([next(turns) if one else 0 for one in differs], at_most=len(differs), alpha=alpha)
    assert len(told) == len(differs)
    return told


def draw(rng: np.random.Generator, tasks: int, discordance: float, effect: float = 0.0) -> list[int]:
    won, lost = (discordance + effect) / 2, (discordance - effect) / 2
    return [int(sign) for sign in rng.choice([1, -1, 0], size=tasks, p=[won, lost, 1 - won - lost])]


@pytest.mark.parametrize("discordance", [0.05, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("at_most", [20, 60, 120, 300])
def test_chance_to_prefer_an_equal_candidate_is_at_most_alpha_in_exact_arithmetic(
    at_most: int, discordance: float
) -> None:
    rng = np.random.default_rng(at_most)
    for _ in range(4):
        differs = (rng.random(at_most) < discordance).tolist()
        sequences = [1]  # how many of the 2^m equally likely sequences have each number of wins and go on
        ended = Fraction(0)
        m = 0
        for one, answer in zip(differs, boundaries(differs), strict=True):
            if one:
                m += 1
                sequences = [a + b for a, b in zip([0, *sequences], [*sequences, 0], strict=True)]
            needed = answer.boundary if answer.boundary is not None else m + 1
            ended += Fraction(sum(sequences[needed:]), 2**m)
            sequences = sequences[:needed]
            assert float(ended) == pytest.approx(answer.spent, rel=1e-12)
            available = 0.05 * (answer.n / at_most) ** 1.5
            assert ended <= available
            assert ended + Fraction(sequences[-1], 2**m) > available * (1 - 2e-9), "more could have been spent"
        assert ended <= Fraction(0.05)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_p_is_no_smaller_than_the_chance_of_such_a_p_over_all_sequences(alpha: float) -> None:
    at_most = 12
    for differs in ([True] * 12, [True, False, True, True] * 3, [False] * 3 + [True] * 6 + [False] * 3):
        seen: Counter[float] = Counter()
        places = [place for place, one in enumerate(differs) if one]
        for signs in itertools.product([1, -1], repeat=len(places)):
            sequence = [0] * at_most
            for place, sign in zip(places, signs, strict=True):
                sequence[place] = sign
            end = answers(sequence, at_most=at_most, alpha=alpha)[-1]
            assert end.p is not None
            assert (end.p < alpha) == (end.verdict == "superior")
            seen[end.p] += 1
        for p in seen:
            as_small = sum(count for other, count in seen.items() if other <= p)
            assert as_small / seen.total() <= p + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("discordance", [0.1, 0.3, 0.5])
def test_ten_thousand_comparisons_of_equals_keep_both_error_rates(discordance: float) -> None:
    rng = np.random.default_rng(10)
    verdicts = [answers(draw(rng, 60, discordance), at_most=60)[-1].verdict for _ in range(10_000)]
    for wrong in ("superior", "inferior"):
        upper = stats.binomtest(verdicts.count(wrong), len(verdicts)).proportion_ci(method="exact").high
        assert upper <= 0.055


def test_plan_for_three_hundred_tasks_gives_the_designed_power_and_length() -> None:
    planned = plan(at_most=300, effect=0.10, discordance=0.3)
    assert planned.power == pytest.approx(0.91, abs=0.01)
    assert planned.tasks_if_better == pytest.approx(166, abs=4)
    assert planned.tasks_if_worse == pytest.approx(planned.tasks_if_better)
    assert planned.tasks_if_equal == pytest.approx(290, abs=4)
    assert 0.045 < planned.false_alarm <= 0.05


def test_simulated_tests_do_as_planned() -> None:
    planned = plan(at_most=300, effect=0.10, discordance=0.3)
    rng = np.random.default_rng(1)
    ends = [answers(draw(rng, 300, 0.3, effect=0.10), at_most=300)[-1] for _ in range(2_000)]
    superior = np.mean([end.verdict == "superior" for end in ends])
    tasks = np.array([end.n for end in ends])
    assert superior == pytest.approx(planned.power, abs=3 * math.sqrt(0.09 * 0.91 / 2_000))
    assert tasks.mean() == pytest.approx(planned.tasks_if_better, abs=3 * tasks.std() / math.sqrt(2_000))


def test_plan_agrees_with_every_sequence_of_a_short_test() -> None:
    at_most, alpha, discordance, effect = 8, 0.2, 0.6, 0.4
    power = false_alarm = equal = better = worse = 0.0
    for sequence in itertools.product([1, 0, -1], repeat=at_most):
        end = answers(sequence, at_most=at_most, alpha=alpha)[-1]
        win, tie, loss = (sequence.count(sign) for sign in (1, 0, -1))
        chances = [
            ((discordance + d) / 2) ** win * (1 - discordance) ** tie * ((discordance - d) / 2) ** loss
            for d in (0, effect, -effect)
        ]
        false_alarm += chances[0] * (end.verdict == "superior")
        power += chances[1] * (end.verdict == "superior")
        equal, better, worse = (
            sum_ + chance * end.n for sum_, chance in zip((equal, better, worse), chances, strict=True)
        )
    planned = plan(alpha=alpha, at_most=at_most, effect=effect, discordance=discordance)
    assert planned.power == pytest.approx(power, abs=0.01)
    assert planned.false_alarm == pytest.approx(false_alarm, abs=0.01)
    assert planned.tasks_if_equal == pytest.approx(equal, abs=0.1)
    assert planned.tasks_if_better == pytest.approx(better, abs=0.1)
    assert planned.tasks_if_worse == pytest.approx(worse, abs=0.1)


def test_plan_is_the_same_each_time() -> None:
    assert plan(at_most=20, effect=0.2, discordance=0.5) == plan(at_most=20, effect=0.2, discordance=0.5)


@given(differences, st.sampled_from([0.01, 0.05, 0.2]))
@settings(max_examples=60, deadline=None)
def test_test_interrupted_after_every_task_goes_on_bit_for_bit(sequence: list[int], alpha: float) -> None:
    rule = ExactMcNemar(alpha=alpha, at_most=60)
    resumed = []
    for difference in sequence:
        rule = ExactMcNemar.from_state(json.loads(json.dumps(rule.state())))
        resumed.append(rule.update(difference))
        assert ExactMcNemar.from_state(rule.state()).answer == rule.answer
        if rule.answer.verdict != "continue":
            break
    assert resumed == answers(sequence, at_most=60, alpha=alpha)


@given(differences)
@settings(max_examples=60, deadline=None)
def test_trading_the_two_playbooks_mirrors_the_answer(sequence: list[int]) -> None:
    mirrored = {"superior": "inferior", "inferior": "superior"}
    there = answers(sequence, at_most=60)
    back = answers([-difference for difference in sequence], at_most=60)
    assert [(a.n, mirrored.get(a.verdict, a.verdict), a.losses, a.wins, a.spent, a.boundary) for a in there] == [
        (b.n, b.verdict, b.wins, b.losses, b.spent, b.boundary) for b in back
    ]


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_boundary_depends_on_which_tasks_differ_and_not_on_who_won(differs: list[bool], random: Random) -> None:
    expected = boundaries(differs)
    sequence = [random.choice([1, -1]) if one else 0 for one in differs]
    for seen, wanted in zip(answers(sequence, at_most=len(differs)), expected, strict=False):
        assert (seen.boundary, seen.spent) == (wanted.boundary, wanted.spent)


def test_same_results_in_another_order_may_end_otherwise() -> None:
    wins_first = answers([1] * 9 + [-1] * 6 + [0] * 15, at_most=30)[-1]
    losses_first = answers([-1] * 6 + [1] * 9 + [0] * 15, at_most=30)[-1]
    assert (wins_first.verdict, losses_first.verdict) == ("superior", "inconclusive")


def test_five_wins_of_five_are_enough_and_four_of_four_are_not() -> None:
    assert answers([1] * 5, at_most=5)[-1] == Answer("superior", 5, 5, 0, 0, spent=1 / 32, boundary=5, p=1 / 32)
    assert answers([1] * 4, at_most=4)[-1] == Answer("inconclusive", 4, 4, 0, 0, spent=0.0, boundary=None, p=1 / 16)


def test_losses_end_the_test_as_inferior_with_nothing_in_favour() -> None:
    end = answers([-1] * 5, at_most=5)[-1]
    assert (end.verdict, end.losses, end.p) == ("inferior", 5, 1.0)


def test_tie_ends_the_test_once_enough_may_be_spent() -> None:
    told = answers([1] * 5 + [0] * 5, at_most=10)
    assert [answer.verdict for answer in told] == ["continue"] * 7 + ["superior"]
    assert (told[-1].wins, told[-1].ties) == (5, 3)


def test_nothing_but_ties_is_inconclusive() -> None:
    end = answers([0] * 10, at_most=10)[-1]
    assert (end.verdict, end.n, end.ties, end.spent, end.p) == ("inconclusive", 10, 10, 0.0, 1.0)


def test_new_test_has_no_answer_yet() -> None:
    assert ExactMcNemar(at_most=10).answer == Answer("continue", 0, 0, 0, 0, spent=0.0, boundary=None, p=None)


@pytest.mark.parametrize("graded", [0.5, -0.25, 2, math.nan, math.inf])
def test_graded_scores_are_refused_and_leave_the_test_as_it_was(graded: float) -> None:
    rule = ExactMcNemar(at_most=10)
    rule.update(1)
    state = rule.state()
    with pytest.raises(SeedbedError, match=r"expected -1, 0 or 1.*rule for graded scores is not there yet"):
        rule.update(graded)
    assert rule.state() == state


def test_ended_test_takes_no_more() -> None:
    rule = ExactMcNemar(at_most=1)
    rule.update(0)
    with pytest.raises(SeedbedError, match="after task 1, where the test ended inconclusive"):
        rule.update(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.5}, "alpha: found 0.5"),
        ({"alpha": 0.0}, "alpha: found 0.0"),
        ({"alpha": "5%"}, 'alpha: found "5%"'),
        ({"at_most": 0}, "at_most: found 0"),
        ({"at_most": 2.5}, "at_most: found 2.5"),
        ({"spend": "pocock"}, 'spend: found "pocock"; expected "power 1.5"'),
        ({"outcomes": "+?"}, r'outcomes: found "\?"'),
        ({"outcomes": None}, "state: found"),
        ({"more": 1}, "state: found"),
        ({"outcomes": "==="}, "after task 2"),
    ],
)
def test_state_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    state = {"alpha": 0.05, "at_most": 2, "spend": "power 1.5", "outcomes": "+"}
    with pytest.raises(SeedbedError, match=message):
        ExactMcNemar.from_state(state | change)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"effect": 0.0}, "effect: found 0.0"),
        ({"effect": 0.4}, "effect: found 0.4; expected above 0 and at most discordance, 0.3"),
        ({"discordance": 0.0}, "discordance: found 0.0"),
        ({"discordance": 1.1}, "discordance: found 1.1"),
        ({"at_most": -1}, "at_most: found -1"),
        ({"alpha": 1.0}, "alpha: found 1.0"),
    ],
)
def test_plan_that_cannot_be_is_refused(asked: dict[str, float], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        plan(**({"alpha": 0.05, "at_most": 10, "effect": 0.1, "discordance": 0.3} | asked))  # type: ignore[arg-type]


def test_sequential_tests_load_without_scipy() -> None:
    code = "import sys, seedbed.stats.sequential; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
