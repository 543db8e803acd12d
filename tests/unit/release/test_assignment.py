from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import pytest
from broken_store import Broken
from loop_samples import agent

from seedbed.errors import NotFound, SeedbedError
from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.assignment import Reader, Split, assign, choose, choose_among, feedback, place
from seedbed.release.channels import Rollout
from seedbed.release.ramp import Ramp
from seedbed.release.states import KeepBack
from seedbed.stats.monitors import SampleRatio
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, now

OLD, NEW, OTHER = (agent(name).digest for name in "abc")
KEYS = [f"user {number}" for number in range(100_000)]
PLACES = [(number + 0.5) / 2000 for number in range(2000)]


def arm_of(share: float, key: str) -> str:
    return Split(NEW, OLD, share).arm(place("live", NEW, key))


@pytest.fixture
def library() -> Library:
    library = Library(MemoryStore(), "ada")
    for name in "abc":
        library.keep(agent(name), because="written")
    return library


async def canary(library: Library, share: float, playbook: str = NEW) -> None:
    await channels.release(library, "live", OLD, [], verdict=None, because="first")
    await channels.release(library, "live", playbook, [], verdict=None, because="try it", rollout=Rollout(share=share))


# Who meets what


@pytest.mark.parametrize("share", [0.01, 0.05, 0.25, 0.5, 0.8])
def test_shares_are_as_agreed_over_a_hundred_thousand_units(share: float) -> None:
    counts = Counter(arm_of(share, key) for key in KEYS)
    wanted = {arm: Split(NEW, OLD, share).propensity(arm) for arm in counts}  # type: ignore[arg-type]
    assert sum(wanted.values()) == pytest.approx(1)
    for arm, expected in wanted.items():
        assert counts[arm] / len(KEYS) == pytest.approx(expected, abs=0.005)
    assert not SampleRatio(wanted).update({**counts})


def test_nobody_leaves_the_canary_when_its_share_grows() -> None:
    before: set[str] = set()
    for share in (0.01, 0.05, 0.25, 0.5, 0.99):
        now = {key for key in KEYS[:20_000] if arm_of(share, key) == "canary"}
        assert before < now
        before = now


def test_the_control_is_as_large_as_the_canary_and_stays_as_that_grows() -> None:
    for share, control, rest in ((0.05, 0.05, 0.9), (0.5, 0.5, 0.0), (0.8, 0.2, 0.0)):
        found = Split(NEW, OLD, share)
        assert (found.propensity("canary"), found.propensity("control")) == pytest.approx((share, control))
        assert found.propensity("stable") == pytest.approx(rest)
    small = {key for key in KEYS[:20_000] if arm_of(0.05, key) == "control"}
    large = {key for key in KEYS[:20_000] if arm_of(0.4, key) == "control"}
    assert small < large


@pytest.mark.parametrize("share", [0.05, 0.5, 0.75])
async def test_as_many_who_meet_the_canary_are_compared_as_there_are_in_its_control(
    share: float, library: Library
) -> None:
    await canary(library, share)
    serving = await Reader(library, "live").read()
    compared = [choice.arm for key in KEYS[:20_000] if (choice := assign(serving, key)).compared]
    counts = Counter(compared)
    assert counts.keys() == {"canary", "control"}
    assert not SampleRatio({"canary": 0.5, "control": 0.5}).update(counts)
    assert len(compared) / 20_000 == pytest.approx(2 * min(share, 1 - share), abs=0.015)


@pytest.mark.parametrize(("share", "controls"), [(0.01, 9), (0.05, 9), (0.1, 5), (0.25, 2), (0.5, 1), (0.8, 1)])
def test_guards_read_up_to_nine_units_for_each_of_a_small_canary(share: float, controls: int) -> None:
    split = Split(NEW, OLD, share)
    beside = [at for at in PLACES if split.is_beside(at)]
    assert split.controls == controls
    assert {split.arm(at) for at in beside} <= {"stable"}  # they get what they got before guards read them
    compared = split.compared * len(PLACES)
    assert len(beside) + sum(split.arm(at) == "control" for at in PLACES) == pytest.approx(controls * compared)


def test_no_unit_that_guards_read_beside_the_control_is_ever_wanted_for_it_later() -> None:
    read: set[float] = set()
    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        split = Split(NEW, OLD, share)
        assert not any(split.arm(at) == "control" for at in read)
        read |= {at for at in PLACES if split.is_beside(at)}


# Those who are kept back


