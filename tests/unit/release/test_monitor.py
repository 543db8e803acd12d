"""What is new on a channel beside what was there before: watched, and taken back if it does worse."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from canary_samples import FIRST, NEW, OLD, OTHER, at_place, both, met, rated, rolled_out, said, serve, settled

from seedbed.errors import NotFound
from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.channels import Rollout
from seedbed.release.monitor.guards import Guard, Watch
from seedbed.release.monitor.monitor import MONITOR, REFERENCE, RUN_LENGTH, Health, Monitor
from seedbed.release.states import KeepBack
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Ref, Store, now
from seedbed.storage.upkeep import verify

WATCH = Watch((Guard("rating", -0.05),))
HOLDING = Watch((Guard("rating", -0.05, "hold"),))
HEALTHY, POOR = {NEW: 0.96, OLD: 0.96}, {NEW: 0.6, OLD: 0.96}


def alarms(health: Health) -> list[tuple[str, str]]:
    return [(alarm.kind, alarm.reaction) for alarm in health.alarms]


def how(library: Library) -> list[tuple[str, str]]:
    """Every move of the channel, and who made it."""
    return [(move.body["to"]["how"], move.by) for move in channels.moves(library.store, "live")]


# A canary


async def test_a_healthy_canary_is_hardly_ever_rolled_back_and_a_poor_one_soon() -> None:
    chance = random.Random(1)

    async def caught(rates: dict[str, float]) -> int | None:
        library = await rolled_out()
        monitor = Monitor(library.store, "live", WATCH)
        for look in range(1, 9):
            library.store.append(both(rates, 20, chance))
            if monitor.look().reaction == "roll back":
                return look
        return None

    assert sum([await caught(HEALTHY) is not None for _ in range(20)]) <= 3
    looks = [await caught(POOR) for _ in range(10)]
    assert None not in looks
    assert sum(look or 0 for look in looks) / 10 <= 3


async def test_a_poor_canary_is_taken_back_with_the_figures_as_the_reason() -> None:
    library = await rolled_out()
    monitor = Monitor(library.store, "live", WATCH)
    library.store.append(both(POOR, 100, random.Random(1)))
    health = monitor.look()
    assert (health.phase, health.newer, health.older, health.share) == ("canary", NEW, OLD, 0.5)
    assert (health.units, health.reaction) == ((100, 100), "roll back")
    ref = monitor.react(health)
    assert ref
    assert (ref.by, ref.target) == (MONITOR, {"stable": OLD, "how": "rollback"})
    (row,) = health.rows
    assert row.change is not None
    assert ref.because.startswith(f"rating of {NEW[3:13]} differs by {row.change:+.3g} from its control (95% ")
    assert ref.because.endswith("100 pairs); the limit is -0.05")
    assert verify(library.store).problems == ()  # type: ignore[arg-type]
    again = monitor.look()
    assert (again.phase, again.newer, monitor.react(again)) == ("settled", OLD, None)


async def test_what_only_holds_moves_nothing_and_is_over_when_the_canary_recovers() -> None:
    library = await rolled_out()
    monitor, chance = Monitor(library.store, "live", HOLDING), random.Random(1)
    library.store.append(both(POOR, 60, chance))
    health = monitor.look()
    assert (alarms(health), monitor.react(health)) == ([("worse", "hold")], None)
    library.store.append(both({NEW: 1.0, OLD: 0.9}, 300, chance))
    assert alarms(monitor.look()) == []


async def test_what_has_to_be_taken_back_stays_so_also_if_better_outcomes_follow() -> None:
    library = await rolled_out()
    monitor, chance = Monitor(library.store, "live", WATCH), random.Random(1)
    library.store.append(both(POOR, 60, chance))
    library.store.append(both({NEW: 1.0, OLD: 0.9}, 300, chance))
    assert alarms(monitor.look()) == [("worse", "roll back")]


async def test_all_guards_together_share_the_error_those_that_roll_back_and_those_that_hold() -> None:
    library = await rolled_out()
    library.store.append(both(POOR, 30, random.Random(1)))

    def evidence(*others: Guard) -> float:
        return Monitor(library.store, "live", Watch((Guard("rating", -0.05), *others))).look().rows[0].evidence

    alone = evidence()
    assert evidence(Guard("a", -0.05, "hold"), Guard("b", -0.05, "hold")) == alone
    four = [Guard(name, -0.05) for name in "abc"]
    assert evidence(*four) == pytest.approx(alone * 2.9957 / 4.3820, rel=1e-4)  # log 20 and log 80


async def test_only_those_who_are_compared_count_and_the_rest_is_traffic_all_the_same() -> None:
    library = await rolled_out()
    at = now() + timedelta(hours=3)
    monitor = Monitor(library.store, "live", Watch(WATCH.guards, no_traffic=timedelta(hours=2)), clock=lambda: at)
    library.store.append([fact for _ in range(100) for fact in rated(NEW, 0.0, compared=False, at=at)])
    library.store.append(rated(OLD, 1.0, 1.0))
    health = monitor.look()
    assert (health.units, health.rows[0].pairs, alarms(health)) == ((0, 2), 0, [])


async def test_a_small_canary_is_set_against_nine_times_as_many_and_its_ratios_against_as_many() -> None:
    library = await rolled_out(share=0.05)
    monitor = Monitor(library.store, "live", WATCH)
    for canary, control in zip(at_place(0, 0.05, 40), at_place(0.95, 1, 40), strict=True):
        library.store.append(rated(OLD, 1.0, unit=control, share=0.05))
        library.store.append(rated(NEW, 1.0, unit=canary, share=0.05))
    alone = monitor.look()
    assert (alone.units, alone.rows[0].pairs, alone.rows[0].older, alone.alarms) == ((40, 40), 40, 1.0, ())
    between = at_place(0.05, 0.45, 320)
    library.store.append([fact for unit in between for fact in rated(OLD, 0.0, unit=unit, compared=False, share=0.05)])
    health = monitor.look()
    assert (health.units, health.rows[0].pairs, health.alarms) == ((40, 40), 40, ())
    assert health.rows[0].older == pytest.approx(40 / 360)
    library.store.append(rated(NEW, 1.0, unit=at_place(0, 0.05, 41)[-1], share=0.05))
    (row,) = monitor.look().rows
    assert (row.pairs, row.change) == (41, pytest.approx(1 / 41))  # beside nine of those between


async def test_who_begins_anew_sees_what_one_saw_who_was_there_from_the_beginning() -> None:
    library = await rolled_out()
    monitor, chance = Monitor(library.store, "live", WATCH), random.Random(1)
    for _ in range(5):
        library.store.append(both(HEALTHY, 20, chance))
        seen = monitor.look()
    fresh = Monitor(library.store, "live", WATCH).look()
    assert (fresh.units, fresh.rows, fresh.alarms) == (seen.units, seen.rows, seen.alarms)
    assert seen.rows[0].pairs == 100


async def test_what_was_known_of_an_earlier_canary_does_not_count_against_the_next() -> None:
    library = await rolled_out()
    monitor = Monitor(library.store, "live", WATCH)
    library.store.append(both(POOR, 100, random.Random(1)))
    assert monitor.react(monitor.look())
    await channels.release(library, "live", NEW, [], verdict=None, because="mended", rollout=Rollout(share=0.5))
    health = monitor.look()
    assert (health.phase, health.units, health.rows[0].pairs, health.alarms) == ("canary", (0, 0), 0, ())
    await channels.promote(library, "live", because="well", rollout=Rollout(share=0.6))
    library.store.append(both(HEALTHY, 5, random.Random(1)))
    await channels.promote(library, "live", because="well", rollout=Rollout(share=0.7))
    assert monitor.look().rows[0].pairs == 5  # what came at another share of the same canary does


# Ratios, silence and time


async def test_above_a_half_as_many_are_compared_of_both_and_nobody_is_alarmed() -> None:
    library = await rolled_out(share=0.75)
    monitor = Monitor(library.store, "live", WATCH)
    await serve(library, range(1500), {NEW: 1.0, OLD: 1.0}, random.Random(1))
    health = monitor.look()
    newer, older = health.units
    assert older == pytest.approx(375, abs=60)
    assert newer == pytest.approx(375, abs=60)  # and not 1,125
    assert health.alarms == ()


async def test_units_that_go_missing_hold_the_canary() -> None:
    library = await rolled_out()
    monitor = Monitor(library.store, "live", WATCH)
    library.store.append([met(NEW) for _ in range(300)] + [met(OLD) for _ in range(450)])
    health = monitor.look()
    assert (alarms(health), monitor.react(health)) == ([("sample ratio", "hold")], None)
    assert health.alarms[0].message.startswith(
        "300 units got the newer, 450 the older; equally many were expected (exact p = 4.8e-08, e = "
    )


async def test_answers_that_are_missing_on_one_side_hold_it_until_they_have_come() -> None:
    library = await rolled_out()
    monitor = Monitor(library.store, "live", WATCH)
    slow = [met(NEW) for _ in range(300)]
    library.store.append([fact for one in slow for fact in (one, *rated(OLD, 1.0))])
    health = monitor.look()
    assert alarms(health) == [("answer ratio", "hold")]
    assert "0 outcomes by rating of the newer, 300 the older" in health.alarms[0].message
    library.store.append([said(one, 1.0) for one in slow])
    assert monitor.look().alarms == ()


async def test_a_canary_that_nobody_meets_is_held_until_somebody_does() -> None:
    library = await rolled_out()
    at = now()
    watch = Watch(no_traffic=timedelta(hours=2), deadline=timedelta(days=3))
    monitor = Monitor(library.store, "live", watch, clock=lambda: at)
    assert monitor.look().alarms == ()
    at += timedelta(hours=3)
    library.store.append([met(OLD, at=at)])
    health = monitor.look()
    assert (alarms(health), monitor.react(health)) == ([("no traffic", "hold")], None)
    assert health.alarms[0].message == f"no user got the canary {NEW[3:13]} for 3 hours, at 50 %"
    library.store.append([met(NEW, at=at)])
    library.store.append([met(NEW, at=at - timedelta(hours=3))])  # which was written late
    assert monitor.look().alarms == ()


async def test_a_canary_that_is_not_settled_in_time_is_taken_back() -> None:
    library = await rolled_out()
    at = now()
    monitor = Monitor(library.store, "live", Watch(deadline=timedelta(days=3)), clock=lambda: at)
    at += timedelta(days=2)
    await channels.promote(library, "live", because="well", rollout=Rollout(share=0.6))
    assert monitor.look().alarms == ()
    at += timedelta(days=1, minutes=1)  # counted from when it came, whatever its share
    health = monitor.look()
    assert alarms(health) == [("deadline", "roll back")]
    ref = monitor.react(health)
    assert ref
    assert ref.because == f"the canary {NEW[3:13]} is 3 days old, and should be settled within 3 days"


async def test_a_channel_without_a_release_has_nothing_to_watch() -> None:
    with pytest.raises(NotFound, match='channel "live": found nothing released'):
        Monitor(MemoryStore(), "live", WATCH).look()
    library = await settled()
    health = Monitor(library.store, "live", Watch()).look()
    assert (health.phase, health.newer, health.older, health.rows, health.reaction) == ("settled", OLD, None, (), None)


# After it is for all


async def kept_back(share: float = 0.5) -> Library:
    library = await rolled_out()
    keep = KeepBack(share, now() + timedelta(days=7))
    await channels.promote(library, "live", because="well", rollout=Rollout(keep_back=keep))
    return library


async def test_those_kept_back_are_the_control_and_what_becomes_worse_later_is_taken_back() -> None:
    library = await kept_back()
    monitor, chance = Monitor(library.store, "live", WATCH), random.Random(1)
    await serve(library, range(600), {NEW: 0.9, OLD: 0.9}, chance)
    health = monitor.look()
    assert (health.phase, health.newer, health.older, health.alarms) == ("kept back", NEW, OLD, ())
    assert sum(health.units) == 600
    library.store.append(both({NEW: 0.5, OLD: 0.9}, 150, chance))
    health = monitor.look()
    assert ("worse", "roll back") in alarms(health)
    ref = monitor.react(health)
    assert ref
    assert ref.target == {"stable": OLD, "how": "rollback"}
    assert "from what was served before" in ref.because
    assert monitor.look().newer == OLD


async def test_a_guard_that_holds_only_tells_once_it_is_for_all() -> None:
    library = await kept_back()
    monitor = Monitor(library.store, "live", HOLDING)
    library.store.append(both({NEW: 0.5, OLD: 0.9}, 150, random.Random(1)))
    health = monitor.look()
    assert (alarms(health), monitor.react(health)) == ([("worse", "tell")], None)


async def test_after_a_release_all_guards_together_are_as_rarely_alarmed_without_cause() -> None:
    library = await kept_back()
    library.store.append(both({NEW: 0.5, OLD: 0.9}, 30, random.Random(1)))

    def evidence(*others: Guard) -> float:
        return Monitor(library.store, "live", Watch((Guard("rating", -0.05), *others))).look().rows[0].evidence

    assert 0 < evidence() < 1
    ratio = math.log(RUN_LENGTH) / math.log(3 * RUN_LENGTH)
    assert evidence(Guard("a", -0.05), Guard("b", -0.05)) == pytest.approx(evidence() * ratio)


async def test_when_the_time_of_those_kept_back_is_over_it_is_set_against_what_was_known() -> None:
    library = await kept_back()
    at = now()
    monitor = Monitor(library.store, "live", WATCH, clock=lambda: at)
    assert monitor.look().phase == "kept back"
    at += timedelta(days=8)
    assert monitor.look().phase == "settled"


async def test_without_anybody_kept_back_a_regression_is_told_and_nothing_is_taken_back() -> None:
    library = await settled()
    chance = random.Random(1)
    library.store.append(both({OLD: 0.9}, 200, chance))
    await channels.release(library, "live", NEW, [], verdict=None, because="for all")
    monitor = Monitor(library.store, "live", WATCH)
    library.store.append(both({NEW: 0.9}, 60, chance))
    assert (monitor.look().phase, monitor.look().alarms) == ("settled", ())
    library.store.append(both({NEW: 0.4}, 100, chance))
    health = monitor.look()
    assert (alarms(health), monitor.react(health)) == ([("regression", "tell")], None)
    assert "from the one before it" in health.alarms[0].message


async def test_a_level_that_falls_is_told_and_nothing_is_taken_back() -> None:
    library = await settled(None, FIRST, OLD)
    monitor, chance = Monitor(library.store, "live", WATCH), random.Random(1)
    library.store.append(both({OLD: 0.9}, REFERENCE + 300, chance))
    assert monitor.look().alarms == ()
    library.store.append(both({OLD: 0.6}, 150, chance))
    health = monitor.look()
    assert (alarms(health), monitor.react(health)) == ([("drift", "tell")], None)
    assert health.alarms[0].message.startswith(f"rating of {OLD[3:13]} has become worse than the 0.9")


async def test_errors_that_become_more_frequent_are_told_too() -> None:
    library = await settled()
    monitor, chance = Monitor(library.store, "live", Watch((Guard("complaint", 0.05),))), random.Random(1)
    library.store.append(both({OLD: 0.02}, REFERENCE + 100, chance, "complaint"))
    assert monitor.look().alarms == ()
    library.store.append(both({OLD: 0.4}, 100, chance, "complaint"))
    assert alarms(monitor.look()) == [("drift", "tell")]


# Several at once


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/x.db"}
    with closing(open_store(urls.get(request.param) or request.getfixturevalue("postgres_url"))) as store:
        yield store


async def poor(store: Store) -> tuple[Library, Monitor, Health]:
    """A canary that has to be taken back, seen by somebody who is about to."""
    library = await rolled_out(store)
    store.append(both({NEW: 0.0, OLD: 1.0}, 40, random.Random(1)))
    monitor = Monitor(store, "live", WATCH)
    return library, monitor, monitor.look()


async def test_nothing_else_is_taken_back_if_somebody_was_quicker(store: Store) -> None:
    library, monitor, health = await poor(store)
    channels.rollback(library, "live", because="complaints")
    assert monitor.react(health) is None
    await channels.release(library, "live", NEW, [], verdict=None, because="it was mended", rollout=Rollout(share=0.5))
    assert monitor.react(health) is None  # it is tried anew, and what was known of it before does not count
    channels.rollback(library, "live", because="complaints")
    await channels.release(library, "live", OTHER, [], verdict=None, because="another", rollout=Rollout(share=0.5))
    assert monitor.react(health) is None
    await channels.promote(library, "live", because="well")
    assert monitor.react(health) is None
    assert [name for name, _ in how(library)[2:]] == ["rollback", "release", "rollback", "release", "promote"]
    assert {by for _, by in how(library)} == {"ada"}


async def test_what_was_promoted_meanwhile_is_taken_back_all_the_same(store: Store) -> None:
    library, monitor, health = await poor(store)
    await channels.promote(library, "live", because="looks well", rollout=Rollout(share=0.75))
    await channels.promote(library, "live", because="looks well")
    assert monitor.react(health)
    assert channels.state(store, "live").standing == (OLD,)


async def test_a_frozen_channel_is_taken_back_and_stays_frozen(store: Store) -> None:
    library, monitor, health = await poor(store)
    channels.freeze(library, "live", because="strange")
    assert monitor.react(health)
    state = channels.state(store, "live")
    assert (state.canary, state.frozen) == (None, True)


async def test_of_two_monitors_at_once_one_takes_it_back(store: Store) -> None:
    library, first, health = await poor(store)
    second, ready, found = Monitor(store, "live", WATCH), Barrier(2), list[Ref | None]()
    seen = second.look()

    def react(monitor: Monitor, health: Health) -> None:
        ready.wait()
        found.append(monitor.react(health))

    threads = [Thread(target=react, args=each) for each in ((first, health), (second, seen))]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(each is None for each in found) == [False, True]
    assert how(library) == [("release", "ada"), ("release", "ada"), ("rollback", MONITOR)]


async def test_an_edited_byte_in_what_the_monitor_did_is_found(tmp_path: Path) -> None:
    import sqlite3

    url = f"sqlite:///{tmp_path}/x.db"
    with closing(open_store(url)) as store:
        _, monitor, health = await poor(store)
        assert monitor.react(health)
        assert verify(store).problems == ()
    with closing(sqlite3.connect(tmp_path / "x.db")) as file, file:
        for trigger in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            file.execute(f"DROP TRIGGER {trigger[0]}")
        edited = "UPDATE facts SET body = replace(body, 'the limit is', 'the limit was') WHERE by = 'monitor'"
        assert file.execute(edited).rowcount == 1
    with closing(open_store(url)) as store:
        move = [*store.facts(Query(kind="move"))][-1]
        assert "the limit was" in move.body["because"]
        problems: Any = verify(store).problems
        assert any(move.key in str(problem) for problem in problems)
