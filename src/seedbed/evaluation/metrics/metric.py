"""Metric and Score: how good one run was at one task. A metric is a class, or a function under `@metric`."""

from __future__ import annotations

import ast
import asyncio
import difflib
import inspect
import math
import string
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, overload

from seedbed.errors import Problem, SeedbedError, SettingsError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.source_digest import source_of
from seedbed.runs.run import Run
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Json, digest

Better = Literal["higher", "lower"]
LONG = 20_000
"""Characters of an output from which on a plain function is called in a thread, so that the others need not wait."""


@dataclass(frozen=True, slots=True)
class Score:
    """A value, or None if the run could not be scored: an unscored run is never a zero.

    Raises ValueError for a value that is no finite number.
    """

    value: float | None
    reason: str = ""
    answer: str = ""
    cost_usd: float = 0.0
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"found a score of {self.value}; expected a finite number, or None if there is none")


Scored: TypeAlias = Score | float | bool | None


class Metric(Protocol):
    """Scores a run. `name` is what people call it; `identity` changes whenever its scores might.

    One of which less is better says so by `better = "lower"`, one that only says 0 or 1 by `binary = True`.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Json: ...

    async def __call__(self, run: Run, task: Task) -> Score: ...


def better(metric: Metric) -> Better:
    """Whether higher or lower values of a metric are the better ones."""
    return "lower" if getattr(metric, "better", "higher") == "lower" else "higher"


@dataclass(frozen=True)
class FunctionMetric:
    """The metric that a function `(run, task, **options) -> score` is."""

    function: Callable[..., Scored | Awaitable[Scored]]
    title: str
    version: int | None = None
    better: Better = "higher"
    needs: tuple[str, str] | None = None
    check: Callable[..., None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    binary: bool = False

    @cached_property
    def name(self) -> str:
        """What it is called on the command line: with its options, where some are given."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        if len(given) > 60:
            given = digest("options", dict(self.options)).removeprefix("b2:")[:8]
        return f"{self.title}({given})" if given else self.title

    @cached_property
    def identity(self) -> Json:
        about = {"source": source_of(self.function)} if self.version is None else {"version": self.version}
        return {"metric": self.title, **about, **({"options": dict(self.options)} if self.options else {})}

    def using(self, **options: Any) -> FunctionMetric:
        """The same metric with other options. Raises SettingsError for those it cannot have."""
        arguments = inspect.signature(self.function).parameters.items()
        taken = {name: each for name, each in arguments if each.kind is each.KEYWORD_ONLY}
        together = {**self.options, **options}
        problems = [
            Problem(f"{self.title}.{name}", "no such option", f"one of: {', '.join(taken) or 'none'}")
            for name in options
            if name not in taken
        ]
        problems += [
            Problem(f"{self.title}.{name}", shown(value), f"a value such as {taken[name].default!r}")
            for name, value in options.items()
            if name in taken and not _alike(value, taken[name].default)
        ]
        problems += [
            Problem(f"{self.title}.{name}", "nothing", "a value: it has no default")
            for name, each in taken.items()
            if each.default is each.empty and name not in together
        ]
        if self.needs and not find_spec(self.needs[0]):
            module, extra = self.needs
            problems.append(Problem(self.title, f"no {module}", "it", f"Run: pip install 'seedbed[{extra}]'"))
        if self.check and not problems:
            try:
                self.check(**together)
            except ValueError as wrong:
                problems.append(Problem(self.title, str(wrong), "options that can be used"))
        if problems:
            raise SettingsError(problems)
        defaults = {name: each.default for name, each in taken.items()}
        # An option that is given as it is anyway makes no other metric.
        return replace(
            self,
            options={name: value for name, value in sorted(together.items()) if not _same(value, defaults[name])},
        )

    async def __call__(self, run: Run, task: Task) -> Score:
        try:
            if isinstance(run.output, str) and len(run.output) > LONG:
                scored = await asyncio.to_thread(self.function, run, task, **self.options)
            else:
                scored = self.function(run, task, **self.options)
            score = await scored if inspect.isawaitable(scored) else scored
            if isinstance(score, Score):
                return score
            return Score(None, f"{self.name} gave no score") if score is None else Score(float(score))
        except SeedbedError:
            raise
        except Exception as wrong:  # noqa: BLE001  one odd run is no reason to lose all the others
            return Score(None, f"{self.name} failed: {type(wrong).__name__}: {wrong}")

    def __reduce__(self) -> Any:
        # The decorated function hides behind its metric, so other processes are told where to find that.
        module, name = self.function.__module__, self.function.__qualname__
        there = getattr(sys.modules.get(module), name, None)
        if module != "__main__" and isinstance(there, FunctionMetric) and there.function is self.function:
            return _found, (module, name, dict(self.options))
        about = (self.function, self.title, self.version, self.better, self.needs, self.check)
        return FunctionMetric, (*about, dict(self.options), self.binary)


