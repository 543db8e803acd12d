"""Judges: metrics that ask a model, under `metrics` in the workspace file."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from seedbed.errors import Problem
from seedbed.settings.section import Expected, Missing, Section, refusal, require, unknown_key
from seedbed.settings.values import PositiveCount, Words

JudgeKind: TypeAlias = Literal["rubric", "reference", "debate_quality"]
DebatePart: TypeAlias = Literal["conflict_found", "conflict_resolved", "synthesis"]

_SHARED = ("judge", "model", "max_tokens", "cut_at")
_OWN: dict[str, tuple[str, ...]] = {"rubric": ("rubric", "scale"), "reference": (), "debate_quality": ("part",)}
"""The keys specific to each kind of judge."""


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


_A_RUBRIC = "the question to the judge: a text, or a list of them"
_Rubric = Annotated[
    tuple[Words, ...],
    Field(strict=False, min_length=1),
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    Expected(_A_RUBRIC),
]
_Scale = Annotated[
    tuple[int, int],
    Field(strict=False),
    AfterValidator(require(lambda scale: scale[0] < scale[1] <= scale[0] + 100)),
    Expected("the worst and the best mark, such as [1, 5]"),
]


class JudgeSettings(Section):
    """A judge, the model it asks, and the keys for its kind."""

    example = '{judge: rubric, model: strong, rubric: "Does it answer the question?"}'

    judge: Annotated[JudgeKind, Expected(f"one of: {', '.join(get_args(JudgeKind))}")]
    model: Annotated[Words, Expected("the name of a model")] = "judge"
    max_tokens: PositiveCount = 1_000
    cut_at: PositiveCount = 12_000
    rubric: _Rubric | None = None
    scale: _Scale | None = None
    part: Annotated[DebatePart, Expected(f"one of: {', '.join(get_args(DebatePart))}")] | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> JudgeSettings:
        own = _OWN[self.judge]
        wrong: list[Problem] = [
            unknown_key(key, key, (*_SHARED, *own))
            for key in ("rubric", "scale", "part")
            if key not in own and getattr(self, key) is not None
        ]
        if self.judge == "rubric" and self.rubric is None:
            wrong.append(Missing("rubric", "nothing", _A_RUBRIC))
        if wrong:
            raise refusal(*wrong)
        return self
