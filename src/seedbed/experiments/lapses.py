"""Lapses: the runs of an experiment that failed, once and for all."""

from __future__ import annotations

from seedbed.evaluation.evaluate import Bench, Cell
from seedbed.storage.store import Digest, Fact, Query, Store


class Lapses:
    """What failed in an experiment stays failed, also if it is interrupted and goes on.

    Whoever could try only failures again would make everybody look better than they are.
    """

    def __init__(self, store: Store, experiment: Digest) -> None:
        self._experiment = experiment
        self._known = {
            str(fact.body["cell"]): _cell(fact) for fact in store.facts(Query(kind="lapse", subject=experiment))
        }

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def __getitem__(self, key: str) -> Cell:
        return self._known[key]

    async def settled(self, cell: Cell, bench: Bench) -> Cell:
        """A cell as it counts: one that failed before fails again, and one that fails now is remembered."""
        if cell.key in self._known:
            return self._known[cell.key]
        if cell.value is None:
            told = ("playbook", "task", "replicate", "metric", "reason", "run", "cost_usd")
            body = {"cell": cell.key, **{name: getattr(cell, name) for name in told}}
            key = f"{self._experiment}/{cell.key}"
            fact = Fact(kind="lapse", key=key, subject=self._experiment, at=bench.clock(), by=bench.by, body=body)
            await bench.journal.add(fact)
            self._known[cell.key] = cell
        return cell


def _cell(fact: Fact) -> Cell:
    told = {name: value for name, value in fact.body.items() if name != "cell"}
    return Cell(key=fact.body["cell"], value=None, **told)


__all__ = ["Lapses"]
