"""Usage is read as far as it can be right, and texts are counted without their provider."""

from __future__ import annotations

import math
from typing import Any

import pytest

from seedbed.models.usage import MOST_TOKENS, Usage, counted_tokens, read_cost, read_usage


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"input_tokens": 7, "output_tokens": 3}, Usage(7, 3)),
        ({"input_tokens": 7.0, "output_tokens": 2.5}, Usage(7, 3)),
        ({"input_tokens": 7}, Usage(7, 0)),
        ({"input_tokens": 7, "output_tokens": None}, Usage(7, 0)),
        ({"input_tokens": 7, "output_tokens": 3, "total_tokens": 100}, Usage(7, 93)),
        ({"input_tokens": 7, "output_tokens": 3, "total_tokens": math.nan}, Usage(7, 3)),
        ({"input_tokens": 1e300, "output_tokens": 10**30}, Usage(MOST_TOKENS, MOST_TOKENS)),
        *((wrong, None) for wrong in (None, [], "7", {}, {"input_tokens": -1, "output_tokens": 3})),
        *(({"input_tokens": wrong, "output_tokens": 3}, None) for wrong in (math.nan, math.inf, True, "7", [7], None)),
        ({"input_tokens": 0, "output_tokens": 0}, None),
    ],
)
def test_what_cannot_be_a_count_is_no_usage(reported: Any, usage: Usage | None) -> None:
    assert read_usage(reported) == usage


@pytest.mark.parametrize(("value", "cost"), [(0.5, 0.5), (0, 0.0), (1e300, 1e6)])
def test_a_cost_is_bounded(value: Any, cost: float) -> None:
    assert read_cost(value) == cost
    assert all(
        read_cost(wrong) is None for wrong in (-value - 1, math.nan, -math.inf, math.inf, str(value), True, None)
    )


def test_our_own_count_is_below_that_of_tokenizers_for_natural_language() -> None:
    # By OpenAI's tokenizer o200k_base this sentence has 14 tokens, and the German one 16.
    assert counted_tokens("We looked at every answer twice before we wrote the report for you.") <= 14
    assert counted_tokens("Jede Antwort wurde zweimal gelesen, bevor der Bericht geschrieben wurde.") <= 16
    assert Usage(1, 9).at_least(Usage(5, 2)) == Usage(5, 9)
