"""What both said at the tasks of a verdict."""

from __future__ import annotations

import pytest
from release_samples import OLD, TASKS, compared, kept

from seedbed.errors import NotFound
from seedbed.experiments.proof.outputs import read_output_pairs, read_tool_calls


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
