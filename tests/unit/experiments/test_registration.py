"""What a comparison is registered as; tests/attacks has more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_samples import CONFIRMING, agent, bench, numbers

from seedbed.errors import SettingsError
from seedbed.evaluation.datasets.seal import retire
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.attempts import list_attempts
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.experiments.registration import Registration
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, now

OLD, NEW, OTHER = agent("x"), agent(".*"), agent("[0-9]*")
TASKS = numbers(30)


def registration(store: MemoryStore, *candidates: object, options: Comparing = CONFIRMING) -> Registration:
    return Registration(OLD, candidates or [NEW], TASKS, ExactMatch(), bench(store), options)  # type: ignore[arg-type]


def test_an_attempt_that_never_began_is_taken_up_again() -> None:
    store = MemoryStore()
    one, again = (registration(store).register() for _ in range(2))
    assert one == again
    assert [(each.number, each.finding) for each in list_attempts(store)] == [(1, "open")]


def test_a_group_is_one_attempt_and_other_candidates_are_another() -> None:
    store = MemoryStore()
    group = registration(store, NEW, OTHER).register()
    (alone,) = registration(store, NEW).register()
    assert [each.plan.attempt for each in (*group, alone)] == [1, 1, 2]
    assert [each.plan.rule["alpha"] for each in group] == [0.05 * 15 / 16 / 2] * 2
    assert [(each.number, each.share) for each in list_attempts(store, OLD.digest)][:2] == [(1, 15 / 32)] * 2


def test_a_budget_that_is_not_required_pays_for_an_exploratory_comparison() -> None:
    for why in ("", "nobody asks for it"):
        options = Comparing(channel="production", terms=BudgetTerms(unpaid=why))
        (registered,) = registration(MemoryStore(), options=options).register()
        assert (registered.plan.mode, registered.why) == ("exploratory" if why else "confirmatory", why)
    with pytest.raises(SettingsError, match="the error budget of channel"):
        registration(MemoryStore(), options=replace(options, alpha=0.1)).register()


async def test_retired_tasks_are_registered_and_others_leave_no_trace() -> None:
    store = MemoryStore()
    (before,) = registration(store).register()
    assert "retired" not in before.plan.content()
    store = MemoryStore()
    retire(store, "mail", TASKS.tasks[4], known=True, because="broken", by="ann", clock=now)
    (after,) = registration(store).register()
    assert after.plan.retired == (TASKS.tasks[4].id,)
    assert Experiment.from_content(after.plan.content()) == after.plan
    verdict = await run_experiment(OLD, NEW, TASKS, ExactMatch(), bench(store), replace(CONFIRMING, rule="betting"))
    assert verdict.attempt == 2


async def test_a_preview_is_what_registering_gives_and_leaves_no_trace() -> None:
    store = MemoryStore()
    coming = registration(store).preview()
    assert (coming.mode, coming.attempt, coming.level, coming.fresh) == ("confirmatory", 1, 0.05 * 15 / 16, 30)
    assert (coming.why, coming.remedy) == ("", "")
    assert (list_attempts(store), list(store.facts(Query(kind="derivation")))) == ([], [])
    await run_experiment(OLD, NEW, TASKS, ExactMatch(), bench(store), CONFIRMING)
    assert registration(store).preview() == coming
    late = registration(store, options=replace(CONFIRMING, seed=1)).preview()
    assert (late.mode, late.attempt, late.fresh < 30) == ("exploratory", 0, True)
    assert "results of the candidate were known" in late.why
    assert "dataset hold-out" in late.remedy
    assert registration(store, options=replace(CONFIRMING, exploratory=True)).preview().remedy == ""
