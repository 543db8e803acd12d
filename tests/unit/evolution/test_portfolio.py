from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from driven import Driven, playbook

from seedbed.errors import SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizer import Offer, Search
from seedbed.evolution.portfolio import Portfolio
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json


class Turns:
    """Offers a brood at each turn, worth a bit more than the last if it `gains`, until that `stops`; `most` turns."""

    def __init__(self, name: str, *, gains: float = 0.0, most: int = 10**6, stops: int = 10**6, brood: int = 1) -> None:
        self.identity: Json = {"optimizer": name, "gains": gains}
        self.name, self.gains, self.most, self.stops, self.brood = name, gains, most, stops, brood
        self.told: list[set[str]] = []

    def begin(self, search: Search) -> None:
        self.turn, self.offered, self.told = 0, [], []  # type: list[Offer]

    async def ask(self) -> Sequence[Offer]:
        if self.turn >= self.most:
            return []
        self.turn += 1
        made = [
            Offer(playbook(f"{self.name} {self.turn} {number} {min(self.turn, self.stops) * self.gains:.4f}"))
            for number in range(self.brood)
        ]
        self.offered += made
        return made

    async def tell(self, cells: Sequence[Cell]) -> None:
        self.told.append({cell.playbook for cell in cells})


def worth(each: Playbook, task: str) -> float:
    said = each.roles["agent"].system
    return 0.0 if said == "Be brief." else float(said.split()[-1])


async def searched(arms: Sequence[Turns], rounds: int, seed: int = 0) -> tuple[Portfolio, Driven]:
    portfolio = Portfolio({arm.name: arm for arm in arms})
    return portfolio, await Driven(portfolio, playbook(), worth, tasks=4, seed=seed).run(rounds)


@pytest.mark.parametrize("seed", range(5))
async def test_whoever_gains_gets_most_of_the_turns(seed: int) -> None:
    arms = [Turns("idle"), Turns("lucky", gains=0.02), Turns("lazy")]
    portfolio, done = await searched(arms, 60, seed)
    turns = Counter(offer.arm for offer in done.offers)
    assert turns["lucky"] > 35
    assert {*turns} == {"idle", "lucky", "lazy"}
    assert {name: arm.turns for name, arm in portfolio.arms.items()} == turns


@pytest.mark.parametrize("seed", range(5))
async def test_what_helped_at_first_need_not_help_for_ever(seed: int) -> None:
    arms = [Turns("early", gains=0.02, stops=12), Turns("late")]
    _, done = await searched(arms, 120, seed)
    last = Counter(offer.arm for offer in done.offers[60:])
    assert last["late"] >= 15


@pytest.mark.parametrize("seed", range(5))
async def test_of_two_that_gain_the_same_the_cheaper_gets_more(seed: int) -> None:
    """The dear one is told of eight times as many cells for each gain."""
    _, done = await searched([Turns("dear", gains=0.02, brood=8), Turns("cheap", gains=0.02)], 60, seed)
    turns = Counter(offer.arm for offer in done.offers)
    assert turns["cheap"] > turns["dear"] / 8


async def test_at_first_each_has_a_turn() -> None:
    _, done = await searched([Turns("a"), Turns("b", gains=0.1), Turns("c")], 3)
    assert sorted(offer.arm for offer in done.offers) == ["a", "b", "c"]


async def test_one_that_has_no_more_leaves_and_the_others_go_on() -> None:
    _, done = await searched([Turns("short", gains=0.1, most=2), Turns("long", most=9), Turns("none", most=0)], 99)
    assert Counter(offer.arm for offer in done.offers) == {"short": 2, "long": 9}


async def test_only_the_arm_whose_turn_it_was_is_told() -> None:
    arms = [Turns("a"), Turns("b", gains=0.05)]
    await searched(arms, 20)
    for arm in arms:
        assert arm.told == [{offer.playbook.digest} for offer in arm.offered]


async def test_it_counts_what_each_has_found_and_gained() -> None:
    portfolio, done = await searched([Turns("idle"), Turns("lucky", gains=0.02)], 30)
    idle, lucky = portfolio.arms["idle"], portfolio.arms["lucky"]
    assert (idle.found, idle.gain) == (0, 0.0)
    assert lucky.found == lucky.turns
    assert lucky.gain == pytest.approx(done.pool.standing(done.pool.best()).mean)
    assert lucky.cells == 4 * lucky.turns


async def test_the_same_seed_gives_the_same_turns_and_a_new_search_begins_anew() -> None:
    arms = [Turns("a", gains=0.01), Turns("b", gains=0.02)]
    portfolio, first = await searched(arms, 30)
    again = await Driven(portfolio, playbook(), worth, tasks=4).run(30)
    assert again.tried == first.tried
    assert sum(arm.turns for arm in portfolio.arms.values()) == 30


async def test_an_arm_that_names_its_own_arms_keeps_their_names() -> None:
    inner = Portfolio({"x": Turns("x")})
    done = await Driven(Portfolio({"inner": inner}), playbook(), worth).run(2)
    assert [offer.arm for offer in done.offers] == ["x", "x"]


def test_its_identity_is_that_of_its_arms_by_name() -> None:
    one = Portfolio({"a": Turns("a"), "b": Turns("b", gains=0.1)})
    arms = {"a": {"optimizer": "a", "gains": 0.0}, "b": {"optimizer": "b", "gains": 0.1}}
    assert one.identity == {"optimizer": "portfolio", "arms": arms}


def test_without_an_arm_there_is_nothing_to_search_by() -> None:
    with pytest.raises(SettingsError, match="portfolio: found no optimizer"):
        Portfolio({})
