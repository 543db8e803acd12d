"""Budgets as people write them."""

from __future__ import annotations

import pytest

from seedbed.errors import SettingsError
from seedbed.spending.budget import Budget


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
