"""Threaded: an optimizer of another package, which calls an evaluator, in a thread of its own.

What it wants to be evaluated becomes an offer, and what a model or a function has to say is asked for in the search: so
all of it is paid from one budget, recorded and known when the search is taken up again. Thread and search take turns,
one question at a time, so the same answers make the same search.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import isnan
from typing import Any

import numpy as np

from seedbed.errors import Problem, SeedbedError, SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.stats.arrays import Floats
from seedbed.storage.store import Digest

FRUITLESS = 200
"""After so many trials in a row of which everything was known there is nothing more to offer."""


class SearchOver(BaseException):
    """The search is over. Raised in the thread, where no `except Exception` of others may hold it."""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A playbook that the thread wants to be tried: on some tasks, or on as many as it turns out to be worth."""

    playbook: Playbook
    tasks: tuple[str, ...] | None
    parents: tuple[Digest, ...] = ()
    how: str = "varied"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How a playbook did at a task: a score of which more is better, and its cell unless others had that paid; the run
    only where the task may be read."""

    score: float
    cell: Cell | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class _Over:
    error: Exception | None = None


class SearchBridge:
    """Between the thread and the search: a question, then its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._questions: asyncio.Queue[Any] = asyncio.Queue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()

    # In the thread

    def tried(self, trial: TrialRequest) -> list[TrialResult]:
        """How the playbook did, task by task if they were named. Raises Ended if nobody will tell any more."""
        results: list[TrialResult] = self.asked(trial)
        return results

    def asked(self, question: Any) -> Any:
        """The answer to a trial, or to whatever `Threaded.answered` knows. Raises Ended if there will be none."""
        self._put(question)
        answer = self._answers.get()
        if self.ended.is_set():
            raise SearchOver
        return answer

    def run(self, work: Callable[[SearchBridge], None]) -> None:
        """All that the thread does."""
        try:
            work(self)
        except SearchOver:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the search has to hear of it
            over = _Over(error)
        else:
            over = _Over()
        try:
            self._put(over)
        except SearchOver:
            return

    def _put(self, question: Any) -> None:
        if self.ended.is_set():
            raise SearchOver
        try:
            self._loop.call_soon_threadsafe(self._questions.put_nowait, question)
        except RuntimeError:  # the loop was closed under us
            raise SearchOver from None

    # In the search

    async def question(self) -> Any:
        return await self._questions.get()

    def answer(self, answer: Any) -> None:
        self._answers.put(answer)

    def end(self) -> None:
        self.ended.set()
        self._answers.put(None)


class ExternalOptimizer(ABC):
    """Asks and tells on behalf of the thread.

    The thread begins with the first `ask`, and ends with its work; when an `ask` fails or is cancelled; with `close`;
    or with this object. What it does must not refer to this object, or it would never end.
    """

    package: str
    extra: str

    def begin(self, search: Search) -> None:
        """Get ready for a search. Raises SettingsError if the package is not installed."""
        try:
            import_module(self.package)
        except ImportError:
            remedy = f"Run: pip install {self.package}"
            found = f"no package {self.package}"
            raise SettingsError([Problem(f"optimizer {self.extra}", found, "it", remedy)]) from None
        self.close()
        self._search = search
        self._line: SearchBridge | None = None
        self._trial: TrialRequest | None = None
        self._cells: dict[tuple[Digest, str], Cell] = {}
        self._known = 0
        self._read = {task.id for task in search.reflect}

    @abstractmethod
    def work(self) -> Callable[[SearchBridge], None]:
        """What the thread does."""

    @abstractmethod
    async def answered(self, question: Any) -> Any:
        """What the search has to say to a question of the thread that is no trial."""

    async def ask(self) -> Sequence[Offer]:
        """The next playbook and the tasks it wants to be tried on; nothing when the work is done."""
        if self._line is None:
            self._line = self._begun()
        try:
            return await self._next(self._line)
        except BaseException:
            self.close()
            raise

    async def tell(self, cells: Sequence[Cell]) -> None:
        """Remember the cells. The thread is told when more is asked of it."""
        first = self._search.pool.metrics[0]
        for cell in cells:
            if cell.metric == first:
                self._cells.setdefault((cell.playbook, cell.task), cell)

    def close(self) -> None:
        """End the thread. Nothing more is offered."""
        line = getattr(self, "_line", None)
        if line is not None:
            line.end()

    def _begun(self) -> SearchBridge:
        line = SearchBridge(asyncio.get_running_loop())
        threading.Thread(target=line.run, args=(self.work(),), name=f"seedbed-{self.extra}", daemon=True).start()
        weakref.finalize(self, line.end)
        return line

    async def _next(self, line: SearchBridge) -> Sequence[Offer]:
        while not line.ended.is_set() and self._known < FRUITLESS:
            question = self._trial or await line.question()
            if isinstance(question, _Over):
                line.end()
                if question.error:
                    raise SeedbedError(f"{self.package}: {question.error}") from question.error
            elif isinstance(question, TrialRequest):
                if offer := self._offer(question):
                    self._trial, self._known = question, 0
                    return [offer]
                self._trial = None
                self._known += 1
                line.answer(self._results(question))
            else:
                line.answer(await self.answered(question))
        self.close()
        return []

    def _offer(self, trial: TrialRequest) -> Offer | None:
        """What of a trial is not known yet."""
        if trial.tasks is None:
            is_known = trial is self._trial or not np.isnan(self._row(trial.playbook.digest, decides=True)).all()
            return None if is_known else Offer(trial.playbook, trial.parents, trial.how)
        named, scores = trial.playbook.digest, self._scores(trial.playbook.digest)
        unknown = [task for task in trial.tasks if isnan(scores[task]) and (named, task) not in self._cells]
        tasks = tuple(dict.fromkeys(unknown))
        return Offer(trial.playbook, trial.parents, trial.how, tasks) if tasks else None

    def _results(self, trial: TrialRequest) -> list[TrialResult]:
        named, scores = trial.playbook.digest, self._scores(trial.playbook.digest)
        return [self._result(self._cells.get((named, task)), task, scores[task]) for task in trial.tasks or ()]

    def _result(self, cell: Cell | None, task: str, score: float) -> TrialResult:
        if isnan(score):  # it failed, where less is better: as bad as the worst
            tables = [self._search.pool.table(reflect=each).ravel() for each in (False, True)]
            score = float(np.nanmin([0.0, *np.concatenate(tables)]))
        run = self._search.transcript(cell.run) if cell and cell.run and task in self._read else None
        return TrialResult(score, cell, run)

    def _scores(self, playbook: Digest) -> dict[str, float]:
        """What is known of a playbook at each task, NaN where nothing is."""
        pool = self._search.pool
        both = np.concatenate([self._row(playbook, decides=each) for each in (True, False)])
        return dict(zip((*pool.select, *pool.reflect), both.tolist(), strict=True))

    def _row(self, playbook: Digest, *, decides: bool) -> Floats:
        pool = self._search.pool
        if playbook not in pool:
            return np.full(len(pool.select if decides else pool.reflect), np.nan)
        place = pool.place(playbook)
        return pool.row(place) if decides else np.asarray(pool.table(reflect=True)[place])


__all__ = ["ExternalOptimizer", "SearchBridge", "SearchOver", "TrialRequest", "TrialResult"]
