"""Measured: an arena whose cells are scores of a plain function. What it measures is a Measure."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from seedbed.errors import Problem, SeedbedError, SettingsError
from seedbed.evaluation.cells import Asked, Cell, recorded
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.evaluate import Item
from seedbed.evaluation.metrics.metric import Better, Metric, Score
from seedbed.evolution.evaluators import Fails, Paid, Work, cost_of, naming_of
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Json, Store

Scores: TypeAlias = Score | float | Sequence[Score | float]
"""The score, or one for each metric."""

Scoring: TypeAlias = Callable[[Playbook, Task, int], Scores | Awaitable[Scores]]
"""Scores a playbook at a task, in one of its replicates."""

Turn: TypeAlias = tuple[Playbook, Item, Sequence[str]]
"""What is to be scored, and the names of its cells."""

TOGETHER_SECONDS = 0.03
"""What a function scores at once becomes durable together, and waits no longer than that."""


@dataclass(frozen=True)
class Measure:
    """What a function measures. `version` changes whenever its scores might."""

    name: str = "score"
    version: int = 1
    better: Better = "higher"

    @property
    def identity(self) -> Json:
        return {"metric": self.name, "version": self.version}

    async def __call__(self, run: Run, task: Task) -> Score:
        raise SeedbedError(f"{self.name}: found a run; expected its scores from the function that measures it")


@dataclass(frozen=True)
class FunctionEvaluator:
    """Cells are scores of a function, sync or async: nothing else is performed or recorded. If it raises, the run has
    failed."""

    score: Scoring
    store: Store
    by: str
    metrics: Sequence[Metric] = (Measure(),)
    at_once: int = 8
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    asked: Asked = field(default_factory=Asked)
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", Journal(self.store))

    def identity(self, playbook: Playbook) -> Json:
        return {}

    def present(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def perform(self, run: str, playbook: Playbook, inputs: Mapping[str, Any], ledger: Ledger) -> Run:
        remedy = "Give the optimizer a function that proposes, or search in a workspace, which has models."
        raise SettingsError([Problem("optimizer", "one that asks a model", "one that needs none", remedy)])

    async def pay(self, work: Sequence[Work], ledger: Ledger, failed: Fails) -> Paid:
        waits = inspect.iscoroutinefunction(self.score) or inspect.iscoroutinefunction(type(self.score).__call__)
        return await (self._one_by_one(work, ledger, failed) if waits else self._together(work, ledger, failed))

    async def _together(self, work: Sequence[Work], ledger: Ledger, failed: Fails) -> Paid:
        turns, paid = self._named(work), Paid()
        while new := self._some(turns, ledger, failed):
            paid |= new
            await asyncio.sleep(0)
        return paid

    def _some(self, turns: Iterator[Turn], ledger: Ledger, failed: Fails) -> Paid:
        """The next of the turns, as many as there is time for; nothing if there are no more."""
        new: Paid = {}
        begun = time.perf_counter()
        for playbook, item, names in turns:
            try:
                scores = self._scores(self.score(playbook, *item))  # type: ignore[arg-type]
            except SettingsError:
                raise
            except Exception as wrong:  # noqa: BLE001 - as the crash of an agent is
                scores = [Score(None, f"{type(wrong).__name__}: {wrong}")] * len(self.metrics)
            new[playbook.digest, item[0].id, item[1]] = self._cells(playbook, item, names, scores)
            if time.perf_counter() - begun > TOGETHER_SECONDS:
                break
        return self._kept(new, ledger, failed) if new else new

    async def _one_by_one(self, work: Sequence[Work], ledger: Ledger, failed: Fails) -> Paid:
        paid: Paid = {}

        async def one(turn: Turn) -> None:
            playbook, item, names = turn
            try:
                scores = self._scores(await self.score(playbook, *item))  # type: ignore[misc]
            except SettingsError:
                raise
            except Exception as wrong:  # noqa: BLE001 - as the crash of an agent is
                scores = [Score(None, f"{type(wrong).__name__}: {wrong}")] * len(self.metrics)
            cells: Sequence[Cell] = self._cells(playbook, item, names, scores)
            ledger.spend(*cost_of(cells))
            facts = [cell.fact(self.clock(), self.by) for cell in cells if cell.value is not None]
            if not all([await self.journal.add(fact) for fact in facts]):
                cells = self._agreed(cells)
            if len(facts) < len(cells):
                failed(cells)
            paid[playbook.digest, item[0].id, item[1]] = cells

        async with aclosing(in_order(self._named(work), one, at_once=self.at_once)) as coming:
            async for _ in coming:
                pass
        return paid

    def _named(self, work: Iterable[Work]) -> Iterator[Turn]:
        for playbook, items in work:
            naming = naming_of(self, playbook)
            for item in items:
                yield playbook, item, naming(*item).cells

    def _scores(self, told: Scores) -> list[Score]:
        every = [told] if isinstance(told, float) or not isinstance(told, Sequence) else told
        if len(every) != len(self.metrics):
            expected = f"{len(self.metrics)}, one for each metric"
            raise SettingsError([Problem("the scoring function", f"{len(every)} scores", expected)])
        return [score if isinstance(score, Score) else Score(float(score)) for score in every]

    def _cells(self, playbook: Playbook, item: Item, names: Sequence[str], scores: Sequence[Score]) -> list[Cell]:
        return [
            Cell(
                key=name,
                playbook=playbook.digest,
                task=item[0].id,
                replicate=item[1],
                metric=metric.name,
                value=score.value,
                reason=score.reason,
                answer=score.answer,
                cost_usd=score.cost_usd,
                tokens=score.tokens,
            )
            for name, metric, score in zip(names, self.metrics, scores, strict=True)
        ]

    def _kept(self, new: Paid, ledger: Ledger, failed: Fails) -> Paid:
        """What is new, when all of it is a fact."""
        at, by = self.clock(), self.by
        every = [cell for cells in new.values() for cell in cells]
        with _undisturbed():
            facts = [cell.fact(at, by) for cell in every if cell.value is not None]
            known = len(facts) - self.store.append(facts)
        if len(facts) < len(every):
            failed([cell for cell in every if cell.value is None])
        costs = [cost_of(cells) for cells in new.values()]
        ledger.spend(sum(usd for usd, _ in costs), sum(tokens for _, tokens in costs))
        return {spot: self._agreed(cells) for spot, cells in new.items()} if known else new

    def _agreed(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """As they are kept where somebody was quicker: there is one truth."""
        kept = {cell.key: cell for cell in recorded(self.store, cells[0].playbook, [cell.key for cell in cells])}
        return [kept.get(cell.key, cell) for cell in cells]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without rounds of Python's collector: thousands of facts, all needed until they are written, would be looked
    through again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
