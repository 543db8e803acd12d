"""Rules: the strictest that matches decides, and only people loosen them."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import PlaybookError
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules import Rules

RULES = Rules(
    never=("forward_*", "wipe"), confirm=("delete_*",), prefer_confirm=("bulk_*", "delete_draft"), confirm_below=0.6
)
actions = st.text("ab_*", min_size=1, max_size=6)
tests = st.sampled_from(
    [
        *({"above": 1}, {"above": 2}, {"below": 2}, {"above": 1, "below": 3}, {"one_of": [1, 2]}, {"one_of": [1]}),
        *({"matches": "1*"}, {"matches": "*"}, {"not_matches": "1*"}, {"not_matches": "1"}),
    ]
)
conditions = st.fixed_dictionaries({}, optional={"x": tests, "y": tests, "more_than": st.integers(0, 2)})
at_most = st.fixed_dictionaries({}, optional={"x": tests, "at_most": st.integers(0, 2)})


def lists(conditions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(actions | st.dictionaries(actions, conditions, min_size=1, max_size=1), max_size=3).map(tuple)


rule_sets = st.builds(
    Rules,
    never=lists(conditions),
    confirm=lists(conditions),
    prefer_confirm=lists(conditions),
    allow=lists(at_most),
    otherwise=st.sampled_from([None, "allow", "prefer_confirm", "confirm", "never"]),
    confirm_below=st.sampled_from([0.2, 0.6, 0.9]),
)
values = st.sampled_from([0, 1, 2, 3, "1", "12", "x", None, [], [1, 2], [3, "1"], {"a": 1}])
arguments = st.none() | st.fixed_dictionaries({}, optional={"x": values, "y": values})
taken = st.lists(st.tuples(st.text("ab_", min_size=1, max_size=3), st.dictionaries(st.just("x"), values)), max_size=3)
STRICTNESS = {"allowed": 0, "confirm": 1, "forbidden": 2}


@pytest.mark.parametrize(
    ("action", "confidence", "answer", "because"),
    [
        ("forward_to_external_addresses", 1.0, "forbidden", "never: forward_*"),
        ("wipe", None, "forbidden", "never: wipe"),
        ("delete_message", 1.0, "confirm", "confirm: delete_*"),
        ("delete_draft", 1.0, "confirm", "confirm: delete_*"),
        ("bulk_label", 0.59, "confirm", "0.59 is below 0.6"),
        ("bulk_label", 0.6, "allowed", "0.6 reaches 0.6"),
        ("bulk_label", None, "confirm", "no confidence was given"),
        ("bulk_label", float("nan"), "confirm", "no number from 0 to 1"),
        ("bulk_label", float("inf"), "confirm", "no number from 0 to 1"),
        ("bulk_label", True, "confirm", "no number from 0 to 1"),
        ("read", None, "allowed", "no rule names it"),
    ],
)
def test_may_answers_with_its_reason(action: str, confidence: float | None, answer: str, because: str) -> None:
    permission = RULES.may(action, confidence)
    assert permission.answer == answer
    assert because in permission.because
    assert bool(permission) is (answer == "allowed")


def test_the_threshold_may_be_a_parameter() -> None:
    rules = {"prefer_confirm": ["pay"], "confirm_below": "caution"}
    playbook = Playbook.from_document({"parameters": {"caution": {"value": 0.3, "low": 0, "high": 1}}, "rules": rules})
    assert playbook.may("pay", 0.4)
    assert not playbook.may("pay", 0.2)


def careful(value: Any, below: Any = "caution", **bounds: Any) -> Playbook:
    parameters = {"caution": {"value": value, **bounds}}
    return Playbook.from_document(
        {"parameters": parameters, "rules": {"prefer_confirm": ["bulk_*"], "confirm_below": below}}
    )


def test_a_threshold_that_is_a_parameter_may_rise_but_not_fall() -> None:
    start = careful(0.6, low=0, high=1)
    gene = genes(start)["parameters.caution"]
    assert (gene.low, gene.high) == (0.6, 1)
    assert with_genes(start, {"parameters.caution": 0.9}).threshold == 0.9
    for lower in (0, 0.59):
        with pytest.raises(PlaybookError, match=r"parameters\.caution.*a number from 0\.6 up to 1"):
            with_genes(start, {"parameters.caution": lower})


@pytest.mark.parametrize("lower", [0.3, "never", True])
def test_options_of_a_threshold_that_would_lower_it_are_none(lower: Any) -> None:
    start = careful(0.9, options=[0.3, 0.9, 1, "never"])
    assert genes(start)["parameters.caution"].options == (0.9, 1)
    assert with_genes(start, {"parameters.caution": 1}).threshold == 1
    with pytest.raises(PlaybookError):
        with_genes(start, {"parameters.caution": lower})


def test_a_parameter_of_the_default_name_is_a_threshold_too() -> None:
    rules = {"prefer_confirm": ["bulk_*"]}
    start = Playbook.from_document({"parameters": {"confirm_below": 0.5}, "rules": rules})
    with pytest.raises(PlaybookError, match=r"from 0\.5"):
        with_genes(start, {"parameters.confirm_below": 0.4})


def test_true_is_no_number_to_slip_in_where_1_is_an_option() -> None:
    rules = {"prefer_confirm": ["bulk_*"]}
    start = Playbook.from_document(
        {"parameters": {"confirm_below": {"value": 0.9, "options": [0.9, 1]}}, "rules": rules}
    )
    with pytest.raises(PlaybookError, match=r"0\.9 → 0\.8"):
        with_genes(start, {"parameters.confirm_below": True})


def test_a_parameter_that_no_rule_asks_for_is_as_free_as_any() -> None:
    free = Playbook.from_document({"parameters": {"confirm_below": 0.5}, "rules": {"never": ["pay"]}})
    assert with_genes(free, {"parameters.confirm_below": 0.1}).parameter("confirm_below") == 0.1


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (careful(0.6), careful(0.5), "0.6 → 0.5"),
        (careful(0.6), careful(0.9, below=0.4), "0.6 → 0.4"),
        (careful(0.1, below=0.7), careful(0.1), "0.7 → 0.1"),
        (careful(0.1, below=0.7), careful(0.7), None),
        (careful(0.5), careful(0.1, below=0.6), None),
    ],
)
def test_a_playbook_is_loosened_by_a_lower_threshold_wherever_it_stands(
    before: Playbook, after: Playbook, found: str | None
) -> None:
    assert [problem.found for problem in before.loosened_by(after)] == ([found] if found else [])


def test_without_its_parameter_a_threshold_is_the_default() -> None:
    rules = {"prefer_confirm": ["bulk_*"]}
    bare = Playbook.from_document({"rules": rules})
    loose, strict = (
        Playbook.from_document({"rules": rules, "parameters": {"confirm_below": value}}) for value in (0.1, 0.9)
    )
    assert [problem.path for problem in bare.loosened_by(loose)] == ["rules.confirm_below"]
    assert [problem.path for problem in strict.loosened_by(bare)] == ["rules.confirm_below"]
    assert bare.loosened_by(strict) == []


def test_a_playbook_is_loosened_by_a_rule_that_goes() -> None:
    before = Playbook.from_document({"rules": {"never": ["pay"]}})
    after = Playbook.from_document({"rules": {"confirm": ["pay"]}})
    assert [problem.path for problem in before.loosened_by(after)] == ["rules.never"]
    assert after.loosened_by(before) == []


@pytest.mark.parametrize("action", ["Pay", "PAY", "ｐａｙ", "ᵖay"])
def test_another_spelling_of_a_name_is_the_same_name(action: str) -> None:
    assert Rules(never=("pay",)).may(action).because == "never: pay"


def test_without_a_threshold_the_cautious_default_holds() -> None:
    rules = Rules(prefer_confirm=("pay",))
    assert not rules.may("pay", 0.79)
    assert rules.may("pay", 0.8)


def test_only_the_star_is_a_wildcard() -> None:
    assert Rules(never=("a?c", "x[12]")).may("abc")
    assert not Rules(never=("a?c", "x[12]")).may("x[12]")


@given(
    rule_sets,
    rule_sets,
    st.text("ab_", max_size=4),
    st.sampled_from([None, 0.1, 0.7, 1.0]),
    arguments,
    taken,
    st.booleans(),
)
def test_rules_that_loosen_nothing_never_allow_more(
    old: Rules, new: Rules, action: str, sure: float | None, given_: Any, before: Any, changes: bool
) -> None:
    for stricter in (new, old.tighten(new), new.tighten(old)):
        if not old.loosened_by(stricter):
            was, now = (each.may(action, sure, None, given_, changes=changes, taken=before) for each in (old, stricter))
            assert STRICTNESS[now.answer] >= STRICTNESS[was.answer]


@given(rule_sets, rule_sets)
def test_tightened_rules_are_at_least_as_strict_as_both_and_symmetric(one: Rules, other: Rules) -> None:
    both = one.tighten(other)
    assert one.loosened_by(both) == []
    assert other.loosened_by(both) == []
    assert other.tighten(one) == both
    assert one.tighten(one) == one


@given(actions, st.text("ab_", max_size=8))
def test_patterns_match_as_the_standard_library_says(pattern: str, action: str) -> None:
    assert bool(Rules(never=(pattern,)).may(action)) is not fnmatch.fnmatchcase(action, pattern)


@pytest.mark.parametrize(
    "after",
    [
        Rules(
            never=("forward_*",), confirm=("delete_*",), prefer_confirm=("bulk_*", "delete_draft"), confirm_below=0.6
        ),
        Rules(never=("forward_to", "wipe"), confirm=("delete_*",), prefer_confirm=("bulk_*",), confirm_below=0.6),
        Rules(never=("forward_*", "wipe"), prefer_confirm=("bulk_*", "delete_*"), confirm_below=0.6),
        Rules(never=("forward_*", "wipe"), confirm=("delete_*",), prefer_confirm=("bulk_*",), confirm_below=0.5),
        Rules(never=("forward_*", "wipe"), confirm=("delete_*",), prefer_confirm=("bulk_*",), confirm_below="caution"),
    ],
)
def test_each_way_of_loosening_is_told(after: Rules) -> None:
    assert RULES.loosened_by(after)


def test_a_wider_or_stricter_rule_is_no_loosening() -> None:
    assert RULES.loosened_by(Rules(never=("*",), confirm_below=0.7)) == []
