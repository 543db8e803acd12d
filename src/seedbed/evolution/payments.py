"""Till: pays for the rounds of a search, each reserved durably before its first run, none of them twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

from seedbed.errors import BudgetSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.evaluate import Item
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evolution.evaluators import Evaluator, Paid, Spot, Work, cost_of, known
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.spending.account import Account
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Digest, Fact, Json, Query

MONEY_SPENT = "the money of this search was spent; raise its budget to go on"


class Payments:
    """Pays for rounds and for runs that help with a search, by its name.

    A round is a fact before it is launched: how many runs it takes, and what of it was known then. So a search that is
    taken up again, or done by two at a time, counts what it has spent as it did, however far it came. `kept` runs are
    for later.
    """

    def __init__(self, name: Digest, arena: Evaluator, account: Account) -> None:
        self.name, self.arena, self.account = name, arena, account
        self.kept = 0
        self.fresh: set[Digest] = set()
        """Playbooks that nobody knew before this search: there can be no cells of them but its own."""
        self._rounds = 0
        self._paid: set[Spot] = set()
        self._began = arena.clock()
        self._seconds = sorted(float(fact.body["seconds"]) for fact in self._facts("step"))
        self._lapses = FailedRuns(arena.store, name)
        self._reserved = {fact.key: fact.body for fact in self._facts("round")}

    def is_empty(self, steps: int) -> bool:
        """Whether nothing more can be launched after so many steps. Those that were taken before had their time."""
        if steps < len(self._seconds):
            self.account.seconds = self._seconds[steps - 1] if steps else 0.0
        else:
            taken = (self.arena.clock() - self._began).total_seconds()
            self.account.seconds = taken + (self._seconds[-1] if self._seconds else 0.0)
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
        rest = todo
        if before:
            rest = [(each, [item for item in items if spot(each, item) not in before]) for each, items in todo]
        paid = await self.arena.pay([work for work in rest if work[1]], self.account.ledger, self._failed)
        if self.account.ledger.is_short:
            self.arena.store.append([self.fact("round", f"{self._rounds - 1}/short", {"runs": 0, "tasks": 0})])
            self.fresh -= {playbook.digest for playbook, _ in todo}  # some of their cells are known by now
            raise BudgetSpent(MONEY_SPENT)
        cells: list[Cell] = []
        costs: set[tuple[float, int]] = set()  # most are the same
        for playbook, items in todo:
            for item in items:
                here = spot(playbook, item)
                self._paid.add(here)
                own = paid.get(here)
                if own is None:
                    own = before[here]
                else:
                    costs.add(cost_of(own))
                cells += own
        for cost in costs:
            self.account.learn(*cost)
        return cells

    def paid_before(self, wanted: Sequence[Work]) -> list[Cell]:
        """The cells of what was paid in this search already, for whoever looks at them once more."""
        again = [
            (playbook, [item for item in items if spot(playbook, item) in self._paid]) for playbook, items in wanted
        ]
        return [
            cell
            for cells in known(self.arena, [work for work in again if work[1]], self._lapses).values()
            for cell in cells
        ]

    async def perform(self, name: str, playbook: Playbook, inputs: Any) -> Run:
        """A run that helps with the search. Under the same name it is the same, and not paid twice."""
        if self.room == 0:
            raise BudgetSpent(f"found no run left of {self.account.budget}; expected one for {name}")
        self.account.reserve(1)
        run = blake2b(f"{self.name}/{name}".encode(), digest_size=16).hexdigest()
        before = any(self.arena.store.facts(Query(kind="run", key=run)))
        done = await self.arena.perform(run, playbook, inputs, Ledger(kept=0.0, within=self.account.ledger))
        if before:
            self.account.ledger.spend(done.cost_usd, done.tokens)
        return done

    def fact(self, kind: str, number: int | str, body: Json, value: float | None = None) -> Fact:
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
        told = self._reserved.get(f"{self.name}/{number}") or self._registered(number, todo, set(before))
        if not told["tasks"]:
            raise BudgetSpent(f"found too few runs left of {self.account.budget}; expected one for each candidate")
        todo = _first(todo, told["tasks"])
        self.account.reserve(told["runs"])
        free = {(playbook, task, replicate) for playbook, task, replicate in told["free"]}
        for here in (spot(playbook, item) for playbook, items in todo for item in items):
            if here in before and here not in free:  # paid in an earlier life
                cost = cost_of(before[here])
                self.account.learn(*cost)
                self.account.ledger.spend(*cost)
        if f"{self.name}/{number}/short" in self._reserved:
            self.account.ledger.refuse()
            raise BudgetSpent(MONEY_SPENT)
        return todo

    def _registered(self, number: int, todo: list[Work], free: set[Spot]) -> Json:
        """The round as it is reserved now, or as the same search in another process, which was quicker, did.

        Also that there was no room is remembered, for what it wanted may be paid later.
        """
        most = self._affordable(todo, free)
        runs = _count(_first(todo, most), free)
        ours = self.fact("round", number, {"runs": runs, "tasks": most, "free": [list(each) for each in sorted(free)]})
        if self.arena.store.append([ours]):
            return ours.body
        (theirs,) = self.arena.store.facts(Query(kind="round", key=ours.key))
        return theirs.body

    def _failed(self, cells: Iterable[Cell]) -> None:
        """Remember what has failed, unless it may have been for want of money."""
        if not self.account.ledger.is_short:
            self.arena.store.append(self._lapses.new(cells, self.arena.clock(), self.arena.by))

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
