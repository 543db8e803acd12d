from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_samples import draw, told
from scipy import special, stats

from seedbed.errors import SeedbedError
from seedbed.stats.sequential.exact import SPENDING, ExactMcNemar
from seedbed.stats.sequential.stopping_rule import Answer

differences = st.lists(st.sampled_from([-1, 0, 1]), max_size=60)


def answers(sequence: Iterable[float], *, at_most: int, alpha: float = 0.05) -> list[Answer]:
    """What the rule says after each task, until it ends."""
    return told(ExactMcNemar(alpha=alpha, at_most=at_most), sequence)


def boundaries(differs: Sequence[bool], alpha: float = 0.05, spend: str = "power 1.5") -> list[Answer]:
    """The answers along tasks that differ so, with wins and losses in turn, so that the test never ends early."""
    turns = itertools.cycle([1, -1])
    rule = ExactMcNemar(alpha=alpha, at_most=len(differs), spend=spend)
    along = told(rule, [next(turns) if one else 0 for one in differs])
    assert len(along) == len(differs)
    return along


def available(spend: str, alpha: float, share: float) -> float:
    if spend == "o'brien-fleming":
        return float(2 * special.ndtr(special.ndtri(alpha / 2) / math.sqrt(share)))
    return alpha * share ** (1.5 if spend == "power 1.5" else 1)


