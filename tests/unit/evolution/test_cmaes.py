from __future__ import annotations

import math
from typing import Any

import pytest
from driven import Driven, playbook
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evolution.optimizers.cmaes import CMAES
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook


def numbers(**parameters: Any) -> Playbook:
    return Playbook.from_document({"program": "some:program", "parameters": parameters})


def values(of: Playbook) -> dict[str, Any]:
    return {name: of.parameter(name) for name in of.parameters}


MIXED = {
    "heat": {"value": 0.5, "low": 0, "high": 1},
    "reach": 3.0,
    "floor": {"value": 2.0, "low": 1.0},
    "rounds": {"value": 3, "low": 1, "high": 9, "whole": True},
    "twice": {"value": 1, "low": 1, "high": 2, "whole": True},
    "tokens": {"value": 500, "low": 1, "high": 4000, "whole": True},
    "often": {"value": 7, "whole": True},
    "tone": {"value": "dry", "options": ["dry", "warm", "curt"]},
    "strict": True,
}


async def test_it_finds_the_best_numbers() -> None:
    start = numbers(a={"value": 0.9, "low": 0, "high": 1}, b={"value": -4, "low": -5, "high": 5})
    driven = await Driven(
        CMAES(), start, lambda each, _: -((each.parameter("a") - 0.3) ** 2) - (each.parameter("b") - 2) ** 2
    ).run(60)
    assert values(driven.best) == pytest.approx({"a": 0.3, "b": 2.0}, abs=1e-3)


async def test_it_finds_numbers_without_bounds_and_where_less_is_better() -> None:
    start = numbers(a=100.0, b=0.0)
    driven = Driven(
        CMAES(),
        start,
        lambda each, _: (each.parameter("a") - 250) ** 2 / 100 + (each.parameter("b") + 3) ** 2,
        better="lower",
    )
    assert values((await driven.run(80)).best) == pytest.approx({"a": 250, "b": -3}, rel=1e-2)


def fit(each: Playbook, task: str) -> float:
    found = values(each)
    wrong = (found["tone"] != "curt") + (found["strict"] is True) + (found["twice"] == 1)
    return -float(wrong) - abs(found["rounds"] - 7) / 8 - abs(found["heat"] - 0.2)


async def test_it_finds_whole_numbers_and_choices_too() -> None:
    start = numbers(**{name: MIXED[name] for name in ("heat", "rounds", "twice", "tone", "strict")})
    best = values((await Driven(CMAES(), start, fit).run(60)).best)
    assert best == {"heat": pytest.approx(0.2, abs=0.02), "rounds": 7, "twice": 2, "tone": "curt", "strict": False}


scores = st.sampled_from(["flat", "up", "down", "noise", "failing", "coarse"])


def made_up(kind: str) -> Any:
    def score(each: Playbook, task: str) -> float | None:
        level = sum(float(value) for value in values(each).values() if isinstance(value, int | float))
        match kind:
            case "flat":
                return 0.5
            case "up":
                return level
            case "down":
                return -level
            case "noise":
                return int(each.digest[-4:], 16) / 65536
            case "failing":
                return None if int(each.digest[-1], 16) % 3 else level
            case _:
                return float(level > 5)

    return score


@settings(max_examples=20, deadline=None)
@given(scores, st.sets(st.sampled_from(sorted(MIXED)), min_size=1), st.integers(0, 99), st.sampled_from([1, 2]))
async def test_no_value_ever_leaves_its_bounds_whatever_the_scores(
    kind: str, names: set[str], seed: int, tasks: int
) -> None:
    start = numbers(**{name: MIXED[name] for name in sorted(names)})
    driven = await Driven(CMAES(), start, made_up(kind), seed=seed, tasks=tasks).run(15)
    allowed = genes(start)
    for offer in driven.offers:
        for path, gene in genes(offer.playbook).items():
            assert allowed[path].problem(gene.value) is None
            assert isinstance(gene.value, type(allowed[path].value)) or gene.kind == "number"
    assert len(set(driven.tried)) == len(driven.tried)


