from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from driven import playbook
from pool_samples import LENGTH, SCORE, cell

from seedbed.evolution.evaluators import Measure
from seedbed.evolution.learning import effects
from seedbed.evolution.learning.effects import Effects, effects_of, estimated_best, parts
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import canonical

PATH = "roles.agent.system"
SENTENCES = [f"Mind number {n}." for n in range(10)]
WORTH = np.linspace(-0.12, 0.12, 10)


def saying(chosen: Sequence[int]) -> Playbook:
    return playbook(" ".join(["Be brief.", *(SENTENCES[n] for n in chosen)]))


def planted(
    chosen: Sequence[Sequence[int]],
    seed: int,
    *,
    tasks: int = 10,
    metric: Measure = SCORE,
    turned: Callable[[float], float] = lambda score: score,
) -> Pool:
    """The start and candidates with these sentences, each right or wrong on some of sixty tasks, easy and hard."""
    rng = np.random.default_rng(seed)
    ease = rng.uniform(-0.3, 0.3, 60)
    pool = Pool([metric], [f"t{n}" for n in range(60)])
    for own in ([], *chosen):
        pool.add(Offer(saying(own)))
        chance = 0.5 + WORTH[list(own)].sum() + ease
        pool.tell(
            cell(saying(own), f"t{n}", turned(float(rng.random() < chance[n])), metric=metric.name)
            for n in rng.choice(60, tasks, replace=False).tolist()
        )
    return pool


def drawn(seed: int, count: int = 40) -> list[list[int]]:
    """Different sets of sentences, about three in each."""
    rng = np.random.default_rng([seed, 1])
    sets = dict.fromkeys(tuple(np.flatnonzero(rng.random(10) < 0.3).tolist()) for _ in range(4 * count))
    return [list(own) for own in sets if own][:count]


def raw(pool: Pool, part: tuple[str, str]) -> float:
    """How much better those with a part scored than those without."""
    has = np.array([part in parts(each) for each in pool.playbooks])
    means = np.nanmean(pool.table(), axis=1)
    return float(means[has].mean() - means[~has].mean())


def test_the_worth_of_a_part_is_told_better_than_by_the_scores_of_those_that_have_it() -> None:
    told, plain = [], []
    for seed in range(8):
        pool = planted(drawn(seed), seed)
        worth = Effects(pool).worth()
        for sentence, true in zip(SENTENCES, WORTH, strict=True):
            told.append(worth[PATH, sentence] - true)
            plain.append(raw(pool, (PATH, sentence)) - true)
    assert np.mean(np.square(told)) < 0.8 * np.mean(np.square(plain))
    assert np.mean(np.square(told)) < 0.5 * np.mean(np.square(WORTH))  # better than to believe nothing


def test_a_candidate_is_told_better_than_by_its_own_scores() -> None:
    told, plain = [], []
    for seed in range(8):
        sets = drawn(seed)
        pool = planted(sets, seed)
        true = np.array([WORTH[own].sum() for own in ([], *sets)])
        for found, errors in ((Effects(pool).means, told), (np.nanmean(pool.table(), axis=1), plain)):
            errors += list((found - found.mean()) - (true - true.mean()))
    assert np.mean(np.square(told)) < 0.5 * np.mean(np.square(plain))


def test_what_is_drawn_lies_around_what_is_believed() -> None:
    found = Effects(planted(drawn(0), 0))
    draws = [found.draw(np.random.default_rng(n)) for n in range(400)]
    for part, worth in found.worth().items():
        own = np.array([each[part] for each in draws])
        assert own.mean() == pytest.approx(worth, abs=4 * own.std() / 20)
        assert 0.005 < own.std() < 0.15
    assert found.draw(np.random.default_rng(1)) == draws[1]


def test_the_planted_best_is_believed_to_be_best_though_another_had_more_luck() -> None:
    best, picked, lucky = [9, 8, 7], 0, 0
    for seed in range(10):
        pool = planted([*drawn(seed), best], seed)
        chosen = pool.playbooks[estimated_best(pool)]
        picked += WORTH[[n for n in range(10) if SENTENCES[n] in chosen.roles["agent"].system]].sum() > 0.19
        lucky += pool.playbooks[int(np.argmax(np.nanmean(pool.table(), axis=1)))] == saying(best)
    assert picked >= 7 > lucky


def test_of_equals_the_earliest_is_best() -> None:
    pool = Pool([SCORE], ["t0", "t1"])
    for number in range(3):
        pool.add(Offer(saying([number])))
        pool.tell(cell(saying([number]), task, 0.5) for task in pool.select)
    assert estimated_best(pool) == 0


