"""CMAES: covariance matrix adaptation of numbers, whole numbers and choices together.

It uses the `cmaes` package: CMA where there are only numbers; otherwise CatCMAwM, which keeps a minimal probability for
every whole number and option.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.cells import Cell
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Search, check_settings, settings_of
from seedbed.evolution.variation.checks import build_child
from seedbed.evolution.variation.numbers import clip, has_room
from seedbed.playbooks.genes import Gene, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats
from seedbed.storage.store import Digest, Json

MOST_STEPS = 1_000
"""A whole number with more values than that is searched as a number and rounded."""

FLAT = 1e-12
"""Scores that differ by less are equal."""

PATIENCE = 20
"""A descent ends after this many generations in a row without new scores or differences."""

GROWN = 16
"""How many times larger than the first generation a later one may be, after restarts."""


@dataclass(kw_only=True, eq=False)
class CMAES:
    """Draws each generation around the best of those before; a descent that has converged restarts elsewhere.

    `step` is the first step size, as a share of a gene's range; the range of a number without bounds is its own size.
    `population` is the size of a generation, by default 4 + 3 ln(genes); each restart multiplies it by `growth`. A
    descent has converged if the numbers of a generation differ by less than `precision`, as a share of their range. A
    restart begins from the best playbook so far, with its texts. The first metric decides.
    """

    step: float = 0.2
    population: int | None = None
    growth: float = 2.0
    precision: float = 1e-3

    def __post_init__(self) -> None:
        check_settings(
            "cmaes",
            step=(self.step, 0 < self.step <= 1, "a share above 0 and at most 1"),
            population=(self.population, self.population is None or self.population >= 4, "at least 4"),
            growth=(self.growth, 1 <= self.growth <= 4, "a factor from 1 to 4"),
            precision=(self.precision, 0 <= self.precision < self.step, "a share from 0 to below the step"),
        )
        self.restarts = -1

    @property
    def identity(self) -> Json:
        return {"optimizer": "cmaes", **settings_of(self)}

    def begin(self, search: Search) -> None:
        self._search = search
        self.restarts = -1
        self._descend(search.start)

    async def ask(self) -> Sequence[Offer]:
        """The new playbooks of the next generation that has any."""
        pool = self._search.pool
        for _ in range(2):
            for _ in range(PATIENCE):
                drawn = self._draw()
                fresh = {each.digest: each for each in drawn if each is not None and each.digest not in pool}
                if fresh:
                    how = f"generation {self._generation} of descent {self.restarts}"
                    parents = (self._space.base.digest,)
                    return [Offer(playbook, parents, how) for playbook in fresh.values()]
                self._learn()
                if self._has_converged():
                    break
            self._restart()
        return []

    async def tell(self, cells: Sequence[Cell]) -> None:
        self._learn()
        if self._has_converged():
            self._restart()

    def _descend(self, base: Playbook) -> None:
        self._space = _Space.of(base)
        self.restarts += 1
        chance = self._search.chance("cmaes", self.restarts)
        size = self.population or 4 + math.floor(3 * math.log(self._space.size))
        size = min(math.ceil(size * self.growth**self.restarts), size * GROWN)
        centre = self._space.values() if self.restarts == 0 else self._space.anywhere(chance)
        self._distribution = _Distribution(
            self._space, centre, self.step, size, int(chance.integers(2**31)), first=self.restarts == 0
        )
        self._samples: list[Any] = []
        self._drawn: list[Digest | None] = []
        self._generation = 0
        self._uneventful = 0

    def _restart(self) -> None:
        try:
            self._descend(self._search.pool.playbooks[self._search.pool.best()])
        except PlaybookError:  # the best has no gene left to search, such as a threshold at its highest value
            self._descend(self._search.start)

    def _draw(self) -> list[Playbook | None]:
        """One generation; None where the values do not fit together."""
        self._generation += 1
        self._samples = [self._distribution.ask() for _ in range(self._distribution.size)]
        made = [self._space.child(*self._distribution.parts(sample)) for sample in self._samples]
        self._drawn = [child.digest if child is not None else None for child in made]
        return made

    def _learn(self) -> None:
        scores = _scores(self._search.pool, self._drawn)
        known = scores[np.isfinite(scores)]
        if not known.size:
            self._uneventful += 1
            return
        # By ranks, since the scale of scores does not matter. Those without a score come last. Equals stay in the
        # order in which they were drawn, which is random.
        ranks = np.empty(len(scores))
        ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
        self._distribution.tell(self._samples, ranks)
        self._uneventful = self._uneventful + 1 if known.max() - known.min() <= FLAT else 0

    def _has_converged(self) -> bool:
        shares = np.array([self._distribution.parts(sample)[0] for sample in self._samples])
        settled = bool(shares.size) and float(np.ptp(shares, axis=0).max()) < self.precision
        return settled or self._uneventful >= PATIENCE or self._distribution.is_stuck()


def _scores(pool: Pool, drawn: Sequence[Digest | None]) -> Floats:
    """Scores, higher being better; the worst where there are none. Plain means where all have the same tasks, since
    these are exact; estimates otherwise."""
    places = [pool.place(each) if each is not None and each in pool else None for each in drawn]
    rows = {place: pool.row(place) for place in places if place is not None}
    rows = {place: row for place, row in rows.items() if not np.isnan(row).all()}
    patterns = {np.isnan(row).tobytes() for row in rows.values()}
    if len(patterns) <= 1:
        of = {place: float(np.nanmean(row)) for place, row in rows.items()}
    else:
        of = dict(zip(rows, pool.standings(0, list(rows))[0].tolist(), strict=True))
    return np.array([-math.inf if place is None else of.get(place, -math.inf) for place in places])


Values: TypeAlias = tuple[Floats, Floats, tuple[int, ...]]
"""Numbers as shares of their range, whole numbers as they are, and which option of each choice."""


@dataclass(frozen=True)
class _Space:
    """The genes of a playbook that can be searched."""

    base: Playbook
    numbers: tuple[Gene, ...]
    whole: tuple[Gene, ...]
    choices: tuple[Gene, ...]

    @classmethod
    def of(cls, base: Playbook) -> _Space:
        numbers, whole, choices = [], [], []
        for gene in genes(base).values():
            if gene.kind == "number" or (gene.kind == "integer" and len(_steps(gene)) > MOST_STEPS):
                if has_room(gene):
                    numbers.append(gene)
            elif gene.kind == "integer" and len(_steps(gene)) > 2:
                whole.append(gene)
            elif len(_options(gene)) > 1:
                choices.append(gene)
        space = cls(base, tuple(numbers), tuple(whole), tuple(choices))
        if not space.size:
            remedy = "Declare parameters with low and high or with options, or unlock some."
            expected = "a number, a whole number or a choice that may change"
            raise PlaybookError([Problem("parameters", "none that cmaes can search", expected, remedy)])
        return space

    @property
    def size(self) -> int:
        return len(self.numbers) + len(self.whole) + len(self.choices)

    def values(self) -> Values:
        """The values of the base."""
        shares = [(gene.value - _origin(gene)) / _range(gene) for gene in self.numbers]
        options = tuple(_options(gene).index(gene.value) for gene in self.choices)
        return np.array(shares, float), np.array([gene.value for gene in self.whole], float), options

    def anywhere(self, chance: np.random.Generator) -> Values:
        """Random values in range; around the base where there are no bounds."""
        shares = [
            chance.random() if gene.low is not None and gene.high is not None else self._around(gene, chance)
            for gene in self.numbers
        ]
        whole = [chance.choice(np.asarray(_steps(gene))) for gene in self.whole]
        return np.array(shares, float), np.array(whole, float), tuple(0 for _ in self.choices)

    def _around(self, gene: Gene, chance: np.random.Generator) -> float:
        low, high = self.bounds(gene)
        return float(np.clip((gene.value - _origin(gene)) / _range(gene) + chance.standard_normal(), low, high))

    @staticmethod
    def bounds(gene: Gene) -> tuple[float, float]:
        """The bounds of a number, as shares of its range."""
        low = -math.inf if gene.low is None else (gene.low - _origin(gene)) / _range(gene)
        high = math.inf if gene.high is None else (gene.high - _origin(gene)) / _range(gene)
        return low, high

    def child(self, shares: Sequence[float], whole: Sequence[float], options: Sequence[int]) -> Playbook | None:
        """The base with other values; None if they make no valid playbook."""
        values: dict[str, Any] = {}
        for gene, share in zip(self.numbers, shares, strict=True):
            if not math.isfinite(share):
                return None
            values[gene.path] = _number(gene, share)
        for gene, number in zip(self.whole, whole, strict=True):
            values[gene.path] = round(number)
        for gene, option in zip(self.choices, options, strict=True):
            values[gene.path] = _options(gene)[option]
        return build_child(self.base, values)


def _number(gene: Gene, share: float) -> float | int:
    value = clip(gene, _origin(gene) + share * _range(gene))
    if gene.kind != "integer":
        return float(value)
    # Rounded within the bounds, which need not be whole numbers.
    low = -math.inf if gene.low is None else math.ceil(gene.low)
    high = math.inf if gene.high is None else math.floor(gene.high)
    return int(min(max(round(value), low), high))


def _origin(gene: Gene) -> float:
    return float(gene.low if gene.low is not None and gene.high is not None else gene.value)


def _range(gene: Gene) -> float:
    if gene.low is not None and gene.high is not None:
        return float(gene.high - gene.low)
    return abs(float(gene.value)) or 1.0


def _steps(gene: Gene) -> range:
    """The values of a whole number. Without bounds, as many to each side as its own size, and at least 50."""
    reach = max(50, abs(int(gene.value)))
    low = math.ceil(gene.low) if gene.low is not None else int(gene.value) - reach
    high = math.floor(gene.high) if gene.high is not None else int(gene.value) + reach
    return range(low, high + 1)


def _options(gene: Gene) -> tuple[Any, ...]:
    return tuple(_steps(gene)) if gene.kind == "integer" else gene.options


class _Distribution:
    """The distribution of the next generation: CMA for numbers alone, CatCMAwM otherwise."""

    def __init__(self, space: _Space, centre: Values, step: float, size: int, seed: int, *, first: bool) -> None:
        import cmaes  # it loads scipy.stats, for which no other search should wait

        self.size = size
        self._mixed = bool(space.whole or space.choices)
        self._gaussian = bool(space.numbers or space.whole)
        shares, whole, options = centre
        bounds = np.array([space.bounds(gene) for gene in space.numbers], float).reshape(-1, 2)
        if not self._mixed:
            self._distribution: Any = cmaes.CMA(shares, step, bounds, seed=seed, population_size=size)
            return
        steps = [list(_steps(gene)) for gene in space.whole]
        deviations = [step] * len(shares) + [max(step * len(each), 0.5) for each in steps]
        self._distribution = cmaes.CatCMAwM(
            x_space=bounds if len(bounds) else None,
            z_space=steps or None,
            c_space=[len(_options(gene)) for gene in space.choices] or None,
            population_size=size,
            mean=np.concatenate([shares, whole]) if self._gaussian else None,
            sigma=1.0,
            cov=np.diag(np.square(deviations)) if self._gaussian else None,
            # At first the current option is as likely as all others together; after a restart all are equally likely.
            cat_param=_prefer(space.choices, options) if space.choices and first else None,
            seed=seed,
        )

    def ask(self) -> Any:
        return self._distribution.ask()

    def parts(self, sample: Any) -> tuple[Sequence[float], Sequence[float], Sequence[int]]:
        if not self._mixed:
            return sample.tolist(), (), ()
        shares = () if sample.x is None else sample.x.tolist()
        whole = () if sample.z is None else sample.z.tolist()
        return shares, whole, () if sample.c is None else sample.c.argmax(axis=1).tolist()

    def tell(self, samples: Sequence[Any], ranks: Floats) -> None:
        self._distribution.tell(list(zip(samples, ranks.tolist(), strict=True)))

    def is_stuck(self) -> bool:
        return self._gaussian and bool(self._distribution.should_stop())


def _prefer(choices: Sequence[Gene], options: Sequence[int]) -> Floats:
    odds = np.zeros((len(choices), max(len(_options(gene)) for gene in choices)))
    for row, gene, now in zip(odds, choices, options, strict=True):
        row[: len(_options(gene))] = 0.5 / (len(_options(gene)) - 1)
        row[now] = 0.5
    return odds
