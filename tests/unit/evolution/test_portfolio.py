from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from driven import Driven, playbook

from seedbed.errors import SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.protocols import Offer, Search
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


async def searched(arms: Sequence[Turns], rounds: int, seed: int = 0, turns: int = 0) -> tuple[Portfolio, Driven]:
    portfolio = Portfolio({arm.name: arm for arm in arms}, turns=turns)
    return portfolio, await Driven(portfolio, playbook(), worth, tasks=4, seed=seed).run(rounds)


@pytest.mark.parametrize("seed", range(5))
async def test_whoever_gains_gets_most_of_the_turns(seed: int) -> None:
    arms = [Turns("idle"), Turns("lucky", gains=0.02), Turns("lazy")]
    portfolio, done = await searched(arms, 60, seed)
    turns = Counter(offer.arm for offer in done.offers)
    assert turns["lucky"] > 35
    assert {*turns} == {"idle", "lucky", "lazy"}
    assert {name: arm.turns for name, arm in portfolio.arms.items()} == turns


@pytest.mark.parametrize("seed", range(3))
async def test_what_helped_at_first_need_not_help_for_ever(seed: int) -> None:
    arms = [Turns("early", gains=0.02, stops=12), Turns("late")]
    _, done = await searched(arms, 70, seed)
    last = Counter(offer.arm for offer in done.offers[40:])
    assert last["late"] >= 9


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
    portfolio, _ = await searched([Turns("idle"), Turns("lucky", gains=0.02)], 30)
    idle, lucky = portfolio.arms["idle"], portfolio.arms["lucky"]
    assert (idle.improved, idle.gain) == (0, 0.0)  # that the others are seen anew after its turns is no gain
    assert lucky.improved == lucky.turns
    assert lucky.gain == pytest.approx(0.02 * lucky.turns, rel=0.2)  # as it is believed, which is a bit less
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
    assert one.identity == {"optimizer": "portfolio", "arms": arms, "turns": 2}


def test_without_an_arm_there_is_nothing_to_search_by() -> None:
    with pytest.raises(SettingsError, match=r"arms: found \{\}; expected at least one optimizer"):
        Portfolio({})


def test_a_negative_number_of_turns_is_refused() -> None:
    with pytest.raises(SettingsError, match="turns: found -1"):
        Portfolio({"a": Turns("a")}, turns=-1)


# What is put together of all that the arms have found


class Parts:
    """Offers the start with one of these sentences at each turn."""

    def __init__(self, name: str, sentences: Sequence[str]) -> None:
        self.identity: Json = {"optimizer": name}
        self.name, self.sentences = name, sentences

    def begin(self, search: Search) -> None:
        self.left, self.told = list(self.sentences), list[set[str]]()

    async def ask(self) -> Sequence[Offer]:
        return [Offer(playbook(f"Be brief. {self.left.pop(0)}"))] if self.left else []

    async def tell(self, cells: Sequence[Cell]) -> None:
        self.told.append({cell.playbook for cell in cells})


class Looks(Parts):
    """Looks at the start before each of its turns."""

    def begin(self, search: Search) -> None:
        super().begin(search)
        self.start, self.looked = search.start, False

    async def ask(self) -> Sequence[Offer]:
        self.looked = not self.looked
        return [Offer(self.start, tasks=("r0",))] if self.looked and self.left else await super().ask()


GOOD, BAD = [f"Good {n}." for n in range(4)], [f"Bad {n}." for n in range(4)]


def additive(each: Playbook, task: str) -> float:
    said = each.roles["agent"].system
    return 0.5 + 0.1 * said.count("Good") - 0.1 * said.count("Bad")


async def assembled(arms: Sequence[Parts], rounds: int = 99, turns: int = 2) -> tuple[Portfolio, Driven]:
    portfolio = Portfolio({arm.name: arm for arm in arms}, turns=turns)
    return portfolio, await Driven(portfolio, playbook(), additive, tasks=20).run(rounds)


async def test_after_each_turn_of_an_arm_what_was_found_is_put_together_so_many_times() -> None:
    mixed = Parts("all", [f"Good {n}. Bad {n}. Good too {n}." for n in range(8)])
    search = Driven(Portfolio({"all": mixed}, turns=2), playbook(), additive, tasks=20)
    asked = [{offer.arm for offer in await search.step()} for _ in range(9)]
    # Nothing is put together of fewer than four: the start and three of the arm.
    assert asked == [*[{"all"}] * 2, *[{"all"}, {"assembly"}, {"assembly"}] * 2, {"all"}]


async def test_what_is_put_together_is_better_than_all_that_any_arm_has_offered() -> None:
    _, done = await assembled([Parts("good", GOOD), Parts("bad", BAD)])
    assert additive(done.best, "t0") == pytest.approx(0.9)
    assert done.pool.arms[done.pool.best()] == "assembly"
    assert max(additive(offer.playbook, "t0") for offer in done.offers if offer.arm != "assembly") < 0.65
    _, without = await assembled([Parts("good", GOOD), Parts("bad", BAD)], turns=0)
    assert {offer.arm for offer in without.offers} == {"good", "bad"}


async def test_the_arm_gets_the_credit_of_what_was_put_together_after_it_and_its_cost() -> None:
    arms = [Parts("good", GOOD), Parts("bad", BAD)]
    portfolio, done = await assembled(arms)
    assert "assembly" not in portfolio.arms
    earned = portfolio.arms.values()
    assert sum(arm.cells for arm in earned) == 20 * len(done.offers)
    assert sum(arm.turns for arm in earned) == len(GOOD) + len(BAD)
    assert sum(arm.gain for arm in earned) > 0.3  # no offer of an arm alone gains more than 0.1
    assert portfolio.arms["good"].gain > portfolio.arms["bad"].gain


async def test_an_arm_is_not_told_of_what_was_put_together() -> None:
    arms = [Parts("good", GOOD), Parts("bad", BAD)]
    _, done = await assembled(arms)
    for arm in arms:
        assert arm.told == [{offer.playbook.digest} for offer in done.offers if offer.arm == arm.name]


async def test_who_only_looks_goes_on_and_is_told_before_anything_is_put_together() -> None:
    arm, other = Looks("looks", GOOD), Parts("other", BAD)
    portfolio, done = await assembled([arm, other])
    steps = [(offer.arm, offer.tasks is not None) for offer in done.offers]
    for place, step in enumerate(steps):
        if step == ("looks", True):
            assert steps[place + 1] == ("looks", False)
    assert arm.told == [{offer.playbook.digest} for offer in done.offers if offer.arm == "looks"]
    assert portfolio.arms["looks"].turns == len(GOOD)  # to look and to offer is one turn


async def test_an_arm_that_looks_and_then_offers_nothing_pays_for_its_look_itself() -> None:
    class OnlyLooks(Looks):
        async def ask(self) -> Sequence[Offer]:
            self.looked = not self.looked
            return [Offer(self.start, tasks=("r0",))] if self.looked else []

    portfolio, done = await assembled([OnlyLooks("looks", GOOD), Parts("other", BAD)])
    looked = [offer for offer in done.offers if offer.arm == "looks"]
    assert len(looked) == 1
    assert (portfolio.arms["looks"].turns, portfolio.arms["looks"].cells) == (1, 1)
    assert portfolio.arms["other"].cells == 20 * (len(done.offers) - 1)
