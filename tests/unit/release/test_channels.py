from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from loop_samples import CONFIRMING, agent, bench, count, numbers

from seedbed.errors import NotFound, PlaybookError, RefMoved, ReleaseRefused, StoreError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.playbooks.library import Library
from seedbed.release.channels import Rollout, freeze, promote, release, rollback, stable, state, unfreeze
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.release.ramp import Ramp
from seedbed.release.states import Held, KeepBack
from seedbed.stage.program import code_of
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Ref
from seedbed.storage.upkeep import verify

NAMES = "abcd"


@pytest.fixture
def library() -> Library:
    library = Library(MemoryStore(), "ada")
    for name in NAMES:
        library.keep(agent(name), because="written")
    return library


A, B, C, D = (agent(name).digest for name in NAMES)


async def put(library: Library, digest: str, channel: str = "production") -> Ref:
    return await release(library, channel, digest, [], verdict=None, because="try it")


# Release


async def test_a_channel_serves_what_was_released_to_it(library: Library) -> None:
    assert stable(library.store, "production") is None
    ref = await put(library, A)
    assert (ref.name, ref.version, ref.by, ref.because) == ("channels/production", 1, "ada", "try it")
    assert stable(library.store, "production") == library.find("production") == A
    await put(library, B)
    assert stable(library.store, "production") == B


async def test_channels_do_not_touch_each_other(library: Library) -> None:
    await put(library, A)
    await put(library, B, "staging")
    assert (stable(library.store, "production"), stable(library.store, "staging")) == (A, B)


async def test_a_release_says_on_which_verdict_it_rests_and_which_gates_it_passed() -> None:
    store = MemoryStore()
    library = Library(store, "ada")
    old, new = agent("x"), agent(".*")
    for playbook in (old, new):
        library.keep(playbook, because="written")
    await put(library, old.digest)
    verdict = await run_experiment(old, new, numbers(20), ExactMatch(), bench(store), CONFIRMING)
    rollout = Rollout(require=({"better": {"error": 0.05}},))
    await release(
        library, "production", new.digest, [BetterGate()], verdict=verdict, because=str(verdict), rollout=rollout
    )
    first, second = store.facts(Query(kind="move", subject="channels/production"))
    code = {each.digest: {each.digest: code_of(each)} for each in (old, new)}
    plain = {"stable": old.digest, "how": "release", "verdict": None, "require": []}
    assert first.body["to"] == {**plain, "code": code[old.digest]}
    assert second.body["to"] == {
        "stable": new.digest,
        "how": "release",
        "verdict": verdict.experiment,
        "require": [{"better": {"error": 0.05}}],
        "code": code[new.digest],
    }
    assert second.body["from"] == first.body["to"]


async def test_a_refused_release_moves_nothing(library: Library) -> None:
    async def no(change: ReleaseRequest) -> Refusal:
        return Refusal("no", "anything", "nothing", "Stop.")

    async def never(change: ReleaseRequest) -> Refusal:
        return Refusal("never", f"{change.incumbent} → {change.candidate}", "nothing", "Stop.")

    await put(library, A)
    with pytest.raises(ReleaseRefused) as refused:
        await release(library, "production", B, [no, never], verdict=None, because="try it")
    assert refused.value.refusals == (
        Refusal("no", "anything", "nothing", "Stop."),
        Refusal("never", f"{A} → {B}", "nothing", "Stop."),
    )
    assert stable(library.store, "production") == A
    assert count(library.store, "move") == 1


async def test_what_is_served_already_is_not_released_again(library: Library) -> None:
    await put(library, A)
    with pytest.raises(ReleaseRefused, match="redundant: found the playbook that is there already; expected another"):
        await put(library, A)
    assert [*state(library.store, "production").standing] == [A]


async def test_a_playbook_that_is_not_kept_cannot_be_released(library: Library) -> None:
    with pytest.raises(NotFound, match="is not in this store"):
        await put(library, agent("unknown").digest)
    assert library.store.refs() == []


async def test_a_release_needs_a_reason(library: Library) -> None:
    with pytest.raises(StoreError, match="reason"):
        await release(library, "production", A, [], verdict=None, because=" ")


@pytest.mark.parametrize("first", [True, False], ids=["first release", "later release"])
async def test_of_two_releases_at_once_one_wins_and_the_other_is_told(first: bool, library: Library) -> None:
    if not first:
        await put(library, A)
    both = asyncio.Barrier(2)

    async def slow(change: ReleaseRequest) -> None:
        """Both have seen the same incumbent before either moves."""
        await both.wait()

    done = await asyncio.gather(
        *(release(library, "production", each, [slow], verdict=None, because="mine") for each in (B, C)),
        return_exceptions=True,
    )
    (won,) = [each for each in done if isinstance(each, Ref)]
    (lost,) = [each for each in done if not isinstance(each, Ref)]
    assert isinstance(lost, RefMoved)
    assert "Read the ref again before you move it" in str(lost)
    assert stable(library.store, "production") == won.target["stable"]  # type: ignore[index]
    assert count(library.store, "move") == (1 if first else 2)


# Canary


