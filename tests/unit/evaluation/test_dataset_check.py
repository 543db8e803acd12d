from __future__ import annotations

from seedbed import Dataset, Task
from seedbed.evaluation.datasets.check import RepeatedField, SplitLeak, check_dataset

STORY = "It was a dark and stormy night, and the rain fell in torrents on the roofs of the town."


def test_everything_that_is_wrong_is_listed() -> None:
    tasks = Dataset(
        (
            Task("a", {"text": "Is the train to the coast late again today?"}, "yes"),
            Task("b", {"text": "is the train to the coast LATE again today"}, "yes"),
            Task("c", {"text": "Is the train to the coast late agian today?"}, "yes"),
            Task("d", {"text": "Who painted the ceiling of the old chapel?"}),
        ),
        {"train": ("a", "d"), "test": ("b", "c")},
    )
    found = check_dataset(tasks)
    assert (found.tasks, found.units, found.duplicates, found.unanswered) == (4, 3, (("a", "b"),), ("d",))
    assert {(each.task, each.other) for each in found.near} <= {("a", "c"), ("b", "c")}
    assert SplitLeak("train", "a", "test", "b") in found.leaks
    assert found.document()["leaks"][0] == {"split": "train", "task": "a", "other_split": "test", "other": "b"}


def test_a_field_that_many_tasks_share_may_be_their_source() -> None:
    tasks = tuple(
        Task(f"{n}", {"story": f"{STORY} {n // 5}", "question": f"What is item {n}?"}, "x") for n in range(20)
    )
    assert check_dataset(Dataset(tasks)).fields == (RepeatedField("story", 4, 20),)
    known = tuple(Task(task.id, task.inputs, "x", source=str(n // 5)) for n, task in enumerate(tasks))
    assert check_dataset(Dataset(known)).fields == ()


def test_a_sound_dataset_has_nothing() -> None:
    words = ("apples", "bridges", "candles", "drums")
    found = check_dataset(Dataset(tuple(Task(word, {"text": f"Tell me about {word}."}) for word in words)))
    assert (found.units, found.duplicates, found.fields, found.leaks, found.unanswered) == (4, (), (), (), ())
