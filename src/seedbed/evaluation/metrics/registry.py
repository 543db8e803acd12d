"""Metrics by their names: those that come with seedbed, those of installed packages, and your own."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from seedbed import plugins
from seedbed.errors import Problem, SettingsError, shown
from seedbed.evaluation.metrics.metric import FunctionMetric, Metric, metric

GROUP = "seedbed.metrics"
"""The entry points by which a package offers metrics: `name = "module:metric"`."""

_MODULES = {
    "matching": "exact_match contains regex choice numeric json_valid json_schema json_fields schema_valid",
    "similarity": "f1 bleu rouge_l chrf similarity",
    "measures": "latency_seconds tokens cost_usd turns length length_within "
    "finished rule_violations safety calibration",
    "instructions": "instructions_followed instructions_share",
    "weighted": "weighted",
}
BUILT_IN = {
    name: f"seedbed.evaluation.metrics.{module}" for module, names in _MODULES.items() for name in names.split()
}
"""The modules of the metrics that come with seedbed."""


def names() -> list[str]:
    """The names of all metrics: those that come with seedbed, and those that installed packages offer."""
    return sorted({*BUILT_IN, *plugins.offered(GROUP)})


def by_name(name: str | Mapping[str, Any], own: Mapping[str, Metric] | None = None, /, **options: Any) -> Metric:
    """A metric with options: `by_name("numeric", tolerance=0.01)`, or `{"numeric": {"tolerance": 0.01}}`.

    `module:name` is a metric of yours that can be imported; `own` are those that a workspace declares. Raises
    SettingsError that lists the known names.
    """
    own = own or {}
    if isinstance(name, Mapping):
        if len(name) != 1 or not all(isinstance(each, Mapping | None) for each in name.values()):
            raise SettingsError([Problem("metric", shown(dict(name)), "one name with its options, such as {f1: {}}")])
        ((name, within),) = name.items()
        options = {**(within or {}), **options}
    value = own[name] if name in own else _load(name, own)
    if isinstance(value, FunctionMetric):
        return value.using(**options)
    if inspect.isfunction(value) and ":" in name:
        return metric(value).using(**options)
    if inspect.isclass(value) or inspect.isfunction(value):
        try:
            inspect.signature(value).bind(**options)
        except TypeError as wrong:
            raise SettingsError([Problem(name, str(wrong), f"options as in {inspect.signature(value)}")]) from None
        value = value(**options)
    elif options:
        raise SettingsError([Problem(name, f"options: {', '.join(options)}", "none: it has no options")])
    if not callable(value) or not hasattr(value, "identity"):
        raise SettingsError([Problem(name, shown(value), "a metric: a name, an identity and an async call")])
    return value  # type: ignore[no-any-return]


def parse_metric(written: str, own: Mapping[str, Metric] | None = None) -> Metric:
    """A metric as it is written on the command line: `f1`, `numeric(tolerance=0.01)`, `mine:short(limit=80)`.

    `own` are those that a workspace declares.
    """
    name, options = parse_call(written, "metric", "numeric(tolerance=0.01)")
    return by_name(name, own, **options)


def parse_call(written: str, what: str, such_as: str) -> tuple[str, dict[str, Any]]:
    """A name and its options, written as `name(option=value, …)`. Raises SettingsError."""
    name, bracket, rest = written.strip().partition("(")
    if not bracket:
        return name.strip(), {}
    try:
        node = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(node, ast.Call) or node.args or any(each.arg is None for each in node.keywords):
            raise ValueError(written)
        options = {str(each.arg): ast.literal_eval(_json_word(each.value)) for each in node.keywords}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        expected = f"a name, with options in brackets if any, such as {such_as}"
        raise SettingsError([Problem(what, shown(written), expected)]) from None
    return name.strip(), options


_JSON_WORDS = {"true": True, "false": False, "null": None}


def _json_word(node: ast.expr) -> ast.expr:
    return ast.Constant(_JSON_WORDS[node.id]) if isinstance(node, ast.Name) and node.id in _JSON_WORDS else node


def _load(name: str, own: Mapping[str, Metric]) -> Any:
    if name in BUILT_IN:
        return getattr(import_module(BUILT_IN[name]), name)
    offered = plugins.offered(GROUP)
    if name in offered:
        name = offered[name]
    elif ":" not in name:
        known, remedy = sorted({*names(), *own}), "One of your own is named module:name."
        raise SettingsError([plugins.unknown("metric", name, known, remedy)])
    return plugins.load(name, "metric", expected="a module and a metric in it")
