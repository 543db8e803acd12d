"""Slicing: a candidate that is better on the whole must not be worse on the tasks of some tag.

A comparison ends after a few tasks of each tag. So after a verdict that may release the candidate, the remaining tasks
of each tag are run, in the registered order, until it is known of the tag or its tasks are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict
from itertools import islice

from seedbed.errors import NotFound, Problem, shown
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.arms import is_unpaid, recorded_arms, run_arms
from seedbed.experiments.evidence import evidence_of, same_numbers
from seedbed.experiments.experiment import Experiment, expect_score
from seedbed.experiments.sequential_test import SequentialTest, gain, unit_scores
from seedbed.experiments.slices import Slice, SliceProgress, Slices, SliceTerms
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.slices import SliceFinding, SliceTest, worse_slices
from seedbed.storage.store import Fact, Query, Store, short

AT_A_TIME = 500
"""Of how many units the cells are looked up at once when slices are checked."""


class _Reading:
    """Reads the units that tags need, in the registered order. The same results always give the same slices."""

    def __init__(self, plan: Experiment, tasks: Dataset, terms: SliceTerms, verdict: Verdict) -> None:
        self.plan, self.terms, self.verdict = plan, terms, verdict
        self.test = SequentialTest(plan, tasks, verdict.metric)
        places = terms.tags(self.test.units)
        signs = plan.replicates == 1 and not isinstance(plan.start(), Betting)
        self.tests = {
            tag: SliceTest(margin=terms.margin, slices=len(places), at_most=len(places[tag]), signs=signs)
            for tag in places
        }
        self._at_most = {tag: len(places[tag]) for tag in places}
        self._tags: list[list[str]] = [[] for _ in self.test.units]
        for tag in places:
            for place in places[tag]:
                self._tags[place].append(tag)
        self._next = 0
        self._after = 0
        self._cost = 0.0
        self.cells: list[Cell] = []

    @property
    def open(self) -> int:
        """How many tags have not ended."""
        return sum(test.finding == "open" for test in self.tests.values())

    def wanted(self, count: int) -> list[int]:
        """The places of the next units that open tags need: at most so many, none if all tags have ended."""
        return list(islice(filter(self.needs, range(self._next, len(self.test.units))), count))

    def needs(self, place: int) -> bool:
        """Whether an open tag needs this unit."""
        return any(self.tests[tag].finding == "open" for tag in self._tags[place])

    def read(self, place: int, control: Sequence[Cell], candidate: Sequence[Cell]) -> None:
        """Take the cells of a unit, unless the tags that needed it have ended."""
        unit = self.test.units[place]
        self._next = place + 1
        if not self.needs(place):
            return
        for cell in (*control, *candidate):
            expect_score(self.verdict.metric, cell)
        self.cells += [*control, *candidate]
        if place >= self.verdict.tasks:
            self._after += 1
            self._cost += sum(cell.cost_usd for cell in (*control, *candidate))
        times = self.plan.replicates
        for tag in (each for each in self._tags[place] if self.tests[each].finding == "open"):
            # Of a source, only the tasks with the tag count for it.
            own = [number for number in range(len(control)) if tag in unit[number // times].tags]
            scores = unit_scores(self.plan, [control[each] for each in own], [candidate[each] for each in own])
            self.tests[tag].update(gain(self.plan, *scores))

    def progress(self) -> SliceProgress:
        verdict = self.verdict
        return SliceProgress(
            verdict="superior",
            n=verdict.tasks,
            wins=verdict.wins,
            ties=verdict.ties,
            losses=verdict.losses,
            spent=verdict.spent or 0.0,
            boundary=None,
            p=verdict.p,
            tasks=verdict.tasks + self._after,
            tags=len(self.tests),
            open=self.open,
        )

    def slices(self, store: Store) -> Slices:
        """What is known by now. A tag is worse only if it is among all tags with their one rate of false alarms."""
        tests, sign = self.tests, 1.0 if self.plan.better == "higher" else -1.0
        rejected = worse_slices([1.0 if test.p is None else test.p for test in tests.values()], self.terms.false)
        tags = []
        for (tag, test), worse in zip(tests.items(), rejected, strict=True):
            finding: SliceFinding = "worse" if worse else test.finding
            low, high = sorted(sign * end for end in test.interval())
            wins, ties, losses = test.counts
            each = Slice(
                tag=tag,
                finding=finding,
                tasks=wins + ties + losses,
                at_most=self._at_most[tag],
                wins=wins,
                ties=ties,
                losses=losses,
                difference=sign * test.mean or 0.0,  # not -0
                low=low,
                high=high,
                p=test.p,
            )
            tags.append(each)
        return Slices(
            experiment=self.plan.digest,
            terms=self.terms,
            tags=tuple(sorted(tags, key=lambda each: (each.finding != "worse", sign * each.difference, each.tag))),
            tasks=self.verdict.tasks + self._after,
            cost_usd=self._cost,
            evidence="" if self.open else evidence_of(store, self.cells, self.plan.digest),
        )


def _begin(store: Store, verdict: Verdict, terms: SliceTerms) -> _Reading:
    plan = Experiment.from_content(store.get(verdict.experiment))
    return _Reading(plan, Dataset.from_content(store.get(plan.dataset)), terms, verdict)


async def decide_slices(
    control: Playbook,
    candidate: Playbook,
    verdict: Verdict,
    metric: Metric,
    context: EvaluationContext,
    terms: SliceTerms,
    watch: Callable[[SliceProgress], None] | None = None,
) -> Slices | None:
    """Run tasks until it is known of each tag whether the candidate is worse on it; None if no tag has enough tasks.

    The first result on these terms is recorded, and counts. If the budget ends first, nothing is recorded: the tags
    that are open say so, and the same comparison goes on with more.
    """
    store = context.store
    with suppress(NotFound):
        return Slices.recall(store, verdict.experiment, terms)
    reading = _begin(store, verdict, terms)
    if not reading.tests:
        return None
    plans, failed = reading.test.items(), FailedRuns(store, verdict.experiment)
    async with context.present():
        # In rounds with one task for each tag, so that each gets its part of a budget and few are run in vain.
        while places := reading.wanted(max(reading.open, context.at_once)):
            arms = [
                (playbook, [plan[place] for place in places])
                for playbook, plan in zip((control, candidate), plans, strict=True)
            ]
            async with aclosing(run_arms(arms, metric, context, failed)) as coming:
                for place in places:
                    cells = await anext(coming)
                    if is_unpaid(cells, context):
                        return reading.slices(store)
                    reading.read(place, *cells)
                    if watch:
                        watch(reading.progress())
    fact = Fact(
        kind="slices",
        key=terms.key(verdict.experiment),
        subject=verdict.experiment,
        at=context.clock(),
        by=context.by,
        body=reading.slices(store).body(),
    )
    store.append([fact])
    return Slices.recall(store, verdict.experiment, terms)


def check_slices(store: Store, verdict: Verdict) -> list[Problem]:
    """What differs when all slices of a verdict are computed again from the cells."""
    return [
        problem
        for fact in store.facts(Query(kind="slices", subject=verdict.experiment))
        for problem in _check(store, verdict, Slices.from_body(fact.body))
    ]


def _check(store: Store, verdict: Verdict, recorded: Slices) -> Iterator[Problem]:
    reading = _begin(store, verdict, recorded.terms)
    while places := reading.wanted(AT_A_TIME):
        cells = recorded_arms(store, reading.plan, reading.test.items(), places)
        for place, (control, candidate) in zip(places, cells, strict=True):
            absent = [cell.key for cell in (*control, *candidate) if not cell.playbook]
            if absent and reading.needs(place):
                yield Problem("slices", f"no cell {absent[0]}", "the score that was read, or that its run failed")
                return
            reading.read(place, control, candidate)
    again = reading.slices(store)
    tags = {each.tag: each for each in again.tags}
    for each in recorded.tags:
        if not same_numbers(each, tags.pop(each.tag, None)):
            yield Problem(f"slices.{each.tag}", shown(asdict(each), 120), "what follows from the cells")
    if tags or [each.tag for each in recorded.tags] != [each.tag for each in again.tags]:
        yield Problem("slices", f"{len(recorded.tags)} tags", f"{len(again.tags)} tags, the worst first")
    if recorded.tasks != again.tasks:
        yield Problem("slices.tasks", f"{recorded.tasks}", f"{again.tasks}, as read until every tag had ended")
    if recorded.evidence != again.evidence:
        remedy = "Some cell, its run or an answer in it has changed since it was read."
        yield Problem("slices.evidence", short(again.evidence), short(recorded.evidence), remedy)
