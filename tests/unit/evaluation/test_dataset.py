from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import DatasetError
from seedbed.evaluation.datasets.dataset import Dataset, StratifyBy, Task
from seedbed.storage.store import digest


def load(folder: Path, text: str | bytes) -> Dataset:
    path = folder / "tasks.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Dataset.load(path)


def wrong(folder: Path, text: str | bytes) -> dict[str, str]:
    with pytest.raises(DatasetError) as caught:
        load(folder, text)
    assert caught.value.source.endswith("tasks.jsonl")
    return {problem.path: str(problem) for problem in caught.value.problems}


def dataset(size: int) -> Dataset:
    return Dataset(tuple(Task(f"t{number}", {"n": number}, number) for number in range(size)))


# Reading


def test_lines_become_tasks_in_their_order(tmp_path: Path) -> None:
    text = '{"id": "b", "inputs": {"q": "1+1"}, "expected": "2"}\n\n  \n{"inputs": {"q": [1, {"x": null}]}}'
    first, second = load(tmp_path, text)
    assert first == Task("b", {"q": "1+1"}, "2")
    assert second.inputs == {"q": [1, {"x": None}]}
    assert second.expected is None


@pytest.mark.parametrize(
    "text", [b'\xef\xbb\xbf{"inputs": {"q": "x"}}\n', b'{"inputs": {"q": "x"}}\r\n', b'{"inputs": {"q": "x"}}']
)
def test_a_byte_order_mark_and_line_ends_of_any_system_make_no_difference(tmp_path: Path, text: bytes) -> None:
    assert load(tmp_path, text).digest == load(tmp_path, '{"inputs": {"q": "x"}}').digest


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_characters_that_merely_look_like_line_ends_stay_in_the_text(tmp_path: Path, separator: str) -> None:
    text = json.dumps({"inputs": {"q": f"one{separator}two"}}, ensure_ascii=False)
    assert [task.inputs["q"] for task in load(tmp_path, text)] == [f"one{separator}two"]


def test_a_task_without_an_id_is_named_by_its_content_wherever_its_line_is(tmp_path: Path) -> None:
    one, two = '{"inputs": {"a": 1, "b": 2}, "expected": 3}', '{"inputs": {"a": 2}}'
    before = {task.id for task in load(tmp_path, f"{one}\n{two}")}
    moved = '{"expected": 3, "inputs": {"b": 2, "a": 1}}'
    assert {task.id for task in load(tmp_path, f"{two}\n\n{moved}")} == before
    assert len(before) == 2


def test_every_bad_line_is_told_at_once(tmp_path: Path) -> None:
    lines = [
        '{"inputs": {"q": 1}}',
        '{"inputs": ',
        "[1]",
        '{"inputs": {}, "answer": 1}',
        "",
        '{"id": 7, "inputs": {"q": 1}}',
        '{"inputs": {"q": NaN}}',
        '{"inputs": {"q": 1, "q": 2}}',
        '{"id": "x", "inputs": {"q": "\\ud800"}}',
        '{"inputs": {"q": ' + "[" * 100_000,
        '{"id": null, "inputs": "text"}',
        "5",
    ]
    told = wrong(tmp_path, "\n".join(lines))
    assert list(told) == [
        "line 2, column 12",
        "line 3.task",
        "line 4.answer",
        "line 4.inputs",
        "line 6.id",
        "line 7.number",
        "line 8.q",
        "line 9.inputs.q",
        "line 10.text",
        "line 11.inputs",
        "line 11.id",
        "line 12.task",
    ]


def test_ids_that_are_taken_are_told_by_line(tmp_path: Path) -> None:
    task = '{"id": "a", "inputs": {"q": 1}}'
    told = wrong(tmp_path, f'{task}\n\n{{"id": "b", "inputs": {{"q": 1}}}}\n{task}\nnonsense\n{task}')
    assert 'found "a", as on line 1' in told["line 4.id"]
    assert 'found "a", as on line 1' in told["line 6.id"]
    assert "line 5, column 1" in told


def test_the_same_task_twice_is_told_even_without_ids(tmp_path: Path) -> None:
    told = wrong(tmp_path, '{"inputs": {"a": 1, "b": 2}}\n{"inputs": {"b": 2, "a": 1}}')
    assert list(told) == ["line 2.id"]


def test_tasks_made_in_python_cannot_share_an_id_either() -> None:
    with pytest.raises(DatasetError, match='task "a": found the same id twice'):
        Dataset((Task("a", {"q": 1}), Task("b", {"q": 2}), Task("a", {"q": 3})))


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_a_file_without_tasks_is_refused(tmp_path: Path, text: str) -> None:
    assert "no tasks" in wrong(tmp_path, text)["file"]


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path: Path) -> None:
    assert "line 1, byte 19" in wrong(tmp_path, b'{"inputs": {"q": "\xff"}}')
    with pytest.raises(DatasetError, match=r"absent\.jsonl"):
        Dataset.load(tmp_path / "absent.jsonl")
    with pytest.raises(DatasetError, match="directory"):
        Dataset.load(tmp_path)


