"""The gates by the names they have under `channels.<name>.require` in seedbed.yaml: built-in ones, and your own.

A gate of your own is an async function `(request, **options)`, or a class whose objects are called like that.
It is named `module:name`, or by the entry point under which an installed package offers it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from seedbed.errors import Problem, SettingsError, shown
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.experiments.slices import SliceTerms
from seedbed.plugins import load, offered
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.content import ContentGate
from seedbed.release.gates.cooldown import Cooldown
from seedbed.release.gates.error_budget import error_budget
from seedbed.release.gates.gate import Gate, Refusal, ReleaseRequest
from seedbed.release.gates.held_out import held_out
from seedbed.release.gates.max_change import MaxChange
from seedbed.release.gates.not_worse import NoSliceWorse, NotWorse
from seedbed.release.gates.redundant import redundant
from seedbed.release.gates.replay_fidelity import ReplayFidelity
from seedbed.release.gates.review import Review
from seedbed.release.gates.risk import Risk
from seedbed.release.gates.rules_kept import RulesKept, rules_kept
from seedbed.release.gates.schema import schema
from seedbed.release.review.panel import Panel
from seedbed.settings.channels import ChannelSettings
from seedbed.settings.gates import GROUP, GateSettings, NoSliceWorseOptions


def build_gates(channel: str, settings: ChannelSettings) -> list[Gate]:
    """The gates of a channel, in order. Raises SettingsError with everything that is wrong with them."""
    place, panel = f"channels.{channel}", _panel(settings)
    problems = list(settings.check_roles(place))
    gates: list[Gate] = []
    for index, entry in enumerate(settings.require):
        try:
            gates.append(_build(entry, panel, f"{place}.require[{index}]"))
        except SettingsError as wrong:
            problems += wrong.problems
    if problems:
        raise SettingsError(problems)
    return gates


def build_panel(channel: str, settings: ChannelSettings) -> Panel:
    """Who reviews for a channel. Raises SettingsError if its review asks for a role that nobody has."""
    if problems := list(settings.check_roles(f"channels.{channel}")):
        raise SettingsError(problems)
    return _panel(settings)


def build_terms(settings: ChannelSettings) -> BudgetTerms:
    """The terms of a channel's error budget."""
    return BudgetTerms(settings.error_budget.rate, settings.error_budget.control)


def build_slice_terms(settings: ChannelSettings) -> list[SliceTerms]:
    """The terms on which a channel looks for tags on which a candidate is worse, if it does."""
    return [_slice_terms(gate.options) for gate in settings.require if isinstance(gate.options, NoSliceWorseOptions)]


def _panel(settings: ChannelSettings) -> Panel:
    return Panel(dict(settings.reviewers or {}), settings.review.roles, settings.review.expires)


# Built-in gates


def _slice_terms(options: NoSliceWorseOptions) -> SliceTerms:
    return SliceTerms(options.margin, options.false, options.least)


def _max_change(options: Any, panel: Panel) -> Gate:
    limits = (options.number, options.text, options.since_last_review)
    number, text, drift = (math.inf if limit is None else limit for limit in limits)
    return MaxChange(number, text, drift, panel)


_Builder: TypeAlias = Callable[[Any, Panel], Gate]

BUILT_IN: Mapping[str, _Builder] = {
    "schema": lambda _, __: schema,
    "better": lambda options, _: BetterGate(options.error, options.agreement, options.replays, tuple(options.metrics)),
    "not_worse": lambda options, _: NotWorse(options.margins, options.error),
    "no_slice_worse": lambda options, _: NoSliceWorse(_slice_terms(options)),
    "held_out": lambda _, __: held_out,
    "rules_kept": lambda options, panel: RulesKept(panel) if options.unless else rules_kept,
    "max_change": _max_change,
    "cooldown": lambda wait, _: Cooldown(wait),
    "redundant": lambda _, __: redundant,
    "content": lambda options, _: ContentGate(options.constant, options.offence, options.allow),
    "risk": lambda options, panel: Risk(float(options.impact), options.allow, panel),
    "replay_fidelity": lambda at_least, _: ReplayFidelity(at_least),
    "error_budget": lambda _, __: error_budget,
    "review": lambda options, panel: Review(options.when, panel),
}
"""How each built-in gate is made from its options and the people who review."""


def _build(entry: GateSettings, panel: Panel, at: str) -> Gate:
    if entry.name in BUILT_IN:
        return BUILT_IN[entry.name](entry.options, panel)
    return _load(entry.name, dict(entry.options), at)  # type: ignore[arg-type]


# Gates of your own


@dataclass(frozen=True, slots=True)
class CustomGate:
    """A gate that is not seedbed's. An error in it is a refusal: it cannot pass a candidate by mistake."""

    name: str
    options: Mapping[str, Any] = field(hash=False)
    gate: Gate = field(compare=False, repr=False)

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        try:
            answer: object = await self.gate(request)
        except Exception as wrong:  # noqa: BLE001  whatever it is, the candidate does not pass
            actual = f"{type(wrong).__name__}: {wrong}"
            return Refusal(self.name, actual, "an answer", "Repair the gate, or ask who offers it.")
        if answer is None or isinstance(answer, Problem):
            return answer
        remedy = "Repair the gate: it passes with None."
        return Refusal(self.name, f"the answer {shown(answer)}", "None or a refusal", remedy)


def _load(name: str, options: dict[str, Any], at: str) -> CustomGate:
    """The gate of that name with its options. Raises SettingsError."""
    made = load(offered(GROUP).get(name, name), at, expected="a module and a gate in it")
    try:
        if inspect.isclass(made):
            gate: Any = made(**options)
        else:
            inspect.signature(made).bind(None, **options)
            gate = partial(made, **options) if options else made
    except (TypeError, ValueError) as wrong:
        raise SettingsError([Problem(f"{at}.{name}", str(wrong), "options that it has")]) from wrong
    called = made if inspect.isfunction(made) else (made if inspect.isclass(made) else type(made)).__call__
    if not inspect.iscoroutinefunction(called):
        raise SettingsError([Problem(at, shown(name), "a gate: async, called with the request")])
    return CustomGate(name, options, gate)