async def test_those_at_the_end_of_the_control_are_kept_back_and_nobody_who_met_the_new_one(library: Library) -> None:
    await canary(library, 0.9)
    reader, keys = Reader(library, "live"), KEYS[:5000]
    serving = await reader.read()
    before = {key: assign(serving, key) for key in keys}
    await channels.promote(
        library, "live", because="well", rollout=Rollout(keep_back=KeepBack(0.05, now() + timedelta(days=1)))
    )
    serving = await reader.read()
    after = {key: assign(serving, key) for key in keys}
    kept = {key for key in keys if after[key].playbook.digest == OLD}
    assert kept == {key for key in keys if place("live", NEW, key) >= 0.95}
    assert {after[key].arm for key in kept} == {"held"}
    assert {before[key].arm for key in kept} == {"control"}
    compared = Counter(choice.arm for choice in after.values() if choice.compared)
    assert not SampleRatio({"stable": 0.5, "held": 0.5}).update(compared)
    assert compared["held"] == len(kept)
    one = after[min(kept)]
    assert (one.share, one.propensity) == pytest.approx((0.95, 0.05))


async def test_whoever_met_the_new_one_stays_with_it_however_many_shall_be_kept_back(library: Library) -> None:
    await canary(library, 0.9)
    reader, keys = Reader(library, "live"), KEYS[:5000]
    serving = await reader.read()
    newer = {key for key in keys if assign(serving, key).playbook.digest == NEW}
    await channels.promote(
        library, "live", because="well", rollout=Rollout(keep_back=KeepBack(0.5, now() + timedelta(days=1)))
    )
    serving = await reader.read()
    assert {key for key in keys if assign(serving, key).playbook.digest == NEW} == newer


async def test_when_the_time_is_over_nobody_is_kept_back_any_more(library: Library) -> None:
    await canary(library, 0.5)
    await channels.promote(
        library, "live", because="well", rollout=Rollout(keep_back=KeepBack(0.5, now() - timedelta(seconds=1)))
    )
    choices = [await choose(Reader(library, "live"), key) for key in KEYS[:40]]
    assert {(each.arm, each.playbook.digest, each.propensity) for each in choices} == {("stable", NEW, 1.0)}


async def test_a_rollback_and_the_next_release_end_it_and_a_freeze_does_not(library: Library) -> None:
    key = next(key for key in KEYS if place("live", NEW, key) >= 0.5 and place("live", OTHER, key) >= 0.5)
    keep, reader = KeepBack(0.5, now() + timedelta(days=1)), Reader(library, "live")

    async def meets() -> tuple[str, str]:
        choice = await choose(reader, key)
        return choice.arm, choice.playbook.digest

    await channels.release(library, "live", OLD, [], verdict=None, because="first", rollout=Rollout(keep_back=keep))
    assert await meets() == ("stable", OLD)
    await channels.release(library, "live", NEW, [], verdict=None, because="for all", rollout=Rollout(keep_back=keep))
    assert await meets() == ("held", OLD)
    channels.freeze(library, "live", because="a look")
    assert await meets() == ("held", OLD)
    channels.unfreeze(library, "live", because="looked")
    assert await meets() == ("held", OLD)
    await channels.release(library, "live", OTHER, [], verdict=None, because="next", rollout=Rollout(share=0.5))
    assert await meets() == ("control", NEW)
    channels.rollback(library, "live", because="no")
    assert await meets() == ("stable", NEW)
    await channels.release(library, "live", OTHER, [], verdict=None, because="next", rollout=Rollout(keep_back=keep))
    assert await meets() == ("held", NEW)
    channels.rollback(library, "live", because="no")
    assert await meets() == ("stable", NEW)


async def test_of_several_channels_nobody_meets_what_one_of_them_keeps_some_back_with(library: Library) -> None:
    keep = KeepBack(0.5, now() + timedelta(days=1))
    for channel, playbooks in (("live", (OLD, NEW)), ("live/short", (OTHER,))):
        for playbook in playbooks:
            await channels.release(
                library, channel, playbook, [], verdict=None, because="so", rollout=Rollout(keep_back=keep)
            )
    readers = [Reader(library, name) for name in ("live", "live/short")]
    choices = [await choose_among(readers, key) for key in KEYS[:40]]
    assert {(each.playbook.digest, each.compared) for each in choices} == {(NEW, True), (OTHER, True)}


