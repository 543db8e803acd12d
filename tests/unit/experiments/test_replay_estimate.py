"""What live runs would show, from many replays and a few live runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from replay_samples import estimate_replayed

from seedbed.errors import BudgetSpent, SeedbedError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.experiments.replay.history import History, draw_history, find_past_runs
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run, RunLabels
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

MODELS = {
    # An answer costs a dollar.
    "m": {"use": "scripted", "args": {"replies": {"even": "yes", ".": "no"}}, "usd_per_million": [0, 1_000_000]}
}


async def agent(task: Mapping[str, Any], stage: Stage) -> Any:
    """The old one says no. The new one is right about all numbers but those that a tool of today warns of."""
    said = (await stage.ask("writer", f"Is {task['n']} {'even' if task['n'] % 2 == 0 else 'odd'}?", step="say")).text
    if stage.playbook.parameter("new") == 0:
        return "no"
    warned = await stage.call("warn", n=task["n"])
    return "maybe" if warned else said


def book(new: float) -> Playbook:
    roles = {"writer": {"model": "m", "system": "Answer.", "max_tokens": 1}}
    parameters = {"new": {"value": new, "low": 0, "high": 1}}
    return Playbook.from_document({"program": f"{__name__}:agent", "roles": roles, "parameters": parameters})


OLD, NEW = book(0), book(1)


@tool(effect="reads")
def warn(n: int) -> bool:
    """Of every fifth number."""
    return n % 5 == 0


def workspace() -> Workspace:
    space = Workspace(Settings.model_validate({"by": "ada", "models": MODELS}), MemoryStore())
    space.tools = [warn]
    return space


def truth(numbers: range) -> float:
    """By how much live runs of the new one are better: right about even numbers, wrong about all it is warned of."""
    gains = [(-1 if n % 2 else 0) if n % 5 == 0 else (n % 2 == 0) for n in numbers]
    return sum(gains) / len(gains)


async def lived(space: Workspace, numbers: range) -> History:
    """Past runs, always with the same ids: so the same of them are drawn each time."""
    for n in numbers:
        await space.resources.runner.perform(OLD, {"n": n}, n, run=RunLabels(f"{n:032x}"))
    known = [Task(str(n), {"n": n}, "no" if n % 2 else "yes") for n in numbers]
    return draw_history(find_past_runs(space.store, playbook=OLD.digest), by=(), known=known)


async def test_live_runs_of_some_tasks_put_right_what_replays_of_all_say() -> None:
    space, numbers = workspace(), range(120)
    past = await lived(space, numbers)
    told, replays = await estimate_replayed(
        space, OLD, NEW, metric=ExactMatch(), past=past, live_runs=40, mode="fork:2"
    )
    assert (told.replayed, told.live, len(replays.tasks), replays.fidelity.agreement.agreed) == (120, 40, 120, 120)
    assert told.difference.low <= truth(numbers) <= told.difference.high
    assert 0 < told.weight <= 1
    assert told.difference.high - told.difference.low < told.live_alone.high - told.live_alone.low
    assert (told.says, told.failed) == ("better", 0)
    document = json.loads(json.dumps(told.document(), allow_nan=False))
    assert (document["kind"], document["says"], document["difference"]["mean"]) == (
        "estimate",
        "better",
        told.difference.mean,
    )
    assert not {"verdict", "comparison"} & space.store.kinds().keys()  # no gate can take it for a verdict


@pytest.mark.usefixtures("sighted")
async def test_replays_that_are_always_wrong_do_not_move_it() -> None:
    space, numbers = workspace(), range(120)
    past = await lived(space, numbers)
    told, *_ = await estimate_replayed(space, OLD, NEW, metric=Optimist(), past=past, live_runs=40, mode="fork:2")
    assert told.replays_alone.low > truth(numbers)
    assert told.difference.low <= truth(numbers) <= told.difference.high


class Optimist(ExactMatch):
    """Praises every replay of the new one."""

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(1.0) if run.replay and run.playbook == NEW.digest else await super().__call__(run, task)


async def test_the_same_tasks_are_drawn_for_the_same_seed_and_paid_once() -> None:
    space = workspace()
    past = await lived(space, range(20))
    how: dict[str, Any] = {"metric": ExactMatch(), "past": past, "live_runs": 5, "mode": "fork:2"}
    first, *_ = await estimate_replayed(space, OLD, NEW, **how)
    turns = len(list(space.store.facts(Query(kind="turn"))))
    again, *_ = await estimate_replayed(space, OLD, NEW, **how)
    assert (again.difference, again.spent_usd, first.spent_usd) == (first.difference, 0.0, 10.0)
    assert len(list(space.store.facts(Query(kind="turn")))) == turns
    assert first.weight == 0  # too few live runs to say how far replays can be trusted
    alone = first.live_alone
    assert (first.difference.mean, first.difference.n) == (pytest.approx(alone.mean), alone.n)
    assert (first.difference.low, first.difference.high) == pytest.approx((alone.low, alone.high))
    await estimate_replayed(space, OLD, NEW, **how, seed=1)
    assert len(list(space.store.facts(Query(kind="turn")))) > turns


async def test_live_runs_cost_no_more_than_was_said_and_go_on_with_more() -> None:
    space = workspace()
    past = await lived(space, range(20))
    how: dict[str, Any] = {"metric": ExactMatch(), "past": past, "live_runs": 10, "mode": "fork:2"}
    with pytest.raises(BudgetSpent, match="higher limit"):
        await estimate_replayed(space, OLD, NEW, **how, max_cost_usd=7.0)
    spent = sum(1 for fact in space.store.facts(Query(kind="turn")) if not fact.tags) - 20
    assert 0 < spent <= 7
    rest, *_ = await estimate_replayed(space, OLD, NEW, **how, max_cost_usd=20.0)
    assert rest.spent_usd == 20 - spent


@pytest.mark.usefixtures("sighted")
async def test_results_without_any_spread_prove_nothing() -> None:
    space = workspace()
    past = await lived(space, range(2, 42, 2))
    told, *_ = await estimate_replayed(space, OLD, NEW, metric=Always(), past=past, live_runs=5, mode="fork:2")
    assert (told.difference, told.difference.high) == (told.live_alone, 1.0)
    assert 0 < told.difference.low < 0.3


class Always(ExactMatch):
    name = "always"

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(float(run.playbook == NEW.digest))


class Wide(Always):
    name = "wide"

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(7.0)


async def test_scores_that_cannot_be_compared_are_refused() -> None:
    space = workspace()
    past = await lived(space, range(4))
    with pytest.raises(SeedbedError, match="expected a score from 0 to 1"):
        await estimate_replayed(space, OLD, NEW, metric=Wide(), past=past, live_runs=2, mode="fork:2")


async def test_where_lower_is_better_a_fall_is_a_gain() -> None:
    space = workspace()
    past = await lived(space, range(40))
    told, *_ = await estimate_replayed(space, OLD, NEW, metric=Errors(), past=past, live_runs=30, mode="fork:2")
    assert told.difference.mean < 0
    assert told.says == "better"


class Errors(ExactMatch):
    name, better = "errors", "lower"

    async def __call__(self, run: Run, task: Task) -> Score:
        score = await super().__call__(run, task)
        return Score(1 - (score.value or 0.0))
