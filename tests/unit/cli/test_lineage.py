"""Who grew from whom."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.cli import lineage, options
from seedbed.errors import NotFound


def grown(space: Any, parent: str, *values: float) -> list[str]:
    return [space.library.derive(parent, {"parameters.caution": each}, because=f"try {each}") for each in values]


def test_a_tree_begins_at_the_oldest_ancestor_of_what_has_a_name(kept: str) -> None:
    with options.opened(None) as space:
        (child,) = grown(space, kept, 0.1)
        (grandchild,) = grown(space, child, 0.2)
        space.library.name("tip", grandchild, because="test")
        assert lineage.roots(space, None) == [kept]
        assert lineage.roots(space, "tip") == [kept]
        tree = lineage.document(space, kept, limit=12, depth=20)
    assert [tree["playbook"], tree["children"][0]["playbook"]] == [kept, child]
    tip = tree["children"][0]["children"][0]
    assert (tip["playbook"], tip["names"], tip["children"]) == (grandchild, ["branches/tip"], [])


def test_without_any_name_the_newest_playbooks_are_shown(kept: str) -> None:
    with options.opened(None) as space:
        grown(space, kept, 0.1, 0.2)
        assert lineage.roots(space, None) == [kept]


def test_of_many_children_those_on_the_way_to_a_name_are_shown_first(kept: str) -> None:
    with options.opened(None) as space:
        children = grown(space, kept, *(number / 10 for number in range(5)))
        space.library.name("chosen", children[3], because="test")
        tree = lineage.document(space, kept, limit=2, depth=20)
    assert tree["children"][0]["playbook"] == children[3]
    assert tree["hidden"] == 3


def test_what_lies_deeper_is_counted_and_not_shown(kept: str) -> None:
    with options.opened(None) as space:
        (child,) = grown(space, kept, 0.1)
        grown(space, child, 0.2, 0.3)
        tree = lineage.document(space, kept, limit=12, depth=1)
    assert (tree["children"][0]["children"], tree["children"][0]["hidden"]) == ([], 2)


def test_a_merged_playbook_hangs_under_its_first_parent_and_names_the_other(kept: str) -> None:
    with options.opened(None) as space:
        (one,) = grown(space, kept, 0.1)
        other = space.library.derive(kept, {"roles.sorter.temperature": 0.9}, because="warmer")
        merged, _ = space.library.merge(one, other, because="both")
        tree = lineage.document(space, kept, limit=12, depth=20)
    by_digest = {child["playbook"]: child for child in tree["children"]}
    assert by_digest[one]["children"][0]["playbook"] == merged
    assert by_digest[one]["children"][0]["also_from"] == [other]
    assert by_digest[other]["children"] == []


def test_a_ref_is_found_by_its_short_name_even_after_it_is_gone(kept: str) -> None:
    with options.opened(None) as space:
        space.library.branch("careful", kept, because="test")
        space.library.close("careful", "archived", because="done")
        assert lineage.ref_name(space.store, "careful") == "branches/careful"
        with pytest.raises(NotFound, match="no ref was ever called"):
            lineage.ref_name(space.store, "absent")


def test_targets_are_shown_short() -> None:
    digest = "b2:" + "a" * 64
    assert [lineage.target(each) for each in (None, digest, {"stable": digest})] == ["–", "a" * 10, "a" * 10]
