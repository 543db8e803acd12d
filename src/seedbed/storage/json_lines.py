"""Facts and refs as lines of JSON: what was written comes back equal, or is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from seedbed.storage.store import Fact, Json, Ref, canonical, ref_after


def plain_of(item: Ref | Fact) -> Json:
    """A ref or a fact as JSON, without its empty fields."""
    plain = {name: getattr(item, name) for name in item.__slots__} | {"at": item.at.astimezone(UTC).isoformat()}
    return {name: value for name, value in plain.items() if value not in (None, (), {}, "")}


def line_of(fact: Fact) -> bytes:
    plain = plain_of(fact)
    del plain["kind"]
    return canonical(plain).encode() + b"\n"


def fact_from(kind: str, line: bytes) -> Fact:
    """The fact on a line. Raises ValueError, KeyError or TypeError unless it is exactly what `line_of` wrote."""
    plain = json.loads(line.decode())
    fact = Fact(
        kind=kind,
        key=plain["key"],
        subject=plain.get("subject", ""),
        at=datetime.fromisoformat(plain["at"]),
        by=plain.get("by", ""),
        body=plain.get("body", {}),
        value=plain.get("value"),
        parents=tuple(plain.get("parents", ())),
        tags=tuple(plain.get("tags", ())),
        number=plain.get("number", 0),
        link=plain.get("link", ""),
        salt=plain.get("salt", ""),
        commitment=plain.get("commitment", ""),
    )
    texts = (fact.key, fact.subject, fact.by, fact.link, fact.salt, fact.commitment, *fact.tags, *fact.parents)
    if not (isinstance(fact.number, int) and isinstance(fact.body, dict) and all(isinstance(t, str) for t in texts)):
        raise TypeError("a field of it has another type")
    if kind == "move":
        ref_after(fact)
    if line != line_of(fact):
        raise ValueError("its text was changed")
    return fact


def ref_from(plain: Mapping[str, Any]) -> Ref:
    if unknown := plain.keys() - set(Ref.__slots__):
        raise KeyError(*sorted(unknown))
    name, target, version = plain["name"], plain["target"], plain["version"]
    at = datetime.fromisoformat(plain["at"])
    return Ref(name=name, target=target, version=version, at=at, by=plain["by"], because=plain["because"])