async def test_a_canary_leaves_what_is_stable_where_it_is(library: Library) -> None:
    await put(library, A)
    ref = await release(library, "production", B, [], verdict=None, because="try it", rollout=Rollout(share=0.05))
    canary = {"playbook": B, "share": 0.05}
    code = {B: code_of(library.get(B))}
    assert ref.target == {"stable": A, "canary": canary, "how": "release", "verdict": None, "require": [], "code": code}
    assert (stable(library.store, "production"), [*state(library.store, "production").standing]) == (A, [A])


async def test_a_promotion_keeps_the_evidence_it_rests_on_and_asks_the_gates_about_its_share() -> None:
    store = MemoryStore()
    library = Library(store, "ada")
    old, new = agent("x"), agent(".*")
    for playbook in (old, new):
        library.keep(playbook, because="written")
    await put(library, old.digest)
    verdict = await run_experiment(old, new, numbers(20), ExactMatch(), bench(store), CONFIRMING)
    asked: list[ReleaseRequest] = []

    async def far(change: ReleaseRequest) -> Refusal | None:
        asked.append(change)
        return Refusal("far", f"{change.share:g}", "at most 0.5") if change.share > 0.5 else None

    given = {"verdict": verdict, "because": str(verdict)}
    await release(library, "production", new.digest, [BetterGate(), far], rollout=Rollout(share=0.05), **given)  # type: ignore[arg-type]
    ref = await promote(library, "production", [far], because="well", rollout=Rollout(share=0.5))
    assert isinstance(ref.target, dict)
    assert (ref.target["how"], ref.target["verdict"]) == ("promote", verdict.experiment)
    with pytest.raises(ReleaseRefused, match=r"far: found 1; expected at most 0\.5"):
        await promote(library, "production", [far], because="well")
    assert [(each.share, each.verdict, each.incumbent) for each in asked] == [
        (share, verdict, old.digest) for share in (0.05, 0.5, 1.0)
    ]


async def test_a_ramp_leads_a_release_step_by_step_and_a_first_one_at_once(library: Library) -> None:
    steps = Ramp((0.05, 0.25, 1.0))

    def share(ref: Ref) -> float:
        assert isinstance(ref.target, dict)
        return float(ref.target["canary"]["share"]) if "canary" in ref.target else 1.0

    assert (
        share(
            await release(
                library, "staging", A, [], verdict=None, because="first", rollout=Rollout(share=1, ramp=steps)
            )
        )
        == 1
    )
    assert (
        share(await release(library, "production", A, [], verdict=None, because="first", rollout=Rollout(ramp=steps)))
        == 1
    )
    with pytest.raises(ReleaseRefused, match="share: found 50 %; expected at most 5 %, its first step"):
        await release(
            library, "production", B, [], verdict=None, because="fast", rollout=Rollout(share=0.5, ramp=steps)
        )
    assert (
        share(await release(library, "production", B, [], verdict=None, because="try", rollout=Rollout(ramp=steps)))
        == 0.05
    )
    with pytest.raises(ReleaseRefused, match="share: found 100 %; expected at most 25 %, its next step"):
        await promote(library, "production", because="fast", rollout=Rollout(share=1.0, ramp=steps))
    assert [
        share(await promote(library, "production", because="well", rollout=Rollout(ramp=steps))) for _ in range(2)
    ] == [0.25, 1]
    assert [*state(library.store, "production").standing] == [A, B]


async def test_what_some_are_kept_back_with_is_told_with_the_move_and_a_rollback_ends_it(library: Library) -> None:
    until = datetime(2030, 1, 2, tzinfo=UTC)
    await put(library, A)
    await release(library, "production", B, [], verdict=None, because="try it", rollout=Rollout(share=0.5))
    ref = await promote(library, "production", because="well", rollout=Rollout(keep_back=KeepBack(0.02, until)))
    assert isinstance(ref.target, dict)
    assert ref.target["held"] == {"playbook": A, "share": 0.02, "until": "2030-01-02T00:00:00+00:00"}
    assert state(library.store, "production").held == Held(A, 0.02, until)
    assert rollback(library, "production", because="worse").target == {"stable": A, "how": "rollback"}
    ref = await release(
        library, "production", C, [], verdict=None, because="all", rollout=Rollout(keep_back=KeepBack(0.5, until))
    )
    assert isinstance(ref.target, dict)
    assert ref.target["held"]["playbook"] == A
    assert (stable(library.store, "production"), [*state(library.store, "production").standing]) == (C, [A, C])


async def test_a_rollback_of_one_playbook_takes_nothing_else_back(library: Library) -> None:
    await put(library, A)
    await put(library, B)
    await release(library, "production", C, [], verdict=None, because="try it", rollout=Rollout(share=0.5))
    for other in (A, B):
        with pytest.raises(RefMoved, match=r"expected .* to take back"):
            rollback(library, "production", because="worse", of=other)
    rollback(library, "production", because="worse", of=C)
    with pytest.raises(RefMoved):
        rollback(library, "production", because="worse", of=C)
    rollback(library, "production", because="worse", of=B)
    assert [*state(library.store, "production").standing] == [A]


