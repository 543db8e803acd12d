"""Whatever was written elsewhere comes back equal, also from a store and after edits."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from format_samples import ANY, DOCUMENTS, back, document, edited, modes, through_a_store, values
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.playbooks.formats import FORMATS, export, import_document, load_foreign, recognise


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_example_comes_back_equal_to_the_letter(path: Path) -> None:
    assert json.dumps(back(load_foreign(path))) == json.dumps(document(path.name))


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(data=st.data())
@settings(deadline=None)
def test_any_document_is_recognised_and_comes_back_equal_even_from_a_store(name: str, data: st.DataObject) -> None:
    given_document = data.draw(ANY[name])
    before = copy.deepcopy(given_document)
    assert recognise(given_document) == name
    found = import_document(given_document)
    assert back(found) == before
    assert back(found, refs=tuple(found.refs)) == before
    playbook, notes = through_a_store(found)
    assert export(playbook, name, notes) == before
    assert given_document == before


@pytest.mark.parametrize("name", sorted(FORMATS))
@given(data=st.data())
@settings(deadline=None)
def test_edits_after_import_are_in_the_export(name: str, data: st.DataObject) -> None:
    found = import_document(data.draw(ANY[name]))
    playbook = edited(found.playbook, data)
    assert values(import_document(back(found, playbook)).playbook) == values(playbook)


@given(parent=modes(limited=False), data=st.data())
@settings(deadline=None)
def test_a_mode_that_extends_another_comes_back_equal_without_the_other(parent: dict[str, Any], data: Any) -> None:
    names = sorted(parent["prompts"])
    child = {
        "name": "child",
        "extends": "parent",
        "overrides": {data.draw(st.sampled_from(names)): {"template": "Now {topic}.", "context_from": []}},
        "additional_turns": {"turn_9": {"role": "closing", "template": "Close.", "context_from": [1]}},
    }
    if "turns" in parent:
        child["turns"] = 9
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "parent.json").write_text(json.dumps(parent))
        Path(folder, "child.json").write_text(json.dumps(child))
        found = load_foreign(Path(folder, "child.json"))
    playbook, notes = through_a_store(found)
    assert export(playbook, "mode", notes) == child
    steps = {step.name: step for step in found.playbook.all_steps()}
    assert steps.keys() == {*names, "turn_9"}
    assert steps[next(iter(child["overrides"]))].prompt == "Now {topic}."


UUID = "e3e70682-c209-4cac-629f-6fbed82c07cd"


@pytest.mark.parametrize("scores", [{"a": 0.0}, {"a": None}])
def test_a_metric_in_two_sections_is_that_of_the_first(scores: dict[str, float | None]) -> None:
    whole: dict[str, Any] = {
        "profile_id": UUID,
        "scores": scores,
        "performance": {"a": 0.0},
        "worker": {"system_prompt": "Answer."},
    }
    found = import_document(copy.deepcopy(whole))
    assert [note.kind for note in found.facts].count("score") == sum(value is not None for value in scores.values())
    playbook, notes = through_a_store(found)
    assert export(playbook, "profile", notes) == whole
