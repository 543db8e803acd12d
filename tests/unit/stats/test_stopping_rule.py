from __future__ import annotations

import json

import numpy as np
import pytest

from seedbed.errors import SeedbedError
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.stopping_rule import Ends


def test_ends_count_the_share_of_any_of_several_verdicts() -> None:
    ends = Ends(np.array(["superior", "futile", "inferior", "futile"]), np.array([1, 2, 3, 4]))
    assert ends.share("futile") == 0.5
    assert ends.share("futile", "superior") == 0.75


def test_scores_of_0_or_1_are_written_as_signs_and_graded_ones_as_numbers() -> None:
    signs, numbers = ExactMcNemar(at_most=9), Betting()
    for difference in (1, 0, -1):
        signs.update(difference)
        numbers.update(difference / 4)
    assert json.loads(json.dumps(signs.state()))["outcomes"] == "+=-"
    assert json.loads(json.dumps(numbers.state()))["outcomes"] == [0.25, 0.0, -0.25]


@pytest.mark.parametrize("at_most", [0, 2.5, True, "9"])
def test_a_number_of_tasks_that_is_none_is_refused(at_most: object) -> None:
    with pytest.raises(SeedbedError, match="at_most: found"):
        Betting(at_most=at_most)  # type: ignore[arg-type]
