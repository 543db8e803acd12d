"""Plain values that nobody can change."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from seedbed.playbooks.values import ReadOnly, freeze, is_number, thaw

VALUE: dict[str, Any] = {"a": [1, {"b": "c"}]}


@pytest.mark.parametrize(("value", "answer"), [(1, True), (0.5, True), (True, False), ("1", False), (None, False)])
def test_true_and_false_are_no_numbers(value: object, answer: bool) -> None:
    assert is_number(value) is answer


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.__setitem__("a", 1),
        lambda it: it.__delitem__("a"),
        lambda it: it.update(a=1),
        lambda it: it.pop("a"),
        lambda it: it.setdefault("b", 1),
        lambda it: it.clear(),
    ],
)
def test_a_read_only_mapping_refuses_every_change(change: Any) -> None:
    it = ReadOnly({"a": 1})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(it)
    assert it == {"a": 1}


def test_it_can_be_copied_sent_and_thawed() -> None:
    it = freeze(VALUE)
    assert it["a"] == (1, {"b": "c"})
    assert pickle.loads(pickle.dumps(it)) == copy.deepcopy(it) == it
    assert thaw(it) == VALUE
