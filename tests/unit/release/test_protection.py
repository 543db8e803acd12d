"""What may stand under a channel, and what is said about what may not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.playbooks.formats import import_document
from seedbed.release.gates import Better, held_out, rules_kept
from seedbed.release.limits import Cooldown, MaxChange
from seedbed.release.protection import required
from seedbed.release.review import Review


def test_a_channel_that_says_nothing_requires_all_evidence() -> None:
    assert required("production", {}) == [Better(), held_out, rules_kept]


def test_a_channel_that_requires_nothing_has_no_gates() -> None:
    assert required("playground", {"require": []}) == []


def test_gates_with_values_are_read_in_order() -> None:
    listed = [
        {"cooldown": "1 week"},
        "better",
        {"better": {"error": 0.01}},
        {"max_change": {"number": 0.1, "text": 400}},
        {"review": {"when": "rules or roles change"}},
    ]
    expected = [
        Cooldown(timedelta(days=7)),
        Better(),
        Better(0.01),
        MaxChange(0.1, 400),
        Review("rules or roles change"),
    ]
    assert required("production", {"require": listed}) == expected


@pytest.mark.parametrize(("text", "wait"), [("12 hours", timedelta(hours=12)), ("1.5 days", timedelta(hours=36))])
def test_a_cooldown_is_told_as_people_say_it(text: str, wait: timedelta) -> None:
    assert required("production", {"require": [{"cooldown": text}]}) == [Cooldown(wait)]


def test_everything_wrong_is_told_at_once_with_its_place() -> None:
    wrong: dict[str, Any] = {
        "colour": "green",
        "require": [
            "beter",
            {"cooldown": "soon"},
            {"max_change": {"number": -1}},
            {"max_change": {"speed": 1}},
            {"review": {"when": "never"}},
            {"better": True, "held_out": True},
            {"max_change": {}},
            {"max_change": {"number": True}},
            {"better": {"error": 0.5}},
        ],
    }
    with pytest.raises(SettingsError) as caught:
        required("production", wrong)
    places = [problem.path for problem in caught.value.problems]
    assert places == [
        "channels.production.colour",
        "channels.production.require[0]",
        "channels.production.require[1].cooldown",
        "channels.production.require[2].max_change",
        "channels.production.require[3].max_change",
        "channels.production.require[4].review",
        "channels.production.require[5]",
        "channels.production.require[6].max_change",
        "channels.production.require[7].max_change",
        "channels.production.require[8].better",
    ]


def test_something_else_than_a_list_is_refused() -> None:
    with pytest.raises(SettingsError, match="a list of gates"):
        required("production", {"require": "better"})


def test_the_limits_of_an_imported_strategy_are_gates() -> None:
    strategy = {
        "metadata": {"name": "desk", "version": "1.0.0"},
        "parameters": {"warmth": 0.5},
        "constraints": {"never_execute": ["shout"]},
        "evolution_metadata": {
            "max_parameter_delta": 0.05,
            "cooldown_period_days": 7,
            "requires_human_review": True,
        },
    }
    expected = [MaxChange(number=0.05), Cooldown(timedelta(days=7)), Review("always")]
    assert required("production", import_document(strategy).protection) == expected
