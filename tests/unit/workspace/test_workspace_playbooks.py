"""Playbooks by name, what is known about them, and how clashes are settled."""

from __future__ import annotations

from pathlib import Path

import pytest
from loop_samples import agent
from workspace_samples import in_memory

from seedbed.errors import MergeClash, NotFound, SettingsError
from seedbed.playbooks.playbook import Playbook
from seedbed.workspace import Workspace
from seedbed.workspace.playbooks import explain


async def test_a_playbook_is_itself_a_file_a_digest_a_ref_or_a_channel(tmp_path: Path) -> None:
    space = in_memory()
    playbook = agent("a")
    file = tmp_path / "agent.yaml"
    file.write_text(playbook.to_yaml())
    digest = space.playbooks.keep(playbook, because="written")
    space.playbooks.name("careful", digest, because="try")
    space.playbooks.version("agent", "1.0.0", digest, because="try")
    await space.release(playbook, to="production")
    named: list[Playbook | Path | str] = [playbook, file, str(file), digest, digest[3:11], "careful"]
    refs = ("branches/careful", "versions/agent/1.0.0", "production", "channels/production")
    for name in (*named, *refs):
        assert space.playbooks.get(name) == playbook


def test_what_names_no_playbook_is_told() -> None:
    with pytest.raises(NotFound, match='no playbook named "nobody"'):
        in_memory().playbooks.get("nobody")


def test_a_stored_playbook_is_the_parent_of_what_is_changed_from_it() -> None:
    space = in_memory()
    parent = space.playbooks.keep(agent("a"), because="written")
    space.playbooks.name("main", parent, because="try")
    child = space.playbooks.get("main", {"roles.agent.system": "b"})
    assert child.roles["agent"].system == "b"
    about = space.playbooks.about(child)
    assert (about["parents"], about["how"], about["genes"]["roles.agent.system"]) == ([parent], "edited", "b")
    assert space.playbooks.about(agent("never stored"))["names"] == []


def branches(space: Workspace) -> None:
    start = space.playbooks.keep(agent("a"), because="written")
    for name, text in (("ours", "b"), ("theirs", "c")):
        child, _ = space.playbooks.derive(start, {"roles.agent.system": text}, because="try")
        space.playbooks.branch(name, child, because="try")


@pytest.mark.parametrize(
    ("resolver", "text"), [("ours", "b"), ("theirs", "c"), ({"roles.agent.system": "d"}, "d"), (lambda clash: "e", "e")]
)
def test_a_clash_is_settled_by_a_name_a_value_or_a_function(resolver: object, text: str) -> None:
    space = in_memory()
    branches(space)
    digest, merge = space.playbooks.merge("ours", "theirs", because="join", resolvers=[resolver])  # type: ignore[list-item]
    assert space.playbooks.get(digest).roles["agent"].system == text
    assert [clash.path for clash in merge.settled] == ["roles.agent.system"]


def test_a_clash_that_nothing_settles_is_told_and_so_is_an_unknown_name() -> None:
    space = in_memory()
    branches(space)
    with pytest.raises(MergeClash, match=r"roles\.agent\.system"):
        space.playbooks.merge("ours", "theirs", because="join", resolvers=["mean"])
    with pytest.raises(SettingsError, match="expected one of: ours, theirs, mean"):
        space.playbooks.merge("ours", "theirs", because="join", resolvers=["mine"])


def test_each_value_of_a_file_is_explained_by_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(agent("a").to_yaml())
    digest, values = explain(file, {"roles.agent.system": "b"})
    assert digest == Playbook.load(file, {"roles.agent.system": "b"}).digest
    origins = {each["path"]: each["origin"] for each in values}
    assert "agent.yaml" in origins["roles.agent.model"]
    assert origins["roles.agent.system"] != origins["roles.agent.model"]


def test_a_ref_that_never_was_has_no_moves() -> None:
    space = in_memory()
    branches(space)
    name, moves = space.playbooks.moves("ours")
    assert (name, len(moves)) == ("branches/ours", 1)
    with pytest.raises(NotFound, match=r'no ref named "nobody"; expected one of: branches/ours'):
        space.playbooks.moves("nobody")