def test_another_candidate_and_another_channel_are_tried_on_others() -> None:
    first = {key for key in KEYS if place("live", NEW, key) < 0.1}
    for channel, candidate in (("live", OTHER), ("staging", NEW)):
        both = sum(place(channel, candidate, key) < 0.1 for key in first)
        assert both / len(first) == pytest.approx(0.1, abs=0.015)


def test_other_processes_with_other_hash_seeds_agree(library: Library) -> None:
    """And so do the next version of seedbed, and a machine with another order of bytes: three places are pinned."""
    told = (
        "import json; from seedbed.release.assignment import place;"
        f"print(json.dumps([place('live', {NEW!r}, f'user {{n}}') for n in range(1000)]))"
    )
    wanted = [place("live", NEW, key) for key in KEYS[:1000]]
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", told], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert json.loads(ran.stdout) == wanted
    pinned = [round(place("production", "b2:" + "0" * 64, key), 6) for key in ("anna", "ben", "ü")]
    assert pinned == [0.611041, 0.712045, 0.118699]


# It is written down first


async def test_a_choice_is_in_the_store_with_its_propensity_before_anything_is_done(library: Library) -> None:
    await canary(library, 0.25)
    reader = Reader(library, "live")
    choices = [await choose(reader, key) for key in KEYS[:200]]
    facts = {fact.key: fact for fact in library.store.facts(Query(kind="exposure", subject="channels/live"))}
    assert len(facts) == 200
    for choice in choices:
        body = facts[choice.exposure].body
        assert body == {
            "unit": choice.key,
            "arm": choice.arm,
            "playbook": choice.playbook.digest,
            "share": 0.25,
            "propensity": {"canary": 0.25, "control": 0.25, "stable": 0.5}[choice.arm],
            "version": 2,
            "compared": choice.arm != "stable",
            "run": False,
        }
        assert choice.playbook.digest == (NEW if choice.arm == "canary" else OLD)
    assert {choice.arm for choice in choices} == {"canary", "control", "stable"}


async def test_without_a_canary_everybody_meets_what_is_stable(library: Library) -> None:
    await channels.release(library, "live", OLD, [], verdict=None, because="first")
    choice = await choose(Reader(library, "live"), "anna")
    assert (choice.arm, choice.playbook.digest, choice.propensity, choice.share) == ("stable", OLD, 1.0, 0.0)


async def test_what_cannot_be_written_down_is_not_done(library: Library) -> None:
    await canary(library, 0.5)
    broken = Broken(library.store)
    reader = Reader(Library(broken, "ada"), "live")
    key = next(key for key in KEYS if arm_of(0.5, key) == "canary")
    assert (await choose(reader, key)).playbook.digest == NEW
    broken.writes = False
    choice = await choose(reader, key)
    assert (choice.playbook.digest, choice.arm, choice.stale) == (OLD, "stable", True)
    assert len(list(library.store.facts(Query(kind="exposure")))) == 1


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 1001])
async def test_a_key_that_cannot_be_kept_is_refused(key: str, library: Library) -> None:
    await canary(library, 0.5)
    with pytest.raises(SeedbedError, match="key: found"):
        await choose(Reader(library, "live"), key)


# Several arms


async def test_of_several_channels_each_unit_meets_one_and_all_are_met_alike(library: Library) -> None:
    names = ("live", "live/short", "live/warm")
    for channel, playbook in zip(names, (OLD, NEW, OTHER), strict=True):
        await channels.release(library, channel, playbook, [], verdict=None, because="first")
    readers = [Reader(library, name) for name in names]
    choices = [await choose_among(readers, key) for key in KEYS[:600]]
    counts = Counter(choice.arm for choice in choices)
    assert not SampleRatio(dict.fromkeys(names, 1 / 3)).update(counts)
    assert {(choice.arm, choice.playbook.digest) for choice in choices} == {*zip(names, (OLD, NEW, OTHER), strict=True)}
    assert (await choose_among(readers, KEYS[0])).arm == choices[0].arm
    fact = next(library.store.facts(Query(kind="exposure", subject="splits/live,live/short,live/warm")))
    assert (fact.body["arm"], fact.body["propensity"]) == (choices[0].arm, pytest.approx(1 / 3))


