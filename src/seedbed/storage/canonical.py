"""The one text of a JSON value, and the name that its hash gives it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from seedbed.errors import StoreError, shown


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


# What JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")) makes anew for each text, which takes as
# long as the text itself: no markers, no default, no indent, and neither keys to skip nor NaN, as `_quick` found none.
_pieces = c_make_encoder(None, None, encode_basestring, None, ":", ",", True, False, False)


def _quick(value: Any) -> Any:
    """What `_plain` gives for nearly every value, without minding where it is; else it takes a closer look."""
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
    return _odd()


def _key(key: Any) -> Any:
    return _quick(key) if type(key) is str else _odd()


def _odd() -> NoReturn:
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


def digest(kind: str, body: object) -> str:
    """The name of content: its kind and canonical JSON under BLAKE2b, tagged with the algorithm."""
    return "b2:" + hashlib.blake2b(f"{kind}\n{canonical(body)}".encode(), digest_size=32).hexdigest()
