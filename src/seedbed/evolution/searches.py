"""Searches of the past, by what is recorded of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from seedbed.errors import NotFound, shown
from seedbed.evaluation.cells import Cell, Naming
from seedbed.evaluation.dataset import Dataset, Task
from seedbed.evaluation.metrics import Better
from seedbed.evolution.budget import Budget
from seedbed.evolution.confirmation import Confirmation, optimism
from seedbed.evolution.evolve import Evolution, Step
from seedbed.evolution.measured import Measure
from seedbed.evolution.offer import Offer
from seedbed.evolution.optimizer import Search
from seedbed.evolution.pool import Pool
from seedbed.playbooks.library import Library
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest

KINDS = ("evolution", "search", "step")
"""The facts that a search leaves: its end, what was asked for, and each of its steps."""


@dataclass(frozen=True)
class Past:
    """A search that was begun: its plan, its steps so far, and its end if it has one."""

    search: Digest
    plan: Json
    begun: datetime
    by: str
    steps: Sequence[Fact]
    end: Fact | None

    @property
    def ended(self) -> str:
        """Why it came to an end; empty while it has not."""
        return str(self.end.body["ended"]) if self.end else ""

    @property
    def best(self) -> Digest:
        """What it found, or has found so far."""
        if self.end:
            return self.end.subject
        return str(self.steps[-1].body["best"]) if self.steps else str(self.plan["start"])

    @property
    def score(self) -> float | None:
        """What is believed of its best; higher is better."""
        last = self.end or (self.steps[-1] if self.steps else None)
        return last.value if last else None

    @property
    def spent(self) -> Json:
        last = self.end or (self.steps[-1] if self.steps else None)
        return {name: last.body[name] if last else 0 for name in ("runs", "usd", "seconds")}

    @property
    def confirmed(self) -> Confirmation | None:
        body = self.end.body["confirmed"] if self.end else None
        if body is None:
            return None
        return Confirmation(
            **{name: Interval(**each) if isinstance(each, dict) else each for name, each in body.items()}
        )


def searches(store: Store) -> list[Past]:
    """Every search that was begun, the newest first."""
    names: dict[Digest, None] = {}
    for kind in KINDS:
        names |= dict.fromkeys(_of(fact) for fact in store.facts(Query(kind=kind)))
    found = []
    for name in names:
        try:
            found.append(past(store, name))
        except NotFound:
            continue  # a fact of an older kind of search, which had no plan
    return sorted(found, key=lambda each: each.begun, reverse=True)


def past(store: Store, search: Digest) -> Past:
    """The search of that name. Raises NotFound."""
    plan = store.get(search)
    end = next(iter(store.facts(Query(kind="evolution", key=search))), None)
    asked = next(iter(store.facts(Query(kind="search", key=search))), None)
    steps = sorted(store.facts(Query(kind="step", subject=search)), key=lambda fact: int(fact.body["step"]))
    first = min((fact for fact in (asked, *steps[:1], end) if fact), key=lambda fact: fact.at, default=None)
    if first is None:
        raise NotFound(
            f"of the search {shown(search)} nothing is recorded but its plan. Take it up with seedbed evolve"
        )
    return Past(search, plan, first.at, first.by, steps, end)


def named(store: Store, beginning: str) -> Digest:
    """The whole name of the search that begins so. Raises NotFound."""
    start = f"b2:{beginning.removeprefix('b2:')}"
    found = {_of(fact) for kind in KINDS for fact in store.facts(Query(kind=kind, key_from=start))}
    if len(found) != 1:
        told = "begins several searches. Give more characters" if found else "is no search of this store"
        raise NotFound(f"{shown(beginning)} {told}; `seedbed search list` shows them")
    return found.pop()


def _of(fact: Fact) -> Digest:
    return fact.subject if fact.kind == "step" else fact.key


def recalled(store: Store, found: Past, better: Mapping[str, Better] | None = None) -> Evolution:
    """A search as it was told when it ended, or as far as it came: from its steps, and the scores of what they offered.

    Metrics are those of which higher is better unless `better` says otherwise, by name. Scores that were known from
    elsewhere by then count, too. How sure a step was is NaN where it is not recorded.
    """
    pool = _pool(store, found, better or {})
    seen, steps = 0, []
    for fact in found.steps:
        body = fact.body
        unsure = body.get("deviation", math.nan)
        steps.append(
            Step(body["step"], tuple(body["offered"]), body["runs"] - seen, body["best"], fact.value or 0.0, unsure)
        )
        seen = body["runs"]
    chance = Search(pool.playbooks[0], (), pool, found.plan["seed"]).chance("optimism")
    return Evolution(
        found.search,
        found.plan["start"],
        found.best,
        pool,
        tuple(steps),
        Budget(**found.plan["budget"]),
        found.spent,
        found.ended,
        found.end.body["optimism"] if found.end else optimism(pool, chance),
        found.confirmed,
    )


def _pool(store: Store, found: Past, better: Mapping[str, Better]) -> Pool:
    library = Library(store, found.by)
    arms: dict[Digest, str] = {}
    for step in found.steps:
        offered = step.body["offered"]
        for playbook, arm in zip(offered, step.body.get("arms", [""] * len(offered)), strict=True):
            arms.setdefault(playbook, arm)
    members = list(dict.fromkeys((found.plan["start"], *arms)))
    tasks = {
        task.id: task for part in ("select", "reflect") for task in Dataset.from_content(store.get(found.plan[part]))
    }
    cells = [cell for member in members for cell in _cells(store, found, member, tasks)]
    pool = Pool(
        [Measure(name, better=better.get(name, "higher")) for name in _metrics(found, cells)],
        [task.id for task in Dataset.from_content(store.get(found.plan["select"]))],
        [task.id for task in Dataset.from_content(store.get(found.plan["reflect"]))],
    )
    for member in members:
        entry = library.entry(member)
        origin = ((), "start") if member == found.plan["start"] else (entry.parents, entry.how)
        pool.add(Offer(library.get(member), *origin, arm=arms.get(member, "")))
    pool.tell(cells)
    return pool


def _metrics(found: Past, cells: Iterable[Cell]) -> list[str]:
    """What metrics are called, as cells say it: a plan has their identities."""
    called = {cell.key.split("/")[1]: cell.metric for cell in cells}
    return [
        called.get(digest("metric", identity)[3:19], str(identity.get("metric"))) for identity in found.plan["metrics"]
    ]


def _cells(store: Store, found: Past, playbook: Digest, tasks: Mapping[str, Task]) -> Iterator[Cell]:
    """The scores of a playbook on the tasks of a search that were known when it ended; with what failed in it."""
    naming = Naming(playbook, found.plan["models"], found.plan["metrics"])
    ends = {key.partition("/")[2] for task in tasks.values() for key in naming(task, 0).cells}
    own = [
        Cell(key=fact.key, playbook=playbook, value=fact.value, **fact.body)
        for fact in store.facts(Query(kind="cell", subject=playbook))
        if fact.key.partition("/")[2] in ends and (found.end is None or fact.number < found.end.number)
    ]
    own += [
        Cell(key=fact.body["cell"], value=None, **{name: told for name, told in fact.body.items() if name != "cell"})
        for fact in store.facts(Query(kind="lapse", subject=found.search))
        if fact.body["playbook"] == playbook and fact.body["task"] in tasks
    ]
    # Of a playbook that asks other models than the start does, the plan does not say which: then all its scores count.
    exact = [cell for cell in own if cell.key in naming(tasks[cell.task], cell.replicate).cells]
    return iter(exact or own)
