"""Who looks at a channel again and again: what he takes back, whom he tells, and how often."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from canary_samples import FIRST, NEW, OLD, both, met, rated, rolled_out, said, settled

import seedbed
from seedbed.errors import ReleaseRefused, RunError
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release import channels
from seedbed.release.alerts.delivery import history
from seedbed.release.alerts.senders.log import LogSender
from seedbed.release.channels import Rollout
from seedbed.release.monitor.guards import Guard, Watch
from seedbed.release.monitor.loop import WatchResult, no_alarm_gate, watch_once
from seedbed.release.monitor.monitor import MONITOR, Monitor
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.store import Ref, Store, now
from seedbed.workspace import Workspace

WATCH = Watch((Guard("rating", -0.05),), no_traffic=timedelta(hours=2))
HOLDING = Watch((Guard("rating", -0.05, "hold"),))
POOR, GOOD = {NEW: 0.0, OLD: 1.0}, {NEW: 1.0, OLD: 0.9}


class Post:
    """A file that alerts are written to, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "alerts.jsonl"
        self.sender = LogSender(name="log", at_least="info", file=self.file)

    def told(self) -> list[tuple[str, str, bool]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(each["kind"], each["severity"], each["resolved"]) for each in map(json.loads, lines)]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


async def test_what_does_harm_is_taken_back_and_people_are_told_once(post: Post) -> None:
    library = await rolled_out()
    library.store.append(both(POOR, 40, random.Random(1)))
    monitor = Monitor(library.store, "live", WATCH)
    seen = await watch_once(library, monitor, [post.sender])
    assert seen.moved
    assert seen.health.reaction == "roll back"
    assert post.told() == [("rolled back", "critical", False)]
    (alert,) = seen.alerts
    assert alert.message == f"rolled back: {seen.moved.because}"
    assert alert.details["from"]["canary"]["playbook"] == NEW
    for _ in range(3):
        assert (await watch_once(library, monitor, [post.sender])).alerts == ()
    assert len(post.told()) == 1


async def test_an_alarm_is_told_when_it_begins_when_it_is_over_and_when_it_comes_again(post: Post) -> None:
    library, at = await rolled_out(), now()
    monitor = Monitor(library.store, "live", WATCH, clock=lambda: at)

    async def look() -> None:
        await watch_once(library, monitor, [post.sender])

    await look()
    assert post.told() == []
    begun, over = ("no traffic", "warning", False), ("no traffic", "warning", True)
    for times in (1, 2):
        at += timedelta(hours=3)
        await look()
        await look()
        assert post.told() == [begun, over] * (times - 1) + [begun]
        library.store.append([met(NEW, at=at)])
        await look()
        await look()
        assert post.told() == [begun, over] * times
    assert len({told.alert.key for told in history(library.store, "live")}) == 2


async def test_what_held_a_canary_is_over_when_the_canary_is_gone(post: Post) -> None:
    library = await rolled_out()
    library.store.append(both(POOR, 40, random.Random(1)))
    monitor = Monitor(library.store, "live", HOLDING)
    seen = await watch_once(library, monitor, [post.sender])
    assert (seen.moved, post.told()) == (None, [("worse", "warning", False)])
    (alert,) = seen.alerts
    assert (alert.details["metric"], alert.details["limit"], alert.details["newer"]) == ("rating", -0.05, NEW)
    channels.rollback(library, "live", because="held too long")
    await watch_once(library, monitor, [post.sender])
    assert post.told()[1:] == [("worse", "warning", True)]
    await watch_once(library, monitor, [post.sender])
    assert len(post.told()) == 2


async def test_what_is_known_against_the_stable_one_is_not_over_because_a_canary_is_tried(post: Post) -> None:
    library = await settled(None, FIRST)
    library.store.append(both({FIRST: 1.0}, 100, random.Random(1)))
    await channels.release(library, "live", OLD, [], verdict=None, because="for all")
    library.store.append(both({OLD: 0.2}, 100, random.Random(1)))
    monitor = Monitor(library.store, "live", WATCH)

    async def look() -> list[tuple[str, str, bool]]:
        await watch_once(library, monitor, [post.sender])
        return post.told()

    regression = ("regression", "warning", False)
    assert await look() == [regression]
    await channels.release(library, "live", NEW, [], verdict=None, because="try it", rollout=Rollout(share=0.5))
    assert await look() == [regression]
    channels.rollback(library, "live", because="no better")
    assert await look() == [regression]
    channels.rollback(library, "live", because="back to the first")
    assert await look() == [regression, ("regression", "warning", True)]


