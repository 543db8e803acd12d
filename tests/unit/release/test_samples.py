"""Samples of outputs that do not tell whose they are."""

from __future__ import annotations

from release_samples import NEW, OLD, TASKS, compared, kept

from seedbed.experiments.proof.outputs import read_output_pairs
from seedbed.release.review.samples import draw_samples


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
