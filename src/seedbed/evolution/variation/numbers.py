"""NumberVariation: mixes and mutates the numbers of playbooks within their bounds.

`sbx` and `polynomial` are Deb's crossover and mutation, on arrays: a row for each parent, a column for each number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from seedbed.evolution.protocols import Search
from seedbed.evolution.variation.checks import child
from seedbed.playbooks.genes import Gene, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats

DIGITS = 6
"""Numbers are rounded to about a millionth of their range."""


def sbx(
    one: Floats,
    other: Floats,
    low: Floats,
    high: Floats,
    rng: np.random.Generator,
    *,
    chance: float = 0.9,
    eta: float = 15.0,
) -> tuple[Floats, Floats]:
    """Two children of each pair, about as far from each other as their parents; the lower `eta`, the wider.

    A pair is mixed with probability `chance`, and then about half of its numbers.
    """
    small, large = np.minimum(one, other), np.maximum(one, other)
    apart = large - small
    mixed = (rng.random((len(one), 1)) < chance) & (rng.random(one.shape) < 0.5) & (apart > 1e-14)
    apart = np.where(mixed, apart, 1.0)
    drawn = rng.random(one.shape)

    def spread(room: Floats) -> Floats:
        reach = 2 - (1 + 2 * room / apart) ** -(eta + 1)  # values beyond the bound have probability 0
        power = np.where(drawn * reach <= 1, drawn * reach, 1 / (2 - drawn * reach))
        return np.asarray(power ** (1 / (eta + 1)))

    middle = (small + large) / 2
    lower = np.clip(middle - spread(small - low) * apart / 2, low, high)
    upper = np.clip(middle + spread(high - large) * apart / 2, low, high)
    swapped = rng.random(one.shape) < 0.5
    return (
        np.where(mixed, np.where(swapped, upper, lower), one),
        np.where(mixed, np.where(swapped, lower, upper), other),
    )


def polynomial(
    values: Floats,
    low: Floats,
    high: Floats,
    rng: np.random.Generator,
    *,
    chance: float | None = None,
    eta: float = 20.0,
) -> Floats:
    """Mutate each number with probability `chance`, by default one per row on average; the lower `eta`, the farther."""
    span = np.where(high > low, high - low, 1.0)
    drawn = rng.random(values.shape)
    power = eta + 1
    down = (2 * drawn + (1 - 2 * drawn) * (1 - (values - low) / span) ** power) ** (1 / power) - 1
    up = 1 - (2 * (1 - drawn) + (2 * drawn - 1) * (1 - (high - values) / span) ** power) ** (1 / power)
    moved = np.clip(values + np.where(drawn < 0.5, down, up) * span, low, high)
    return np.where(rng.random(values.shape) < (1 / values.shape[1] if chance is None else chance), moved, values)


class NumberVariation:
    """Mixes the numbers of two playbooks and mutates them; without a mate it draws them uniformly within their bounds.
    A number without bounds ranges as far as its own size."""

    name = "mix and move numbers"

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        mine = numbers(parent)
        if not mine:
            return None
        rng = search.chance(event)
        own = np.array([[gene.value for gene in mine.values()]], dtype=np.float64)
        low, high = np.array([_range(gene) for gene in mine.values()], dtype=np.float64).T
        if mates:
            theirs = numbers(mates[0])
            other = np.array([[theirs.get(path, gene).value for path, gene in mine.items()]], dtype=np.float64)
            # A mate may have a value that this parent may not: a threshold that was raised does not fall again.
            values, _ = sbx(own, np.clip(other, low, high), low, high, rng)
            values = polynomial(values, low, high, rng)
        else:
            values = low + (high - low) * rng.random(own.shape)
        whole = np.floor(values + rng.random(values.shape))  # rounded at random, so that small moves are not lost
        drawn = zip(mine.values(), values[0].tolist(), whole[0].tolist(), low.tolist(), high.tolist(), strict=True)
        return child(parent, {gene.path: _rounded(gene, *rest) for gene, *rest in drawn})


def numbers(playbook: Playbook) -> Mapping[str, Gene]:
    """The numbers of a playbook that may evolve, whole ones too, by path."""
    return {path: gene for path, gene in genes(playbook).items() if gene.kind in ("number", "integer")}


def has_room(gene: Gene) -> bool:
    """Whether the bounds of a number leave more than one value."""
    return gene.low is None or gene.high is None or gene.low < gene.high


def clip(gene: Gene, value: float) -> float:
    """The value, or the bound of the gene that it exceeds."""
    if gene.low is not None:
        value = max(value, gene.low)
    return value if gene.high is None else min(value, gene.high)


def _range(gene: Gene) -> tuple[float, float]:
    reach = gene.span or max(abs(gene.value), 1.0)
    low = gene.value - reach if gene.low is None else gene.low
    high = gene.value + reach if gene.high is None else gene.high
    return (math.ceil(low), math.floor(high)) if gene.kind == "integer" else (low, high)


def _rounded(gene: Gene, value: float, whole: float, low: float, high: float) -> float:
    if gene.kind == "integer":
        return int(min(max(whole, low), high))
    if high <= low or value == gene.value:
        return float(gene.value)
    short = round(value, DIGITS - math.floor(math.log10(high - low)))
    return min(max(short, low), high)
