"""How far two or more raters agree beyond chance, with intervals.

A label is any text or number; None and NaN are labels that are missing. "Tie" is a label like any other.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats
from seedbed.stats.estimates import Interval, check_confidence, exact_rate

Rating: TypeAlias = Hashable
Weights: TypeAlias = Literal["linear", "quadratic"]
IntervalMethod: TypeAlias = Literal["bootstrap", "analytic"]

DRAWS = 4_000
UNSEEN_APART, UNSEEN_ALIKE = 1.0, 1.5
"""How many pairs that differ are added to the observed ones for the lower end of a bootstrap, and how many that agree,
at each label, for the upper one: what was not seen is not impossible."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often `a` said the label of a row where `b` said that of a column; pairs without two labels are left out."""

    labels: tuple[Rating, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        return sum(map(sum, self.counts))


def confusion(a: Sequence[Rating], b: Sequence[Rating], labels: Sequence[Rating] | None = None) -> Confusion:
    """The table of two raters of the same items, in the same order. Its labels ascend, unless `labels` orders them."""
    pairs = _pairs(a, b)
    known = _in_order(chain.from_iterable(pairs)) if labels is None else list(labels)
    place = {label: number for number, label in enumerate(known)}
    if unknown := [label for label in chain.from_iterable(pairs) if label not in place]:
        raise SeedbedError(f"labels: found {shown(unknown[0])}; expected one of: {', '.join(map(str, known))}")
    counts = np.zeros((len(known), len(known)), dtype=np.int64)
    for one, other in pairs:
        counts[place[one], place[other]] += 1
    return Confusion(tuple(known), tuple(tuple(row) for row in counts.tolist()))


def raw_agreement(a: Sequence[Rating], b: Sequence[Rating], confidence: float = 0.95) -> Interval:
    """The share of items with the same label, with its exact interval. Chance alone may make it high: see `cohen`."""
    pairs = _pairs(a, b)
    return exact_rate(sum(one == other for one, other in pairs), len(pairs), confidence)


def cohen(
    a: Sequence[Rating],
    b: Sequence[Rating],
    *,
    weights: Weights | None = None,
    labels: Sequence[Rating] | None = None,
) -> float:
    """Cohen's kappa of two raters: 1 is perfect agreement, 0 what chance gives, less is worse than chance.

    With weights a disagreement counts by its distance, or the square of it: between the numbers, where labels are
    numbers, else between their places in `labels`. Items where a label is missing are left out. NaN if it is not
    defined: no items, or both raters only ever used the same label.
    """
    table = confusion(a, b, labels)
    return float(_kappa(_counted(table), _distances(table.labels, weights, labels is not None)))


def cohen_interval(
    a: Sequence[Rating],
    b: Sequence[Rating],
    *,
    weights: Weights | None = None,
    labels: Sequence[Rating] | None = None,
    confidence: float = 0.95,
    method: IntervalMethod = "bootstrap",
) -> Interval:
    """Cohen's kappa with its interval, which is from -1 to 1 where kappa is not defined.

    "analytic" is the large-sample interval of Fleiss, Cohen and Everitt (1969). It fails where raters agree well:
    for 20 items with a true kappa of 0.95 its lower end is too high more than half of the time. "bootstrap" draws
    tables from Dirichlet distributions around the observed one, to which a pair that differs is added for the lower
    end and pairs that agree for the upper one, also at `labels` that never came: name the ends of a scale. Where
    raters agree no less than by chance, it covers at least 94 % (benchmarks/coverage.py); where they contradict
    each other, less. Where all agree, its lower end is that of kappa if as many disagree, and as badly, as Clopper
    and Pearson's interval allows. The same labels always give the same interval.
    """
    check_confidence(confidence)
    table = confusion(a, b, labels)
    counts, distances = _counted(table), _distances(table.labels, weights, labels is not None)
    kappa = float(_kappa(counts, distances))
    if math.isnan(kappa):
        return Interval(kappa, -1.0, 1.0, confidence, table.n)
    if method == "analytic":
        low, high = _normal(counts, distances, confidence)
    elif kappa == 1:
        low, high = 1 - (1 - exact_rate(table.n, table.n, confidence).low) / _by_chance(counts, distances), 1.0
    else:
        low, high = _drawn(counts, distances, confidence)
    return Interval(kappa, max(min(low, kappa), -1.0), min(max(high, kappa), 1.0), confidence, table.n)


def fleiss(ratings: Sequence[Sequence[Rating]]) -> float:
    """Fleiss' kappa: one row per item, one label per rater. NaN if it is not defined.

    Every item needs the same number of labels, from any raters; where some are missing use `krippendorff`.
    """
    rows = [[label for label in row if not is_missing(label)] for row in ratings]
    sizes = {len(row) for row in rows}
    if not rows:
        return math.nan
    if len(sizes) > 1 or min(sizes) < 2:
        raise SeedbedError(
            f"ratings: found {min(sizes)} to {max(sizes)} labels per item; expected as many for each, at least 2. "
            "Use krippendorff for them"
        )
    (size,) = sizes
    counts = _counts_by_item(rows)
    by_item = (np.sum(counts**2, axis=1) - size) / (size * (size - 1))
    by_chance = float(np.sum((counts.sum(axis=0) / counts.sum()) ** 2))
    return math.nan if math.isclose(by_chance, 1.0) else (float(by_item.mean()) - by_chance) / (1 - by_chance)


def krippendorff(ratings: Sequence[Sequence[Rating]], level: Literal["nominal", "interval"] = "nominal") -> float:
    """Krippendorff's alpha: one row per item, one label per rater, any of them missing.

    "interval" treats labels as numbers and counts squared distances. Items with fewer than two labels are ignored.
    NaN if it is not defined.
    """
    rows = [row for items in ratings if len(row := [label for label in items if not is_missing(label)]) > 1]
    if not rows:
        return math.nan
    counts = _counts_by_item(rows)
    labels = _in_order(chain.from_iterable(rows))
    if level == "interval" and not _are_numbers(labels):
        raise SeedbedError(f"ratings: found {shown(labels[-1])}; expected numbers, or level nominal")
    distances = _distances(labels, "quadratic" if level == "interval" else None, by_place=False)
    sizes = counts.sum(axis=1)
    total, whole = counts.sum(axis=0), counts.sum()
    # A label is also paired with itself here, which adds nothing: its distance from itself is 0.
    observed = float(np.sum(np.einsum("ui,uj,ij->u", counts, counts, distances) / (sizes - 1)))
    expected = float(total @ distances @ total) / (whole - 1)
    return math.nan if expected == 0 else 1 - observed / expected


def is_missing(label: Rating) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def _pairs(a: Sequence[Rating], b: Sequence[Rating]) -> list[tuple[Rating, Rating]]:
    if len(a) != len(b):
        raise SeedbedError(f"b: found {len(b)} labels; expected {len(a)}, as many as in a: two for every item")
    return [pair for pair in zip(a, b, strict=True) if not any(map(is_missing, pair))]


def _in_order(labels: Any) -> list[Rating]:
    known = set(labels)
    return sorted(known) if _are_numbers(known) else sorted(known, key=str)


def _are_numbers(labels: Any) -> bool:
    return all(isinstance(label, int | float) and math.isfinite(label) for label in labels)


def _counts_by_item(rows: Sequence[Sequence[Rating]]) -> Floats:
    place = {label: number for number, label in enumerate(_in_order(chain.from_iterable(rows)))}
    counts = np.zeros((len(rows), len(place)))
    for number, row in enumerate(rows):
        for label in row:
            counts[number, place[label]] += 1
    return counts


def _counted(table: Confusion) -> Floats:
    return np.array(table.counts, dtype=np.float64).reshape(len(table.labels), len(table.labels))


def _distances(labels: Sequence[Rating], weights: Weights | None, by_place: bool) -> Floats:
    """How bad each disagreement is, from 0 to 1."""
    numbers = _are_numbers(labels)
    if weights and not by_place and not numbers:
        raise SeedbedError("labels: found none, and not only numbers; expected their order, as weights are by distance")
    places = np.array(labels, dtype=np.float64) if weights and numbers else np.arange(len(labels))
    apart = np.abs(places[:, None] - places[None, :])
    apart = apart.astype(np.float64) if weights else (apart > 0).astype(np.float64)
    apart = apart**2 if weights == "quadratic" else apart
    farthest = apart.max(initial=0.0)
    return apart / farthest if farthest else apart


def _kappa(tables: Floats, distances: Floats) -> Floats:
    """Of one table, or of many."""
    whole = tables.sum(axis=(-1, -2))
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    observed = np.einsum("...ij,ij->...", tables, distances) * whole
    by_chance = np.einsum("...i,...j,ij->...", rows, columns, distances)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(by_chance > 0, 1 - observed / by_chance, np.nan))


