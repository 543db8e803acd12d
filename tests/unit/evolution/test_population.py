from __future__ import annotations

import zlib
from itertools import combinations
from typing import Any

import pytest
from driven import AddWord, Driven, Nothing, playbook
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evolution.optimizers.population import Population, Replacement
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.genes import distance
from seedbed.playbooks.playbook import Playbook

WANTED = ("alpha", "beta", "gamma")


def wanted(each: Playbook, task: str) -> float:
    """How many of the wanted words its text has, less a little for every word."""
    words = each.roles["agent"].system.split()
    return sum(word in words for word in WANTED) / 3 - len(words) / 100


def noise(each: Playbook, task: str) -> float:
    return zlib.crc32(f"{each.digest} {task}".encode()) % 1000 / 1000


replacements = st.sampled_from(["worst", "crowded"])


@settings(max_examples=25, deadline=None)
@given(replacements, st.integers(2, 7), st.integers(1, 5), st.integers(1, 3), st.integers(0, 999))
async def test_no_elite_is_ever_lost(
    replacement: Replacement, size: int, offspring: int, elites: int, seed: int
) -> None:
    optimizer = Population(
        size=size, offspring=offspring, elites=min(elites, size), replacement=replacement, operators=[AddWord()]
    )
    driven = Driven(optimizer, playbook(), noise, tasks=2, seed=seed)
    for _ in range(5):
        await driven.step()
        pool = driven.pool
        means = pool.standings()[0]
        ranked = sorted(range(len(pool)), key=lambda place: (-round(float(means[place]), 12), place))
        elite = {pool.playbooks[place].digest for place in ranked[: min(elites, size)]}
        assert elite <= set(optimizer.members)
        assert len(optimizer.members) <= size
        assert len(set(optimizer.members)) == len(optimizer.members)


@pytest.mark.parametrize("replacement", ["worst", "crowded"])
async def test_it_breeds_what_scores_better(replacement: Replacement) -> None:
    optimizer = Population(replacement=replacement, operators=[AddWord()])
    driven = await Driven(optimizer, playbook(), wanted).run(12)
    assert set(WANTED) <= set(driven.best.roles["agent"].system.split())


async def test_with_no_operators_given_it_takes_those_that_need_no_model() -> None:
    driven = await Driven(Population(size=5, offspring=4), playbook("Be brief. Be kind."), noise).run(3)
    assert len(driven.offers) >= 8
    assert len({offer.how for offer in driven.offers}) > 2


async def test_locked_genes_and_rules_stay_as_they_are() -> None:
    start = playbook("Be brief. Be kind.", locked=["steps.*"], rules={"never": ["delete"]})
    driven = await Driven(Population(size=5, offspring=4), start, noise).run(4)
    assert driven.offers
    for offer in driven.offers:
        assert offer.playbook.content()["steps"] == start.content()["steps"]
        assert offer.playbook.rules == start.rules


async def test_children_name_their_parents_and_how_they_were_made() -> None:
    driven = Driven(Population(operators=[AddWord()]), playbook(), noise)
    await driven.step()
    known = {each.digest for each in driven.pool.playbooks}
    for offer in await driven.step():
        assert offer.how == "add a word"
        assert set(offer.parents) <= known
        parent = driven.pool.playbooks[driven.pool.place(offer.parents[0])]
        assert offer.playbook.roles["agent"].system.startswith(parent.roles["agent"].system)


async def test_the_best_of_the_pool_joins_whoever_offered_it() -> None:
    optimizer = Population(size=4, operators=[AddWord()])
    driven = Driven(optimizer, playbook(), wanted)
    stranger = playbook("alpha beta gamma")
    driven.pay([Offer(stranger)])
    await driven.step()
    assert stranger.digest in optimizer.members


async def test_diversity_is_the_mean_distance_between_members() -> None:
    optimizer = Population(size=6, operators=[AddWord()])
    driven = await Driven(optimizer, playbook(), noise).run(4)
    members = [driven.pool.playbooks[driven.pool.place(each)] for each in optimizer.members]
    apart = [distance(*pair) for pair in combinations(members, 2)]
    assert len(optimizer.diversity) == 4
    assert optimizer.diversity[-1] == pytest.approx(sum(apart) / len(apart))


