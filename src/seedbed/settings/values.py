"""Values as people write them in the workspace file: shares, times, numbers, quotas, and references to secrets."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from seedbed.documents import A_TIME, duration
from seedbed.settings.secrets import A_REFERENCE, is_reference
from seedbed.settings.section import Expected, Section, require

A_SHARE = "a share above 0 % and up to 100 %, such as 5% or 0.05"


def share(written: object) -> float | None:
    """A share as people write it, 5% or 0.05; None for anything else."""
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


_SHARE_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": r"^\s*\d+(\.\d+)? ?%?\s*$"},
        ]
    }
)
_TIME_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)? (second|minute|hour|day|week)s?$"})
_TIME_TEXT = PlainSerializer(lambda value: f"{value.total_seconds():f} seconds", return_type=str, when_used="json")

TrafficShare: TypeAlias = Annotated[float, BeforeValidator(share), _SHARE_SCHEMA, Expected(A_SHARE)]
HalfShare: TypeAlias = Annotated[
    float, Field(le=0.5), BeforeValidator(share), _SHARE_SCHEMA, Expected(f"{A_SHARE}, and at most a half")
]
Time: TypeAlias = Annotated[timedelta, BeforeValidator(_read_time), _TIME_TEXT, _TIME_SCHEMA, Expected(A_TIME)]
Period: TypeAlias = Annotated[
    timedelta, Field(gt=timedelta(0)), BeforeValidator(_read_time), _TIME_TEXT, _TIME_SCHEMA, Expected(A_TIME)
]
"""A time above zero."""
RunCount: TypeAlias = Annotated[
    int,
    BeforeValidator(_read_runs),
    PlainSerializer(lambda value: f"{value} runs", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d[\d_]* runs?$"}),
    Expected("a number of runs, such as 500 runs"),
]
PositiveCount: TypeAlias = Annotated[int, Field(gt=0), Expected("a whole number above zero")]
NonNegative: TypeAlias = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)], Expected("a number that is not below 0")
]
ErrorRate: TypeAlias = Annotated[float, Field(gt=0, lt=0.5), Expected("a share above 0 and below 0.5, such as 0.05")]
"""The share of decisions that chance may get wrong."""
Fraction: TypeAlias = Annotated[float, Field(gt=0, lt=1), Expected("a share above 0 and below 1, such as 0.9")]


REFERENCE_SCHEMA = {
    "type": "object",
    "properties": {"env": {"type": "string"}, "file": {"type": "string"}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}

SecretReference: TypeAlias = Annotated[
    dict[str, str], BeforeValidator(require(is_reference)), WithJsonSchema(REFERENCE_SCHEMA)
]
"""A reference to a secret: `{env: NAME}` or `{file: PATH}`."""
Secret: TypeAlias = Annotated[SecretReference, Expected(A_REFERENCE, "secret")]
"""A reference, in a place where people might write the secret itself."""
Words: TypeAlias = Annotated[str, AfterValidator(require(str.strip))]
"""A text that is not blank."""


class Quota(Section):
    """The most that can happen within 24 hours. Default: no limit."""

    runs_per_day: int | None = Field(default=None, ge=0)
    usd_per_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)