def _found(module: str, name: str, options: dict[str, Any]) -> FunctionMetric:
    __import__(module)
    found: FunctionMetric = getattr(sys.modules[module], name)
    return replace(found, options=options)


@overload
def metric(function: Callable[..., Scored | Awaitable[Scored]], /) -> FunctionMetric: ...
@overload
def metric(
    *,
    name: str = "",
    version: int | None = None,
    better: Better = "higher",
    needs: tuple[str, str] | None = None,
    check: Callable[..., None] | None = None,
    binary: bool = False,
) -> Callable[[Callable[..., Scored | Awaitable[Scored]]], FunctionMetric]: ...
def metric(
    function: Callable[..., Scored | Awaitable[Scored]] | None = None,
    /,
    *,
    name: str = "",
    version: int | None = None,
    better: Better = "higher",
    needs: tuple[str, str] | None = None,
    check: Callable[..., None] | None = None,
    binary: bool = False,
) -> FunctionMetric | Callable[[Callable[..., Scored | Awaitable[Scored]]], FunctionMetric]:
    """Make a metric of a function `(run, task, *, options) -> score`, plain or async.

    The score is a Score, a number, a truth, or None where there is none; a function that raises gives none. Its
    keyword-only arguments are the options that `using` and the command line set. Scores are known again for as long
    as the function's source, and the constants and functions of its module that it uses, stay the same; with a
    `version`, for as long as that does. `needs` is a module it imports and the extra that installs it; `check` is
    given the options and raises ValueError for bad ones. One that only ever says 0 or 1 is `binary`: comparisons by it
    need fewer tasks.
    """

    def made(its: Callable[..., Scored | Awaitable[Scored]]) -> FunctionMetric:
        return FunctionMetric(its, name or its.__name__, version, better, needs, check, binary=binary)

    return made(function) if function else made


def _alike(value: object, default: object) -> bool:
    """Whether an option's value is of its default's kind; one without a default or with None may be anything."""
    if default is None or default is inspect.Parameter.empty:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, int | float):
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, list | tuple if isinstance(default, list | tuple) else type(default))


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def text(value: object) -> str:
    """What a run put out, or a task expects, as text: nothing is the empty text, a mapping or a list is JSON."""
    return "" if value is None else text_of(value)


NO_ANSWER = Score(None, "the task has no expected answer")


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """1 if the output is the expected answer, else 0. Case, quotes around it and a full stop make no difference."""

    name: str = "exact_match"
    binary: ClassVar[bool] = True

    @property
    def identity(self) -> Json:
        return {"metric": "exact_match", "version": 1}

    async def __call__(self, run: Run, task: Task) -> Score:
        if task.expected is None:
            return NO_ANSWER
        answer, expected = bare(run.output), bare(task.expected)
        right = answer == expected
        return Score(float(right), "" if right else f"expected {expected}", answer)


_AROUND = "\"'`“”‘’«»()[]*" + string.whitespace
_BEHIND = _AROUND + ".,;:!?…"


def bare(value: object) -> str:
    """An answer without case and without what people put around one."""
    # Signs stay: -5 is not 5, nor is C++ C. An answer that is nothing but punctuation is taken at its word.
    said = text_of(value).strip()
    return (said.lstrip(_AROUND).rstrip(_BEHIND) or said).casefold()


GROUP = "seedbed.metrics"
"""The entry points by which a package offers metrics: `name = "module:metric"`."""