async def test_people_are_told_of_what_one_who_died_took_back(post: Post) -> None:
    library = await rolled_out()
    library.store.append(both(POOR, 40, random.Random(1)))
    dying = Monitor(library.store, "live", WATCH)
    assert dying.react(dying.look())  # and that was the last he did
    await channels.release(library, "live", NEW, [], verdict=None, because="again", rollout=Rollout(share=0.5))
    await watch_once(library, Monitor(library.store, "live", WATCH), [post.sender])
    assert post.told() == [("rolled back", "critical", False)]
    await watch_once(library, Monitor(library.store, "live", WATCH), [post.sender])
    assert len(post.told()) == 1


async def test_that_nobody_can_be_told_keeps_nothing_from_being_taken_back(tmp_path: Path) -> None:
    library = await rolled_out()
    library.store.append(both(POOR, 40, random.Random(1)))
    nowhere = LogSender(name="log", at_least="info", file=tmp_path)  # a folder
    seen = await watch_once(library, Monitor(library.store, "live", WATCH), [nowhere])
    assert seen.moved
    assert channels.state(library.store, "live").canary is None
    (told,) = history(library.store, "live")
    assert [delivery.status for delivery in told.deliveries] == ["failed"]


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/x.db"}
    with closing(open_store(urls.get(request.param) or request.getfixturevalue("postgres_url"))) as store:
        yield store


class Together(Monitor):
    """One who has looked, and waits until the others have."""

    all_have: asyncio.Barrier
    loop: asyncio.AbstractEventLoop

    def react(self, health: Any) -> Ref | None:
        asyncio.run_coroutine_threadsafe(self.all_have.wait(), self.loop).result()
        return super().react(health)


async def test_of_two_who_watch_at_once_one_moves_and_one_alert_is_sent(store: Store, post: Post) -> None:
    await rolled_out(store)
    store.append(both(POOR, 40, random.Random(1)))
    all_have = asyncio.Barrier(2)

    async def watch(by: str) -> WatchResult:
        monitor = Together(store, "live", WATCH)
        monitor.all_have, monitor.loop = all_have, asyncio.get_running_loop()
        return await watch_once(Library(store, by), monitor, [post.sender])

    seen = await asyncio.gather(watch("ann"), watch("ben"))
    assert sorted(each.moved is None for each in seen) == [False, True]
    assert [move.by for move in channels.moves(store, "live")] == ["ada", "ada", MONITOR]
    assert post.told() == [("rolled back", "critical", False)]


async def test_two_who_see_an_alarm_tell_it_once(store: Store, post: Post) -> None:
    library = await rolled_out(store)
    store.append(both(POOR, 40, random.Random(1)))
    await asyncio.gather(*(watch_once(library, Monitor(store, "live", HOLDING), [post.sender]) for _ in range(3)))
    assert post.told() == [("worse", "warning", False)]


async def test_nobody_is_told_that_somebody_should_look_at_what_was_taken_back_meanwhile(post: Post) -> None:
    library = await rolled_out()
    library.store.append(both(POOR, 40, random.Random(1)))

    class Slow(Monitor):
        def react(self, health: Any) -> Ref | None:
            channels.rollback(library, "live", because="complaints")
            return super().react(health)

    seen = await watch_once(library, Slow(library.store, "live", WATCH), [post.sender])
    assert (seen.moved, post.told()) == (None, [])


# The gate, and the whole way


async def test_nothing_goes_further_while_the_monitor_is_alarmed_and_goes_on_when_it_is_not() -> None:
    library = await rolled_out()
    monitor, chance = Monitor(library.store, "live", HOLDING), random.Random(1)
    library.store.append(both(POOR, 40, chance))
    with pytest.raises(ReleaseRefused) as refused:
        await channels.promote(
            library, "live", [no_alarm_gate(monitor.look())], because="well", rollout=Rollout(share=0.6)
        )
    (refusal,) = refused.value.refusals
    assert refusal.path == "watch"
    assert refusal.found.startswith(f"rating of {NEW[3:13]} differs by -1 from its control")
    library.store.append(both(GOOD, 600, chance))
    await channels.promote(library, "live", [no_alarm_gate(monitor.look())], because="well", rollout=Rollout(share=0.6))


