"""Searches of the past, by what is recorded of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from seedbed.errors import NotFound, shown
from seedbed.evaluation.cells import Cell, Naming
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import Better
from seedbed.evolution.confirmation import Confirmation, optimism
from seedbed.evolution.evolve import Evolution, Step
from seedbed.evolution.function_evaluator import Measure
from seedbed.evolution.offer import Offer
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Search
from seedbed.playbooks.library import Library
from seedbed.spending.account import Budget
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest


@dataclass(frozen=True)
class Past:
    """A search that was begun: its plan, its steps so far, and its end if it has one."""

    begun: Fact
    plan: Json
    steps: Sequence[Fact]
    end: Fact | None

    @property
    def search(self) -> Digest:
        return self.begun.key

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
        return {name: last.body[name] if last else 0 for name in ("runs", "tokens", "usd", "seconds")}

    @property
    def confirmed(self) -> Confirmation | None:
        body = self.end.body["confirmed"] if self.end else None
        if body is None:
            return None
        known = {name: _interval(each) for name, each in body.items() if isinstance(each, dict)}
        return Confirmation(body["tasks"], **known)


def _interval(body: Json) -> Interval:
    low, high = body["low"], body["high"]
    ends = -math.inf if low is None else low, math.inf if high is None else high
    return Interval(body["mean"], *ends, body["confidence"], body["n"])


def searches(store: Store) -> Iterator[Past]:
    """Every search that was begun, the newest first."""
    for begun in store.facts(Query(kind="search", newest=True)):
        yield _past(store, begun)


def past(store: Store, beginning: str) -> Past:
    """The search whose name begins so. Raises NotFound."""
    start = f"b2:{beginning.removeprefix('b2:')}"
    found = list(store.facts(Query(kind="search", key_from=start, limit=2)))
    if len(found) != 1:
        told = "begins several searches. Give more characters" if found else "is no search of this store"
        raise NotFound(f"{shown(beginning)} {told}; `seedbed search list` shows them")
    return _past(store, found[0])


def _past(store: Store, begun: Fact) -> Past:
    end = next(iter(store.facts(Query(kind="evolution", key=begun.key))), None)
    steps = sorted(store.facts(Query(kind="step", subject=begun.key)), key=lambda fact: int(fact.body["step"]))
    return Past(begun, store.get(begun.key), steps, end)


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
        tuple(_skips(store, found)),
    )


def _skips(store: Store, found: Past) -> Iterator[Fact]:
    """What a surrogate thought hopeless, in the order in which it was offered."""
    for playbook in dict.fromkeys(each for step in found.steps for each in step.body.get("skipped", ())):
        facts = store.facts(Query(kind="skip", subject=playbook))
        yield from (fact for fact in facts if fact.body.get("search") == found.search)


def _pool(store: Store, found: Past, better: Mapping[str, Better]) -> Pool:
    library = Library(store, found.begun.by)
    arms: dict[Digest, str] = {}
    for step in found.steps:
        offered = step.body["offered"]
        for playbook, arm in zip(offered, step.body.get("arms", [""] * len(offered)), strict=True):
            arms.setdefault(playbook, arm)
    members = list(dict.fromkeys((found.plan["start"], *arms)))
    tasks = {
        task.id: task for part in ("select", "reflect") for task in Dataset.from_content(store.get(found.plan[part]))
    }
    lapses = [_lapse(fact) for fact in store.facts(Query(kind="lapse", subject=found.search))]
    cells = [cell for member in members for cell in _cells(store, found, member, tasks)]
    cells += [cell for cell in lapses if cell.task in tasks]
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


def _cells(store: Store, found: Past, playbook: Digest, tasks: Mapping[str, Task]) -> list[Cell]:
    """The scores of a playbook on the tasks of a search that were known when it ended."""
    naming = Naming(playbook, found.plan["models"], found.plan["metrics"])
    ends = {key.partition("/")[2] for task in tasks.values() for key in naming(task, 0).cells}
    own = [
        Cell(key=fact.key, playbook=playbook, value=fact.value, **fact.body)
        for fact in store.facts(Query(kind="cell", subject=playbook))
        if fact.key.partition("/")[2] in ends and (found.end is None or fact.number < found.end.number)
    ]
    # Of a playbook that asks other models than the start does, the plan does not say which: then all its scores count.
    exact = [cell for cell in own if cell.key in naming(tasks[cell.task], cell.replicate).cells]
    return exact or own


def _lapse(fact: Fact) -> Cell:
    told = {name: value for name, value in fact.body.items() if name != "cell"}
    return Cell(key=fact.body["cell"], value=None, **told)
