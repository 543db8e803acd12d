"""Gates: the entries under `channels.<name>.require` in the workspace file, and the options of the built-in ones.

A gate is written as its name, or as its name with its options: `better`, `{better: {error: 0.01}}`. A gate of your own
is written `module:name`; packages offer gates by name, as entry points of the group `seedbed.gates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SkipValidation,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from seedbed.errors import Problem, shown
from seedbed.plugins import offered, suggestion
from seedbed.settings.section import Expected, Section, problems, refusal
from seedbed.settings.values import ErrorRate, Fraction, NonNegative, PositiveCount, Time, Words

GROUP = "seedbed.gates"
"""The entry points by which a package offers gates: async functions `(request, **options)`, or classes of them."""

TextHazard: TypeAlias = Literal[
    "an order to drop instructions",
    "a way around confirmation",
    "another persona without limits",
    "a request for secrets",
    "marks of a chat template",
    "an escape for a terminal",
    "characters that nobody sees",
    "an address",
    "a block that nobody can read",
]
"""What a changed text may add that could mislead an agent."""
RiskKind: TypeAlias = Literal["tools", "models", "autonomy", "code"]
Occasion: TypeAlias = Literal["always", "rules or roles change"]


def _list_of(kinds: Any) -> Expected:
    return Expected(f"a list with some of: {', '.join(get_args(kinds))}")


class BetterOptions(Section):
    example = "{error: 0.05}"

    error: ErrorRate = 0.05
    agreement: Fraction = 0.6
    replays: bool = False
    metrics: list[str] = Field(default_factory=list)


class NotWorseOptions(Section):
    """A list of `metrics` with one `margin` for all, or a mapping of metrics to margins."""

    example = "{metrics: [safety, cost_usd], margin: 0.01}"

    metrics: Annotated[
        Annotated[dict[str, NonNegative], Field(min_length=1)] | Annotated[list[str], Field(min_length=1)],
        Expected("a list of metrics, or a mapping of metrics to margins, not below 0: {safety: 0.01}"),
    ]
    margin: NonNegative | None = None
    error: ErrorRate = 0.05

    @model_validator(mode="after")
    def _check_margin(self) -> NotWorseOptions:
        if isinstance(self.metrics, list) and self.margin is None:
            raise refusal(Problem("margin", "nothing", "the margin of these metrics, such as 0.01"))
        if isinstance(self.metrics, dict) and self.margin is not None:
            raise refusal(Problem("margin", shown(self.margin), "none, as each metric has one"))
        return self

    @property
    def margins(self) -> Mapping[str, float]:
        if isinstance(self.metrics, list):
            return dict.fromkeys(self.metrics, self.margin or 0)
        return self.metrics


class NoSliceWorseOptions(Section):
    example = "{margin: 0.1, false: 0.1, least: 30}"

    margin: Fraction = 0.1
    false: ErrorRate = 0.1
    least: PositiveCount = 30


class RulesKeptOptions(Section):
    example = "{unless: reviewed}"

    unless: Annotated[Literal["reviewed"], Expected("reviewed")] | None = None


class MaxChangeOptions(Section):
    example = "{number: 0.1, text: 400, since_last_review: 0.3}"

    number: NonNegative | None = None
    text: NonNegative | None = None
    since_last_review: NonNegative | None = None

    @model_validator(mode="after")
    def _check_some(self) -> MaxChangeOptions:
        if self.number is None and self.text is None and self.since_last_review is None:
            raise refusal(Problem("", "no limit", f"some of {self.example}"))
        return self


class ContentOptions(Section):
    example = "{constant: 0.8, offence: 0.5, allow: [an address]}"

    constant: Fraction = 0.8
    offence: Fraction | None = None
    allow: Annotated[tuple[TextHazard, ...], Field(strict=False), _list_of(TextHazard)] = ()


class RiskOptions(Section):
    example = "{impact: 0.5, allow: [models]}"

    impact: NonNegative = 1.0
    allow: Annotated[tuple[RiskKind, ...], Field(strict=False), _list_of(RiskKind)] = ()


class ReviewOptions(Section):
    example = "{when: always, roles: [safety], expires: 30 days}"

    when: Annotated[Occasion, Expected(f"one of: {', '.join(get_args(Occasion))}")] = "always"
    roles: Annotated[tuple[Words, ...], Field(strict=False), Expected("a list of roles, such as [safety]")] = ()
    expires: Time | None = None


class NoOptions(Section):
    example = "{}, as it has no options"


GateOptions: TypeAlias = (
    BetterOptions
    | NotWorseOptions
    | NoSliceWorseOptions
    | RulesKeptOptions
    | MaxChangeOptions
    | ContentOptions
    | RiskOptions
    | ReviewOptions
    | NoOptions
    | timedelta
    | float
    | Mapping[str, Any]
)
"""The options of a built-in gate, or the keyword arguments of another one."""

BUILT_IN: Mapping[str, Any] = {
    "schema": NoOptions,
    "better": BetterOptions,
    "not_worse": NotWorseOptions,
    "no_slice_worse": NoSliceWorseOptions,
    "held_out": NoOptions,
    "rules_kept": RulesKeptOptions,
    "max_change": MaxChangeOptions,
    "cooldown": Time,
    "redundant": NoOptions,
    "content": ContentOptions,
    "risk": RiskOptions,
    "replay_fidelity": Fraction,
    "error_budget": NoOptions,
    "review": ReviewOptions,
}
"""The options of each gate that comes with seedbed."""
NEED_OPTIONS = ("not_worse", "max_change", "cooldown")
"""Gates that need options."""
DEFAULT_GATES = ("better", "held_out", "rules_kept", "content", "no_slice_worse")
"""The default of `require`."""
DEFAULT_FIDELITY = 0.9


class GateSettings(Section):
    """One gate: its name, its options, and how the file writes it."""

    name: str
    options: SkipValidation[GateOptions] = Field(default_factory=NoOptions)
    written: SkipValidation[str | dict[str, Any]]

    @model_validator(mode="before")
    @classmethod
    def _read(cls, item: Any) -> Any:
        if isinstance(item, GateSettings):
            return item
        name, options = next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else (item, None)
        if isinstance(name, str) and name in BUILT_IN and (isinstance(item, dict) or name not in NEED_OPTIONS):
            return {"name": name, "options": _read_options(name, options, isinstance(item, dict)), "written": item}
        others = offered(GROUP) if isinstance(name, str) else {}
        if isinstance(name, str) and (name in others or ":" in name):
            if not isinstance(options, dict | None) or not all(isinstance(key, str) for key in options or ()):
                raise refusal(Problem(name, shown(options), "its options, such as {limit: 80}"))
            return {"name": name, "options": options or {}, "written": item}
        plain = [*(each for each in BUILT_IN if each not in NEED_OPTIONS), *sorted(others)]
        valued = [each for each, options in BUILT_IN.items() if options is not NoOptions]
        expected = f"one of: {', '.join(plain)}; or with a value: {', '.join(valued)}; or module:name"
        near = suggestion(name, [*BUILT_IN, *others]) if isinstance(name, str) and name not in BUILT_IN else ""
        raise refusal(Problem("", shown(item), expected, near))

    @model_serializer
    def _write(self) -> str | dict[str, Any]:
        return self.written

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        names = [name for name in BUILT_IN if name not in NEED_OPTIONS]
        options = {name: _adapter(name).json_schema(ref_template="#/$defs/{model}") for name in BUILT_IN}
        return {
            "anyOf": [
                {"type": "string", "anyOf": [{"enum": names}, {"pattern": r"^[\w.:-]+$"}]},
                {"type": "object", "properties": options, "minProperties": 1, "maxProperties": 1},
            ]
        }


def _read_options(name: str, options: object, is_written: bool) -> Any:
    if not is_written:
        return DEFAULT_FIDELITY if name == "replay_fidelity" else BUILT_IN[name]()
    try:
        return _adapter(name).validate_python(options)
    except ValidationError as wrong:
        section = BUILT_IN[name] if isinstance(BUILT_IN[name], type) else NoOptions
        raise refusal(*problems(wrong, section, options, name)) from None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(BUILT_IN[name])