@pytest.mark.parametrize(
    ("metric", "turned", "scale"),
    [
        (SCORE, lambda score: 100 * score, 100.0),
        (SCORE, lambda score: 40 * score - 20, 40.0),
        (LENGTH, lambda score: 900 - 300 * score, 300.0),
    ],
)
def test_a_metric_may_lie_anywhere(metric: Measure, turned: Callable[[float], float], scale: float) -> None:
    plain = Effects(planted(drawn(3), 3))
    pool = planted(drawn(3), 3, metric=metric, turned=turned)
    other = Effects(pool)
    assert [*other.worth().values()] == pytest.approx([scale * each for each in plain.worth().values()])
    assert other.deviations == pytest.approx(scale * plain.deviations)
    assert np.ptp(other.means) == pytest.approx(scale * np.ptp(plain.means))
    assert estimated_best(pool) == int(np.argmax(plain.means))


def test_where_nothing_was_tried_nothing_is_believed_and_the_start_is_best() -> None:
    pool = Pool([SCORE], ["t0"])
    assert estimated_best(pool) == 0
    pool.add(Offer(playbook()))
    pool.add(Offer(playbook("Be kind.")))
    found = effects_of(pool)
    assert (found.places, found.parts, found.worth(), found.means.size) == ([], [], {}, 0)
    assert found.draw(np.random.default_rng(0)) == {}
    assert estimated_best(pool) == 0


def test_one_that_was_tried_on_easy_tasks_only_is_not_better_for_that() -> None:
    pool = Pool([SCORE], [f"t{n}" for n in range(20)])
    for number, tasks in ((0, range(20)), (1, range(10)), (2, range(10, 20))):
        pool.add(Offer(saying([number])))
        pool.tell(cell(saying([number]), f"t{n}", float(n < 10)) for n in tasks)
    assert Effects(pool).means == pytest.approx([0.5] * 3, abs=0.02)


def test_scores_on_tasks_that_are_read_count_too() -> None:
    pool = Pool([SCORE], ["t0"], [f"r{n}" for n in range(30)])
    for number in range(2):
        pool.add(Offer(saying([number])))
        pool.tell([cell(saying([number]), "t0", 0.5)])
        pool.tell(cell(saying([number]), task, float(number)) for task in pool.reflect)
    assert estimated_best(pool) == 1


def test_what_is_told_later_is_believed_then() -> None:
    pool = planted([[0], [9]], 0)
    before = effects_of(pool)
    assert effects_of(pool) is before
    pool.tell(cell(saying([0]), task, 1.0, 1) for task in pool.select)
    assert effects_of(pool) is not before
    assert effects_of(pool).means[1] > before.means[1]


def test_of_very_many_the_start_the_best_known_and_the_newest_are_looked_at() -> None:
    pool = Pool([SCORE], [f"t{n}" for n in range(4)])
    count, known = 2 * effects.MOST, 7
    for number in range(count):
        each = playbook(f"Be brief. {SENTENCES[number % 10]} Be number {number}.")
        pool.add(Offer(each))
        tasks = pool.select if number == known else pool.select[:2]
        pool.tell(cell(each, task, 1.0 if number == known else 0.4) for task in tasks)
    places = effects_of(pool).places
    assert len(places) <= effects.MOST + 1
    assert {0, known, *range(count - effects.MOST // 2, count)} <= {*places}
    assert places == sorted({*places})
    assert estimated_best(pool) == known


def test_parts_are_sentences_demos_options_and_numbers() -> None:
    shown = {"inputs": {"n": "1"}, "output": "one"}
    each = playbook(
        "Be brief. Be kind.",
        demos={"answer": [shown]},
        parameters={
            "tone": {"value": "dry", "options": ["dry", "warm"]},
            "patience": {"value": 3, "low": 0, "high": 4},
        },
        locked=["steps"],
    )
    found = parts(each)
    assert found[PATH, "Be brief."] == found[PATH, "Be kind."] == 1
    assert found["demos.answer", canonical(shown)] == 1
    assert found["parameters.tone", "dry"] == 1
    assert found["parameters.patience", ""] == 0.75
    assert not any(path.startswith("steps") for path, _ in found)


def test_what_all_have_is_worth_nothing_as_it_cannot_be_told() -> None:
    assert (PATH, "Be brief.") not in Effects(planted(drawn(0), 0)).worth()
