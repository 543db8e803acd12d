"""Patterns: what distinguishes good runs from bad ones, searched in one half of the tasks and tested in the other.

Among hundreds of conditions some fit by chance. So the tasks are divided: one half suggests conditions, and they count
only if they hold in the other half, which was not used to choose them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Literal, NamedTuple

from seedbed.errors import SeedbedError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.patterns.slices import (
    Figures,
    Half,
    Level,
    RunSlice,
    beyond,
    suggest_slices,
    test_slice,
)
from seedbed.experiments.patterns.traits import ScoredRun, conditions
from seedbed.stats.arrays import Bools, Direction
from seedbed.stats.multiplicity import benjamini_hochberg, holm
from seedbed.stats.sequential.stopping_rule import check_rate
from seedbed.storage.store import Json, short

FEWEST = 20
"""The fewest tasks, or sources where tasks share them, to search for patterns: ten in each half."""

HOLM = 10
"""Up to this many tests are corrected by Holm, more by Benjamini and Hochberg."""

SHOWN = 5
"""How many runs are named for and against a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFinding:
    """A slice of the runs, its scores in both halves, and how sure the difference is.

    `p` is from the half that did not choose the slice, adjusted for all slices that were tested.
    """

    slice: RunSlice
    suggested: Figures
    """In the half that suggested it. They are too good, as the slice was chosen by them."""
    tested: Figures
    low: float
    high: float
    """The 95 % interval of the effect in the half that tested it, for this slice alone."""
    p: float
    holds: bool
    worse: bool
    """Whether the runs within are the bad ones."""
    level: Level
    beyond: tuple[RunSlice, ...]
    """Earlier slices that overlap with it: it holds among runs that are equal in those."""
    weak_found: tuple[Task, ...]
    """The tasks on the bad side of it in the half that suggested it, by most of their runs."""
    weak_tested: tuple[Task, ...]
    """Those in the half that tested it."""
    runs: tuple[str, ...]
    """Runs within the slice that show it, each of another task."""
    contrast: tuple[str, ...]
    """Runs outside of it that show the opposite."""

    @property
    def condition(self) -> str:
        return _text_of(self.slice)

    def __str__(self) -> str:
        size, word = abs(self.tested.effect), "lower" if self.tested.effect < 0 else "higher"
        beyond = ", beyond what the findings above explain" if self.beyond else ""
        p = "below 0.001" if self.p < 0.001 else f"{self.p:.2g}"
        return (
            f"Runs {self.condition} score {size:.2f} {word} ({self.tested.inside:.2f} against "
            f"{self.tested.outside:.2f}, {self.tested.tasks} tasks, adjusted p {p}){beyond}"
        )

    def document(self) -> Json:
        names = ("low", "high", "p", "worse", "level", "runs", "contrast")
        return {
            "text": str(self),
            "condition": self.condition,
            "slice": [asdict(each) for each in self.slice],
            "found": {**asdict(self.suggested), "effect": self.suggested.effect},
            "tested": {**asdict(self.tested), "effect": self.tested.effect},
            **{name: getattr(self, name) for name in names},
            "beyond": [_text_of(each) for each in self.beyond],
            "weak_found": [task.id for task in self.weak_found],
            "weak_tested": [task.id for task in self.weak_tested],
        }


def _text_of(slice_: RunSlice) -> str:
    return " and ".join(map(str, slice_))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """What was searched, and which slices held where they were tested."""

    metric: str
    runs: int
    failed: int
    """How many of the runs failed; they have the score of a failure."""
    tasks: int
    units: int
    """The independent units: tasks, or sources where tasks share them."""
    conditions: int
    """How many conditions were tried in the first half."""
    tested: tuple[PatternFinding, ...]
    """The slices that were tested in the second half, the most promising first."""
    alpha: float
    correction: Literal["Holm", "Benjamini-Hochberg"]
    because: str = ""
    """Why no search was possible, if so."""

    @property
    def findings(self) -> tuple[PatternFinding, ...]:
        return tuple(each for each in self.tested if each.holds)

    @property
    def promise(self) -> str:
        """What the error rate means."""
        if self.correction == "Holm":
            what = f"the chance that any of the findings is there by luck alone is at most {self.alpha:.2g}"
        else:
            what = f"on average at most a share {self.alpha:.2g} of the findings is there by luck alone"
        return f"If you look once, {what} ({self.correction}, {len(self.tested)} tested on the other half)."

    def document(self) -> Json:
        names = ("metric", "runs", "failed", "tasks", "units", "conditions", "alpha", "correction", "because")
        body = {name: getattr(self, name) for name in names}
        findings = [each.document() for each in self.findings]
        not_confirmed = [each.document() for each in self.tested if not each.holds]
        return {**body, "promise": self.promise, "findings": findings, "not_confirmed": not_confirmed}