def _by_chance(counts: Floats, distances: Floats) -> float:
    """How badly raters with these shares of labels disagree by chance, from 0 to 1."""
    return float(counts.sum(axis=1) @ distances @ counts.sum(axis=0)) / float(counts.sum()) ** 2


def _drawn(counts: Floats, distances: Floats, confidence: float) -> tuple[float, float]:
    shares = counts.sum(axis=0) + counts.sum(axis=1)
    alike = np.eye(len(shares))
    apart = np.outer(shares, shares) * (1 - alike)
    tails = (1 - confidence) / 2, (1 + confidence) / 2
    unseen = UNSEEN_APART * apart / apart.sum(), UNSEEN_ALIKE * alike
    low, high = (
        float(np.nanquantile(_kappa(_tables(counts + more), distances), tail))
        for tail, more in zip(tails, unseen, strict=True)
    )
    return low, high


def _tables(shapes: Floats) -> Floats:
    """Tables drawn from a Dirichlet distribution, up to their sums."""
    used = np.flatnonzero(shapes)
    drawn = np.zeros((DRAWS, shapes.size))
    drawn[:, used] = np.random.default_rng(0).standard_gamma(shapes.ravel()[used], (DRAWS, used.size))
    return drawn.reshape(DRAWS, *shapes.shape)


def _normal(counts: Floats, distances: Floats, confidence: float) -> tuple[float, float]:
    n, kappa, close = counts.sum(), float(_kappa(counts, distances)), 1 - distances
    shares = counts / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    by_chance = float(rows @ close @ columns)
    spread = close - ((close @ columns)[:, None] + (rows @ close)[None, :]) * (1 - kappa)
    variance = float(np.sum(shares * spread**2)) - (kappa - by_chance * (1 - kappa)) ** 2
    reach = float(scipy.special.ndtri((1 + confidence) / 2)) * math.sqrt(max(variance, 0.0) / n) / (1 - by_chance)
    return kappa - reach, kappa + reach
