"""Playbooks: one content, one digest, whatever file it came from."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playbook_samples import random_edit, random_playbook
from pydantic import ValidationError

from seedbed import documents
from seedbed.errors import PlaybookError
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.storage.store import digest

PLAIN = {"roles": {"writer": {"system": "Summarise in one line."}}}


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, rng)) for key, item in value.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_digest_depends_on_neither_key_order_nor_format(seed: int) -> None:
    rng = random.Random(seed)
    playbook = random_playbook(rng)
    document = shuffled(playbook.document(), rng)
    for text, as_json in [(documents.to_yaml(document), False), (json.dumps(document), True)]:
        again = Playbook.from_document(documents.parse(text, "x", PlaybookError, as_json=as_json).value)
        assert again.digest == playbook.digest
        assert again.document() == playbook.document()


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_different_content_has_a_different_digest(seed: int) -> None:
    rng = random.Random(seed)
    playbook = random_playbook(rng)
    edited = random_edit(playbook, rng)
    assert (edited.content() == playbook.content()) == (edited.digest == playbook.digest)


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=400))
def test_any_text_survives_a_round_trip_through_files(text: str) -> None:
    playbook = Playbook.from_document({"roles": {"writer": {"system": text}}, "meta": {"note": text}})
    for written, as_json in [(playbook.to_yaml(), False), (playbook.to_json(), True)]:
        read = Playbook.from_document(documents.parse(written, "x", PlaybookError, as_json=as_json).value)
        assert read.roles["writer"].system == text
        assert read.meta == {"note": text}
        assert read == playbook


def test_the_digest_is_the_documented_hash_of_the_documented_text() -> None:
    # Whoever changes this renames every playbook anybody ever kept.
    text = 'playbook\n{"roles":{"writer":{"system":"Summarise in one line."}}}'
    expected = hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
    assert Playbook.from_document(PLAIN).digest == f"b2:{expected}"


def test_meta_is_for_people_and_takes_no_part_in_the_digest() -> None:
    noted = Playbook.from_document({**PLAIN, "meta": {"author": "me", "anything": [1, {"goes": True}]}})
    assert noted == Playbook.from_document(PLAIN)
    assert noted.document()["meta"] == {"author": "me", "anything": [1, {"goes": True}]}


def test_defaults_written_out_change_nothing() -> None:
    full = {
        "roles": {"writer": {"system": "Summarise in one line.", "needs": [], "stop": []}},
        "steps": [],
        "locked": [],
    }
    assert Playbook.from_document(full) == Playbook.from_document(PLAIN)


def test_whole_and_broken_numbers_that_are_equal_are_the_same() -> None:
    one = Playbook.from_document({"parameters": {"x": {"value": 1, "low": 0, "high": 2}}})
    other = Playbook.from_document({"parameters": {"x": {"value": 1.0, "low": 0.0, "high": 2.0}}})
    assert one.digest == other.digest


def test_a_playbook_cannot_be_changed() -> None:
    playbook = Playbook.from_document(PLAIN)
    with pytest.raises(ValidationError):
        playbook.program = "x:y"  # type: ignore[misc]


FULL = Playbook.from_document(
    {
        "roles": {"writer": {"system": "Be brief."}},
        "steps": [{"name": "draft", "role": "writer", "prompt": "{question}"}],
        "demos": {"draft": [{"inputs": {"question": "Why?"}, "output": "So."}]},
        "parameters": {"warmth": 0.5},
        "meta": {"by": {"name": "anna"}, "tags": ["a", {"b": 1}]},
    }
)


@pytest.mark.parametrize(
    "mapping",
    [
        FULL.roles,
        FULL.parameters,
        FULL.demos,
        FULL.demos["draft"][0].inputs,
        FULL.meta,
        FULL.meta["by"],
        FULL.meta["tags"][1],
        Playbook.from_document(PLAIN).parameters,
    ],
)
def test_no_mapping_of_a_playbook_can_be_changed(mapping: dict[str, Any]) -> None:
    before = dict(mapping)
    changes: list[Callable[[], object]] = [
        lambda: mapping.__setitem__("x", 1),
        lambda: mapping.__delitem__("x"),
        lambda: mapping.__ior__({"x": 1}),
        lambda: mapping.update(x=1),
        lambda: mapping.setdefault("x", 1),
        lambda: mapping.pop("x", None),
        mapping.popitem,
        mapping.clear,
    ]
    for change in changes:
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert mapping == before


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_is_the_same_and_as_unchangeable(copied: Callable[[Playbook], Playbook]) -> None:
    again = copied(FULL)
    assert again.document() == FULL.document()
    assert again.digest == digest("playbook", again.content())
    with pytest.raises(TypeError, match="cannot be changed"):
        again.parameters["warmth"] = FULL.parameters["warmth"]


def test_a_copy_with_another_value_has_another_digest() -> None:
    assert FULL.digest  # known, so that a copy might carry it along
    changed = FULL.model_copy(update={"program": "my.agent:run"})
    assert changed.digest == digest("playbook", changed.content()) != FULL.digest
    with pytest.raises(TypeError, match="cannot be changed"):
        FULL.model_copy(update={"parameters": {}}).parameters["warmth"] = FULL.parameters["warmth"]


def test_a_document_is_ones_own_copy() -> None:
    document = FULL.document()
    document["meta"]["by"]["name"] = "bert"
    document["parameters"]["warmth"]["value"] = 1
    assert FULL.meta["by"]["name"] == "anna"
    assert FULL.parameter("warmth") == 0.5


STEP = Step(name="draft", role="nobody", prompt="{later.model}")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Playbook(steps=(STEP, STEP)),
        lambda: Playbook.model_validate({"steps": (STEP, STEP)}),
        lambda: Playbook.model_validate_json('{"steps": [{"name": "draft", "role": "nobody", "prompt": "{x.model}"}]}'),
        lambda: FULL.model_copy(update={"steps": (STEP, STEP)}),
    ],
)
def test_every_way_to_make_a_playbook_checks_it_as_a_whole(make: Callable[[], Playbook]) -> None:
    with pytest.raises(PlaybookError, match="one of the roles") as wrong:
        make()
    assert any("which nothing fills" in problem.found for problem in wrong.value.problems)


def test_a_single_role_without_steps_is_a_plan_of_one_step() -> None:
    (group,) = Playbook.from_document(PLAIN).plan
    assert [step.role for step in group] == ["writer"]


def test_inputs_are_what_prompts_name_and_no_step_fills() -> None:
    playbook = Playbook.from_document(
        {
            "roles": {"a": {"system": "About {topic}."}},
            "steps": [
                {"name": "one", "role": "a", "prompt": 'Say {question} as {"json": 1} and {{literal}}'},
                {"name": "two", "role": "a", "prompt": "{one} by {one.model}"},
            ],
        }
    )
    assert playbook.needed_inputs == {"question", "topic"}
    with pytest.raises(PlaybookError, match=r"\{topic\}.*a task input named topic"):
        playbook.check_inputs({"question": "x"})


def test_parameters_may_be_bare_and_whole_ones_come_as_int() -> None:
    playbook = Playbook.from_document({"parameters": {"a": 0.5, "b": {"value": 3, "whole": True}, "c": "x", "d": True}})
    assert [playbook.parameter(name) for name in "abcd"] == [0.5, 3, "x", True]
    assert isinstance(playbook.parameter("b"), int)
    with pytest.raises(PlaybookError, match="one of: a, b, c, d"):
        playbook.parameter("e")


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_published_schema_accepts_every_playbook(seed: int) -> None:
    jsonschema.Draft202012Validator(Playbook.file_schema()).validate(random_playbook(random.Random(seed)).document())


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({"extends": "base", "overrides": {"roles.a.system": "x"}}, True),
        ({"parameters": {"bare": 0.5, "bound": {"value": 1, "high": 2}}, "meta": {"anything": [1]}}, True),
        ({"roles": {"a": {"sistem": "x"}}}, False),
        ({"roles": {"a": {"temperature": "hot"}}}, False),
        ({"colour": "blue"}, False),
    ],
)
def test_the_published_schema_tells_files_apart(document: dict[str, Any], fits: bool) -> None:
    assert jsonschema.Draft202012Validator(Playbook.file_schema()).is_valid(document) is fits


def test_equal_playbooks_are_one_in_sets() -> None:
    assert len({Playbook.from_document(PLAIN), Playbook.from_document({**PLAIN, "meta": {"x": 1}})}) == 1
