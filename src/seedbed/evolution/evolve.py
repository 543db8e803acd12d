"""evolve(): ask an optimizer for playbooks, evaluate them, tell it their cells, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from seedbed.evaluation.dataset import Dataset
from seedbed.evaluation.evaluate import Bench, Cell, Scorecard, evaluate
from seedbed.evaluation.metrics import Metric
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Fact, digest


class Optimizer(Protocol):
    """Offers playbooks until it has none left, and learns from their cells."""

    async def ask(self) -> Sequence[Playbook]: ...

    async def tell(self, cells: Sequence[Cell]) -> None: ...


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a search tried and what it kept. The best score is the best of many: expect less on new tasks."""

    start: Scorecard
    tried: tuple[Scorecard, ...]
    best: Digest


Watcher = Callable[[Playbook, Cell], None]


async def evolve(
    start: Playbook,
    tasks: Dataset,
    metric: Metric,
    optimizer: Optimizer,
    bench: Bench,
    library: Library,
    *,
    because: str,
    watch: Watcher | None = None,
) -> Evolution:
    """Each candidate is kept as a child of the start; the best on these tasks, or the start itself, is the result.

    A run that fails adds nothing to a playbook's score here, as in a comparison: nobody wins by failing at hard tasks.
    """
    origin = library.keep(start, because=because)
    bench.store.put("dataset", tasks.content())

    async def card(playbook: Playbook) -> Scorecard:
        seen = (lambda cell: watch(playbook, cell)) if watch else None
        return await evaluate(playbook, tasks, metric, bench, watch=seen)

    first = await card(start)
    tried: list[Scorecard] = []
    while candidates := await optimizer.ask():
        for candidate in candidates:
            library.keep(candidate, because=because, parents=[origin], how="evolved")
            # Before its first score: whoever takes a candidate from a search that was interrupted has chosen it, too.
            _record_trial(candidate.digest, tasks, bench)
            tried.append(await card(candidate))
            await optimizer.tell(tried[-1].cells)
    best = max((first, *tried), key=lambda each: sum(cell.value or 0.0 for cell in each.cells)).playbook
    _record(start.digest, best, tried, tasks, metric, bench)
    return Evolution(first, tuple(tried), best)


def _record_trial(candidate: Digest, tasks: Dataset, bench: Bench) -> None:
    body = {"dataset": tasks.digest}
    key = digest("trial", [candidate, tasks.digest])
    bench.store.append([Fact(kind="trial", key=key, subject=candidate, at=bench.clock(), by=bench.by, body=body)])


def _record(
    start: Digest, best: Digest, tried: Sequence[Scorecard], tasks: Dataset, metric: Metric, bench: Bench
) -> None:
    scores = {each.playbook: each.interval.mean for each in tried if each.scored}
    body = {"start": start, "best": best, "dataset": tasks.digest, "metric": metric.name, "tried": scores}
    key = digest("evolution", body)
    fact = Fact(
        kind="evolution", key=key, subject=best, at=bench.clock(), by=bench.by, body=body, value=scores.get(best)
    )
    bench.store.append([fact])
