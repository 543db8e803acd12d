from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_samples import TASK, Court, answered, says

from seedbed.errors import BudgetSpent
from seedbed.evaluation.judges.pairwise import Pairwise, Preference, position_bias
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.storage.store import Json, digest


@pytest.mark.parametrize(
    ("a_first", "b_first", "value"),
    [
        ("second", "first", 1),
        ("first", "second", -1),
        ("tie", "tie", 0),
        ("first", "first", 0),
        ("second", "second", 0),
        ("tie", "first", 0),
        ("second", "tie", 0),
    ],
)
async def test_an_answer_is_better_only_if_it_is_so_in_both_orders(a_first: str, b_first: str, value: int) -> None:
    paris_first = r"(?s)\nParis\n.*\nLyon\n"
    court = Court({paris_first: says(a_first), "": says(b_first)})
    told = await Pairwise(perform=court.perform)(answered("Paris"), answered("Lyon"), TASK)
    assert (told.value, told.preferred) == (value, (a_first, b_first))
    assert told.cost_usd == sum(run.cost_usd for run in court.runs)
    orders = [bool(re.search(paris_first, prompt)) for prompt in court.prompts]
    assert orders == [told.began == "a", told.began == "b"]


async def test_which_answer_is_shown_first_is_drawn_and_a_judge_that_prefers_it_prefers_neither() -> None:
    judge = Pairwise(perform=Court({"": says("first")}).perform)
    told = [await judge(answered(f"No, not {n}."), answered(f"Yes, {n}."), TASK) for n in range(40)]
    assert {each.value for each in told} == {0}
    assert 10 < [each.began for each in told].count("a") < 30
    again = await judge(answered("Yes, 0."), answered("No, not 0."), TASK)
    assert {again.began, told[0].began} == {"a", "b"}  # the same text is shown first, whoever wrote it


class Fickle(Court):
    """A judge whose answer depends on all that it is shown, in no sensible way."""

    async def perform(self, playbook: Playbook, inputs: Json, seed: int) -> Run:
        choices = ["first", "second", "tie", "garbage"]
        shown = re.sub(r"[0-9a-f]{12}", "", inputs["material"])
        answer = choices[int(digest("choice", shown)[3:11], 16) % 4]
        return await Court({"": says(answer)}).perform(playbook, inputs, seed)


@given(st.text(max_size=8), st.text(max_size=8))
@settings(deadline=None)
async def test_swapping_the_answers_turns_the_preference_round(one: str, other: str) -> None:
    judge = Pairwise(perform=Fickle([]).perform)
    there = await judge(answered(one), answered(other), TASK)
    back = await judge(answered(other), answered(one), TASK)
    if there.value is None or back.value is None:
        assert there.value is back.value
    else:
        assert there.value == -back.value
        assert there.preferred == back.preferred[::-1]


async def test_the_same_answer_twice_is_a_tie_that_costs_nothing() -> None:
    court = Court([])
    told = await Pairwise(perform=court.perform)(answered("Paris"), answered("Paris"), TASK)
    assert told == Preference(0, "the answers are the same")
    assert not court.runs


@pytest.mark.parametrize("replies", [["?", "?"], [says("first"), "?", "?"]])
async def test_a_preference_that_cannot_be_read_is_none_and_no_tie(replies: list[str]) -> None:
    court = Court(replies)
    told = await Pairwise(perform=court.perform)(answered("Paris"), answered("Lyon"), TASK)
    assert (told.value, told.preferred) == (None, ())
    assert "cannot be read" in told.reason
    assert told.cost_usd == sum(run.cost_usd for run in court.runs)


async def test_a_spent_budget_is_no_tie() -> None:
    async def spent(playbook: Playbook, inputs: Json, seed: int) -> Run:
        raise BudgetSpent("no money")

    with pytest.raises(BudgetSpent):
        await Pairwise(perform=spent)(answered("Paris"), answered("Lyon"), TASK)


def test_a_judge_that_prefers_what_comes_first_is_found_out() -> None:
    first = [Preference(0, preferred=("first", "first"))] * 9
    honest = [Preference(1, preferred=("second", "first")), Preference(0, preferred=("tie", "tie"))]
    bias = position_bias([*first, *honest, Preference(0), Preference(None)])
    assert (bias.to_first, bias.to_second) == (9, 0)
    assert (bias.consistent.mean, bias.consistent.n) == (pytest.approx(2 / 11), 11)
    assert bias.p == pytest.approx(2 / 2**9)


def test_half_a_leaning_counts_and_an_even_split_is_no_bias() -> None:
    bias = position_bias([Preference(0, preferred=("tie", "first")), Preference(0, preferred=("second", "tie"))])
    assert (bias.to_first, bias.to_second, bias.p) == (1, 1, 1.0)


def test_nothing_judged_shows_nothing() -> None:
    bias = position_bias([])
    assert (bias.consistent.n, bias.to_first, bias.to_second, bias.p) == (0, 0, 0, 1.0)
