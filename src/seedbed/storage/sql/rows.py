"""Facts, refs and content as rows of a database, and back. A row that cannot be read is StoreDamaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from seedbed.errors import StoreDamaged, StoreError, shown
from seedbed.storage.chain import Binding
from seedbed.storage.store import EPOCH, Content, Digest, Fact, Json, Ref, canonical, from_micros, micros, short

SqlRow: TypeAlias = tuple[Any, ...]

CONTENT = ("digest", "kind", "body", "at")
FACT = ("kind", "key", "subject", "at", "by", "value", "body", "parents", "tags", "link", "salt", "commitment")
REF = ("name", "target", "version", "at", "by", "because")


def to_rows(
    facts: Sequence[Fact], bodies: Sequence[str] | None = None, bindings: Sequence[Binding] | None = None
) -> list[SqlRow]:
    """The `FACT` columns of each fact: with these bindings and bodies as canonical text, or else with its own."""
    bodies = [canonical(fact.body) for fact in facts] if bodies is None else bodies
    bound: Sequence[Binding | Fact] = facts if bindings is None else bindings
    rows: list[SqlRow] = []
    at, moment = EPOCH, 0
    for fact, body, binding in zip(facts, bodies, bound, strict=True):
        if fact.at is not at:  # many happened at once
            at, moment = fact.at, micros(fact.at)
        rows.append(
            (
                fact.kind,
                fact.key,
                fact.subject,
                moment,
                fact.by,
                fact.value,
                body,
                canonical(fact.parents) if fact.parents else None,
                canonical(fact.tags) if fact.tags else None,
                binding.link or None,
                binding.salt or None,
                binding.commitment or None,
            )
        )
    return rows


def to_fact(row: Any) -> Fact:
    kind, key, subject, at, by, value, body, parents, tags, link, salt, commitment, number = row
    try:
        return Fact(
            kind=kind,
            key=key,
            subject=subject,
            at=from_micros(at),
            by=by,
            value=value,
            body=_object(body),
            parents=tuple(json.loads(parents)) if parents else (),
            tags=tuple(json.loads(tags)) if tags else (),
            number=number,
            link=link or "",
            salt=salt or "",
            commitment=commitment or "",
        )
    except (ValueError, TypeError, OverflowError, StoreError):
        raise StoreDamaged(f"{kind} fact {shown(key)} is no longer a whole fact. Restore it from a copy") from None


def to_ref(row: Any) -> Ref:
    name, target, version, at, by, because = row
    try:
        target = json.loads(target) if target else ""
        return Ref(name=name, target=target, version=version, at=from_micros(at), by=by, because=because)
    except (ValueError, TypeError, OverflowError):
        raise StoreDamaged(f"the ref {name} is no longer a whole ref. Restore it from a copy") from None


def to_content(name: Digest, kind: str, body: str) -> Content:
    try:
        return Content(kind, name, _object(body))
    except (ValueError, TypeError):
        raise StoreDamaged(f"{kind} {short(name)} is no longer a JSON object. Restore it from a copy") from None


def _object(body: str) -> Json:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
