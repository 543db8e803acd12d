"""`*` stands for anything, everything else for itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.playbooks.rules import locks, matches


@pytest.mark.parametrize(
    ("pattern", "name", "answer"),
    [
        ("pay", "pay", True),
        ("pay", "Pay", False),
        ("pay", "pay_all", False),
        ("pay*", "pay_all", True),
        ("*", "anything\nat all", True),
        ("a.b", "axb", False),
        ("de*te", "delete", True),
    ],
)
def test_a_star_is_the_only_wildcard(pattern: str, name: str, answer: bool) -> None:
    assert matches(pattern, name) is answer


@given(st.text())
def test_every_name_matches_itself(name: str) -> None:
    assert matches(name, name)


def test_a_lock_covers_what_is_inside_but_not_what_only_begins_alike() -> None:
    assert locks("roles.critic", "roles.critic.system")
    assert not locks("roles.critic", "roles.critical.system")
