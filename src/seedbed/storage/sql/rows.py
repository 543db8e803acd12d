"""What the rows of a database say: facts, refs and content, or that they were damaged."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from seedbed.errors import StoreDamaged, StoreError, shown
from seedbed.storage.store import Content, Digest, Fact, Json, Ref, from_micros, short


def to_fact(row: Any) -> Fact:
    kind, key, subject, at, by, value, body, parents, tags, link, number = row
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


def digest_of(kind: str, body: str) -> Digest:
    """The digest of content whose text is canonical."""
    return "b2:" + hashlib.blake2b(f"{kind}\n{body}".encode(), digest_size=32).hexdigest()


def _object(body: str) -> Json:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
