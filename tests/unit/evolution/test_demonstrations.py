from __future__ import annotations

from typing import Any

import pytest
from variation_samples import TASKS, demo, search, sorter

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.protocols import Operator, Search
from seedbed.evolution.variation.checks import LIMITS
from seedbed.evolution.variation.demonstrations import MOST, GoodRuns, demo_from_run, demo_operators
from seedbed.playbooks.genes import get
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

PATH = "demos.label"
LABELLED = {(task.inputs["text"], task.expected) for task in TASKS}
SHOWN = sorter(demos={"label": [demo(n) for n in range(4)]})


def named(start: Playbook, beginning: str, path: str = PATH, **given: Any) -> Operator:
    ways = demo_operators(start, path, given.get("tasks", TASKS), given.get("runs"))
    (found,) = [operator for operator in ways if operator.name.startswith(beginning)]
    return found


async def demos(
    operator: Operator, parent: Playbook, given: Search | None = None, path: str = PATH
) -> list[list[tuple[str, str]]]:
    """What is shown by children at many events: the text and the answer of each demo."""
    made = [await operator(parent, (), given or search(parent), f"event {n}") for n in range(60)]
    return [[(each["inputs"]["text"], each["output"]) for each in get(child, path)] for child in made if child]


NOW = [(f"shown {n}", f"answer {n}") for n in range(4)]


# Labelled examples


async def test_one_labelled_example_is_added_at_any_place() -> None:
    found = await demos(named(SHOWN, "add"), SHOWN)
    places = set()
    for shown in found:
        (new,) = set(shown) & LABELLED
        places.add(shown.index(new))
        assert [each for each in shown if each != new] == NOW
    assert places == {0, 1, 2, 3, 4}
    assert len({tuple(each) for each in found}) > 20


async def test_one_is_replaced_and_the_others_stay() -> None:
    for shown in await demos(named(SHOWN, "put"), SHOWN):
        assert len(shown) == 4
        assert sum(mine == yours for mine, yours in zip(shown, NOW, strict=True)) == 3
        assert len(set(shown) & LABELLED) == 1


async def test_all_are_drawn_anew_some_more_or_less() -> None:
    found = await demos(named(SHOWN, "draw"), SHOWN)
    assert {len(shown) for shown in found} == {3, 4, 5, 6, 7}
    for shown in found:
        assert set(shown) <= LABELLED
        assert len(set(shown)) == len(shown)


async def test_examples_are_only_of_tasks_that_may_be_read() -> None:
    readable = search(SHOWN, reflect=TASKS[:3])
    known = {(task.inputs["text"], task.expected) for task in TASKS[:3]}
    for way in ("add", "put", "draw"):
        for shown in await demos(named(SHOWN, way), SHOWN, readable):
            assert set(shown) <= {*NOW, *known}


async def test_no_example_is_shown_twice_and_there_are_never_too_many() -> None:
    start = sorter()
    operator, given = named(start, "add"), search(start)
    for event in range(30):
        start = await operator(start, (), given, f"{event}") or start
    assert len(get(start, PATH)) == MOST <= LIMITS.demos
    assert len({each["inputs"]["text"] for each in get(start, PATH)}) == MOST
    few = search(sorter(), reflect=TASKS[:2])
    start = sorter()
    for event in range(10):
        start = await operator(start, (), few, f"{event}") or start
    assert len(get(start, PATH)) == 2


async def test_tasks_without_an_answer_or_without_what_the_prompt_needs_are_no_examples() -> None:
    tasks = [Task("open", {"text": "a"}), Task("other", {"words": "b"}, "yes"), Task("fits", {"text": "c"}, False)]
    found = await demos(named(sorter(), "add", tasks=tasks), sorter(), search(sorter(), reflect=tasks))
    assert found
    assert all(shown == [("c", "false")] for shown in found)
    assert demo_operators(sorter(), PATH, tasks[:2]) == []


def test_only_the_step_that_answers_is_shown_expected_answers() -> None:
    start = sorter(
        steps=[
            {"name": "label", "role": "sorter", "prompt": "Read {text}"},
            {"name": "final", "role": "sorter", "prompt": "Sum up {text}"},
            {"name": "talk", "role": "sorter", "prompt": "{text} {final}"},
        ]
    )
    assert demo_operators(start, "demos.label", TASKS) == []
    assert demo_operators(start, "demos.talk", TASKS) == []  # nobody knows what the other steps would have said
    last = start.model_copy(update={"steps": start.steps[:2]})
    assert demo_operators(last, "demos.final", TASKS)


# Order and number


async def test_demos_are_dropped_swapped_and_reordered() -> None:
    dropped = await demos(named(SHOWN, "drop"), SHOWN)
    assert {tuple(each) for each in dropped} == {tuple(x for x in NOW if x != gone) for gone in NOW}
    swapped = await demos(named(SHOWN, "swap"), SHOWN)
    assert len({tuple(each) for each in swapped}) == 6
    assert all(sum(a != b for a, b in zip(each, NOW, strict=True)) == 2 for each in swapped)
    reordered = await demos(named(SHOWN, "reorder"), SHOWN)
    assert all(sorted(each) == NOW and each != NOW for each in reordered)
    assert len({tuple(each) for each in reordered}) > 10


async def test_where_there_is_none_nothing_is_dropped_swapped_or_replaced() -> None:
    for way in ("drop", "swap", "reorder", "put"):
        assert await demos(named(sorter(), way), sorter()) == []


