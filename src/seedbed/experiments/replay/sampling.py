"""Stratified samples: how many of each stratum to draw, which ones, and the mean of the population."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from seedbed.errors import DatasetError, Problem, SeedbedError, shown
from seedbed.stats.arrays import check_finite
from seedbed.stats.estimates import Interval, check_confidence

ENOUGH = 2
"""How many to draw at least of each stratum, to see its spread, where the sample is large enough."""

NEXT_TO_NOTHING = 1e-6
"""A stratum whose weight is this much smaller than the largest is treated as constant."""


@dataclass(frozen=True, slots=True)
class StratifiedSample:
    """The indices that were drawn, in order, and how many of the population each represents."""

    places: tuple[int, ...]
    weights: tuple[float, ...]
    sizes: Mapping[str, int]
    """How many there are of each stratum."""


def proportional(sizes: Sequence[int], n: int) -> list[int]:
    """How many of `n` to draw from each stratum: in proportion to its size, rounded by the largest remainder.

    At least one of each, or two if `n` is large enough, so that every member of the population can be drawn. Raises
    SeedbedError for an empty stratum, DatasetError for an `n` that is too small for this or larger than all.
    """
    return _allocated([float(size) for size in sizes], sizes, n)


def neyman(sizes: Sequence[int], spreads: Sequence[float], n: int) -> list[int]:
    """How many of `n` to draw from each stratum for the most precise mean: in proportion to size times spread.

    `spreads` are the estimated standard deviations of what will be measured. Bounds and errors are those of
    `proportional`, which it equals if all spreads are 0.
    """
    if len(spreads) != len(sizes):
        raise SeedbedError(f"spreads: found {len(spreads)}; expected {len(sizes)}, one for each stratum")
    if any(not math.isfinite(spread) or spread < 0 for spread in spreads):
        raise SeedbedError(f"spreads: found {shown(list(spreads))}; expected numbers from 0")
    wanted = [size * spread for size, spread in zip(sizes, spreads, strict=True)]
    most = max(wanted)
    if most == 0:
        return proportional(sizes, n)
    return _allocated([each / most if each > most * NEXT_TO_NOTHING else 0.0 for each in wanted], sizes, n)


def _allocated(wanted: Sequence[float], sizes: Sequence[int], n: int) -> list[int]:
    """Whole numbers in proportion to `wanted`, each within its bounds, that add up to n."""
    if not all(size >= 1 for size in sizes):
        raise SeedbedError(f"sizes: found {shown(list(sizes))}; expected at least one in each stratum")
    if not len(sizes) <= n <= sum(sizes):
        expected = f"from {len(sizes):,}, one of each stratum, to {sum(sizes):,}, which is all"
        raise DatasetError([Problem("n", f"{n:,}", expected, "Draw more, or stratify by less.")])
    enough = [min(size, ENOUGH) for size in sizes]
    least = enough if n >= sum(enough) else [1] * len(sizes)
    exact = _within(wanted, least, sizes, n)
    takes = [math.floor(each + 1e-9) for each in exact]
    left = n - sum(takes)
    room = [place for place in range(len(sizes)) if takes[place] < sizes[place]]
    for place in sorted(room, key=lambda place: takes[place] - exact[place])[:left]:
        takes[place] += 1
    return takes


def _within(wanted: Sequence[float], least: Sequence[int], most: Sequence[int], n: int) -> list[float]:
    """Shares of n in proportion to `wanted`; those that meet a bound stay there, and the others share the rest."""

    def shares(scale: float) -> list[float]:
        return [min(max(scale * want, low), high) for want, low, high in zip(wanted, least, most, strict=True)]

    low, high = 0.0, max(most) / min(want for want in wanted if want > 0)
    if sum(shares(high)) < n:  # strata that are not wanted fill up the rest
        spare = [top - share for top, share in zip(most, shares(high), strict=True)]
        missing = n - sum(shares(high))
        return [share + missing * each / sum(spare) for share, each in zip(shares(high), spare, strict=True)]
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(shares(middle)) < n else (low, middle)
    return shares(high)


def draw(strata: Sequence[str], n: int, *, seed: int, spreads: Mapping[str, float] | None = None) -> StratifiedSample:
    """Draw `n` of a population, of which `strata` names the stratum of each: the same ones for the same seed.

    In proportion to the strata or, with their `spreads`, as in `neyman`. The weights make weighted means unbiased.
    """
    members: dict[str, list[int]] = {}
    for place, stratum in enumerate(strata):
        members.setdefault(stratum, []).append(place)
    sizes = {stratum: len(places) for stratum, places in members.items()}
    counts = list(sizes.values())
    if spreads is None:
        takes = proportional(counts, n)
    else:
        takes = neyman(counts, [spreads.get(stratum, 0.0) for stratum in sizes], n)
    weights: dict[int, float] = {}
    for (stratum, places), take in zip(members.items(), takes, strict=True):
        chosen = random.Random(f"{seed} {stratum}").sample(places, take)
        weights |= dict.fromkeys(chosen, len(places) / take)
    order = sorted(weights)
    return StratifiedSample(tuple(order), tuple(weights[place] for place in order), sizes)


def stratified_mean(
    values: Sequence[float], strata: Sequence[str], sizes: Mapping[str, int], confidence: float = 0.95
) -> Interval:
    """The mean of the population that a stratified sample was drawn from, with Student's interval.

    `sizes` are those of the strata in the population; one that was drawn completely adds no variance. A stratum of
    which only one was drawn gets the variance of the others; if those show none either, the interval is infinite.
    """
    check_confidence(confidence)
    if len(strata) != len(values):
        raise SeedbedError(f"strata: found {len(strata)}; expected {len(values)}, one for each value")
    if missing := {*sizes} - {*strata}:
        raise SeedbedError(f"strata: found none of {shown(sorted(missing))}; expected some of each")
    numbers, total = check_finite("values", values), sum(sizes.values())
    mean, squares, freedom = 0.0, 0.0, 0
    parts: list[tuple[float, int]] = []
    by_stratum = {stratum: numbers[[each == stratum for each in strata]] for stratum in sizes}
    for stratum, drawn in by_stratum.items():
        mean += sizes[stratum] / total * float(drawn.mean())
        squares += float(((drawn - drawn.mean()) ** 2).sum())
        freedom += len(drawn) - 1
    for stratum, drawn in by_stratum.items():
        size, count = sizes[stratum], len(drawn)
        if count >= size:
            continue
        if count == 1 and freedom == 0:
            return Interval(mean, -math.inf, math.inf, confidence, len(values))
        variance, degrees = (float(np.var(drawn, ddof=1)), count - 1) if count > 1 else (squares / freedom, freedom)
        parts.append(((size / total) ** 2 * (1 - count / size) * variance / count, degrees))
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Interval(mean, mean, mean, confidence, len(values))
    together = variance**2 / sum(part**2 / free for part, free in parts if part)
    reach = float(scipy.special.stdtrit(together, (1 + confidence) / 2)) * math.sqrt(variance)
    return Interval(mean, mean - reach, mean + reach, confidence, len(values))
