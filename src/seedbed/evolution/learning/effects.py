"""Effects: what each part of a playbook is worth, estimated from all candidates together.

One candidate on sixty tasks says little about a change that is worth five points. But candidates share most of their
parts, so all of them together show what each part is worth: a sentence of a text, a demo, an option, a number. A score
is modelled as the ease of the task, the worth of the parts, an effect of the candidate itself, and noise.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import scipy

from seedbed.evolution.pool import Pool
from seedbed.evolution.variation.sentences import split
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats
from seedbed.storage.store import canonical

GenePart: TypeAlias = tuple[str, str]
"""The path of a gene, and one sentence of its text, one of its demos or its option; nothing for a number."""

MOST = 300
"""How many candidates are used at most: the start, those with the most tasks, and the newest."""

PARTS = (0.02, 0.05, 0.15)
OWN = (0.01, 0.04)
"""Standard deviations of the effects of parts, and of candidates beyond their parts. The best fit is used."""

USUAL = 0.02
"""The standard deviation of the mean worth of all parts: proposals may be good or bad on average."""

LEVEL = 1.0


@lru_cache(maxsize=4096)
def parts(playbook: Playbook) -> dict[GenePart, float]:
    """The parts of a playbook that may evolve; a number as a share of its range."""
    values: dict[GenePart, float] = {}
    for gene in genes(playbook).values():
        match gene.kind:
            case "text":
                values |= {(gene.path, text): 1.0 for text in split(gene.value).texts}
            case "demos":
                values |= {(gene.path, canonical(demo)): 1.0 for demo in gene.value}
            case "choice":
                values[gene.path, str(gene.value)] = 1.0
            case _:
                values[gene.path, ""] = float(gene.value) / (gene.span or max(abs(gene.value), 1.0))
    return values


class Effects:
    """Estimates for the candidates of a pool and for their parts, by one metric."""

    def __init__(self, pool: Pool, metric: int = 0) -> None:
        self.places = best_known(pool, metric)
        described = [parts(pool.playbooks[place]) for place in self.places]
        every = list(dict.fromkeys(part for each in described for part in each))
        table = np.zeros((len(described), len(every)))
        for row, each in enumerate(described):
            table[row] = [each.get(part, 0.0) for part in every]
        varied = np.ptp(table, axis=0) > 1e-12 if described else np.zeros(len(every), bool)
        self.parts: list[GenePart] = [part for part, differs in zip(every, varied, strict=True) if differs]
        self._has: Floats = table[:, varied]
        self._many: Floats = self._has.sum(axis=1)
        both = np.concatenate([pool.table(metric), pool.table(metric, reflect=True)], axis=1)[self.places]
        self._scale = _scale(both)
        scores, tasks, noise = _scores(both / self._scale)
        self._fit(scores, noise / np.maximum(tasks, 1))

    def _fit(self, scores: Floats, noise: Floats) -> None:
        self._base = float(np.average(scores, weights=1 / noise)) if scores.size else 0.0
        self._seen = scores - self._base
        best, alike = -math.inf, self._has @ self._has.T
        usual = USUAL**2 * np.outer(self._many, self._many)
        for part in PARTS:
            for own in OWN:
                belief = part**2 * alike + LEVEL**2 + usual
                belief[np.diag_indices_from(belief)] += own**2
                covariance = belief + np.diag(noise)
                factor = scipy.linalg.cho_factor(covariance, lower=True)
                weights = scipy.linalg.cho_solve(factor, self._seen)
                fits = -0.5 * float(self._seen @ weights) - float(np.log(np.diag(factor[0])).sum())
                if fits > best:
                    best, self._part, self._own = fits, part, own
                    self._belief, self._factor, self._weights = belief, factor, weights
        self._noises = noise
        self.means: Floats = self._scale * (self._base + self._belief @ self._weights)
        known = self._belief - self._belief @ scipy.linalg.cho_solve(self._factor, self._belief)
        self.deviations: Floats = self._scale * np.sqrt(np.maximum(np.diag(known), 1e-12))

    def worth(self) -> dict[GenePart, float]:
        """What each part is estimated to add to a score."""
        effects = self._part**2 * self._has.T @ self._weights + USUAL**2 * float(self._many @ self._weights)
        return dict(zip(self.parts, (self._scale * effects).tolist(), strict=True))

    def draw(self, chance: np.random.Generator) -> dict[GenePart, float]:
        """Draw the worth of each part from its posterior: wide where little is known."""
        usual = chance.normal(0.0, USUAL)
        guess = usual + chance.normal(0.0, self._part, len(self.parts))
        others = LEVEL * chance.normal() + chance.normal(0.0, self._own, len(self.places))
        seen = self._has @ guess + others + chance.normal(0.0, np.sqrt(self._noises))
        weights = scipy.linalg.cho_solve(self._factor, self._seen - seen)
        effects = guess + self._part**2 * self._has.T @ weights + USUAL**2 * float(self._many @ weights)
        return dict(zip(self.parts, (self._scale * effects).tolist(), strict=True))


def _scale(table: Floats) -> float:
    """The unit of scores: 1 where they lie between 0 and 1, otherwise their range."""
    known = table[~np.isnan(table)]
    if not known.size or (known.min() >= 0 and known.max() <= 1):
        return 1.0
    return float(np.ptp(known)) or 1.0


_known: WeakKeyDictionary[Pool, tuple[int, Effects]] = WeakKeyDictionary()


def effects_of(pool: Pool) -> Effects:
    """The estimates by the first metric, computed again only after new scores."""
    known = _known.get(pool)
    if known is None or known[0] != pool.updates:
        known = _known[pool] = (pool.updates, Effects(pool))
    return known[1]


def estimated_best(pool: Pool, among: Collection[int] | None = None) -> int:
    """The best playbook by all scores together, of those that are no worse than the start on the tasks that both have;
    the earliest if several are equal. `among` names those to choose from, besides the start."""
    effects = effects_of(pool)
    if 0 not in effects.places:
        return 0
    means, _, _ = pool.standings(places=effects.places)
    fair = np.round(means, 12) >= np.round(means[effects.places.index(0)], 12)
    if among is not None:
        fair &= [place == 0 or place in among for place in effects.places]
    return effects.places[int(np.argmax(np.where(fair, np.round(effects.means, 12), -np.inf)))]


def best_known(pool: Pool, metric: int = 0) -> list[int]:
    """All candidates that were tried; of very many the start, those with the most tasks, and the newest."""
    means, _, tasks = pool.standings(metric)
    tried = np.flatnonzero(tasks > 0)
    if len(tried) <= MOST:
        return [int(place) for place in tried]
    order = np.lexsort((-means[tried], -tasks[tried]))
    known = tried[order[: MOST // 2]]
    return sorted({0, *known.tolist(), *tried[-MOST // 2 :].tolist()})


def _scores(table: Floats) -> tuple[Floats, Floats, float]:
    """The score of each row corrected for the ease of its tasks, its number of tasks, and the variance of one score."""
    known = ~np.isnan(table)
    values = np.where(known, table, 0.0)
    rows, columns = known.sum(axis=1), known.sum(axis=0)
    ease = values.sum(axis=0) / np.maximum(columns, 1)
    level = np.zeros(len(table))
    for _ in range(20):
        level = np.where(known, values - ease, 0.0).sum(axis=1) / np.maximum(rows, 1)
        ease = np.where(known, values - level[:, None], 0.0).sum(axis=0) / np.maximum(columns, 1)
    left = np.where(known, values - level[:, None] - ease, 0.0)
    free = max(int(known.sum()) - len(table) - int((columns > 0).sum()) + 1, 1)
    noise = max(float((left**2).sum()) / free, 0.01)
    usual = float(ease[columns > 0].mean()) if columns.any() else 0.0
    return level + usual, rows.astype(float), noise
