"""BestOf: try each of a fixed set of candidates once. What every other optimizer has to beat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seedbed.evaluation.evaluate import Cell
from seedbed.playbooks.playbook import Playbook


class BestOf:
    """Offers all candidates in one go and has nothing to learn from their cells."""

    def __init__(self, candidates: Iterable[Playbook]) -> None:
        self._waiting = tuple(dict.fromkeys(candidates))

    async def ask(self) -> Sequence[Playbook]:
        offered, self._waiting = self._waiting, ()
        return offered

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None
