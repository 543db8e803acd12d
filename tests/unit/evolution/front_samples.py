"""A search without runs: playbooks are points, scored by functions of their parameters, and told as an engine would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seedbed.evaluation.cells import Cell
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Optimizer, Search
from seedbed.playbooks.playbook import Playbook

Scores = Callable[[Playbook, str], Mapping[str, float | None]]


@dataclass(frozen=True)
class Named:
    """A metric that is only ever read for its name and direction."""

    name: str
    better: str = "higher"

    @property
    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    async def __call__(self, run: Any, task: Any) -> Any:
        raise NotImplementedError


def point(*values: float, **more: Any) -> Playbook:
    """A playbook of numbers between 0 and 1."""
    numbers = {f"x{place}": {"value": value, "low": 0, "high": 1} for place, value in enumerate(values)}
    return Playbook.from_document({"parameters": numbers, **more})


def values(playbook: Playbook) -> list[float]:
    return [float(playbook.parameter(name)) for name in playbook.parameters]


def opened(start: Playbook, metrics: Iterable[Named], tasks: Sequence[str] = ("t",), seed: int = 0) -> Search:
    return Search(start, (), Pool(list(metrics), tasks), seed)


def score(search: Search, offers: Sequence[Offer], scores: Scores) -> list[Cell]:
    """Add what is offered to the pool, with its cells at every task."""
    cells = []
    for offer in offers:
        search.pool.add(offer)
        named = offer.playbook.digest
        for task in search.pool.select:
            for metric, value in scores(offer.playbook, task).items():
                key = f"{named}/{task}/{metric}"
                cells.append(Cell(key=key, playbook=named, task=task, replicate=0, metric=metric, value=value))
    search.pool.tell(cells)
    return cells


async def turned(optimizer: Optimizer, search: Search, scores: Scores, rounds: int) -> list[list[Offer]]:
    """So many rounds of a search, or fewer if the optimizer has no more to offer; what each offered."""
    search.pool.add(Offer(search.start))
    optimizer.begin(search)
    offered = []
    for _ in range(rounds):
        offers = list(await optimizer.ask())
        if not offers:
            break
        offered.append(offers)
        await optimizer.tell(score(search, offers, scores))
    return offered
