"""What a search may spend, and what it has spent."""

from __future__ import annotations

import pytest

from seedbed.errors import BudgetSpent
from seedbed.spending.account import Account
from seedbed.spending.budget import Budget


def test_runs_are_counted_before_they_are_launched_and_none_too_many() -> None:
    account = Account(Budget(runs=10))
    account.reserve(7)
    assert (account.runs, account.runs_left(), account.runs_left(reserve=2)) == (7, 3, 1)
    with pytest.raises(BudgetSpent, match="found 3 runs left of 10 runs; expected 4"):
        account.reserve(4)
    assert account.runs == 7
    account.reserve(3)
    assert account.is_over()


def test_what_is_kept_for_later_is_not_there_now() -> None:
    account = Account(Budget(runs=10))
    account.reserve(6)
    assert account.is_over(reserve=4)
    assert not account.is_over(reserve=3)
    assert account.runs_left(reserve=9) == 0


def test_without_a_limit_there_is_always_room() -> None:
    account = Account(Budget())
    account.reserve(10**6)
    assert account.runs_left(10) is None
    assert not account.is_over(10)


def test_no_more_runs_are_launched_than_the_money_would_pay_if_all_were_as_dear_as_the_dearest() -> None:
    account = Account(Budget(usd=1.0))
    assert account.runs_left() is None  # nobody knows yet what one costs
    for usd in (0.05, 0.1, 0.02):
        account.learn(usd)
    assert account.runs_left() == 10
    account.ledger.spend(0.7)  # of which 0.3 is left, but not to a computer
    assert account.runs_left() == 3
    assert account.runs_left(reserve=2) == 1
    account.ledger.spend(0.25)
    assert account.is_over()


def test_the_tighter_limit_counts() -> None:
    account = Account(Budget(runs=4, usd=1.0))
    account.learn(0.1)
    assert account.runs_left() == 4
    account.ledger.spend(0.85)
    assert account.runs_left() == 1


def test_time_that_is_over_ends_it() -> None:
    account = Account(Budget(seconds=60))
    account.seconds = 59.9
    assert not account.is_over()
    account.seconds = 60.0
    assert account.is_over()


def test_money_that_was_refused_ends_it_but_only_where_there_is_a_limit() -> None:
    limited, free = Account(Budget(usd=5.0)), Account(Budget())
    for account in (limited, free):
        account.ledger.refuse()
    assert limited.is_over()
    assert not free.is_over()
