"""Bandit: which of a fixed set of playbooks to try next, and on which tasks, while learning how good they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from seedbed.errors import Problem, SettingsError, shown
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Operator, Search
from seedbed.evolution.variation.operators import Offspring
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.bandits import ArmOutcomes, Belief, chances, draw, greedy, level, mix, ucb1
from seedbed.storage.store import Digest, Json

Policy = Literal["thompson", "ucb1", "epsilon-greedy"]

EXPLORE: Mapping[Policy, float] = {"thompson": 0.0, "ucb1": 0.0, "epsilon-greedy": 0.1}
"""The share of blind choices that each policy makes unless told otherwise."""


@dataclass(frozen=True, slots=True)
class BanditChoice:
    """One choice as it was made: the chances that all playbooks had, what was expected of them, and how it went.

    `score` is the mean over its tasks, turned so that higher is better; None as long as there is none.
    """

    playbook: Digest
    tasks: tuple[str, ...]
    odds: Mapping[Digest, float]
    guesses: Mapping[Digest, float]
    score: float | None = None


class Bandit:
    """Each ask gives `at_once` choices among the candidates, each for the next `tasks_each` select tasks that the one
    chosen has not seen; it ends when all have seen all.

    Without `candidates` it first makes as many `children` of the start by operators. What was never tried is expected
    to be as good as the start and the others so far, as firmly as by `strength` tasks. All choices are in `log`.
    """

    def __init__(
        self,
        candidates: Iterable[Playbook] = (),
        *,
        policy: Policy = "thompson",
        explore: float | None = None,
        at_once: int = 4,
        tasks_each: int = 2,
        strength: float = 2.0,
        children: int = 16,
        operators: Sequence[Operator] | None = None,
    ) -> None:
        problems = []
        if policy not in get_args(Policy):
            problems.append(Problem("policy", shown(policy), f"one of {', '.join(get_args(Policy))}"))
        if explore is not None and not 0 <= explore <= 1:
            problems.append(Problem("explore", shown(explore), "a share between 0 and 1"))
        if not strength > 0:
            problems.append(Problem("strength", shown(strength), "a number above 0"))
        counts = {"at_once": at_once, "tasks_each": tasks_each, "children": children}
        problems += [Problem(name, shown(count), "at least 1") for name, count in counts.items() if count < 1]
        if problems:
            raise SettingsError(problems, "bandit")
        self.candidates = list({each.digest: each for each in candidates}.values())
        self.policy: Policy = policy
        self.explore = EXPLORE[policy] if explore is None else explore
        self.at_once, self.tasks_each, self.strength, self.children = at_once, tasks_each, strength, children
        self.log: list[BanditChoice] = []
        self._operators = operators
        self._arms: dict[Digest, Playbook] = {}

    @property
    def identity(self) -> Json:
        return {
            "optimizer": "bandit",
            "candidates": [each.digest for each in self.candidates],
            "policy": self.policy,
            "explore": self.explore,
            "at_once": self.at_once,
            "tasks_each": self.tasks_each,
            "strength": self.strength,
            "children": self.children,
            "operators": [each.name for each in self._operators] if self._operators is not None else None,
        }

    def begin(self, search: Search) -> None:
        self._search = search
        self._arms = {each.digest: each for each in self.candidates}
        self._offspring = Offspring(search, self._operators) if not self._arms else None
        self._requested: dict[Digest, set[str]] = {}
        self._open: list[int] = []
        self._asks = 0
        self.log = []

    async def ask(self) -> Sequence[Offer]:
        if self._offspring:
            made = await self._offspring.make([self._search.start] * self.children, [()] * self.children, "bandit")
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
        """Select tasks without a score, in their order; what was asked for once is not asked for again."""
        pool, requested = self._search.pool, self._requested.get(arm, set())
        known = pool.counts()[pool.place(arm)] > 0 if arm in pool else np.zeros(len(pool.select), bool)
        return [task for task, done in zip(pool.select, known, strict=True) if not done and task not in requested]

    def _seen(self) -> dict[Digest, ArmOutcomes]:
        """What each arm, and the start, showed so far, between 0 and 1: other scores by their place between the lowest
        and the highest of all."""
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
        """The chance of each arm to be chosen, and what is expected of it."""
        usual = level(seen.values(), self.strength)
        firm = {arm: _with_prior(seen.get(arm, ArmOutcomes()), usual, self.strength) for arm in waiting}
        guesses = {arm: each.score / each.weight for arm, each in firm.items()}
        match self.policy:
            case "thompson":
                odds = chances({arm: Belief(each.score, each.weight - each.score) for arm, each in firm.items()})
            case "ucb1":
                # Its bound needs no prior to explore, but those never tried would all come first without one.
                odds = ucb1(firm)
            case "epsilon-greedy":
                odds = greedy(guesses)
        return mix(odds, self.explore), guesses


def _with_prior(seen: ArmOutcomes, mean: float, strength: float) -> ArmOutcomes:
    prior = Belief.prior(mean, strength)
    return ArmOutcomes(seen.score + prior.good, seen.weight + prior.strength)