async def test_locked_demos_stay() -> None:
    for way in ("add", "drop", "draw"):
        locked = sorter(locked=["demos.*"], demos={"label": [demo(1)]})
        assert await demos(named(sorter(), way), locked) == []


# Good runs


def cell(task: str, value: float | None, run: str = "", metric: str = "exact_match") -> Cell:
    return Cell(key=f"{task}{run}", playbook="b2:0", task=task, replicate=0, metric=metric, value=value, run=run)


def good(*cells: Cell, lower_is_better: bool = False) -> list[str]:
    runs = GoodRuns("exact_match", [task.id for task in TASKS], lower_is_better)
    runs.tell(cells[:1])
    runs.tell(cells[1:])
    return list(runs)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0, 1, 0], ["r0", "r2"]),
        ([1, 0, 0, 0, 0, 0, 0, 0], ["r0"]),
        ([1, 1, 1, 0], ["r0", "r1", "r2"]),
        ([0.2, 0.4, 0.6, 0.9, 0.8], ["r3", "r4"]),
        ([0, 0, 0], []),
        ([None, None], []),
        ([], []),
    ],
)
def test_good_runs_are_better_than_the_others(values: list[float | None], expected: list[str]) -> None:
    cells = [cell(f"t{n}", value, f"r{n}") for n, value in enumerate(values)]
    assert (good(*cells) if cells else list(GoodRuns("exact_match", []))) == expected


def test_good_runs_are_one_for_each_task_and_of_tasks_that_may_be_read() -> None:
    cells = [
        cell("t1", 0, "poor"),
        cell("t1", 1, "first"),
        cell("t1", 1, "second"),
        cell("secret", 1, "of a task for selection"),
        cell("t2", 1, "by another metric", "f1"),
        cell("t3", 0, "poor too"),
    ]
    assert good(*cells) == ["first"]


def test_where_lower_is_better_the_lowest_are_good() -> None:
    assert good(*(cell(f"t{n}", value, f"r{n}") for n, value in enumerate([5, 1, 9])), lower_is_better=True) == ["r1"]


TWO_STEPS = sorter(
    steps=[
        {"name": "words", "role": "sorter", "prompt": "List the words of {text}"},
        {"name": "label", "role": "sorter", "prompt": "Words: {words}\nText: {text}\nMood:"},
    ]
)


def said(max_tokens: int | None = None) -> Workspace:
    replies = {"List": "good, day", "message 3": "positive, as it says good", ".": "negative"}
    fast = {"use": "scripted", "args": {"replies": replies, "max_tokens": max_tokens}}
    return Workspace(Settings(by="ada", models={"fast": fast}), MemoryStore())


async def test_a_good_run_is_shown_with_what_the_step_was_told_and_what_it_said() -> None:
    run = await said().run(TWO_STEPS, text="message 3")
    words, label = TWO_STEPS.all_steps()
    assert demo_from_run(words, run) == {"inputs": {"text": "message 3"}, "output": "good, day"}
    assert demo_from_run(label, run) == {
        "inputs": {"text": "message 3", "words": "good, day"},
        "output": "positive, as it says good",
    }


async def test_an_answer_that_was_cut_off_is_not_shown() -> None:
    run = await said(max_tokens=2).run(TWO_STEPS, text="message 3")
    words, label = TWO_STEPS.all_steps()
    assert demo_from_run(words, run) is not None
    assert demo_from_run(label, run) is None


async def test_the_agents_own_good_runs_become_demos_that_can_be_performed() -> None:
    space = said()
    known: dict[str, Run] = {}
    runs = GoodRuns("exact_match", [task.id for task in TASKS])
    for n in range(2, 5):
        run = await space.run(TWO_STEPS, text=f"message {n}")
        known[run.id] = run
        runs.tell([cell(f"t{n}", float(n == 3), run.id)])
    given = search(TWO_STEPS, transcript=known.get)
    child = await named(TWO_STEPS, "add a good run", runs=runs)(TWO_STEPS, (), given, "event")
    assert child is not None
    assert [dict(each.inputs) for each in child.demos["label"]] == [{"text": "message 3", "words": "good, day"}]
    answer = await space.run(child, text="message 9")
    assert ("assistant", "positive, as it says good") in answer.turns[-1].messages


async def test_without_good_runs_or_transcripts_there_is_nothing_to_show() -> None:
    runs = GoodRuns("exact_match", ["t1", "t2"])
    operator = named(sorter(), "add a good run", runs=runs)
    assert await demos(operator, sorter()) == []
    runs.tell([cell("t1", 1, "gone"), cell("t2", 0, "poor")])
    assert await demos(operator, sorter()) == []


async def test_a_good_run_that_the_prompt_of_now_cannot_show_is_passed_over() -> None:
    start = sorter(inputs=["text"])
    asks_more = sorter(steps=[{"name": "label", "role": "sorter", "prompt": "{topic}: {text}"}])
    bare, full = await said().run(start, text="message 3"), await said().run(asks_more, text="message 4", topic="war")
    runs = GoodRuns("exact_match", ["t3", "t4", "t5"])
    runs.tell([cell("t3", 1, bare.id), cell("t4", 1, full.id), cell("t5", 0)])
    operator = named(start, "add a good run", runs=runs)
    given = search(start, transcript={bare.id: bare, full.id: full}.get)
    shown = await demos(operator, asks_more, given)
    assert len(shown) == 60
    assert {text for each in shown for text, _ in each} == {"message 4"}
