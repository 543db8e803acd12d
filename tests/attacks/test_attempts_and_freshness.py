"""Comparisons tried until one wins: other tasks, other samples, other replicates, other candidates, after a defeat."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from world import GATES, NEW, OLD, agent, is_released, joined, serve_old, tasks, world

from seedbed import Playbook, Workspace
from seedbed.errors import ReleaseRefused
from seedbed.experiments.options import Comparing
from seedbed.storage.store import Query

WINS, LOSSES = range(35), range(35, 69)


async def lucky(require: Sequence[str] = GATES) -> Workspace:
    """OLD and NEW are equally good: one wins 35 tasks, the other 34. The comparison of both is over."""
    space = await serve_old(world([*LOSSES], [*WINS], require=require))
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


@pytest.mark.parametrize("playbook", [OLD, Playbook.from_document({**OLD.document(), "meta": {"note": "for looking"}})])
async def test_nor_if_they_were_found_by_running_it_without_a_metric(playbook: Playbook) -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    runs = {task.id: await space.run(playbook, **task.inputs) for task in tasks(range(69))}
    failed = [int(name[1:]) for name, run in runs.items() if run.output != "yes"]
    verdict = await space.compare(OLD, NEW, on=tasks(failed))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    with pytest.raises(ReleaseRefused, match="results of the control were known before this set of tasks was named"):
        await space.release(NEW, to="production", because=verdict)


async def test_nor_by_running_the_candidate_where_it_answers_well() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    runs = {task.id: await space.run(NEW, **task.inputs) for task in tasks(range(69))}
    won = [int(name[1:]) for name, run in runs.items() if run.output == "yes"]
    verdict = await space.compare(OLD, NEW, on=tasks(won))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    assert not await is_released(space, because=verdict)


async def test_a_dataset_stored_before_it_was_run_by_hand_stays_a_fair_sample() -> None:
    """Honest work: somebody tries the served one on some tasks of a dataset, and compares on all of it."""
    space = await serve_old(world([], [*range(30)]))
    space.datasets.add("mail", tasks(range(30)), because="new")
    for task in tasks(range(5)):
        await space.run(OLD, **task.inputs)
    verdict = await space.compare(OLD, NEW, on="mail")
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    assert not any(space.experiments.verify().values())
    assert await is_released(space, because=verdict)


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


async def test_an_error_rate_that_no_gate_accepts_uses_up_no_attempt() -> None:
    """Otherwise a look at a rate that can never release would leave an honest attempt nearly nothing."""
    space = await serve_old(world([], [*range(80)]))
    loose = await space.compare(OLD, NEW, on=tasks(range(40)), options=Comparing(alpha=0.2))
    assert (loose.finding, loose.mode, loose.attempt) == ("superior", "exploratory", 0)
    with pytest.raises(ReleaseRefused, match=r"an error rate of 0\.2 releases nothing, as at most 0\.05 may"):
        await space.release(NEW, to="production", because=loose)
    honest = await space.compare(OLD, NEW_TOO, on=tasks(range(40, 80)))
    assert (honest.attempt, honest.alpha) == (1, 0.05 * 15 / 16)


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
    space = await lucky([*GATES, "error_budget"])
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


async def test_an_error_budget_that_nobody_requires_is_no_second_error_rate() -> None:
    """Attempts have an error rate of their own: with both, the chance of a false winner would be twice as large."""
    space = await serve_old(world([], [*range(80)]))
    verdict = await space.compare(OLD, NEW, on=tasks(range(40)), options=Comparing(channel="production"))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    with pytest.raises(ReleaseRefused, match="releases to production need not be paid from its error budget"):
        await space.release(NEW, to="production", because=verdict)


@pytest.mark.parametrize("chosen", [{"seed": 5}, {"first_replicate": (1, 0)}])
async def test_nor_is_the_order_or_a_replicate_chosen_by_what_the_served_one_is_known_to_fail(chosen: Any) -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    space.datasets.add("mail", tasks(range(20, 50)), because="new")
    await space.evaluate(OLD, "mail", replicates=2)
    assert (await space.compare(OLD, NEW, on="mail", options=Comparing(**chosen))).mode == "exploratory"
    assert (await space.compare(OLD, NEW_TOO, on="mail")).mode == "confirmatory"


NEW_TOO = agent("new", roles={"clerk": {"model": "new", "system": "Something else entirely, in many other words."}})


async def known_halves(names: int, size: int = 35) -> Workspace:
    """Many parts of one dataset are stored, and then the results of the served one become known."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    for number in range(names):
        part, _ = tasks(range(69)).split(size / 69, seed=number)
        space.datasets.add(f"half-{number}", part, because="a part")
    await space.evaluate(OLD, tasks(range(69)))
    return space


async def test_of_twenty_stored_halves_the_worst_for_the_served_one_is_no_fair_sample() -> None:
    space = await known_halves(20)
    failures = {n: sum(int(task.id[1:]) in WINS for task in space.datasets.get(f"half-{n}")) for n in range(20)}
    worst = max(range(1, 20), key=lambda n: failures[n])
    verdict = await space.compare(OLD, NEW, on=f"half-{worst}")
    assert verdict.mode == "exploratory"
    assert not await is_released(space, because=verdict)
    assert (await space.compare(OLD, NEW_TOO, on="half-0")).mode == "confirmatory"


