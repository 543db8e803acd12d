"""Live experiments: which of two playbooks does better, by the feedback of the users who were served one of them.

There are no tasks and no cells. The test reads exposures of units (only the first of each, and none of a drill) and
outcomes: the first feedback on such an exposure. Both are read in the order of arrival, and the next outcome of the
candidate is paired with the next one of the control. Two ratios are monitored: of the units that each arm got, and of
the units with an outcome. Reading ends at the first fact after which the rule answers, or after which a ratio is off:
then assignment or logging is broken, or one arm makes users answer more often, and the verdict is invalid. The verdict
is a look at the units of each arm that is fixed beforehand, so an exact test there finds what is too slight for one
that is made at every unit. So every reader, at any time, comes to the same verdict.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from seedbed.errors import NotFound, Problem, StoreDamaged, shown
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.evidence import facts_by_key, line_of
from seedbed.experiments.experiment import EDITION, Design, Experiment
from seedbed.experiments.sequential_test import SequentialTest
from seedbed.experiments.verdict import Verdict, record_verdict, register
from seedbed.stats.monitors import CONCENTRATIONS, LOOK_ERROR, OLD_CONCENTRATIONS, SampleRatio
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest, short

HOW = {"unit": "key", "order": "arrival", "outcome": "the first feedback on a unit's first exposure"}
"""What every live experiment registers of how it is read."""
RATIO = f"e of 100 at any time, exact p of {LOOK_ERROR:g} at the verdict"
"""When the units of the two arms are out of ratio."""


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Where outcomes come from: exposures of one name to two arms, the control first, since some moves of channels.

    A canary was released by one move; of several channels, each has the move by which it serves its playbook.
    """

    exposures: str
    since: tuple[str, ...]
    arms: tuple[str, str]
    ratio: str = RATIO
    """Empty in old experiments, which have no exact test and a blunter one at every unit."""

    def content(self) -> Json:
        ratio = {"ratio": self.ratio} if self.ratio else {}  # without it, the digest is that of before
        return {"exposures": self.exposures, "since": list(self.since), "arms": list(self.arms), **HOW, **ratio}

    @property
    def digest(self) -> Digest:
        return digest("live", self.content())

    @property
    def description(self) -> str:
        return f"{' and '.join(self.arms)} of {self.exposures} since {', '.join(self.since)}, as outcomes arrive"

    @classmethod
    def of(cls, store: Store, plan: Experiment) -> LiveSource:
        """The source of a live experiment. Raises NotFound."""
        try:
            content = store.get(plan.dataset)
            control, candidate = content["arms"]
            return cls(content["exposures"], tuple(content["since"]), (control, candidate), content.get("ratio", ""))
        except (StoreDamaged, LookupError, ValueError) as wrong:
            raise NotFound(f"the source of experiment {short(plan.digest)} cannot be read: {wrong}") from None

    def span(self, store: Store) -> tuple[int, float]:
        """The numbers of the moves between which exposures count; the second one ended an arm."""
        began = facts_by_key(store, "move", self.since)
        if missing := [key for key in self.since if key not in began]:
            raise NotFound(f"no move {shown(missing[0])} in this store. Copy it from the store that has it")
        after = max(fact.number for fact in began.values())
        canary = self.exposures.startswith("channels/")
        ends = [math.inf]
        for fact in began.values():
            served = _served(fact.body["to"], canary)
            moves = store.facts(Query(kind="move", subject=fact.subject, after=after))
            ends.append(next((each.number for each in moves if _served(each.body["to"], canary) != served), math.inf))
        return after, min(ends)

    def has_outcomes(self, store: Store, before: float = math.inf) -> bool:
        """Whether any feedback on its exposures was known before that fact. Raises NotFound."""
        after, _ = self.span(store)
        exposures = store.facts(Query(kind="exposure", subject=self.exposures, after=after))
        shown = {fact.key for fact in exposures if "drill" not in fact.body}
        feedback = store.facts(Query(kind="feedback", after=after)) if shown else ()
        return any(fact.subject in shown and fact.number < before for fact in feedback)

    def arrivals(self, store: Store, metric: str) -> Iterator[Fact]:
        """Exposures, and all feedback of that name, in the order of arrival. Raises NotFound."""
        after, until = self.span(store)
        exposures = store.facts(Query(kind="exposure", subject=self.exposures, after=after))
        feedback = store.facts(Query(kind="feedback", tag=metric, after=after))
        in_time = (fact for fact in exposures if fact.number < until)
        yield from heapq.merge(in_time, feedback, key=lambda fact: fact.number)


def _served(target: Any, canary: bool) -> str | None:
    """The playbook of the canary, or the stable one."""
    if not isinstance(target, Mapping):
        return None if canary else target
    served = target.get("canary") if canary else target.get("stable")
    return served.get("playbook") if isinstance(served, Mapping) else served


