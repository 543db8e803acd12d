"""Redaction: texts without the secrets that can be told by how they look."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

REDACTED = "[secret]"
"""What stands in a record in place of a secret."""

_HINTS = (
    *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat", "glpat", "xox"),
    *("akia", "asia", "aiza", "ya29", "eyj", "begin", "://", "key", "token", "secret", "passw", "bearer"),
)
"""What every secret has that is found in a text, in small letters: one quick look, as most texts have none."""
_IN_TEXT = re.compile(
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{20,}|gh[opsur]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[\w-]{18,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|eyJ[\w-]{8,500}\.eyJ[\w-]{8,4000}\.[\w-]{8,}"
    r")"
)
_URL_WITH_PASSWORD = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:\"']{0,200}:)([^\s/@\"']{1,200})(?=@)")
_NAMED = re.compile(
    r"(?i)(key|token|secret|password|passwd|bearer)"
    r"([\"']?[ \t]{0,3}(?:[:=]|\bis\b)?[ \t]{0,3}[\"']?)([A-Za-z0-9+/_.=~-]{20,500})"
)
BITS = 3.5
"""The fewest bits of information in each character of a value that its name calls a secret: words have fewer."""


SHORTEST = 15
"""No secret that is found in a text has fewer characters, but for a password in a URL."""


def redact(text: str) -> str:
    """A text without the secrets that can be told by how they look: keys, tokens, private keys, passwords in URLs."""
    if len(text) < SHORTEST and "://" not in text:  # names of fields, mostly
        return text
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    text = _URL_WITH_PASSWORD.sub(rf"\1{REDACTED}", _IN_TEXT.sub(REDACTED, text))
    return _NAMED.sub(lambda match: f"{match[1]}{match[2]}{REDACTED}" if _is_random(match[3]) else match[0], text)


_redact_key = lru_cache(maxsize=1_000)(redact)
"""Names of fields come again and again."""

_PLAIN = {int, float, bool, type(None)}


def redacted(value: Any) -> Any:
    """A JSON value in which every text is redacted."""
    if type(value) in _PLAIN:  # most values
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict | Mapping):
        return {_redact_key(key) if isinstance(key, str) else key: redacted(item) for key, item in value.items()}
    return [redacted(item) for item in value] if isinstance(value, list | tuple) else value


def _is_random(text: str) -> bool:
    counts = Counter(text).values()
    return sum(-n / len(text) * math.log2(n / len(text)) for n in counts) >= BITS and any(map(str.isdigit, text))
