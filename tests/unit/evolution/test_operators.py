from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import variation_samples as samples
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import PlaybookError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.protocols import Operator
from seedbed.evolution.variation.checks import problems
from seedbed.evolution.variation.demonstrations import GoodRuns
from seedbed.evolution.variation.operators import CrossGenes, CrossSentences, demonstrate, operators, reword
from seedbed.playbooks.changes import diff
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.dialogue.dialogue import text_of

BANK = ["Sort the message.", "Is it positive or negative?", "Read the message.", "Label it."]
TASKS = [Task(f"t{n}", {"text": f"message {n}"}, "positive" if n % 2 else "negative") for n in range(20)]


def sorter(**more: Any) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"sorter": {"model": "fast", "system": "Read the message.", "temperature": 0.5}},
            "steps": [{"name": "label", "role": "sorter", "prompt": "Message: {text}\nMood:"}],
            "rules": {"never": ["delete_message"]},
            **more,
        }
    )


def problem(wrong: pytest.ExceptionInfo[PlaybookError]) -> tuple[str, str, str]:
    (found,) = wrong.value.problems
    return found.path, found.found, found.expected


# Other words


def test_each_text_of_the_bank_gives_a_playbook_that_differs_in_nothing_else() -> None:
    start = sorter()
    variants = list(reword(start, "roles.sorter.system", BANK))
    assert [[(each.path, each.after) for each in diff(start, variant)] for variant in variants] == [
        [("roles.sorter.system", text)] for text in BANK if text != "Read the message."
    ]


def test_the_words_it_has_are_no_variant() -> None:
    assert list(reword(sorter(), "roles.sorter.system", ["Read the message."])) == []


@pytest.mark.parametrize("lock", ["roles.sorter.system", "roles.*", "*"])
def test_a_locked_text_is_never_reworded(lock: str) -> None:
    with pytest.raises(PlaybookError) as wrong:
        list(reword(sorter(locked=[lock]), "roles.sorter.system", BANK))
    path, _, _ = problem(wrong)
    assert path == "roles.sorter.system"


@pytest.mark.parametrize("path", ["roles.sorter.temperature", "roles.nobody.system", "rules.never", "demos.label"])
def test_what_is_no_text_gene_is_refused_with_those_that_are(path: str) -> None:
    with pytest.raises(PlaybookError) as wrong:
        list(reword(sorter(), path, BANK))
    assert problem(wrong) == (path, "no such gene", "a text gene: roles.sorter.system, steps.label.prompt")


def test_words_that_break_the_playbook_are_refused() -> None:
    with pytest.raises(PlaybookError):
        list(reword(sorter(inputs=["text"]), "steps.label.prompt", ["Message: {nothing_gives_this}"]))


# Worked examples


def drawn(playbook: Playbook) -> list[tuple[str, str]]:
    return [(demo.inputs["text"], demo.output) for demo in playbook.demos["label"]]


def test_worked_examples_are_tasks_with_their_answers() -> None:
    start = sorter()
    shown = demonstrate(start, "demos.label", TASKS, count=6, seed=1)
    known = {(task.inputs["text"], task.expected) for task in TASKS}
    assert len(set(drawn(shown))) == 6
    assert set(drawn(shown)) <= known
    assert [each.path for each in diff(start, shown)] == ["demos.label"]


