"""Failed runs of an experiment or a search: they stay failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from seedbed.evaluation.cells import Cell
from seedbed.storage.store import Digest, Fact, Query, Store

_IN_BODY = ("playbook", "task", "replicate", "metric", "reason", "fault", "run", "cost_usd", "tokens")


class FailedRuns:
    """A run that failed stays failed, even if its experiment or search is interrupted and resumed.

    Trying only the failures again would make every playbook look better than it is.
    """

    def __init__(self, store: Store, of: Digest) -> None:
        self._store, self.of = store, of
        self._known = {cell.key: cell for cell in map(_cell, store.facts(Query(kind="lapse", subject=of)))}

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Cell:
        return self._known[key]

    @property
    def cells(self) -> Collection[Cell]:
        return self._known.values()

    def new(self, cells: Iterable[Cell], at: datetime, by: str) -> list[Fact]:
        """The newly failed among these cells, as facts to store."""
        failed = [cell for cell in cells if cell.value is None and cell.key not in self._known]
        self._known |= {cell.key: cell for cell in failed}
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
