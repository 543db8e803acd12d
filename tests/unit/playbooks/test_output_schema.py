"""The structure of answers, as a person writes it and as it is checked."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.playbooks.genes import build, flatten, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.steps.schemas import expand_outputs, read_answer, to_schema, within

ORDER = to_schema({"id": "string", "lines": [{"goods": "string", "pieces": "integer"}]})


def test_fields_with_their_types_are_the_short_form_of_a_schema() -> None:
    assert ORDER["required"] == ["id", "lines"]
    assert ORDER["properties"]["lines"]["items"]["properties"]["pieces"] == {"type": "integer"}
    assert to_schema({"type": "object"}) == {"type": "object"}


@pytest.mark.parametrize(
    ("text", "value", "wrong"),
    [
        ('{"id": "o-1", "lines": []}', {"id": "o-1", "lines": []}, ""),
        ('So: {not this} ```json\n{"id": "o-1", "lines": []}\n```', {"id": "o-1", "lines": []}, ""),
        ('{"id": 1, "lines": []}', None, "answer.id: found 1; 1 is not of type 'string'"),
        ("nothing", None, 'answer: found no JSON object in "nothing"'),
        ('{"id": "o-1", "lin', None, "answer: found no JSON object"),
    ],
)
def test_the_first_object_of_an_answer_counts(text: str, value: Any, wrong: str) -> None:
    read, why = read_answer(text, ORDER)
    assert read == value
    assert why.startswith(wrong)
    assert bool(why) is bool(wrong)


def test_a_path_leads_into_a_value() -> None:
    value = {"lines": [{"goods": "mug"}]}
    assert within(value, "lines.0.goods") == "mug"
    assert [within(value, path) for path in ("lines.1", "lines.x", "id.more")] == [None] * 3


def test_steps_side_by_side_have_outputs_too_and_one_schema_is_one_leaf() -> None:
    steps = [{"together": [{"name": name, "role": "a", "prompt": "x", "output": {"a.b": "string"}} for name in "pq"]}]
    document = {"roles": {"a": {}}, "steps": steps}
    expanded, problems = expand_outputs(document)
    assert problems == []
    assert expanded["steps"][0]["together"][1]["output"]["required"] == ["a.b"]
    playbook = Playbook.from_document(document)
    assert build(flatten(playbook)) == playbook
    assert not any("output" in path for path in genes(playbook))
