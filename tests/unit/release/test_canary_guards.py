"""What is watched on a channel, as people write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.release.monitor.guards import Guard, Watch, build_watch
from seedbed.release.ramp import build_ramp
from seedbed.release.states import KeepBack
from seedbed.settings import ChannelSettings, Settings

ALL = """
channels:
  live:
    canary:
      shares: [5%, 25%, 100%]
      roll_back_if: {rating: -0.05, error_rate: +0.02, latency_seconds: {by: +1, most: 20}}
      hold_if: {cost_usd: {by: +0.001, most: 0.05}, points: {by: -3, most: 10}, violation_rate: 0.01}
      error: 0.01
      no_traffic: 2 hours
      deadline: 14 days
      keep_back: 2%
      keep_back_for: 1 week
"""


def watch(channel: str, protection: Any) -> Watch:
    return build_watch(ChannelSettings.read(protection, f"channels.{channel}"))


def test_every_guard_is_read_as_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "seedbed.yaml"
    file.write_text(ALL)
    protection = Settings.load(file, {}).channels["live"]
    assert build_watch(protection) == Watch(
        (
            Guard("rating", -0.05),
            Guard("error_rate", 0.02),
            Guard("latency_seconds", 1.0, "roll back", 20.0),
            Guard("cost_usd", 0.001, "hold", 0.05),
            Guard("points", -3.0, "hold", 10.0),
            Guard("violation_rate", 0.01, "hold"),
        ),
        error=0.01,
        no_traffic=timedelta(hours=2),
        deadline=timedelta(days=14),
        keep_back=0.02,
        keep_back_for=timedelta(weeks=1),
    )
    assert build_ramp(protection).shares == (0.05, 0.25, 1.0)  # which stands in the same place


def test_nothing_is_watched_where_nothing_is_said() -> None:
    assert watch("live", {}) == Watch()
    assert Watch().keep_back_from(datetime.now(UTC)) is None


def test_those_who_are_kept_back_are_so_for_as_long_as_it_says() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert watch("x", {"canary": {"keep_back": "2%"}}).keep_back_from(at) == KeepBack(0.02, at + timedelta(days=7))
    given = {"canary": {"keep_back": 0.5, "keep_back_for": "36 hours"}}
    assert watch("x", given).keep_back_from(at) == KeepBack(0.5, at + timedelta(hours=36))


@pytest.mark.parametrize(
    ("canary", "told"),
    [
        (5, "channels.x.canary: found 5; expected a mapping such as"),
        ({"roll_back_if": "rating"}, 'canary.roll_back_if: found "rating"; expected a mapping of metrics such as'),
        ({"hold_if": ["rating"]}, "canary.hold_if: found"),
        ({"roll_back_if": {"rating": "low"}}, 'roll_back_if.rating: found "low"; expected a change such as -0.05'),
        ({"roll_back_if": {"rating": 0}}, "roll_back_if.rating: found 0; expected a change such as -0.05"),
        ({"roll_back_if": {"rating": -5}}, "roll_back_if.rating: found -5; expected a change such as -0.05"),
        ({"roll_back_if": {"rating": True}}, "roll_back_if.rating: found True; expected a change"),
        ({"roll_back_if": {"rating": float("nan")}}, "roll_back_if.rating: found"),
        ({"roll_back_if": {"rating": {"most": 2}}}, "roll_back_if.rating: found"),
        ({"roll_back_if": {"rating": {"by": -1, "most": 2, "least": 0}}}, "expected {by: +1, most: 20}"),
        ({"roll_back_if": {"rating": {"by": -3, "most": 2}}}, "found -3; expected a change smaller than 2, and not 0"),
        ({"roll_back_if": {"rating": {"by": -1, "most": 0}}}, "rating.most: found 0; expected a number above 0"),
        ({"roll_back_if": {"rating": {"by": -1, "most": "x"}}}, 'rating.most: found "x"; expected a number above 0'),
        ({"roll_back_if": {"error_rate": -0.02}}, "expected a change above 0, since error_rate should be low"),
        ({"hold_if": {"latency_seconds": 1}}, "hold_if.latency_seconds: found 1; expected {by: +1, most: 20}: more"),
        ({"hold_if": {"latency_seconds": 0.5}}, "latency_seconds: found 0.5; expected {by: +1, most: 20}: more"),
        ({"hold_if": {"cost_usd": {"by": 0.01}}}, "expected {by: +1, most: 20}: more than the most counts as the most"),
        (
            {"roll_back_if": {"rating": -0.05}, "hold_if": {"rating": -0.01}},
            "canary.hold_if.rating: found a guard that rolls back too; expected one of the two",
        ),
        ({"error": 0}, "canary.error: found 0; expected a chance above 0 and below 0.5"),
        ({"error": 0.5}, "canary.error: found 0.5"),
        ({"no_traffic": "2"}, 'canary.no_traffic: found "2"; expected a time such as 30 minutes'),
        ({"no_traffic": "0 hours"}, 'canary.no_traffic: found "0 hours"; expected a time'),
        ({"deadline": "soon"}, 'canary.deadline: found "soon"; expected a time'),
        ({"deadline": f"{'9' * 400} days"}, "canary.deadline: found"),
        ({"keep_back_for": 7}, "canary.keep_back_for: found 7; expected a time"),
        ({"keep_back": "51%"}, 'canary.keep_back: found "51%"; expected a share above 0 % and up to 100 %'),
        ({"keep_back": "0%"}, "and at most a half"),
    ],
)
def test_each_mistake_is_told_with_its_place(canary: Any, told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        watch("x", {"canary": canary})
    assert told in str(refused.value)
    assert len(refused.value.problems) == 1


def test_all_mistakes_are_told_at_once() -> None:
    given = {"roll_back_if": {"rating": 0, "error_rate": -1}, "hold_if": 1, "error": 1, "deadline": 1, "keep_back": 1}
    with pytest.raises(SettingsError) as refused:
        watch("x", {"canary": given})
    assert len(refused.value.problems) == 6


def test_how_good_something_is_lies_between_0_and_1_whichever_way_it_counts() -> None:
    rating, slow = Guard("rating", -0.05), Guard("latency_seconds", 1.0, most=20.0)
    assert [rating.goodness(value) for value in (0.0, 0.7, 1.0)] == [0.0, 0.7, 1.0]
    assert [slow.goodness(value) for value in (-1, 0, 5, 20, 300)] == [1, 1, 0.75, 0, 0]
    assert (rating.margin, slow.margin) == (0.05, 0.05)
    assert (rating.value(0.7), slow.value(0.75)) == (0.7, 5.0)
    assert (rating.change(-0.25), slow.change(-0.25)) == (-0.25, 5.0)


def test_no_change_is_not_written_as_less_than_nothing() -> None:
    for guard in (Guard("rating", -0.05), Guard("error_rate", 0.02)):
        assert [f"{guard.change(nothing):+.3g}" for nothing in (0.0, -0.0, 1e-17, -1e-17)] == ["+0"] * 4
