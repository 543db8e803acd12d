"""Canaries whose users are not split as planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from world import NEW, serve_old, world

from seedbed.errors import ReleaseRefused
from seedbed.release.monitor.monitor import Health, Monitor
from seedbed.stats.monitors import SampleRatio


async def test_the_split_of_44700_and_45489_raises_no_alarm_and_ends_no_step_of_a_ramp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = await serve_old(world(require=[]))
    await space.release(NEW, to="production", because="try it", share=0.5)
    units = SampleRatio({"newer": 0.5, "older": 0.5})
    units.update({"newer": 44_700, "older": 45_489})
    look = Monitor.look

    def as_if(monitor: Monitor) -> Health:
        seen: dict[str, Any] = {"units": (44_700, 45_489), "ratio": {"e": units.e, "p": units.exact_p}}
        return replace(look(monitor), **seen)

    monkeypatch.setattr(Monitor, "look", as_if)
    assert (await space.channels.watch("production")).health.alarms == ()
    with pytest.raises(ReleaseRefused, match=r"44700 units got the newer, 45489 the older.*exact p = 0.0087"):
        await space.channels.promote("production", because="looks good")
