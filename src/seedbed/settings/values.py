"""Values as people write them in the workspace file: shares, times, numbers of runs, and references to secrets."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from seedbed.documents import A_TIME, duration
from seedbed.settings.secrets import A_REFERENCE, is_reference
from seedbed.settings.section import Expected

A_SHARE = "a share above 0 % and up to 100 %, such as 5% or 0.05"


def share(written: object) -> float | None:
    """A share as people write it, 5% or 0.05; None if it is none."""
    if isinstance(written, str) and (match := re.fullmatch(r"(\d+(?:\.\d+)?) ?(%?)", written.strip())):
        value = float(match[1]) / (100 if match[2] else 1)
    elif isinstance(written, int | float) and not isinstance(written, bool):
        value = float(written)
    else:
        return None
    return value if math.isfinite(value) and 0 < value <= 1 else None


def _read_runs(written: object) -> int | None:
    match = re.fullmatch(r"(\d[\d_]*) runs?", written) if isinstance(written, str) else None
    return int(match[1]) if match else None


def _read_time(written: object) -> timedelta | None:
    return written if isinstance(written, timedelta) else duration(written)


def _write_time(value: timedelta) -> str:
    return f"{value.total_seconds():f} seconds"


_SHARE_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": r"^\s*\d+(\.\d+)? ?%?\s*$"},
        ]
    }
)
_TIME_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)? (second|minute|hour|day|week)s?$"})
_TIME_TEXT = PlainSerializer(_write_time, return_type=str, when_used="json")

Share: TypeAlias = Annotated[float, BeforeValidator(share), _SHARE_SCHEMA, Expected(A_SHARE)]
HalfShare: TypeAlias = Annotated[
    float, Field(le=0.5), BeforeValidator(share), _SHARE_SCHEMA, Expected(f"{A_SHARE}, and at most a half")
]
Time: TypeAlias = Annotated[timedelta, BeforeValidator(_read_time), _TIME_TEXT, _TIME_SCHEMA, Expected(A_TIME)]
Period: TypeAlias = Annotated[
    timedelta, Field(gt=timedelta(0)), BeforeValidator(_read_time), _TIME_TEXT, _TIME_SCHEMA, Expected(A_TIME)
]
"""A time that takes a while."""
RunCount: TypeAlias = Annotated[
    int,
    BeforeValidator(_read_runs),
    PlainSerializer(lambda value: f"{value} runs", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d[\d_]* runs?$"}),
    Expected("a number of runs, such as 500 runs"),
]
PositiveCount: TypeAlias = Annotated[int, Field(gt=0), Expected("a whole number above zero")]
Limit: TypeAlias = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)], Expected("a number that is not below 0")
]
Rate: TypeAlias = Annotated[float, Field(gt=0, lt=0.5), Expected("a share above 0 and below 0.5, such as 0.05")]
"""How often chance may mislead."""
Fraction: TypeAlias = Annotated[float, Field(gt=0, lt=1), Expected("a share above 0 and below 1, such as 0.9")]


def _check_reference(value: Any) -> Any:
    if not is_reference(value):
        raise ValueError("no reference")
    return value


def _check_words(value: str) -> str:
    if not value.strip():
        raise ValueError("no words")
    return value


REFERENCE_SCHEMA = {
    "type": "object",
    "properties": {"env": {"type": "string"}, "file": {"type": "string"}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}

SecretReference: TypeAlias = Annotated[
    dict[str, str], BeforeValidator(_check_reference), WithJsonSchema(REFERENCE_SCHEMA)
]
"""Where a secret is to be found: `{env: NAME}` or `{file: PATH}`."""
Secret: TypeAlias = Annotated[SecretReference, Expected(A_REFERENCE, "secret")]
"""A reference, where people are tempted to write the secret itself."""
Words: TypeAlias = Annotated[str, AfterValidator(_check_words)]
"""A text that says something."""

__all__ = [
    "A_SHARE",
    "REFERENCE_SCHEMA",
    "Fraction",
    "HalfShare",
    "Limit",
    "Period",
    "PositiveCount",
    "Rate",
    "RunCount",
    "Secret",
    "SecretReference",
    "Share",
    "Time",
    "Words",
    "share",
]
