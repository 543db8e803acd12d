from __future__ import annotations

import statistics
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from driven import AddWord, Driven, Leap, Nothing, playbook
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evolution.optimizers.branches import Branches, BranchMove
from seedbed.evolution.protocols import Offer, Operator
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook

HEAT = {"value": 0.5, "low": 0, "high": 1}
PARAMETERS = {
    "heat": HEAT,
    "edge": {"value": 1.0, "low": 0, "high": 1},
    "reach": 30.0,
    "zero": 0.0,
    "rounds": {"value": 3, "low": 1, "high": 4, "whole": True},
    "tokens": {"value": 500, "low": 1, "high": 4000, "whole": True},
    "tone": {"value": "dry", "options": ["dry", "warm", "curt"]},
}
MOVES = ("greedy", "conservative", "exploratory")


def start(**parameters: Any) -> Playbook:
    return playbook(parameters=parameters or PARAMETERS)


def noise(each: Playbook, task: str) -> float:
    return zlib.crc32(f"{each.digest} {task}".encode()) % 1000 / 1000


def heat(each: Playbook, task: str) -> float:
    return float(each.parameter("heat"))


def moves(driven: Driven, path: str = "parameters.heat") -> dict[str, list[float]]:
    """By how much each kind of move changed a number."""
    found: dict[str, list[float]] = {move: [] for move in MOVES}
    for offer in driven.offers:
        parent = driven.pool.playbooks[driven.pool.place(offer.parents[0])]
        found[offer.how.split(":")[0]].append(genes(offer.playbook)[path].value - genes(parent)[path].value)
    return found


@pytest.mark.parametrize("operators", [[], [AddWord()], [AddWord(), Leap()]])
async def test_each_ask_offers_the_three_moves_from_the_best(operators: Sequence[Operator]) -> None:
    driven = Driven(Branches(operators=operators), start(), noise)
    for _ in range(5):
        best = driven.best.digest
        offers = await driven.step()
        assert [offer.how.split(":")[0] for offer in offers] == list(MOVES)
        assert {offer.parents for offer in offers} == {(best,)}


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([[], [Leap()], [AddWord(), Leap()]]),
    st.sampled_from([noise, heat, lambda *_: 0.5, lambda *_: None]),
    st.sampled_from([0.02, 0.1, 1.0]),
    st.integers(0, 999),
)
async def test_no_number_leaves_its_bounds_or_moves_too_far_in_one_step(
    operators: Sequence[Operator], score: Any, most: float, seed: int
) -> None:
    driven = await Driven(Branches(most=most, operators=operators), start(), score, seed=seed).run(8)
    assert driven.offers
    for offer in driven.offers:
        before = genes(driven.pool.playbooks[driven.pool.place(offer.parents[0])])
        for path, gene in genes(offer.playbook).items():
            assert before[path].problem(gene.value) is None
            if gene.kind in ("number", "integer"):
                scale = before[path].span or abs(before[path].value) or 1.0
                allowed = max(most * scale, 1.0 if gene.kind == "integer" else 0.0)
                assert abs(gene.value - before[path].value) <= allowed + 1e-12


async def test_the_conservative_move_is_at_most_half_of_what_is_allowed() -> None:
    wide = {"value": 0, "low": -100, "high": 100}
    found = moves(await Driven(Branches(most=0.01, operators=[]), start(heat=wide), heat).run(30))
    assert max(map(abs, found["conservative"])) <= 1 + 1e-12
    assert max(map(abs, found["greedy"])) > 1.5


async def test_the_conservative_move_changes_numbers_or_words_but_not_both() -> None:
    driven = await Driven(Branches(operators=[AddWord()]), start(heat=HEAT), noise).run(5)
    for offer in driven.offers:
        if offer.how.startswith("conservative"):
            parent = driven.pool.playbooks[driven.pool.place(offer.parents[0])]
            assert offer.playbook.roles == parent.roles


async def test_of_words_alone_the_conservative_move_changes_less_than_the_exploratory_one() -> None:
    words = [AddWord(("word " * n,), f"add {n}") for n in (1, 4, 9, 16)]
    for seed in range(5):
        driven = await Driven(Branches(operators=words), playbook(), lambda *_: 0.5, seed=seed).run(1)
        added = {move: int(way.removeprefix("add ")) for move, way in (each.how.split(": ") for each in driven.offers)}
        left = [n for n in (1, 4, 9, 16) if n != added["greedy"]]
        assert (added["conservative"], added["exploratory"]) == (min(left), max(left))


# The signal


async def test_the_signal_knows_which_way_scores_rise_and_greedy_goes_there() -> None:
    def up_and_down(each: Playbook, task: str) -> float:
        return float(each.parameter("a") - each.parameter("b"))

    wide = {"value": 0, "low": -100, "high": 100}
    branches = Branches(most=0.02, operators=[])
    driven = await Driven(branches, start(a=wide, b=wide), up_and_down).run(8)
    signal = branches.signal()
    assert signal.directions["parameters.a"] > 0.2
    assert signal.directions["parameters.b"] < -0.2
    driven.offers = driven.offers[-9:]
    a, b = moves(driven, "parameters.a"), moves(driven, "parameters.b")
    assert all(step > 0 for step in (*a["greedy"], *a["conservative"]))
    assert all(step < 0 for step in (*b["greedy"], *b["conservative"]))
    assert any(step < 0 for step in a["exploratory"])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 999))
async def test_the_signal_stays_between_minus_one_and_one(seed: int) -> None:
    branches = Branches(operators=[AddWord()])
    await Driven(branches, start(), noise, seed=seed).run(6)
    signal = branches.signal()
    assert -1 <= signal.trend <= 1
    assert all(-1 <= direction <= 1 for direction in signal.directions.values())


