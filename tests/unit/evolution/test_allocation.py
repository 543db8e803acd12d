from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from pool_samples import LENGTH, SCORE, book, cell, pool_by, pool_of

from seedbed.errors import SettingsError
from seedbed.evolution.allocation import Halving, Pooling, Uniform, Wanted, rank_places
from seedbed.evolution.learning.effects import estimated_best
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer

Truth = Callable[[int, int], float]


def pool(books: int, tasks: int) -> Pool:
    made = Pool([SCORE], [f"t{n}" for n in range(tasks)])
    for number in range(books):
        made.add(Offer(book(number)))
    return made


def raced(rounds: Iterator[Wanted], its: Pool, truth: Truth) -> list[Wanted]:
    """All rounds, each scored before the next is asked for; nothing is scored twice."""
    done = []
    for wanted in rounds:
        done.append(wanted)
        for place, own in wanted:
            known = dict(zip(its.select, its.counts()[place].tolist(), strict=True))
            new = [(task, replicate) for task, replicate in own if replicate >= known[task]]
            its.tell(cell(book(place), task, truth(place, int(task[1:])), again) for task, again in new)
    return done


def better_by_number(place: int, task: int) -> float:
    return float(task % 10 < place)


@pytest.mark.parametrize(
    ("tasks", "expected"), [(60, [6, 18, 60]), (6, [6]), (3, [3]), (10, [10]), (11, [6, 11]), (200, [6, 18, 54, 200])]
)
def test_each_round_has_three_times_as_many_tasks_and_the_last_has_all(tasks: int, expected: list[int]) -> None:
    assert Halving().sizes(9, tasks) == expected


@pytest.mark.parametrize("candidates", [1, 2, 5, 9, 30])
@pytest.mark.parametrize("tasks", [1, 7, 40, 300])
@pytest.mark.parametrize("room", [1, 10, 60, 200, 2_000, 100_000])
def test_rounds_that_there_is_no_room_for_are_smaller_and_still_grow(candidates: int, tasks: int, room: int) -> None:
    whole, sizes = Halving().sizes(candidates, tasks), Halving().sizes(candidates, tasks, room)
    assert sizes == sorted({*sizes})
    assert 1 <= sizes[0] <= sizes[-1] <= tasks
    left = [max(1, math.ceil(candidates / 3**number)) for number in range(len(whole))]

    def runs(of: list[int]) -> int:
        return sum(rivals * (size - before) for rivals, size, before in zip(left, of, [0, *of], strict=False))

    if runs(whole) <= room:
        assert sizes == whole
    elif room >= len(whole) * candidates:
        assert runs(sizes) <= room


def test_all_of_a_round_meet_the_same_tasks_beside_the_start_and_the_best_so_far() -> None:
    its = pool(12, 40)
    raced(Uniform().race([1, 2, 3], its, None), its, better_by_number)
    assert its.best() == 3
    rounds = raced(Halving().race(range(4, 12), its, None), its, better_by_number)
    for wanted, size in zip(rounds, (6, 18, 40), strict=True):
        assert {place for place, _ in wanted} >= {0, 3}
        assert all(own == [(task, 0) for task in its.select[:size]] for _, own in wanted)


def test_after_each_round_the_best_third_goes_on_and_the_best_is_found() -> None:
    its = pool(10, 60)
    rounds = raced(Halving().race(range(1, 10), its, None), its, better_by_number)
    rivals = [{place for place, _ in wanted} - {0} for wanted in rounds]
    assert [len(each) for each in rivals] == [9, 3, 1]
    assert rivals[1] <= {5, 6, 7, 8, 9}  # of six tasks those know all, and of equals the earlier go on
    assert its.counts()[max(rivals[-1])].sum() == 60


def test_whoever_is_surely_worse_is_dropped_even_if_nobody_is_better() -> None:
    its = pool(4, 60)
    rounds = raced(Halving().race([1, 2, 3], its, None), its, lambda place, task: float(place == 0))
    assert len(rounds) == 1


