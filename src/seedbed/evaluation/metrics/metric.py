"""Metric and Score: how good one run was at one task. A metric is a class, or a function under `@metric`."""

from __future__ import annotations

import asyncio
import inspect
import math
import re
import string
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, SupportsFloat, TypeAlias, overload

from seedbed.errors import (
    DatasetError,
    Problem,
    SeedbedError,
    SettingsError,
    expect_function,
    expect_type,
    shown,
)
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.source import source_of
from seedbed.plugins import top_folder
from seedbed.runs.run import Run, Turn
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Json, digest

if TYPE_CHECKING:
    from seedbed.stats.arrays import Direction  # numpy takes long to load, and a plain metric does without

EXPECTED = "expected"
LONG = 20_000
"""An output with more characters is scored in a thread, so that other runs do not wait for it."""


@dataclass(frozen=True, slots=True)
class Score:
    """A value, or None if the run could not be scored: an unscored run is never a zero.

    Raises ValueError for a value that is not a finite number.
    """

    value: float | None
    reason: str = ""
    answer: str = ""
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: int = 0

    def __post_init__(self) -> None:
        expect_type(self.value, SupportsFloat | None, "score", "a number, or None if there is none")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"found a score of {self.value}; expected a finite number, or None if there is none")


ScoreLike: TypeAlias = Score | float | bool | None
ScoreFunction: TypeAlias = Callable[..., ScoreLike | Awaitable[ScoreLike]]