def find_patterns(
    scored: Sequence[ScoredRun], metric: str, *, alpha: float = 0.05, better: Direction = "higher", at_most: int = 5
) -> Patterns:
    """What distinguishes runs with good scores from others. The same runs give the same findings, in any order.

    Tasks of one source are in the same half, and tested together. At most `at_most` slices are tested. Too few tasks
    are not an error: the result says so.
    """
    check_rate("alpha", alpha)
    if at_most < 1:
        raise SeedbedError(f"at_most: found {shown(at_most)}; expected how many slices to test, at least 1")
    ordered = sorted(scored, key=lambda each: (each.unit, each.inputs_digest, each.run.id))
    for each in ordered:
        if not math.isfinite(each.score):
            raise SeedbedError(f"run {short(each.run.id)}: found a score of {each.score}; expected a finite number")
    units = {each.unit for each in ordered}
    result = Patterns(
        metric=metric,
        runs=len(ordered),
        failed=sum(each.failed for each in ordered),
        tasks=len({each.inputs_digest for each in ordered}),
        units=len(units),
        conditions=0,
        tested=(),
        alpha=alpha,
        correction="Holm" if at_most <= HOLM else "Benjamini-Hochberg",
    )
    if len(units) < FEWEST:
        shared = "sources (tasks of one source count as one)" if len(units) < result.tasks else "tasks"
        return replace(result, because=f"found {len(units)} {shared} with scored runs; expected at least {FEWEST}")
    if len({each.score for each in ordered}) == 1:
        return replace(
            result, because=f"found the same score, {ordered[0].score:g}, for all runs; expected some spread"
        )
    first = _first_half(ordered)
    seen, unseen = Half([e for e in ordered if e.unit in first]), Half([e for e in ordered if e.unit not in first])
    looked = [each for each in conditions(seen.scored) if seen.supports(seen.holds((each,)))]
    slices = list(suggest_slices(seen, looked, at_most))
    if not slices:
        return replace(result, conditions=len(looked))
    tests = [test_slice(slices, place, seen, unseen) for place in range(len(slices))]
    corrected = (holm if result.correction == "Holm" else benjamini_hochberg)([p for p, _ in tests], alpha)
    corrected_tests = [
        _Test(level, p, rejected)
        for (_, level), p, rejected in zip(tests, corrected.p, corrected.rejected, strict=True)
    ]
    findings = [_finding(slices, place, seen, unseen, test, better) for place, test in enumerate(corrected_tests)]
    return replace(result, conditions=len(looked), tested=tuple(findings))


def _first_half(scored: Sequence[ScoredRun]) -> set[str]:
    """The units of the first half, chosen by their names, so that few change sides when runs are added."""
    tasks: dict[str, set[str]] = {}
    for each in scored:
        tasks.setdefault(each.unit, set()).add(each.inputs_digest)
    half: set[str] = set()
    left = sum(map(len, tasks.values())) / 2
    for unit in sorted(tasks, key=lambda unit: blake2b(unit.encode(), digest_size=16).digest()):
        # Add a unit if that is closer to one half; at least ten units on each side, however large they are.
        if len(half) < FEWEST // 2 or (len(tasks[unit]) / 2 <= left and len(half) < len(tasks) - FEWEST // 2):
            half.add(unit)
            left -= len(tasks[unit])
    return half


class _Test(NamedTuple):
    """The test of a slice in the second half, corrected for all of them."""

    level: Level
    p: float
    rejected: bool


def _finding(
    slices: Sequence[RunSlice],
    place: int,
    seen: Half,
    unseen: Half,
    test: _Test,
    better: Direction,
) -> PatternFinding:
    within, inside = seen.holds(slices[place]), unseen.holds(slices[place])
    before, after = seen.figures(within), unseen.figures(inside)
    low, high = unseen.interval(inside)
    down = before.effect < 0
    worse = down == (better == "higher")
    everything = [*zip(seen.scored, within, strict=True), *zip(unseen.scored, inside, strict=True)]
    return PatternFinding(
        slice=slices[place],
        suggested=before,
        tested=after,
        low=low,
        high=high,
        p=test.p,
        holds=test.rejected and before.effect * after.effect > 0,
        worse=worse,
        level=test.level,
        beyond=tuple(beyond(slices, place, seen)),
        weak_found=_at(seen, within if worse else ~within, test.level),
        weak_tested=_at(unseen, inside if worse else ~inside, test.level),
        runs=_telling([run for run, holds in everything if holds], lowest=down),
        contrast=_telling([run for run, holds in everything if not holds], lowest=not down),
    )


def _at(half: Half, side: Bools, level: Level) -> tuple[Task, ...]:
    """The tasks with most runs on that side; with any such run where runs were compared, not tasks."""
    shares = half.by_task(side.astype(float))
    least = 0.5 if level != "run" and shares.max() >= 0.5 else 1e-9
    return tuple(half.scored[first].task for first in half.of_task[shares >= least].tolist())


def _telling(scored: Sequence[ScoredRun], *, lowest: bool) -> tuple[str, ...]:
    """The runs with the most extreme scores, one for each task."""
    ordered = sorted(scored, key=lambda each: (each.score if lowest else -each.score, each.run.id))
    chosen: dict[str, str] = {}
    for each in ordered:
        chosen.setdefault(each.inputs_digest, each.run.id)
    return tuple(chosen.values())[:SHOWN]
