"""ExternalOptimizer: an optimizer of another package, which calls an evaluator, in a thread of its own.

What the package wants to evaluate becomes an offer of the search, and the search answers its questions to a model. So
everything is paid from one budget, recorded, and known when the search resumes. Thread and search take turns, one
question at a time, so the same answers make the same search.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from seedbed import plugins
from seedbed.errors import Problem, SeedbedError, SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.stats.arrays import Floats
from seedbed.storage.store import Digest

FRUITLESS = 200
"""It has nothing more to offer after this many trials in a row whose cells were all known."""


class SearchOver(BaseException):
    """The search is over. Raised in the thread, where no `except Exception` of the package may catch it."""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A playbook that the thread wants to try: on these tasks, or on those that the search decides on."""

    playbook: Playbook
    tasks: tuple[str, ...] | None
    parents: tuple[Digest, ...] = ()
    how: str = "varied"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The score of a playbook at a task, higher being better; its cell, unless another optimizer requested it; and its
    run, if the optimizer may read the task."""

    score: float
    cell: Cell | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class _WorkDone:
    error: Exception | None = None


class SearchBridge:
    """Passes questions from the thread to the search, and answers back."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._questions: asyncio.Queue[Any] = asyncio.Queue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()

    # In the thread

    def try_playbook(self, trial: TrialRequest) -> list[TrialResult]:
        """The results, one for each task if tasks were named. Raises SearchOver if there will be none."""
        results: list[TrialResult] = self.ask(trial)
        return results

    def ask(self, question: Any) -> Any:
        """The answer to a trial, or to a question for `ExternalOptimizer.answer`. Raises SearchOver."""
        self._put(question)
        answer = self._answers.get()
        if self.ended.is_set():
            raise SearchOver
        return answer

    def run(self, work: Callable[[SearchBridge], None]) -> None:
        """Everything that the thread does."""
        try:
            work(self)
        except SearchOver:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the search raises it
            done = _WorkDone(error)
        else:
            done = _WorkDone()
        try:
            self._put(done)
        except SearchOver:
            return

    def _put(self, question: Any) -> None:
        if self.ended.is_set():
            raise SearchOver
        try:
            self._loop.call_soon_threadsafe(self._questions.put_nowait, question)
        except RuntimeError:  # the event loop was closed meanwhile
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

    The thread starts with the first `ask`. It ends with its work, when an `ask` fails or is cancelled, with `close`, or
    with this object. Its work must not refer to this object, or the thread would never end.
    """

    package: str
    """What is imported, also the name of the optimizer and of the extra that installs it."""

    def begin(self, search: Search) -> None:
        """Begin a search. Raises SettingsError if the package is missing, or if there are no tasks to read."""
        name = f"optimizer {self.package}"
        plugins.optional(self.package, extra=self.package, needed_for=name)
        if not search.reflect:
            raise SettingsError([Problem(name, "no tasks to read", "a reflect split")])
        self.close()
        self._search = search
        self._bridge: SearchBridge | None = None
        self._trial: TrialRequest | None = None
        self._cells: dict[tuple[Digest, str], Cell] = {}
        self._known = 0
        self._read = {task.id for task in search.reflect}

    @abstractmethod
    def work(self) -> Callable[[SearchBridge], None]:
        """What the thread does."""

    @abstractmethod
    async def answer(self, question: Any) -> Any:
        """Answer a question of the thread that is no trial."""

    async def ask(self) -> Sequence[Offer]:
        """The next playbook and the tasks to try it on; nothing when the work is done."""
        if self._bridge is None:
            self._bridge = self._start()
        try:
            return await self._next(self._bridge)
        except BaseException:
            self.close()
            raise

    async def tell(self, cells: Sequence[Cell]) -> None:
        """Remember the cells. The thread receives them at the next `ask`."""
        first = self._search.pool.metrics[0]
        for cell in cells:
            if cell.metric == first:
                self._cells.setdefault((cell.playbook, cell.task), cell)

    def close(self) -> None:
        """End the thread. Nothing more is offered."""
        bridge = getattr(self, "_bridge", None)
        if bridge is not None:
            bridge.end()

    def _start(self) -> SearchBridge:
        bridge = SearchBridge(asyncio.get_running_loop())
        name = f"seedbed-{self.package}"
        threading.Thread(target=bridge.run, args=(self.work(),), name=name, daemon=True).start()
        weakref.finalize(self, bridge.end)
        return bridge

    async def _next(self, bridge: SearchBridge) -> Sequence[Offer]:
        while not bridge.ended.is_set() and self._known < FRUITLESS:
            question = self._trial or await bridge.question()
            if isinstance(question, _WorkDone):
                bridge.end()
                if question.error:
                    raise SeedbedError(f"{self.package}: {question.error}") from question.error
            elif isinstance(question, TrialRequest):
                if offer := self._offer(question):
                    self._trial, self._known = question, 0
                    return [offer]
                self._trial = None
                self._known += 1
                bridge.answer(self._results(question))
            else:
                bridge.answer(await self.answer(question))
        self.close()
        return []

    def _offer(self, trial: TrialRequest) -> Offer | None:
        """The part of a trial whose cells are not known yet."""
        if trial.tasks is None:
            is_known = trial is self._trial or not np.isnan(self._row(trial.playbook.digest, select=True)).all()
            return None if is_known else Offer(trial.playbook, trial.parents, trial.how)
        playbook, scores = trial.playbook.digest, self._scores(trial.playbook.digest)
        unknown = [task for task in trial.tasks if isnan(scores[task]) and (playbook, task) not in self._cells]
        tasks = tuple(dict.fromkeys(unknown))
        return Offer(trial.playbook, trial.parents, trial.how, tasks) if tasks else None

    def _results(self, trial: TrialRequest) -> list[TrialResult]:
        playbook, scores = trial.playbook.digest, self._scores(trial.playbook.digest)
        return [self._result(self._cells.get((playbook, task)), task, scores[task]) for task in trial.tasks or ()]

    def _result(self, cell: Cell | None, task: str, score: float) -> TrialResult:
        if isnan(score):  # a failed run where lower is better: as bad as the worst
            tables = [self._search.pool.table(reflect=each).ravel() for each in (False, True)]
            score = float(np.nanmin([0.0, *np.concatenate(tables)]))
        run = self._search.transcript(cell.run) if cell and cell.run and task in self._read else None
        return TrialResult(score, cell, run)

    def _scores(self, playbook: Digest) -> dict[str, float]:
        """The score of a playbook at each task, NaN where there is none."""
        pool = self._search.pool
        both = np.concatenate([self._row(playbook, select=each) for each in (True, False)])
        return dict(zip((*pool.select, *pool.reflect), both.tolist(), strict=True))

    def _row(self, playbook: Digest, *, select: bool) -> Floats:
        pool = self._search.pool
        if playbook not in pool:
            return np.full(len(pool.select if select else pool.reflect), np.nan)
        place = pool.place(playbook)
        return pool.row(place) if select else np.asarray(pool.table(reflect=True)[place])
