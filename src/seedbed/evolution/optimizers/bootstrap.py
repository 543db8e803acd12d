"""Bootstrap: worked examples from the agent's own good runs and from known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings, settings_of
from seedbed.evolution.variation.demonstrations import GoodRuns, demo_operators
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Json

TRIES = 8
"""How many sets are drawn for each child, until one is new."""


@dataclass(kw_only=True, eq=False)
class Bootstrap:
    """Tries the best playbook so far on up to `batch` reflect tasks, and offers it with other sets of worked examples,
    `brood` at a time: its own good answers to these tasks, and the known ones.
    """

    brood: int = 6
    batch: int = 12

    def __post_init__(self) -> None:
        check_settings("bootstrap", brood=at_least(1, self.brood), batch=at_least(1, self.batch))

    @property
    def identity(self) -> Json:
        return {"optimizer": "bootstrap", **settings_of(self)}

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
            if child := await self._child(base, offers):
                offers[child.playbook.digest] = child
        return list(offers.values())

    async def tell(self, cells: Sequence[Cell]) -> None:
        self._runs.tell(cells)

    async def _child(self, parent: Playbook, offered: dict[Digest, Offer]) -> Offer | None:
        for _ in range(TRIES):
            event = f"bootstrap/{self._made}"
            self._made += 1
            operator = self._operators[int(self._search.chance(event).integers(len(self._operators)))]
            child = await operator(parent, (), self._search, f"{event}/demos")
            if child is not None and child.digest not in self._search.pool and child.digest not in offered:
                return Offer(child, (parent.digest,), operator.name)
        return None
