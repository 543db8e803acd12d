"""Till: pays for the rounds of a search, each reserved durably before its first run, none of them twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

from seedbed.errors import BudgetSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.evaluate import Item
from seedbed.evaluation.lapses import Lapses
from seedbed.evolution.arena import Arena, Paid, Spot, Work, known
from seedbed.evolution.budget import Account
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.stage.ledger import Ledger
from seedbed.storage.store import Digest, Fact, Json, Query


class Till:
    """Pays for rounds and for runs that help with a search, by its name.

    A round is a fact before it is launched: how many runs it takes, and what of it was known then. So a search that is
    taken up again counts what it has spent as it did, however far it came. `kept` runs are for later.
    """

    def __init__(self, name: Digest, arena: Arena, account: Account) -> None:
        self.name, self.arena, self.account = name, arena, account
        self.kept = 0
        self.fresh: set[Digest] = set()
        """Playbooks that nobody knew before this search: there can be no cells of them but its own."""
        self._rounds = 0
        self._paid: set[Spot] = set()
        self._began = arena.clock()
        self._before = max((float(fact.body["seconds"]) for fact in self._facts("step")), default=0.0)
        self._lapses = Lapses(arena.store, name)
        self._reserved = {fact.key: fact.body for fact in self._facts("round")}

    @property
    def is_empty(self) -> bool:
        self.account.seconds = self._before + (self.arena.clock() - self._began).total_seconds()
        return self.account.is_over(self.kept)

    @property
    def room(self) -> int | None:
        """For how many runs there is room, without those that are kept; None where nobody limits that."""
        return self.account.runs_left(self.kept)

    async def pay(self, wanted: Sequence[Work]) -> list[Cell]:
        """The cells of all that was not paid in this search before: as many of its first tasks as there is room for.

        Raises BudgetSpent if there is room for none, or if the money ran out on the way; then nothing counts.
        """
        todo = self._new(wanted)
        if not todo:
            return []
        before = known(self.arena, [work for work in todo if work[0].digest not in self.fresh], self._lapses)
        todo = self._reserve(todo, before)
        rest = [(each, [item for item in items if spot(each, item) not in before]) for each, items in todo]
        paid = await self.arena.pay([work for work in rest if work[1]], self.account.ledger)
        if self.account.ledger.is_short:
            raise BudgetSpent("the money of this search was spent; raise its budget to go on")
        failed = (cell for cells in paid.values() for cell in cells)
        if lapses := self._lapses.new(failed, self.arena.clock(), self.arena.by):
            self.arena.store.append(lapses)
        cells: list[Cell] = []
        for playbook, items in todo:
            for item in items:
                here = spot(playbook, item)
                self._paid.add(here)
                own = paid.get(here)
                if own is None:
                    own = before[here]
                else:
                    self.account.learn(_cost(own))
                cells += own
        return cells

    async def perform(self, name: str, playbook: Playbook, inputs: Any) -> Run:
        """A run that helps with the search. Under the same name it is the same, and not paid twice."""
        if self.room == 0:
            raise BudgetSpent(f"found no run left of {self.account.budget}; expected one for {name}")
        self.account.reserve(1)
        run = blake2b(f"{self.name}/{name}".encode(), digest_size=16).hexdigest()
        before = any(self.arena.store.facts(Query(kind="run", key=run)))
        done = await self.arena.perform(run, playbook, inputs, Ledger(kept=0.0, within=self.account.ledger))
        if before:
            self.account.ledger.spend(done.cost_usd)
        return done

    def fact(self, kind: str, number: int, body: Json, value: float | None = None) -> Fact:
        at: datetime = self.arena.clock()
        return Fact(
            kind=kind, key=f"{self.name}/{number}", subject=self.name, at=at, by=self.arena.by, body=body, value=value
        )

    def _new(self, wanted: Sequence[Work]) -> list[Work]:
        todo: list[Work] = []
        for playbook, items in wanted:
            named = playbook.digest
            own = [item for item in items if (named, item[0].id, item[1]) not in self._paid]
            if own:
                todo.append((playbook, own))
        return todo

    def _reserve(self, todo: list[Work], before: Paid) -> list[Work]:
        number, self._rounds = self._rounds, self._rounds + 1
        told = self._reserved.get(f"{self.name}/{number}")
        if told is None:
            free = set(before)
            most = self._affordable(todo, free)
            runs = _count(_first(todo, most), free)
            body = {"runs": runs, "tasks": most, "free": [list(each) for each in sorted(free)]}
            if runs or not most:  # also that there was no room, for what it wanted may be paid later
                self.arena.store.append([self.fact("round", number, body)])
        else:
            free = {(playbook, task, replicate) for playbook, task, replicate in told["free"]}
            most, runs = told["tasks"], told["runs"]
        if not most:
            raise BudgetSpent(f"found too few runs left of {self.account.budget}; expected one for each candidate")
        todo = _first(todo, most)
        self.account.reserve(runs)
        for place, cells in before.items():
            if place not in free:  # paid in an earlier life
                self.account.learn(_cost(cells))
                self.account.ledger.spend(_cost(cells))
        return todo

    def _affordable(self, todo: list[Work], free: set[Spot]) -> int:
        """How many tasks of each there is room for."""
        left, most = self.room, max(len(items) for _, items in todo)
        while left is not None and most and _count(_first(todo, most), free) > left:
            most -= 1
        return most

    def _facts(self, kind: str) -> list[Fact]:
        return list(self.arena.store.facts(Query(kind=kind, subject=self.name)))


def spot(playbook: Playbook, item: Item) -> Spot:
    return playbook.digest, item[0].id, item[1]


def _first(todo: Sequence[Work], most: int) -> list[Work]:
    return [(playbook, items[:most]) for playbook, items in todo]


def _count(todo: Sequence[Work], free: set[Spot]) -> int:
    if not free:
        return sum(len(items) for _, items in todo)
    return sum(spot(playbook, item) not in free for playbook, items in todo for item in items)


def _cost(cells: Sequence[Cell]) -> float:
    """What a run and its scores did cost. Each cell has the cost of the run, and its own."""
    run = min(cell.cost_usd for cell in cells)
    return run + sum(cell.cost_usd - run for cell in cells)