async def test_nor_is_one_of_many_batches_that_share_no_task() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    for number in range(3):
        space.datasets.add(f"batch-{number}", tasks(range(number * 23, number * 23 + 23)), because="a part")
    await space.evaluate(OLD, tasks(range(69)))
    assert (await space.compare(OLD, NEW, on="batch-1")).mode == "exploratory"


async def test_nor_is_a_version_stored_after_the_first_result() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    space.datasets.add("mail", tasks(range(30)), because="new")
    await space.evaluate(OLD, tasks(range(1)))
    space.datasets.add("mail", tasks(range(69)), because="more")
    await space.evaluate(OLD, tasks(range(69)))
    assert (await space.compare(OLD, NEW, on="mail")).mode == "exploratory"
    first = next(fact.body["to"] for fact in space.store.facts(Query(kind="move", key="datasets/mail@1")))
    assert (await space.compare(OLD, NEW_TOO, on=first)).mode == "confirmatory"


async def test_a_name_that_was_removed_still_counts_as_named() -> None:
    space = await known_halves(2)
    space.store.move("datasets/half-0", None, expected=space.store.ref("datasets/half-0"), because="hide it", by="eve")
    assert (await space.compare(OLD, NEW, on="half-1")).mode == "exploratory"


async def test_sets_of_exploratory_comparisons_are_not_named_by_them() -> None:
    """They cost nothing, so one could register very many and pick."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    few = agent("new", roles={"clerk": {"model": "new", "system": "Another one, to register sets of tasks by."}})
    await space.compare(NEW, few, on=tasks(range(35)))
    await space.evaluate(OLD, tasks(range(69)))
    assert (await space.compare(OLD, NEW_TOO, on=tasks(range(35)))).mode == "exploratory"


# Several candidates


async def test_several_candidates_are_one_attempt_and_divide_its_level() -> None:
    space = await serve_old(world([], [*range(60)]))
    best = await space.compare(OLD, [NEW, NEW_TOO], on=tasks(range(60)))
    assert best.ranking
    assert [(each.verdict.mode, each.verdict.attempt) for each in best.ranking.candidates] == [("confirmatory", 1)] * 2
    assert all(each.verdict.alpha == 0.05 * 15 / 16 / 2 for each in best.ranking.candidates)
    assert space.experiments.verify() == {each.verdict.experiment: [] for each in best.ranking.candidates}
    later = await space.compare(
        OLD, agent("new", meta={"n": 1}, parameters={"p": {"value": 0.5}}), on=tasks(range(100, 130))
    )
    assert later.attempt == 2
    assert await is_released(space, NEW, best if best.candidate == NEW.digest else best.ranking.candidates[1].verdict)


async def test_a_group_is_resumed_as_the_attempt_that_it_was() -> None:
    space = await serve_old(world([], [*range(60)]))
    one = await space.compare(OLD, [NEW, NEW_TOO], on=tasks(range(60)))
    again = await space.compare(OLD, [NEW, NEW_TOO], on=tasks(range(60)))
    assert (again, again.attempt) == (one, 1)


async def test_a_group_with_one_that_knows_the_tasks_releases_none() -> None:
    space = await serve_old(world([], [*range(60)]))
    await space.evaluate(NEW, tasks(range(50)))
    best = await space.compare(OLD, [NEW, NEW_TOO], on=tasks(range(60)))
    assert best.ranking
    assert {each.verdict.mode for each in best.ranking.candidates} == {"exploratory"}


async def test_a_look_after_the_verdict_does_not_hide_it() -> None:
    """Honest work: an exploratory comparison after a confirmatory one leaves the release as it is."""
    with closing(await serve_old(world([], [*range(60)]))) as space:
        assert (await space.compare(OLD, NEW, on=tasks(range(30)))).mode == "confirmatory"
        assert (await space.compare(OLD, NEW, on=tasks(range(30)), options=Comparing(seed=7))).mode == "exploratory"
        assert await is_released(space, because="")


@pytest.mark.parametrize("known", ["compared", "run by hand"])
async def test_a_secret_in_each_task_does_not_make_the_winners_new(known: str) -> None:
    """Records of runs leave out what looks like a secret, so that their tasks read a little different."""
    space = await serve_old(world([*LOSSES], [*WINS]))

    def secretive(text: str) -> str:
        return f"{text} The key is sk-{hashlib.sha256(text.encode()).hexdigest()}."

    if known == "compared":
        assert (await space.compare(OLD, NEW, on=tasks(range(69), secretive))).finding == "inconclusive"
    else:
        for task in tasks(WINS, secretive):
            await space.run(NEW, **task.inputs)
    verdict = await space.compare(OLD, NEW, on=tasks(WINS, secretive))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    assert not await is_released(space, because=verdict)
