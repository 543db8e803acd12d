from __future__ import annotations

import pytest
from driven import AddWord, Driven, Nothing, playbook

from seedbed.errors import SettingsError
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook

START = playbook()
SET = [playbook(f"Be {word}.") for word in ("kind", "long", "loud", "shy", "wise")]


def driven(optimizer: BestOf, **more: int) -> Driven:
    return Driven(optimizer, START, lambda each, task: 1.0, **more)


def systems(offers: list[Offer]) -> list[str]:
    return [offer.playbook.roles["agent"].system for offer in offers]


async def test_every_candidate_is_offered_once_and_in_order() -> None:
    done = await driven(BestOf(SET)).run(9)
    assert [offer.playbook for offer in done.offers] == SET


async def test_the_same_candidate_twice_is_one_and_the_start_is_none() -> None:
    noted = Playbook.from_document({**SET[0].document(), "meta": {"note": "the same content"}})
    done = await driven(BestOf([SET[0], START, SET[1], noted])).run(9)
    assert done.tried == [SET[0].digest, SET[1].digest]


async def test_candidates_may_come_from_a_generator() -> None:
    assert (await driven(BestOf(each for each in SET)).run(9)).tried == [each.digest for each in SET]


async def test_the_set_comes_at_once_and_variations_a_brood_at_a_time() -> None:
    search = driven(BestOf(SET, brood=2))
    assert [len(await search.step()) for _ in range(2)] == [5, 0]
    search = driven(BestOf(SET, operators=[AddWord()], brood=2))
    assert [len(await search.step()) for _ in range(4)] == [5, 2, 2, 2]


async def test_those_that_others_have_tried_meanwhile_do_not_end_it() -> None:
    search = driven(BestOf(SET, brood=2))
    search.pay([Offer(each) for each in SET[:2]])
    assert [len(await search.step()) for _ in range(2)] == [3, 0]
    assert search.tried == [each.digest for each in SET[2:]]
    search = driven(BestOf(SET, operators=[AddWord()], brood=2))
    search.pay([Offer(each) for each in SET])
    assert [offer.how for offer in await search.step()] != ["listed candidate"] * 2
    assert len(search.offers) == 2


async def test_after_the_set_come_variations_of_the_start_all_new() -> None:
    search = driven(BestOf(SET, operators=[AddWord()], brood=4, changes=2))
    done = await search.run(5)
    assert len(done.tried) == len({*done.tried}) == 5 + 4 * 4
    assert systems(done.offers[:5]) == [each.roles["agent"].system for each in SET]
    for offer in done.offers[5:]:
        added = offer.playbook.roles["agent"].system.removeprefix("Be brief.").split()
        assert 1 <= len(added) <= 2  # of the start, not of one another
        assert offer.how == " and ".join(["add a word"] * len(added))
        assert offer.parents == (START.digest,)


async def test_when_there_is_nothing_new_left_it_ends() -> None:
    done = await driven(BestOf(operators=[AddWord(("alpha", "beta"))], brood=4, changes=1)).run(9)
    assert sorted(systems(done.offers)) == ["Be brief. alpha", "Be brief. beta"]
    assert (await driven(BestOf(operators=[Nothing()])).run(9)).offers == []
    assert (await driven(BestOf([])).run(9)).offers == []


async def test_it_learns_nothing_whatever_the_scores_are() -> None:
    def searching(score: float) -> Driven:
        return Driven(BestOf(operators=[AddWord()], brood=3), START, lambda each, task: score)

    assert (await searching(0.0).run(4)).tried == (await searching(1.0).run(4)).tried


async def test_the_seed_decides_what_is_made() -> None:
    one, same, other = [await driven(BestOf(operators=[AddWord()]), seed=seed).run(1) for seed in (1, 1, 2)]
    assert one.tried == same.tried != other.tried


async def test_it_may_search_again_from_its_beginning() -> None:
    optimizer = BestOf(SET, operators=[AddWord()], brood=3)
    assert (await driven(optimizer).run(4)).tried == (await driven(optimizer).run(4)).tried


def test_its_identity_is_its_set_its_operators_and_its_settings() -> None:
    identities = [
        BestOf(SET).identity,
        BestOf(SET[1:]).identity,
        BestOf(SET, operators=[AddWord()]).identity,
        BestOf(SET, brood=3).identity,
        BestOf(SET, changes=2).identity,
    ]
    assert BestOf(SET).identity == identities[0]
    assert all(one != other for place, one in enumerate(identities) for other in identities[:place])
    assert not BestOf.reads


@pytest.mark.parametrize("wrong", [{"brood": 0}, {"brood": -1}, {"changes": 0}])
def test_numbers_that_make_no_offer_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=f"best_of: {next(iter(wrong))}"):
        BestOf(SET, **wrong)
