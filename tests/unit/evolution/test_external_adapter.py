"""An optimizer that calls an evaluator, in a thread of its own, as a search asks and tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from driven import REFLECT, Driven, playbook

from seedbed.errors import SeedbedError
from seedbed.evolution.optimizers.external.adapter import ExternalOptimizer, SearchBridge, TrialRequest, TrialResult
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook

ONE, OTHER = playbook("one"), playbook("other")


class Working(ExternalOptimizer):
    """Does in its thread what it is given to do."""

    package = "json"
    identity: ClassVar = {"optimizer": "working"}

    def __init__(self, work: Callable[[SearchBridge], None]) -> None:
        self._work = work

    def work(self) -> Callable[[SearchBridge], None]:
        return self._work

    async def answer(self, question: Any) -> Any:
        return f"{question}, indeed"


def scored(found: Playbook, task: str) -> float | None:
    return {"one": 0.25, "other": 0.75}.get(found.roles["agent"].system, 0.5)


async def test_what_the_thread_wants_to_be_tried_is_offered_and_its_scores_are_told() -> None:
    told: list[list[TrialResult]] = []

    def work(bridge: SearchBridge) -> None:
        told.append(bridge.try_playbook(TrialRequest(ONE, ("t1", "r0"))))
        told.append(bridge.try_playbook(TrialRequest(OTHER, ("t0",), (ONE.digest,), "changed")))

    driven = await Driven(Working(work), playbook(), scored, tasks=2).run(9)
    assert driven.offers == [Offer(ONE, tasks=("t1", "r0")), Offer(OTHER, (ONE.digest,), "changed", ("t0",))]
    assert [[result.score for result in results] for results in told] == [[0.25, 0.25], [0.75]]
    assert [result.cell.task for result in told[0] if result.cell] == ["t1", "r0"]


async def test_what_is_known_is_not_offered_again_whoever_had_it_paid() -> None:
    told: list[TrialResult] = []

    def work(bridge: SearchBridge) -> None:
        for tasks in (("t0", "t1"), ("t1", "r0", "t1")):
            told.extend(bridge.try_playbook(TrialRequest(ONE, tasks)))

    driven = Driven(Working(work), playbook(), scored, tasks=2)
    driven.pay([Offer(ONE, tasks=("t0",))])
    await driven.run(9)
    assert [offer.tasks for offer in driven.offers] == [("t1",), ("r0",)]
    assert [result.score for result in told] == [0.25] * 5
    assert told[0].cell is None


async def test_without_tasks_the_search_decides_which_and_only_once() -> None:
    def work(bridge: SearchBridge) -> None:
        assert bridge.try_playbook(TrialRequest(ONE, None)) == []
        assert bridge.try_playbook(TrialRequest(ONE, None)) == []

    driven = await Driven(Working(work), playbook(), scored, tasks=2).run(9)
    assert driven.offers == [Offer(ONE)]


async def test_what_fails_wherever_it_is_tried_is_offered_only_once() -> None:
    def work(bridge: SearchBridge) -> None:
        bridge.try_playbook(TrialRequest(ONE, None))
        bridge.try_playbook(TrialRequest(OTHER, ("t0",)))

    driven = await Driven(Working(work), playbook(), lambda found, task: None, better="lower").run(9)
    assert driven.offers == [Offer(ONE), Offer(OTHER, tasks=("t0",))]


async def test_other_questions_are_answered_in_the_search() -> None:
    answers: list[Any] = []
    driven = Driven(Working(lambda bridge: answers.append(bridge.ask("good"))), playbook(), scored)
    assert list(await driven.step()) == []
    assert answers == ["good, indeed"]


async def test_what_goes_wrong_in_the_thread_is_raised_in_the_search() -> None:
    def work(bridge: SearchBridge) -> None:
        raise ZeroDivisionError("by nothing")

    driven = Driven(Working(work), playbook(), scored)
    with pytest.raises(SeedbedError, match="json: by nothing"):
        await driven.step()
    assert list(await driven.step()) == []


async def test_one_that_only_asks_for_what_is_known_has_nothing_more_to_offer() -> None:
    def work(bridge: SearchBridge) -> None:
        while True:
            bridge.try_playbook(TrialRequest(ONE, ("t0",)))

    driven = Driven(Working(work), playbook(), scored)
    assert len(await driven.step()) == 1
    assert list(await driven.step()) == []


async def test_a_run_that_failed_where_less_is_better_is_as_bad_as_the_worst() -> None:
    told: list[TrialResult] = []

    def work(bridge: SearchBridge) -> None:
        told.extend(bridge.try_playbook(TrialRequest(ONE, ("t0",))))

    def seconds(found: Playbook, task: str) -> float | None:
        return None if found == ONE else 3.0

    await Driven(Working(work), playbook(), seconds, better="lower").run(9)
    assert [result.score for result in told] == [-3.0]


async def test_only_the_runs_of_tasks_that_may_be_read_are_read() -> None:
    told: list[TrialResult] = []

    def work(bridge: SearchBridge) -> None:
        told.extend(bridge.try_playbook(TrialRequest(ONE, ("t0", REFLECT[0].id))))

    asked: list[str] = []
    driven = Driven(Working(work), playbook(), scored)
    object.__setattr__(driven.search, "transcript", asked.append)
    (offer,) = await driven.optimizer.ask()
    cells = driven.pay([offer])
    for cell in cells:
        object.__setattr__(cell, "run", f"run of {cell.task}")
    await driven.optimizer.tell(cells)
    await driven.optimizer.ask()
    assert asked == ["run of r0"]


async def test_another_search_ends_the_thread_of_the_one_before() -> None:
    threads: list[threading.Thread] = []

    def work(bridge: SearchBridge) -> None:
        threads.append(threading.current_thread())
        bridge.try_playbook(TrialRequest(ONE, ("t0",)))

    optimizer = Working(work)
    assert len(await Driven(optimizer, playbook(), scored).optimizer.ask()) == 1
    driven = Driven(optimizer, playbook(), scored)
    threads[0].join(timeout=60)
    assert not threads[0].is_alive()
    assert len(await driven.step()) == 1
