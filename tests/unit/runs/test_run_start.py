"""The conditions of a run are read back as they were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart, conditions, json_copy
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

START = RunStart("b2:0", {"q": "why"}, seed=7, models={"m": {"use": "x"}}, max_cost_usd=0.5)


@pytest.mark.parametrize("start", [START, replace(START, real_tools=False), replace(START, parent="above")])
async def test_the_conditions_of_a_run_are_read_back_from_its_first_fact(start: RunStart) -> None:
    store = MemoryStore()
    await Recorder(Journal(store), start, by="ann").start()
    (fact,) = store.facts(Query(kind="start"))
    assert conditions(fact) == start


def test_a_copy_cannot_be_altered_from_outside() -> None:
    given = {"list": [1, (2, 3)]}
    copy = json_copy(given)
    given["list"].append(4)
    assert copy == {"list": [1, [2, 3]]}
