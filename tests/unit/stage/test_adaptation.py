"""When a step is taken, and how things stand after some rounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.playbooks.conditions import Condition, Until
from seedbed.stage.dialogue.adaptation import ConvergenceOutcome, Round, assess, holds
from seedbed.stage.dialogue.answers import COMPARED


def condition(**asked: Any) -> Condition:
    return Condition.model_validate_json(json.dumps(asked))


def until(**rule: Any) -> Until:
    return Until.model_validate_json(json.dumps(rule))


def outcome(rule: Until, *rounds: Round) -> ConvergenceOutcome:
    return assess(rule, rounds).outcome


@pytest.mark.parametrize(
    ("asked", "answer", "expected"),
    [
        ({"says": "nothing must change"}, "Fine.  Nothing\nMUST change!", True),
        ({"says": "nothing must change"}, "Nothing may change", False),
        ({"lacks": "TODO"}, "all done", True),
        ({"lacks": "TODO"}, "a todo is left", False),
        ({"says": "done"}, "", False),
        ({"lacks": "done"}, "", True),
    ],
)
def test_words_are_found_whatever_their_case_and_white_space(
    asked: dict[str, Any], answer: str, expected: bool
) -> None:
    assert holds(condition(step="review", **asked), {"review": answer, "later": "done TODO"}) is expected


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("Score: 8/10", 8),
        ("8 out of 10", 8),
        ("5 of 10", 5),
        ("Nothing to add, 9.5 of 10.", 9.5),
        ("I give 6 for style and 7.5 for content", 7.5),
        ("80 %", 80),
        ("0.8", 0.8),
        ("0,8", 0.8),
        ("1,250 euros", 1250),
        ("it fell to -3", -3),
        ("pages 5-7", 7),
        ("**9**.", 9),
    ],
)
def test_the_last_number_counts_as_it_is_written(answer: str, number: float) -> None:
    assert holds(condition(step="s", at_least=number), {"s": answer})
    assert not holds(condition(step="s", below=number), {"s": answer})
    assert holds(condition(step="s", below=number + 0.01), {"s": answer})
    assert not holds(condition(step="s", at_least=number + 0.01), {"s": answer})


@pytest.mark.parametrize("answers", [{"s": "excellent"}, {"s": ""}, {}])
def test_an_answer_without_a_number_is_neither_high_nor_low(answers: dict[str, str]) -> None:
    assert not holds(condition(step="s", at_least=-1e9), answers)
    assert not holds(condition(step="s", below=1e9), answers)


def test_a_condition_without_a_step_means_the_one_around_it_or_the_last_that_spoke() -> None:
    answers = {"review": "yes", "work": "no", "skipped": ""}
    assert holds(condition(step="review", any=[{"says": "maybe"}, {"says": "yes"}]), answers)
    assert holds(condition(says="no"), answers)


@given(st.lists(st.sampled_from(["red", "green", "blue"]), min_size=1, max_size=4), st.text("redgnblu ", max_size=12))
def test_any_holds_iff_one_does_and_all_iff_each_does(words: list[str], answer: str) -> None:
    parts = [{"step": "s", "says": word} for word in words]
    each = [holds(condition(**part), {"s": answer}) for part in parts]
    assert holds(condition(any=parts), {"s": answer}) is any(each)
    assert holds(condition(all=parts), {"s": answer}) is all(each)


def test_words_are_found_in_the_middle_of_a_huge_answer() -> None:
    answer = "lorem " * COMPARED + "all done" + " ipsum" * COMPARED
    assert holds(condition(step="s", says="all done"), {"s": answer})
    assert not holds(condition(step="s", lacks="all done"), {"s": answer})


TWELVE = {"ana": "Three times four. Answer: 12", "ben": "I get the same. Answer: 12"}
THIRTEEN = {"ana": "I miscounted. Answer: 13", "ben": "I see. Answer: 13"}
SPLIT = {"ana": "Three times four. Answer: 12", "ben": "One more than that. Answer: 13"}


def test_speakers_agree_by_what_they_conclude() -> None:
    assert outcome(until(agreement=0.9), TWELVE) == "converged"
    assert outcome(until(agreement=0.9), SPLIT) == "going on"


def test_agreement_of_one_speaker_is_with_its_own_last_answer() -> None:
    rule = until(agreement=0.9)
    assert outcome(rule, {"ana": "A short text."}) == "going on"
    assert outcome(rule, {"ana": "A short text."}, {"ana": "A short text."}) == "converged"
    assert outcome(rule, {"ana": "A short text."}, {"ana": "Something else altogether."}) == "going on"


def test_agreement_is_not_enough_when_settled_is_asked_for_too() -> None:
    rule = until(agreement=0.9, settled=0.9, at_most=9)
    assert outcome(rule, TWELVE) == "going on"
    assert outcome(rule, TWELVE, THIRTEEN) == "going on"
    assert outcome(rule, TWELVE, THIRTEEN, THIRTEEN) == "converged"


def test_settled_is_as_settled_as_the_one_that_changed_most() -> None:
    before = {"ana": "The cup is blue.", "ben": "The lamp is red."}
    assert outcome(until(settled=0.9), before, {**before, "ben": "Everything else is green."}) == "going on"
    assert outcome(until(settled=0.9), before, before) == "converged"


def test_stable_counts_rounds_with_the_same_conclusion_however_it_is_worded() -> None:
    rounds = [{"ana": f"{reason} Answer: 12"} for reason in ("I multiply.", "A dozen eggs.", "Counted on fingers.")]
    assert outcome(until(stable=3), *rounds[:2]) == "going on"
    assert outcome(until(stable=3), *rounds) == "converged"
    assert outcome(until(stable=3, at_most=9), *rounds, {"ana": "I multiply. Answer: 14"}) == "going on"
    assert outcome(until(stable=2), {"ana": "Verdict: approve"}, {"ana": "Verdict: do not approve"}) == "going on"


def test_a_rule_over_several_rounds_must_hold_in_each() -> None:
    rule = until(agreement=0.9, rounds=2, at_most=9)
    assert outcome(rule, SPLIT, TWELVE) == "going on"
    assert outcome(rule, SPLIT, TWELVE, TWELVE) == "converged"


def test_a_score_can_end_it_in_the_first_round() -> None:
    rule = until(any=[{"settled": 0.9}, {"step": "review", "at_least": 8}])
    assert outcome(rule, {"work": "x", "review": "9/10"}) == "converged"
    assert outcome(rule, {"work": "x", "review": "7/10"}) == "going on"


def test_without_a_rule_all_rounds_are_done() -> None:
    assert outcome(until(at_most=2), TWELVE) == "going on"
    done = assess(until(at_most=2), [TWELVE, SPLIT])
    assert (done.outcome, done.because) == ("converged", "all 2 rounds planned were done")


def test_a_rule_that_never_held_has_stalled_after_the_last_round() -> None:
    assert outcome(until(says="done", at_most=2), {"ana": "one"}, {"ana": "two"}) == "stalled"


def test_two_that_keep_contradicting_each_other_are_in_deadlock() -> None:
    rule = until(agreement=0.5, at_most=9)
    assert outcome(rule, SPLIT, SPLIT) == "going on"
    assert outcome(rule, SPLIT, SPLIT, SPLIT) == "deadlock"


def test_who_works_and_who_reviews_need_not_say_the_same() -> None:
    jobs = {"work": "The bridge carries 40 tons.", "review": "Nothing must change, 9 points."}
    assert outcome(until(step="review", says="perfect", at_most=9), jobs, jobs, jobs) == "going on"


def test_answers_that_go_back_and_forth_oscillate() -> None:
    rule = until(stable=2, at_most=9)
    assert outcome(rule, TWELVE, THIRTEEN, TWELVE) == "going on"
    assert outcome(rule, TWELVE, THIRTEEN, TWELVE, THIRTEEN) == "oscillating"
    new = {**THIRTEEN, "ben": "Now I count differently. Answer: 20"}
    assert outcome(rule, TWELVE, THIRTEEN, TWELVE, new) == "going on"


def test_a_score_that_does_not_rise_has_stalled_only_if_the_work_does_not_change() -> None:
    rule = until(step="review", at_least=8, at_most=9)
    same = [{"work": "The same text again.", "review": f"{score}/10"} for score in (6, 6, 5)]
    assert outcome(rule, *same[:2]) == "going on"
    assert outcome(rule, *same) == "stalled"
    assert outcome(rule, *same[:2], {"work": "A new attempt, quite different.", "review": "6/10"}) == "going on"
    assert outcome(rule, *same[:2], {**same[0], "review": "7/10"}) == "going on"


def test_the_reason_gives_the_figures() -> None:
    because = assess(until(agreement=0.5, stable=2, at_most=5), [SPLIT, TWELVE]).because
    assert "1.00 alike, 0.5 asked for" in because
    assert "2 of at most 5 rounds" in because


def test_a_round_in_which_nobody_spoke_settles_nothing() -> None:
    assert outcome(until(settled=0.1, at_most=9), {"ana": ""}, {"ana": ""}) == "going on"
    assert outcome(until(stable=2, at_most=9), TWELVE, {}) == "going on"


RULE = st.fixed_dictionaries(
    {},
    optional={
        "agreement": st.floats(0, 1),
        "settled": st.floats(0, 1),
        "stable": st.integers(2, 4),
        "rounds": st.integers(1, 3),
    },
)
ROUNDS = st.lists(
    st.fixed_dictionaries(
        {step: st.sampled_from(["", "Answer: 1", "Answer: 2", "it is blue", "not blue"]) for step in "ab"}
    ),
    max_size=6,
)


@given(RULE, ROUNDS)
def test_the_same_rounds_always_stand_the_same(rule: dict[str, Any], rounds: list[dict[str, str]]) -> None:
    assert assess(until(**rule, at_most=6), rounds) == assess(until(**rule, at_most=6), [dict(r) for r in rounds])


@given(RULE, ROUNDS, st.sampled_from([{"settled": 0.0}, {"stable": 2}]))
def test_nothing_about_change_holds_before_the_second_round(
    rule: dict[str, Any], rounds: list[dict[str, str]], change: dict[str, Any]
) -> None:
    assert outcome(until(**{**rule, **change}, at_most=6), *rounds[:1]) == "going on"


@given(RULE, RULE, ROUNDS)
def test_one_of_several_rules_is_enough(
    one: dict[str, Any], other: dict[str, Any], rounds: list[dict[str, str]]
) -> None:
    def held(rule: dict[str, Any]) -> bool:
        return outcome(until(**rule, step="a", lacks="never said", at_most=9), *rounds) == "converged"

    assert held({"any": [one, other]}) is (held(one) or held(other))
    assert held({"all": [one, other]}) is (held(one) and held(other))
