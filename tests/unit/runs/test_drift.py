"""Drift: live answers beside the recorded ones."""

from __future__ import annotations

from seedbed.runs.drift import AnswerDrift, add_up, compare_answers


def test_an_answer_differs_where_its_text_its_value_or_a_call_does() -> None:
    recorded = {"text": "a", "value": {"label": "x"}, "calls": [{"id": "c1", "tool": "look", "arguments": {"at": 1}}]}
    same = {**recorded, "cost_usd": 3.0, "calls": [{"id": "other", "tool": "look", "arguments": {"at": 1}}]}
    assert compare_answers("turn", "plan", same, recorded).differ == 0
    for changed, path in (
        ({"text": "b"}, "text"),
        ({"value": {"label": "y"}}, "value.label"),
        ({"calls": [{"id": "c1", "tool": "look", "arguments": {"at": 2}}]}, "calls.0.arguments.at"),
        ({"calls": []}, "calls"),
    ):
        found = compare_answers("turn", "plan", {**recorded, **changed}, recorded)
        assert (found.differ, found.path) == (1, path)


def test_a_tool_that_fails_now_differs_by_its_error() -> None:
    found = compare_answers("call", "look", {"result": None, "error": "gone"}, {"result": None, "error": ""})
    assert found.path == "error"
    assert "gone" in found.now


def test_each_step_is_added_up_with_the_place_where_it_differed_first() -> None:
    def one(name: str, price: int) -> AnswerDrift:
        return compare_answers("call", name, {"result": {"price": price}}, {"result": {"price": 1}})

    found = add_up([one("look", 1), one("find", 1), one("look", 2), one("look", 3)])
    assert [(each.name, each.compared, each.differ, each.path, each.now) for each in found] == [
        ("find", 1, 0, "", ""),
        ("look", 3, 2, "result.price", "2"),
    ]
    assert add_up([*found, one("look", 4)])[1].compared == 4