async def test_locked_genes_texts_and_rules_stay_as_they_are() -> None:
    start = playbook(
        parameters={"heat": MIXED["heat"], "tone": MIXED["tone"], "held": {"value": 0.5, "low": 0, "high": 1}},
        locked=["parameters.held"],
        rules={"never": ["delete"]},
    )
    driven = await Driven(CMAES(), start, lambda each, _: each.parameter("heat")).run(10)
    assert driven.offers
    for offer in driven.offers:
        same = offer.playbook.content()
        assert same["parameters"]["held"]["value"] == 0.5
        assert {**same, "parameters": None} == {**start.content(), "parameters": None}


async def test_a_threshold_of_rules_only_rises() -> None:
    start = Playbook.from_document(
        {
            "program": "some:program",
            "parameters": {"limit": {"value": 0.4, "low": 0, "high": 1}},
            "rules": {"prefer_confirm": ["send"], "confirm_below": "limit"},
        }
    )
    driven = await Driven(CMAES(), start, lambda each, _: -each.parameter("limit")).run(10)
    assert driven.offers
    assert all(offer.playbook.parameter("limit") >= 0.4 for offer in driven.offers)


async def test_the_same_seed_offers_the_same_and_another_does_not() -> None:
    start = numbers(**MIXED)
    one, same, other = [await Driven(CMAES(), start, made_up("noise"), seed=seed).run(15) for seed in (3, 3, 4)]
    assert one.tried == same.tried
    assert one.tried != other.tried


async def test_an_optimizer_that_was_used_begins_anew() -> None:
    optimizer, start = CMAES(), numbers(**MIXED)
    first = await Driven(optimizer, start, made_up("noise")).run(10)
    again = await Driven(optimizer, start, made_up("noise")).run(10)
    assert again.tried == first.tried


async def test_a_few_options_are_all_tried_and_then_it_ends() -> None:
    start = numbers(tone=MIXED["tone"], strict=MIXED["strict"])
    driven = await Driven(CMAES(), start, made_up("flat")).run(1000)
    assert {str(values(each)) for each in driven.pool.playbooks} == {
        str({"tone": tone, "strict": strict}) for tone in ("dry", "warm", "curt") for strict in (True, False)
    }
    assert await driven.step() == []


async def test_what_is_left_of_a_whole_number_is_searched_after_a_descent() -> None:
    optimizer = CMAES()
    start = numbers(n={"value": 30, "low": 1, "high": 40, "whole": True})
    driven = await Driven(optimizer, start, made_up("up")).run(1000)
    assert driven.best.parameter("n") == 40
    assert len(driven.tried) >= 30


async def test_a_descent_into_a_poor_valley_is_followed_by_others() -> None:
    def two_valleys(each: Playbook, task: str) -> float:
        x, y = each.parameter("x"), each.parameter("y")
        return max(0.5 - abs(x - 0.15), 1 - 10 * abs(x - 0.9)) - abs(y - 0.5)

    start = numbers(x={"value": 0.1, "low": 0, "high": 1}, y={"value": 0.5, "low": 0, "high": 1})
    optimizer = CMAES(step=0.02)
    driven = Driven(optimizer, start, two_valleys)
    while optimizer.restarts == 0:
        await driven.step()
    assert driven.best.parameter("x") == pytest.approx(0.15, abs=1e-3)
    while optimizer.restarts < 8:
        await driven.step()
    assert driven.best.parameter("x") == pytest.approx(0.9, abs=0.01)


async def test_a_restart_takes_over_the_words_of_the_best() -> None:
    start = playbook("Be brief.", parameters={"tone": MIXED["tone"], "heat": MIXED["heat"]})
    better = playbook("Be kind.", parameters={"tone": MIXED["tone"], "heat": MIXED["heat"]})
    optimizer = CMAES()
    driven = Driven(optimizer, start, lambda each, _: float("kind" in each.roles["agent"].system))
    driven.pay([Offer(better)])
    while optimizer.restarts == 0:
        await driven.step()
    offers = await driven.step()
    assert {offer.playbook.roles["agent"].system for offer in offers} == {"Be kind."}


def test_what_has_nothing_to_search_is_refused() -> None:
    locked = playbook(parameters={"heat": MIXED["heat"]}, locked=["*"])
    for start in (playbook(), locked, numbers(n={"value": 1, "low": 1, "high": 1})):
        with pytest.raises(PlaybookError, match="none that cmaes can search"):
            Driven(CMAES(), start, made_up("flat"))


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": math.nan}, {"population": 2}, {"growth": 0.5}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        CMAES(**wrong)