def strangers(optimizer: Population, score: dict[str, float]) -> Driven:
    """A population of texts that have no word in common."""
    texts = {f"{name}1 {name}2 {name}3": name for name in score}
    start, *others = (playbook(text) for text in texts)
    driven = Driven(optimizer, start, lambda each, _: score.get(texts.get(each.roles["agent"].system, ""), 0.0))
    driven.pay([Offer(each) for each in others])
    optimizer.members = [each.digest for each in (start, *others)]
    return driven


@pytest.mark.parametrize("replacement", ["worst", "crowded"])
async def test_of_those_equally_unlike_the_better_have_more_children_and_stay(replacement: Replacement) -> None:
    score = {name: 0.2 + n / 10 for n, name in enumerate("fedcba")}
    optimizer = Population(
        size=6, offspring=90, elites=1, replacement=replacement, operators=[AddWord(tuple(map(str, range(1000))))]
    )
    driven = strangers(optimizer, score)
    members = list(optimizer.members)
    offers = await driven.step()
    children = [sum(offer.parents[0] == member for offer in offers) for member in members]
    assert sum(children[3:]) > 2 * sum(children[:3])
    # All children scored nothing.
    assert members[-1] in optimizer.members
    if replacement == "worst":
        assert set(members[2:]) <= set(optimizer.members)


async def test_among_equals_the_unlike_stay() -> None:
    """Five that are nearly the same and one of its own kind, for four places: the odd one is no elite, but stays."""
    for replacement in ("worst", "crowded"):
        optimizer = Population(size=4, offspring=1, elites=1, replacement=replacement, operators=[AddWord()])  # type: ignore[arg-type]
        start = playbook("one two three four five six seven eight")
        driven = Driven(optimizer, start, lambda *_: 0.5)
        alike = [playbook(f"one two three four five six seven {word}") for word in ("nine", "ten", "six", "two")]
        odd = playbook("Quite another text than those.")
        for each in (*alike, odd):
            driven.pay([Offer(each)])
        optimizer.members = [each.digest for each in (start, *alike, odd)]
        await driven.step()
        assert odd.digest in optimizer.members


async def test_a_crowded_niche_has_no_more_children_than_an_empty_one() -> None:
    optimizer = Population(size=12, offspring=60, elites=1, operators=[AddWord(tuple(map(str, range(1000))))])
    start = playbook("one two three four five six seven eight")
    driven = Driven(optimizer, start, lambda *_: 0.5)
    alike = [playbook(f"one two three four five six seven {word}") for word in ("nine", "ten", "six", "two", "one")]
    odd = playbook("Quite another text than those.")
    driven.pay([Offer(each) for each in (*alike, odd)])
    optimizer.members = [each.digest for each in (start, *alike, odd)]
    offers = await driven.step()
    own = sum(offer.parents[0] == odd.digest for offer in offers)
    assert own > 1.8 * len(offers) / 7


async def test_a_population_larger_than_can_be_compared_still_breeds() -> None:
    optimizer = Population(size=60, offspring=10, operators=[AddWord(tuple(map(str, range(1000))))])
    driven = await Driven(optimizer, playbook(), wanted).run(3)
    assert len(optimizer.members) == 60
    assert 0 < optimizer.diversity[-1] < 1
    assert driven.pool.playbooks[driven.pool.best()].digest in optimizer.members


async def test_the_same_seed_offers_the_same_and_another_does_not() -> None:
    runs = [await Driven(Population(operators=[AddWord()]), playbook(), noise, seed=seed).run(5) for seed in (5, 5, 6)]
    assert runs[0].tried == runs[1].tried != runs[2].tried


async def test_it_ends_when_no_child_is_new() -> None:
    assert await Driven(Population(operators=[Nothing()]), playbook(), noise).step() == []


def test_nothing_that_can_be_changed_is_refused() -> None:
    with pytest.raises(PlaybookError):
        Driven(Population(), playbook(locked=["*"]), noise)


@pytest.mark.parametrize(
    "wrong", [{"size": 1}, {"offspring": 0}, {"elites": 0}, {"elites": 99}, {"replacement": "random"}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Population(**wrong)
