from __future__ import annotations

import zlib
from typing import Any

import pytest
from driven import AddWord, Driven, Nothing, Score, playbook

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evolution.optimizers.bandit import Bandit, BanditPolicy
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.bandits import LoggedChoice, gain_over_uniform

POLICIES: tuple[BanditPolicy, ...] = ("thompson", "ucb1", "epsilon-greedy")


def arms(count: int) -> list[Playbook]:
    """Ones that are right about so many tasks in a hundred."""
    return [playbook(f"{30 + 60 * n // max(count - 1, 1)}") for n in range(count)]


def rolled(seed: int = 0) -> Score:
    def score(each: Playbook, task: str) -> float:
        skill = each.roles["agent"].system
        right = int(skill) if skill.isdigit() else 50
        return float(zlib.crc32(f"{seed} {skill} {task}".encode()) % 100 < right)

    return score


@pytest.mark.parametrize("policy", POLICIES)
async def test_every_playbook_gets_every_task_once_and_then_it_ends(policy: BanditPolicy) -> None:
    candidates = arms(5)
    driven = await Driven(Bandit(candidates, policy=policy), playbook(), rolled(), tasks=7).run(1000)
    asked = [(offer.playbook.digest, task) for offer in driven.offers for task in offer.tasks or ()]
    assert sorted(asked) == sorted((each.digest, f"t{n}") for each in candidates for n in range(7))
    assert await driven.step() == []


async def test_each_playbook_takes_the_tasks_in_the_order_of_the_pool() -> None:
    driven = await Driven(Bandit(arms(4)), playbook(), rolled(), tasks=9).run(6)
    for named in set(driven.tried):
        taken = [task for offer in driven.offers if offer.playbook.digest == named for task in offer.tasks or ()]
        assert taken == driven.pool.select[: len(taken)]


async def test_an_ask_offers_a_playbook_once_with_all_its_tasks() -> None:
    offers = await Driven(Bandit(arms(2), at_once=6, tasks_each=3), playbook(), rolled(), tasks=50).step()
    assert len({offer.playbook.digest for offer in offers}) == len(offers)
    assert sum(len(offer.tasks or ()) for offer in offers) == 18


async def test_runs_that_were_never_scored_are_not_asked_for_again() -> None:
    driven = await Driven(Bandit(arms(3)), playbook(), lambda *_: None, tasks=4, better="lower").run(1000)
    assert sum(len(offer.tasks or ()) for offer in driven.offers) == 12
    assert {choice.score for choice in driven.optimizer.log} == {None}  # type: ignore[attr-defined]


async def test_what_the_pool_knows_is_not_asked_for() -> None:
    start, other = arms(2)
    driven = await Driven(Bandit([start, other]), start, rolled(), tasks=4).run(100)
    assert set(driven.tried) == {other.digest}


async def right(policy: BanditPolicy, seeds: int, **settings: Any) -> int:
    """How often the best of eight is found with a quarter of all cells."""
    found = 0
    for seed in range(seeds):
        candidates = arms(8)
        bandit = Bandit(candidates, policy=policy, **settings)
        driven = await Driven(bandit, playbook("50"), rolled(seed), tasks=60, seed=seed).run(15)
        found += driven.best == candidates[-1]
    return found


async def test_thompson_finds_the_best_more_often_than_blind_choices() -> None:
    blind = await right("thompson", 40, explore=1.0)
    assert await right("thompson", 40) >= blind + 6


@pytest.mark.parametrize("policy", POLICIES)
async def test_better_playbooks_get_more_of_the_tasks(policy: BanditPolicy) -> None:
    candidates = arms(6)
    driven = await Driven(Bandit(candidates, policy=policy), playbook("50"), rolled(), tasks=80).run(30)
    tasks = driven.pool.counts().sum(axis=1)
    spent = [int(tasks[driven.pool.place(each.digest)]) if each.digest in driven.pool else 0 for each in candidates]
    assert sum(spent[3:]) > 1.5 * sum(spent[:3])