async def test_a_slight_mismatch_of_units_is_found_when_a_step_ends_and_not_at_every_look() -> None:
    library = await rolled_out()
    monitor = Monitor(library.store, "live", WATCH)
    units = [met(playbook) for playbook in [NEW, OLD, OLD] * 90 + [NEW, OLD] * 350]  # 440 of 970
    random.Random(1).shuffle(units)
    library.store.append(units)
    health = monitor.look()
    assert (health.units, health.alarms, health.ratio["e"] < 100) == ((440, 530), (), True)
    gate = no_alarm_gate(health, steps=3)
    with pytest.raises(
        ReleaseRefused, match=r"440 units got the newer, 530 .* \(exact p = 0.0042 at the end of a step"
    ):
        await channels.promote(library, "live", [gate], because="well", rollout=Rollout(share=0.6))
    gate = no_alarm_gate(health, steps=10)  # where there are more looks, each has less error
    await channels.promote(library, "live", [gate], because="well", rollout=Rollout(share=0.6))


def agent(system: str) -> Playbook:
    roles = {"agent": {"model": "m", "system": system}}
    return Playbook.from_document({"program": "canary_samples:work", "roles": roles})


def settings(folder: Path, **canary: Any) -> Settings:
    model = {"use": "scripted", "args": {"replies": {".": "fine"}}}
    return Settings.model_validate(
        {
            "store": f"sqlite:///{folder}/x.db",
            "by": "ada",
            "models": {"m": model},
            "channels": {"live": {"require": [], "canary": canary}},
            "alerts": [{"log": str(folder / "alerts.jsonl")}],
        }
    )


async def test_a_workspace_takes_back_a_canary_whose_runs_fail(tmp_path: Path, post: Post) -> None:
    given = settings(tmp_path, shares=["50%", "100%"], roll_back_if={"error_rate": 0.05}, error=0.05)
    with closing(seedbed.open(given)) as space:
        old, new = agent("Answer."), agent("Answer well.")
        await space.release(old, to="live", because="first")
        await space.release(new, to="live", because="better")
        assert (await space.channels.watch("live")).health.phase == "canary"
        for number in range(20):
            await space.run("live", key=f"user {number}", do="answer")
        assert (await space.channels.watch("live")).moved is None
        for number in range(80):
            with suppress(RunError):
                key = f"visitor {number}"
                met_new = _meets(space, key) == new.digest
                await space.run("live", key=key, do="fail" if met_new else "answer")
        seen = await space.channels.watch("live")
        assert seen.moved
        assert seen.moved.because.startswith(f"error_rate of {new.digest[3:13]} differs by +")
        assert (await space.run("live", key="anna", do="answer")).playbook == old.digest
    assert post.told() == [("rolled back", "critical", False)]


def _meets(space: Workspace, key: str) -> str:
    from seedbed.release.assignment import place

    canary = channels.state(space.store, "live").canary
    assert canary
    return canary.playbook if place("live", canary.playbook, key) < canary.share else ""


async def test_a_workspace_promotes_nothing_that_is_out_of_ratio_and_says_why(tmp_path: Path) -> None:
    given = settings(tmp_path, shares=["50%", "100%"], no_traffic="2 hours")
    with closing(seedbed.open(given)) as space:
        for text in ("Answer.", "Answer well."):
            await space.release(agent(text), to="live", because="so")
        old, new = agent("Answer.").digest, agent("Answer well.").digest
        space.store.append([met(new) for _ in range(200)] + [met(old) for _ in range(400)])
        with pytest.raises(ReleaseRefused, match="watch: found 200 units got the newer, 400 the older; equally many"):
            await space.channels.promote("live", because="well")
        await space.rollback("live", because="assignment is broken")
        await space.release(agent("Answer well."), to="live", because="it was mended")
        await space.channels.promote("live", because="well")
        assert channels.state(space.store, "live").standing == (old, new)


async def test_a_workspace_keeps_back_whom_its_settings_say(tmp_path: Path) -> None:
    given = settings(tmp_path, shares=["50%", "100%"], keep_back="20%", keep_back_for="2 days")
    with closing(seedbed.open(given)) as space:
        for text in ("Answer.", "Answer well."):
            await space.release(agent(text), to="live", because="so")
        assert channels.state(space.store, "live").held is None  # a first release keeps nobody back
        await space.channels.promote("live", because="well")
        held = channels.state(space.store, "live").held
        assert held
        assert (held.playbook, held.share) == (agent("Answer.").digest, 0.2)
        assert timedelta(days=1, hours=23) < held.until - now() < timedelta(days=2, hours=1)
        arms = [(await space.channels.choose("live", key=f"user {number}")).arm for number in range(100)]
        assert 8 <= arms.count("held") <= 32


async def test_outcomes_of_one_channel_are_nothing_to_another() -> None:
    library = await rolled_out()
    exposure = met(NEW, channel="staging")
    library.store.append([exposure, said(exposure, 0.0), *rated(OLD, 1.0)])
    health = Monitor(library.store, "live", WATCH).look()
    assert (health.units, health.rows[0].newer) == ((0, 1), None)