# Digests


def test_a_dataset_is_named_by_its_tasks_and_their_order() -> None:
    tasks = dataset(3).tasks
    assert Dataset(tasks).digest == dataset(3).digest
    assert Dataset(tasks[::-1]).digest != dataset(3).digest
    assert Dataset(tasks[:2]).digest != dataset(3).digest


@pytest.mark.parametrize(
    "other", [Task("x", {"q": 1}, 2), Task("a", {"q": 2}, 2), Task("a", {"q": 1}, 3), Task("a", {"Q": 1}, 2)]
)
def test_a_task_is_another_if_anything_in_it_is(other: Task) -> None:
    assert other.digest != Task("a", {"q": 1}, 2).digest


def test_the_order_of_inputs_makes_no_difference() -> None:
    assert Task("a", {"p": 1, "q": {"x": 1, "y": 2}}).digest == Task("a", {"q": {"y": 2, "x": 1}, "p": 1}).digest


def test_a_dataset_comes_back_equal_from_its_content() -> None:
    tasks = Dataset((Task("a", {"q": [1, "ü"]}, {"x": None}), Task("b", {"q": ""})))
    again = Dataset.from_content(json.loads(json.dumps(tasks.content())))
    assert again == tasks
    assert again.digest == tasks.digest


# Splits


@pytest.mark.parametrize("size", [1, 2, 5, 12, 100])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.7, 0.99])
def test_a_split_is_complete_and_has_no_task_twice(size: int, share: float) -> None:
    tasks = dataset(size)
    first, second = tasks.split(share, seed=3)
    assert len(first) == round(share * size)
    assert not {*map(id, first)} & {*map(id, second)}
    position = {task.id: place for place, task in enumerate(tasks)}
    for part in (first, second):
        assert [position[task.id] for task in part] == sorted(position[task.id] for task in part)
    assert sorted([*first, *second], key=lambda task: position[task.id]) == list(tasks)


def test_a_split_depends_on_its_seed_and_on_nothing_else() -> None:
    random.seed(1)
    before = dataset(40).split(0.5, seed=1)
    random.seed(2)
    state = random.getstate()
    assert dataset(40).split(0.5, seed=1) == before
    assert random.getstate() == state
    assert dataset(40).split(0.5, seed=2) != before


def test_a_split_is_the_same_in_another_process() -> None:
    script = (
        "from seedbed.evaluation.datasets.dataset import Dataset, Task\n"
        "tasks = Dataset(tuple(Task(f't{n}', {'n': n}, n) for n in range(40)))\n"
        "print(tasks.split(0.5, seed=1)[0].digest)"
    )
    environ = {"PYTHONHASHSEED": "12345"}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ)
    assert told.stdout.strip() == dataset(40).split(0.5, seed=1)[0].digest


def test_splits_do_not_favour_the_beginning_of_a_file() -> None:
    chosen = [task.inputs["n"] for seed in range(200) for task in dataset(10).split(0.5, seed=seed)[0]]
    counts = [chosen.count(number) for number in range(10)]
    # Each is chosen 100 times of 200 on average, with a standard deviation of 7.
    assert all(65 <= count <= 135 for count in counts), counts


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, float("nan")])
def test_a_share_that_leaves_nothing_to_split_is_refused(share: Any) -> None:
    with pytest.raises(DatasetError, match="more than 0 and less than 1"):
        dataset(4).split(share, seed=1)


# Tags, sources and named splits


def test_tags_and_source_leave_the_task_the_same_and_make_another_dataset() -> None:
    plain, told = Task("a", {"q": 1}, 2), Task("a", {"q": 1}, 2, tags=("hard",), source="doc-7")
    # The digest is that of the tasks known before there were tags, so their cells stay valid.
    assert plain.digest == told.digest == digest("task", {"id": "a", "inputs": {"q": 1}, "expected": 2})
    assert plain.body() == {"id": "a", "inputs": {"q": 1}, "expected": 2}
    assert len({Dataset((plain,)).digest, Dataset((told,)).digest, Dataset((told,), {"test": ("a",)}).digest}) == 3


def test_a_task_keeps_its_id_when_it_is_tagged(tmp_path: Path) -> None:
    (before,) = load(tmp_path, '{"inputs": {"q": 1}}')
    (after,) = load(tmp_path, '{"inputs": {"q": 1}, "tags": ["a", "b", "a"], "source": "s", "split": "test"}')
    assert (after.id, after.digest) == (before.id, before.digest)
    assert (after.tags, after.source) == (("a", "b"), "s")


