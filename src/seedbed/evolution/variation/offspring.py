"""Offspring: children of playbooks that were not tried yet, by operators drawn by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seedbed.errors import PlaybookError, Problem
from seedbed.evolution.protocols import Offer, Operator, Search
from seedbed.evolution.variation.numbers import NumberVariation, numbers
from seedbed.evolution.variation.operators import GeneChange, operators
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest

TRIES = 4
"""So many operators are tried for a child before there is none."""


class Offspring:
    """Makes children for a search by the given operators, each as often as the others.

    If none are given, by all that need no model: Numbers in proportion to how many of the genes are numbers, and all
    others alike. Raises PlaybookError if the start has nothing that may evolve.
    """

    def __init__(self, search: Search, given: Sequence[Operator] | None = None) -> None:
        self._search = search
        if given is not None:
            self._operators, weights = list(given), np.ones(len(given))
        else:
            self._operators, weights = _defaults(search)
        if not self._operators:
            raise PlaybookError([Problem("start", "no gene that may be varied", "a text, a number, a choice or demos")])
        self._shares = weights / weights.sum()

    async def make(self, parents: Sequence[Playbook], mates: Sequence[Sequence[Playbook]], event: str) -> list[Offer]:
        """A child of each parent with its mates, if one is found that is new to the pool and among its siblings."""
        made: dict[Digest, Offer] = {}
        for number, (parent, partners) in enumerate(zip(parents, mates, strict=True)):
            offer = await self._child(parent, partners, f"{event}/{number}", made)
            if offer:
                made[offer.playbook.digest] = offer
        return list(made.values())

    async def _child(
        self, parent: Playbook, mates: Sequence[Playbook], event: str, made: dict[Digest, Offer]
    ) -> Offer | None:
        drawn = self._search.chance(event).choice(len(self._operators), size=TRIES, p=self._shares)
        for attempt, place in enumerate(drawn.tolist()):
            operator = self._operators[place]
            child = await operator(parent, mates, self._search, f"{event}/{attempt}")
            if child is not None and child.digest not in self._search.pool and child.digest not in made:
                return Offer(child, tuple(each.digest for each in (parent, *mates)), operator.name)
        return None


def _defaults(search: Search) -> tuple[list[Operator], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    of_numbers, of_all = numbers(search.start), genes(search.start)
    # Numbers moves them all; a nudge of one of them would add nothing.
    others = [
        each
        for each in operators(search.start, tasks=search.reflect)
        if not (isinstance(each, GeneChange) and each.path in of_numbers)
    ]
    if not of_numbers:
        return others, np.ones(len(others))
    share = len(of_numbers) / len(of_all)
    if share == 1 or not others:
        return [NumberVariation()], np.ones(1)
    return [NumberVariation(), *others], np.array([share, *[(1 - share) / len(others)] * len(others)])
