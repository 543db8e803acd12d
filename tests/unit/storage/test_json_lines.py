"""A fact a line, which comes back equal or is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import StoreDamaged
from seedbed.storage.json_lines import fact_from, line_of
from seedbed.storage.paths import read_json
from seedbed.testing import fact

FACT = replace(fact("k", "note", body={"text": "ü\u2028"}, tags=("a",), parents=("p",)), number=3)


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), st.text(min_size=1))
def test_a_fact_comes_back_equal(body: dict[str, object], key: str) -> None:
    told = replace(FACT, body=body, key=key)
    assert fact_from("note", line_of(told)) == told


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        line_of(FACT).replace(b'"number":3', b'"number":"3"'),
        line_of(FACT).replace(b'"key"', b' "key"'),
        line_of(FACT).replace(b'["a"]', b"[1]"),
        line_of(FACT).replace(b'"at":"', b'"at":"x'),
        "ü".encode("latin-1"),
    ],
)
def test_a_line_that_was_written_otherwise_is_refused(line: bytes) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        fact_from("note", line)


@pytest.mark.parametrize("text", ["", "{", "[1]", "7"])
def test_a_file_that_is_no_object_is_damaged(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(StoreDamaged, match=r"x\.json"):
        read_json(path)
