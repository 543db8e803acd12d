"""Cells: named after the run they score, kept in columns, found again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from seedbed import ExactMatch, metric
from seedbed.errors import StoreDamaged
from seedbed.evaluation.cells import ALIKE, FEW, Cell, Cells, Naming, recorded_cells
from seedbed.evaluation.datasets.dataset import Task
from seedbed.runs.run import Run
from seedbed.storage import open_store
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
    tokens=7,
    latency_seconds=1.5,
    reused=True,
)


def length(run: Run, _: Task) -> float:
    return float(len(run.output))


UNSCORED = replace(CELL, key="k1", metric="contains", value=None, reason="no answer", reused=False)


def test_columns_give_every_cell_back_as_it_was() -> None:
    cells = Cells(PLAYBOOK, [CELL, UNSCORED])
    assert list(cells) == [CELL, UNSCORED]
    assert cells[-1] == UNSCORED
    assert cells[1:] == Cells(PLAYBOOK, [UNSCORED])
    assert list(cells.of("contains")) == [UNSCORED]
    assert cells.column("cost_usd").tolist() == [0.25, 0.25]
    assert cells.column("tokens").tolist() == [7, 7]
    assert cells.column("reused").tolist() == [True, False]
    assert cells.texts("reason") == ["half", "no answer"]


def test_some_of_the_columns_are_as_the_cells_they_were_taken_from() -> None:
    cells = Cells(PLAYBOOK, [CELL, UNSCORED])
    turned = cells.take([1, 0, 1])
    assert list(turned) == [UNSCORED, CELL, UNSCORED]
    assert turned.metrics == ["contains", "exact_match"]
    turned.append(CELL)
    assert (len(turned), len(cells)) == (4, 2)
    assert list(cells.where(cells.column("reused"))) == [CELL]
    assert (cells.take([]).metrics, list(cells.of("unheard of"))) == ([], [])


def test_a_cell_read_from_its_fact_is_the_cell_that_was_paid() -> None:
    paid = [replace(CELL, key=f"k{n}", task=f"t{n}", value=float(n), metric=f"m{n % 3}") for n in range(1500)]
    store = MemoryStore()
    store.append(cell.fact(datetime.now(UTC), "ada") for cell in paid)
    assert list(recorded_cells(store, PLAYBOOK, [cell.key for cell in paid])) == paid


@pytest.mark.parametrize("body", ["'{'", "body || ',' || body", "'[]'", "'{}'"])
def test_a_cell_that_is_no_longer_whole_is_told(tmp_path: Path, body: str) -> None:
    store = open_store(f"sqlite:///{tmp_path}/seedbed.db")
    store.append(replace(CELL, key=f"k{n}").fact(datetime.now(UTC), "ada") for n in range(3))
    with closing(sqlite3.connect(tmp_path / "seedbed.db")) as db, db:
        db.execute(f"UPDATE facts SET body = {body} WHERE key = 'k1'")
    cells = recorded_cells(store, PLAYBOOK, ["k0", "k1", "k2"])
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="seedbed store verify"):
            list(cells)
    store.close()


def test_the_name_of_a_cell_ends_with_the_digest_of_its_task() -> None:
    naming = Naming(PLAYBOOK, {}, [ExactMatch().identity])
    odd = Task('"t\\0"', {"z": 1.0, "ü": ["\n", None, True], "a": {"c": 1, "b": 1e300}}, {"y": [0.5], "x": 2.0})
    for task in (odd, Task("t1", {}), Task("t2", {"q": "\u2028 \x7f"}, "expected")):
        assert naming(task, 0).cells[0].endswith("/" + task.digest[3:19])


def test_another_metric_or_expected_answer_names_the_same_run_and_another_input_does_not() -> None:
    task = Task("t0", {"q": "why"}, "so")
    first = Naming(PLAYBOOK, {}, [ExactMatch().identity])(task, 0)
    other = Naming(PLAYBOOK, {}, [metric(length).identity])(Task("t1", {"q": "why"}, "not so"), 0)
    assert first.run == other.run
    assert first.cells != other.cells
    named = Naming(PLAYBOOK, {}, [ExactMatch().identity])
    assert len({first.run, named(task, 1).run, named(Task("t0", {"q": "how"}, "so"), 0).run}) == 3
    assert Naming(PLAYBOOK, {"fast": {"use": "other"}}, [ExactMatch().identity])(task, 0).run != first.run


def test_the_runs_of_a_playbook_lie_together_by_name_and_apart_from_those_of_others() -> None:
    tasks = [Task(f"t{number}", {"q": str(number)}) for number in range(200)]
    names = [[Naming(f"b2:{playbook}", {}, [])(task, 0).run for task in tasks] for playbook in range(3)]
    runs = [run for own in names for run in own]
    assert [{run[:ALIKE] for run in own} for own in names] == [{own[0][:ALIKE]} for own in names]
    assert len({own[0][:ALIKE] for own in names}) == 3
    assert len({run[:10] for run in runs}) == len(runs)
    assert {len(run) for run in runs} == {32}


@pytest.mark.parametrize("more", [0, FEW], ids=["by name", "by looking through all"])
def test_cells_that_were_paid_before_are_found_and_no_others(more: int) -> None:
    store = MemoryStore()
    store.append(cell.fact(datetime.now(UTC), "ada") for cell in (CELL, UNSCORED))
    keys = ["k0", "absent", *(f"absent {n}" for n in range(more))]
    assert list(recorded_cells(store, PLAYBOOK, keys)) == [CELL]
