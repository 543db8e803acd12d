"""BestOf: candidates made from the start without learning. The baseline for every other optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

from seedbed.errors import expect_type
from seedbed.evaluation.cells import Cell
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings, settings_of
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json, digest

TRIES = 20
"""It has nothing more to offer after this many draws in a row that make nothing new."""


@dataclass(eq=False)
class BestOf:
    """Offers a set of candidates at once; then, if there are operators, variations of the start, `brood` at a time.

    Each variation is the start with up to `changes` changes by operators. The scores of other candidates play no part.
    """

    candidates: Iterable[Playbook] = ()
    _: KW_ONLY
    operators: Sequence[Operator] = ()
    brood: int = 8
    changes: int = 3

    reads = False

    def __post_init__(self) -> None:
        expect_type(self.candidates, Iterable, "candidates", "a list of playbooks", "Write BestOf([playbook]).")
        check_settings("best_of", brood=at_least(1, self.brood), changes=at_least(1, self.changes))
        self.candidates = tuple(dict.fromkeys(self.candidates))

    @property
    def identity(self) -> Json:
        candidates = digest("candidates", [each.digest for each in self.candidates])
        return {"optimizer": "best_of", **settings_of(self), "candidates": candidates}

    def begin(self, search: Search) -> None:
        self._search = search
        self._waiting = [each for each in self.candidates if each.digest != search.start.digest]
        self._made = 0

    async def ask(self) -> Sequence[Offer]:
        left = [each for each in self._waiting if each.digest not in self._search.pool]
        self._waiting = []
        chosen = [(each, "listed candidate") for each in left]
        while self.operators and not left and len(chosen) < self.brood:
            made = await self._vary({each.digest for each, _ in chosen})
            if made is None:
                break
            chosen.append(made)
        parents = (self._search.start.digest,)
        return [Offer(each, parents, how, arm="best_of") for each, how in chosen]

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None

    async def _vary(self, taken: set[str]) -> tuple[Playbook, str] | None:
        for _ in range(TRIES):
            event = f"best_of/{self._made}"
            self._made += 1
            chance = self._search.chance(event)
            child, names = self._search.start, []
            for number in range(int(chance.integers(1, self.changes + 1))):
                operator = self.operators[int(chance.integers(len(self.operators)))]
                next_child = await operator(child, (), self._search, f"{event}/{number}")
                if next_child is not None:
                    child = next_child
                    names.append(operator.name)
            if child.digest not in taken and child.digest not in self._search.pool:
                return child, " and ".join(names)
        return None
