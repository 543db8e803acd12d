"""Channels: what protects each one, under `channels` in the workspace file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from seedbed.errors import Problem, shown
from seedbed.settings.gates import DEFAULT_GATES, BetterOptions, GateSettings, ReviewOptions
from seedbed.settings.section import Expected, Missing, Section, refusal, require
from seedbed.settings.values import ErrorRate, HalfShare, Period, Quota, RunCount, TrafficShare, Words

Reviewers: TypeAlias = Annotated[
    dict[str, Annotated[tuple[Words, ...], Field(strict=False)]],
    Expected("people and their roles: {ann: [safety]}"),
]

# The error budget

BudgetControl: TypeAlias = Literal["lord", "e-lond"]


class ErrorBudgetSettings(Section):
    """A channel's false discovery rate, and the method that controls it. A plain number is the rate."""

    short_form: ClassVar[Mapping[str, Any]] = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}

    rate: ErrorRate = 0.05
    control: Annotated[BudgetControl, Expected(f"one of: {', '.join(get_args(BudgetControl))}")] = "lord"

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if isinstance(value, int | float):
            return {"rate": value}
        if not isinstance(value, dict | ErrorBudgetSettings):
            raise refusal(Problem("", shown(value), "a rate such as 0.05, or {rate: RATE, control: CONTROL}"))
        return value


class AttemptSettings(Section):
    """How all attempts to replace what a channel serves share one error rate."""

    example = "{first: 0.9375}"

    first: TrafficShare = 15 / 16
    """The share of the first attempt; all later ones divide the rest."""


# Guards

RUN_METRICS = ("error_rate", "violation_rate", "latency_seconds", "cost_usd")
"""Metrics that seedbed measures for every run; lower is better. All others come from feedback with that name."""
_UNBOUNDED = ("latency_seconds", "cost_usd")
_A_GUARD = "a change such as -0.05 (for what should be high) or +0.02 (for what should be low)"
_BOUNDED = "{by: +1, most: 20}: more than the most counts as the most"


class GuardSettings(Section):
    """The largest change for the worse that is allowed. Values above `most` count as `most`."""

    short_form: ClassVar[Mapping[str, Any]] = {"type": "number"}

    by: float
    most: float = 1.0


def _read_guards(value: object) -> object:
    """Which changes a guard allows depends on its metric."""
    if not isinstance(value, dict):
        example = "a mapping of metrics such as {rating: -0.05, error_rate: +0.02}"
        raise refusal(Problem("", shown(value), example))
    guards = {metric: _read_guard(str(metric), guard) for metric, guard in value.items()}
    if wrong := [guard for guard in guards.values() if isinstance(guard, Problem)]:
        raise refusal(*wrong)
    return guards


def _read_guard(metric: str, value: Any) -> GuardSettings | Problem:
    if isinstance(value, GuardSettings):
        return value
    by, most = value, 1.0
    if isinstance(value, Mapping):
        if not value.keys() <= {"by", "most"}:
            return Problem(metric, shown(value), _BOUNDED)
        if "by" not in value:
            return Missing(metric, shown(value), _BOUNDED)
        by, most = value["by"], value.get("most", 1.0)
    if metric in _UNBOUNDED and not (isinstance(value, Mapping) and "most" in value):
        return Missing(metric, shown(value), _BOUNDED)
    if not _is_number(most) or not most > 0:
        return Problem(f"{metric}.most", shown(most), "a number above 0")
    if not _is_number(by) or not 0 < abs(by) < most:
        return Problem(metric, shown(by), _A_GUARD if most == 1 else f"a change smaller than {most:g}, and not 0")
    if metric in RUN_METRICS and by < 0:
        return Problem(metric, shown(by), f"a change above 0, since {metric} should be low")
    return GuardSettings(by=float(by), most=float(most))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# The canary


_Shares = Annotated[
    tuple[TrafficShare, ...],
    Field(strict=False),
    AfterValidator(require(lambda shares: list(shares) == sorted(set(shares)))),
    Expected("a list of shares, each larger than the one before, such as [5%, 25%, 100%]"),
]
_Guards = Annotated[dict[str, GuardSettings], BeforeValidator(_read_guards)]


class CanarySettings(Section):
    """The steps by which a candidate reaches all users, and the guards that watch it on the way."""

    example = "{shares: [5%, 25%, 100%]}"

    shares: _Shares = ()
    hold: RunCount = 0
    approval: bool = False
    roll_back_if: _Guards = Field(default_factory=dict)
    hold_if: _Guards = Field(default_factory=dict)
    error: Annotated[ErrorRate, Expected("a chance above 0 and below 0.5, such as 0.05")] = 0.05
    no_traffic: Period | None = None
    deadline: Period | None = None
    keep_back: HalfShare | None = None
    keep_back_for: Period = timedelta(days=7)

    @model_validator(mode="after")
    def _check_guards(self) -> CanarySettings:
        if both := [metric for metric in self.hold_if if metric in self.roll_back_if]:
            twice = "a guard that rolls back too"
            raise refusal(*(Problem(f"hold_if.{metric}", twice, "one of the two") for metric in both))
        return self


# Channels


def _default_gates() -> list[GateSettings]:
    return [GateSettings.model_validate(name) for name in DEFAULT_GATES]


class ChannelSettings(Section):
    """What a candidate must pass to reach a channel, who reviews it, and how it reaches all users."""

    example = "{require: [better, held_out, rules_kept, content]}"

    require: list[GateSettings] = Field(default_factory=_default_gates)
    error_budget: ErrorBudgetSettings = Field(default_factory=ErrorBudgetSettings)
    attempts: AttemptSettings = Field(default_factory=AttemptSettings)
    canary: CanarySettings = Field(default_factory=CanarySettings)
    reviewers: Reviewers | None = None
    """Default: the reviewers of the workspace."""
    quota: Quota = Field(default_factory=Quota)
    """For all runs of the channel together."""
    user_quota: Quota = Field(default_factory=Quota)
    """For those of each user, by the key that they run with."""

    @field_validator("require")
    @classmethod
    def _check_replays(cls, require: list[GateSettings]) -> list[GateSettings]:
        replays = any(isinstance(gate.options, BetterOptions) and gate.options.replays for gate in require)
        if replays and not any(gate.name == "replay_fidelity" for gate in require):
            remedy = "Say how far the replays must agree."
            raise refusal(Problem("", "better: {replays: true}", "replay_fidelity beside it", remedy))
        return require

    @property
    def highest_error(self) -> float | None:
        """The highest error rate that its gates `better` accept; None if it has none."""
        return min(
            (gate.options.error for gate in self.require if isinstance(gate.options, BetterOptions)), default=None
        )

    @property
    def review(self) -> ReviewOptions:
        """The options of its review, or those that a review has by default."""
        return next((gate.options for gate in self.require if isinstance(gate.options, ReviewOptions)), ReviewOptions())

    def check_roles(self, at: str) -> Iterator[Problem]:
        """Every role that a review asks for and no reviewer has."""
        index = next((index for index, gate in enumerate(self.require) if gate.name == "review"), None)
        for role in self.review.roles:
            if not any(role in roles for roles in (self.reviewers or {}).values()):
                remedy = f"Write who has it: reviewers: {{NAME: [{role}]}}"
                place = f"{at}.require[{index}].review.roles"
                yield Problem(place, f"{shown(role)}, which nobody has", "a role of a reviewer", remedy)
