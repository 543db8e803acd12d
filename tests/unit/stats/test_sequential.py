"""What all stopping rules have in common: they are content, they resume, they count nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_samples import draw, told

from seedbed.errors import SeedbedError
from seedbed.stats.sequential import RULES, rule_from_state
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.gsprt import Gsprt, Sprt
from seedbed.stats.sequential.stopping_rule import StoppingRule

EVERY: list[dict[str, Any]] = [
    ExactMcNemar(at_most=60).state(),
    ExactMcNemar(at_most=60, spend="linear", effect=0.2).state(),
    Betting(at_most=60).state(),
    Betting(effect=0.2, at_most=60, margin=0.3).state(),
    Betting(goal="equivalent", margin=0.4).state(),
    Gsprt(effect=0.2, at_most=60).state(),
    Gsprt(effect=0.2, repeats=2).state(),
    Sprt(effect=0.2, discordance=0.5, at_most=60).state(),
]
every = pytest.mark.parametrize("registered", EVERY, ids=[f"{state['rule']} {i}" for i, state in enumerate(EVERY)])


def test_each_kind_of_rule_is_tried_here() -> None:
    assert {state["rule"] for state in EVERY} == RULES.keys()


@every
def test_a_rule_registered_as_json_starts_as_it_was(registered: dict[str, Any]) -> None:
    content = json.loads(json.dumps({key: value for key, value in registered.items() if key != "outcomes"}))
    rule = rule_from_state(content)
    assert rule.state() == registered
    assert rule.answer == rule_from_state(registered).answer


@every
@given(sequence=st.lists(st.sampled_from([-1, 0, 1]), max_size=40))
@settings(max_examples=20, deadline=None)
def test_a_test_interrupted_after_every_task_goes_on_bit_for_bit(
    registered: dict[str, Any], sequence: list[int]
) -> None:
    rule = rule_from_state(registered)
    resumed = []
    for difference in sequence:
        rule = rule_from_state(json.loads(json.dumps(rule.state())))
        resumed.append(rule.update(difference))
        if rule.answer.verdict != "continue":
            break
    assert resumed == told(rule_from_state(registered), sequence)


@every
def test_results_told_again_by_place_are_counted_once(registered: dict[str, Any]) -> None:
    row = draw(4, 1, 30, 0.5, 0.1)[0].tolist()
    once, again = rule_from_state(registered), rule_from_state(registered)
    answers = told(once, row)
    for place in range(1, len(answers) + 1):
        for earlier in range(1, place + 1):
            again.update(row[earlier - 1], place=earlier)
    assert again.state() == once.state()
    assert again.answer == once.answer


def a_started_rule() -> StoppingRule:
    rule = ExactMcNemar(at_most=9)
    for place, difference in enumerate((1, 0), 1):
        rule.update(difference, place=place)
    return rule


@pytest.mark.parametrize(
    ("difference", "place", "message"),
    [
        (0, 1, "difference: found 0 at place 1; expected 1, as before"),
        (1, 4, "place: found 4 after 2 tasks; expected at most 3"),
        (1, 0, "place: found 0"),
    ],
)
def test_a_result_told_otherwise_or_out_of_order_is_refused(difference: int, place: int, message: str) -> None:
    rule = a_started_rule()
    state = rule.state()
    with pytest.raises(SeedbedError, match=message):
        rule.update(difference, place=place)
    assert rule.state() == state


def test_an_ended_test_may_be_told_again_what_it_knows() -> None:
    rule = ExactMcNemar(at_most=2)
    rule.update(1, place=1)
    end = rule.update(0, place=2)
    assert rule.update(1, place=1) == end
    with pytest.raises(SeedbedError, match="where the test ended inconclusive"):
        rule.update(1, place=3)


def test_an_experiment_registered_before_rules_had_names_is_the_exact_test() -> None:
    rule = rule_from_state({"alpha": 0.05, "at_most": 2, "spend": "power 1.5"})
    assert rule.state() == ExactMcNemar(at_most=2).state()


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(SeedbedError, match='rule: found "coin"; expected one of exact mcnemar, betting, gsprt, sprt'):
        rule_from_state({"rule": "coin"})


@pytest.mark.parametrize(
    ("name", "guaranteed"), [("exact mcnemar", True), ("betting", True), ("gsprt", False), ("sprt", False)]
)
def test_a_rule_says_whether_its_error_rates_are_guaranteed(name: str, guaranteed: bool) -> None:
    assert RULES[name].guaranteed == guaranteed
    assert ("not guaranteed" in RULES[name].guarantee) != guaranteed


def test_sequential_tests_load_without_scipy() -> None:
    code = "import sys, seedbed.stats.sequential; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
