"""Strategies: numbers an agent reads, actions it must not take, and how fast it may evolve."""

from __future__ import annotations

from pathlib import Path

import pytest
from format_samples import NATIVE, back, document, example, refused

from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import Note, export, import_document, load_foreign
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook


def test_a_strategy_gives_parameters_rules_names_facts_and_protection() -> None:
    found = example("parcel-desk.yaml")
    playbook = found.playbook
    assert playbook.parameter("refund_readiness") == 0.35
    bounds = {name: (each.low, each.high) for name, each in playbook.parameters.items()}
    assert bounds["refund_readiness"] == (0, 1)
    assert bounds["words_per_answer"] == (None, None)
    assert playbook.may("read_out_full_card_number", 1.0).answer == "forbidden"
    assert playbook.may("issue_refund", 1.0).answer == "confirm"
    assert playbook.may("cancel_order", 0.69).answer == "confirm"
    assert playbook.may("cancel_order", 0.7).answer == "allowed"
    assert found.refs == dict.fromkeys(["versions/parcel-desk/1.3.0", "branches/parcel-desk"], playbook.digest)
    assert found.protection == {
        "require": [{"max_change": {"number": 0.05}}, {"cooldown": "3 days"}, {"review": {"when": "always"}}]
    }
    change = {note.key: note.body for note in found.facts if note.kind == "change"}
    assert list(change) == [
        "parcel-desk/1.3.0/parameters.apology_warmth",
        "parcel-desk/1.3.0/parameters.refund_readiness",
        "parcel-desk/1.2.0/parameters.words_per_answer",
    ]
    assert change["parcel-desk/1.2.0/parameters.words_per_answer"] == {
        "version": "1.2.0",
        "date": "2026-04-20T08:00:00Z",
        "path": "parameters.words_per_answer",
        "from": 80,
        "to": 60,
        "reason": "Nobody read the end",
    }
    assert [note.body for note in found.facts if note.kind == "parent"] == [{"ref": "versions/parcel-desk/1.2.0"}]


def test_a_strategy_exports_exactly_what_changed() -> None:
    found = example("parcel-desk.yaml")
    content = with_genes(found.playbook, {"parameters.refund_readiness": 0.4}).content()
    content["rules"]["never"].append("promise_delivery_times")
    del content["parameters"]["apology_warmth"]
    expected = document("parcel-desk.yaml")
    expected["parameters"]["refund_readiness"] = 0.4
    expected["constraints"]["never_execute"].append("promise_delivery_times")
    del expected["parameters"]["apology_warmth"]
    assert back(found, Playbook.from_document(content)) == expected


def test_a_new_version_names_the_old_one_as_its_parent_and_new_changes_join_the_log() -> None:
    found = example("parcel-desk.yaml")
    body = {"version": "1.4.0", "date": "2026-06-01", "path": "parameters.refund_readiness", "from": 0.35, "to": 0.4}
    note = Note("change", "parcel-desk/1.4.0/parameters.refund_readiness", {**body, "reason": "Fewer calls"})
    playbook = with_genes(found.playbook, {"parameters.refund_readiness": 0.4})
    exported = export(playbook, "strategy", [*found.facts, note], ["versions/parcel-desk/1.4.0"])
    assert exported["metadata"]["version"] == "1.4.0"
    assert exported["metadata"]["parent_version"] == "1.3.0"
    change = {"parameter": "refund_readiness", "from": 0.35, "to": 0.4, "reason": "Fewer calls"}
    assert exported["change_log"] == [
        {"version": "1.4.0", "date": "2026-06-01", "changes": [change]},
        *document("parcel-desk.yaml")["change_log"],
    ]


def test_a_change_told_twice_is_two_facts() -> None:
    strategy = document("parcel-desk.yaml")
    strategy["change_log"][0]["changes"] *= 2
    keys = [note.key for note in import_document(strategy).facts if note.kind == "change"]
    assert len(keys) == len(set(keys)) == 5


def test_limits_that_are_not_set_protect_nothing() -> None:
    strategy = document("parcel-desk.yaml")
    strategy["evolution_metadata"] = {"cooldown_period_days": 0, "requires_human_review": False}
    assert import_document(strategy).protection == {}
    strategy["evolution_metadata"] = {"max_parameter_delta": 0, "cooldown_period_days": 1}
    assert import_document(strategy).protection == {"require": [{"max_change": {"number": 0}}, {"cooldown": "1 day"}]}


@pytest.mark.parametrize("section", ["metadata", "parameters", "constraints", "evolution_metadata"])
def test_a_strategy_without_a_section_is_refused_by_its_name(section: str) -> None:
    strategy = document("parcel-desk.yaml")
    del strategy[section]
    assert refused(strategy).startswith(f"{section}: found nothing; expected a value. ")


def test_everything_wrong_with_a_strategy_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "metadata: {name: desk, version: 2.0}\n"
        "parameters:\n  speed: fast\n"
        "constraints: {never_execute: everything}\n"
        "evolution_metadata: {max_parameter_delta: -1}\n"
        "change_log:\n- {version: one}\n- {version: 1.0.0, changes: [{from: 1}]}\n"
    )
    with pytest.raises(PlaybookError) as told:
        load_foreign(path)
    found = [(problem.path.replace(str(path), "file"), problem.found) for problem in told.value.problems]
    assert found == [
        ("metadata.version (file:1)", "2.0"),
        ("parameters.speed (file:3)", '"fast"'),
        ("constraints.never_execute (file:4)", '"everything"'),
        ("evolution_metadata.max_parameter_delta (file:5)", "-1"),
        ("change_log[0].version (file:7)", '"one"'),
        ("change_log[1].changes[0].parameter (file:8)", "nothing"),
    ]
    assert all(problem.expected and problem.remedy for problem in told.value.problems)


def test_a_strategy_that_says_nothing_is_refused() -> None:
    strategy = document("parcel-desk.yaml") | {"parameters": {}, "constraints": {"never_execute": []}}
    assert "parameters: found none, and no constraints; expected at least one of them" in refused(strategy)


@pytest.mark.parametrize("version", ["2", "2.0", "v2.0.0", "02.0.0", "2.0.0 ", ""])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    strategy = document("parcel-desk.yaml")
    strategy["metadata"]["version"] = version
    assert 'expected a version such as "2.0.0"' in refused(strategy)


def test_a_native_strategy_takes_its_names_from_refs() -> None:
    exported = export(Playbook.from_document(NATIVE["strategy"]), "strategy", refs=["versions/desk/0.2.0"])
    assert exported["metadata"] == {"name": "desk", "version": "0.2.0"}
    assert exported["parameters"] == {"speed": 0.5, "user_confirmation": 0.7}
    assert exported["constraints"]["never_execute"] == ["pay"]
