"""YAML and JSON: the same values both ways, and clear words for what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed import documents
from seedbed.errors import PlaybookError, SettingsError

text = st.text(st.characters(codec="utf-8"))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
awkward_lines = st.lists(st.text("ab \t#:-'\"\\{}|>é🙂&*!%@`~\x85\u2028", max_size=8), min_size=1, max_size=5).map(
    "\n".join
)


def parsed(text: str, **options: Any) -> Any:
    return documents.parse(text, "x.yaml", PlaybookError, **options).value


@settings(deadline=None)
@given(values)
def test_every_json_value_survives_yaml_and_json(value: object) -> None:
    assert parsed(documents.to_yaml(value)) == value
    assert parsed(documents.to_json(value), as_json=True) == value


@settings(deadline=None)
@given(awkward_lines)
def test_texts_of_several_lines_survive_yaml(text: str) -> None:
    assert parsed(documents.to_yaml({"k": text, "l": [{"n": text}]})) == {"k": text, "l": [{"n": text}]}


def test_multi_line_texts_are_written_as_people_would() -> None:
    assert documents.to_yaml({"prompt": "First.\nSecond."}) == "prompt: |-\n  First.\n  Second.\n"


@pytest.mark.parametrize("word", ["no", "on", "off", "yes", "2026-02-09", "12:30:00", "0x1f", "1_000"])
def test_words_that_old_yaml_misreads_stay_text(word: str) -> None:
    assert parsed(f"key: {word}") == {"key": word}


@pytest.mark.parametrize("word", ["no", "y", "null", "~", "1e3", "0o7", "2026-02-09", "true", "-", ""])
def test_texts_that_look_like_something_else_are_quoted(word: str) -> None:
    assert parsed(documents.to_yaml([word])) == [word]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("a: [1", r"line 2, column 1"),
        ("a: 1\nb: 2\na: 3", r"a: found the same key on lines 1 and 3"),
        ("[" * 5_000, "levels of nesting"),
        ("a: &a [*a]", "alias inside its own anchor"),
        ("a: !!python/object:os.system x", "tagged"),
        ("a: b: c", "line 1"),
        ("? [x]\n: y", "a key that is not text"),
        ("a: *nowhere", "line 1"),
    ],
)
def test_bad_yaml_is_told_with_its_place(bad: str, says: str) -> None:
    with pytest.raises(PlaybookError, match=says):
        parsed(bad)


def test_billion_laughs_are_refused() -> None:
    lines = ["a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for name, before in zip("bcdefghij", "abcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    with pytest.raises(PlaybookError, match="values"):
        parsed("\n".join(lines))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"a": 1', "line 1, column 8"),
        ('{"a": 1, "b": {"a": 1, "a": 2}}', "a: found the same key twice"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "nesting"),
    ],
)
def test_bad_json_is_told_with_its_place(bad: str, says: str) -> None:
    with pytest.raises(PlaybookError, match=says):
        parsed(bad, as_json=True)


def test_missing_oversized_and_undecodable_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing there"):
        documents.read(tmp_path / "none.yaml", SettingsError)
    (tmp_path / "big.yaml").write_text("x: " + "a" * 10_000_000)
    with pytest.raises(SettingsError, match="10,000,003 bytes"):
        documents.read(tmp_path / "big.yaml", SettingsError)
    (tmp_path / "latin.yaml").write_bytes("x: café".encode("latin-1"))
    with pytest.raises(SettingsError, match="not UTF-8"):
        documents.read(tmp_path / "latin.yaml", SettingsError)
    with pytest.raises(SettingsError, match="director"):
        documents.read(tmp_path, SettingsError)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": 1}).encode())
    assert documents.read(tmp_path / "bom.json", PlaybookError).value == {"a": 1}


def test_lines_are_known_by_path() -> None:
    document = documents.parse("a:\n  b:\n    - c: 1\n", "x", PlaybookError)
    assert document.lines["a.b[0].c"] == 3