def is_live(plan: Experiment | Json) -> bool:
    """Whether an experiment is live, by the metric that it registered."""
    metric = plan.metric if isinstance(plan, Experiment) else plan.get("metric")
    return isinstance(metric, dict) and metric.keys() == {"feedback"}


def plan_live(source: LiveSource, control: Digest, candidate: Digest, metric: str, design: Design) -> Experiment:
    """The experiment that will be read. Of the design only the error rate, the channel whose error budget pays for it,
    the mode and the attempt count."""
    rule = Betting(alpha=design.alpha).state()
    return Experiment(
        control=control,
        candidate=candidate,
        dataset=source.digest,
        metric={"feedback": metric},
        models={},
        rule={key: value for key, value in rule.items() if key != "outcomes"},
        order=(),
        hypothesis=f"{short(candidate)} is better than {short(control)} by {metric}, live",
        channel=design.channel,
        mode=design.mode,
        attempt=design.attempt,
        edition=EDITION,
    )


def register_live(
    store: Store, source: LiveSource, plan: Experiment, *, by: str, clock: Callable[[], datetime]
) -> None:
    """Store the source, and register the experiment."""
    store.put("live", source.content())
    register(store, plan, by=by, clock=clock)


class LiveTest:
    """The sequential test of a live experiment: takes exposures and outcomes as they arrived until it is decided."""

    def __init__(self, plan: Experiment, source: LiveSource) -> None:
        self.plan, self.source = plan, source
        self.metric: str = plan.metric["feedback"]
        self.facts: list[Fact] = []
        """The facts that counted."""
        self.because = ""
        """Why the verdict is invalid, if it is."""
        self._pairs = SequentialTest(plan, Dataset(()), self.metric)
        self._playbooks = dict(zip(source.arms, (plan.control, plan.candidate), strict=True))
        self._met: set[str] = set()
        self._sent = dict.fromkeys(source.arms, 0)
        self._open: dict[str, str] = {}
        self._known: dict[str, list[Cell]] = {arm: [] for arm in source.arms}
        halves = dict.fromkeys(source.arms, 0.5)
        priors = CONCENTRATIONS if source.ratio else OLD_CONCENTRATIONS
        self._ratios = {
            "sent to": SampleRatio(halves, alpha=0.01 if source.ratio else 0.001, concentrations=priors),
            "known of": SampleRatio(halves, alpha=0.001, concentrations=priors),
        }

    @property
    def ended(self) -> bool:
        return bool(self.because) or self._pairs.rule.answer.verdict != "continue"

    @property
    def path(self) -> tuple[Answer, ...]:
        """The answers of the rule after each pair."""
        return tuple(self._pairs.answers)

    def read(self, arrivals: Iterable[Fact]) -> None:
        """Take facts until the test has ended."""
        for fact in arrivals:
            if self.ended:
                return
            self.take(fact)

    def take(self, fact: Fact) -> bool:
        """Take the next fact, and return whether it counts."""
        counts = self._expose(fact) if fact.kind == "exposure" else self._rate(fact)
        if counts:
            self.facts.append(fact)
        return counts

    def _expose(self, fact: Fact) -> bool:
        arm, unit = fact.body["arm"], fact.body["unit"]
        if fact.subject != self.source.exposures or unit in self._met or not fact.body["compared"]:
            return False
        if "drill" in fact.body:  # nobody asked: whoever drills chooses the tasks
            return False
        if arm not in self._playbooks or self._playbooks[arm] != fact.body["playbook"]:
            return False
        self._met.add(unit)
        self._open[fact.key] = arm
        self._sent[arm] += 1
        self._watch("sent to", "units sent to", self._sent)
        return True

    def _rate(self, fact: Fact) -> bool:
        if fact.value is None or not 0 <= fact.value <= 1 or self.metric not in fact.tags:
            return False
        if (arm := self._open.pop(fact.subject, None)) is None:
            return False
        known = self._known[arm]
        known.append(
            Cell(
                key=fact.key,
                playbook=self._playbooks[arm],
                task="",
                replicate=0,
                metric=self.metric,
                value=fact.value,
                run=fact.subject,
            )
        )
        self._watch("known of", "outcomes known of", {each: len(cells) for each, cells in self._known.items()})
        control, candidate = (self._known[each] for each in self.source.arms)
        if not self.because and len(known) <= min(len(control), len(candidate)):
            self._pairs.read([control[len(known) - 1]], [candidate[len(known) - 1]])
        return True

    def _watch(self, ratio: str, what: str, counts: Mapping[str, int]) -> None:
        watched = self._ratios[ratio]
        if watched.update(counts):
            figures = f"e = {watched.e:.3g}" if self.source.ratio else f"p = {watched.p:.2g}"
            self.because = f"found {_counted(counts, what)}; expected as many ({figures})"

    def _exact_look(self) -> str:
        """Why the split of the units is not as planned by the exact test, if it is not."""
        p = self._ratios["sent to"].exact_p
        if not self.source.ratio or p > LOOK_ERROR:
            return ""
        return f"found {_counted(self._sent, 'units sent to')}; expected as many (exact p = {p:.2g})"

    def verdict(self, *, evidence: Digest = "", sample: Digest = "", aborted: str = "", final: bool = False) -> Verdict:
        """The verdict so far; final only if the test has ended, or a person concludes it."""
        verdict = self._pairs.verdict(evidence=evidence, aborted=aborted)
        because = verdict.because or self.because or (self._exact_look() if final else "")
        live: Json = {"source": self.source.content(), "sample": sample}
        if self.source.ratio:  # rounded, so that another machine computes the same
            sent = self._ratios["sent to"]
            live["ratio"] = {"e": float(f"{sent.e:.3g}"), "p": float(f"{sent.exact_p:.3g}")}
        for name, arm in zip(("control", "candidate"), self.source.arms, strict=True):
            values = [cell.value or 0.0 for cell in self._known[arm]]
            mean = math.fsum(values) / len(values) if values else None
            live[name] = {"units": self._sent[arm], "known": len(values), "mean": mean}
        finding = "invalid" if because else verdict.finding
        return replace(verdict, at_most=verdict.tasks, finding=finding, because=because, live=live)