_BUILT_IN = {
    "matching": "exact_match contains regex choice numeric json_valid json_schema json_fields",
    "overlap": "f1 bleu rouge_l chrf",
    "similarity": "similarity",
    "measures": "latency_seconds tokens cost_usd turns length length_within "
    "finished rule_violations safety calibration",
    "instructions": "instructions_followed instructions_share",
    "weighted": "weighted",
}
_HOMES = {name: f"seedbed.evaluation.metrics.{module}" for module, names in _BUILT_IN.items() for name in names.split()}


def names() -> list[str]:
    """The names of all metrics: those that come with seedbed, and those that installed packages offer."""
    return sorted({*_HOMES, *_offered()})


def named(name: str | Mapping[str, Any], own: Mapping[str, Metric] | None = None, /, **options: Any) -> Metric:
    """The metric of a name, with options: `named("numeric", tolerance=0.01)`, or `{"numeric": {"tolerance": 0.01}}`.

    `module:name` is one of your own that can be imported; `own` are those that a workspace has besides. Raises
    SettingsError with what there is.
    """
    own = own or {}
    if isinstance(name, Mapping):
        if len(name) != 1 or not all(isinstance(each, Mapping | None) for each in name.values()):
            raise SettingsError([Problem("metric", shown(dict(name)), "one name with its options, such as {f1: {}}")])
        ((name, within),) = name.items()
        options = {**(within or {}), **options}
    made = own[name] if name in own else _loaded(name, own)
    if isinstance(made, FunctionMetric):
        return made.using(**options)
    if inspect.isfunction(made) and ":" in name:
        return metric(made).using(**options)
    if inspect.isclass(made) or inspect.isfunction(made):
        try:
            inspect.signature(made).bind(**options)
        except TypeError as wrong:
            raise SettingsError([Problem(name, str(wrong), f"options as in {inspect.signature(made)}")]) from None
        made = made(**options)
    elif options:
        raise SettingsError([Problem(name, f"options: {', '.join(options)}", "none: it has no options")])
    if not callable(made) or not hasattr(made, "identity"):
        raise SettingsError([Problem(name, shown(made), "a metric: a name, an identity and an async call")])
    return made  # type: ignore[no-any-return]


def parsed(written: str, own: Mapping[str, Metric] | None = None) -> Metric:
    """The metric as it is written on the command line: `f1`, `numeric(tolerance=0.01)`, `mine:short(limit=80)`.

    `own` are those that a workspace has besides.
    """
    name, options = call(written, "metric", "numeric(tolerance=0.01)")
    return named(name, own, **options)


def call(written: str, what: str, such_as: str) -> tuple[str, dict[str, Any]]:
    """A name and its options, as `name(option=value, …)` is written. Raises SettingsError."""
    name, bracket, rest = written.strip().partition("(")
    if not bracket:
        return name.strip(), {}
    try:
        node = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(node, ast.Call) or node.args or any(each.arg is None for each in node.keywords):
            raise ValueError(written)
        options = {str(each.arg): ast.literal_eval(_spoken(each.value)) for each in node.keywords}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        expected = f"a name, with options in brackets if any, such as {such_as}"
        raise SettingsError([Problem(what, shown(written), expected)]) from None
    return name.strip(), options


_SPOKEN = {"true": True, "false": False, "null": None}


def _spoken(node: ast.expr) -> ast.expr:
    return ast.Constant(_SPOKEN[node.id]) if isinstance(node, ast.Name) and node.id in _SPOKEN else node


def _loaded(name: str, own: Mapping[str, Metric]) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    offered = _offered()
    if name in offered:
        return offered[name].load()
    module, colon, attribute = name.partition(":")
    if not colon:
        known = sorted({*names(), *own})
        near = difflib.get_close_matches(name, known, 1)
        remedy = f"Did you mean {near[0]}?" if near else "One of your own is named module:name."
        raise SettingsError([Problem("metric", shown(name), f"one of: {', '.join(known)}", remedy)])
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as wrong:
        raise SettingsError([Problem("metric", f"{shown(name)}: {wrong}", "a module and a metric in it")]) from None


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
