"""Many random searches with failures and concurrency: does any of them make one call more than its budget has?

    python benchmarks/budget.py [--searches 1000] [--first 0]

Every number is another search: its tasks, its budget, its optimizer and how cells are allocated are drawn, and so is
how many calls are under way at a time and how often one fails. Calls are counted where they happen, in the function
that scores, and not by what seedbed says of them. A part of the searches is interrupted on the way and taken up again;
calls that were under way then are made twice, which nobody can help, so those are counted apart. Another part has a
budget in dollars or tokens, and asks a model that has a price: what it was paid is summed up from its answers.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from seedbed.errors import BudgetSpent
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.allocation import Allocation, Halving, Uniform
from seedbed.evolution.evaluators import FunctionEvaluator, Measure
from seedbed.evolution.evolve import SearchProgress, evolve
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.population import Population
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.plan import Plan, SearchOptions
from seedbed.evolution.protocols import Optimizer
from seedbed.evolution.searches import Evolution
from seedbed.evolution.variation.operators import operators, reword
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

TEXT = "roles.agent.system"
START = Playbook.from_document(
    {
        "roles": {"agent": {"model": "m", "system": "Be brief. Be kind. Say yes."}},
        "steps": [{"name": "answer", "role": "agent", "prompt": "Is {n} a number?"}],
        "locked": ["steps"],
    }
)
BANK = ("Think first.", "Never guess.", "Say it twice. Be loud.", "Say no.", "Name a source.", "Count.")


def tasks(count: int, name: str) -> Dataset:
    return Dataset(tuple(Task(f"{name}{n}", {"n": f"{name}{n}"}, "yes") for n in range(count)))


@dataclass
class Asked:
    """A scoring function that counts its calls, takes a while, fails now and then, and may be interrupted."""

    chance: random.Random
    fails: float
    breaks_after: int | None = None
    calls: list[tuple[str, str, int]] = field(default_factory=list)

    async def __call__(self, playbook: Playbook, task: Task, replicate: int) -> float:
        self.calls.append((playbook.digest, task.id, replicate))
        if self.breaks_after is not None and len(self.calls) > self.breaks_after:
            raise asyncio.CancelledError
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        if self.chance.random() < self.fails:
            raise RuntimeError("it broke down")
        return self.chance.random()


@dataclass(frozen=True)
class Outcome:
    """What a search may spend, what it says it has spent, and what was really asked for, in the order it was."""

    budget: Budget
    at_once: int
    found: Evolution | None
    calls: Sequence[tuple[str, str, int]]
    lives: int
    steps: Sequence[tuple[int, Any]] = ()

    @property
    def too_many(self) -> int:
        """Calls that the budget had no room for; in each life that was cut short some were under way."""
        return len(self.calls) - (self.budget.runs or 0) - (self.lives - 1) * self.at_once

    @property
    def is_honest(self) -> bool:
        """Whether it has spent what it says."""
        said = self.found.spent["runs"] if self.found else 0
        return said == len(self.calls) if self.lives == 1 else said <= len(self.calls)


def _optimizer(chance: random.Random) -> Optimizer:
    ways = operators(START, instructions=BANK)
    candidates = list(reword(START, TEXT, BANK))
    some = BestOf(candidates[: chance.randint(1, 6)], brood=chance.choice([8, 2]))
    more = BestOf(operators=ways, brood=chance.randint(1, 6))
    grown = Population(operators=ways, size=chance.randint(2, 6), offspring=chance.randint(1, 5))
    return chance.choice([some, more, grown, Portfolio({"best_of": more, "population": grown})])


def _allocation(chance: random.Random) -> Allocation:
    if chance.random() < 0.3:
        return Uniform()
    return Halving(chance.randint(1, 8), chance.choice([1.5, 2.0, 3.0]), chance.random(), chance.randint(1, 4))


async def by_runs(number: int) -> Outcome:
    """A search with a budget of runs."""
    chance = random.Random(number)
    confirm, reads = tasks(chance.choice([0, 0, 2, 5]), "c"), tasks(chance.randint(0, 4), "r")
    budget = Budget(runs=chance.randint(1, 120))
    seed, at_once, better = chance.randrange(10**6), chance.randint(1, 16), chance.choice(["higher", "lower"])
    settings = {
        "start": START,
        "select": tasks(chance.randint(1, 20), "s"),
        "reflect": reads,
        "confirm": confirm,
        "budget": budget,
        "allocation": _allocation(chance),
        "seed": seed,
        "patience": chance.choice([None, 4]),
    }
    asked = Asked(chance, chance.choice([0.0, 0.1, 0.5]))
    drawn, store, steps = chance.getstate(), MemoryStore(), []
    lives = chance.choice([1, 1, 1, 2])

    def watch(told: SearchProgress) -> None:
        steps.append((told.pool.best(), told.pool.table()))

    found = None
    for life in range(lives):
        chance.setstate(drawn)
        asked.breaks_after = len(asked.calls) + chance.randrange(60) if life < lives - 1 else None
        plan = Plan(**settings, optimizer=_optimizer(random.Random(number)))
        arena = FunctionEvaluator(asked, store, "ann", [Measure(better=better)], at_once)
        steps.clear()
        try:
            found = await evolve(plan, arena, Library(store, "ann"), because="a budget", on_event=watch)
            lives = life + 1
            break
        except BudgetSpent:
            break
        except asyncio.CancelledError:
            continue
    return Outcome(budget, at_once, found, asked.calls, lives, steps)


async def by_price(number: int) -> tuple[str, float, float, float]:
    """A search with a budget of dollars or tokens: which, how much, what it says and what was paid."""
    chance = random.Random(number)
    unit = chance.choice(["usd", "tokens"])
    limit = round(chance.uniform(0.01, 0.5), 3) if unit == "usd" else chance.randint(100, 2_000)
    replies = {rf"s\d*{chance.randrange(10)} ": "", r"[13579] ": "yes", ".": "no, " * chance.randint(1, 30)}
    if chance.random() < 0.5:
        del replies["."]  # nothing to say to some: their runs fail
    card = {"use": "scripted", "args": {"replies": replies}, "usd_per_million": [100, 1_000]}
    space = Workspace(Settings(by="ann", models={"m": card}), MemoryStore())
    budget = Budget(**{unit: limit, "runs": chance.choice([None, 60])})
    options_by_name = {"metric": ExactMatch(), "optimizer": _optimizer(chance), "budget": budget}
    options = SearchOptions(patience=3, seed=number)
    found = await space.evolve(START, tasks(chance.randint(4, 24), "s"), options=options, **options_by_name)
    turns = [fact.body for fact in space.store.facts(Query(kind="turn"))]
    counted = ("cost_usd",) if unit == "usd" else ("prompt_tokens", "completion_tokens")
    paid = sum(turn[each] for turn in turns for each in counted)
    return unit, limit, found.spent[unit], paid


async def main(first: int, searches: int) -> None:
    began, calls, ended, lives = time.perf_counter(), 0, Counter[str](), 0
    most, dishonest, close = -(10**9), 0, 0
    for number in range(first, first + searches):
        done = await by_runs(number)
        calls, most, lives = calls + len(done.calls), max(most, done.too_many), lives + done.lives
        dishonest += not done.is_honest
        close += done.lives == 1 and len(done.calls) == done.budget.runs
        ended[done.found.ended.lstrip("0123456789 ") if done.found else "refused before the first call"] += 1
    assert most <= 0, f"{most} calls too many"
    assert not dishonest
    print(
        f"{searches:,} searches in {lives:,} lives, {calls:,} calls: {max(most, 0)} beyond a budget; {close} spent it "
        f"to the last call; {dict(ended)}; {time.perf_counter() - began:.0f} s"
    )
    shares: list[float] = []
    for number in range(first, first + searches // 5):
        unit, limit, said, paid = await by_price(number)
        assert paid <= limit * (1 + 1e-9), (number, unit, limit, paid)
        assert abs(said - paid) <= 1e-6 * limit, (number, unit, said, paid)
        shares.append(paid / limit)
    print(
        f"{len(shares):,} searches with a budget of dollars or tokens: at most {max(shares):.1%} of it was spent, "
        f"{sum(shares) / len(shares):.0%} on average"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(main(given.first, given.searches))
