"""Bootstrap: worked examples from the agent's own good runs and from known answers."""

from __future__ import annotations

from collections.abc import Sequence

from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings
from seedbed.evolution.variation.demonstrations import GoodRuns, demo_operators
from seedbed.playbooks.genes import genes
from seedbed.storage.store import Digest, Json

TRIES = 8
"""For each child so many sets are drawn."""


class Bootstrap:
    """Tries the best playbook so far on up to `batch` reflect tasks, and offers it with other sets of worked examples,
    `brood` at a time: its own good answers to these tasks, and the known ones.
    """

    def __init__(self, *, brood: int = 6, batch: int = 12) -> None:
        check_settings("bootstrap", brood=at_least(1, brood), batch=at_least(1, batch))
        self.brood, self.batch = brood, batch

    @property
    def identity(self) -> Json:
        return {"optimizer": "bootstrap", "brood": self.brood, "batch": self.batch}

    def begin(self, search: Search) -> None:
        self._search, self._made = search, 0
        self._runs = GoodRuns(search.pool.metrics[0], search.pool.reflect, lower_is_better=search.pool.signs[0] < 0)
        self._operators: list[Operator] = [
            operator
            for gene in genes(search.start).values()
            if gene.kind == "demos"
            for operator in demo_operators(search.start, gene.path, search.reflect, self._runs)
        ]
        self._shown: set[Digest] = set()
        if not self._operators:
            raise PlaybookError([Problem("start", "no worked examples that may change", "a step that has some")])

    async def ask(self) -> Sequence[Offer]:
        pool = self._search.pool
        base = pool.playbooks[pool.best()]
        if base.digest not in self._shown and pool.reflect:
            self._shown.add(base.digest)
            return [Offer(base, how="shown on tasks to read", tasks=tuple(pool.reflect[: self.batch]))]
        offers: dict[Digest, Offer] = {}
        for _ in range(self.brood):
            child = await self._child(base.digest, offers)
            if child:
                offers[child.playbook.digest] = child
        return list(offers.values())

    async def tell(self, cells: Sequence[Cell]) -> None:
        self._runs.tell(cells)

    async def _child(self, base: Digest, offered: dict[Digest, Offer]) -> Offer | None:
        pool = self._search.pool
        parent = pool.playbooks[pool.place(base)]
        for _ in range(TRIES):
            event = f"bootstrap/{self._made}"
            self._made += 1
            operator = self._operators[int(self._search.chance(event).integers(len(self._operators)))]
            child = await operator(parent, (), self._search, f"{event}/demos")
            if child is not None and child.digest not in pool and child.digest not in offered:
                return Offer(child, (base,), operator.name)
        return None
