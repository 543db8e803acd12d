from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from search_samples import START, playbook, portfolio, right, tasks

from seedbed.errors import DatasetError, PlaybookError, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evolution.allocation import Uniform
from seedbed.evolution.evaluators import FunctionEvaluator, Measure
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import (
    NO_CONFIRMATION,
    Plan,
    SearchOptions,
    plan_search,
    read_instructions,
    split_tasks,
)
from seedbed.playbooks.genes import genes
from seedbed.playbooks.library import Library
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import digest

FORTY = tasks(40, "t")


def ids(of: Dataset) -> set[str]:
    return {task.id for task in of}


def test_a_quarter_confirms_and_a_third_of_the_rest_is_read() -> None:
    plan = Plan.of(START, FORTY, portfolio())
    assert [len(part) for part in (plan.confirm, plan.reflect, plan.select)] == [10, 10, 20]
    assert ids(plan.confirm) | ids(plan.reflect) | ids(plan.select) == ids(FORTY)


def test_for_one_that_reads_nothing_no_task_is_kept_to_be_read() -> None:
    plan = Plan.of(START, FORTY, BestOf([playbook("Sort.")]))
    assert [len(part) for part in (plan.confirm, plan.reflect, plan.select)] == [10, 0, 30]


def test_with_other_tasks_that_confirm_all_of_these_decide_or_are_read() -> None:
    others = tasks(7, "c")
    plan = Plan.of(START, FORTY, BestOf([]), confirm=others)
    assert (ids(plan.confirm), ids(plan.select)) == (ids(others), ids(FORTY))


def test_the_same_seed_parts_the_tasks_in_the_same_way_and_another_does_not() -> None:
    one, same, other = (split_tasks(FORTY, seed) for seed in (1, 1, 2))
    assert one == same
    assert ids(one.only(split="confirm")) != ids(other.only(split="confirm"))


def test_splits_that_have_names_stay_as_they_are() -> None:
    first, rest = FORTY.split(0.5, 3)
    named = FORTY.with_splits({"select": first, "confirm": rest})
    plan = Plan.of(START, named, portfolio())
    assert (ids(plan.select), ids(plan.confirm), len(plan.reflect)) == (ids(first), ids(rest), 0)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_of_very_few_tasks_there_is_still_one_that_decides(size: int) -> None:
    plan = Plan.of(START, tasks(size, "t"), portfolio())
    assert len(plan.select) >= 1
    assert len(plan.select) + len(plan.reflect) + len(plan.confirm) == size


@pytest.mark.parametrize("one", ["reflect", "select", "confirm"])
@pytest.mark.parametrize("other", ["reflect", "select", "confirm"])
def test_no_task_is_in_two_parts(one: str, other: str) -> None:
    given: dict[str, Any] = {"select": tasks(3, "s"), one: tasks(3, "same"), other: tasks(3, "same")}
    if one == other:
        Plan(start=START, optimizer=BestOf([]), **given)
        return
    with pytest.raises(DatasetError, match=r"same1.*expected in one") as wrong:
        Plan(start=START, optimizer=BestOf([]), **given)
    assert len(wrong.value.problems) == 3


def test_tasks_that_decide_there_must_be() -> None:
    with pytest.raises(DatasetError, match="no select tasks"):
        Plan(start=START, optimizer=BestOf([]), select=Dataset(()))


def test_patience_is_at_least_one_step() -> None:
    with pytest.raises(SettingsError, match="patience"):
        Plan(start=START, optimizer=BestOf([]), select=FORTY, patience=0)


def test_whatever_might_change_a_search_names_another() -> None:
    arena = FunctionEvaluator(right, MemoryStore(), "ann")
    about: dict[str, Any] = {"start": START, "select": FORTY, "optimizer": BestOf([])}
    others: list[dict[str, Any]] = [
        {},
        {"start": playbook("Sort.")},
        {"select": tasks(39, "t")},
        {"reflect": tasks(2, "r")},
        {"confirm": tasks(2, "r")},
        {"optimizer": BestOf([playbook("x")])},
        {"budget": Budget(runs=9)},
        {"budget": Budget(usd=9)},
        {"allocation": Uniform()},
        {"seed": 1},
        {"patience": 3},
        {"enough": 0.9},
    ]
    names = [digest("search", Plan(**{**about, **each}).content(arena)) for each in others]
    names.append(
        digest("search", Plan(**about).content(FunctionEvaluator(right, MemoryStore(), "ann", [Measure("other")])))
    )
    assert len({*names}) == len(names)
    assert digest("search", Plan(**about).content(arena)) == names[0]


