"""SurrogateFilter: skips candidates whose predicted score is too low to be worth a run.

Off by default. Every skip is a fact, and one in twenty of the skipped candidates is evaluated anyway: that audit
shows how often skipping was wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seedbed.errors import Problem, SettingsError
from seedbed.evaluation.surrogate import Skip, Surrogate, audit
from seedbed.evolution.learning.effects import best_known
from seedbed.evolution.pool import Pool
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Fact

CHANCE = 0.05
"""A candidate is skipped if its probability to beat the best is lower."""

GROUP = 24
"""How many candidates race together at most: enough for the surrogate to learn from."""


class SurrogateFilter:
    """Predicts the scores of candidates from the pool. Predictions depend on the pool and the seed alone, so a search
    that resumes skips the same candidates."""

    def __init__(self, pool: Pool, seed: int) -> None:
        if len(pool.metrics) > 1:
            remedy = "It predicts one score, and would skip candidates that are good by another."
            raise SettingsError([Problem("surrogate", f"{len(pool.metrics)} metrics", "one", remedy)])
        self._pool, self._seed, self._updates = pool, seed, -1
        self._learned: Surrogate | None = None

    def groups(self, offered: list[int]) -> list[list[int]]:
        """The offers of one step in groups: the scores of earlier groups help to predict later ones."""
        return [offered[first : first + GROUP] for first in range(0, len(offered), GROUP)]

    @property
    def tasks(self) -> list[str]:
        """The tasks that a predicted score is the mean over, and that an audited candidate is tried on."""
        met = self._pool.counts().sum(axis=0)
        return [task for task, times in zip(self._pool.select, met, strict=True) if times]

    def skips(self, offered: Sequence[int], best: int) -> list[Skip]:
        """The untried candidates that are most likely no better than the best so far."""
        pool, tried = self._pool, self._pool.standings()[2]
        new = [place for place in offered if not tried[place]]
        if not new or not tried[best]:
            return []
        surrogate = self._surrogate()
        incumbent = surrogate.predict(pool.playbooks[best], _scores(pool, best)).mean
        if math.isnan(incumbent):
            return []
        skips = (surrogate.skip(pool.playbooks[place], incumbent, chance=CHANCE, seed=self._seed) for place in new)
        return [skip for skip in skips if skip]

    def _surrogate(self) -> Surrogate:
        """A surrogate fitted to the pool, fitted again only after new scores."""
        pool = self._pool
        if self._learned is None or self._updates != pool.updates:
            places = best_known(pool)
            table = {pool.playbooks[place].digest: _scores(pool, place) for place in places}
            playbooks = {pool.playbooks[place].digest: pool.playbooks[place] for place in places}
            self._learned, self._updates = Surrogate(table, playbooks, pool.metrics[0]), pool.updates
        return self._learned


@dataclass(frozen=True, slots=True)
class SkippedCandidates:
    """How many candidates seemed hopeless, and the share of the audited ones that beat the best of that time after
    all."""

    hopeless: int
    wrong: Interval

    @classmethod
    def of(cls, skips: Sequence[Fact], pool: Pool) -> SkippedCandidates:
        audited = {skip.subject for skip in skips if skip.body["audited"]}
        table = {each: _scores(pool, pool.place(each)) for each in audited if each in pool}
        return cls(len({skip.subject for skip in skips}), audit(skips, table))

    @property
    def candidates(self) -> int:
        """How many were not evaluated."""
        return self.hopeless - self.wrong.n

    @property
    def sentence(self) -> str:
        """What was skipped, and what the audit showed."""
        wrong = self.wrong
        if not self.hopeless:
            return "No candidate seemed hopeless to the surrogate, or it knew too little to say so."
        some = "1 candidate" if self.hopeless == 1 else f"{self.hopeless:,} candidates"
        count = f"{some} seemed hopeless to the surrogate, {self.candidates:,} of them were skipped. "
        if not wrong.n:
            return f"{count}None of them was evaluated all the same: how often skipping was wrong is not known."
        return (
            f"{count}Of {wrong.n:,} that were evaluated all the same, {round(wrong.mean * wrong.n):,} beat the best of "
            f"that time: skipping was wrong in {wrong.mean:.0%} [{wrong.low:.0%}, {wrong.high:.0%}]."
        )


def _scores(pool: Pool, place: int) -> dict[Digest, float]:
    row = pool.row(place)
    return {task: float(score) for task, score in zip(pool.select, row, strict=True) if not np.isnan(score)}
