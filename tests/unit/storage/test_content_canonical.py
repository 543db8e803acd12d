"""The quick way to the one text of a value is the same as the slow one."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import StoreError
from seedbed.storage import content as module
from seedbed.storage.content import canonical, digest, digest_of_text

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_the_quick_way_gives_what_the_slow_one_gives(value: Any) -> None:
    assert module._quick(value) == module._plain(value, "$")
    assert json.loads(canonical(value)) == json.loads(json.dumps(value))


class Text(str):
    """A text that is not quite one."""


@pytest.mark.parametrize("value", [{1: "x"}, {None: 1}, object(), {1, 2}, float("nan"), "\ud800", {"\ud800": 1}, b"x"])
def test_what_has_no_text_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(StoreError, match=r"\$\.deep\[0\]"):
        canonical({"deep": [value]})


def test_subclasses_count_as_what_they_are() -> None:
    assert canonical({Text("a"): Text("b")}) == '{"a":"b"}'


def test_the_kind_is_part_of_the_name() -> None:
    assert digest("playbook", {}) != digest("dataset", {})
    assert digest("playbook", {"a": 1.0, "b": 2}) == digest("playbook", {"b": 2, "a": 1})


@pytest.mark.parametrize("size", [0, 1, 1_990, 2_000, 4_001, 99_000, 199_999, 200_000, 500_000])
def test_a_digest_is_the_same_however_the_text_is_hashed(size: int) -> None:
    text = ("é" + "x" * 998) * (size // 999) + "x" * (size % 999)
    assert digest_of_text("k", text) == "b2:" + blake2b(f"k\n{text}".encode(), digest_size=32).hexdigest()
