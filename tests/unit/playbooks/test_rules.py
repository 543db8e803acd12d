"""Rules: the strictest that matches decides, and only people loosen them."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules import Rules

RULES = Rules(
    never=("forward_*", "wipe"), confirm=("delete_*",), prefer_confirm=("bulk_*", "delete_draft"), confirm_below=0.6
)
actions = st.text("ab_*", min_size=1, max_size=6)
patterns = st.lists(actions, max_size=3).map(tuple)
rule_sets = st.builds(
    Rules, never=patterns, confirm=patterns, prefer_confirm=patterns, confirm_below=st.sampled_from([0.2, 0.6, 0.9])
)
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
        ("bulk_label", float("nan"), "confirm", "below"),
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


def test_without_a_threshold_the_cautious_default_holds() -> None:
    rules = Rules(prefer_confirm=("pay",))
    assert not rules.may("pay", 0.79)
    assert rules.may("pay", 0.8)


def test_only_the_star_is_a_wildcard() -> None:
    assert Rules(never=("a?c", "x[12]")).may("abc")
    assert not Rules(never=("a?c", "x[12]")).may("x[12]")


@given(rule_sets, rule_sets, st.text("ab_", max_size=6), st.sampled_from([None, 0.1, 0.5, 0.7, 1.0]))
def test_rules_that_loosen_nothing_never_allow_more(
    old: Rules, new: Rules, action: str, confidence: float | None
) -> None:
    if not old.loosened_by(new):
        before, after = old.may(action, confidence), new.may(action, confidence)
        assert STRICTNESS[after.answer] >= STRICTNESS[before.answer]


@given(rule_sets, rule_sets)
def test_tightened_rules_are_at_least_as_strict_as_both_and_symmetric(one: Rules, other: Rules) -> None:
    both = one.tightened_with(other)
    assert one.loosened_by(both) == []
    assert other.loosened_by(both) == []
    assert other.tightened_with(one) == both
    assert one.tightened_with(one) == one


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