class Metric(Protocol):
    """Scores a run. `name` is what people call it; `identity` changes whenever its scores might.

    A metric for which lower is better has `better = "lower"`, one that is only ever 0 or 1 has `binary = True`, and one
    that compares outputs with the task's expected answer has `needs_expected = True`.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Json: ...

    async def __call__(self, run: Run, task: Task) -> Score: ...


def better(metric: Metric) -> Direction:
    """Whether higher or lower values of a metric are the better ones."""
    return "lower" if getattr(metric, "better", "higher") == "lower" else "higher"


def needs_expected(metric: Metric) -> bool:
    """Whether a metric cannot score a task without an expected answer."""
    return bool(getattr(metric, "needs_expected", False))


def expect_answers(metrics: Iterable[Metric], tasks: Iterable[Task]) -> None:
    """Refuse a dataset without any expected answer for a metric that needs them, before anything is paid.

    Raises DatasetError. Where some tasks have one, the others are left unscored.
    """
    every = list(tasks)
    if not every or any(task.expected is not None for task in every):
        return
    for metric in metrics:
        if needs_expected(metric):
            actual = f"{len(every):,} tasks without `expected`"
            remedy = "Add it, name the field that has it (--expected FIELD), or use a rubric judge, which needs none."
            raise DatasetError([Problem("tasks", actual, f"some with it: {metric.name} needs it", remedy)])


@dataclass(frozen=True)
class FunctionMetric:
    """A metric made of a function `(run, task, **options) -> score`."""

    function: ScoreFunction
    title: str
    version: int | None = None
    better: Direction = "higher"
    needs: tuple[str, ...] = ()
    check: Callable[..., None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    binary: bool = False

    @cached_property
    def name(self) -> str:
        """Its name on the command line, with the options that differ from the defaults."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        if len(options) > 60:
            options = digest("options", dict(self.options)).removeprefix("b2:")[:8]
        return f"{self.title}({options})" if options else self.title

    @cached_property
    def identity(self) -> Json:
        about: Json = {} if self.version is None else {"version": self.version}
        if self.version is None or top_folder(sys.modules.get(self.function.__module__)):
            about["source"] = source_of(self.function)  # a package that was installed answers for its versions
        return {"metric": self.title, **about, **({"options": dict(self.options)} if self.options else {})}

    @property
    def needs_expected(self) -> bool:
        needs = (need.split(" or ") for need in self.needs)
        return any(need == EXPECTED and not {*instead} & self.options.keys() for need, *instead in needs)

    def using(self, **options: Any) -> FunctionMetric:
        """The same metric with other options. Raises SettingsError for those it cannot have."""
        arguments = inspect.signature(self.function).parameters.items()
        known = {name: each for name, each in arguments if each.kind is each.KEYWORD_ONLY}
        together = {**self.options, **options}
        problems = [*self._wrong_options(options, together, known), *self._missing_packages()]
        if self.check and not problems:
            try:
                self.check(**together)
            except ValueError as wrong:
                problems.append(Problem(self.title, str(wrong), "options that can be used"))
        if problems:
            raise SettingsError(problems)
        # An option set to its default does not make another metric.
        own = sorted(together.items())
        return replace(self, options={name: value for name, value in own if not _same(value, known[name].default)})

    def _wrong_options(
        self, options: Mapping[str, Any], together: Mapping[str, Any], known: Mapping[str, inspect.Parameter]
    ) -> Iterator[Problem]:
        for name, value in options.items():
            if name not in known:
                yield Problem(f"{self.title}.{name}", "no such option", f"one of: {', '.join(known) or 'none'}")
            elif not _alike(value, known[name].default):
                yield Problem(f"{self.title}.{name}", shown(value), f"a value such as {known[name].default!r}")
        for name, each in known.items():
            if each.default is each.empty and name not in together:
                yield Problem(f"{self.title}.{name}", "nothing", "a value: it has no default")

    def _missing_packages(self) -> Iterator[Problem]:
        for need in self.needs:
            if package := re.fullmatch(r"(\w+)\[(\w+)\]", need):
                module, extra = package.groups()
                if not find_spec(module):
                    yield Problem(
                        self.title, f"no package {module}", "it installed", f"Run: pip install 'seedbed[{extra}]'"
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
        except Exception as wrong:  # noqa: BLE001 - one odd run must not lose all the others
            return Score(None, f"{self.name} failed: {type(wrong).__name__}: {wrong}")

    def __reduce__(self) -> Any:
        # The metric stands in the place of the function it decorates: other processes look it up by that name.
        module, name = self.function.__module__, self.function.__qualname__
        there = getattr(sys.modules.get(module), name, None)
        if module != "__main__" and isinstance(there, FunctionMetric) and there.function is self.function:
            return _look_up, (module, name, dict(self.options))
        about = (self.function, self.title, self.version, self.better, self.needs, self.check)
        return FunctionMetric, (*about, dict(self.options), self.binary)


def _look_up(module: str, name: str, options: dict[str, Any]) -> FunctionMetric:
    __import__(module)
    metric: FunctionMetric = getattr(sys.modules[module], name)
    return replace(metric, options=options)


class BlindRun(Run):
    """A run as a metric sees it: what was said, done and spent, but not by whom."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Run {self.status}, {len(self.turns)} turns>"


def _hidden(name: str) -> property:
    def read(_: BlindRun) -> NoReturn:
        reason = "A score must not depend on which playbook or model is scored"
        raise SeedbedError(f"run.{name}: found a metric that reads it; expected one that does not. {reason}")

    return property(read)


HIDDEN = ("id", "playbook", "models", "parent", "started", "max_cost_usd")
for _name in HIDDEN:
    setattr(BlindRun, _name, _hidden(_name))


def blind(run: Run) -> Run:
    """The run without what names its playbook or its models. Roles and steps are numbered in the order in which they
    first appear: by a name that only one playbook has, a metric would know whom it scores."""
    hidden = object.__new__(BlindRun)
    role, step = _numbers("role", run.turns), _numbers("step", run.turns)
    turns = tuple(
        replace(each, model="", messages=(), role=role[each.role], step=step[each.step]) for each in run.turns
    )
    for each in fields(Run):
        if each.name not in HIDDEN:
            getattr(Run, each.name).__set__(hidden, turns if each.name == "turns" else getattr(run, each.name))
    return hidden


def _numbers(what: str, turns: Iterable[Turn]) -> dict[str, str]:
    """What stands for each name of a role or a step; no name stays none."""
    names = dict.fromkeys(getattr(turn, what) for turn in turns)
    return {name: name and f"{what} {number}" for number, name in enumerate(names, 1)}


@overload
def metric(function: ScoreFunction, /) -> FunctionMetric: ...
@overload
def metric(
    *,
    name: str = "",
    version: int | None = None,
    better: Direction = "higher",
    needs: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
    binary: bool = False,
) -> Callable[[ScoreFunction], FunctionMetric]: ...
def metric(
    function: ScoreFunction | None = None,
    /,
    *,
    name: str = "",
    version: int | None = None,
    better: Direction = "higher",
    needs: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
    binary: bool = False,
) -> FunctionMetric | Callable[[ScoreFunction], FunctionMetric]:
    """Make a metric of a function `(run, task, *, options) -> score`, plain or async.

    The score is a Score, a number, a bool, or None where there is none; a function that raises gives none. Its
    keyword-only arguments are the options that `using` and the command line set. Scores are reused while the source of
    the function, and what it uses of your own modules, stay the same, and its `version` too: raise that when something
    else changes that scores depend on. For a function of an installed package, the version alone counts. `needs` lists
    "expected" for a metric that compares outputs with the expected answer ("expected or pattern": unless the option
    `pattern` is set), and packages with the extras that install them, such as "sacrebleu[text]". `check` is called with
    the options and raises ValueError for bad ones. A metric that is only ever 0 or 1 is `binary`: comparisons by it
    need fewer tasks.
    """

    def decorate(its: ScoreFunction) -> FunctionMetric:
        expect_function(its, "metric")
        _expect_run_and_task(its)
        return FunctionMetric(its, name or its.__name__, version, better, needs, check, binary=binary)

    return decorate if function is None else decorate(function)


def _expect_run_and_task(function: ScoreFunction) -> None:
    """Raise SettingsError for a function that no run could be scored by: it would fail once all runs were paid."""
    try:
        parameters = inspect.signature(function).parameters.values()
        options = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
        inspect.signature(function).bind(None, None, **options)
    except TypeError as wrong:
        remedy = "Write its options after a *: def mine(run, task, *, limit=80)."
        raise SettingsError([Problem(function.__name__, str(wrong), "a function of (run, task)", remedy)]) from None
    except ValueError:  # a built-in function that does not say what it takes
        return


def _alike(value: object, default: object) -> bool:
    """Whether an option's value has the type of its default; without a default, or with None, anything does."""
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
    """An output or an expected answer as text: None is the empty text, a mapping or a list is JSON."""
    return "" if value is None else text_of(value)


NO_ANSWER = Score(None, "the task has no expected answer")


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """1 if the output is the expected answer, else 0. Case, quotes around it and a full stop make no difference."""

    name: str = "exact_match"
    binary: ClassVar[bool] = True
    needs_expected: ClassVar[bool] = True

    def __post_init__(self) -> None:
        expect_type(self.name, str, "name", "the name of a metric")

    @property
    def identity(self) -> Json:
        return {"metric": "exact_match", "version": 1}

    async def __call__(self, run: Run, task: Task) -> Score:
        return self.score(run, task)

    def score(self, run: Run, task: Task) -> Score:
        if task.expected is None:
            return NO_ANSWER
        answer, expected = bare(run.output), bare(task.expected)
        right = answer == expected
        return Score(float(right), "" if right else f"expected {expected}", answer)


_AROUND = "\"'`“”‘’«»()[]*" + string.whitespace
_BEHIND = _AROUND + ".,;:!?…"


def bare(value: object) -> str:
    """An answer in lower case, without the quotes, brackets and punctuation around it."""
    # Signs stay: -5 is not 5, nor is C++ C. An answer that is only punctuation stays as it is.
    answer = text_of(value).strip()
    return (answer.lstrip(_AROUND).rstrip(_BEHIND) or answer).casefold()
