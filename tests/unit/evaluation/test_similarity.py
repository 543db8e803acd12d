from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Score
from seedbed.evaluation.metrics.similarity import similarity
from seedbed.testing.metric import a_run


async def score(output: Any, expected: Any) -> Score:
    return await similarity(a_run(output), Task("t", {"q": 1}, expected))


@pytest.mark.parametrize(
    ("wanted", "near", "far"),
    [
        ("The doctor cured the sick man.", "The physician treated the patient.", "The stock market fell today."),
        ("A puppy is running over the lawn.", "A dog runs across the grass.", "The bank raised interest rates."),
        # Hardly a word in common: such a pair is not far from unrelated ones, which the page on metrics says.
        ("Could you mail the bill once more?", "Please send me the invoice again.", "Everest is a high mountain."),
    ],
)
async def test_what_means_the_same_is_more_alike_than_what_does_not(wanted: str, near: str, far: str) -> None:
    alike, other = (await score(near, wanted)).value, (await score(far, wanted)).value
    assert alike is not None
    assert other is not None
    assert 0 <= other < alike <= 1


async def test_the_same_text_is_wholly_alike_and_nothing_is_like_nothing_else() -> None:
    assert (await score("Paris is big.", " Paris is big.\n")).value == 1.0
    assert (await score("", "")).value == 1.0
    assert (await score(None, "Paris")).value == 0.0
    assert (await score("Paris", "")).value == 0.0
    assert (await score("Paris", None)).value is None


async def test_the_nearest_of_several_answers_counts() -> None:
    alone = (await score("The doctor cured him.", "The physician treated him.")).value
    assert (await score("The doctor cured him.", ["Rates fell.", "The physician treated him."])).value == alone


def test_the_weights_are_loaded_when_they_are_needed_and_not_before() -> None:
    script = "import sys, seedbed.evaluation.metrics.similarity; print('wordllama' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
