"""Comparisons tried until one wins: other tasks, other samples, other replicates, other candidates, after a defeat."""

from __future__ import annotations

import pytest
from world import NEW, OLD, agent, is_released, joined, serve_old, tasks, world

from seedbed import Playbook, Workspace
from seedbed.errors import ReleaseRefused
from seedbed.experiments.options import Comparing

WINS, LOSSES = range(35), range(35, 69)


async def lucky() -> Workspace:
    """OLD and NEW are equally good: one wins 35 tasks, the other 34. The comparison of both is over."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    assert (await space.compare(OLD, NEW, on=tasks(range(69)))).finding == "inconclusive"
    return space


async def test_leaving_out_the_losses_releases_nothing() -> None:
    space = await lucky()
    verdict = await space.compare(OLD, NEW, on=tasks(WINS))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    with pytest.raises(ReleaseRefused, match="an exploratory verdict: results of the candidate were known at 35 of 35"):
        await space.release(NEW, to="production", because=verdict)


async def test_nor_under_other_ids_and_in_other_words() -> None:
    space = await lucky()
    verdict = await space.compare(OLD, NEW, on=tasks(WINS, lambda text: f" {text.upper()}", prefix="other"))
    assert verdict.mode == "exploratory"
    assert not await is_released(space, because=verdict)


async def test_nor_for_a_copy_of_the_candidate_that_says_please() -> None:
    space = await lucky()
    polite = Playbook.from_document({**NEW.document(), "meta": {"name": "another"}})
    for copy in (polite, agent("new", meta={"note": "again"})):
        verdict = await space.compare(OLD, copy, on=tasks(WINS))
        assert not await is_released(space, copy, verdict)


@pytest.mark.parametrize("options", [Comparing(first_replicate=1), Comparing(replicates=3), Comparing(rule="betting")])
async def test_another_replicate_or_rule_is_another_attempt_on_tasks_that_are_known(options: Comparing) -> None:
    space = await lucky()
    verdict = await space.compare(OLD, NEW, on=tasks(WINS), options=options)
    assert verdict.mode == "exploratory"
    assert not await is_released(space, because=verdict)


async def test_tasks_that_the_served_one_is_known_to_fail_are_no_fair_sample() -> None:
    """Its failures are looked up first, and then any candidate is better at them."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    card = await space.evaluate(OLD, tasks(range(69)))
    failed = [int(cell.task[1:]) for cell in card.cells if not cell.value]
    verdict = await space.compare(OLD, NEW, on=tasks(failed))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    with pytest.raises(ReleaseRefused, match="results of the control were known before this set of tasks was named"):
        await space.release(NEW, to="production", because=verdict)


async def test_nor_if_a_copy_of_the_served_one_found_them() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    copy = Playbook.from_document({**OLD.document(), "meta": {"note": "for looking"}})
    card = await space.evaluate(copy, tasks(range(69)))
    failed = [int(cell.task[1:]) for cell in card.cells if not cell.value]
    verdict = await space.compare(OLD, NEW, on=tasks(failed))
    assert not await is_released(space, because=verdict)


async def test_a_defeat_is_followed_by_a_stricter_attempt() -> None:
    """Each attempt on new tasks gets less of the error rate, whoever the candidate is."""
    space = await serve_old(world([], [*range(100, 106), *range(200, 206)]))
    verdicts = [await space.compare(OLD, NEW, on=tasks(range(first, first + 30))) for first in (0, 100, 200)]
    assert [(each.mode, each.attempt) for each in verdicts] == [("confirmatory", number) for number in (1, 2, 3)]
    levels = [each.alpha for each in verdicts]
    assert 0.05 * 15 / 16 == levels[0] > levels[1] > levels[2] > 0
    # What an exact test has not used up goes on to later ones: all that is ever used up is the whole rate.
    assert sum(each.spent or 0.0 for each in verdicts[:2]) + levels[2] <= 0.05


async def test_a_hundred_lucky_candidates_do_not_make_a_winner() -> None:
    """Six wins of six would be superior at 0.05 each time; after some attempts it is not."""
    space = await serve_old(world([], [*range(1000)]))
    first = await space.compare(OLD, NEW, on=tasks(range(5)))
    assert first.finding == "superior"
    space = await serve_old(world([], [*range(40, 1000)]))
    for number in range(4):
        candidate = agent("new", meta={"number": number}, parameters={f"p{number}": {"value": 0.5}})
        verdict = await space.compare(OLD, candidate, on=tasks(range(number * 10, number * 10 + 10)))
        assert verdict.attempt == number + 1
    late = await space.compare(OLD, NEW, on=tasks(range(100, 105)))
    assert (late.finding, late.mode, late.attempt) == ("inconclusive", "confirmatory", 5)


async def test_a_comparison_is_resumed_as_the_attempt_that_it_was() -> None:
    space = await serve_old(world([], [*range(30)]))
    one = await space.compare(OLD, NEW, on=tasks(range(30)))
    again = await space.compare(OLD, NEW, on=tasks(range(30)))
    assert (one.attempt, again) == (1, one)
    assert await is_released(space, because=one)


async def test_what_was_seen_is_left_out_where_nothing_else_is_known() -> None:
    space = await serve_old(world([], [*range(60)]))
    await space.evaluate(NEW, tasks(range(5)))
    verdict = await space.compare(OLD, NEW, on=tasks(range(60)))
    assert (verdict.mode, verdict.at_most) == ("confirmatory", 55)
    assert await is_released(space, because=verdict)


async def test_the_same_tasks_serve_for_another_candidate() -> None:
    space = await serve_old(world([], [*range(20, 69)]))
    other = agent("new", roles={"clerk": {"model": "new", "system": "Something else entirely, in many other words."}})
    first = await space.compare(OLD, other, on=tasks(range(20)))
    assert (first.finding, first.mode) == ("inconclusive", "confirmatory")
    second = await space.compare(OLD, NEW, on=joined(tasks(range(20, 69))))
    assert (second.mode, second.attempt) == ("confirmatory", 2)


async def test_nor_does_an_error_budget_pay_for_tasks_that_are_known() -> None:
    space = await lucky()
    verdict = await space.compare(OLD, NEW, on=tasks(WINS), options=Comparing(channel="production"))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    assert not await is_released(space, because=verdict)
    other = await space.compare(OLD, NEW, on=tasks(range(200, 230)), options=Comparing(channel="production"))
    assert other.mode == "confirmatory"
    assert space.experiments.verify([other.experiment]) == {other.experiment: []}


async def test_nor_does_the_error_budget_of_another_channel_pay() -> None:
    space = await serve_old(world([], [*range(40)]))
    verdict = await space.compare(OLD, NEW, on=tasks(range(40)), options=Comparing(channel="scratch"))
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    with pytest.raises(ReleaseRefused, match="a verdict paid from the error budget of scratch"):
        await space.release(NEW, to="production", because=verdict)
