"""What callers pass becomes arrays: finite numbers, numbered clusters, or an error that names what is wrong."""

from __future__ import annotations

import math

import pytest

from seedbed.errors import SeedbedError
from seedbed.stats.arrays import check_finite, number_clusters


def test_finite_numbers_become_an_array() -> None:
    assert check_finite("values", [1, 2.5]).tolist() == [1.0, 2.5]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_named(value: float) -> None:
    with pytest.raises(SeedbedError, match=rf"rewards\[1\]: found {value}; expected a finite number"):
        check_finite("rewards", [1.0, value])


def test_a_table_where_a_list_is_expected_is_refused() -> None:
    with pytest.raises(SeedbedError, match="values: found 2 dimensions; expected a plain list"):
        check_finite("values", [[1.0], [2.0]])  # type: ignore[list-item]


def test_clusters_are_numbered_in_the_order_met() -> None:
    assert number_clusters(["b", "a", "b"], 3).tolist() == [0, 1, 0]
    assert number_clusters(None, 3).tolist() == [0, 1, 2]


@pytest.mark.parametrize("ids", [["a"], ["a", None]])
def test_every_value_needs_a_cluster(ids: list[str | None]) -> None:
    with pytest.raises(SeedbedError, match="clusters: found 1 ids; expected one for each of the 2 values"):
        number_clusters(ids, 2)