async def test_rollback_takes_the_canary_first_and_works_on_a_frozen_channel(library: Library) -> None:
    for each in (A, B):
        await put(library, each)
    await release(library, "production", C, [], verdict=None, because="try it", rollout=Rollout(share=0.5))
    freeze(library, "production", because="complaints")
    with pytest.raises(ReleaseRefused, match="frozen: found a frozen channel"):
        await promote(library, "production", because="well")
    assert rollback(library, "production", because="worse").target == {"stable": B, "how": "rollback", "frozen": True}
    assert rollback(library, "production", because="worse").target == {"stable": A, "how": "rollback", "frozen": True}
    with pytest.raises(ReleaseRefused, match="frozen: found a frozen channel"):
        await put(library, D)
    unfreeze(library, "production", because="understood")
    await put(library, D)
    assert [*state(library.store, "production").standing] == [A, D]


async def test_a_frozen_channel_says_so_beside_what_the_gates_say(library: Library) -> None:
    async def no(change: ReleaseRequest) -> Refusal:
        return Refusal("no", "anything", "nothing", "Stop.")

    await put(library, A)
    freeze(library, "production", because="stop")
    with pytest.raises(ReleaseRefused) as refused:
        await release(library, "production", B, [no], verdict=None, because="try it")
    assert [refusal.path for refusal in refused.value.refusals] == ["frozen", "no"]


# Rollback


async def test_rollback_returns_to_what_was_served_before_and_again_to_the_one_before_that(library: Library) -> None:
    for each in (A, B, C):
        await put(library, each)
    ref = rollback(library, "production", because="worse on Mondays")
    assert (ref.because, ref.by, ref.version) == ("worse on Mondays", "ada", 4)
    assert ref.target == {"stable": B, "how": "rollback"}
    rollback(library, "production", because="still worse")
    assert stable(library.store, "production") == A


async def test_at_the_bottom_there_is_nothing_to_return_to(library: Library) -> None:
    await put(library, A)
    await put(library, B)
    rollback(library, "production", because="back")
    with pytest.raises(ReleaseRefused) as refused:
        rollback(library, "production", because="further back")
    assert refused.value.refusals == (Refusal("rollback", "a first release", "an earlier one to return to"),)
    assert stable(library.store, "production") == A


async def test_after_a_rollback_what_was_taken_back_is_not_returned_to(library: Library) -> None:
    for each in (A, B):
        await put(library, each)
    rollback(library, "production", because="worse")
    await put(library, C)
    assert [*state(library.store, "production").standing] == [A, C]
    rollback(library, "production", because="worse, too")
    assert stable(library.store, "production") == A


async def test_what_was_taken_back_may_be_released_again(library: Library) -> None:
    for each in (A, B):
        await put(library, each)
    rollback(library, "production", because="worse")
    await put(library, B)
    await put(library, A)
    assert [*state(library.store, "production").standing] == [A, B, A]
    rollback(library, "production", because="worse")
    assert stable(library.store, "production") == B


async def test_a_rollback_to_a_playbook_that_is_lost_is_refused_and_verify_names_the_release(library: Library) -> None:
    await put(library, A)
    await put(library, B)
    library.store.discard([A])  # type: ignore[attr-defined]
    with pytest.raises(NotFound):
        rollback(library, "production", because="worse")
    assert stable(library.store, "production") == B
    (problem,) = verify(library.store).problems  # type: ignore[arg-type]
    assert problem.path.startswith("move fact channels/production")


async def test_rollback_touches_its_own_channel_only(library: Library) -> None:
    for each in (A, B):
        await put(library, each)
        await put(library, each, "production/eu")
    rollback(library, "production", because="worse")
    assert (stable(library.store, "production"), stable(library.store, "production/eu")) == (A, B)


async def test_an_unknown_channel_is_told_with_those_that_are_known(library: Library) -> None:
    with pytest.raises(NotFound, match='no channel with a release named "production"; expected one of: none yet'):
        rollback(library, "production", because="?")
    await put(library, A, "staging")
    with pytest.raises(NotFound, match="one of: staging"):
        rollback(library, "production", because="?")


async def test_a_rollback_needs_a_reason(library: Library) -> None:
    for each in (A, B):
        await put(library, each)
    with pytest.raises(StoreError, match="reason"):
        rollback(library, "production", because="")
    assert stable(library.store, "production") == B


@pytest.mark.parametrize("scheme", ["sqlite:///", "files:"])
async def test_a_channel_and_its_past_outlive_the_process(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}{tmp_path / 'store'}"
    store = open_store(url)
    library = Library(store, "ada")
    for name in NAMES[:3]:
        await put(library, library.keep(agent(name), because="written"))
    rollback(library, "production", because="worse")
    store.close()
    again = open_store(url)
    assert [*state(again, "production").standing] == [A, B]
    rollback(Library(again, "eve"), "production", because="worse, too")
    assert stable(again, "production") == A
    again.close()


def test_a_channel_has_a_name_that_can_be_typed(library: Library) -> None:
    with pytest.raises(PlaybookError, match="odd characters"):
        asyncio.run(release(library, "a b", A, [], verdict=None, because="try"))
    assert library.store.refs() == []
