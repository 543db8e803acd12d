from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import Problem, SettingsError
from seedbed.release.ramp import Ramp, build_ramp
from seedbed.settings import ChannelSettings
from seedbed.settings.values import share


def ramp(channel: str, protection: Any) -> Ramp:
    return build_ramp(ChannelSettings.read(protection, f"channels.{channel}"))


def test_a_ramp_is_read_as_it_is_written() -> None:
    given = {"canary": {"shares": ["5%", 0.25, "100 %"], "hold": "500 runs", "approval": True}}
    assert ramp("production", given) == Ramp((0.05, 0.25, 1.0), 500, approval=True)
    assert ramp("production", {}) == Ramp()


@pytest.mark.parametrize(
    ("canary", "told"),
    [
        (5, "channels.x.canary: found 5; expected a mapping such as"),
        ({"shares": "5%"}, 'canary.shares: found "5%"; expected a list of shares'),
        ({"shares": ["25%", "5%"]}, "each larger than the one before"),
        ({"shares": ["5%", "5%"]}, "each larger than the one before"),
        ({"shares": ["5%", "120%"]}, "each larger than the one before"),
        ({"shares": [0]}, "each larger than the one before"),
        ({"shares": [True]}, "each larger than the one before"),
        ({"hold": 500}, "canary.hold: found 500; expected a number of runs, such as 500 runs"),
        ({"hold": "500 days"}, 'canary.hold: found "500 days"'),
        ({"approval": "yes"}, 'canary.approval: found "yes"; expected true or false'),
        ({"steps": []}, "canary.steps: found an unknown key; expected one of: shares, hold, approval"),
    ],
)
def test_what_is_wrong_with_a_ramp_is_told(canary: Any, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        ramp("x", {"canary": canary})
    assert told in str(refused.value)


def test_what_is_watched_stands_in_the_same_place_and_is_nothing_to_the_ramp() -> None:
    watched = {"roll_back_if": {"rating": -0.05}, "hold_if": {}, "error": 0.05, "no_traffic": "2 hours"}
    watched |= {"deadline": "14 days", "keep_back": "2%", "keep_back_for": "7 days"}
    assert ramp("production", {"canary": {"shares": ["5%"], **watched}}) == Ramp((0.05,))


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        ramp("x", {"canary": {"shares": 1, "hold": 1, "approval": 1, "more": 1}})
    assert len(refused.value.problems) == 4


@pytest.mark.parametrize(
    ("written", "meant"), [("5%", 0.05), ("0.05", 0.05), (" 12.5 % ", 0.125), ("100%", 1.0), (1, 1.0), (0.5, 0.5)]
)
def test_a_share_is_written_as_people_do(written: object, meant: float) -> None:
    assert share(written) == pytest.approx(meant)


@pytest.mark.parametrize("written", ["5", "0%", "101%", "-5%", "", "half", None, True, float("nan"), 1.01])
def test_what_is_no_share_is_none(written: object) -> None:
    assert share(written) is None


def test_a_release_begins_with_the_first_step_and_goes_on_with_the_next() -> None:
    steps = Ramp((0.05, 0.25))
    assert steps.first(None) == 0.05
    assert [steps.after(now, None) for now in (0.01, 0.05, 0.1, 0.25)] == [0.05, 0.25, 0.25, 1.0]
    assert steps.first(0.01) == 0.01
    assert steps.after(0.05, 0.1) == 0.1


def test_no_step_can_be_left_out() -> None:
    steps = Ramp((0.05, 0.25))
    told = Problem("share", "50 %", "at most 5 %, its first step", "Raise the share step by step.")
    assert steps.first(0.5) == told
    assert steps.after(0.05, 0.5) == Problem(
        "share", "50 %", "at most 25 %, its next step", "Raise the share step by step."
    )


def test_without_steps_a_release_is_for_all_unless_it_asks_for_less() -> None:
    assert (Ramp().first(None), Ramp().first(0.1), Ramp().after(0.1, None), Ramp().after(0.1, 0.5)) == (1, 0.1, 1, 0.5)
