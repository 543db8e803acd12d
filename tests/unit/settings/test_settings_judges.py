"""Judges in the workspace file."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.settings.judges import JudgeSettings


def test_a_rubric_is_one_question_or_several() -> None:
    one = JudgeSettings.read({"judge": "rubric", "rubric": "Is it right?"}, "metrics.m")
    assert (one.rubric, one.scale, one.model) == (("Is it right?",), None, "judge")
    several = JudgeSettings.read({"judge": "rubric", "rubric": ["Right?", "Kind?"], "scale": [0, 3]}, "metrics.m")
    assert (several.rubric, several.scale) == (("Right?", "Kind?"), (0, 3))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"judge": "reference", "rubric": "Good?"}, "metrics.m.rubric: found an unknown key; expected one of: judge, "),
        ({"judge": "rubric", "rubric": "Good?", "part": "synthesis"}, "metrics.m.part: found an unknown key"),
        ({"judge": "rubric"}, "metrics.m.rubric: found nothing; expected the question to the judge"),
        ({"judge": "rubric", "rubric": "Good?", "scale": [5, 1]}, "metrics.m.scale: found [5, 1]; expected the worst"),
        ({"judge": "rubic"}, "metrics.m.judge: found"),
        ("rubric", 'metrics.m: found "rubric"; expected a mapping such as {judge: rubric'),
    ],
)
def test_a_key_belongs_to_the_judges_that_have_it(about: Any, message: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        JudgeSettings.read(about, "metrics.m")
    assert message in str(wrong.value)
