"""Rows of a database: what is written is read back, and a row that was damaged says which one it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seedbed.errors import StoreDamaged
from seedbed.storage.sql.rows import FACT, to_content, to_fact, to_ref, to_rows
from seedbed.testing import fact

NAME = "b2:" + "1" * 64


def test_a_fact_comes_back_as_it_was() -> None:
    facts = [fact(key="a", tags=("x", "y")), fact(key="b", value=0.5, body={"words": ["ä", 1, None]})]
    rows = to_rows(facts)
    assert {len(row) for row in rows} == {len(FACT)}
    assert [to_fact((*row, number)) for number, row in enumerate(rows, 1)] == [
        replace(each, number=number) for number, each in enumerate(facts, 1)
    ]


@pytest.mark.parametrize(
    ("column", "value"), [("body", "[1]"), ("body", "{"), ("at", None), ("tags", "{"), ("at", 1e300)]
)
def test_a_damaged_fact_is_named(column: str, value: Any) -> None:
    (row,) = to_rows([fact(key="a")])
    damaged = [value if name == column else cell for name, cell in zip(FACT, row, strict=True)]
    with pytest.raises(StoreDamaged, match='fact "a" is no longer a whole fact'):
        to_fact((*damaged, 1))


def test_a_damaged_ref_and_damaged_content_are_named() -> None:
    with pytest.raises(StoreDamaged, match="the ref channels/production is no longer a whole ref"):
        to_ref(("channels/production", "{", 1, 0, "ada", ""))
    with pytest.raises(StoreDamaged, match="note 1111111111 is no longer a JSON object"):
        to_content(NAME, "note", "7")
