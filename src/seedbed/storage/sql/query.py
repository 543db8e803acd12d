"""A Query as SQL, by the access path that touches the fewest rows.

Facts are read in the order of their numbers, mostly a page of the newest. Where dates or words leave only few
candidates, those are looked up; otherwise facts are scanned in order until the page is full.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from seedbed.storage.content import words
from seedbed.storage.sql.database import Database, SqlConnection
from seedbed.storage.store import Query, micros

Selection: TypeAlias = tuple[str, dict[str, Any]]

FEW = 10_000
"""Up to so many facts of a span of time are looked up; scanning a hundred times as many takes as long."""

MANY = 20_000
"""Up to so many contents with the words are listed, or one per fifty facts in a large store; if there are more, each
scanned fact is checked instead."""

WORTH = 13
"""Looking up K contents costs as much as filling a page by scanning when K² is so many times the number of facts."""


@dataclass(frozen=True, slots=True)
class NarrowedQuery:
    """A query, and the only facts, in order, and contents that can match it, where those are few."""

    query: Query
    numbers: Sequence[int] | None = None
    contents: Sequence[int] | None = None


def narrow(db: SqlConnection, database: Database, query: Query) -> NarrowedQuery:
    """Look up the dates and words of a query, as far as that saves reading facts."""
    if query.key is not None or query.keys is not None or query.key_from is not None or query.subject is not None:
        return NarrowedQuery(query)
    contents, numbers = _contents_with_words(db, database, query), _numbers_by_date(db, database, query)
    if numbers is not None:
        query = replace(query, since=None, until=None)
    elif contents is not None and len(contents) ** 2 <= WORTH * max(_count(db), FEW):
        numbers = _numbers_about(db, database, query, contents)
        if numbers is not None:
            query, contents = replace(query, text=None), None
    return NarrowedQuery(query, None if numbers is None else sorted(numbers, reverse=query.newest), contents)


def select_facts(  # noqa: C901 - an if per field of a query
    database: Database, narrowed: NarrowedQuery, columns: Sequence[str], size: int
) -> Selection:
    """The statement, with its parameters, for these columns and the numbers of the next facts, at most `size`."""
    query, numbers, contents = narrowed.query, narrowed.numbers, narrowed.contents
    where = ["f.kind = :kind"]
    parameters: dict[str, Any] = {"kind": query.kind, "size": size}

    def require(condition: str, **values: object) -> None:
        where.append(condition)
        parameters.update(values)

    if query.follow:
        require("f.key = walk.key", key=query.key)
    elif query.key is not None:
        require("f.key = :key", key=query.key)
    if query.keys is not None:
        require(f"f.key {database.texts.format('keys')}", keys=database.list_parameter(query.keys))
    if query.key_from is not None:
        condition, bounds = prefix_condition("f.key", query.key_from)
        where.append(condition)
        parameters |= bounds
    if query.subject is not None:
        require("f.subject = :subject", subject=query.subject)
    if query.by is not None:
        require("f.by = :by", by=query.by)
    if query.since is not None:
        require("f.at >= :since", since=micros(query.since))
    if query.until is not None:
        require("f.at < :until", until=micros(query.until))
    if contents is not None:
        about = "(SELECT c.id FROM content c WHERE c.digest = f.subject)"
        require(f"{about} {database.numbers.format('contents')}", contents=database.list_parameter(contents))
    elif query.text is not None:
        matching = f"SELECT 1 FROM content c CROSS JOIN search WHERE {database.match} AND search.rowid = c.id"
        require(f"EXISTS ({matching} AND c.digest = f.subject)", words=database.match_all(words(query.text)))
    if numbers is not None:
        require(f"f.number {database.numbers.format('numbers')}", numbers=database.list_parameter(numbers))

    path = _path(query, numbers is not None)
    order = "t.number" if path == _TAGGED else "f.number"
    if query.tag is not None:
        tagged = "t.tag = :tag AND t.kind = :kind AND t.number = f.number"
        exists = f"EXISTS (SELECT 1 FROM fact_tags t WHERE {tagged})"
        require(tagged if path == _TAGGED else exists, tag=query.tag)
    down = query.newest or query.follow
    if query.after is not None:
        require(f"{order} < :after" if down else f"{order} > :after", after=query.after)
    ancestry = _ANCESTRY.format(parents=database.parents) if query.follow else ""
    wanted = ", ".join(f"f.{name}" for name in (*columns, "number"))
    return (
        f"{ancestry}SELECT {wanted} FROM {database.pin(path)} WHERE {' AND '.join(where)}"
        f" ORDER BY {order} {'DESC' if down else 'ASC'} LIMIT :size",
        parameters,
    )


def prefix_condition(column: str, prefix: str) -> tuple[str, dict[str, str]]:
    """The condition that a column has this prefix, as a range that an index can answer, and its parameters."""
    bounds = {"beginning": prefix}
    stem = prefix.rstrip(chr(sys.maxunicode))
    if not stem:
        return f"{column} >= :beginning", bounds
    last = ord(stem[-1])
    # The next letter of the alphabet; there are none in the range of the surrogates.
    bounds["beyond"] = stem[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
    return f"{column} >= :beginning AND {column} < :beyond", bounds


_ANCESTRY = (
    "WITH RECURSIVE walk(key) AS (SELECT CAST(:key AS TEXT) UNION SELECT p.value"
    " FROM walk CROSS JOIN facts f CROSS JOIN {parents} WHERE f.kind = :kind AND f.key = walk.key) "
)
_TAGGED = "fact_tags t CROSS JOIN facts f NOT INDEXED"


def _path(query: Query, numbered: bool) -> str:
    """The tables in the order to read them, with the index to use."""
    if query.follow:
        return "walk CROSS JOIN facts f INDEXED BY facts_key"
    if query.key is not None or query.keys is not None or query.key_from is not None:
        return "facts f INDEXED BY facts_key"
    if query.subject is not None:
        return "facts f INDEXED BY facts_subject"
    if numbered:
        return "facts f NOT INDEXED"
    if query.tag is not None:
        return _TAGGED
    return f"facts f INDEXED BY {'facts_kind' if query.by is None else 'facts_by'}"


def _numbers_by_date(db: SqlConnection, database: Database, query: Query) -> list[int] | None:
    if query.since is None and query.until is None:
        return None
    where = ["kind = :kind"]
    parameters: dict[str, Any] = {"kind": query.kind}
    if query.since is not None:
        where.append("at >= :since")
        parameters["since"] = micros(query.since)
    if query.until is not None:
        where.append("at < :until")
        parameters["until"] = micros(query.until)
    path = database.pin("facts INDEXED BY facts_at")
    return _list_numbers(db, f"SELECT number FROM {path} WHERE {' AND '.join(where)}", parameters, FEW)


def _contents_with_words(db: SqlConnection, database: Database, query: Query) -> list[int] | None:
    if query.text is None:
        return None
    parameters = {"words": database.match_all(words(query.text))}
    most = max(MANY, _count(db) // 50)
    return _list_numbers(db, f"SELECT rowid FROM search WHERE {database.match}", parameters, most)


def _numbers_about(db: SqlConnection, database: Database, query: Query, contents: Sequence[int]) -> list[int] | None:
    path = database.pin("content c CROSS JOIN facts f INDEXED BY facts_subject")
    where = f"c.id {database.numbers.format('contents')} AND f.subject = c.digest AND f.kind = :kind"
    parameters = {"kind": query.kind, "contents": database.list_parameter(contents)}
    return _list_numbers(db, f"SELECT f.number FROM {path} WHERE {where}", parameters, FEW)


def _count(db: SqlConnection) -> int:
    """About how many facts there are."""
    return db.execute("SELECT max(number) FROM facts").fetchone()[0] or 0


def _list_numbers(db: SqlConnection, statement: str, parameters: dict[str, Any], most: int) -> list[int] | None:
    """The numbers that a statement selects; None if there are more than `most`."""
    numbers = [number for (number,) in db.execute(f"{statement} LIMIT :most", {**parameters, "most": most + 1})]
    return numbers if len(numbers) <= most else None
