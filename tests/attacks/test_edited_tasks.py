"""Tasks that were asked before, edited a little, as if they were new."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from world import NEW, OLD, agent, is_released, joined, question, serve_old, tasks, world

from seedbed import Dataset, SearchOptions, Task, Workspace
from seedbed.errors import DatasetError, ReleaseRefused
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.proof.evidence_file import export_evidence, verify_evidence
from seedbed.experiments.proof.repeats import check_repeats, repeats
from seedbed.playbooks.library import Library
from seedbed.storage.store import Query

WINS, LOSSES = range(35), range(35, 69)
OTHER = agent("new", roles={"clerk": {"model": "new", "system": "Something else entirely, in many other words."}})

EDITS: dict[str, Callable[[str], str]] = {
    "a comma": lambda text: text.replace("customer", "customer,"),
    "a dash": lambda text: text.replace("the request", "the – request"),
    "a greeting": lambda text: f"Hello! {text}",
    "thanks": lambda text: f"{text} Thank you in advance.",
    "a number in front": lambda text: f"Question 7: {text}",
    "a word more": lambda text: text.replace("the customer", "the good customer"),
    "a typo": lambda text: text.replace("granted", "grantted"),
    "a synonym": lambda text: text.replace("Should", "May"),
    "another order": lambda text: text.replace("be granted?", "granted be?"),
    "bold words": lambda text: re.sub("request|customer|row", r"**\g<0>**", text),
    "words as code": lambda text: re.sub("request|customer|row", r"`\g<0>`", text),
    "tags": lambda text: re.sub("request|customer|row", r"<b>\g<0></b>", text),
    "a heading": lambda text: f"## {text}",
    "decimals": lambda text: re.sub(r"\d+", r"\g<0>.0", text),
    "leading zeros": lambda text: re.sub(r"\d+", r"0\g<0>", text),
    "Greek letters": lambda text: text.replace("o", "\N{GREEK SMALL LETTER OMICRON}"),
    "accents": lambda text: text.replace("e", "é").replace("u", "ü"),
    "spaced letters": lambda text: re.sub("request|customer|granted", lambda word: " ".join(word[0]), text),
}


async def lucky() -> Workspace:
    """OLD and NEW are equally good: one wins 35 tasks, the other 34. The comparison of both is over."""
    space = await serve_old(world([*LOSSES], [*WINS]))
    assert (await space.compare(OLD, NEW, on=tasks(range(69)))).finding == "inconclusive"
    return space


# Known results


async def test_winners_that_are_edited_a_little_are_not_new() -> None:
    space = await lucky()
    plan = Experiment.from_content(space.store.get(next(iter(space.store.facts(Query(kind="comparison")))).key))
    for how, edit in EDITS.items():
        again = repeats(Library(space.store, "eve"), plan, tasks(WINS, edit, prefix="new"))
        assert (how, len(again.left_out)) == (how, 35)
    verdict = await space.compare(OLD, NEW, on=tasks(WINS, EDITS["a comma"], prefix="new"))
    assert (verdict.finding, verdict.mode) == ("superior", "exploratory")
    with pytest.raises(
        ReleaseRefused, match=r"35 of 35 tasks nearly repeat .*known results \(.new0., .*add tasks that"
    ):
        await space.release(NEW, to="production", because=verdict)


async def test_nor_if_each_is_edited_in_several_ways() -> None:
    """Copies of one task are like each other too, as tasks of one pattern are."""
    space = await lucky()
    ways = [EDITS["a synonym"], lambda text: text.replace("be granted", "be allowed")]
    edited = joined(*(tasks(WINS, way, prefix=f"way{n}-") for n, way in enumerate(ways)))
    verdict = await space.compare(OLD, NEW, on=edited)
    assert verdict.mode == "exploratory"
    assert not await is_released(space, because=verdict)


async def test_what_the_served_one_is_known_to_fail_is_not_new_after_an_edit() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    await space.evaluate(OLD, tasks(range(69)))
    verdict = await space.compare(OLD, NEW, on=tasks(WINS, EDITS["a comma"], prefix="new"))
    assert verdict.mode == "exploratory"
    assert not await is_released(space, because=verdict)


async def test_nor_if_the_edited_ones_are_stored_and_run_before_they_are_compared() -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    await space.evaluate(OLD, tasks(range(69)))
    space.datasets.add("chosen", tasks(WINS, EDITS["a comma"], prefix="new"), because="they look good")
    await space.evaluate(OLD, "chosen")
    verdict = await space.compare(OLD, NEW, on="chosen")
    assert not await is_released(space, because=verdict)


async def test_edited_ones_among_new_ones_are_left_out_and_the_rest_decides(tmp_path: Path) -> None:
    space = await serve_old(world([*LOSSES], [*WINS, *range(100, 140)]))
    await space.compare(OLD, NEW, on=tasks(range(69)))
    mixed = joined(tasks(range(5), EDITS["a comma"], prefix="new"), tasks(range(100, 140)))
    verdict = await space.compare(OLD, NEW, on=mixed)
    assert (verdict.finding, verdict.mode, verdict.at_most) == ("superior", "confirmatory", 40)
    assert await space.compare(OLD, NEW, on=mixed) == verdict
    assert await is_released(space, because=verdict)
    assert not any(space.experiments.verify().values())
    exported = export_evidence(space.store, verdict.experiment, tmp_path / "one.evidence")
    assert not verify_evidence(exported).problems


async def test_the_tasks_that_the_served_one_passes_cannot_be_edited_away() -> None:
    """Once its results are known, tasks near which the candidate was run count as missing answers, against it."""
    space = await serve_old(world([*range(12)], [*range(12, 30)]))
    space.datasets.add("mail", tasks(range(60)), because="new")
    assert (await space.compare(OLD, OTHER, on="mail")).mode == "confirmatory"
    await space.evaluate(NEW, tasks(range(5), EDITS["a comma"], prefix="away"))
    verdict = await space.compare(OLD, NEW, on="mail")
    assert (verdict.at_most, len(verdict.unscored)) == (60, 10)
    assert not any(space.experiments.verify().values())


def test_a_verdict_of_before_tasks_were_left_out_still_verifies() -> None:
    """It rests on tasks that differ by a comma from known ones, and says by its edition that nobody looked."""
    check = verify_evidence(Path(__file__).parents[1] / "fixtures/edited-tasks.evidence")
    assert check.certificate
    assert (check.problems, check.certificate.experiment.edition) == ((), 2)


async def test_an_experiment_that_left_nothing_out_does_not_verify() -> None:
    space = await serve_old(world([*LOSSES], [*WINS, *range(100, 140)]))
    await space.compare(OLD, NEW, on=tasks(range(69)))
    verdict = await space.compare(
        OLD, NEW, on=joined(tasks(range(5), EDITS["a comma"], prefix="new"), tasks(range(100, 140)))
    )
    plan = Experiment.from_content(space.store.get(verdict.experiment))
    assert plan.left_out == tuple(f"new{n}" for n in range(5))
    known = Dataset.from_content(space.store.get(plan.dataset))
    taken = next(iter(space.store.facts(Query(kind="comparison", key=verdict.experiment)))).number
    forged = check_repeats(Library(space.store, ""), replace(plan, left_out=()), known, taken)
    assert [each.path for each in forged] == ["left_out"]


async def test_an_edited_winner_cannot_be_cleared() -> None:
    space = await lucky()
    edited = tasks(WINS, EDITS["a comma"], prefix="new")
    space.datasets.add("chosen", edited, because="they look good")
    for task in edited:
        space.datasets.not_leaked("chosen", task.id, because="it has a comma")
    verdict = await space.compare(OLD, NEW, on="chosen")
    assert verdict.mode == "exploratory"
    assert not await is_released(space, because=verdict)


# Counted many times


@pytest.mark.parametrize("how", ["commas", "greetings"])
async def test_one_winner_in_thirty_ways_is_one_task(how: str) -> None:
    space = await serve_old(world([], [1]))
    words = question(1).split(" ")

    def way(number: int) -> str:
        if how == "greetings":
            return f"{'Hello! ' * (number + 1)}{question(1)}"
        return " ".join(word + "," * (number >> place & 1) for place, word in enumerate(words))

    verdict = await space.compare(
        OLD, NEW, on=Dataset(tuple(Task(f"w{n}", {"text": way(n)}, "yes") for n in range(30)))
    )
    assert verdict.mode == "exploratory"
    with pytest.raises(ReleaseRefused, match="29 of 30 tasks nearly repeat others"):
        await space.release(NEW, to="production", because=verdict)


async def test_one_winner_in_many_other_words_is_warned_of() -> None:
    """No rule tells synonyms from tasks of one pattern, but whoever reads the verdict can."""
    space = await serve_old(world([], [1]))
    ways = [f"{may} the {kind} request numbered 1 of this client be {done} by us" for may in ("Should", "May", "Can")
            for kind in ("new", "old", "odd", "sad", "big") for done in ("granted", "allowed")]  # fmt: skip
    verdict = await space.compare(OLD, NEW, on=Dataset(tuple(Task(w, {"text": w}, "yes") for w in ways)))
    assert "tasks are nearly the same as another" in verdict.warning
    assert not any(space.experiments.verify().values())


# Held out


async def test_what_is_held_out_stays_closed_after_an_edit() -> None:
    space = await serve_old(world((), range(100)))
    space.datasets.add("mail", tasks(range(100)), because="new")
    space.datasets.hold_out("mail", share=0.4, seed=1)
    held = space.datasets.get("mail:held-out")
    for edit in EDITS.values():
        edited = Dataset(tuple(Task(f"x{t.id}", {"text": edit(t.inputs["text"])}, "yes") for t in held))
        with pytest.raises(DatasetError, match='40 that are held out in mail, or nearly: "x'):
            await space.evaluate(NEW, joined(tasks(range(200, 230)), edited))
        with pytest.raises(DatasetError, match="held out in mail, or nearly"):
            await space.evolve(NEW, edited, options=SearchOptions(budget="20 runs"))
        demos = [{"inputs": dict(task.inputs), "output": "yes"} for task in edited.tasks[:2]]
        with pytest.raises(DatasetError, match="demos: found 2 that are held out in mail, or nearly"):
            await space.evaluate(agent("new", demos={"answer": demos}), "mail")
    await space.evaluate(NEW, "mail")  # what was drawn from the same tasks is open


async def test_no_copy_of_what_is_held_out_is_left_in_the_rest() -> None:
    space = await serve_old(world((), range(100)))
    twice = joined(tasks(range(50)), tasks(range(50), EDITS["a comma"], prefix="again"))
    space.datasets.add("mail", twice, because="new")
    held = {task.split("t")[-1].split("n")[-1] for task in space.datasets.hold_out("mail", share=0.4, seed=1).ids}
    rest = {task.id.split("t")[-1].split("n")[-1] for task in space.datasets.get("mail")}
    assert held
    assert not held & rest
