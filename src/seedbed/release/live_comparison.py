"""Live comparison: a canary beside its control, or several channels beside the first, by the feedback of users.

The first look registers an experiment. Each look reads the feedback that has arrived, as `experiments.live` describes.
When it decides the experiment there is a verdict as of any comparison, and later feedback is not read. You may look as
often as you like.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from seedbed.errors import NotFound, PlaybookError, Problem, shown
from seedbed.experiments.experiment import Design, Experiment, RuleChoice
from seedbed.experiments.live import LiveSource, LiveTest, conclude, plan_live, register_live
from seedbed.experiments.proof.attempts import AttemptTerms, attempt_of, take_attempt
from seedbed.experiments.proof.error_budget import BudgetTerms, reserve
from seedbed.experiments.verdict import Finding, Verdict, verdicts
from seedbed.playbooks.library import Library
from seedbed.release.assignment import split_name
from seedbed.release.states import canary_of, stable_of
from seedbed.storage.store import Digest, Fact, Json, Query, Store, short


@dataclass(frozen=True, slots=True)
class LiveArm:
    """One arm: the number of units, of how many the outcome is known, and the mean of those outcomes."""

    playbook: Digest
    units: int
    known: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class LiveComparison:
    """The comparison so far. The difference is between `low` and `high` with 95 % confidence at every look."""

    channel: str
    metric: str
    control: LiveArm
    canary: LiveArm
    finding: Finding
    pairs: int
    wins: int
    ties: int
    losses: int
    difference: float | None
    low: float
    high: float
    p: float | None
    alpha: float
    experiment: Digest
    because: str = ""
    """Why it is invalid, if it is."""
    ratio: Json = field(default_factory=dict, hash=False)
    """How sure it is that units are not split as planned: `e`, 100 of which is an alarm, and the exact `p` by the
    numbers now, which decides at the verdict. Empty in old comparisons."""
    verdict: Verdict | None = None
    """The verdict of the experiment, once it is decided or was concluded early."""
    so_far: Verdict | None = None
    """What the feedback says so far; the same as the verdict once there is one."""

    def document(self) -> Json:
        document = {**asdict(self), "verdict": self.verdict and self.verdict.document()}
        return {name: value for name, value in document.items() if name != "so_far"}


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two playbooks that users get at the same time, where their feedback comes from, and whether that is over."""

    control: Digest
    candidate: Digest
    source: LiveSource
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Which feedback counts, and the error rate.

    The default `alpha` is the registered one, or else 0.05. With `terms` the experiment is paid from the error budget
    of the channel, or of the first of several, which sets the error rate. Else it is one of the `attempts` to replace
    the control, which share the error rate.
    """

    metric: str = "rating"
    alpha: float | None = None
    terms: BudgetTerms | None = None
    attempts: AttemptTerms | None = None
    conclude: bool = False
    """Whether to give a verdict now, decided or not."""
    exploratory: bool = False
    """Whether it is only to find out: it is no attempt, is not paid from a budget, and cannot release anything."""

    @property
    def rate(self) -> float:
        """The error rate of a new experiment that is not paid from an error budget."""
        return 0.05 if self.alpha is None else self.alpha


DEFAULTS = LiveOptions()


def compare_canary(library: Library, channel: str, options: LiveOptions = DEFAULTS) -> LiveComparison:
    """Compare the canary of a channel, or the last one, with its control. Raises NotFound if no one looked in time."""
    pair = _newest_canary(library.store, channel)
    plan = pair and _begun(library.store, pair, options, 1)
    if pair is None or (plan is None and pair.is_over):
        raise NotFound(f"no canary on channel {shown(channel)}. Release a playbook with a share first")
    plan = plan or _register(library, [pair], options, channel)[0]
    return _standing(library, channel, plan, options)


def compare_channels(
    library: Library, channels: Sequence[str], options: LiveOptions = DEFAULTS
) -> list[LiveComparison]:
    """Compare what each other channel serves with what the first serves, by the users that were split between them.

    The probability that any of the comparisons is wrong is at most `alpha`. When a channel serves another playbook, a
    new comparison begins.
    """
    moves = [_serves_since(library.store, channel) for channel in channels]
    served = [stable_of(move.body["to"]) for move in moves]
    first, *others = channels
    pairs = [
        _Pair(served[0], candidate, LiveSource(split_name(channels), tuple(move.key for move in moves), (first, other)))
        for other, candidate in zip(others, served[1:], strict=True)
    ]
    begun = [_begun(library.store, pair, options, len(pairs)) for pair in pairs]
    plans = [plan for plan in begun if plan]
    if len(plans) < len(pairs):
        plans = _register(library, pairs, options, first)
    return [_standing(library, other, plan, options) for other, plan in zip(others, plans, strict=True)]


def expect_served(store: Store, channels: Sequence[str], control: Digest | None, *candidates: Digest | None) -> None:
    """Refuse to judge other playbooks than the channels serve now; None stands for those. Raises PlaybookError."""
    refs = [store.ref(f"channels/{name.removeprefix('channels/')}") for name in channels]
    first, *others = [ref.target for ref in refs if ref] or [""]
    canary = canary_of(first)
    served = [stable_of(each) for each in others] or [canary.playbook if canary else ""]
    if not all(served):
        return  # the canary is gone, or never was
    expected = [("control", control, [stable_of(first)]), *(("candidate", each, served) for each in candidates)]
    for place, playbook, known in expected:
        if playbook is not None and playbook not in known:
            names, remedy = " or ".join(map(short, known)), "Leave it out with None: a channel says what is compared."
            raise PlaybookError([Problem(place, short(playbook), f"{names}, which users get now", remedy)])


def find_live_verdict(store: Store, channel: str) -> Verdict | None:
    """The live verdict about the canary on a channel, if there is one. A verdict that it is worse comes first."""
    pair = _newest_canary(store, channel)
    if pair is None or pair.is_over:
        return None
    verdicts = []
    for begun in _comparisons(store, pair):
        with suppress(NotFound):
            verdicts.append(Verdict.recall(store, begun.key))
    return next((each for each in verdicts if each.finding == "inferior"), verdicts[-1] if verdicts else None)


def _newest_canary(store: Store, channel: str) -> _Pair | None:
    newest: _Pair | None = None
    for move in store.facts(Query(kind="move", subject=f"channels/{channel}")):
        target = move.body["to"] or {}
        canary = canary_of(target)
        if canary is None:
            newest = newest and replace(newest, is_over=True)
        elif newest is None or newest.is_over or newest.candidate != canary.playbook:
            source = LiveSource(f"channels/{channel}", (move.key,), ("control", "canary"))
            newest = _Pair(stable_of(target), canary.playbook, source)
    return newest


def _serves_since(store: Store, channel: str) -> Fact:
    """The move since which a channel serves its stable playbook."""
    came: Fact | None = None
    for move in store.facts(Query(kind="move", subject=f"channels/{channel}", newest=True)):
        target = move.body["to"]
        if not target or (came and stable_of(target) != stable_of(came.body["to"])):
            break
        came = move
    if came is None:
        raise NotFound(f"no channel {shown(channel)}; expected one that something was released to")
    return came


def _comparisons(store: Store, pair: _Pair) -> list[Fact]:
    begun = store.facts(Query(kind="comparison", subject=pair.candidate))
    sources = (pair.source.digest, replace(pair.source, ratio="").digest)  # the second, if it began with an old version
    return [fact for fact in begun if fact.body["dataset"] in sources]


def _begun(store: Store, pair: _Pair, options: LiveOptions, arms: int) -> Experiment | None:
    """The first registered experiment that fits the options, if there is one. Several arms share the error rate.

    An exploratory one fits other options only if a new one could not be confirmatory either.
    """
    exploratory: Experiment | None = None
    for fact in _comparisons(store, pair):
        plan = Experiment.from_content(store.get(fact.key))
        taken = attempt_of(store, plan.control, plan.digest) if plan.attempt else None
        rate = None if options.alpha is None else options.alpha if taken else options.alpha / arms
        same = rate in (None, taken.body["rate"] if taken else plan.rule["alpha"])
        paid = options.terms is None or plan.channel
        if not (same and paid and plan.metric == {"feedback": options.metric}):
            continue
        if plan.mode != "exploratory" and not options.exploratory:
            return plan
        if plan.mode == "exploratory":
            exploratory = exploratory or plan
    if options.exploratory or not _may_confirm(store, pair, options):
        return exploratory
    return None


def _register(library: Library, pairs: Sequence[_Pair], options: LiveOptions, channel: str) -> list[Experiment]:
    """Register the experiments before any feedback is read. Together they are one attempt to replace the control."""
    store, by, clock = library.store, library.by, library.clock
    rate, terms = options.rate, options.attempts

    def drafts(design: Design) -> list[Experiment]:
        share = replace(design, alpha=design.alpha / len(pairs))
        return [plan_live(each.source, each.control, each.candidate, options.metric, share) for each in pairs]

    if options.terms:
        plans = [_paid(library, pair, options, channel) for pair in pairs]
    elif terms is None or not all(_may_confirm(store, each, options) for each in pairs):
        plans = drafts(Design(rate))
    else:

        def planned(level: float, number: int) -> list[Experiment]:
            return drafts(Design(level, mode="confirmatory", attempt=number))

        taken = take_attempt(store, pairs[0].control, terms, rate, planned, by=by, clock=clock)
        plans = planned(taken.body["level"], taken.body["number"])
    for pair, plan in zip(pairs, plans, strict=True):
        register_live(store, pair.source, plan, by=by, clock=clock)
    return plans


def _paid(library: Library, pair: _Pair, options: LiveOptions, channel: str) -> Experiment:
    """The experiment at the next level of a channel's error budget."""
    assert options.terms

    def planned(alpha: float, _: RuleChoice, before: float) -> Experiment:
        late = pair.source.has_outcomes(library.store, before)
        design = Design(alpha, channel=channel, mode="exploratory" if late else "confirmatory")
        return plan_live(pair.source, pair.control, pair.candidate, options.metric, design)

    return reserve(library.store, channel, options.terms, planned, None, by=library.by, clock=library.clock)


