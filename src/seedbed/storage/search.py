"""Search: a Query as SQL, along the path that touches the fewest rows.

Facts are asked for in the order of their numbers, mostly a page of the newest. Where dates or words leave only few
candidates, those are looked up; otherwise facts are walked in order until the page is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import Connection, TextClause, text

from seedbed.storage.dialects import FACT, Dialect, terms
from seedbed.storage.store import Query, micros

Selection: TypeAlias = tuple[TextClause, dict[str, Any]]

FEW = 10_000
"""Up to so many candidates are looked up; walking past a hundred times as many facts takes as long."""


def selection(dialect: Dialect, query: Query, size: int, numbers: Sequence[int] | None = None) -> Selection:
    """The statement for the next facts of a query, at most `size`, and its parameters.

    With `numbers`, only facts of those numbers are looked at.
    """
    where = ["f.kind = :kind"]
    given: dict[str, Any] = {"kind": query.kind, "size": size}

    def require(condition: str, **values: object) -> None:
        where.append(condition)
        given.update(values)

    if query.follow:
        require("f.key = walk.key", key=query.key)
    elif query.key is not None:
        require("f.key = :key", key=query.key)
    if query.keys is not None:
        require(f"f.key IN {dialect.texts}", texts=dialect.given(query.keys))
    if query.key_from is not None:
        end = f"{query.key_from}\U0010ffff"
        require("f.key >= :key_from AND f.key < :key_end", key_from=query.key_from, key_end=end)
    if query.subject is not None:
        require("f.subject = :subject", subject=query.subject)
    if query.by is not None:
        require("f.by = :by", by=query.by)
    # The plus keeps dates from choosing the path: `candidates` has done that.
    if query.since is not None:
        require("+f.at >= :since", since=micros(query.since))
    if query.until is not None:
        require("+f.at < :until", until=micros(query.until))
    if query.text is not None:
        matching = f"SELECT 1 FROM content c CROSS JOIN search WHERE {dialect.match} AND search.rowid = c.id"
        require(f"EXISTS ({matching} AND c.digest = f.subject)", words=dialect.all_of(terms(query.text)))
    if numbers is not None:
        require(f"f.number IN {dialect.numbers}", numbers=dialect.given(numbers))

    path = _path(query, numbers is not None)
    order = "t.number" if path == _TAGGED else "f.number"
    if query.tag is not None:
        tagged = "t.tag = :tag AND t.kind = :kind AND t.number = f.number"
        exists = f"EXISTS (SELECT 1 FROM fact_tags t WHERE {tagged})"
        require(tagged if path == _TAGGED else exists, tag=query.tag)
    down = query.newest or query.follow
    if query.after is not None:
        require(f"{order} < :after" if down else f"{order} > :after", after=query.after)
    ancestry = _ANCESTRY.format(parents=dialect.parents) if query.follow else ""
    columns = ", ".join(f"f.{name}" for name in (*FACT, "number"))
    return text(
        f"{ancestry}SELECT {columns} FROM {dialect.pinned(path)} WHERE {' AND '.join(where)}"
        f" ORDER BY {order} {'DESC' if down else 'ASC'} LIMIT :size"
    ), given


_ANCESTRY = (
    "WITH RECURSIVE walk(key) AS (SELECT CAST(:key AS TEXT) UNION SELECT p.value"
    " FROM walk CROSS JOIN facts f CROSS JOIN {parents} WHERE f.kind = :kind AND f.key = walk.key) "
)
_TAGGED = "fact_tags t CROSS JOIN facts f"


def _path(query: Query, numbered: bool) -> str:
    """The tables in the order to go through them, with the index to take."""
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


def candidates(db: Connection, dialect: Dialect, query: Query) -> list[int] | None:
    """The numbers of the facts that a query's dates or words leave, in its order; None if many or not asked by them."""
    if query.key is not None or query.keys is not None or query.key_from is not None or query.subject is not None:
        return None
    numbers = _dated(db, dialect, query)
    if numbers is None:
        numbers = _worded(db, dialect, query)
    return None if numbers is None else sorted(numbers, reverse=query.newest)


def _dated(db: Connection, dialect: Dialect, query: Query) -> list[int] | None:
    if query.since is None and query.until is None:
        return None
    where, given = ["kind = :kind"], {"kind": query.kind, "most": FEW + 1}
    if query.since is not None:
        where.append("at >= :since")
        given["since"] = micros(query.since)
    if query.until is not None:
        where.append("at < :until")
        given["until"] = micros(query.until)
    path = dialect.pinned("facts INDEXED BY facts_at")
    return _few(db, f"SELECT number FROM {path} WHERE {' AND '.join(where)} LIMIT :most", given)


def _worded(db: Connection, dialect: Dialect, query: Query) -> list[int] | None:
    if query.text is None:
        return None
    given = {"kind": query.kind, "words": dialect.all_of(terms(query.text)), "most": FEW + 1}
    if _few(db, f"SELECT rowid FROM search WHERE {dialect.match} LIMIT :most", given) is None:
        return None
    path = dialect.pinned("search CROSS JOIN content c CROSS JOIN facts f INDEXED BY facts_subject")
    about = "c.id = search.rowid AND f.subject = c.digest AND f.kind = :kind"
    return _few(db, f"SELECT f.number FROM {path} WHERE {dialect.match} AND {about} LIMIT :most", given)


def _few(db: Connection, statement: str, given: dict[str, Any]) -> list[int] | None:
    numbers = list(db.scalars(text(statement), given))
    return numbers if len(numbers) <= FEW else None