@pytest.mark.parametrize("spend", SPENDING)
@pytest.mark.parametrize("discordance", [0.05, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("at_most", [20, 60, 300])
def test_chance_to_prefer_an_equal_candidate_is_at_most_alpha_in_exact_arithmetic(
    at_most: int, discordance: float, spend: str
) -> None:
    rng = np.random.default_rng(at_most)
    for _ in range(2):
        differs = (rng.random(at_most) < discordance).tolist()
        sequences = [1]  # how many of the 2^m equally likely sequences have each number of wins and go on
        ended = Fraction(0)
        m = 0
        for one, answer in zip(differs, boundaries(differs, spend=spend), strict=True):
            if one:
                m += 1
                sequences = [a + b for a, b in zip([0, *sequences], [*sequences, 0], strict=True)]
            needed = answer.boundary if answer.boundary is not None else m + 1
            ended += Fraction(sum(sequences[needed:]), 2**m)
            sequences = sequences[:needed]
            assert float(ended) == pytest.approx(answer.spent, rel=1e-12)
            limit = available(spend, 0.05, answer.n / at_most)
            assert ended <= limit
            assert ended + Fraction(sequences[-1], 2**m) > limit * (1 - 2e-9), "more could have been spent"
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


@pytest.mark.parametrize("effect", [None, 0.1])
@pytest.mark.parametrize("discordance", [0.1, 0.3, 0.5])
def test_two_thousand_comparisons_of_equals_keep_both_error_rates(discordance: float, effect: float | None) -> None:
    ends = ExactMcNemar(at_most=200, effect=effect).ends(draw(10, 2_000, 200, discordance))
    for wrong in ("superior", "inferior"):
        assert stats.binomtest(int((ends.verdicts == wrong).sum()), 2_000, 0.05, "greater").pvalue > 1e-4


def test_a_candidate_that_is_better_by_the_effect_is_seldom_futile_and_one_that_is_not_mostly_and_soon() -> None:
    rule = ExactMcNemar(at_most=300, effect=0.1, beta=0.1)
    better, equal, worse = (rule.ends(draw(3, 1_500, 300, 0.3, effect)) for effect in (0.1, 0.0, -0.1))
    assert stats.binomtest(int((better.verdicts == "futile").sum()), 1_500, 0.1, "greater").pvalue > 1e-4
    assert equal.share("futile") > 0.8
    assert told(ExactMcNemar(at_most=300, effect=0.1), [-1, 0] * 30)[-1].p == 1
    assert equal.tasks.mean() <= 150
    assert worse.share("futile", "inferior") > 0.99
    assert worse.tasks.mean() <= 50


@pytest.mark.parametrize("effect", [0.3, 0.6])
def test_futile_errs_with_chance_at_most_beta_over_all_sequences_of_a_short_test(effect: float) -> None:
    given_up = [
        sequence
        for sequence in itertools.product([1, 0, -1], repeat=7)
        if told(ExactMcNemar(at_most=7, effect=effect, beta=0.3), sequence)[-1].verdict == "futile"
    ]
    for ties in (0.0, 0.2, 0.4):
        won = (1 - ties + effect) / 2
        chance = {1: won, 0: ties, -1: 1 - won - ties}
        weights = (math.prod(chance[difference] for difference in sequence) for sequence in given_up)
        assert 0 < sum(weight for weight in weights if weight > 0) <= 0.3


@given(differences)
@settings(deadline=None)
def test_looking_for_futility_moves_no_other_boundary(sequence: list[int]) -> None:
    plain = answers(sequence, at_most=60)
    looking = told(ExactMcNemar(at_most=60, effect=0.2), sequence)
    for one, other in zip(plain, looking, strict=False):
        assert (one.spent, one.boundary, one.evidence) == (other.spent, other.boundary, other.evidence)
    if looking and looking[-1].verdict != "futile":
        assert [one.verdict for one in looking] == [one.verdict for one in plain]


def test_evidence_reaches_its_bound_exactly_where_the_test_ends() -> None:
    for row in draw(5, 200, 60, 0.4, 0.1):
        for answer in answers(row, at_most=60):
            up = answer.high is not None and answer.evidence >= answer.high
            down = answer.low is not None and answer.evidence <= answer.low
            assert (up, down) == (answer.verdict == "superior", answer.verdict == "inferior")


@pytest.mark.parametrize("spend", SPENDING)
@pytest.mark.parametrize("effect", [None, 0.15])
def test_many_tests_at_once_end_as_each_alone(spend: str, effect: float | None) -> None:
    rule = ExactMcNemar(at_most=80, spend=spend, effect=effect)
    rows = np.vstack([draw(1, 60, 80, 0.4, 0.15), draw(2, 60, 80, 0.05), draw(3, 60, 80, 1.0, -0.2)])
    ends = rule.ends(rows)
    alone = [told(ExactMcNemar.from_state(rule.state()), row)[-1] for row in rows]
    assert ends.verdicts.tolist() == [answer.verdict for answer in alone]
    assert ends.tasks.tolist() == [answer.n for answer in alone]


@given(differences, st.sampled_from([0.01, 0.05, 0.2]))
@settings(deadline=None)
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
@settings(deadline=None)
def test_trading_the_two_playbooks_mirrors_the_answer(sequence: list[int]) -> None:
    mirrored = {"superior": "inferior", "inferior": "superior"}
    there = answers(sequence, at_most=60)
    back = answers([-difference for difference in sequence], at_most=60)
    assert [(a.n, mirrored.get(a.verdict, a.verdict), a.losses, a.wins, a.spent, a.boundary) for a in there] == [
        (b.n, b.verdict, b.wins, b.losses, b.spent, b.boundary) for b in back
    ]


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.randoms(use_true_random=False))
@settings(deadline=None)
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
    assert answers([1] * 5, at_most=5)[-1] == Answer(
        "superior", 5, 5, 0, 0, spent=1 / 32, boundary=5, p=1 / 32, evidence=5.0, low=-5.0, high=5.0
    )
    assert answers([1] * 4, at_most=4)[-1] == Answer(
        "inconclusive", 4, 4, 0, 0, spent=0.0, boundary=None, p=1 / 16, evidence=4.0
    )


def test_losses_end_the_test_as_inferior_with_nothing_in_favour() -> None:
    end = answers([-1] * 5, at_most=5)[-1]
    assert (end.verdict, end.losses, end.p) == ("inferior", 5, 1.0)


def test_tie_ends_the_test_once_enough_may_be_spent() -> None:
    along = answers([1] * 5 + [0] * 5, at_most=10)
    assert [answer.verdict for answer in along] == ["continue"] * 7 + ["superior"]
    assert (along[-1].wins, along[-1].ties) == (5, 3)


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
    with pytest.raises(SeedbedError, match=r"expected -1, 0 or 1.*For graded scores register the rule"):
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
        ({"spend": "pocock"}, 'spend: found "pocock"; expected "power 1.5", "linear"'),
        ({"effect": 1.0}, "effect: found 1.0"),
        ({"beta": 0.0}, "beta: found 0.0"),
        ({"rule": "betting"}, "state: found"),
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
