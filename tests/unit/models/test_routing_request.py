"""A routed choice is stored as JSON."""

from __future__ import annotations

import json

from seedbed.models.routing.request import Considered, ModelChoice

CHOICE = ModelChoice(
    model="a",
    propensity=0.5,
    considered=(
        Considered(model="a", expected=0.5, score=0.5, chance=0.5),
        Considered(model="c", expected=0.7, score=0.7, chance=0.1),
        Considered(model="b", expected=0.9, score=0.9, chance=0.4),
        Considered(model="d", rejected="it cannot do reasoning"),
    ),
    because="it is preferred",
    task_type="reasoning",
    quality="balanced",
)


def test_a_choice_is_json() -> None:
    document = json.loads(json.dumps(CHOICE.document()))
    assert (document["model"], document["propensity"]) == ("a", 0.5)
    assert [each["rejected"] for each in document["considered"]] == ["", "", "", "it cannot do reasoning"]
