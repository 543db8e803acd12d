"""The canary beside its control, by what came of those who met them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest
from loop_samples import agent

from seedbed.errors import NotFound, ReleaseRefused, SeedbedError
from seedbed.experiments.compare import abort
from seedbed.experiments.experiment import Design
from seedbed.experiments.live import LiveSource, plan_live, register_live
from seedbed.experiments.proof.certificate import certificate, verify
from seedbed.experiments.proof.error_budget import BudgetTerms, error_budget
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.assignment import Reader, choose, feedback
from seedbed.release.channels import Rollout
from seedbed.release.live_comparison import LiveComparison, LiveOptions, compare_canary, find_live_verdict
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, now

OLD, NEW = (agent(name).digest for name in "ab")
ALL = {"canary": 1.0, "control": 1.0}
BETTER, WORSE = {"canary": 0.9, "control": 0.5}, {"canary": 0.5, "control": 0.9}


async def rolled_out(library: Library, share: float = 0.5) -> Library:
    for name in "ab":
        library.keep(agent(name), because="written")
    await channels.release(library, "live", OLD, [], verdict=None, because="first")
    await channels.release(library, "live", NEW, [], verdict=None, because="try it", rollout=Rollout(share=share))
    return library


@pytest.fixture
async def library() -> Library:
    return await rolled_out(Library(MemoryStore(), "ada"))


async def serve(library: Library, units: int, good: dict[str, float], answers: dict[str, float], seed: int = 1) -> None:
    """So many users come; each may say how it was, the more likely well, the better what they met."""
    reader, chance = Reader(library, "live"), random.Random(seed)
    for number in range(units):
        choice = await choose(reader, f"user {seed}/{number}")
        if chance.random() < answers[choice.arm]:
            feedback(library, choice.exposure, float(chance.random() < good[choice.arm]))


async def test_a_better_canary_is_found_superior_and_a_worse_one_inferior(library: Library) -> None:
    await serve(library, 400, BETTER, ALL)
    found = compare_canary(library, "live")
    assert (found.finding, found.because) == ("superior", "")
    assert (found.control.playbook, found.canary.playbook) == (OLD, NEW)
    assert found.difference is not None
    assert found.low < 0.4 < found.high
    assert found.low < found.difference < found.high
    assert found.p is not None
    assert found.p <= 0.05
    channels.rollback(library, "live", because="try the other")
    await channels.release(library, "live", NEW, [], verdict=None, because="again", rollout=Rollout(share=0.5))
    assert compare_canary(library, "live").pairs == 0  # what was known of an earlier rollout does not count
    await serve(library, 400, WORSE, ALL, seed=2)
    assert compare_canary(library, "live").finding == "inferior"


def sent(library: Library, canary: int, control: int) -> None:
    """So many units of each arm, in random order, and nobody says how it was."""
    arms = ["canary"] * canary + ["control"] * control
    random.Random(1).shuffle(arms)
    bodies = [
        {"unit": f"{number}", "arm": arm, "playbook": NEW if arm == "canary" else OLD, "compared": True}
        for number, arm in enumerate(arms)
    ]
    library.store.append(
        [
            Fact(kind="exposure", key=body["unit"], subject="channels/live", at=now(), by="ada", body=body)
            for body in bodies
        ]
    )


async def test_a_slight_mismatch_of_units_makes_the_verdict_invalid_and_no_look_before_it(library: Library) -> None:
    compare_canary(library, "live")
    sent(library, 25, 50)
    for _ in range(2):
        open_still = compare_canary(library, "live")
        assert (open_still.finding, open_still.because) == ("inconclusive", "")
        assert open_still.ratio == {"e": 3.02, "p": 0.00523}
    found = compare_canary(library, "live", LiveOptions(conclude=True))
    expected = "found 50 units sent to the control and 25 units sent to the canary; expected as many"
    assert (found.finding, found.because) == ("invalid", f"{expected} (exact p = 0.0052)")
    assert found.verdict
    assert found.verdict.live["ratio"] == found.ratio
    assert verify(library.store, [found.experiment])[found.experiment] == []


async def test_a_comparison_that_was_begun_by_an_old_version_goes_on_as_it_was_registered(library: Library) -> None:
    move = [*library.store.facts(Query(kind="move"))][-1]
    source = LiveSource("channels/live", (move.key,), ("control", "canary"), ratio="")
    assert "ratio" not in source.content()
    plan = plan_live(source, OLD, NEW, "rating", Design(mode=""))
    register_live(library.store, source, plan, by="ada", clock=now)
    sent(library, 25, 50)
    found = compare_canary(library, "live", LiveOptions(conclude=True))
    assert (found.experiment, found.finding, found.ratio) == (plan.digest, "inconclusive", {})
    assert verify(library.store, [found.experiment])[found.experiment] == []


@pytest.mark.parametrize("good", [BETTER, WORSE], ids=["better", "worse"])
async def test_a_canary_that_people_found_worse_is_not_promoted(good: dict[str, float], library: Library) -> None:
    await serve(library, 400, good, ALL)
    found = compare_canary(library, "live")
    if good is BETTER:
        assert (await channels.promote(library, "live", because="they like it")).target["stable"] == NEW
        return
    with pytest.raises(ReleaseRefused, match=f"live: found worse by rating, experiment {found.experiment[3:13]}"):
        await channels.promote(library, "live", because="I like it")
    assert channels.stable(library.store, "live") == OLD


async def test_equal_ones_are_called_better_no_more_often_than_promised() -> None:
    wrong, runs = 0, 200
    for seed in range(runs):
        library = await rolled_out(Library(MemoryStore(), "ada"))
        reader, chance = Reader(library, "live"), random.Random(seed)
        for number in range(40):
            choice = await choose(reader, f"user {seed}/{number}")
            feedback(library, choice.exposure, float(chance.random() < 0.6))
        wrong += compare_canary(library, "live", LiveOptions(alpha=0.2)).finding == "superior"
    assert wrong <= 0.2 * runs
    assert wrong  # or this would not look at anything


async def test_only_the_first_outcome_of_a_units_first_exposure_counts(library: Library) -> None:
    reader = Reader(library, "live")
    first = await choose(reader, "anna")
    again = await choose(reader, "anna")
    feedback(library, again.exposure, 0.0)
    feedback(library, first.exposure, 0.25)
    feedback(library, first.exposure, 1.0)
    feedback(library, first.exposure, 0.5, metric="other")
    found = compare_canary(library, "live")
    side = found.canary if first.arm == "canary" else found.control
    assert (side.units, side.known, side.mean) == (1, 1, 0.25)
    other = compare_canary(library, "live", LiveOptions("other"))
    assert 0.5 in (other.canary.mean, other.control.mean)
    assert other.experiment != found.experiment


async def test_units_that_go_missing_from_one_arm_make_it_invalid(library: Library) -> None:
    await serve(library, 8, BETTER, ALL)
    body = next(library.store.facts(Query(kind="exposure"))).body
    arms = {"arm": "control", "playbook": OLD, "compared": True}
    lost = [
        Fact(
            kind="exposure",
            key=f"x{n}",
            subject="channels/live",
            at=now(),
            by="ada",
            body={**body, **arms, "unit": f"x{n}"},
        )
        for n in range(300)
    ]
    library.store.append(lost)
    found = compare_canary(library, "live")
    assert found.finding == "invalid"
    assert "units sent to the control" in found.because
    assert found.verdict
    assert not verify(library.store, [found.experiment])[found.experiment]


async def test_an_arm_whose_people_answer_less_often_makes_it_invalid(library: Library) -> None:
    await serve(library, 900, {"canary": 0.6, "control": 0.6}, {"canary": 0.9, "control": 0.3})
    found = compare_canary(library, "live")
    assert found.finding == "invalid"
    assert "outcomes known of the control" in found.because


async def test_above_a_half_only_as_many_of_the_canary_are_compared_as_there_are_of_the_control() -> None:
    library = await rolled_out(Library(MemoryStore(), "ada"), share=0.8)
    await serve(library, 600, {"canary": 0.6, "control": 0.6}, ALL)
    found = compare_canary(library, "live")
    assert found.finding != "invalid"
    assert found.control.units + found.canary.units < 300


async def test_without_a_canary_there_is_nothing_to_compare(library: Library) -> None:
    channels.rollback(library, "live", because="enough")
    with pytest.raises(NotFound, match='no canary on channel "live"'):
        compare_canary(library, "live")
    with pytest.raises(NotFound, match='no canary on channel "nowhere"'):
        compare_canary(library, "nowhere")


# The verdict


async def test_a_verdict_is_stored_when_it_is_decided_and_stands_whatever_comes_later(library: Library) -> None:
    await serve(library, 10, BETTER, ALL)
    early = compare_canary(library, "live")
    assert early.verdict is None
    assert not list(library.store.facts(Query(kind="verdict")))
    await serve(library, 300, BETTER, ALL, seed=2)
    found = compare_canary(library, "live")
    assert found.verdict
    assert found.verdict == Verdict.recall(library.store, early.experiment)
    assert (found.verdict.finding, found.verdict.control, found.verdict.candidate) == ("superior", OLD, NEW)
    await serve(library, 300, WORSE, ALL, seed=3)
    assert compare_canary(library, "live") == found
    channels.rollback(library, "live", because="enough")
    assert compare_canary(library, "live") == found


async def test_it_does_not_matter_when_somebody_looks() -> None:
    findings = []
    for every in (1, 400):
        library = await rolled_out(Library(MemoryStore(), "ada"))
        for start in range(0, 400, every):
            reader, chance = Reader(library, "live"), random.Random(start)
            for number in range(start, start + every):
                choice = await choose(reader, f"user {number}")
                chance = random.Random(number)
                feedback(library, choice.exposure, float(chance.random() < BETTER[choice.arm]))
            if every == 1 and start % 20 == 0:
                compare_canary(library, "live")
        found = compare_canary(library, "live")
        findings.append((found.finding, found.pairs, found.wins, found.control.units, found.canary.units, found.p))
    assert findings[0] == findings[1]
    assert findings[0][0] == "superior"


async def test_who_wants_no_more_of_it_has_a_verdict_that_says_so(library: Library) -> None:
    await serve(library, 10, BETTER, ALL)
    compare_canary(library, "live")
    channels.rollback(library, "live", because="no time")
    assert compare_canary(library, "live").verdict is None
    found = compare_canary(library, "live", LiveOptions(conclude=True))
    assert found.verdict
    assert found.verdict.finding == "inconclusive"
    assert compare_canary(library, "live") == found
    proof = certificate(library.store, found.experiment)
    assert proof.problems == ()
    assert not proof.flags["ended_by_rule"]


async def test_what_is_stopped_by_hand_is_invalid_for_ever(library: Library) -> None:
    await serve(library, 10, BETTER, ALL)
    experiment = compare_canary(library, "live").experiment
    abort(library.store, experiment, because="wrong users", by="ada", clock=now)
    await serve(library, 300, BETTER, ALL, seed=2)
    found = compare_canary(library, "live")
    assert (found.finding, found.because) == ("invalid", "stopped by hand: wrong users")
    assert not verify(library.store, [experiment])[experiment]


async def test_an_error_rate_out_of_reach_is_refused(library: Library) -> None:
    with pytest.raises(SeedbedError, match="alpha"):
        compare_canary(library, "live", LiveOptions(alpha=1.5))


async def test_the_certificate_says_whether_outcomes_were_known_when_it_was_registered(library: Library) -> None:
    await serve(library, 200, BETTER, ALL)
    late = compare_canary(library, "live")
    assert not certificate(library.store, late.experiment).flags["outcomes_came_after_that"]
    other = await rolled_out(Library(MemoryStore(), "ada"))
    compare_canary(other, "live")
    await serve(other, 200, BETTER, ALL)
    proof = certificate(other.store, compare_canary(other, "live").experiment)
    assert proof.flags == dict.fromkeys(proof.flags, True)
    assert len(proof.path) == proof.verdict.tasks


async def test_a_channel_with_a_budget_pays_once_for_each_canary(library: Library) -> None:
    asked = LiveOptions(terms=BudgetTerms(0.05))
    first = compare_canary(library, "live", asked)
    assert compare_canary(library, "live", asked).experiment == first.experiment
    assert first.alpha < 0.05
    assert error_budget(library.store, "live", asked.terms).balance().waiting == 1
    await serve(library, 400, {"canary": 1.0, "control": 0.3}, ALL)
    assert compare_canary(library, "live", asked).finding == "superior"
    assert error_budget(library.store, "live", asked.terms).balance().discoveries == 1


async def test_what_was_found_of_the_canary_that_is_there_can_be_asked_for(library: Library) -> None:
    assert find_live_verdict(library.store, "live") is None
    await serve(library, 400, WORSE, ALL)
    compare_canary(library, "live", LiveOptions("other", conclude=True))
    found = compare_canary(library, "live").verdict
    assert found
    compare_canary(library, "live", LiveOptions("another", conclude=True))
    assert find_live_verdict(library.store, "live") == found
    assert found.finding == "inferior"
    channels.rollback(library, "live", because="worse")
    assert find_live_verdict(library.store, "live") is None


# Where it is kept


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/live.db"
    else:
        yield request.getfixturevalue("postgres_url")


async def test_of_two_who_conclude_at_once_both_have_the_same_verdict_and_there_is_one(url: str) -> None:
    store = open_store(url)
    library = await rolled_out(Library(store, "ada"))
    compare_canary(library, "live")
    await serve(library, 120, {"canary": 1.0, "control": 0.2}, ALL)
    found: list[LiveComparison] = []
    ready = Barrier(2)

    def look(name: str) -> None:
        with_own = Library(open_store(url), name)
        ready.wait()
        found.append(compare_canary(with_own, "live"))
        with_own.store.close()

    lookers = [Thread(target=look, args=(name,)) for name in ("ben", "cleo")]
    for each in lookers:
        each.start()
    for each in lookers:
        each.join()
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0].finding == "superior"
    assert len(list(store.facts(Query(kind="verdict")))) == 1
    assert not verify(store, [found[0].experiment])[found[0].experiment]
    store.close()