async def test_while_it_fails_greedy_steps_shrink_and_exploratory_ones_grow() -> None:
    def peak(each: Playbook, task: str) -> float:
        return -abs(each.parameter("heat") - 0.5)

    branches = Branches(operators=[])
    driven = await Driven(branches, start(heat=HEAT), peak).run(12)
    assert branches.signal().trend == pytest.approx(-1)
    found = {move: [abs(step) for step in steps] for move, steps in moves(driven).items()}
    assert statistics.mean(found["greedy"][4:]) < found["greedy"][0] / 2
    assert statistics.mean(found["exploratory"][4:]) > statistics.mean(found["greedy"][4:]) * 3


async def test_before_anything_was_tried_there_is_no_signal() -> None:
    branches = Branches(operators=[])
    Driven(branches, start(), noise)
    assert (branches.signal().trend, dict(branches.signal().directions)) == (0.0, {})


async def test_greedy_takes_the_operator_that_gained_most() -> None:
    operators = [AddWord((word,), f"add {word}") for word in ("bad", "good", "ugly")]
    driven = Driven(Branches(operators=operators), playbook(), lambda each, _: each.roles["agent"].system.count("good"))
    await driven.run(12)
    greedy = [offer for offer in driven.offers if offer.how.startswith("greedy")]
    assert {offer.how for offer in greedy[-4:]} == {"greedy: add good"}


async def test_greedy_takes_an_option_that_gained_though_another_branch_won() -> None:
    tones = {"dry": 0.0, "warm": -0.5, "curt": 0.5}
    branches = Branches(operators=[])
    first, best = start(heat=HEAT, tone=PARAMETERS["tone"]), start(heat={**HEAT, "value": 1}, tone=PARAMETERS["tone"])
    driven = Driven(branches, first, lambda each, _: 2 * each.parameter("heat") + tones[str(each.parameter("tone"))])
    for tone in ("warm", "curt"):
        other = with_genes(first, {"parameters.tone": tone})
        driven.pay([Offer(other)])
        branches.history.append(BranchMove("exploratory", other.digest, first.digest, "by hand", status="archived"))
    driven.pay([Offer(best)])
    greedy = (await driven.step())[0]
    assert (greedy.parents, greedy.playbook.parameter("tone")) == ((best.digest,), "curt")


# What becomes of branches


async def test_the_best_branch_is_merged_and_the_others_are_archived() -> None:
    branches = Branches(operators=[])
    driven = Driven(branches, start(heat=HEAT), heat)
    for _ in range(4):
        await driven.step()
        merged = [each.playbook for each in branches.history[-3:] if each.status == "merged"]
        tried = {offer.playbook.digest: offer.playbook.parameter("heat") for offer in driven.offers[-3:]}
        assert merged == [max(tried, key=lambda named: float(tried[named]))]
        assert branches.parent.digest == merged[0]
        assert [each.status for each in branches.history].count("active") == 0


async def test_if_no_branch_is_better_the_parent_stays() -> None:
    branches, best = Branches(operators=[]), start(heat=HEAT)
    driven = await Driven(branches, best, lambda each, _: float(each == best)).run(3)
    assert {each.status for each in branches.history} == {"archived"}
    assert {offer.parents for offer in driven.offers} == {(best.digest,)}


async def test_it_climbs_to_the_best_numbers_and_words() -> None:
    def score(each: Playbook, task: str) -> float:
        found = each.roles["agent"].system.split()
        return -abs(each.parameter("heat") - 0.93) - abs(each.parameter("rounds") - 1) / 4 + 0.5 * ("gamma" in found)

    chosen = {"heat": HEAT, "rounds": PARAMETERS["rounds"]}
    best = (await Driven(Branches(operators=[AddWord()]), start(**chosen), score).run(40)).best
    assert best.parameter("heat") == pytest.approx(0.93, abs=0.02)
    assert best.parameter("rounds") == 1
    assert "gamma" in best.roles["agent"].system.split()


async def test_a_better_playbook_of_others_is_the_next_parent() -> None:
    driven = Driven(Branches(operators=[]), start(heat=HEAT), heat)
    better = start(heat={**HEAT, "value": 0.8})
    driven.pay([Offer(better)])
    assert {offer.parents for offer in await driven.step()} == {(better.digest,)}


async def test_locked_genes_and_rules_stay_as_they_are() -> None:
    held = playbook(parameters=PARAMETERS, locked=["parameters.heat", "roles.*"], rules={"never": ["delete"]})
    driven = await Driven(Branches(), held, noise).run(6)
    assert driven.offers
    for offer in driven.offers:
        assert offer.playbook.parameter("heat") == 0.5
        assert (offer.playbook.roles, offer.playbook.rules) == (held.roles, held.rules)


async def test_the_same_seed_offers_the_same_and_another_does_not() -> None:
    runs = [await Driven(Branches(), start(), noise, seed=seed).run(5) for seed in (5, 5, 6)]
    assert runs[0].tried == runs[1].tried != runs[2].tried


async def test_it_ends_when_no_branch_is_new() -> None:
    assert await Driven(Branches(operators=[Nothing()]), playbook(), noise).step() == []


def test_nothing_that_can_be_changed_is_refused() -> None:
    with pytest.raises(PlaybookError, match="none that a branch can change"):
        Driven(Branches(), playbook(locked=["*"]), noise)


@pytest.mark.parametrize("wrong", [{"most": 0}, {"most": 1.5}, {"recent": 1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Branches(**wrong)