def test_lines_hold_all_that_a_dataset_is(tmp_path: Path) -> None:
    tasks = tagged(9).with_splits({"test": ["t1", "t0"], "odd": ["t1", "t3"], "last": ["t8"]})
    assert load(tmp_path, "".join(f"{json.dumps(row)}\n" for row in tasks.rows())) == tasks
    again = Dataset.from_content(json.loads(json.dumps(tasks.content())))
    assert (again, again.digest) == (tasks, tasks.digest)


def test_parts_are_chosen_by_tag_split_and_id() -> None:
    tasks = tagged(12).with_splits({"test": ["t0", "t3", "t5"], "train": ["t1"]})
    assert [task.id for task in tasks.only(split="test")] == ["t0", "t3", "t5"]
    assert [task.id for task in tasks.only(split="test", tag="tag0")] == ["t0", "t3"]
    assert [task.id for task in tasks.only(ids=["t7", "t2"])] == ["t2", "t7"]
    assert tasks.only(tag="tag0").splits == {"test": ("t0", "t3")}
    assert tasks.only(split="test").splits == {}


def test_names_that_nobody_knows_are_told_with_those_that_are_known() -> None:
    tasks = tagged(3).with_splits({"test": ["t0"], "train": ["t1"]})
    with pytest.raises(DatasetError, match='split: found "tset"; expected one of: test, train'):
        tasks.only(split="tset")
    with pytest.raises(DatasetError, match="expected one of: tag0, tag1, tag2"):
        tasks.only(tag="tag9")
    with pytest.raises(DatasetError, match='found "t9"'):
        tasks.only(ids=["t1", "t9"])
    with pytest.raises(DatasetError, match="none that match all of these"):
        tasks.only(split="test", tag="tag1")


@pytest.mark.parametrize("splits", [{"test": ["t9"]}, {"test": []}, {"a:b": ["t0"]}, {"": ["t0"]}])
def test_a_split_has_a_name_that_can_be_typed_and_tasks_that_are_there(splits: dict[str, list[str]]) -> None:
    with pytest.raises(DatasetError, match="splits"):
        tagged(3).with_splits(splits)


# Draws that mind something


def tagged(size: int) -> Dataset:
    return Dataset(
        tuple(Task(f"t{n}", {"n": n}, n % 2, tags=(f"tag{n % 3}",), source=f"s{n // 4}") for n in range(size))
    )


GROUPS = st.lists(st.integers(0, 5), min_size=2, max_size=40)


def grouped(numbers: list[int]) -> Dataset:
    """Tasks of so many kinds; number 0 has no source."""
    return Dataset(
        tuple(
            Task(f"t{place}", {"n": place}, number, (f"tag{number}",), f"s{number}" if number else "")
            for place, number in enumerate(numbers)
        )
    )


def ids(tasks: Dataset) -> list[str]:
    return [task.id for task in tasks]


def torn(parts: list[Dataset]) -> set[str]:
    """Sources that are in more than one part."""
    within = [{task.source for task in part} - {""} for part in parts]
    return {each for first, part in enumerate(within) for other in within[first + 1 :] for each in part & other}


@given(GROUPS, st.floats(0.05, 0.95), st.integers(0, 9))
def test_a_stratified_split_keeps_every_share_up_to_one_task(numbers: list[int], share: float, seed: int) -> None:
    tasks = grouped(numbers)
    bys: list[StratifyBy] = ["expected", "tag"]
    for by in bys:
        first, second = tasks.stratified(share, seed, by=by)
        assert len(first) == round(share * len(tasks))
        assert sorted([*ids(first), *ids(second)]) == sorted(ids(tasks))
        for number in {*numbers}:
            inside = sum(task.expected == number for task in first)
            assert abs(inside - share * numbers.count(number)) < 1


@given(GROUPS, st.floats(0.05, 0.95), st.integers(0, 9))
def test_a_split_by_source_tears_none_apart(numbers: list[int], share: float, seed: int) -> None:
    tasks = grouped(numbers)
    first, second = tasks.stratified(share, seed, by="source")
    assert sorted([*ids(first), *ids(second)]) == sorted(ids(tasks))
    assert not torn([first, second])
    largest = max([1, *(numbers.count(number) for number in {*numbers} - {0})])
    assert abs(len(first) - share * len(tasks)) <= largest


