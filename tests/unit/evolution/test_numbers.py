"""Numbers that are mixed and moved: within bounds, around their parents, and only what may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Search
from seedbed.evolution.variation.numbers import NumberVariation, numbers, polynomial, sbx
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook

LOW, HIGH = np.array([0.0, -5.0, 2.0]), np.array([1.0, 5.0, 2.0])


def rows(count: int, seed: int) -> Any:
    """Points within the bounds, some on them."""
    shares = np.random.default_rng(seed).random((count, 3))
    shares[shares < 0.1], shares[shares > 0.9] = 0.0, 1.0
    return LOW + (HIGH - LOW) * shares


@given(st.integers(0, 999), st.floats(0, 50), st.floats(0, 50))
def test_children_stay_within_bounds_however_far_they_may_go(seed: int, mixing: float, moving: float) -> None:
    rng = np.random.default_rng(seed)
    one, other = rows(20, seed), rows(20, seed + 1)
    first, second = sbx(one, other, LOW, HIGH, rng, eta=mixing)
    moved = polynomial(one, LOW, HIGH, rng, chance=1.0, eta=moving)
    for children in (first, second, moved):
        assert np.isfinite(children).all()
        assert (children >= LOW).all()
        assert (children <= HIGH).all()


def test_mixed_children_are_around_their_parents_and_closer_the_higher_eta() -> None:
    rng = np.random.default_rng(0)
    one, other = np.full((20_000, 1), 0.4), np.full((20_000, 1), 0.6)
    far = []
    for eta in (2.0, 30.0):
        first, second = sbx(one, other, np.zeros(1), np.ones(1), rng, eta=eta)
        assert np.mean((first + second) / 2) == pytest.approx(0.5, abs=0.002)
        changed = first != one
        assert np.mean(changed) == pytest.approx(0.9 / 2, abs=0.02)
        assert np.mean(first[changed]) == pytest.approx(0.5, abs=0.003)  # each child has numbers of both
        far.append(float(np.minimum(abs(first - 0.4), abs(first - 0.6))[changed].mean()))
    assert far[0] > 3 * far[1]


def test_parents_near_a_bound_have_children_near_it_and_not_on_it() -> None:
    one, other = np.full((2_000, 1), 0.02), np.full((2_000, 1), 0.98)
    for children in sbx(one, other, np.zeros(1), np.ones(1), np.random.default_rng(0), eta=2.0):
        assert ((children > 0) & (children < 1)).all()
        assert (children < 0.02).any()
        assert (children > 0.98).any()


def test_equal_parents_have_equal_children() -> None:
    one = rows(10, 1)
    first, second = sbx(one, one, LOW, HIGH, np.random.default_rng(0), chance=1.0)
    assert first.tolist() == second.tolist() == one.tolist()


def test_about_one_number_of_each_row_is_moved_up_as_often_as_down() -> None:
    values = np.full((20_000, 10), 0.5)
    moved = polynomial(values, np.zeros(10), np.ones(10), np.random.default_rng(0))
    changed = moved != values
    assert changed.sum(axis=1).mean() == pytest.approx(1.0, abs=0.02)
    assert (moved > values).sum() == pytest.approx((moved < values).sum(), rel=0.05)
    assert np.abs(moved - values)[changed].mean() < 0.1


# Of playbooks

START = Playbook.from_document(
    {
        "roles": {"writer": {"system": "Be brief.", "temperature": 0.5}},
        "parameters": {
            "steps": {"value": 3, "low": 1, "high": 6, "whole": True},
            "weight": {"value": 0.25, "low": 0, "high": 1},
            "bare": 4.0,
            "mood": "calm",
        },
        "locked": ["parameters.weight"],
    }
)


def search(start: Playbook = START, seed: int = 0) -> Search:
    return Search(start, (), Pool([ExactMatch()], ["t"]), seed)


async def test_only_numbers_change_and_all_of_them_do_in_time() -> None:
    changed = set()
    parent, mate = START, with_genes(START, {"parameters.steps": 6, "parameters.bare": 2.0})
    for event in range(60):
        child = await NumberVariation()(parent, [mate], search(), str(event))
        if child:
            before, after = genes(parent), genes(child)
            changed |= {path for path in before if before[path].value != after[path].value}
            steps = after["parameters.steps"].value
            assert isinstance(steps, int)
            assert 1 <= steps <= 6
    assert changed == numbers(START).keys() == {"roles.writer.temperature", "parameters.steps", "parameters.bare"}


async def test_without_a_mate_numbers_are_drawn_from_all_over_their_range() -> None:
    drawn = [await NumberVariation()(START, [], search(), str(event)) for event in range(200)]
    found = {path: [genes(child)[path].value for child in drawn if child] for path in numbers(START)}
    assert set(found["parameters.steps"]) == {1, 2, 3, 4, 5, 6}
    for path, low, high in (("roles.writer.temperature", 0, 2), ("parameters.bare", 0, 8)):
        assert low <= min(found[path]) < low + 0.1 * (high - low)
        assert high >= max(found[path]) > high - 0.1 * (high - low)


async def test_a_threshold_never_falls() -> None:
    strict = Playbook.from_document(
        {
            "roles": {"writer": {"system": "Be brief."}},
            "rules": {"prefer_confirm": ["send"], "confirm_below": "surety"},
            "parameters": {"surety": {"value": 0.8, "low": 0, "high": 1}},
        }
    )
    mate = with_genes(strict, {"parameters.surety": 0.9})
    for event in range(40):
        for parent, other in ((strict, mate), (mate, strict)):
            child = await NumberVariation()(parent, [other], search(strict), str(event))
            assert child is None or child.threshold > parent.threshold


async def test_what_is_drawn_depends_on_the_event_and_the_seed_alone() -> None:
    mate = with_genes(START, {"parameters.steps": 6})
    one, same, other = [await NumberVariation()(START, [mate], search(seed=seed), "e1") for seed in (0, 0, 1)]
    assert one == same
    assert one != other


async def test_a_playbook_without_numbers_has_no_such_child() -> None:
    plain = Playbook.from_document({"roles": {"writer": {"system": "Be brief."}}})
    assert await NumberVariation()(plain, [plain], search(plain), "e") is None


async def test_numbers_are_not_longer_than_anybody_needs() -> None:
    child = await NumberVariation()(START, [], search(), "e")
    assert child is not None
    assert len(str(child.roles["writer"].temperature)) <= 8
