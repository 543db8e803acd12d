from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from loop_samples import agent, bench, numbers
from rich.console import Console

from seedbed.cli.views.verdict import forecast_view
from seedbed.errors import SeedbedError
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.experiment import Design, Experiment
from seedbed.experiments.forecast import Forecast, forecast, forecast_experiment
from seedbed.experiments.options import Comparing
from seedbed.experiments.slices import SliceTerms
from seedbed.storage.memory import MemoryStore

OLD, NEW = agent("x"), agent(".*")
TASKS = numbers(100)


def plan(**options: Any) -> Experiment:
    return Experiment.plan(OLD.digest, NEW.digest, TASKS, ExactMatch(), models={}, design=Design(**options))


def test_it_tells_what_to_expect_and_changes_nothing() -> None:
    store = MemoryStore()
    told = forecast_experiment(store, plan(), TASKS, effect=0.2)
    assert store.kinds() == {}
    assert (told.units, told.runs_per_unit, told.usd_per_unit) == (100, 2, None)
    assert told.expected.false_alarm <= 0.05 < told.expected.power
    powers = [power for _, power in told.curve]
    assert powers == sorted(powers)
    assert told.curve[0][0] == 0.0
    assert told.fixed > told.expected.tasks_if_better
    assert told.document()["expected_cost_usd"] == {"equal": None, "better": None, "worse": None}


def test_it_tells_that_more_tasks_may_be_run_for_the_tags() -> None:
    store, tasks = MemoryStore(), Dataset(tuple(replace(task, tags=(f"{n % 3}",)) for n, task in enumerate(TASKS)))
    told = forecast(OLD, NEW, tasks, ExactMatch(), store, Comparing(slices=(SliceTerms(), SliceTerms(least=34))))
    assert (told.tags, told.tag_units) == (3, 100)
    assert forecast(OLD, NEW, tasks, ExactMatch(), store).tags == 0
    assert forecast(OLD, NEW, tasks, ExactMatch(), store, Comparing(slices=(SliceTerms(),), exploratory=True)).tags == 0
    assert "if superior, up to 100 tasks in all to see whether any of 3 tags is worse" in " ".join(shown(told).split())


def shown(told: Forecast) -> str:
    console = Console(width=160, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(forecast_view(told))
    return captured.get()


def test_those_who_give_up_sooner_need_fewer_tasks_for_candidates_that_are_no_better() -> None:
    store = MemoryStore()
    patient, eager = (
        forecast_experiment(store, plan(rule=rule), TASKS, effect=0.2) for rule in (None, {"effect": 0.2})
    )
    assert eager.expected.tasks_if_equal < patient.expected.tasks_if_equal
    assert eager.expected.tasks_if_worse < patient.expected.tasks_if_worse


async def test_costs_are_those_of_the_latest_runs_of_both() -> None:
    store = MemoryStore()
    dear = {"use": "scripted", "args": {"replies": {".": "one"}}, "usd_per_million": [1000, 1000]}
    costs = []
    for playbook in (OLD, NEW):
        card = await evaluate(playbook, numbers(5), ExactMatch(), bench(store, oracle=dear))
        costs.append(sum(cell.cost_usd for cell in card.cells) / 5)
    assert forecast_experiment(store, plan(), TASKS, effect=0.2).usd_per_unit == pytest.approx(sum(costs))
    assert forecast_experiment(store, plan(replicates=3), TASKS, effect=0.2).usd_per_unit == pytest.approx(
        3 * sum(costs)
    )


def test_an_effect_that_cannot_be_is_refused() -> None:
    with pytest.raises(SeedbedError, match="effect: found"):
        forecast_experiment(MemoryStore(), plan(), TASKS, effect=0.4, discordance=0.3)
