"""What a search may spend, and what it has spent."""

from __future__ import annotations

import pytest

from seedbed.errors import BudgetSpent, SettingsError
from seedbed.spending.account import Account, Budget


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("400 runs", Budget(runs=400)),
        ("400", Budget(runs=400)),
        ("1 run", Budget(runs=1)),
        ("2k", Budget(runs=2_000)),
        ("1.5k runs", Budget(runs=1_500)),
        ("1,000 runs", Budget(runs=1_000)),
        ("$2", Budget(usd=2.0)),
        ("$ 0.25", Budget(usd=0.25)),
        ("$1,500", Budget(usd=1_500.0)),
        ("3 dollars", Budget(usd=3.0)),
        ("2.5 USD", Budget(usd=2.5)),
        ("10 minutes", Budget(seconds=600.0)),
        ("1 hour", Budget(seconds=3_600.0)),
        ("90s", Budget(seconds=90.0)),
        ("1.5 h", Budget(seconds=5_400.0)),
        ("20 mins", Budget(seconds=1_200.0)),
        ("1M tokens", Budget(tokens=1_000_000)),
        ("2.3M tokens", Budget(tokens=2_300_000)),
        ("10,000 tokens", Budget(tokens=10_000)),
        ("400 runs, $2, 10 minutes", Budget(runs=400, usd=2.0, seconds=600.0)),
        ("400 runs,500 tokens", Budget(runs=400, tokens=500)),
        ("1,234,567 tokens, 100 runs", Budget(runs=100, tokens=1_234_567)),
    ],
)
def test_a_budget_is_read_as_people_write_it(written: str, expected: Budget) -> None:
    assert Budget.parse(written) == expected


@pytest.mark.parametrize(
    "written",
    ["", "many", "400 apples", "runs", "$", "1.2.3 runs", "-3 runs", "1.5 runs", "10 m", "4 runs,", "1e3 runs", "inf"],
)
def test_what_is_no_budget_is_refused_with_how_to_write_one(written: str) -> None:
    with pytest.raises(SettingsError, match="Write it like 400 runs"):
        Budget.parse(written)


@pytest.mark.parametrize("written", ["4 runs, 5 runs", "4, 5 runs", "$1, 2 usd", "1 hour, 5 s"])
def test_the_same_limit_twice_is_refused(written: str) -> None:
    with pytest.raises(SettingsError, match="twice"):
        Budget.parse(written)


@pytest.mark.parametrize("wrong", [{"runs": -1}, {"usd": float("nan")}, {"seconds": float("inf")}, {"tokens": -0.5}])
def test_a_limit_is_a_number_that_is_not_negative(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"budget.{next(iter(wrong))}"):
        Budget(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ["1,000 runs", "1,000,000 tokens", "600 s", "$2.00", "12 runs, 60 s, $0.0150"])
def test_it_is_written_as_it_is_read(written: str) -> None:
    assert str(Budget.parse(written)) == written
    assert Budget.parse(str(Budget.parse(written))) == Budget.parse(written)


def test_its_body_has_only_the_limits_there_are() -> None:
    assert Budget().body() == {}
    assert str(Budget()) == "no limit"
    assert Budget(runs=3, usd=0.0).body() == {"runs": 3, "usd": 0.0}


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
