"""Tasks that a candidate was shown, asked again in other words, as if they were new."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world import NEW, OLD, agent, joined, serve_old, tasks, world

from seedbed import Dataset, Task
from seedbed.errors import DatasetError

REWORDED: dict[str, Callable[[str], str]] = {
    "as it was": str,
    "another case": str.upper,
    "a trailing blank": lambda text: f"{text} ",
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "a character without width": lambda text: text.replace("request", "requ\u200best"),
    "a soft hyphen": lambda text: text.replace("customer", "cus\u00adtomer"),
    "full width": lambda text: text.replace("granted", "ｇｒａｎｔｅｄ"),
    "letters of another script": lambda text: text.replace("customer", "сustоmer"),
    "codes of HTML": lambda text: text.replace(" ", "&nbsp;").replace("e", "&#101;"),
    "codes of URLs": lambda text: text.replace(" ", "%20"),
    "quotes": lambda text: f"“{text}”",
    "no question mark": lambda text: text.rstrip("?"),
    "an order of marks and blanks": lambda text: f"\t{text}  !\n",
    "a typo": lambda text: text.replace("customer", "custommer"),
    "a synonym": lambda text: text.replace("Should", "May"),
    "other ends": lambda text: text.replace("be granted", "be granted now"),
}


@pytest.mark.parametrize("how", REWORDED)
async def test_what_a_candidate_is_shown_is_seen_however_it_is_worded(how: str) -> None:
    demos = [{"inputs": dict(task.inputs), "output": "yes"} for task in tasks(range(4))]
    shown = agent("new", demos={"answer": demos})
    space = await serve_old(world(range(100), range(100)))
    with pytest.raises(DatasetError, match="4 of 54 that the candidate was evolved on or is shown"):
        await space.compare(OLD, shown, on=joined(tasks(range(4), REWORDED[how]), tasks(range(50, 100))))


@pytest.mark.parametrize("how", ["as it was", "another case", "a trailing blank", "full width"])
async def test_nor_may_a_prompt_hold_test_tasks(how: str) -> None:
    listed = "\n".join(f"If the text is {REWORDED[how](task.inputs['text'])}, say yes." for task in tasks(range(4)))
    knows = agent("new", roles={"clerk": {"model": "new", "system": f"Help.\n{listed}"}})
    space = await serve_old(world(range(100), range(100)))
    with pytest.raises(DatasetError, match="4 of 50 that the candidate was evolved on or is shown"):
        await space.compare(OLD, knows, on=tasks(range(50)))


async def test_an_input_that_nobody_reads_makes_no_new_task() -> None:
    demos = [{"inputs": dict(task.inputs), "output": "yes"} for task in tasks(range(4))]
    shown = agent("new", demos={"answer": demos})
    space = await serve_old(world(range(40), range(40)))
    noted = Dataset(tuple(Task(f"n{n}", {**task.inputs, "note": n}, "yes") for n, task in enumerate(tasks(range(40)))))
    with pytest.raises(DatasetError, match="4 of 40"):
        await space.compare(OLD, shown, on=noted)


async def test_what_is_new_is_new() -> None:
    demos = [{"inputs": dict(task.inputs), "output": "yes"} for task in tasks(range(4))]
    space = await serve_old(world((), range(60)))
    verdict = await space.compare(OLD, agent("new", demos={"answer": demos}), on=tasks(range(4, 60)))
    assert verdict.finding == "superior"


WINS, LOSSES = range(35), range(35, 69)


@pytest.mark.parametrize("copy", ["a blank", "a source of its own", "a field that is not read"])
async def test_winners_that_are_entered_twice_count_once(copy: str) -> None:
    space = await serve_old(world([*LOSSES], [*WINS]))
    twice = [
        Task(
            f"again{task.id}",
            {"text": f"{task.inputs['text']} ", **({"note": "copy"} if "field" in copy else {})},
            "yes",
            source=f"copy of {task.id}" if "source" in copy else "",
        )
        for task in tasks(WINS)
    ]
    verdict = await space.compare(OLD, NEW, on=joined(tasks(range(69)), Dataset(tuple(twice))))
    assert (verdict.at_most, verdict.finding) == (69, "inconclusive")
