"""Cells: named after the run they score, kept in columns, found again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from seedbed import ExactMatch, metric
from seedbed.evaluation.cells import FEW, Cell, Cells, Naming, recorded
from seedbed.evaluation.dataset import Task
from seedbed.storage.memory import MemoryStore

PLAYBOOK = "b2:" + "1" * 64
CELL = Cell(
    key="k0",
    playbook=PLAYBOOK,
    task="t0",
    replicate=2,
    metric="exact_match",
    value=0.5,
    reason="half",
    answer="ü",
    run="r0",
    cost_usd=0.25,
    latency_seconds=1.5,
    reused=True,
)


def length(output: str) -> float:
    return float(len(output))


UNSCORED = replace(CELL, key="k1", metric="contains", value=None, reason="no answer", reused=False)


def test_columns_give_every_cell_back_as_it_was() -> None:
    cells = Cells(PLAYBOOK, [CELL, UNSCORED])
    assert list(cells) == [CELL, UNSCORED]
    assert cells[-1] == UNSCORED
    assert cells[1:] == Cells(PLAYBOOK, [UNSCORED])
    assert list(cells.of("contains")) == [UNSCORED]
    assert cells.column("cost_usd").tolist() == [0.25, 0.25]


def test_another_metric_or_expected_answer_names_the_same_run_and_another_input_does_not() -> None:
    task = Task("t0", {"q": "why"}, "so")
    first = Naming(PLAYBOOK, {}, [ExactMatch()])(task, 0)
    other = Naming(PLAYBOOK, {}, [metric(length)])(Task("t1", {"q": "why"}, "not so"), 0)
    assert first.run == other.run
    assert first.cells != other.cells
    named = Naming(PLAYBOOK, {}, [ExactMatch()])
    assert len({first.run, named(task, 1).run, named(Task("t0", {"q": "how"}, "so"), 0).run}) == 3
    assert Naming(PLAYBOOK, {"fast": {"use": "other"}}, [ExactMatch()])(task, 0).run != first.run


@pytest.mark.parametrize("more", [0, FEW], ids=["by name", "by looking through all"])
def test_cells_that_were_paid_before_are_found_and_no_others(more: int) -> None:
    store = MemoryStore()
    store.append(cell.fact(datetime.now(UTC), "ada") for cell in (CELL, UNSCORED))
    keys = ["k0", "absent", *(f"absent {n}" for n in range(more))]
    assert recorded(store, PLAYBOOK, keys) == {"k0": CELL}
