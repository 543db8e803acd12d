"""Modes: what they inherit, and what is said about those that are wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from format_samples import NATIVE, back, document, example, refused

from seedbed.errors import PlaybookError
from seedbed.playbooks.formats import export, load_foreign
from seedbed.playbooks.formats.imports import Original
from seedbed.playbooks.formats.mode import read
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook


def test_what_a_mode_inherits_is_changed_by_overrides() -> None:
    found = example("code-review-thorough.json")
    playbook = with_genes(
        found.playbook,
        {
            "steps.turn_1.prompt": "What can fail in {PATCH}?",
            "steps.turn_2.prompt": "Anything else in {PATCH}?",
            "steps.turn_4.prompt": "Write a test for {turn_1}",
            "roles.tester.model": "strong",
        },
    )
    expected = document("code-review-thorough.json")
    expected["overrides"]["turn_1"] = {"template": "What can fail in <PATCH>?", "context_from": []}
    expected["overrides"]["turn_2"] = {"template": "Anything else in <PATCH>?", "context_from": []}
    expected["additional_turns"]["turn_4"] |= {
        "template": "Write a test for {turn_1}",
        "context_from": [1],
        "model": "strong",
    }
    assert back(found, playbook) == expected


def test_a_parent_that_is_missing_or_extends_its_child_is_refused(tmp_path: Path) -> None:
    for name, parent in {"a": "b", "b": "c", "c": "a", "lost": "nowhere"}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "extends": parent, "turns": 1}))
    for name, expected in {"a": "a circle: a.json → b.json → c.json → a.json", "lost": "nowhere.json"}.items():
        with pytest.raises(PlaybookError, match="extends") as told:
            load_foreign(tmp_path / f"{name}.json")
        assert expected in str(told.value)
    assert "expected a document from a file" in refused({"name": "a", "extends": "b"})


def test_a_problem_of_a_parent_is_told_with_the_parents_file(tmp_path: Path) -> None:
    (tmp_path / "parent.yaml").write_text("name: parent\nprompts: {turn_1: {template: 3}}\n")
    (tmp_path / "child.yaml").write_text("name: child\nextends: parent\n")
    with pytest.raises(PlaybookError) as told:
        load_foreign(tmp_path / "child.yaml")
    assert told.value.source.endswith("parent.yaml")
    assert "prompts.turn_1.template: found 3; expected text" in str(told.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"structure": "random"}, 'structure: found "random"; expected sequential, parallel or mixed'),
        ({"turns": "five"}, 'turns: found "five"; expected a whole number'),
        ({"prompts": {}}, "prompts: found no turns; expected at least one"),
        ({"prompts": {"1st": {"role": "x"}}}, 'prompts.1st: found "1st"; expected turn_1, turn_2 and so on'),
        ({"prompts": {"turn_1": {"context_from": [1.5]}}}, "context_from[0]: found 1.5; expected the number of a turn"),
        ({"prompts": {"turn_1": {"context_from": [1]}}}, "context_from: found turn_1; expected an earlier turn"),
        ({"prompts": {"turn_1": {"template": "{turn_1}"}}}, "(prompts.turn_1): found {turn_1}; expected an earlier"),
        ({"prompts": {"turn_1": {"requires": "wit"}}}, 'requires: found "wit"; expected a list'),
        ({"prompts": {"turn_1": {"temperature": 9}}}, "temperature (prompts.turn_1): found 9"),
        ({"overrides": {"turn_7": {}}}, "overrides.turn_7: found a turn to change that does not exist"),
        ({"additional_turns": {"turn_1": {}}}, "additional_turns.turn_1: found a turn that exists already"),
        ({"phases": [{"prompts": {"turn_1": {}}}]}, "phases[0].prompts.turn_1: found a turn that exists already"),
        ({"name": 3}, "name: found 3; expected text"),
        ({"context_compression": "all"}, 'context_compression: found "all"; expected relevant_only or none'),
        ({"convergence_threshold": 85}, "convergence_threshold: found 85; expected at most 1"),
        ({"max_turns": 0}, "max_turns: found 0; expected at least 1"),
    ],
)
def test_what_is_wrong_with_a_mode_is_told(change: dict[str, Any], told: str) -> None:
    assert told in refused({**document("name-jury.json"), **change})


def test_what_a_mode_cannot_express_is_named() -> None:
    content = copy.deepcopy(NATIVE["mode"])
    content["steps"][-1]["until"] = {"agreement": 0.9}
    content["demos"] = {"final": [{"inputs": {"question": "Why?"}, "output": "Because."}]}
    content["locked"] = ["steps.answer.prompt"]
    with pytest.raises(PlaybookError) as told:
        export(Playbook.from_document(content), "mode")
    assert {problem.path for problem in told.value.problems} == {
        "steps.turn_4.until.agreement",
        "demos.turn_4",
        "locked",
    }


def test_turns_that_nobody_wrote_are_told() -> None:
    document = {"name": "short", "turns": 5, "prompts": {f"turn_{n}": {"template": "{topic}"} for n in (1, 2)}}
    (warning,) = read(Original(document)).warnings
    assert (warning.path, warning.found) == ("turns", "5, of which 2 are written")


def test_keys_that_a_mode_does_not_have_stay_under_meta_and_in_the_export() -> None:
    mode = {"name": "odd", "mood": "dry", "prompts": {"turn_1": {"template": "{topic}", "requries": ["wit"]}}}
    found = read(Original(mode))
    assert found.playbook.meta == {"mood": "dry", "prompts.turn_1.requries": ("wit",)}
    assert [(problem.path, problem.remedy) for problem in found.warnings] == [
        ("mood", "It is kept under meta and does nothing here."),
        ("prompts.turn_1.requries", "Did you mean requires?"),
    ]
    assert read(Original({**mode, "mood": "wet"})).playbook == found.playbook


def test_turns_in_phases_are_not_cut() -> None:
    mode = {"name": "odd", "max_turns": 1, "phases": [{"prompts": {f"turn_{n}": {"role": "x"} for n in (1, 2)}}]}
    found = read(Original(mode))
    assert len([*found.playbook.all_steps()]) == 2
    assert [problem.path for problem in found.warnings] == ["max_turns"]