def _may_confirm(store: Store, pair: _Pair, options: LiveOptions) -> bool:
    """Whether an experiment that begins now can be confirmatory."""
    if options.exploratory or pair.is_over or _is_late(store, pair):
        return False
    terms = options.attempts
    return options.terms is not None or bool(terms and options.rate <= terms.most and not _is_proven(store, pair))


def _is_late(store: Store, pair: _Pair) -> bool:
    """Whether outcomes are known already, so that the metric may have been chosen by them."""
    return pair.source.has_outcomes(store)


def _is_proven(store: Store, pair: _Pair) -> bool:
    """Whether the candidate was found better before, which is enough: what users say of it need be no attempt."""
    best = (pair.control, "confirmatory", "superior")
    return any((each.control, each.mode, each.finding) == best for each in verdicts(store, pair.candidate))


def _standing(library: Library, channel: str, plan: Experiment, options: LiveOptions) -> LiveComparison:
    store = library.store
    with suppress(NotFound):
        return _shown(channel, Verdict.recall(store, plan.digest), final=True)
    reading = LiveTest(plan, LiveSource.of(store, plan))
    reading.read(reading.source.arrivals(store, options.metric))
    if reading.ended or options.conclude:
        return _shown(channel, conclude(store, reading, by=library.by, clock=library.clock), final=True)
    return _shown(channel, reading.verdict(), final=False)


def _shown(channel: str, verdict: Verdict, *, final: bool) -> LiveComparison:
    low, high = verdict.estimate_low, verdict.estimate_high
    return LiveComparison(
        channel,
        verdict.metric,
        control=LiveArm(verdict.control, **verdict.live["control"]),
        canary=LiveArm(verdict.candidate, **verdict.live["candidate"]),
        finding=verdict.finding,
        pairs=verdict.tasks,
        wins=verdict.wins,
        ties=verdict.ties,
        losses=verdict.losses,
        difference=verdict.difference if verdict.tasks else None,
        low=-1.0 if low is None else low,
        high=1.0 if high is None else high,
        p=verdict.p,
        alpha=verdict.alpha,
        experiment=verdict.experiment,
        because=verdict.because,
        ratio=verdict.live.get("ratio", {}),
        verdict=verdict if final else None,
        so_far=replace(verdict, is_final=final),
    )
