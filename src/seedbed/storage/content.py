"""Content: a JSON document, its canonical text, the digest that names it, and the words it is found by."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, NoReturn, TypeAlias

from seedbed.errors import StoreError, shown

Json: TypeAlias = dict[str, Any]
Digest: TypeAlias = str


def canonical(body: object) -> str:
    """The one text of a JSON value: sorted keys, no spaces, no escapes, 1.0 written as 1.

    Raises StoreError for what JSON cannot hold: NaN, infinities, keys that are not text, lone surrogates.
    """
    try:
        try:
            plain = _quick(body)
        except (TypeError, UnicodeEncodeError):
            plain = _plain(body, "$")
        return _encode(plain)
    except RecursionError:
        raise StoreError("found a value nested hundreds of levels deep or within itself; expected flat JSON") from None
    except ValueError:
        raise StoreError("found an integer of thousands of digits; expected one of at most 4,300") from None


def _encode(plain: object) -> str:
    return encode_basestring(plain) if type(plain) is str else "".join(_pieces(plain, 0))


# JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")) builds this for every text, which takes as long
# as the encoding: no markers, no default, no indent, and no keys to skip or NaN, as `_quick` lets none pass.
_pieces = c_make_encoder(None, None, encode_basestring, None, ":", ",", True, False, False)


def _quick(value: Any) -> Any:
    """`_plain` without paths, which is faster. Raises TypeError or UnicodeEncodeError where `_plain` must explain."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            value.encode()
        return value
    if kind is dict:
        # Most keys and items need no call of their own, which would take longer than all else here.
        return {
            key if type(key) is str and key.isascii() else _key(key): item
            if (kind := type(item)) is int or (kind is str and item.isascii())
            else 0
            if kind is float and item == 0
            else _quick(item)
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [item if type(item) is str and item.isascii() else _quick(item) for item in value]
    if kind is int or kind is bool or value is None:
        return value
    if kind is float and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return _give_up()


def _key(key: Any) -> Any:
    return _quick(key) if type(key) is str else _give_up()


def _give_up() -> NoReturn:
    raise TypeError


def _plain(value: object, path: str) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise StoreError(f"{path}: found a lone surrogate; expected valid Unicode text") from None
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StoreError(f"{path}: found {value}; expected a finite number, JSON has no other")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise StoreError(f"{path}: found the key {shown(key)}; expected text, JSON has no other keys")
        return {str(_plain(key, path)): _plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise StoreError(f"{path}: found {type(value).__name__}; expected a JSON value")


HASHED_AT_ONCE = 200_000
"""From so many bytes on, hashing takes so long that other threads should run meanwhile."""


def digest(kind: str, body: object) -> Digest:
    """The name of content: its kind and canonical JSON under BLAKE2b, tagged with the algorithm."""
    return digest_of_text(kind, canonical(body))


def digest_of_text(kind: str, text: str) -> Digest:
    """The name of content whose text is canonical already."""
    data = f"{kind}\n{text}".encode()
    # Python lets other threads run while it hashes more than two kilobytes, and gets its turn back when they let it: an
    # event loop would stand still for milliseconds at each request.
    piece = 2_000 if len(data) < HASHED_AT_ONCE else len(data)
    hashed = hashlib.blake2b(data[:piece], digest_size=32)
    for start in range(piece, len(data), piece):
        hashed.update(data[start : start + piece])
    return f"b2:{hashed.hexdigest()}"


def short(name: str) -> str:
    """A digest or an id as people see it: ten characters, or those of an id that say its time."""
    return name.removeprefix("b2:")[: 17 if name.startswith("t") else 10]


def is_sealed(body: object) -> bool:
    """Whether a body is encrypted, so that its digest cannot be derived without the key."""
    return isinstance(body, dict) and body.keys() == {"sealed"}


@dataclass(frozen=True, slots=True)
class Content:
    """One piece of content with its name."""

    kind: str
    digest: Digest
    body: Json

    @property
    def intact(self) -> bool:
        """Whether the body matches the digest. A sealed body passes, as nobody can tell without the key."""
        try:
            return is_sealed(self.body) or digest(self.kind, self.body) == self.digest
        except StoreError:
            return False


# Search: every store splits and folds texts in the same way, so that all find the same content.

SEARCHED_CHARACTERS = 100_000
"""How much of a text is searched."""

# Longer words are split: PostgreSQL takes none of more than 2,046 bytes.
_WORD = re.compile(r"[^\W_]{1,200}")


def words(text: str) -> list[str]:
    """The words of a text, in order and in lower case."""
    return _WORD.findall(text[:SEARCHED_CHARACTERS].casefold())


def words_of(body: object) -> list[str]:
    """The words in all texts of a body, without its keys. A sealed body has none."""
    return [] if is_sealed(body) else words("\n".join(filter(None, _texts(body))))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
