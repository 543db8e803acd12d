"""The best of each kind: what the grid keeps, beside a plain dictionary, and what grows in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from front_samples import Named, opened, point, score, turned, values
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import PlaybookError, SeedbedError, SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.map_elites import DESCRIPTORS, Archive, Descriptor, MapElites, prompt_length
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook

QUALITY = [Named("quality")]

batches = st.lists(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-3, 3).map(float), st.just(float("nan"))), st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)
        ),
        max_size=12,
    ),
    max_size=5,
)


@given(batches)
def test_each_cell_keeps_the_first_of_the_best_that_came_there(drawn: list[list[tuple[float, float, float]]]) -> None:
    archive = Archive([0, 0], [1, 1], [3, 2])
    expected: dict[tuple[int, int], tuple[float, int]] = {}
    who = 0
    for batch in drawn:
        before = archive.scores.copy()
        numbers = np.array(batch).reshape(-1, 3)
        added = archive.add(np.arange(who, who + len(batch)), numbers[:, 0], numbers[:, 1:])
        assert (archive.scores >= before).all()
        assert set(archive.elites[archive.elites >= who]) == set(np.flatnonzero(added) + who)
        for value, x, y in batch:
            cell = (min(max(int(x * 3), 0), 2), min(max(int(y * 2), 0), 1))
            if cell not in expected or value > expected[cell][0]:
                expected |= {cell: (value, who)} if value == value else {}
            who += 1
    found = {
        (cell // 2, cell % 2): (float(archive.scores[cell]), int(archive.elites[cell]))
        for cell in np.flatnonzero(archive.elites >= 0).tolist()
    }
    assert found == expected


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Archive([0], [1], [2, 2]), "bins: found 2; expected one for each of 1 low and 1 high"),
        (lambda: Archive([], [], []), "bins: found 0"),
        (
            lambda: Archive([0, 1], [1, 1], [2, 2]),
            r"bins\[1\]: found 2 from 1 to 1; expected at least 1, from low to high",
        ),
        (lambda: Archive([0], [1], [0]), r"bins\[0\]: found 0 from 0 to 1"),
    ],
)
def test_a_grid_of_nothing_is_refused(made: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        made()


# Behaviour


def spoken(text: str, demos: int = 0) -> Playbook:
    shown = [{"inputs": {"q": "abc"}, "output": "yes"}] * demos
    return Playbook.from_document({"roles": {"a": {"system": text}}, "demos": {"a": shown} if demos else {}})


def measured(name: str, search: Any, place: int) -> float:
    return float(DESCRIPTORS[name].measure(search.pool, [place])[0])


def test_length_is_that_of_texts_and_demos_beside_the_start() -> None:
    assert prompt_length(spoken("x" * 40, demos=2)) == 40 + 2 * 6
    search = opened(spoken("x" * 99), QUALITY)
    for playbook in (search.start, spoken("y" * 199), spoken("z" * 49)):
        search.pool.add(Offer(playbook))
    assert [measured("length", search, place) for place in range(3)] == [0.0, 1.0, -1.0]


def test_cost_is_that_of_a_run_beside_the_start() -> None:
    search = opened(spoken("a"), QUALITY, ["t0", "t1"])
    for playbook, tasks, dollars in ((spoken("a"), 2, 0.5), (spoken("b"), 1, 1.0), (spoken("c"), 2, 0.0)):
        search.pool.add(Offer(playbook))
        for task in range(tasks):
            about: dict[str, Any] = {"key": "", "playbook": playbook.digest, "task": f"t{task}", "replicate": 0}
            search.pool.tell([Cell(**about, metric="quality", value=1.0, cost_usd=dollars)])
    assert [measured("cost", search, place) for place in range(2)] == [0.0, 1.0]
    assert measured("cost", search, 2) < -3


def test_where_nothing_has_a_price_all_cost_the_same() -> None:
    search = opened(point(0.1), QUALITY)
    score(search, [Offer(point(0.1)), Offer(point(0.2))], lambda playbook, task: {"quality": 1.0})
    assert measured("cost", search, 1) == 0.0


def test_the_profile_tells_at_which_tasks_a_playbook_gains() -> None:
    search = opened(point(0.0), QUALITY, ["a", "b", "c", "d"])
    rows = {0.0: [0, 1, 1, 1], 0.2: [1, 1, 1, 1], 0.4: [0, 0, 1, 1], 0.6: [1, None, None, None]}
    for first, row in rows.items():
        search.pool.add(Offer(point(first)))
        for task, value in zip("abcd", row, strict=True):
            if value is not None:
                about = {"key": "", "playbook": point(first).digest, "task": task, "replicate": 0}
                search.pool.tell([Cell(**about, metric="quality", value=value)])
    assert [measured("profile", search, place) for place in range(4)] == [0.0, 0.5, -0.5, 1.0]


# The search

SECOND = Descriptor("second", lambda pool, places: np.array([values(pool.playbooks[p])[1] for p in places]), 0, 1, 5)


def peak(playbook: Playbook, task: str) -> Mapping[str, float | None]:
    return {"quality": 1 - (values(playbook)[0] - 0.7) ** 2}


async def test_all_kinds_are_found_and_each_gets_better() -> None:
    search = opened(point(0.1, 0.1), QUALITY)
    optimizer = MapElites(descriptors=[SECOND], operators=None)
    await turned(optimizer, search, peak, 25)
    assert (optimizer.archive.elites >= 0).all()
    firsts = [values(search.pool.playbooks[elite.place])[0] for elite in optimizer.elites]
    assert firsts == pytest.approx([0.7] * 5, abs=0.1)


async def test_the_elites_are_the_best_tried_of_their_kind_and_told_best_first() -> None:
    search = opened(point(0.1, 0.1), QUALITY, seed=3)
    optimizer = MapElites(descriptors=[SECOND], batch=7)
    await turned(optimizer, search, peak, 12)
    means = search.pool.standings()[0]
    best: dict[int, float] = {}
    for place, playbook in enumerate(search.pool.playbooks):
        cell = min(int(values(playbook)[1] * 5), 4)
        best[cell] = max(best.get(cell, -np.inf), means[place])
    elites = optimizer.elites
    assert [elite.score for elite in elites] == sorted(best.values(), reverse=True)
    for elite in elites:
        assert elite.score == means[elite.place]
        assert elite.behaviour == {"second": values(search.pool.playbooks[elite.place])[1]}


async def test_the_same_seed_makes_the_same_search_and_nothing_is_offered_twice() -> None:
    optimizer = MapElites(batch=5)
    one, same, other = [
        await turned(optimizer, opened(point(0.5, 0.5), QUALITY, ["a", "b"], seed), peak, 6) for seed in (1, 1, 2)
    ]
    assert one == same
    assert one != other
    digests = [offer.playbook.digest for offers in one for offer in offers]
    assert len(digests) == len(set(digests))
    assert [len(offers) for offers in one] == [6, 5, 5, 5, 5, 5]


async def test_what_failed_everywhere_or_was_never_paid_for_is_no_elite() -> None:
    search = opened(point(0.5), [Named("delay", "lower")])
    optimizer = MapElites(descriptors=["length"])

    def fragile(playbook: Playbook, task: str) -> Mapping[str, float | None]:
        return {"delay": 7.0 if playbook == search.start else None}

    await turned(optimizer, search, fragile, 1)
    assert [elite.place for elite in optimizer.elites] == [0]
    assert await optimizer.ask()
    await optimizer.tell([])
    assert [elite.place for elite in optimizer.elites] == [0]


async def test_it_ends_when_there_is_nothing_new() -> None:
    tiny = Playbook.from_document({"parameters": {"n": {"value": 1, "low": 1, "high": 3, "whole": True}}})
    search = opened(tiny, QUALITY)
    offered = await turned(MapElites(), search, lambda playbook, task: {"quality": 1.0}, 50)
    assert len(offered) < 50
    assert {playbook.parameter("n") for playbook in search.pool.playbooks} == {1, 2, 3}


def test_other_settings_are_another_search() -> None:
    narrow = replace(DESCRIPTORS["length"], bins=4)
    identities = [MapElites(**given).identity for given in ({}, {"batch": 3}, {"descriptors": [narrow]})]
    assert [identity["optimizer"] for identity in identities] == ["map_elites"] * 3
    assert len({str(identity) for identity in identities}) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"descriptors": ["colour"]}, 'descriptors: found "colour"; expected at least one of length, cost, profile'),
        ({"descriptors": []}, r"descriptors: found \[\]; expected at least one"),
        ({"batch": 0}, "batch: found 0; expected at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        MapElites(**given)


def test_a_start_of_which_nothing_may_evolve_is_refused() -> None:
    with pytest.raises(PlaybookError, match="no gene that may be varied"):
        MapElites().begin(opened(point(0.5, locked=["parameters.*"]), QUALITY))
