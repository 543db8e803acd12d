"""Small searches with known truth: some words make a playbook better, and longer ones cost more. No model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.evaluators import FunctionEvaluator, Measure
from seedbed.evolution.evolve import evolve
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.population import Population
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.plan import NO_TASKS, Plan
from seedbed.evolution.protocols import Optimizer, Search
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, Store

GOOD = ("carefully", "briefly", "twice", "politely")
WORDS = (*GOOD, "loudly", "never", "sideways", "perhaps")
SCORE, LENGTH = Measure(), Measure("length", better="lower")


def playbook(system: str = "Sort the mail.") -> Playbook:
    return Playbook.from_document({"roles": {"agent": {"model": "fast", "system": system}}})


def tasks(count: int, name: str) -> Dataset:
    return Dataset(tuple(Task(f"{name}{number}", {"q": f"{name} {number}"}, "yes") for number in range(count)))


def luck(*of: object) -> float:
    """A number from 0 to 1 that is always the same for the same."""
    return int.from_bytes(blake2b(repr(of).encode(), digest_size=4).digest(), "big") / 2**32


def right(each: Playbook, task: Task, replicate: int) -> float:
    """More often right the more good words it has; each task is as hard for everybody."""
    said = each.roles["agent"].system.split()
    skill = 0.3 + 0.15 * sum(word in said for word in GOOD) - 0.05 * sum(word in said for word in WORDS[len(GOOD) :])
    return float(luck("task", task.id) < skill)


def right_and_long(each: Playbook, task: Task, replicate: int) -> Sequence[float]:
    return right(each, task, replicate), float(len(each.roles["agent"].system))


@dataclass(frozen=True)
class AddWord:
    """An operator that adds one of a few words to the system text."""

    name: str = "add a word"

    async def __call__(self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str) -> Playbook:
        word = WORDS[int(search.chance(event).integers(len(WORDS)))]
        return with_genes(parent, {"roles.agent.system": f"{parent.roles['agent'].system} {word}"})


def portfolio() -> Portfolio:
    ways = [AddWord()]
    arms: dict[str, Optimizer] = {
        "best_of": BestOf(operators=ways, brood=6),
        "population": Population(operators=ways, size=6, offspring=6),
    }
    return Portfolio(arms)


START = playbook()


def planned(**settings: Any) -> Plan:
    fields = {"reflect": NO_TASKS, "confirm": tasks(40, "c"), "budget": Budget(runs=900), "seed": 1, **settings}
    optimizer = fields.pop("optimizer", None) or portfolio()
    return Plan(start=START, select=tasks(40, "s"), optimizer=optimizer, **fields)


class OtherModels(FunctionEvaluator):
    """An evaluator for which every playbook asks models of its own."""

    def identity(self, playbook: Playbook) -> Json:
        return {"model": playbook.digest}


_SHARED: dict[tuple[bool, bool], Evolution] = {}
"""Results of whole searches by (several metrics, without confirmation), for the tests that only read one."""


async def searched(
    store: Store | None = None,
    *,
    several: bool = False,
    scoring: Any = right,
    watch: Any = None,
    options: Any = None,
    arena: type[FunctionEvaluator] = FunctionEvaluator,
    **settings: Any,
) -> Evolution:
    """A search from START; with `several` metrics there is a front. Without a store, equal searches are made once."""
    key = several, "confirm" in settings
    only_read = (store, scoring, watch, options, arena) == (None, right, None, None, FunctionEvaluator)
    shared = only_read and settings in ({}, {"confirm": NO_TASKS})
    if shared and key in _SHARED:
        return _SHARED[key]
    into = store or MemoryStore()
    by = (right_and_long, into, "ada", (SCORE, LENGTH)) if several else (scoring, into, "ada")
    plan, library = planned(**settings), Library(into, "ada")
    evolution = await evolve(plan, arena(*by), library, because="try words", options=options, on_event=watch)
    if shared:
        _SHARED[key] = evolution
    return evolution