def test_they_are_drawn_by_the_seed() -> None:
    one, same, other = (demonstrate(sorter(), "demos.label", TASKS, count=6, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_playbooks_with_other_words_get_other_examples_by_the_same_seed() -> None:
    variants = reword(sorter(), "roles.sorter.system", BANK)
    shown = [drawn(demonstrate(each, "demos.label", TASKS, count=4, seed=1)) for each in variants]
    assert len({tuple(each) for each in shown}) == len(shown)


def test_tasks_without_an_answer_demonstrate_nothing() -> None:
    tasks = [*TASKS[:3], *(Task(f"open{n}", {"text": "?"}) for n in range(50))]
    assert sorted(drawn(demonstrate(sorter(), "demos.label", tasks, count=3, seed=1))) == sorted(
        (task.inputs["text"], task.expected) for task in TASKS[:3]
    )
    with pytest.raises(PlaybookError) as wrong:
        demonstrate(sorter(), "demos.label", tasks, count=4, seed=1)
    assert problem(wrong) == ("demos.label", "3 tasks with an answer", "at least 4 to draw from")


def test_an_answer_that_says_false_or_zero_is_an_answer() -> None:
    tasks = [Task("no", {"text": "a"}, False), Task("zero", {"text": "b"}, 0), Task("empty", {"text": "c"}, "")]
    shown = demonstrate(sorter(), "demos.label", tasks, count=3, seed=1)
    assert sorted(drawn(shown)) == [("a", "false"), ("b", "0"), ("c", "")]


def test_an_example_says_values_as_the_task_itself_will() -> None:
    value = {"lines": ["ä", 1.0, None], "urgent": True}
    (demo,) = demonstrate(sorter(), "demos.label", [Task("one", {"text": value}, ["a", "b"])], count=1, seed=1).demos[
        "label"
    ]
    assert demo.inputs == {"text": text_of(value)} == {"text": '{"lines":["ä",1,null],"urgent":true}'}
    assert demo.output == '["a","b"]'


def test_held_out_tasks_are_in_no_example_drawn_from_the_others() -> None:
    train, test = Dataset(tuple(TASKS)).split(0.5, seed=1)
    shown = demonstrate(sorter(), "demos.label", train.tasks, count=len(train), seed=1)
    assert not {text for text, _ in drawn(shown)} & {task.inputs["text"] for task in test}


@pytest.mark.parametrize("lock", ["demos.label", "demos.*"])
def test_locked_examples_are_never_drawn_anew(lock: str) -> None:
    with pytest.raises(PlaybookError, match=r"demos\.label: found no such gene"):
        demonstrate(sorter(locked=[lock], demos={"label": []}), "demos.label", TASKS, count=2, seed=1)


def test_variants_keep_rules_locks_and_all_other_genes() -> None:
    start = sorter(locked=["steps.label.prompt"])
    for path, variants in {
        "roles.sorter.system": list(reword(start, "roles.sorter.system", BANK)),
        "demos.label": [demonstrate(start, "demos.label", TASKS, count=3, seed=1)],
    }.items():
        for variant in variants:
            assert (variant.rules, variant.locked) == (start.rules, start.locked)
            assert variant.steps == start.steps
            assert {name: gene for name, gene in genes(variant).items() if name != path} == {
                name: gene for name, gene in genes(start).items() if name != path
            }


# Operators


def named(start: Playbook, name: str, **given: Any) -> Operator:
    (found,) = [operator for operator in operators(start, **given) if operator.name == name]
    return found


async def children(
    operator: Operator, parent: Playbook, mates: Sequence[Playbook] = (), events: int = 100
) -> list[Playbook]:
    """What an operator makes of a parent at many events."""
    search = samples.search(parent)
    made = [await operator(parent, mates, search, f"event {event}") for event in range(events)]
    return [each for each in made if each]


async def values(operator: Operator, parent: Playbook, path: str, mates: Sequence[Playbook] = ()) -> set[Any]:
    made = await children(operator, parent, mates)
    assert {tuple(each.path for each in diff(parent, child)) for child in made} <= {(path,)}
    return {genes(child)[path].value for child in made}


@settings(deadline=None)
@given(st.integers(0, 2**32))
async def test_children_are_sound_and_leave_locks_rules_and_placeholders_alone(seed: int) -> None:
    rng = random.Random(seed)
    start = samples.random_start(rng)
    search = samples.search(start, seed=seed)
    given = {"instructions": samples.BANK, "tasks": samples.TASKS, "models": ["fast", "strong"]}
    ways = operators(start, **given)
    family = [start]
    for event in range(40):
        parent, mates = rng.choice(family), rng.choices(family, k=2)
        operator = rng.choice(ways)
        child = await operator(parent, mates, search, f"{event}")
        if child is None:
            continue
        assert problems(parent, child) == [], operator.name
        assert child != parent
        assert (child.rules.never, child.rules.prefer_confirm, child.locked) == (("pay",), ("send",), start.locked)
        assert child.threshold >= parent.threshold
        assert {each.path for each in diff(start, child)} <= genes(start).keys()
        assert child.needed_inputs == start.needed_inputs
        family.append(child)
    assert len(family) > 5 or len(genes(start)) < 5


async def test_the_same_event_makes_the_same_child_and_others_mostly_others() -> None:
    start = with_genes(
        samples.sorter(demos={"label": [samples.demo(n) for n in range(4)]}),
        {
            "roles.sorter.system": "Read the message. Name its mood. Be sure.",
            "steps.label.prompt": "Be exact. Be brief. Be fair.\nMessage: {text}\nMood:",
        },
    )
    mate = with_genes(
        start,
        {
            "roles.sorter.system": "Look at it. Say how it sounds. Mind the tone.",
            "steps.label.prompt": "Be quick. Be kind. Be warm.\nText: {text}\nMood:",
            "roles.sorter.temperature": 1,
            "demos.label": [],
        },
    )
    for operator in operators(
        start, instructions=samples.BANK, tasks=samples.TASKS, models=["fast", "a", "b", "c", "d"]
    ):
        once, again = [await children(operator, start, [mate], 20) for _ in range(2)]
        assert once == again
        if not operator.name.startswith(("turn a list", "change the cue of roles", "take from the bank steps")):
            assert len(set(once)) >= 3, operator.name


async def test_the_seed_of_a_search_makes_other_children() -> None:
    operator = named(sorter(), "nudge roles.sorter.temperature")
    one, other = [
        [await operator(sorter(), (), samples.search(sorter(), seed=seed), f"{n}") for n in range(5)] for seed in (1, 2)
    ]
    assert one != other


def test_operators_are_those_that_the_genes_have_a_use_for() -> None:
    def paths(start: Playbook, **given: Any) -> set[str]:
        return {each.name.split()[-1] for each in operators(start, **given)}

    assert paths(sorter()) == {"genes", "roles.sorter.system", "steps.label.prompt", "roles.sorter.temperature"}
    assert paths(sorter(), models=["fast", "strong"]) - paths(sorter()) == {"roles.sorter.model"}
    assert "roles.sorter.model" not in paths(sorter(), models=["fast"])
    assert "demos.label" in paths(sorter(), tasks=TASKS)
    assert "demos.label" in paths(sorter(), runs=GoodRuns("exact_match", []))
    assert paths(sorter(locked=["roles.*", "steps.*"])) == set()
    assert len({each.name for each in operators(sorter(), instructions=BANK, tasks=TASKS)}) == len(
        operators(sorter(), instructions=BANK, tasks=TASKS)
    )


def test_a_name_is_no_text_to_play_with() -> None:
    start = sorter(
        parameters={"tone": "warm", "style": "Mind the gap. Then go on.", "n": {"value": 1, "low": 1, "high": 1}}
    )
    found = {each.name.split()[-1] for each in operators(start)}
    assert "parameters.style" in found
    assert not {"parameters.tone", "parameters.n"} & found


def test_a_step_that_is_asked_the_task_itself_gets_no_prompt_that_hides_it() -> None:
    first = {"name": "first", "role": "sorter", "prompt": "{text}"}
    start = sorter(steps=[first, {"name": "label", "role": "sorter", "sees": ["first"]}])
    found = {each.name.split()[-1] for each in operators(start)}
    assert "steps.first.prompt" in found
    assert "steps.label.prompt" not in found


async def test_an_operator_has_nothing_to_do_where_its_gene_is_locked_or_gone() -> None:
    for operator in operators(sorter(), instructions=BANK, tasks=TASKS, models=["fast", "strong"]):
        other = Playbook.from_document({"roles": {"poet": {"system": "Rhyme. Be kind."}}, "locked": ["*"]})
        assert await children(operator, other, [sorter()], 5) == []
        assert await children(operator, sorter(locked=["*"]), [sorter()], 5) == []


async def test_sentences_come_from_the_bank_one_by_one_and_texts_whole() -> None:
    path, start = "roles.sorter.system", sorter(demos={})
    bank = ["Look closely. Then decide.", "Sort {nothing}."]
    assert await values(named(start, f"replace a sentence of {path}", instructions=bank), start, path) == {
        "Look closely.",
        "Then decide.",
    }
    assert await values(named(start, f"take from the bank {path}", instructions=bank), start, path) == {
        "Look closely. Then decide."
    }


async def test_a_whole_text_from_the_bank_must_tell_the_task() -> None:
    path = "steps.label.prompt"
    operator = named(sorter(), f"take from the bank {path}", instructions=["Label it.", "Label this: {text}"])
    assert await values(operator, sorter(), path) == {"Label this: {text}"}


async def test_without_a_bank_there_are_instructions_for_all() -> None:
    path = "roles.sorter.system"
    added = await values(named(sorter(), f"add a sentence to {path}"), sorter(), path)
    assert len(added) > 5
    assert not [each for each in operators(sorter()) if each.name.startswith("take from")]


@pytest.mark.parametrize(
    ("parameter", "low", "high"),
    [
        ({"value": 0.5, "low": 0, "high": 1}, 0, 1),
        ({"value": 0, "low": 0, "high": 1000}, 0, 1000),
        ({"value": 7, "low": 7, "high": 7.001}, 7, 7.001),
        ({"value": 3, "low": 1, "high": 4, "whole": True}, 1, 4),
        ({"value": 4, "low": 1, "high": 4, "whole": True}, 1, 4),
        ({"value": 1, "low": 1, "high": 2, "whole": True}, 1, 2),
        ({"value": 0, "whole": True}, -99, 99),
        ({"value": -20}, -99, 99),
    ],
)
async def test_numbers_take_steps_within_their_bounds(parameter: dict[str, Any], low: float, high: float) -> None:
    start = sorter(parameters={"x": parameter})
    operator = named(start, "nudge parameters.x")
    assert len(await children(operator, start)) == 100  # also from a bound
    found = await values(operator, start, "parameters.x")
    assert all(low <= value <= high for value in found)
    assert parameter["value"] not in found
    assert len(found) > 10 or parameter.get("whole")
    if parameter.get("whole"):
        assert all(value == int(value) for value in found)


async def test_steps_are_as_wide_as_the_range_asks_for() -> None:
    spread = []
    for scale in (1, 100):
        start = sorter(parameters={"x": {"value": 0.5 * scale, "low": 0, "high": scale}})
        found = [child.parameter("x") for child in await children(named(start, "nudge parameters.x"), start)]
        spread.append(sum(abs(float(value) - 0.5 * scale) for value in found) / len(found) / scale)
    assert spread == pytest.approx([0.16, 0.16], abs=0.03)


async def test_choices_are_all_the_others() -> None:
    start = sorter(parameters={"tone": {"value": "dry", "options": ["dry", "warm", "kind"]}, "loud": True})
    ways = {"models": ["fast", "strong", "third"]}
    for path, others in {
        "parameters.tone": {"warm", "kind"},
        "parameters.loud": {False},
        "roles.sorter.model": {"strong", "third"},
    }.items():
        assert await values(named(start, f"choose another {path}", **ways), start, path) == others


# Mixtures


async def test_crossing_takes_each_gene_from_one_of_two_and_never_all() -> None:
    start = sorter()
    changes = {
        "roles.sorter.system": "Sort it.",
        "roles.sorter.temperature": 1,
        "steps.label.prompt": "{text}?",
        "roles.sorter.model": "strong",
    }
    mate = with_genes(start, changes)
    taken = [
        frozenset(each.path for each in diff(start, child)) for child in await children(CrossGenes(), start, [mate])
    ]
    assert {*taken} == {frozenset(some) for some in _some_of(list(changes))}
    for path in changes:
        assert 0.3 < sum(path in each for each in taken) / len(taken) < 0.7


def _some_of(paths: list[str]) -> list[set[str]]:
    """Every choice of them but none and all."""
    numbers = range(1, 2 ** len(paths) - 1)
    return [{path for place, path in enumerate(paths) if number >> place & 1} for number in numbers]


async def test_crossing_with_itself_with_nobody_or_with_one_that_differs_in_one_gene_makes_nothing_new() -> None:
    start = sorter()
    for mates in ([], [start], [with_genes(start, {"roles.sorter.system": "Sort it."})]):
        assert await children(CrossGenes(), start, mates, 10) == []
        assert await children(CrossSentences("roles.sorter.temperature"), start, mates, 10) == []


async def test_crossing_keeps_a_prompt_and_its_demos_together() -> None:
    start = sorter(inputs=["text", "topic"])
    shown = [{"inputs": {"text": "a", "topic": "b"}, "output": "c"}]
    mate = with_genes(
        start, {"steps.label.prompt": "{topic}: {text}", "demos.label": shown, "roles.sorter.system": "Go."}
    )
    bare = with_genes(start, {"demos.label": [samples.demo(1)]})
    for child in await children(CrossGenes(), bare, [mate]):
        assert problems(bare, child) == []


async def test_sentences_of_both_parents_are_mixed() -> None:
    path = "roles.sorter.system"
    one, other = (with_genes(sorter(), {path: text}) for text in ("A one. B one.", "A two. B two."))
    assert await values(CrossSentences(path), one, path, [other]) == {"A one. B two.", "A two. B one."}