def test_whoever_is_as_good_as_the_best_is_not_dropped_for_that() -> None:
    its = pool(2, 60)
    assert len(raced(Halving().race([1], its, None), its, lambda place, task: float(task % 2))) == 3


def test_the_finals_try_the_best_few_on_all_tasks_and_replicates_only_where_they_differ() -> None:
    its = pool(6, 20)
    raced(Halving(first=4).race(range(1, 6), its, None), its, better_by_number)
    rounds = raced(Halving(first=4).finals(its), its, better_by_number)
    assert [len(wanted) for wanted in rounds] == [3, 2]
    assert all(its.counts()[place].min() == 1 for place, _ in rounds[0])
    assert all(own == [(task, 1) for task in its.select[:4]] for _, own in rounds[1])


def test_in_a_noisy_world_the_two_best_are_tried_three_times() -> None:
    its, flip = pool(3, 12), iter(range(10**6))
    rounds = raced(Halving(first=4).finals(its), its, lambda place, task: float(next(flip) // 5 % 2))
    assert len(rounds) == 4
    last = {place for place, _ in rounds[-1]}
    assert len(last) == 2
    assert all(its.counts()[place].min() == 3 for place in last)


def test_so_many_runs_are_kept_as_the_finals_take_where_replicates_agree() -> None:
    its = pool(8, 40)
    raced(Halving().race(range(1, 8), its, 60), its, better_by_number)
    before, kept = int(its.counts().sum()), Halving().final_runs(its)
    raced(Halving().finals(its), its, better_by_number)
    assert 0 < int(its.counts().sum()) - before <= kept


def test_uniform_tries_everything_on_everything_once() -> None:
    its = pool(4, 5)
    (wanted,) = raced(Uniform().race([1, 2, 2, 3], its, 3), its, better_by_number)
    assert [place for place, _ in wanted] == [0, 1, 2, 3]
    assert (its.counts() == 1).all()
    assert list(Uniform().finals(its)) == []
    assert Uniform().final_runs(its) == 0


def test_best_first_and_of_equals_the_earliest() -> None:
    its = pool_of({0: [0.5] * 3, 1: [0.1] * 3, 2: [0.9] * 3, 3: [0.5] * 3})
    assert rank_places([3, 1, 0, 2], its) == [2, 0, 3, 1]
    assert rank_places([1], its) == [1]
    assert rank_places([], its) == []


def test_who_has_no_score_comes_last_also_where_lower_is_better() -> None:
    its = Pool([LENGTH], ["t0"])
    for number, value in enumerate((5.0, None, 2.0)):
        its.add(Offer(book(number)))
        its.tell([cell(book(number), "t0", value, metric="length")])
    assert rank_places([0, 1, 2], its) == [2, 0, 1]


def test_with_several_metrics_nobody_comes_before_one_that_is_better_in_all() -> None:
    scores = {0: [0.5, 50.0], 1: [0.9, 90.0], 2: [0.4, 60.0], 3: [0.1, 10.0], 4: [0.8, 95.0]}
    its = pool_by([SCORE, LENGTH], scores)
    assert rank_places(range(5), its) == [1, 0, 3, 4, 2]


@pytest.mark.parametrize("wrong", [{"first": 0}, {"growth": 1.0}, {"patience": -1.0}, {"finalists": 0}])
def test_settings_by_which_it_would_never_end_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=f"halving: {next(iter(wrong))}"):
        Halving(**wrong)  # type: ignore[arg-type]


def test_what_decides_a_race_is_part_of_its_identity() -> None:
    assert Halving(first=4).identity != Halving().identity != Uniform().identity


# Pooling


def tasks_of(wanted: Wanted) -> list[str]:
    """The tasks of a round, which are the same for all."""
    first = [task for task, _ in wanted[0][1]]
    assert all(own == [(task, 0) for task in first] for _, own in wanted)
    return first


def test_few_candidates_meet_the_same_few_tasks_in_one_round_beside_the_start() -> None:
    its = pool(6, 60)
    (wanted,) = raced(Pooling().race(range(1, 6), its, None), its, better_by_number)
    assert [place for place, _ in wanted] == [0, 1, 2, 3, 4, 5]
    assert tasks_of(wanted) == its.select[:12]


def test_the_tasks_that_were_tried_least_come_first() -> None:
    its = pool(12, 60)
    steps = [raced(Pooling().race([place], its, None), its, better_by_number)[0] for place in range(1, 7)]
    assert [task for wanted in steps[:5] for task in tasks_of(wanted)] == its.select
    assert tasks_of(steps[5]) == its.select[:12]  # all were tried as often: from the beginning again


def test_where_there_are_many_the_best_third_goes_on_with_three_times_as_many_tasks() -> None:
    its = pool(28, 200)
    rounds = raced(Pooling().race(range(1, 28), its, None), its, lambda place, task: float(7 * task % 30 < place))
    rivals = [{place for place, _ in wanted} - {0} for wanted in rounds]
    assert [len(each) for each in rivals] == [27, 9, 3]
    assert [len(tasks_of(wanted)) for wanted in rounds] == [12, 36, 108]
    assert rivals[2] <= rivals[1] <= rivals[0]
    assert rivals[2] == {25, 26, 27}
    for before, after in pairwise(rounds):
        assert tasks_of(after)[: len(tasks_of(before))] == tasks_of(before)  # what is known of them is not paid again


def test_the_start_is_tried_first_and_need_not_be_tried_again_with_every_later_step() -> None:
    its = pool(31, 60)
    first = raced(Pooling().race(range(1, 5), its, None), its, better_by_number)
    later = raced(Pooling().race(range(20, 24), its, None), its, better_by_number)
    assert [0 in dict(wanted) for wanted in first + later] == [True, False]


def test_with_little_room_each_meets_fewer_tasks_but_one_at_least() -> None:
    its = pool(6, 60)
    for room, size in ((1_000, 12), (132, 12), (66, 6), (11, 1), (3, 1)):
        wanted = next(Pooling().race(range(1, 6), its, room))
        assert len(tasks_of(wanted)) == size
    assert len(tasks_of(next(Pooling().race([1], pool(2, 5), None)))) == 5  # there are no more


def test_where_all_tasks_were_tried_there_is_no_further_round() -> None:
    its = pool(21, 12)
    assert len(raced(Pooling().race(range(1, 21), its, None), its, better_by_number)) == 1


def test_in_the_finals_the_start_and_the_two_believed_best_meet_all_tasks_and_that_much_is_kept() -> None:
    its = pool(10, 40)
    assert Pooling().final_runs(pool(1, 40)) == 0  # there is nothing to compare the start with
    raced(Pooling().race(range(1, 10), its, None), its, better_by_number)
    before, kept, best = int(its.counts().sum()), Pooling().final_runs(its), Pooling().best(its)
    rounds = raced(Pooling().finals(its), its, better_by_number)
    assert [len(wanted) for wanted in rounds] == [3, 2]
    assert rounds[0][0][0] == 0
    assert best in {place for place, _ in rounds[0]}
    assert all(its.counts()[place].min() == 1 for place, _ in rounds[0])
    assert all(own == [(task, 1) for task in its.select[:12]] for _, own in rounds[1])
    assert kept == 3 * 40
    assert 0 < int(its.counts().sum()) - before <= kept


def test_which_is_best_is_told_by_all_scores_together_with_pooling_and_by_its_own_with_the_others() -> None:
    """Number 1 was tried on most tasks; number 2 on fewer, but on those it did much better."""
    its = pool_of({0: [0.0] * 20, 1: [0.1] * 20, 2: [1.0] * 15}, tasks=20)
    assert Pooling().best(its) == estimated_best(its) == 2
    assert Halving().best(its) == Uniform().best(its) == its.best() == 1


@pytest.mark.parametrize("wrong", [{"first": 0}, {"few": 0}, {"finalists": 0}])
def test_pooling_of_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=f"pooling: {next(iter(wrong))}: found 0"):
        Pooling(**wrong)


def test_what_decides_pooling_is_part_of_its_identity() -> None:
    assert Pooling().identity != Pooling(first=6).identity
    assert Pooling().identity["allocation"] == "pooling"