def _counted(counts: Mapping[str, int], what: str) -> str:
    return " and ".join(f"{count} {what} the {arm}" for arm, count in counts.items())


def conclude(store: Store, reading: LiveTest, *, by: str, clock: Callable[[], datetime]) -> Verdict:
    """Record the verdict of what was read; the first one of an experiment counts.

    Facts may become visible out of order, so the list of those that were read is stored too.
    """
    sample = store.put("arrivals", {"read": [[fact.kind, fact.key] for fact in reading.facts]})
    return record_verdict(
        store, reading.verdict(evidence=digest_facts(reading.facts), sample=sample, final=True), by=by, clock=clock
    )


def digest_facts(facts: Iterable[Fact]) -> Digest:
    """The digest of exposures and feedback, in the order in which they were read."""
    whole = hashlib.blake2b(digest_size=32)
    for fact in facts:
        whole.update(line_of(fact, fact.kind, *fact.tags, *fact.parents))
    return f"b2:{whole.hexdigest()}"


@dataclass(frozen=True, slots=True)
class RecomputedVerdict:
    """A live verdict, recomputed from the facts that it says were read."""

    verdict: Verdict
    path: tuple[Answer, ...]
    evidence: Digest
    problems: tuple[Problem, ...]
    first_outcome: float
    """The number of the first outcome that was read."""
    whole: bool
    """Whether these are all facts that arrived until then, as the store has them now."""


def recompute(store: Store, plan: Experiment, verdict: Verdict) -> RecomputedVerdict:
    """Recompute a verdict from the facts that it was based on. Raises NotFound."""
    source, problems = LiveSource.of(store, plan), []
    sample: Digest = verdict.live.get("sample") or ""
    listed = [(kind, key) for kind, key in store.get(sample)["read"]] if sample else []
    known = {kind: facts_by_key(store, kind, [key for each, key in listed if each == kind]) for kind, _ in listed}
    reading, (after, until) = LiveTest(plan, source), source.span(store)
    for kind, key in listed:
        fact = known[kind].get(key)
        if fact is None:
            problems.append(Problem(f"{kind} {key}", "nothing", "what was read"))
        elif reading.ended:
            problems.append(Problem(f"{kind} {key}", "one that came after the end", "none: it was decided"))
        elif not after < fact.number or (kind == "exposure" and fact.number > until) or not reading.take(fact):
            problems.append(Problem(f"{kind} {key}", "one that does not count", "one of this experiment, once"))
    first = min((fact.number for fact in reading.facts if fact.kind == "feedback"), default=math.inf)
    return RecomputedVerdict(
        reading.verdict(sample=sample, aborted=verdict.because if verdict.aborted else "", final=True),
        reading.path,
        digest_facts(reading.facts),
        tuple(problems),
        first,
        _read_now(store, plan, source, len(listed)) == listed,
    )


def _read_now(store: Store, plan: Experiment, source: LiveSource, count: int) -> list[tuple[str, str]]:
    """The first `count` facts that would be read today."""
    reading = LiveTest(plan, source)
    for fact in source.arrivals(store, reading.metric):
        if len(reading.facts) == count:
            break
        reading.take(fact)
    return [(fact.kind, fact.key) for fact in reading.facts]
