"""What both said at the tasks of a verdict, and samples of it that do not tell whose they are."""

from __future__ import annotations

import pytest
from release_samples import NEW, OLD, TASKS, compared, kept

from seedbed.errors import NotFound
from seedbed.experiments.proof.outputs import read_output_pairs, read_tool_calls
from seedbed.release.review.samples import draw_samples


async def test_the_outputs_of_both_stand_side_by_side() -> None:
    library = kept()
    verdict = await compared(library)
    found = read_output_pairs(library.store, verdict)
    assert len(found) == verdict.tasks
    for pair in found:
        assert (pair.control, pair.candidate) == ("hm", pair.task.expected)
        assert pair.differs
    assert read_tool_calls(library.store, verdict) == ({}, {})


async def test_runs_that_are_elsewhere_are_missing_and_not_forgotten() -> None:
    library, elsewhere = kept(), kept()
    verdict = await compared(elsewhere)
    with pytest.raises(NotFound):
        read_output_pairs(library.store, verdict)
    library.store.put("experiment", elsewhere.store.get(verdict.experiment))
    library.store.put("dataset", TASKS.content())
    with pytest.raises(NotFound, match=f"no score of {OLD.digest[3:13]}"):
        read_output_pairs(library.store, verdict)


async def test_samples_are_swapped_by_chance_and_stay_the_same_for_a_reviewer() -> None:
    library = kept()
    found = read_output_pairs(library.store, await compared(library, tasks=TASKS, rule="betting"))
    ann, again = (draw_samples(found, NEW.digest, "ann", 10) for _ in range(2))
    assert ann == again
    assert ann != draw_samples(found, NEW.digest, "ben", 10)
    assert ann != draw_samples(found, OLD.digest, "ann", 10)
    assert {each.swapped for each in ann} == {True, False}
    for each in ann:
        assert (each.left if each.swapped else each.right) == each.task.expected


async def test_outputs_that_are_the_same_are_no_samples() -> None:
    library = kept()
    found = read_output_pairs(library.store, await compared(library, OLD, OLD))
    assert found
    assert draw_samples(found, OLD.digest, "ann") == []