@given(GROUPS, st.integers(2, 6), st.integers(0, 9))
def test_every_task_is_in_one_fold_and_folds_are_as_equal_as_can_be(numbers: list[int], k: int, seed: int) -> None:
    tasks = grouped(numbers)
    bys: list[StratifyBy | None] = [None, "expected", "tag"]
    for by in bys if k <= len(tasks) else []:
        pairs = tasks.folds(k, seed, by=by)
        assert sorted(each for _, fold in pairs for each in ids(fold)) == sorted(ids(tasks))
        sizes = [len(fold) for _, fold in pairs]
        assert (len(sizes), max(sizes) - min(sizes) <= 1) == (k, True)
        assert all(sorted([*ids(rest), *ids(fold)]) == sorted(ids(tasks)) for rest, fold in pairs)
        if by:
            for number in {*numbers}:
                counts = [sum(task.expected == number for task in fold) for _, fold in pairs]
                assert max(counts) - min(counts) <= 1


@given(GROUPS, st.integers(2, 6), st.integers(0, 9))
def test_folds_by_source_tear_none_apart_and_none_is_empty(numbers: list[int], k: int, seed: int) -> None:
    tasks = grouped(numbers)
    sources = numbers.count(0) + len({*numbers} - {0})
    if k > sources:
        with pytest.raises(DatasetError, match="the number of sources"):
            tasks.folds(k, seed, by="source")
        return
    pairs = tasks.folds(k, seed, by="source")
    assert sorted(each for _, fold in pairs for each in ids(fold)) == sorted(ids(tasks))
    assert not torn([fold for _, fold in pairs])
    assert all(not torn([rest, fold]) and len(fold) for rest, fold in pairs)


def test_sources_of_different_sizes_still_make_equal_folds_if_they_can() -> None:
    tasks = grouped([1] * 6 + [2] * 2 + [3] * 2 + [4] * 2)
    assert {len(fold) for seed in range(9) for _, fold in tasks.folds(2, seed, by="source")} == {6}


@given(GROUPS, st.data())
def test_a_sample_has_its_size_and_its_shares(numbers: list[int], data: st.DataObject) -> None:
    tasks = grouped(numbers)
    n = data.draw(st.integers(1, len(tasks)))
    assert len(tasks.sample(n, seed=1)) == n
    chosen = tasks.sample(n, seed=1, by="expected")
    assert len(chosen) == n
    for number in {*numbers}:
        assert abs(sum(task.expected == number for task in chosen) - n * numbers.count(number) / len(tasks)) < 1
    whole = tasks.sample(n, seed=1, by="source")
    drawn = {task.source for task in whole} - {""}
    assert {task.id for task in tasks if task.source in drawn} <= {*ids(whole)}
    assert len(whole)


def test_draws_depend_on_what_is_asked_and_not_on_tags_sources_and_names() -> None:
    told = tagged(40).with_splits({"old": ["t1"]})
    bare = Dataset(tuple(Task(task.id, task.inputs, task.expected) for task in told))
    for draw in (
        lambda tasks: tasks.split(0.5, seed=1)[0],
        lambda tasks: tasks.stratified(0.3, seed=1)[0],
        lambda tasks: tasks.sample(7, seed=1),
        lambda tasks: tasks.folds(4, seed=1)[2][1],
    ):
        assert ids(draw(told)) == ids(draw(bare))


def test_draws_are_the_same_in_another_process() -> None:
    tasks = tagged(40)
    script = (
        "from seedbed.evaluation.datasets.dataset import Dataset, Task\n"
        "tasks = Dataset(tuple(Task(f't{n}', {'n': n}, n % 2, tags=(f'tag{n % 3}',), source=f's{n // 4}') "
        "for n in range(40)))\n"
        "print(tasks.stratified(0.3, 1, by='tag')[0].digest, tasks.stratified(0.3, 1, by='source')[0].digest,"
        " tasks.folds(3, 1, by='source')[0][1].digest, tasks.sample(9, 1, by='expected').digest)"
    )
    environ = {"PYTHONHASHSEED": "777"}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ)
    assert told.stdout.split() == [
        tasks.stratified(0.3, 1, by="tag")[0].digest,
        tasks.stratified(0.3, 1, by="source")[0].digest,
        tasks.folds(3, 1, by="source")[0][1].digest,
        tasks.sample(9, 1, by="expected").digest,
    ]


@pytest.mark.parametrize("k", [0, 1, 7])
def test_folds_are_at_least_two_and_none_is_empty(k: int) -> None:
    with pytest.raises(DatasetError, match="from 2 to 6"):
        dataset(6).folds(k, seed=0)


@pytest.mark.parametrize("n", [0, 5])
def test_a_sample_is_not_larger_than_the_whole(n: int) -> None:
    with pytest.raises(DatasetError, match="from 1 to 4"):
        dataset(4).sample(n, seed=0)
