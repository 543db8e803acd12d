"""Who grew from whom."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from seedbed.cli.command import Invocation
from seedbed.cli.views import lineage
from seedbed.errors import NotFound
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.storage.store import Fact


def grown(space: Any, parent: str, *values: float) -> list[str]:
    library = space.resources.library
    return [library.derive(parent, {"parameters.caution": each}, because=f"try {each}") for each in values]


def test_a_tree_begins_at_the_oldest_ancestor_of_what_has_a_name(kept: str) -> None:
    with Invocation().open() as space:
        (child,) = grown(space, kept, 0.1)
        (grandchild,) = grown(space, child, 0.2)
        space.resources.library.name("tip", grandchild, because="test")
        assert [each["playbook"] for each in space.playbooks.tree(None)] == [kept]
        assert [each["playbook"] for each in space.playbooks.tree("tip")] == [kept]
        tree = space.playbooks.tree(kept, limit=12, depth=20)[0]
    assert [tree["playbook"], tree["children"][0]["playbook"]] == [kept, child]
    tip = tree["children"][0]["children"][0]
    assert (tip["playbook"], tip["names"], tip["children"]) == (grandchild, ["branches/tip"], [])


def test_without_any_name_the_newest_playbooks_are_shown(kept: str) -> None:
    with Invocation().open() as space:
        grown(space, kept, 0.1, 0.2)
        assert [each["playbook"] for each in space.playbooks.tree(None)] == [kept]


def test_of_many_children_those_on_the_way_to_a_name_are_shown_first(kept: str) -> None:
    with Invocation().open() as space:
        children = grown(space, kept, *(number / 10 for number in range(5)))
        space.resources.library.name("chosen", children[3], because="test")
        tree = space.playbooks.tree(kept, limit=2, depth=20)[0]
    assert tree["children"][0]["playbook"] == children[3]
    assert tree["hidden"] == 3


def test_what_lies_deeper_is_counted_and_not_shown(kept: str) -> None:
    with Invocation().open() as space:
        (child,) = grown(space, kept, 0.1)
        grown(space, child, 0.2, 0.3)
        tree = space.playbooks.tree(kept, limit=12, depth=1)[0]
    assert (tree["children"][0]["children"], tree["children"][0]["hidden"]) == ([], 2)


def test_a_merged_playbook_hangs_under_its_first_parent_and_names_the_other(kept: str) -> None:
    with Invocation().open() as space:
        (one,) = grown(space, kept, 0.1)
        other = space.resources.library.derive(kept, {"roles.sorter.temperature": 0.9}, because="warmer")
        merged, _ = space.resources.library.merge(one, other, because="both")
        tree = space.playbooks.tree(kept, limit=12, depth=20)[0]
    by_digest = {child["playbook"]: child for child in tree["children"]}
    assert by_digest[one]["children"][0]["playbook"] == merged
    assert by_digest[one]["children"][0]["also_from"] == [other]
    assert by_digest[other]["children"] == []


def test_scores_that_a_search_chose_by_and_others_are_told_apart(kept: str) -> None:
    at = datetime.now(UTC)
    chosen_by = Dataset((Task("a", {"text": "a"}), Task("b", {"text": "b"})))

    def cell(playbook: str, task: str, replicate: int, value: float) -> Fact:
        key = f"{playbook}/{task}/{replicate}"
        about = {"task": task, "replicate": replicate, "metric": "exact_match"}
        return Fact(kind="cell", key=key, subject=playbook, at=at, by="ann", body=about, value=value)

    with Invocation().open() as space:
        (child,) = grown(space, kept, 0.1)
        body = {"dataset": space.store.put("dataset", chosen_by.content())}
        space.store.append([Fact(kind="trial", key="one", subject=child, at=at, by="ann", body=body)])
        found = [cell(child, "a", 0, 1.0), cell(child, "a", 1, 0.0), cell(child, "b", 0, 1.0), cell(child, "c", 0, 0.0)]
        space.store.append([*found, cell(kept, "a", 0, 0.25), cell(kept, "c", 0, 0.75)])
        tree = space.playbooks.tree(kept, limit=12, depth=20)[0]
    assert tree["scores"] == {"exact_match": {"mean": 0.25, "tasks": 1}}
    assert tree["held_out"] == {"exact_match": {"mean": 0.75, "tasks": 1}}
    (below,) = tree["children"]
    assert below["scores"] == {"exact_match": {"mean": 0.75, "tasks": 2}}  # replicates are not more tasks
    assert below["held_out"] == {"exact_match": {"mean": 0.0, "tasks": 1}}
    told = lineage.view(tree).label.plain
    assert "exact_match 0.250 on 1 task; exact_match 0.750 on 1 task held out" in told


def test_where_nothing_was_searched_for_all_scores_are_together(kept: str) -> None:
    about = {"task": "a", "replicate": 0, "metric": "exact_match"}
    with Invocation().open() as space:
        at = datetime.now(UTC)
        space.store.append([Fact(kind="cell", key="a", subject=kept, at=at, by="ann", body=about, value=1.0)])
        tree = space.playbooks.tree(kept, limit=12, depth=20)[0]
    assert (tree["scores"], tree["held_out"]) == ({"exact_match": {"mean": 1.0, "tasks": 1}}, {})


def test_a_ref_is_found_by_its_short_name_even_after_it_is_gone(kept: str) -> None:
    with Invocation().open() as space:
        space.resources.library.branch("careful", kept, because="test")
        space.resources.library.close("careful", "archived", because="done")
        assert space.playbooks.moves("careful")[0] == "branches/careful"
        with pytest.raises(NotFound, match="no ref named"):
            space.playbooks.moves("absent")


def test_targets_are_shown_short() -> None:
    digest = "b2:" + "a" * 64
    assert [lineage.target_text(each) for each in (None, digest, {"stable": digest})] == ["–", "a" * 10, "a" * 10]
