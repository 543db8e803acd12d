"""Live comparison: a canary beside its control, or several channels beside the first, by the feedback of users.

The first look registers an experiment. Each look reads the feedback that has arrived, as `experiments.live` describes.
When it decides the experiment there is a verdict as of any comparison, and later feedback is not read. You may look as
often as you like.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from seedbed.errors import NotFound, shown
from seedbed.experiments.experiment import Experiment, RuleChoice
from seedbed.experiments.live import LiveSource, LiveTest, conclude, plan_live, register_live
from seedbed.experiments.proof.error_budget import BudgetTerms, reserve
from seedbed.experiments.verdict import Finding, Verdict
from seedbed.playbooks.library import Library
from seedbed.release.assignment import split_name
from seedbed.release.states import canary_of, stable_of
from seedbed.storage.store import Digest, Fact, Json, Query, Store


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
    of the channel, or of the first of several, which sets the error rate.
    """

    metric: str = "rating"
    alpha: float | None = None
    terms: BudgetTerms | None = None
    conclude: bool = False
    """Whether to give a verdict now, decided or not."""


DEFAULTS = LiveOptions()


def compare_canary(library: Library, channel: str, options: LiveOptions = DEFAULTS) -> LiveComparison:
    """Compare the canary of a channel, or the last one, with its control. Raises NotFound if no one looked in time."""
    pair = _newest_canary(library.store, channel)
    plan = pair and _begun(library.store, pair, options, 1)
    if pair is None or (plan is None and pair.is_over):
        raise NotFound(f"no canary on channel {shown(channel)}. Release a playbook with a share first")
    plan = plan or _register(library, pair, options, channel, 1)
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
    comparisons = []
    for other, candidate in zip(others, served[1:], strict=True):
        source = LiveSource(split_name(channels), tuple(move.key for move in moves), (first, other))
        pair = _Pair(served[0], candidate, source)
        plan = _begun(library.store, pair, options, len(others))
        plan = plan or _register(library, pair, options, first, len(others))
        comparisons.append(_standing(library, other, plan, options))
    return comparisons


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
    """The first registered experiment that fits the options, if there is one. Several arms share the error rate."""
    for fact in _comparisons(store, pair):
        plan = Experiment.from_content(store.get(fact.key))
        same = options.alpha is None or plan.rule["alpha"] == options.alpha / arms
        paid = options.terms is None or plan.channel
        if same and paid and plan.metric == {"feedback": options.metric}:
            return plan
    return None


def _register(library: Library, pair: _Pair, options: LiveOptions, channel: str, arms: int) -> Experiment:
    """Register the experiment before any feedback is read."""
    store = library.store
    draft = partial(plan_live, pair.source, pair.control, pair.candidate, options.metric)
    if options.terms:

        def paid(alpha: float, _: RuleChoice, before: float) -> Experiment:
            return draft(alpha=alpha, channel=channel)

        plan = reserve(store, channel, options.terms, paid, None, by=library.by, clock=library.clock)
    else:
        plan = draft(alpha=(0.05 if options.alpha is None else options.alpha) / arms)
    register_live(store, pair.source, plan, by=library.by, clock=library.clock)
    return plan


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
