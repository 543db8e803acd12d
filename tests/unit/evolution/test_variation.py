from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import PlaybookError
from seedbed.evaluation.dataset import Dataset, Task
from seedbed.evolution.variation import demonstrated, reworded
from seedbed.playbooks.changes import diff
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.dialogue import told

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
    variants = list(reworded(start, "roles.sorter.system", BANK))
    assert [[(each.path, each.after) for each in diff(start, variant)] for variant in variants] == [
        [("roles.sorter.system", text)] for text in BANK if text != "Read the message."
    ]


def test_the_words_it_has_are_no_variant() -> None:
    assert list(reworded(sorter(), "roles.sorter.system", ["Read the message."])) == []


@pytest.mark.parametrize("lock", ["roles.sorter.system", "roles.*", "*"])
def test_a_locked_text_is_never_reworded(lock: str) -> None:
    with pytest.raises(PlaybookError) as wrong:
        list(reworded(sorter(locked=[lock]), "roles.sorter.system", BANK))
    path, _, _ = problem(wrong)
    assert path == "roles.sorter.system"


@pytest.mark.parametrize("path", ["roles.sorter.temperature", "roles.nobody.system", "rules.never", "demos.label"])
def test_what_is_no_text_gene_is_refused_with_those_that_are(path: str) -> None:
    with pytest.raises(PlaybookError) as wrong:
        list(reworded(sorter(), path, BANK))
    assert problem(wrong) == (path, "no such gene", "a text gene: roles.sorter.system, steps.label.prompt")


def test_words_that_break_the_playbook_are_refused() -> None:
    with pytest.raises(PlaybookError):
        list(reworded(sorter(inputs=["text"]), "steps.label.prompt", ["Message: {nothing_gives_this}"]))


# Worked examples


def drawn(playbook: Playbook) -> list[tuple[str, str]]:
    return [(demo.inputs["text"], demo.output) for demo in playbook.demos["label"]]


def test_worked_examples_are_tasks_with_their_answers() -> None:
    start = sorter()
    shown = demonstrated(start, "demos.label", TASKS, count=6, seed=1)
    known = {(task.inputs["text"], task.expected) for task in TASKS}
    assert len(set(drawn(shown))) == 6
    assert set(drawn(shown)) <= known
    assert [each.path for each in diff(start, shown)] == ["demos.label"]


def test_they_are_drawn_by_the_seed() -> None:
    one, same, other = (demonstrated(sorter(), "demos.label", TASKS, count=6, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_playbooks_with_other_words_get_other_examples_by_the_same_seed() -> None:
    variants = reworded(sorter(), "roles.sorter.system", BANK)
    shown = [drawn(demonstrated(each, "demos.label", TASKS, count=4, seed=1)) for each in variants]
    assert len({tuple(each) for each in shown}) == len(shown)


def test_tasks_without_an_answer_demonstrate_nothing() -> None:
    tasks = [*TASKS[:3], *(Task(f"open{n}", {"text": "?"}) for n in range(50))]
    assert sorted(drawn(demonstrated(sorter(), "demos.label", tasks, count=3, seed=1))) == sorted(
        (task.inputs["text"], task.expected) for task in TASKS[:3]
    )
    with pytest.raises(PlaybookError) as wrong:
        demonstrated(sorter(), "demos.label", tasks, count=4, seed=1)
    assert problem(wrong) == ("demos.label", "3 tasks with an answer", "at least 4 to draw from")


def test_an_answer_that_says_false_or_zero_is_an_answer() -> None:
    tasks = [Task("no", {"text": "a"}, False), Task("zero", {"text": "b"}, 0), Task("empty", {"text": "c"}, "")]
    shown = demonstrated(sorter(), "demos.label", tasks, count=3, seed=1)
    assert sorted(drawn(shown)) == [("a", "false"), ("b", "0"), ("c", "")]


def test_an_example_says_values_as_the_task_itself_will() -> None:
    value = {"lines": ["ä", 1.0, None], "urgent": True}
    (demo,) = demonstrated(sorter(), "demos.label", [Task("one", {"text": value}, ["a", "b"])], count=1, seed=1).demos[
        "label"
    ]
    assert demo.inputs == {"text": told(value)} == {"text": '{"lines":["ä",1,null],"urgent":true}'}
    assert demo.output == '["a","b"]'


def test_held_out_tasks_are_in_no_example_drawn_from_the_others() -> None:
    train, test = Dataset(tuple(TASKS)).split(0.5, seed=1)
    shown = demonstrated(sorter(), "demos.label", train.tasks, count=len(train), seed=1)
    assert not {text for text, _ in drawn(shown)} & {task.inputs["text"] for task in test}


@pytest.mark.parametrize("lock", ["demos.label", "demos.*"])
def test_locked_examples_are_never_drawn_anew(lock: str) -> None:
    with pytest.raises(PlaybookError, match=r"demos\.label: found no such gene"):
        demonstrated(sorter(locked=[lock], demos={"label": []}), "demos.label", TASKS, count=2, seed=1)


def test_variants_keep_rules_locks_and_all_other_genes() -> None:
    start = sorter(locked=["steps.label.prompt"])
    for path, variants in {
        "roles.sorter.system": list(reworded(start, "roles.sorter.system", BANK)),
        "demos.label": [demonstrated(start, "demos.label", TASKS, count=3, seed=1)],
    }.items():
        for variant in variants:
            assert (variant.rules, variant.locked) == (start.rules, start.locked)
            assert variant.steps == start.steps
            assert {name: gene for name, gene in genes(variant).items() if name != path} == {
                name: gene for name, gene in genes(start).items() if name != path
            }