# What a person asks for

OPTIONS = SearchOptions(
    playbook="sorter.yaml",
    dataset="mail.jsonl",
    optimizer="best_of(brood=3)",
    budget="60 runs",
    instructions=("Sort.",),
    gene="roles.sorter.system",
    patience=4,
    seed=5,
    metrics=("exact_match", "cost"),
)


def test_options_are_stored_as_they_always_were() -> None:
    stored = OPTIONS.to_json()
    assert stored == {
        "playbook": "sorter.yaml",
        "dataset": "mail.jsonl",
        "optimizer": "best_of(brood=3)",
        "budget": "60 runs",
        "confirm": None,
        "bank": ["Sort."],
        "gene": "roles.sorter.system",
        "demos": 0,
        "reflector": None,
        "patience": 4,
        "surrogate": False,
        "seed": 5,
        "metric": ["exact_match", "cost"],
    }
    assert SearchOptions.from_json(stored) == OPTIONS
    del stored["surrogate"]  # as older searches have it
    assert SearchOptions.from_json(stored) == OPTIONS


def test_options_with_an_object_are_not_stored() -> None:
    assert replace(OPTIONS, optimizer=BestOf([])).to_json() == {}
    assert replace(OPTIONS, reflector=lambda *case: []).to_json() == {}


def test_a_plan_is_made_of_options_whether_they_name_the_optimizer_or_have_it() -> None:
    path = next(path for path, gene in genes(START).items() if gene.kind == "text")
    options = replace(OPTIONS, optimizer="best_of", gene=path)
    named = plan_search(START, FORTY, options)
    made = plan_search(START, FORTY, replace(options, optimizer=named.optimizer))
    arena = FunctionEvaluator(right, MemoryStore(), "ada")
    assert named.content(arena) == made.content(arena)
    assert (named.budget, named.patience, named.seed) == (Budget(runs=60), 4, 5)
    assert [len(part) for part in (named.confirm, named.reflect, named.select)] == [10, 0, 30]


@pytest.mark.parametrize(("confirm", "sizes"), [(None, [10, 10, 20]), (NO_CONFIRMATION, [0, 13, 27])])
def test_a_quarter_confirms_unless_nothing_is_to_confirm(confirm: str | None, sizes: list[int]) -> None:
    plan = plan_search(START, FORTY, SearchOptions(confirm=confirm))
    assert [len(part) for part in (plan.confirm, plan.reflect, plan.select)] == sizes


def test_pinned_options_make_the_same_plan_again_from_the_store_alone() -> None:
    store, options = MemoryStore(), SearchOptions(playbook="a.yaml", dataset="b.jsonl", seed=3)
    library, arena = Library(store, "ada"), FunctionEvaluator(right, store, "ada")
    plan = plan_search(START, FORTY, options)
    pinned = SearchOptions.from_json(options.pin(plan, library).to_json())
    stored, confirm = (Dataset.from_content(store.get(each)) for each in (pinned.dataset, str(pinned.confirm)))
    again = plan_search(library.get(pinned.playbook), stored, pinned, confirm)
    assert again.content(arena) == plan.content(arena)


@pytest.mark.parametrize("wrong", [{"optimizer": "nsga"}, {"budget": "much"}])
def test_a_wrong_option_is_named_first(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as error:
        plan_search(START, FORTY, replace(SearchOptions(), **wrong))
    assert [error.value.problems[0].path] == list(wrong)


def test_instructions_come_from_a_list_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("Sort. \n\n  Label.\n")
    (tmp_path / "list.yaml").write_text("- Sort.\n- Label.\n")
    for source in (["Sort.", " ", "Label."], tmp_path / "lines.txt", str(tmp_path / "list.yaml")):
        assert read_instructions(source) == ("Sort.", "Label.")
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "map.json").write_text("{}")
    for wrong in ([], tmp_path / "none.txt", tmp_path / "map.json", tmp_path / "absent.txt"):
        with pytest.raises(PlaybookError):
            read_instructions(wrong)
