"""Failed runs of an experiment or a search: they stay failed. If all fail for one reason, the work stops."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from seedbed.errors import RunError
from seedbed.evaluation.cells import Cell
from seedbed.storage.store import Digest, Fact, Query, Store

_IN_BODY = ("playbook", "task", "replicate", "metric", "reason", "fault", "run", "cost_usd", "tokens")


FEW = 10
"""So many runs that all fail for one reason, before any was scored, are enough to stop."""

_VARYING = re.compile(r"t?[0-9a-f]{8,}|\d+|'[^']*'|\"[^\"]*\"")
"""What differs between messages for the same reason."""


class OneReason:
    """Watches runs from the first one on, until one is scored or two fail for different reasons.

    `scored_elsewhere` says whether other processes that do the same work had more luck.
    """

    def __init__(
        self, *, is_over: bool = False, at_once: int = 1, scored_elsewhere: Callable[[], bool] = lambda: False
    ) -> None:
        self.is_over = is_over
        self._scored_elsewhere = scored_elsewhere
        # Of runs at the same time, those that fail come first: after as many more, the first few are known to have.
        self._few = FEW + at_once - 1
        self._reasons: dict[str, str] = {}
        self._runs = 0

    def see(self, cells: Sequence[Cell]) -> None:
        """See the cells of one run. Raises RunError if it is the last of a few that all failed for one reason."""
        if self.is_over:
            return
        reasons = [cell.reason for cell in cells if cell.value is None]
        self._reasons |= {_VARYING.sub("", reason): reason for reason in reversed(reasons)}
        self._runs += 1
        if len(reasons) < len(cells) or len(self._reasons) > 1:
            self.is_over = True
        elif self._runs >= self._few:
            self.end()

    def end(self) -> None:
        """Raise RunError if all runs there were failed for one reason."""
        self.is_over = self.is_over or not self._runs or self._scored_elsewhere()
        if not self.is_over:
            (reason,) = self._reasons.values()
            raise RunError(
                f"{reason}. Found this in all of the first {self._runs} runs, and stopped; expected some that succeed. "
                "Correct it and run the same command again: these runs are tried again"
            )


class FailedRuns:
    """A run that failed stays failed, even if its experiment or search is interrupted and resumed.

    Trying only the failures again would make every playbook look better than it is. But while all fail for one reason,
    none is stored: if that stops the work, all are tried again.
    """

    def __init__(self, store: Store, of: Digest, *, at_once: int = 1) -> None:
        self._store, self.of = store, of
        self._known = {cell.key: cell for cell in map(_cell, store.facts(Query(kind="lapse", subject=of)))}
        self._held: list[Cell] = []
        began = max((fact.number for fact in store.facts(Query(kind="cell", newest=True, limit=1))), default=0)

        def scored_elsewhere() -> bool:
            playbooks = {cell.playbook for cell in self._held}
            newest = (store.facts(Query(kind="cell", subject=each, newest=True, limit=1)) for each in playbooks)
            return any(fact.number > began for facts in newest for fact in facts)

        self.one_reason = OneReason(is_over=bool(self._known), at_once=at_once, scored_elsewhere=scored_elsewhere)

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Cell:
        return self._known[key]

    @property
    def cells(self) -> Collection[Cell]:
        return self._known.values()

    def after(self, cells: Sequence[Cell], at: datetime, by: str) -> list[Fact]:
        """The failures to store after the cells of this run. Raises RunError if all so far failed for one reason."""
        self._held += self._add(cells)
        self.one_reason.see(cells)
        if not self.one_reason.is_over:
            return []
        held, self._held = self._held, []
        return self._facts(held, at, by)

    def new(self, cells: Iterable[Cell], at: datetime, by: str) -> list[Fact]:
        """The newly failed among these cells, as facts to store."""
        return self._facts(self._add(cells), at, by)

    def _add(self, cells: Iterable[Cell]) -> list[Cell]:
        failed = [cell for cell in cells if cell.value is None and cell.key not in self._known]
        self._known |= {cell.key: cell for cell in failed}
        return failed

    def _facts(self, failed: Iterable[Cell], at: datetime, by: str) -> list[Fact]:
        bodies = [{"cell": cell.key, **{name: getattr(cell, name) for name in _IN_BODY}} for cell in failed]
        return [
            Fact(kind="lapse", key=f"{self.of}/{body['cell']}", subject=self.of, at=at, by=by, body=body)
            for body in bodies
        ]


def _cell(fact: Fact) -> Cell:
    body = fact.body
    return Cell(
        key=body["cell"],
        playbook=body["playbook"],
        task=body["task"],
        replicate=body["replicate"],
        metric=body["metric"],
        value=None,
        reason=body["reason"],
        run=body["run"],
        cost_usd=body["cost_usd"],
        tokens=body["tokens"],
        fault=body.get("fault", ""),
    )
