from __future__ import annotations

from typing import Any

import pytest

from seedbed import Dataset, Task
from seedbed.errors import DatasetError
from seedbed.evaluation.datasets.seal import clear, cleared, expect_open, hold_out, retire, retirements, seals, without
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import now

MAIL = Dataset(tuple(Task(f"t{n}", {"text": f"question {n}"}, "yes", source=f"s{n // 2}") for n in range(40)))
BY: dict[str, Any] = {"by": "ann", "clock": now}


def test_a_hold_out_divides_no_source_and_the_same_seed_draws_it_again() -> None:
    first, again = (hold_out(MemoryStore(), "mail", MAIL, share=0.3, seed=1, **BY) for _ in range(2))
    assert first.ids == again.ids
    assert len(first.ids) == 12
    sources = [task.source for task in MAIL if task.id in first.ids]
    assert all(sources.count(source) == 2 for source in sources)


def test_a_dataset_is_held_out_from_once() -> None:
    store = MemoryStore()
    seal = hold_out(store, "datasets/mail", MAIL, share=0.5, seed=1, **BY)
    with pytest.raises(DatasetError, match="a part that is held out"):
        hold_out(store, "mail", MAIL, share=0.5, seed=2, **BY)
    with pytest.raises(DatasetError, match="a part that is held out"):
        hold_out(store, "other", MAIL.with_splits({"held-out": ["t1"]}), share=0.5, seed=2, **BY)
    assert seals(store) == seals(store, "mail") == [seal]
    assert len(seal.tasks(store)) == 20


def test_what_is_held_out_is_known_in_other_words_and_as_a_demo() -> None:
    store = MemoryStore()
    expect_open(store, MAIL)
    held = hold_out(store, "mail", MAIL, share=0.5, seed=1, **BY).tasks(store).tasks[0]
    with pytest.raises(DatasetError, match="tasks: found 1 that are held out in mail"):
        expect_open(store, [Task("x", {"text": f" {held.inputs['text'].upper()}!"})])
    with pytest.raises(DatasetError, match="demos: found 1 that are held out in mail"):
        expect_open(store, [], [held.inputs])
    expect_open(store, [Task("x", {"text": "something else"})])


def test_the_first_retirement_of_a_task_counts() -> None:
    store = MemoryStore()
    one = retire(store, "mail", MAIL.tasks[0], known=False, because=" broken ", **BY)
    two = retire(store, "mail", MAIL.tasks[0], known=True, because="again", **BY)
    assert (one, one.because, retirements(store, "mail"), retirements(store, "other")) == (two, "broken", [one], [])
    assert len(without(MAIL, {one.key})) == 39
    assert without(MAIL, set()) is MAIL
    with pytest.raises(DatasetError, match="because"):
        retire(store, "mail", MAIL.tasks[1], known=False, because=" ", **BY)


def test_a_cleared_task_is_known_by_what_it_asks() -> None:
    store = MemoryStore()
    clear(store, "mail", MAIL.tasks[0], because="another customer", **BY)
    assert len(cleared(store)) == 1