async def test_without_the_store_everybody_meets_the_first_of_several(library: Library) -> None:
    for channel, playbook in (("live", OLD), ("live/short", NEW)):
        await channels.release(library, channel, playbook, [], verdict=None, because="first")
    broken = Broken(library.store)
    readers = [Reader(Library(broken, "ada"), name) for name in ("live", "live/short")]
    assert {(await choose_among(readers, key)).playbook.digest for key in KEYS[:20]} == {OLD, NEW}
    for cut in ("writes", "reads"):
        setattr(broken, cut, False)
        found = [await choose_among(readers, key) for key in KEYS[:20]]
        assert {(choice.playbook.digest, choice.stale) for choice in found} == {(OLD, True)}
    assert len(list(library.store.facts(Query(kind="exposure")))) == 20


# What the ramp waits for


async def test_a_step_takes_its_runs_of_the_canary_and_the_last_another_person(library: Library) -> None:
    steps = Ramp((0.25, 0.5), hold=3, approval=True)
    await channels.release(library, "live", OLD, [], verdict=None, because="first", rollout=Rollout(ramp=steps))
    await channels.release(library, "live", NEW, [], verdict=None, because="try it", rollout=Rollout(ramp=steps))
    reader, ben = Reader(library, "live"), Library(library.store, "ben")
    inside = [key for key in KEYS if arm_of(0.25, key) == "canary"][:3]
    outside = next(key for key in KEYS if arm_of(0.25, key) == "stable")

    async def meet(times: int) -> None:
        for key in inside[:times]:
            await choose(reader, key)

    with pytest.raises(channels.ReleaseRefused, match="hold: found 0 runs of the canary at this share; expected 3"):
        await channels.promote(ben, "live", because="well", rollout=Rollout(ramp=steps))
    await meet(2)
    await choose(reader, outside)
    assert channels.seen_by_canary(library.store, "live") == 2
    await meet(3)
    channels.freeze(library, "live", because="a look")
    channels.unfreeze(library, "live", because="looked")
    ref = await channels.promote(library, "live", because="well", rollout=Rollout(ramp=steps))
    assert isinstance(ref.target, dict)
    assert ref.target["canary"] == {"playbook": NEW, "share": 0.5}
    with pytest.raises(channels.ReleaseRefused) as refused:
        await channels.promote(library, "live", because="well", rollout=Rollout(ramp=steps))
    assert [refusal.path for refusal in refused.value.refusals] == ["hold"]  # who promotes it is asked last
    await meet(3)
    with pytest.raises(
        channels.ReleaseRefused, match="approval: found ada, who released or wrote it; expected another"
    ):
        await channels.promote(library, "live", because="well", rollout=Rollout(ramp=steps))
    await channels.promote(ben, "live", because="well", rollout=Rollout(ramp=steps))
    assert channels.state(library.store, "live").standing == (OLD, NEW)


# What came of it


async def test_feedback_is_attached_to_what_it_is_about(library: Library) -> None:
    await canary(library, 0.5)
    choice = await choose(Reader(library, "live"), "anna")
    feedback(library, choice.exposure, 1, "just right")
    feedback(library, choice.exposure, 0.0, metric="resolved")
    facts = list(library.store.facts(Query(kind="feedback", subject=choice.exposure)))
    assert [(fact.value, fact.body["metric"], fact.body["comment"]) for fact in facts] == [
        (1.0, "rating", "just right"),
        (0.0, "resolved", ""),
    ]


@pytest.mark.parametrize("rating", [-0.1, 1.1, float("nan"), "good"])
async def test_a_rating_is_a_number_from_0_to_1(rating: float, library: Library) -> None:
    with pytest.raises(SeedbedError, match="rating: found"):
        feedback(library, "x", rating)


def test_feedback_on_nothing_is_told(library: Library) -> None:
    with pytest.raises(NotFound, match='no run and no exposure "x"'):
        feedback(library, "x", 1.0)


async def test_many_at_once_meet_what_they_would_one_by_one(library: Library) -> None:
    await canary(library, 0.5)
    reader = Reader(library, "live")
    done = await asyncio.gather(*(choose(reader, key) for key in KEYS[:100]))
    assert [each.arm for each in done] == [arm_of(0.5, key) for key in KEYS[:100]]


async def test_ids_of_exposures_and_feedback_begin_with_their_time(library: Library) -> None:
    await channels.release(library, "live", OLD, [], verdict=None, because="first")
    choice = await choose(Reader(library, "live"), "anna")
    among = await choose_among([Reader(library, "live")], "anna")
    assert (choice.exposure[0], among.exposure[0]) == ("t", "t")
    assert feedback(library, choice.exposure, 1.0).key[0] == "t"
