"""The types that statistics compute with, how the numbers and ids that callers pass become arrays, and a search."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seedbed.errors import SeedbedError

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.int64]
Indexes: TypeAlias = NDArray[np.intp]
Direction: TypeAlias = Literal["higher", "lower"]
"""Which values of a score, a cost or another objective are better."""


def check_finite(name: str, values: Sequence[float]) -> Floats:
    """Turn the values into an array. Raises an error that names them if one is not a finite number."""
    units = np.asarray(values, dtype=np.float64)
    if units.ndim != 1:
        raise SeedbedError(f"{name}: found {units.ndim} dimensions; expected a plain list of numbers, one per unit")
    for place in np.flatnonzero(~np.isfinite(units))[:1]:
        raise SeedbedError(
            f"{name}[{place}]: found {units[place]}; expected a finite number. Score failures by a rule set in advance"
        )
    return units


def number_clusters(ids: Sequence[Hashable] | None, n: int, name: str = "clusters") -> Indexes:
    """Number the clusters of `n` values from 0, in the order met; without ids each value is a cluster of its own."""
    if ids is None:
        return np.arange(n)
    if len(ids) != n or None in ids:
        count = sum(each is not None for each in ids)
        raise SeedbedError(f"{name}: found {count} ids; expected one for each of the {n} values")
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(each, len(numbers)) for each in ids], dtype=np.intp)


def first_enough(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least number for which `enough` holds, to 13 digits; the upper end if it never does."""
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
