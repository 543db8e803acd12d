"""Live: how a canary does beside its control, or several channels beside the first, by what came of those who met them.

An outcome is the first feedback on a unit's first exposure, and outcomes are read in the order in which they arrive:
nothing that was read changes, so that it may be looked at as often as one likes. The next outcome of the canary is set
against the next one of the control. Two ratios are watched: of those who were sent to each arm, and of those of whom an
outcome is known. If either is not as agreed, nothing can be believed: assignment or logging is broken, or one of the
two makes people answer more often than the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile

from seedbed.errors import NotFound, shown
from seedbed.experiments.verdict import Finding
from seedbed.release.assignment import split_name
from seedbed.release.channels import rollout
from seedbed.release.states import stable_of
from seedbed.stats.betting import Betting
from seedbed.stats.watching import SampleRatio
from seedbed.storage.store import Digest, Fact, Json, Query, Store


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: how many units met it, of how many an outcome is known, and the mean of those."""

    playbook: Digest
    units: int
    known: int
    mean: float | None


@dataclass(frozen=True, slots=True)
class Live:
    """How it stands. The difference lies between `low` and `high` with 95 % confidence, however often one looks."""

    channel: str
    metric: str
    control: Side
    canary: Side
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
    because: str = ""
    """Why it is invalid, if it is."""

    def document(self) -> Json:
        return asdict(self)


def live(store: Store, channel: str, *, metric: str = "rating", alpha: float = 0.05) -> Live:
    """How the canary of a channel does now. Raises NotFound if there is none.

    Once it is found superior or inferior, that stands: what comes later is not read.
    """
    state, began = rollout(store, channel)
    if state.canary is None or state.stable is None or began is None:
        raise NotFound(f"no canary on channel {shown(channel)}. Release a playbook with a share first")
    arms = {"control": state.stable, "canary": state.canary.playbook}
    exposures = _first_exposures(store, f"channels/{channel}", arms, began.number)
    return _standing(store, channel, arms, exposures, metric, alpha, began.number)


def live_among(store: Store, channels: Sequence[str], *, metric: str = "rating", alpha: float = 0.05) -> list[Live]:
    """How what each other channel serves does beside what the first does, by those who were sent to one of them.

    All together are wrong with a chance of at most `alpha`. When any of the channels moves, it begins anew.
    """
    moves = [_newest_move(store, channel) for channel in channels]
    served = {channel: stable_of(move.body["to"]) for channel, move in zip(channels, moves, strict=True)}
    after = max(move.number for move in moves)
    exposures = _first_exposures(store, split_name(channels), served, after)
    first, *others = channels
    return [
        _standing(
            store, other, {first: served[first], other: served[other]}, exposures, metric, alpha / len(others), after
        )
        for other in others
    ]


def _newest_move(store: Store, channel: str) -> Fact:
    for move in store.facts(Query(kind="move", subject=f"channels/{channel}", newest=True, limit=1)):
        return move
    raise NotFound(f"no channel {shown(channel)}; expected one that something was released to")


def _standing(
    store: Store,
    channel: str,
    arms: Mapping[str, Digest],
    exposures: Sequence[Fact],
    metric: str,
    alpha: float,
    after: int,
) -> Live:
    """How the second of two arms does beside the first."""
    control, candidate = arms
    sent = [fact for fact in exposures if fact.body["arm"] in arms]
    outcomes = _outcomes(store, metric, sent, after)
    values = {arm: [value for known, value in outcomes if known == arm] for arm in arms}
    rule = Betting(alpha=alpha)
    pairs = list(zip(values[control], values[candidate], strict=False))
    for before, then in pairs:
        if rule.update(then - before).verdict != "continue":
            break
    answer = rule.answer
    because = _out_of_ratio(tuple(arms), sent, [arm for arm, _ in outcomes])
    finding: Finding = "inconclusive" if answer.verdict == "continue" else answer.verdict
    low, high = rule.interval() if answer.n else (-1.0, 1.0)
    read = pairs[: answer.n]

    def side(arm: str) -> Side:
        units, known = sum(fact.body["arm"] == arm for fact in sent), values[arm]
        return Side(arms[arm], units, len(known), math.fsum(known) / len(known) if known else None)

    return Live(
        channel,
        metric,
        control=side(control),
        canary=side(candidate),
        finding="invalid" if because else finding,
        pairs=answer.n,
        wins=answer.wins,
        ties=answer.ties,
        losses=answer.losses,
        difference=math.fsum(then - before for before, then in read) / len(read) if read else None,
        low=low,
        high=high,
        p=answer.p,
        alpha=alpha,
        because=because,
    )


def _first_exposures(store: Store, subject: str, arms: Collection[str], after: int) -> list[Fact]:
    """The first exposure of each unit to one of the arms since then, in their order."""
    seen: dict[str, Fact] = {}
    for fact in store.facts(Query(kind="exposure", subject=subject, after=after)):
        if fact.body["arm"] in arms:
            seen.setdefault(fact.body["unit"], fact)
    return list(seen.values())


def _outcomes(store: Store, metric: str, exposures: Sequence[Fact], after: int) -> list[tuple[str, float]]:
    """The first outcome of each exposure, as they arrived."""
    arms: dict[str, str] = {fact.key: fact.body["arm"] for fact in exposures}
    found = []
    for fact in store.facts(Query(kind="feedback", tag=metric, after=after)):
        if fact.value is not None and (arm := arms.pop(fact.subject, None)):
            found.append((arm, fact.value))
    return found


def _out_of_ratio(arms: tuple[str, ...], exposures: Sequence[Fact], known: Sequence[str]) -> str:
    """Why those who were sent to the two arms, or those of whom an outcome is known, are not as many as agreed."""
    steps = [(fact.body["arm"], fact.body["share"]) for fact in exposures]
    even = list(takewhile(lambda step: step[1] <= 0.5, steps))  # above a half there are too few for the control
    watched: dict[str, Sequence[str]] = {"units sent to": [arm for arm, _ in even]}
    if len(even) == len(steps):
        watched["outcomes known of"] = known
    for what, came in watched.items():
        ratio, counts = SampleRatio(dict.fromkeys(arms, 0.5)), dict.fromkeys(arms, 0)
        for arm in came:
            counts[arm] += 1
            if ratio.update(counts):
                told = " and ".join(f"{count} {what} the {arm}" for arm, count in counts.items())
                return f"found {told}; expected as many (p = {ratio.p:.2g})"
    return ""
