"""train(): a step of a live system that learns: a task with its answer, and a search when there are enough of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from seedbed.errors import NotFound, Problem, RefMoved, SettingsError, shown
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.evaluators import Evaluator, known
from seedbed.evolution.evolve import Evolution, Watcher, evolve
from seedbed.evolution.plan import Plan, parted
from seedbed.evolution.protocols import Optimizer
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.account import Budget
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Fact, Json, Query, Ref

Searching = Callable[[Playbook, Sequence[Task]], Optimizer]
"""Makes the optimizer of a search from a playbook and the tasks that it may read."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a step of training came to: how good the answer was, how many examples wait, and what was found in them."""

    score: float | None
    waiting: int
    evolution: Evolution | None = None


@dataclass(frozen=True)
class Training:
    """How a line of playbooks learns: it moves on when a search over `enough` new examples has found something better,
    which is confirmed by a quarter of them. A line is a branch, or any ref but a channel: people see nothing of it
    before it is released.
    """

    line: str
    searching: Searching
    enough: int = 40
    budget: Budget = Budget(runs=400)  # noqa: RUF009 - it is frozen

    def __post_init__(self) -> None:
        if self.enough < 8:
            raise SettingsError([Problem("enough", shown(self.enough), "at least 8 examples")], "training")


async def train(
    training: Training, task: Task, arena: Evaluator, library: Library, watch: Watcher | None = None
) -> Trained:
    """Have the line answer the task, keep the task as an example, and search if enough examples wait.

    A step is a fact when all of it is done, the move of the line included: whole, or not at all. After an interruption
    the next step takes up the search where it was. Of two that search at once, the first one moves the line.
    """
    ref = _line(library, training.line)
    current = library.get(str(ref.target))
    work = [(current, [(task, 0)])]
    async with arena.present():
        paid = known(arena, work) or await arena.pay(work, Ledger(), lambda failed: None)
    (cells,) = paid.values()
    body = {**task.body(), "playbook": current.digest, "score": cells[0].value}
    example = Fact(
        kind="example",
        key=f"{ref.name}/{task.digest}",
        subject=ref.name,
        at=arena.clock(),
        by=arena.by,
        body=body,
        value=cells[0].value,
    )
    arena.store.append([example])
    waiting = _waiting(arena, ref.name)
    if len(waiting) < training.enough:
        return Trained(cells[0].value, len(waiting))
    some = waiting[: training.enough]
    tasks = parted(Dataset(tuple(_task(fact) for fact in some)), seed=len(some))
    optimizer = training.searching(current, tasks.only(split="reflect").tasks)
    plan = Plan.of(current, tasks, optimizer, seed=some[-1].number, budget=training.budget)
    found = await evolve(plan, arena, library, because=f"trained by {len(some)} examples", watch=watch)
    better = found.confirmed is not None and found.confirmed.gain.mean > 0
    if better:
        with suppress(RefMoved):
            because = f"trained by {len(some)} examples"
            arena.store.move(ref.name, found.best, expected=ref, because=because, by=arena.by)
    told: Json = {"search": found.search, "examples": some[-1].number, "start": current.digest, "best": found.best}
    done = Fact(
        kind="training",
        key=f"{ref.name}/{some[-1].number}",
        subject=ref.name,
        at=arena.clock(),
        by=arena.by,
        body={**told, "moved": better},
    )
    arena.store.append([done])
    return Trained(cells[0].value, len(waiting) - len(some), found)


def _line(library: Library, name: str) -> Ref:
    """The ref of a line. Raises NotFound if there is none, and SettingsError for a channel."""
    ref = library.store.ref(name) or library.store.ref(f"branches/{name}")
    if ref is None:
        raise NotFound(f"no branch is called {shown(name)}. Begin one: seedbed playbook branch")
    if not isinstance(ref.target, str):
        remedy = "Train a branch, and release what it came to."
        raise SettingsError([Problem("line", f"the channel {ref.name}", "a branch", remedy)], "training")
    return ref


def _waiting(arena: Evaluator, line: str) -> list[Fact]:
    """The examples of a line that came after those of its last search, oldest first."""
    searched = (int(fact.body["examples"]) for fact in arena.store.facts(Query(kind="training", subject=line)))
    last = max(searched, default=0)
    return [fact for fact in arena.store.facts(Query(kind="example", subject=line)) if fact.number > last]


def _task(fact: Fact) -> Task:
    about = {name: fact.body[name] for name in ("id", "inputs", "expected")}
    return Task(**about, tags=tuple(fact.body.get("tags", ())), source=fact.body.get("source", ""))
