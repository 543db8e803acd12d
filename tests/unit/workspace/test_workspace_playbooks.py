"""Playbooks by name, what is known about them, and how clashes are settled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from loop_samples import ORACLE, agent
from workspace_samples import in_memory

from seedbed.errors import MergeClash, NotFound, SettingsError
from seedbed.playbooks import builtin
from seedbed.playbooks.formats import import_document
from seedbed.playbooks.playbook import Playbook
from seedbed.workspace import Workspace
from seedbed.workspace.nouns.playbooks import explain


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


async def test_a_dialogue_that_ships_runs_by_its_name_on_the_first_model_unless_one_has_the_name_it_says() -> None:
    run = await in_memory().run("panel", question="Buy buses?")
    assert (len(run.turns), {turn.model for turn in run.turns}) == (4, {"oracle"})
    named = in_memory(models={"other": ORACLE, "local": ORACLE})
    assert named.playbooks.get("panel") == Playbook.load(builtin.FILES["panel"])
    (notice,) = in_memory().resources.warnings("panel", {}, ["question"])
    assert (notice.path, notice.found, notice.expected) == ("model", "local", "one of: oracle")
    assert not named.resources.warnings("panel", {}, ["question"])


def test_a_stored_playbook_goes_before_a_dialogue_that_ships() -> None:
    space = in_memory()
    assert space.playbooks.keep("panel", because="as it ships") == space.playbooks.get("panel").digest
    space.playbooks.branch("panel", agent("mine"), because="my own")
    assert space.playbooks.get("panel") == agent("mine")


async def test_a_dialogue_takes_at_most_so_many_turns() -> None:
    space = in_memory()
    run = await space.run(space.playbooks.get("loop", turns=4), topic="tides")
    assert [turn.step for turn in run.turns] == ["basics", "first_question", "mechanism", "second_question"]
    stored = space.playbooks.keep("loop", because="as it ships")
    assert space.playbooks.about(space.playbooks.get(stored, turns=2))["parents"] == [stored]


PROFILE = {
    "profile_id": "6f1c2a52-8d0b-4a57-9f0e-6f0b7f5f3c11",
    "name": "law",
    "version": "1.0.0",
    "worker": {"system_prompt": "Answer."},
    "reviewer": {"system_prompt": "Doubt."},
    "max_debate_rounds": 2,
}


async def test_an_imported_profile_runs() -> None:
    space = in_memory()
    space.playbooks.import_foreign(import_document(PROFILE), because="imported")
    run = await space.run("law", question="May I sublet?")
    assert [turn.step for turn in run.turns] == ["work_1", "review"] * 2
    assert (run.status, run.converged_at) == ("completed", None)


def test_an_earlier_import_keeps_its_digest_and_version_and_is_the_parent_of_the_next() -> None:
    space, found = in_memory(), import_document(PROFILE)
    numbers = {"max_debate_rounds": {"value": 2, "low": 1, "whole": True}}
    earlier = Playbook.from_document({"roles": found.playbook.content()["roles"], "parameters": numbers})
    refs = dict.fromkeys(found.refs, earlier.digest)
    space.playbooks.import_foreign(replace(found, playbook=earlier, refs=refs), because="by an earlier seedbed")
    digest = space.playbooks.import_foreign(found, because="again")
    assert space.playbooks.about(found.playbook)["parents"] == [earlier.digest]
    assert space.playbooks.get("law") == found.playbook
    assert space.playbooks.get("versions/law/1.0.0") == earlier
    assert space.playbooks.export(digest, "profile")[1] == PROFILE


def test_the_change_log_has_the_changes_of_documents_and_those_made_here_newest_first() -> None:
    space = in_memory()
    change = {"parameter": "speed", "from": 0.4, "to": 0.5, "reason": "slow"}
    strategy = {
        "metadata": {"name": "desk", "version": "1.0.0"},
        "parameters": {"speed": 0.5},
        "constraints": {},
        "evolution_metadata": {},
        "change_log": [{"version": "1.0.0", "date": "2026-01-01", "changes": [change]}],
    }
    digest = space.playbooks.import_foreign(import_document(strategy), because="imported")
    child, _ = space.playbooks.derive(digest, {"parameters.speed": 0.6}, because="still slow")
    space.playbooks.version("desk", "1.1.0", child, because="ready")
    log = space.playbooks.change_log(child)
    assert [(each["version"], each["path"], each["to"], each["reason"]) for each in log] == [
        ("1.1.0", "parameters.speed", 0.6, "still slow"),
        ("1.0.0", "parameters.speed", 0.5, "slow"),
    ]


def test_the_siblings_of_a_merge_are_the_other_active_branches_of_the_ancestor() -> None:
    space = in_memory()
    branches(space)
    start = space.playbooks.ancestry("ours")[-1].digest
    space.playbooks.branch("third", start, because="try")
    space.playbooks.branch("apart", agent("another family"), because="try")
    assert space.playbooks.siblings("ours", "theirs") == ["third"]
