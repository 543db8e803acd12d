"""What does not fit a JSON Schema is named by its place."""

from __future__ import annotations

import pytest

from seedbed.playbooks.steps.schemas import check_schema, misfit, misfits

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "items": {"type": "array", "items": {"type": "integer"}}},
    "required": ["id"],
}


def test_the_first_place_that_does_not_fit_is_named() -> None:
    assert misfit({"id": "o-1", "items": [1, 2]}, ORDER, "arguments") == ""
    assert misfit({"id": "o-1", "items": [1, "x"]}, ORDER, "arguments") == (
        "arguments.items[1]: found \"x\"; 'x' is not of type 'integer'"
    )
    assert misfit({}, ORDER, "answer") == "answer: found {}; 'id' is a required property"
    assert [each.path for each in misfits({"id": 1, "items": ["x"]}, ORDER)] == ["$.id", "$.items[0]"]


def test_a_schema_that_is_none_is_refused_and_nothing_is_fetched() -> None:
    with pytest.raises(ValueError, match="schema: 'txt' is not valid"):
        check_schema({"type": "txt"})
    check_schema(ORDER)
    with pytest.raises(Exception, match="Unresolvable"):
        misfits({}, {"$ref": "http://127.0.0.1:1/schema"})
