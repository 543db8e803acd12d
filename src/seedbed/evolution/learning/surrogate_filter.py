"""Skipping: candidates of a search that are not worth a run, as a surrogate sees it.

Off unless a plan asks for it. Every skip is a fact, and one in twenty of the skipped is evaluated all the same: that is
how often skipping was wrong, told beside what it saved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seedbed.errors import Problem, SettingsError
from seedbed.evaluation.surrogate import Skip, Surrogate, audit
from seedbed.evolution.learning.effects import known_best
from seedbed.evolution.pool import Pool
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Fact

CHANCE = 0.05
"""Whoever beats the best with less chance than that is skipped."""

GROUP = 24
"""So many candidates race together at most: enough to learn something from."""


class SurrogateFilter:
    """Foretells candidates by what the pool knows of others, as higher is better. It depends on the pool and the seed
    alone, so a search that is taken up again skips the same."""

    def __init__(self, pool: Pool, seed: int) -> None:
        if len(pool.metrics) > 1:
            remedy = "It foretells one score, and skips nobody who may be good by another."
            raise SettingsError([Problem("surrogate", f"{len(pool.metrics)} metrics", "one", remedy)])
        self._pool, self._seed, self._updates = pool, seed, -1
        self._learned: Surrogate | None = None

    def groups(self, offered: list[int]) -> list[list[int]]:
        """What is offered at once, a few at a time: the later are foretold by the earlier."""
        return [offered[first : first + GROUP] for first in range(0, len(offered), GROUP)]

    @property
    def tasks(self) -> list[str]:
        """Those that a foretold score is the mean over, and that an audited candidate has to be tried on."""
        met = self._pool.counts().sum(axis=0)
        return [task for task, times in zip(self._pool.select, met, strict=True) if times]

    def skips(self, offered: Sequence[int], best: int) -> list[Skip]:
        """Those that were not tried yet and are most likely no better than the best so far."""
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
        """What is learned from the pool, again only when something was told since."""
        pool = self._pool
        if self._learned is None or self._updates != pool.updates:
            places = known_best(pool)
            table = {pool.playbooks[place].digest: _scores(pool, place) for place in places}
            playbooks = {pool.playbooks[place].digest: pool.playbooks[place] for place in places}
            self._learned, self._updates = Surrogate(table, playbooks, pool.metrics[0]), pool.updates
        return self._learned


@dataclass(frozen=True, slots=True)
class SkippedCandidates:
    """How many candidates seemed hopeless, and of those that were evaluated all the same the share which beat the best
    of that time after all."""

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
        """What was skipped, and what the audit says of it."""
        wrong = self.wrong
        if not self.hopeless:
            return "No candidate seemed hopeless to the surrogate, or it knew too little to say so."
        count = (
            f"{_counted(self.hopeless)} seemed hopeless to the surrogate, {self.candidates:,} of them were skipped. "
        )
        if not wrong.n:
            return f"{count}None of them was evaluated all the same: how often skipping was wrong is not known."
        return (
            f"{count}Of {wrong.n:,} that were evaluated all the same, {round(wrong.mean * wrong.n):,} beat the best of "
            f"that time: skipping was wrong in {wrong.mean:.0%} [{wrong.low:.0%}, {wrong.high:.0%}]."
        )


def _counted(candidates: int) -> str:
    return "1 candidate" if candidates == 1 else f"{candidates:,} candidates"


def _scores(pool: Pool, place: int) -> dict[Digest, float]:
    row = pool.row(place)
    return {task: float(score) for task, score in zip(pool.select, row, strict=True) if not np.isnan(score)}


__all__ = ["SkippedCandidates", "SurrogateFilter"]
