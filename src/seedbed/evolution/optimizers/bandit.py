"""Bandit: decides which of a fixed set of playbooks to try next, and on which tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings, settings_of
from seedbed.evolution.variation.operators import Offspring
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.bandits import ArmOutcomes, Belief, chances, draw, greedy, level, mix, ucb1
from seedbed.storage.store import Digest, Json

BanditPolicy = Literal["thompson", "ucb1", "epsilon-greedy"]

EXPLORE: Mapping[BanditPolicy, float] = {"thompson": 0.0, "ucb1": 0.0, "epsilon-greedy": 0.1}
"""The default share of uniformly random choices of each policy."""


@dataclass(frozen=True, slots=True)
class BanditChoice:
    """One choice: the probabilities of all playbooks, their expected scores, and the score of the chosen one.

    `score` is the mean over its tasks, turned so that higher is better; None as long as there is none.
    """

    playbook: Digest
    tasks: tuple[str, ...]
    odds: Mapping[Digest, float]
    guesses: Mapping[Digest, float]
    score: float | None = None


@dataclass(eq=False)
class Bandit:
    """Each ask makes `at_once` choices among the candidates, each for the next `tasks_each` untried select tasks of the
    chosen one. It ends when all candidates have been tried on all tasks.

    Without `candidates` it first makes as many `children` of the start by operators. The prior of a candidate is the
    mean of the start and the others so far, with the weight of `strength` tasks. `explore` is the share of uniformly
    random choices, by default that of the policy. All choices are in `log`.
    """

    candidates: Iterable[Playbook] = ()
    _: KW_ONLY
    policy: BanditPolicy = "thompson"
    explore: float | None = None
    at_once: int = 4
    tasks_each: int = 2
    strength: float = 2.0
    children: int = 16
    operators: Sequence[Operator] | None = None

    def __post_init__(self) -> None:
        check_settings(
            "bandit",
            policy=(self.policy, self.policy in EXPLORE, f"one of {', '.join(EXPLORE)}"),
            explore=(self.explore, self.explore is None or 0 <= self.explore <= 1, "a share between 0 and 1"),
            strength=(self.strength, self.strength > 0, "a number above 0"),
            at_once=at_least(1, self.at_once),
            tasks_each=at_least(1, self.tasks_each),
            children=at_least(1, self.children),
        )
        self.candidates = list({each.digest: each for each in self.candidates}.values())
        self._explore = EXPLORE[self.policy] if self.explore is None else self.explore
        self.log: list[BanditChoice] = []
        self._arms: dict[Digest, Playbook] = {}

    @property
    def identity(self) -> Json:
        candidates = [each.digest for each in self.candidates]
        return {"optimizer": "bandit", **settings_of(self), "candidates": candidates, "explore": self._explore}

    def begin(self, search: Search) -> None:
        self._search = search
        self._arms = {each.digest: each for each in self.candidates}
        self._offspring = Offspring(search, self.operators) if not self._arms else None
        self._requested: dict[Digest, set[str]] = {}
        self._open: list[int] = []
        self._asks = 0
        self.log = []

    async def ask(self) -> Sequence[Offer]:
        if self._offspring:
            made = await self._offspring.make([[self._search.start]] * self.children, "bandit")
            self._arms, self._offspring = {each.playbook.digest: each.playbook for each in made}, None
        self._asks += 1
        self._open = []
        seen, waiting = self._seen(), {arm: left for arm in self._arms if (left := self._untried(arm))}
        chosen: dict[Digest, Offer] = {}
        odds: dict[Digest, float] = {}
        for at in self._search.chance("bandit", self._asks).random(self.at_once).tolist():
            if not waiting:
                break
            if odds.keys() != waiting.keys():
                odds, guesses = self._odds(seen, waiting)
            arm = draw(odds, at)
            tasks, rest = tuple(waiting[arm][: self.tasks_each]), waiting.pop(arm)[self.tasks_each :]
            if rest:
                waiting[arm] = rest
            self._requested.setdefault(arm, set()).update(tasks)
            self._open.append(len(self.log))
            self.log.append(BanditChoice(arm, tasks, odds, guesses))
            before = chosen[arm].tasks or () if arm in chosen else ()
            how = f"{self.policy}, chance {odds[arm]:.3f}"
            parents = (start,) if arm != (start := self._search.start.digest) else ()
            chosen[arm] = Offer(self._arms[arm], parents, how, (*before, *tasks))
        return list(chosen.values())

    async def tell(self, cells: Sequence[Cell]) -> None:
        pool = self._search.pool
        for place in self._open:
            choice = self.log[place]
            if choice.playbook in pool:
                row = pool.row(pool.place(choice.playbook))
                scores = row[[pool.select.index(task) for task in choice.tasks]]
                if not np.isnan(scores).all():
                    self.log[place] = replace(choice, score=float(np.nanmean(scores)))
        self._open = []

    def _untried(self, arm: Digest) -> list[str]:
        """Select tasks without a score, in their order; a task is requested once."""
        pool, requested = self._search.pool, self._requested.get(arm, set())
        known = pool.counts()[pool.place(arm)] > 0 if arm in pool else np.zeros(len(pool.select), bool)
        return [task for task, done in zip(pool.select, known, strict=True) if not done and task not in requested]

    def _seen(self) -> dict[Digest, ArmOutcomes]:
        """The scores of each arm and of the start so far, scaled to between 0 and 1 if they are not."""
        pool = self._search.pool
        table = pool.table()
        scores = table[~np.isnan(table)]
        if scores.size and (scores.min() < 0 or scores.max() > 1):
            table = (table - scores.min()) / max(scores.max() - scores.min(), 1e-12)
        sums, counts = np.nansum(table, axis=1), (~np.isnan(table)).sum(axis=1)
        known = [arm for arm in dict.fromkeys([self._search.start.digest, *self._arms]) if arm in pool]
        return {arm: ArmOutcomes(float(sums[pool.place(arm)]), float(counts[pool.place(arm)])) for arm in known}

    def _odds(
        self, seen: Mapping[Digest, ArmOutcomes], waiting: Iterable[Digest]
    ) -> tuple[dict[Digest, float], dict[Digest, float]]:
        """The probability of each arm to be chosen, and its expected score."""
        usual = level(seen.values(), self.strength)
        firm = {arm: _with_prior(seen.get(arm, ArmOutcomes()), usual, self.strength) for arm in waiting}
        guesses = {arm: each.score / each.weight for arm, each in firm.items()}
        match self.policy:
            case "thompson":
                odds = chances({arm: Belief(each.score, each.weight - each.score) for arm, each in firm.items()})
            case "ucb1":
                # Its bound explores without a prior, but without one all untried arms would come first.
                odds = ucb1(firm)
            case "epsilon-greedy":
                odds = greedy(guesses)
        return mix(odds, self._explore), guesses


def _with_prior(seen: ArmOutcomes, mean: float, strength: float) -> ArmOutcomes:
    prior = Belief.prior(mean, strength)
    return ArmOutcomes(seen.score + prior.good, seen.weight + prior.strength)
