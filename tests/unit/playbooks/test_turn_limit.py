"""A dialogue takes at most so many turns."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import PlaybookError
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.turn_limit import with_turns

DEBATE: dict[str, Any] = {
    "roles": {"speaker": {"system": "Be brief."}, "judge": {}},
    "steps": [
        {"together": [{"name": each, "role": "speaker", "prompt": f"{{motion}} {each}"} for each in ("pro", "con")]},
        {
            "name": "reply",
            "role": "speaker",
            "prompt": "Answer.",
            "until": {"back_to": "reply", "settled": 0.75, "rounds": 2, "at_most": 5},
        },
        {"name": "verdict", "role": "judge", "prompt": "Decide."},
    ],
    "demos": {"verdict": [{"inputs": {"motion": "Buses"}, "output": "Yes."}]},
    "locked": ["steps.verdict.prompt", "steps.reply.until.*", "roles.judge.system"],
}


def limited(turns: int) -> Playbook:
    return with_turns(Playbook.from_document(DEBATE), turns)


def names(playbook: Playbook) -> list[str]:
    return [step.name for step in playbook.all_steps()]


def test_fewer_turns_than_steps_are_the_first_steps() -> None:
    assert names(limited(1)) == ["pro"]
    three = limited(3)
    assert names(three) == ["pro", "con", "reply"]
    assert (three.demos, three.locked) == ({}, ("roles.judge.system",))
    assert three.steps[-1].until is None  # type: ignore[union-attr]


def test_more_turns_are_more_rounds_and_a_rule_that_needs_more_is_left_out() -> None:
    untils = {
        turns: next(step.until for step in limited(turns).all_steps() if step.name == "reply") for turns in (4, 5, 9)
    }
    assert untils[4] is None
    assert untils[5]
    assert (untils[5].at_most, untils[5].settled) == (2, None)
    assert untils[9]
    assert (untils[9].at_most, untils[9].settled, untils[9].rounds) == (6, 0.75, 2)


def test_without_a_loop_all_steps_are_repeated_in_whole_rounds() -> None:
    two = {"roles": {"a": {}}, "steps": [{"name": name, "role": "a", "prompt": name} for name in ("one", "two")]}
    playbook = Playbook.from_document(two)
    assert with_turns(playbook, 3) == playbook
    seven = list(with_turns(playbook, 7).all_steps())[-1].until
    assert seven
    assert (seven.back_to, seven.at_most) == ("one", 3)


@pytest.mark.parametrize("turns", [0, -1, 2.5, True])
def test_what_is_no_number_of_turns_is_refused(turns: Any) -> None:
    with pytest.raises(PlaybookError, match="turns: found"):
        limited(turns)


def test_a_playbook_without_steps_has_no_turns_to_count() -> None:
    with pytest.raises(PlaybookError, match="a playbook without steps"):
        with_turns(Playbook.from_document({"roles": {"a": {}}}), 2)
