"""Metrics that need no expected answer: cost, time, length of the output, and whether rules were kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from seedbed import plugins
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Metric, Score, metric, needs_expected, text
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.playbooks.rules import folded, matches
from seedbed.runs.run import Run
from seedbed.storage.store import Json

if TYPE_CHECKING:
    from seedbed.stats.arrays import Direction  # numpy takes long to load, and a plain metric does without


@metric(version=1, better="lower")
def latency_seconds(run: Run, task: Task) -> float:
    """How long the run took."""
    return run.latency_seconds


@metric(version=1, better="lower")
def tokens(run: Run, task: Task) -> float:
    """How many tokens the run and those it opened read and wrote."""
    return run.tokens


@metric(version=1, better="lower")
def cost_usd(run: Run, task: Task) -> float:
    """What the run and those it opened cost, in US dollars."""
    return run.cost_usd


@metric(version=1, better="lower")
def turns(run: Run, task: Task) -> float:
    """How many model calls the run made."""
    return len(run.turns)


@metric(version=1, binary=True)
def finished(run: Run, task: Task) -> Score:
    """1 if the run was completed, 0 if it ended otherwise."""
    right = run.status == "completed"
    return Score(float(right), "" if right else f"{run.status}: {run.error}".rstrip(": "))


def _length(output: object, unit: str) -> int:
    return len(text(output)) if unit == "characters" else len(text(output).split())


def _units(unit: str = "words", at_least: object = None, at_most: object = None) -> None:
    if unit not in ("words", "characters"):
        raise ValueError(f"unit {unit!r}, which is neither words nor characters")
    if any(not isinstance(bound, int | float | None) or isinstance(bound, bool) for bound in (at_least, at_most)):
        raise ValueError("a bound that is not a number")


@metric(version=1, better="lower", check=_units)
def length(run: Run, task: Task, *, unit: str = "words") -> float:
    """How long the output is, in `words` or `characters`."""
    return _length(run.output, unit)


@metric(version=1, check=_units, binary=True)
def length_within(
    run: Run, task: Task, *, unit: str = "words", at_least: float | None = None, at_most: float | None = None
) -> Score:
    """1 if the length of the output is within the bounds, in `words` or `characters`."""
    size = _length(run.output, unit)
    if at_least is not None and size < at_least:
        return Score(0.0, f"{size} {unit}; expected at least {at_least:g}")
    if at_most is not None and size > at_most:
        return Score(0.0, f"{size} {unit}; expected at most {at_most:g}")
    return Score(1.0)


_REFUSED = re.compile(r"(?<!\S)[^\w\s]*+(\S+): (?:never|confirm|prefer_confirm|otherwise): \S")


def _patterns(never: object = ()) -> None:
    if not isinstance(never, list | tuple) or not all(isinstance(each, str) for each in never):
        raise ValueError("never, which is not a list of patterns")


@metric(version=1, better="lower", check=_patterns)
def rule_violations(run: Run, task: Task, *, never: Any = ()) -> Score:
    """How many actions were tried that the playbook's rules forbid, or that a person did not confirm.

    It counts forbidden actions, refused confirmations, and errors of the run, its calls and its children that name a
    rule. `never` lists patterns of calls and decisions to count too, even if no rule forbids them.
    """
    tried = [each.point.partition(" ")[2] for each in run.decisions if _denied(each.point, each.action)]
    # A refusal that ended the run is in its error too, and counts once.
    errors = [run.error, *(each.error for each in run.calls), *(each.error for each in run.children)]
    named = [match[1] for error in errors if (match := _REFUSED.search(error))]
    tried += [action for action in named if action not in tried]
    actions = [call.tool for call in run.calls] + [each.action for each in run.decisions]
    tried += [action for action in actions if any(matches(folded(pattern), folded(action)) for pattern in never)]
    return Score(float(len(tried)), ", ".join(tried)[:500])


def _denied(point: str, action: str) -> bool:
    return (point.partition(" ")[0], action) in {("confirm", "no"), ("may", "forbidden")}


@metric(version=1, needs=("profanity_check[safety]",))
async def safety(run: Run, task: Task) -> float:
    """How sure a small classifier of English, from the package alt-profanity-check, is that the output offends nobody.

    It recognises insults, obscenities and threats by their words, and misses harm in polite words.
    """
    return 1 - await asyncio.to_thread(offence, text(run.output))


def offence(text: str) -> float:
    """How sure the classifier is that a text offends. It needs the extra `safety`."""
    profanity_check = plugins.optional("profanity_check", extra="safety", needed_for="safety")
    return float(profanity_check.predict_prob([text])[0]) if text.strip() else 0.0


@dataclass(frozen=True)
class Calibration:
    """The Brier score of a run's confidence: the square of its distance from what another metric says was right.

    0 is best; a constant confidence of 0.5 gets 0.25. The confidence is that of the last turn that has one, else of
    the last decision that has one. Unscored without confidence, or where the other metric is not from 0 to 1.
    """

    of: str | Metric = "exact_match"
    better: Direction = "lower"

    def __post_init__(self) -> None:
        if isinstance(self.of, str):
            object.__setattr__(self, "of", parse_metric(self.of))

    @property
    def needs_expected(self) -> bool:
        return needs_expected(self._of)

    @property
    def _of(self) -> Metric:
        assert not isinstance(self.of, str)
        return self.of

    @property
    def name(self) -> str:
        return "calibration" if self._of.name == "exact_match" else f"calibration(of={self._of.name!r})"

    @property
    def identity(self) -> Json:
        return {"metric": "calibration", "version": 1, "of": self._of.identity}

    async def __call__(self, run: Run, task: Task) -> Score:
        confidence = confidence_of(run)
        if confidence is None:
            return Score(None, "the run has no confidence")
        right = await self._of(run, task)
        reason = f"confidence {confidence:g}, {self._of.name} {right.value}"
        if right.value is None:
            return replace(right, reason=f"{self._of.name}: {right.reason}")
        if not 0 <= right.value <= 1 or not 0 <= confidence <= 1:
            return replace(right, value=None, reason=f"{reason}: not both from 0 to 1")
        return replace(right, value=(confidence - right.value) ** 2, reason=reason)


def confidence_of(run: Run) -> float | None:
    """The confidence of a run: that of the last turn that has one, else of the last decision that has one."""
    every = [each.confidence for each in run.decisions] + [each.confidence for each in run.turns]
    return next((each for each in reversed(every) if each is not None), None)


def expected_calibration_error(confidences: Sequence[float], scores: Sequence[float], bins: int = 10) -> float:
    """The mean distance between confidence and accuracy, over `bins` of equal width; 0 is best.

    With few runs it is too high. Raises ValueError if there are none, or not as many scores as confidences.
    """
    together: dict[int, list[float]] = {}
    for sure, score in zip(confidences, scores, strict=True):
        if not (0 <= sure <= 1 and 0 <= score <= 1):
            raise ValueError(f"found a confidence of {sure} and a score of {score}; expected both from 0 to 1")
        together.setdefault(min(int(sure * bins), bins - 1), []).append(sure - score)
    if not together:
        raise ValueError("found no runs; expected some with a confidence and a score")
    return sum(abs(sum(gaps)) for gaps in together.values()) / len(confidences)


def calibration(of: str = "exact_match") -> Calibration:
    """The metric by its name on the command line: `calibration(of="f1")`."""
    return Calibration(of)
