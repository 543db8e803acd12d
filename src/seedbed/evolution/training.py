"""train(): one step of a system that learns from live tasks, with a search whenever enough of them have come in, and a
way back if what it learned turns out to be worse."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from seedbed.errors import NotFound, Problem, RefMoved, SettingsError, expect_type, shown
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.seal import expect_open
from seedbed.evaluation.metrics.metric import better
from seedbed.evolution.confirmation import CHOOSING, CONFIRMING
from seedbed.evolution.evaluators import Evaluator, known_cells, new_fact
from seedbed.evolution.evolve import OnProgress, evolve
from seedbed.evolution.optimizers.reflection import Propose
from seedbed.evolution.plan import Plan, SearchOptions, plan_search, split_tasks
from seedbed.evolution.protocols import Optimizer
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.spending.ledger import Ledger
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.stopping_rule import Conclusion
from seedbed.storage.store import Fact, Json, Query, Ref

PROBATION = 200
"""So many examples after a move are also answered by the playbook of before."""
SURE = 0.05
"""The chance that a move is taken back although the new playbook is no worse."""

ENOUGH = 2 * CHOOSING
"""So many examples that half of them are enough to choose by: half choose, a quarter is read, a quarter confirms."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """The result of a step of training: the score of the answer, how many examples wait, the search, if one ran, and
    whether the branch went back to the playbook of before."""

    score: float | None
    waiting: int
    evolution: Evolution | None = None
    returned: bool = False


@dataclass(frozen=True)
class Training:
    """How a branch learns: a search over `enough` new examples moves it if a quarter of them confirms an improvement,
    by more than chance (see Evolution.is_confirmed). The next 200 examples are also answered by the playbook of before:
    if that turns out to be better, the branch goes back to it.

    `branch` may be any ref but a channel, so nobody is served by it before it is released. `optimizer` is a name or an
    object; `instructions` and `reflector` are what it makes candidates from (see SearchInputs).
    """

    branch: str
    optimizer: str | Optimizer = "portfolio"
    instructions: tuple[str, ...] = ()
    reflector: str | Propose | None = None
    enough: int = ENOUGH
    budget: Budget = Budget(runs=400)  # noqa: RUF009 - it is frozen

    def __post_init__(self) -> None:
        expect_type(self.branch, str, "branch", "the name of a branch")
        if self.enough < ENOUGH:
            remedy = f"Half of them choose, which takes {CHOOSING}; a quarter confirm, which takes {CONFIRMING}."
            raise SettingsError([Problem("enough", shown(self.enough), f"at least {ENOUGH}", remedy)], "training")


async def train(
    training: Training, task: Task, evaluator: Evaluator, library: Library, on_event: OnProgress | None = None
) -> TrainingStep:
    """Answer the task with the playbook of the branch, store it as an example, and search if enough examples wait.

    A step becomes a fact when all of it is done, including the move of the branch. After an interruption the next step
    resumes the search. If two processes search at once, the first to finish moves the branch.
    """
    ref = _branch(library, training.branch)
    expect_open(library.store, [task])
    current = library.get(str(ref.target))
    key, move = f"{ref.name}/{task.digest}", _probation(evaluator, ref, current)
    score = await _score(evaluator, current, task)
    body: Json = {**task.body(), "playbook": current.digest, "score": score}
    if move:
        body["before"] = await _score(evaluator, library.get(move.body["start"]), task)
    evaluator.store.append([new_fact(evaluator, "example", key, ref.name, body, score)])
    waiting = _waiting(evaluator, ref.name)
    if move and judge(_gains(evaluator, ref, move)) == "inferior":
        return TrainingStep(score, len(waiting), returned=_go_back(evaluator, ref, move))
    if len(waiting) < training.enough:
        return TrainingStep(score, len(waiting))
    examples, because = waiting[: training.enough], f"trained by {training.enough} examples"
    last = examples[-1].number
    plan = _plan(training, current, examples)
    evolution = await evolve(plan, evaluator, library, because=because, on_event=on_event)
    if evolution.is_confirmed:
        with suppress(RefMoved):
            evaluator.store.move(ref.name, evolution.best, expected=ref, because=because, by=evaluator.by)
    body = {"search": evolution.search, "examples": last, "start": current.digest, "best": evolution.best}
    body["moved"] = evolution.is_confirmed
    evaluator.store.append([new_fact(evaluator, "training", f"{ref.name}/{last}", ref.name, body)])
    return TrainingStep(score, len(waiting) - len(examples), evolution)


async def _score(evaluator: Evaluator, playbook: Playbook, task: Task) -> float | None:
    work = [(playbook, [(task, 0)])]
    async with evaluator.present():
        paid = known_cells(evaluator, work) or await evaluator.pay(work, Ledger(), lambda failed: None)
    (cells,) = paid.values()
    return cells[0].value


def _probation(evaluator: Evaluator, ref: Ref, current: Playbook) -> Fact | None:
    """The move by which a branch came to its playbook, if that was not long ago and its result is still open."""
    facts = evaluator.store.facts(Query(kind="training", subject=ref.name, newest=True))
    move = next((fact for fact in facts if fact.body["moved"]), None)
    if move is None or move.body["best"] != current.digest or move.body.get("returned"):
        return None
    return move if judge(_gains(evaluator, ref, move)) == "continue" else None


def _gains(evaluator: Evaluator, ref: Ref, move: Fact) -> list[float]:
    """By how much the playbook of a move did better than the one of before, on each example since.

    A failed run counts as 0 where higher is better, as in a confirmation. Of gains beyond 1, only the sign counts.
    """
    higher = better(evaluator.metrics[0]) == "higher"
    gains = []
    for fact in evaluator.store.facts(Query(kind="example", subject=ref.name)):
        if fact.number < move.number or "before" not in fact.body or fact.body["playbook"] != move.body["best"]:
            continue
        new, old = (0.0 if each is None and higher else each for each in (fact.body["score"], fact.body["before"]))
        if new is not None and old is not None:
            gains.append(new - old if higher else old - new)
    is_share = all(-1 <= gain <= 1 for gain in gains)
    return gains if is_share else [float(gain > 0) - float(gain < 0) for gain in gains]


def judge(gains: Sequence[float]) -> Conclusion | Literal["continue"]:
    """What gains say of a playbook, by a bet that calls one worse ("inferior") that is not with a chance of at most
    `SURE`, however often this is looked at. It goes on until `PROBATION` gains are known."""
    rule = Betting(alpha=SURE, at_most=PROBATION)
    for gain in gains:
        if (verdict := rule.update(gain).verdict) != "continue":
            return verdict
    return "continue"


def _go_back(evaluator: Evaluator, ref: Ref, move: Fact) -> bool:
    """Take a move back; False if somebody moved the branch in the meantime."""
    because = "on later examples it was worse than the one of before"
    try:
        evaluator.store.move(ref.name, move.body["start"], expected=ref, because=because, by=evaluator.by)
    except RefMoved:
        return False
    body = {**move.body, "start": move.body["best"], "best": move.body["start"], "returned": True}
    evaluator.store.append([new_fact(evaluator, "training", f"{move.key}/back", ref.name, body)])
    return True


def _plan(training: Training, start: Playbook, examples: list[Fact]) -> Plan:
    tasks = split_tasks(Dataset(tuple(_task(fact.body) for fact in examples)), seed=len(examples))
    options = SearchOptions(
        optimizer=training.optimizer,
        budget=training.budget,
        instructions=training.instructions,
        reflector=training.reflector,
        seed=examples[-1].number,
    )
    return plan_search(start, tasks, options)


def _branch(library: Library, name: str) -> Ref:
    """The ref of a branch. Raises NotFound if there is none, and SettingsError for a channel."""
    ref = library.store.ref(name) or library.store.ref(f"branches/{name}")
    if ref is None:
        raise NotFound(f"no branch is called {shown(name)}. Create one: seedbed playbook branch")
    if not isinstance(ref.target, str):
        remedy = "Train a branch, and release the playbook that it arrives at."
        raise SettingsError([Problem("branch", f"the channel {ref.name}", "a branch", remedy)], "training")
    return ref


def _waiting(evaluator: Evaluator, branch: str) -> list[Fact]:
    """The examples of a branch that came after those of its last search, oldest first."""
    searched = (int(fact.body["examples"]) for fact in evaluator.store.facts(Query(kind="training", subject=branch)))
    last = max(searched, default=0)
    return [fact for fact in evaluator.store.facts(Query(kind="example", subject=branch)) if fact.number > last]


def _task(body: Json) -> Task:
    tags, source = tuple(body.get("tags", ())), body.get("source", "")
    return Task(body["id"], body["inputs"], body["expected"], tags, source)
