"""Drives an optimizer as a search does, with scores made up by a function of the playbook and the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import FunctionMetric
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Optimizer, Search
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook

Score = Callable[[Playbook, str], float | None]

REFLECT = (Task("r0", {"n": 0}, "0"),)


def playbook(system: str = "Be brief.", **more: Any) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"agent": {"model": "fast", "system": system}},
            "steps": [{"name": "answer", "role": "agent", "prompt": "Say {n}."}],
            **more,
        }
    )


@dataclass
class Driven:
    """One search: the start is scored first, then whatever the optimizer offers, on all its tasks."""

    optimizer: Optimizer
    start: Playbook
    score: Score
    tasks: int = 1
    seed: int = 0
    better: str = "higher"
    offers: list[Offer] = field(default_factory=list)

    def __post_init__(self) -> None:
        metric = FunctionMetric(lambda run, task: None, "score", better=self.better)  # type: ignore[arg-type]
        self.pool = Pool([metric], [f"t{n}" for n in range(self.tasks)], [task.id for task in REFLECT])
        self.search = Search(self.start, REFLECT, self.pool, self.seed)
        self.pay([Offer(self.start)])
        self.optimizer.begin(self.search)

    def pay(self, offers: Sequence[Offer]) -> list[Cell]:
        cells = []
        for offer in offers:
            self.pool.add(offer)
            named = offer.playbook.digest
            for task in offer.tasks if offer.tasks is not None else self.pool.select:
                value = self.score(offer.playbook, task)
                cells.append(
                    Cell(key=f"{named} {task}", playbook=named, task=task, replicate=0, metric="score", value=value)
                )
        self.pool.tell(cells)
        return cells

    async def step(self) -> Sequence[Offer]:
        offers = await self.optimizer.ask()
        for offer in offers:
            assert offer.tasks is not None or offer.playbook.digest not in self.pool, "offered twice"
        self.offers += offers
        if offers:
            await self.optimizer.tell(self.pay(offers))
        return offers

    async def run(self, rounds: int) -> Driven:
        for _ in range(rounds):
            if not await self.step():
                break
        return self

    @property
    def tried(self) -> list[str]:
        return [offer.playbook.digest for offer in self.offers]

    @property
    def best(self) -> Playbook:
        return self.pool.playbooks[self.pool.best()]


@dataclass(frozen=True)
class AddWord:
    """An operator that adds one of a few words to the system text."""

    words: Sequence[str] = ("alpha", "beta", "gamma", "delta", "eta", "iota")
    name: str = "add a word"

    async def __call__(self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str) -> Playbook:
        word = self.words[int(search.chance(event).integers(len(self.words)))]
        return with_genes(parent, {"roles.agent.system": f"{parent.roles['agent'].system} {word}"})


@dataclass(frozen=True)
class Leap:
    """An operator that moves every number as far as it may go."""

    name: str = "leap"

    async def __call__(self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str) -> Playbook:
        ends = {path: gene.high for path, gene in genes(parent).items() if gene.kind in ("number", "integer")}
        return with_genes(parent, {path: high for path, high in ends.items() if high is not None})


@dataclass(frozen=True)
class Nothing:
    """An operator that never finds a child."""

    name: str = "nothing"

    async def __call__(self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str) -> None:
        return None
