"""Payments: pays for the rounds of a search. Each round is reserved durably before its first run, and paid once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from seedbed.errors import BudgetSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evolution.evaluators import (
    Evaluator,
    PaidCells,
    PlaybookTasks,
    RunKey,
    cost_of,
    known_cells,
    new_fact,
    run_key,
)
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.spending.account import Account
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Digest, Fact, Json, Query

MONEY_SPENT = "the money of this search was spent; raise its budget to go on"


class Payments:
    """Pays for the rounds of a search, and for runs that help with it.

    A round becomes a fact before it starts: how many runs it takes, and which of its cells were known. So a search that
    resumes, or that two processes perform at once, counts its spending the same way. `reserved` runs are set aside
    for later.
    """

    def __init__(self, name: Digest, evaluator: Evaluator, account: Account) -> None:
        self.name, self.evaluator, self.account = name, evaluator, account
        self.reserved = 0
        self.fresh: set[Digest] = set()
        """Playbooks that are new in this search: there are no cells of them from elsewhere."""
        self._rounds = 0
        self._paid: set[RunKey] = set()
        self._began = evaluator.clock()
        self._seconds = sorted(float(fact.body["seconds"]) for fact in self._facts("step"))
        self._failures = FailedRuns(evaluator.store, name, at_once=evaluator.at_once)
        self._stored_rounds = {fact.key: fact.body for fact in self._facts("round")}

    def is_empty(self, steps: int) -> bool:
        """Whether the budget allows no more runs after this number of steps. Steps from before an interruption count
        with their recorded time."""
        if steps < len(self._seconds):
            self.account.seconds = self._seconds[steps - 1] if steps else 0.0
        else:
            taken = (self.evaluator.clock() - self._began).total_seconds()
            self.account.seconds = taken + (self._seconds[-1] if self._seconds else 0.0)
        return self.account.is_over(self.reserved)

    @property
    def room(self) -> int | None:
        """How many more runs the budget allows without those reserved for later; None if there is no limit."""
        return self.account.runs_left(self.reserved)

    async def pay(self, wanted: Sequence[PlaybookTasks]) -> list[Cell]:
        """The cells of all that this search has not paid yet: as many of its first tasks as the budget allows.

        Raises BudgetSpent if the budget allows none, or if the money runs out during the round; then no cell counts.
        """
        todo = self._part(wanted, paid=False)
        if not todo:
            return []
        old = [work for work in todo if work[0].digest not in self.fresh]
        before = known_cells(self.evaluator, old, self._failures)
        todo = self._reserve(todo, before)
        rest = todo
        if before:
            rest = [(each, [item for item in items if run_key(each, item) not in before]) for each, items in todo]
        paid = await self.evaluator.pay([work for work in rest if work[1]], self.account.ledger, self._came)
        if self.account.ledger.is_short:
            self.evaluator.store.append([self.fact("round", f"{self._rounds - 1}/short", {"runs": 0, "tasks": 0})])
            self.fresh -= {playbook.digest for playbook, _ in todo}  # some of their cells are known by now
            raise BudgetSpent(MONEY_SPENT)
        runs = [run_key(playbook, item) for playbook, items in todo for item in items]
        self._paid.update(runs)
        for cost in {cost_of(paid[run]) for run in runs if run in paid}:  # most are the same
            self.account.learn(*cost)
        return [cell for run in runs for cell in paid.get(run) or before[run]]

    def paid_before(self, wanted: Sequence[PlaybookTasks]) -> list[Cell]:
        """The cells that this search has paid already, for an optimizer that wants to see them again."""
        again = known_cells(self.evaluator, self._part(wanted, paid=True), self._failures)
        return [cell for cells in again.values() for cell in cells]

    async def perform(self, name: str, playbook: Playbook, inputs: Any) -> Run:
        """A run that helps with the search. A run of the same name is not paid twice."""
        if self.room == 0:
            raise BudgetSpent(f"found no run left of {self.account.budget}; expected one for {name}")
        self.account.reserve(1)
        run = blake2b(f"{self.name}/{name}".encode(), digest_size=16).hexdigest()
        before = any(self.evaluator.store.facts(Query(kind="run", key=run)))
        done = await self.evaluator.perform(run, playbook, inputs, Ledger(last_share=0.0, within=self.account.ledger))
        if before:
            self.account.ledger.spend(done.cost_usd, done.tokens)
        return done

    def fact(self, kind: str, number: int | str, body: Json, value: float | None = None) -> Fact:
        return new_fact(self.evaluator, kind, f"{self.name}/{number}", self.name, body, value)

    def _part(self, wanted: Sequence[PlaybookTasks], *, paid: bool) -> list[PlaybookTasks]:
        """The part of the work that this search has paid for, or the part that it has not."""
        parts = (
            (playbook, [item for item in items if (run_key(playbook, item) in self._paid) == paid])
            for playbook, items in wanted
        )
        return [part for part in parts if part[1]]

    def _reserve(self, todo: list[PlaybookTasks], before: PaidCells) -> list[PlaybookTasks]:
        number, self._rounds = self._rounds, self._rounds + 1
        reservation = self._stored_rounds.get(f"{self.name}/{number}") or self._register(number, todo, set(before))
        if not reservation["tasks"]:
            raise BudgetSpent(f"found too few runs left of {self.account.budget}; expected one for each candidate")
        todo = _first(todo, reservation["tasks"])
        self.account.reserve(reservation["runs"])
        free = {(playbook, task, replicate) for playbook, task, replicate in reservation["free"]}
        for here in (run_key(playbook, item) for playbook, items in todo for item in items):
            if here in before and here not in free:  # paid before an interruption
                cost = cost_of(before[here])
                self.account.learn(*cost)
                self.account.ledger.spend(*cost)
        if f"{self.name}/{number}/short" in self._stored_rounds:
            self.account.ledger.refuse()
            raise BudgetSpent(MONEY_SPENT)
        return todo

    def _register(self, number: int, todo: list[PlaybookTasks], free: set[RunKey]) -> Json:
        """Reserve a round, or take the reservation of another process that performs the same search and was quicker.

        A round without room is stored too: its cells may be paid for elsewhere later.
        """
        most = self._affordable(todo, free)
        runs = _count(_first(todo, most), free)
        ours = self.fact("round", number, {"runs": runs, "tasks": most, "free": [list(each) for each in sorted(free)]})
        if self.evaluator.store.append([ours]):
            return ours.body
        (theirs,) = self.evaluator.store.facts(Query(kind="round", key=ours.key))
        return theirs.body

    def _came(self, runs: Iterable[Sequence[Cell]]) -> None:
        """Store which runs failed, unless they may have failed because the money ran out.

        Raises RunError if all runs of the search so far failed for one reason.
        """
        if not self.account.ledger.is_short:
            at, by = self.evaluator.clock(), self.evaluator.by
            if facts := [fact for cells in runs for fact in self._failures.after(cells, at, by)]:
                self.evaluator.store.append(facts)

    def _affordable(self, todo: list[PlaybookTasks], free: set[RunKey]) -> int:
        """How many tasks of each playbook the budget allows."""
        left, most = self.room, max(len(items) for _, items in todo)
        while left is not None and most and _count(_first(todo, most), free) > left:
            most -= 1
        return most

    def _facts(self, kind: str) -> list[Fact]:
        return list(self.evaluator.store.facts(Query(kind=kind, subject=self.name)))


def _first(todo: Sequence[PlaybookTasks], most: int) -> list[PlaybookTasks]:
    return [(playbook, items[:most]) for playbook, items in todo]


def _count(todo: Sequence[PlaybookTasks], free: set[RunKey]) -> int:
    if not free:
        return sum(len(items) for _, items in todo)
    return sum(run_key(playbook, item) not in free for playbook, items in todo for item in items)
