"""How FilesStore writes things down: JSON that people can read, and a fact a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seedbed.errors import StoreDamaged, shown
from seedbed.storage.store import Fact, Json, Ref, canonical, moved


def readable(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreDamaged(
            f"{path}: found {error}; expected JSON. Restore the file from a copy of the store"
        ) from error
    if not isinstance(value, dict):
        raise StoreDamaged(f"{path}: found {shown(value)}; expected a JSON object. Restore the file")
    return value


def plain_of(told: Ref | Fact) -> Json:
    """A ref or a fact as JSON can hold it, without what it leaves empty."""
    plain = {name: getattr(told, name) for name in told.__slots__} | {"at": told.at.astimezone(UTC).isoformat()}
    return {name: value for name, value in plain.items() if value not in (None, (), {}, "")}


def to_line(fact: Fact) -> bytes:
    plain = plain_of(fact)
    del plain["kind"]
    return canonical(plain).encode() + b"\n"


def from_line(kind: str, line: bytes) -> Fact:
    told = {"subject": "", "by": "", "tags": (), "parents": ()} | json.loads(line.decode())
    lists = {name: tuple(told[name]) for name in ("tags", "parents")}
    fact = Fact(kind=kind, **told | lists | {"at": datetime.fromisoformat(told["at"])})
    texts = (fact.key, fact.subject, fact.by, fact.link, *fact.tags, *fact.parents)
    if not (isinstance(fact.number, int) and isinstance(fact.body, dict) and all(isinstance(t, str) for t in texts)):
        raise TypeError("a part of it is of another type")
    if kind == "move":
        moved(fact)
    if line != to_line(fact):
        raise ValueError("it was written otherwise")
    return fact
