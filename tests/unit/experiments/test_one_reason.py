"""Work whose runs all fail for one reason stops after a few, says the reason first, and can be done again."""

from __future__ import annotations

from typing import Any

import pytest
from loop_samples import agent, bench, numbers, searched

from seedbed.errors import RunError
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.failed_runs import FEW
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.experiments.compare import run_experiment
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

OLD, NEW = agent("[0-4]|1."), agent(".*")
REASON = r"^the program failed: No such file or directory: 'prices-\d+.csv'"


class Prices:
    """What a run needs, and who has begun one."""

    def __init__(self, *broken: Playbook) -> None:
        self.broken = broken
        self.begun = 0

    async def __call__(self, playbook: Playbook, task: Any, seed: int) -> None:
        self.begun += 1
        if playbook in self.broken:
            raise RunError(f"the program failed: No such file or directory: 'prices-{task.id[1:]}.csv'")


async def work(name: str, store: MemoryStore, prices: Prices) -> Any:
    context = bench(store, prices, at_once=2)
    if name == "evaluation":
        return await evaluate(OLD, numbers(40), ExactMatch(), context)
    if name == "comparison":
        return await run_experiment(OLD, NEW, numbers(40), ExactMatch(), context)
    return await searched(OLD, numbers(40), BestOf([NEW]), context)


@pytest.mark.parametrize("name", ["evaluation", "comparison", "search"])
async def test_work_of_which_all_runs_fail_for_one_reason_stops_and_can_be_done_again(name: str) -> None:
    store, prices = MemoryStore(), Prices(OLD, NEW)
    with pytest.raises(RunError, match=REASON):
        await work(name, store, prices)
    assert FEW <= prices.begun < 2 * FEW
    assert not {"verdict", "evolution", "lapse"} & store.kinds().keys()
    assert await work(name, store, Prices())
    assert "lapse" not in store.kinds()


@pytest.mark.parametrize("name", ["comparison", "search"])
async def test_a_candidate_that_always_fails_stops_nothing(name: str) -> None:
    store = MemoryStore()
    assert await work(name, store, Prices(NEW))
    assert len(list(store.facts(Query(kind="lapse")))) > FEW


async def test_a_comparison_of_few_runs_that_all_fail_for_one_reason_has_no_verdict() -> None:
    store = MemoryStore()
    with pytest.raises(RunError, match=REASON):
        await run_experiment(OLD, NEW, numbers(3), ExactMatch(), bench(store, Prices(OLD, NEW)))
    assert "verdict" not in store.kinds()


async def test_runs_that_fail_for_different_reasons_stop_nothing() -> None:
    async def fail(playbook: Playbook, task: Any, seed: int) -> None:
        raise RunError("no file" if int(task.id[1:]) % 2 else "no network")

    card = await evaluate(OLD, numbers(20), ExactMatch(), bench(MemoryStore(), fail))
    assert not card.scored


async def test_the_money_of_an_evaluation_that_is_spent_is_no_failure() -> None:
    card = await evaluate(OLD, numbers(20), ExactMatch(), bench(MemoryStore()), max_cost_usd=0.0)
    assert len(card.unpaid) == 20