async def test_blind_choices_fall_on_all_alike() -> None:
    bandit = Bandit(arms(3), explore=1.0, at_once=1, tasks_each=1)
    await Driven(bandit, playbook("50"), rolled(), tasks=60).run(60)
    chosen = [choice.playbook for choice in bandit.log]
    assert all(10 <= chosen.count(each.digest) <= 30 for each in arms(3))


@pytest.mark.parametrize("scale", [(-1000.0, -500.0), (20.0, 80.0)])
async def test_scores_of_any_size_will_do(scale: tuple[float, float]) -> None:
    low, high = scale
    candidates = arms(4)
    one = await Driven(Bandit(candidates), playbook("50"), rolled(), tasks=40).run(12)
    plain = rolled()
    other = await Driven(
        Bandit(candidates), playbook("50"), lambda *at: low + (high - low) * (plain(*at) or 0.0), tasks=40
    ).run(12)
    assert other.tried == one.tried


@pytest.mark.parametrize("policy", POLICIES)
async def test_the_log_has_the_chances_by_which_each_was_chosen(policy: BanditPolicy) -> None:
    bandit = Bandit(arms(5), policy=policy, explore=0.2)
    driven = await Driven(bandit, playbook("50"), rolled(), tasks=10).run(8)
    assert sum(len(choice.tasks) for choice in bandit.log) == sum(len(offer.tasks or ()) for offer in driven.offers)
    for choice in bandit.log:
        assert sum(choice.odds.values()) == pytest.approx(1)
        assert min(choice.odds.values()) >= 0.2 / 5 - 1e-12
        row = driven.pool.row(driven.pool.place(choice.playbook))
        assert choice.score == pytest.approx(sum(row[int(task[1:])] for task in choice.tasks) / len(choice.tasks))
        # So other policies can be judged by it.
        gain_over_uniform(LoggedChoice(choice.playbook, choice.odds, choice.guesses, choice.score or 0.0))


async def test_a_playbook_never_tried_is_expected_to_be_as_good_as_the_start() -> None:
    for skill, low, high in (("0", 0.0, 0.35), ("100", 0.65, 1.0)):
        bandit = Bandit(arms(3))
        await Driven(bandit, playbook(skill), rolled(), tasks=30).step()
        assert all(low <= guess <= high for guess in bandit.log[0].guesses.values())


async def test_the_same_seed_chooses_the_same_and_another_does_not() -> None:
    runs = [await Driven(Bandit(arms(6)), playbook(), rolled(), tasks=20, seed=seed).run(9) for seed in (1, 1, 2)]
    offers = [[(offer.playbook.digest, offer.tasks) for offer in each.offers] for each in runs]
    assert offers[0] == offers[1] != offers[2]


async def test_without_candidates_it_makes_children_of_the_start() -> None:
    driven = await Driven(Bandit(children=4, operators=[AddWord()]), playbook(), rolled(), tasks=3).run(100)
    texts = {offer.playbook.roles["agent"].system for offer in driven.offers}
    assert 1 < len(texts) <= 4
    assert all(text.startswith("Be brief. ") for text in texts)


async def test_no_children_are_nothing_to_offer() -> None:
    assert await Driven(Bandit(operators=[Nothing()]), playbook(), rolled()).step() == []


async def test_the_same_candidate_twice_is_one() -> None:
    (one,) = arms(1)
    driven = await Driven(Bandit([one, one]), playbook(), rolled(), tasks=3).run(10)
    assert sum(len(offer.tasks or ()) for offer in driven.offers) == 3


def test_nothing_to_choose_from_is_refused() -> None:
    with pytest.raises(PlaybookError):
        Driven(Bandit(operators=[]), playbook(), rolled())


@pytest.mark.parametrize(
    "wrong", [{"policy": "greedy"}, {"explore": 2}, {"strength": 0}, {"at_once": 0}, {"tasks_each": 0}, {"children": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Bandit(**wrong)


async def test_what_was_offered_by_others_is_left_to_them() -> None:
    driven = Driven(Bandit(arms(2)), playbook(), rolled(), tasks=2)
    driven.pay([Offer(playbook("99"))])
    await driven.run(10)
    assert playbook("99").digest not in driven.tried
