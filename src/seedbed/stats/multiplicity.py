"""Many candidates under one error rate: judged together, or one after another without end.

A test that errs once in twenty is wrong about one of twenty candidates that are no better, so each of many candidates
must show more. Where all of several tests must pass (quality and cost and safety) no correction is needed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats
from seedbed.stats.sequential.stopping_rule import check_rate


@dataclass(frozen=True, slots=True)
class Correction:
    """For each hypothesis, in the order of the input, whether it is rejected, and its adjusted p-value.

    The adjusted p-value is the smallest error rate at which it would be rejected: compare it with alpha like any
    p-value.
    """

    rejected: tuple[bool, ...]
    p: tuple[float, ...]


def holm(p: Sequence[float], alpha: float = 0.05) -> Correction:
    """The chance to reject any true hypothesis is at most `alpha`, however the tests depend on each other."""
    check_rate("alpha", alpha)
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return _corrected(order, steps, alpha)


def benjamini_hochberg(p: Sequence[float], alpha: float = 0.05) -> Correction:
    """At most a share `alpha` of the rejected hypotheses is true, on average (the false discovery rate).

    For tests that are independent or depend on each other positively, on numbers of tasks fixed in advance. For others
    use `e_bh`, or `holm`.
    """
    check_rate("alpha", alpha)
    return _step_up(_p_values(p), alpha)


def e_bh(e: Sequence[float], alpha: float = 0.05) -> Correction:
    """The false discovery rate is at most `alpha`, however the tests depend on each other (Wang and Ramdas 2022).

    For e-values: evidence whose mean is at most 1 if the hypothesis is true, such as the money of a bet at any stop.
    Rejects the k largest of K, for the largest k whose smallest is at least K / (alpha k).
    """
    check_rate("alpha", alpha)
    values = np.array([_e_value(f"e[{place}]", each) for place, each in enumerate(e)], dtype=np.float64)
    return _step_up(1 / np.maximum(values, 1.0), alpha)  # less than 1 is no evidence, however little it is


def e_from_p(p: float) -> float:
    """An e-value from a p-value, 1 / (2 √p). It is weaker evidence, but needs no independence."""
    if not 0 < p <= 1:
        raise SeedbedError(f"p: found {shown(p)}; expected above 0 and at most 1")
    return 0.5 / math.sqrt(p)


def p_for_e(e: float) -> float:
    """The largest p-value from which `e_from_p` makes at least this e-value, 1 / (2 e)²."""
    if not e >= 0.5:
        raise SeedbedError(f"e: found {shown(e)}; expected at least 0.5, which the p-value 1 is worth")
    return 0.25 / e**2


def gamma(place: int) -> float:
    """The share of a stream's error rate that goes to the candidate at this place, counted from 1.

    1/√j - 1/√(j+1), so the shares of the first n candidates sum to 1 - 1/√(n+1), and those of all to 1. Square roots
    are the same on every machine. Shares fall like j^-1.5, slowly enough to leave something for late candidates.
    """
    here, after = math.sqrt(place), math.sqrt(place + 1)
    return 1 / (here * after * (here + after))


@dataclass(frozen=True, slots=True)
class Balance:
    """The state of a stream.

    `next_alpha` is the level for the next candidate; `left` is the sum of all levels to come, if none of them brings a
    discovery; `spent` is the sum of the levels so far. `tested` candidates have a result, `waiting` ones have a level
    but no result yet.
    """

    next_alpha: float
    left: float
    spent: float
    tested: int
    waiting: int
    discoveries: int


class ErrorBudget(ABC):
    """A stream of candidates without end: on average at most a share `alpha` of those called better is not.

    Every candidate gets a level before it is judged; each discovery raises the levels of later candidates. `reserve`
    returns the level, to be registered with the test; `tell` takes the result. Several candidates may wait for their
    results at once. A level is used up even if its candidate is abandoned.
    """

    name: ClassVar[str]
    guarantee: ClassVar[str]

    def __init__(self, *, alpha: float = 0.05) -> None:
        check_rate("alpha", alpha)
        self.alpha = alpha
        self._levels: dict[str, float] = {}
        self._values: dict[str, float] = {}
        self._discovered_at: list[int] = []
        """For each discovery, how many candidates had a level when it became known."""

    @property
    def next_alpha(self) -> float:
        """The level that the next new candidate gets."""
        return self._level(len(self._levels) + 1)

    def reserve(self, key: str) -> float:
        """The level for this candidate, the same at every call."""
        if not isinstance(key, str) or not key:
            raise SeedbedError(f"key: found {shown(key)}; expected a name for the candidate, such as its digest")
        if key not in self._levels:
            self._levels[key] = self.next_alpha
        return self._levels[key]

    def tell(self, key: str, value: float) -> bool:
        """Take the result for a candidate, and say whether it is a discovery. Repeating a result changes nothing."""
        value = self._checked(value)
        if key in self._values:
            if value != self._values[key]:
                raise SeedbedError(
                    f"{key}: found {value:g}; expected {self._values[key]:g}, as before. "
                    "A result that was read cannot change"
                )
            return self._rejects(value, self._levels[key])
        level = self.reserve(key)
        self._values[key] = value
        if discovery := self._rejects(value, level):
            self._discovered_at.append(len(self._levels))
        return discovery

    def discoveries(self) -> list[str]:
        """The candidates called better, in the order of their results."""
        return [key for key, value in self._values.items() if self._rejects(value, self._levels[key])]

    def balance(self) -> Balance:
        tested, spent = len(self._values), math.fsum(self._levels.values())
        waiting = len(self._levels) - tested
        return Balance(self.next_alpha, self._left(), spent, tested, waiting, len(self._discovered_at))

    @abstractmethod
    def _level(self, place: int) -> float:
        """The level for the candidate at this place, given the discoveries known now."""

    @abstractmethod
    def _left(self) -> float:
        """The sum of all levels to come, were there no more discoveries."""

    @abstractmethod
    def _rejects(self, value: float, level: float) -> bool: ...

    @abstractmethod
    def _checked(self, value: float) -> float: ...


class Lord(ErrorBudget):
    """LORD++ (Ramdas et al. 2017): the more powerful one, for p-values that are valid whatever came before.

    They are if each candidate is confirmed on tasks that decided nothing about it before. The levels start from a
    wealth of `w0`; the first discovery brings `alpha - w0`, each further one `alpha`, spread over what comes after it
    by `gamma`. While candidates wait for results, only discoveries already known count (Zrnic, Ramdas and Jordan 2021).
    """

    name: ClassVar[str] = "lord++"
    guarantee: ClassVar[str] = "false discovery rate at most alpha for p-values that are independent of each other"

    def __init__(self, *, alpha: float = 0.05, w0: float | None = None) -> None:
        super().__init__(alpha=alpha)
        self.w0 = alpha / 2 if w0 is None else w0
        if not isinstance(self.w0, float) or not 0 < self.w0 <= alpha:
            raise SeedbedError(f"w0: found {shown(w0)}; expected above 0 and at most alpha, {alpha:g}")

    def _grants(self) -> list[tuple[float, int]]:
        """The amounts to spend, each with the number of candidates that came before it."""
        earned = [self.alpha - self.w0, *[self.alpha] * len(self._discovered_at)]
        return [(self.w0, 0), *zip(earned, self._discovered_at, strict=False)]

    def _level(self, place: int) -> float:
        return math.fsum(amount * gamma(place - since) for amount, since in self._grants())

    def _left(self) -> float:
        reserved = len(self._levels)
        return math.fsum(amount / math.sqrt(reserved - since + 1) for amount, since in self._grants())

    def _rejects(self, value: float, level: float) -> bool:
        return value <= level

    def _checked(self, value: float) -> float:
        return float(_p_values([value])[0])


class ELond(ErrorBudget):
    """e-LOND (Xu and Ramdas 2024): for e-values, which may depend on each other in any way.

    Use it for candidates confirmed on the same tasks, or against one run of the incumbent. The level of the candidate
    at place t is `alpha` `gamma`(t) times one more than the discoveries known; its e-value is a discovery from 1/level
    on.
    """

    name: ClassVar[str] = "e-lond"
    guarantee: ClassVar[str] = "false discovery rate at most alpha, however the e-values depend on each other"

    def _level(self, place: int) -> float:
        return self.alpha * gamma(place) * (len(self._discovered_at) + 1)

    def _left(self) -> float:
        return self.alpha * (len(self._discovered_at) + 1) / math.sqrt(len(self._levels) + 1)

    def _rejects(self, value: float, level: float) -> bool:
        return value >= 1 / level

    def _checked(self, value: float) -> float:
        return _e_value("e", value)


def _step_up(p: Floats, alpha: float) -> Correction:
    order = np.argsort(p, kind="stable")
    ratios = p[order] / (np.arange(1, len(p) + 1) / max(len(p), 1))
    return _corrected(order, np.minimum.accumulate(ratios[::-1])[::-1], alpha)


def _corrected(order: np.ndarray[Any, Any], sorted_p: Floats, alpha: float) -> Correction:
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(sorted_p, 1.0)
    return Correction(tuple((adjusted <= alpha).tolist()), tuple(adjusted.tolist()))


def _p_values(p: Sequence[float]) -> Floats:
    values = np.asarray(p, dtype=np.float64)
    for place, value in enumerate(values.tolist()):
        if not 0 <= value <= 1:
            raise SeedbedError(
                f"p[{place}]: found {value}; expected a p-value from 0 to 1. Without a result there is no p-value: "
                "count it as 1"
            )
    return values


def _e_value(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise SeedbedError(f"{name}: found {shown(value)}; expected an e-value: finite, at least 0")
    return float(value)
