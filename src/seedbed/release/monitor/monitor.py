"""Monitor: watch a new playbook on a channel beside the one before, and roll it back if it does worse.

A canary is watched beside a control that gets the stable playbook at the same time. After it is settled, the users who
are kept back are the control; without them, the earlier outcomes of the playbook before. Everything is read from the
store: a monitor that was killed continues where it was, and several may watch at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from seedbed.errors import NotFound, RefMoved, ReleaseRefused, shown
from seedbed.playbooks.library import Library
from seedbed.release.channels import moves, rollback
from seedbed.release.monitor.exposures import Exposure, ExposureFeed, ExposureOutcome
from seedbed.release.monitor.guard_evidence import GuardEvidence, GuardStatus, PairSide
from seedbed.release.monitor.guards import Guard, Watch
from seedbed.release.states import State, percent, replay_moves, serves, stable_of, time_span
from seedbed.stats.monitors import Drift, SampleRatio
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, Store, now, short

MonitorPhase: TypeAlias = Literal["canary", "kept back", "settled"]
Reaction: TypeAlias = Literal["roll back", "hold", "tell"]

RUN_LENGTH = 10_000
"""After a release, all guards together give at most one false alarm in so many outcomes, on average."""
REFERENCE = 200
"""The number of outcomes that establish what is normal for a playbook."""
EARLIER = 1_000
"""How many exposures of the playbook before are read."""
ANSWER_ERROR = 0.001
"""The chance that outcomes of two arms that are answered alike are ever found to be uneven, for all guards."""
MONITOR = "monitor"
"""The `by` of moves that the monitor makes."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that is wrong on a channel, and the reaction to it."""

    kind: str
    reaction: Reaction
    message: str
    metric: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a channel: the newer and the older playbook, the state of each guard, and every alarm."""

    channel: str
    at: datetime
    phase: MonitorPhase
    newer: Digest
    older: Digest | None
    share: float
    since: Fact
    units: tuple[int, int]
    """How many compared units got the newer and the older playbook."""
    ratio: Json
    """How sure it is that these are not split as planned: `e`, of which 100 is an alarm, and the exact `p` of the
    numbers now, which decides when a step of the ramp ends."""
    rows: tuple[GuardStatus, ...]
    alarms: tuple[Alarm, ...]

    @property
    def reaction(self) -> Reaction | None:
        """The most severe reaction of all alarms."""
        called = {alarm.reaction for alarm in self.alarms}
        order: tuple[Reaction, ...] = ("roll back", "hold", "tell")
        return next((each for each in order if each in called), None)

    def document(self) -> Json:
        rows = [
            {
                "metric": row.guard.metric,
                "action": row.guard.action,
                "limit": row.guard.by,
                **{name: value for name, value in asdict(row).items() if name != "guard"},
            }
            for row in self.rows
        ]
        alarms = [
            {"kind": each.kind, "reaction": each.reaction, "told": each.message, "metric": each.metric}
            for each in self.alarms
        ]
        return {
            "channel": self.channel,
            "at": self.at,
            "phase": self.phase,
            "newer": self.newer,
            "older": self.older,
            "share": self.share,
            "since": self.since.at,
            "units": {"newer": self.units[0], "older": self.units[1]},
            "ratio": self.ratio,
            "guards": rows,
            "alarms": alarms,
            "reaction": self.reaction,
        }


class Monitor:
    """Watches one channel. Look as often as you like: each look reads only new facts."""

    def __init__(self, store: Store, channel: str, watch: Watch, *, clock: Callable[[], datetime] = now) -> None:
        self.store, self.channel, self.watch = store, channel, watch
        self._clock = clock
        self._watched: _Watched | None = None

    def look(self) -> Health:
        """The health of the channel now. Raises NotFound if nothing was ever released to it."""
        at = self._clock()
        past = moves(self.store, self.channel)
        state = replay_moves(past)
        if state.stable is None:
            raise NotFound(f"channel {shown(self.channel)}: found nothing released; expected something to watch")
        case = _case(state, past, at)
        if self._watched is None or self._watched.case != case:
            self._watched = _Watched(self.store, self.channel, self.watch, case)
        return self._watched.look(at, state.canary.share if state.canary else 1.0)

    def react(self, health: Health) -> Ref | None:
        """Roll back if an alarm demands it, unless the playbook was taken back meanwhile."""
        cause = next((alarm for alarm in health.alarms if alarm.reaction == "roll back"), None)
        since = Query(kind="move", subject=f"channels/{self.channel}", after=health.since.number)
        if cause is None or not all(serves(move.body["to"], health.newer) for move in self.store.facts(since)):
            return None
        with suppress(RefMoved, ReleaseRefused):  # another process was quicker, or there is nothing to return to
            return rollback(Library(self.store, MONITOR), self.channel, because=cause.message, of=health.newer)
        return None


@dataclass(frozen=True, slots=True)
class _Case:
    """The playbooks that are watched, and the move since which."""

    phase: MonitorPhase
    newer: Digest
    older: Digest | None
    since: Fact


def _case(state: State, past: Sequence[Fact], at: datetime) -> _Case:
    assert state.stable
    if state.canary:
        name = state.canary.playbook
        began = _since(past, lambda target: (target.get("canary") or {}).get("playbook") == name)
        return _Case("canary", name, state.stable, began)
    began = _since(past, lambda target: stable_of(target) == state.stable)
    before = state.standing[-2] if len(state.standing) > 1 else None
    is_kept_back = state.held is not None and at < state.held.until
    return _Case("kept back" if is_kept_back else "settled", state.stable, before, began)


def _since(past: Sequence[Fact], so: Callable[[Json], bool]) -> Fact:
    """The first of the newest moves whose targets all fit."""
    first = past[-1]
    for move in reversed(past):
        target = move.body["to"]
        if not target or not so(target if isinstance(target, dict) else {"stable": target}):
            break
        first = move
    return first


class _Watched:
    """One case with everything that was read of it."""

    def __init__(self, store: Store, channel: str, watch: Watch, case: _Case) -> None:
        self.case, self._watch = case, watch
        self._channel = channel
        self._last_met: datetime | None = None
        self._units: dict[str, int] = {"newer": 0, "older": 0}
        halves = {"newer": 0.5, "older": 0.5}
        self._ratio = SampleRatio(halves)
        guards = watch.guards
        acting = {action: sum(guard.action == action for guard in guards) for action in ("roll back", "hold")}
        run_length = {action: None if case.phase == "canary" else RUN_LENGTH * acting[action] for action in acting}
        self._pairs = {
            guard.metric: GuardEvidence(
                guard, error=watch.error / acting[guard.action], run_length=run_length[guard.action]
            )
            for guard in guards
        }
        self._answered = {guard.metric: {"newer": 0, "older": 0} for guard in guards}
        self._answers = {guard.metric: SampleRatio(halves, alpha=ANSWER_ERROR / len(guards)) for guard in guards}
        self._levels = {guard.metric: _Level(guard, RUN_LENGTH * len(guards)) for guard in guards}
        metrics = [guard.metric for guard in guards]
        playbooks = [case.newer, *([case.older] if case.older else [])]
        self._readings = ExposureFeed(store, channel, playbooks, metrics, after=case.since.number)
        if case.phase == "settled" and case.older:
            self._recall(store, channel, case.older, metrics)

    def _recall(self, store: Store, channel: str, older: Digest, metrics: Sequence[str]) -> None:
        """Without a control, the new playbook is compared with earlier outcomes of the one before."""
        query = Query(kind="exposure", subject=f"channels/{channel}", tag=older, newest=True, limit=EARLIER)
        numbers = [fact.number for fact in store.facts(query)]
        if numbers:
            earlier = ExposureFeed(
                store, channel, [older], metrics, after=numbers[-1] - 1, until=self.case.since.number
            )
            for event in earlier.read():
                if isinstance(event, ExposureOutcome):
                    self._pairs[event.metric].take("older", event.value)

    def look(self, at: datetime, share: float) -> Health:
        for event in self._readings.read():
            if isinstance(event, Exposure):
                self._met(event)
            else:
                self._read(event)
        rows = tuple(pairs.status() for pairs in self._pairs.values())
        case = self.case
        return Health(
            self._channel,
            at,
            case.phase,
            case.newer,
            case.older,
            share,
            case.since,
            (self._units["newer"], self._units["older"]),
            {"e": self._ratio.e, "p": self._ratio.exact_p},
            rows,
            tuple(self._alarms(at, share, rows)),
        )

    def _side(self, playbook: Digest) -> PairSide:
        return "newer" if playbook == self.case.newer else "older"

    def _met(self, met: Exposure) -> None:
        side = self._side(met.playbook)
        if side == "newer":
            self._last_met = max(met.at, self._last_met or met.at)
        if met.compared:
            self._units[side] += 1
            self._ratio.update(self._units)

    def _read(self, reading: ExposureOutcome) -> None:
        met, metric = reading.met, reading.metric
        side = self._side(met.playbook)
        if side == "newer":
            self._levels[metric].take(reading.value)
        if self.case.phase == "settled":
            if side == "newer":
                self._pairs[metric].take("newer", reading.value)
            return
        if met.compared or met.beside:
            self._pairs[metric].take(side, reading.value, met.controls)
        if met.compared:
            self._answered[metric][side] += 1
            self._answers[metric].update(self._answered[metric])

    def _alarms(self, at: datetime, share: float, rows: Sequence[GuardStatus]) -> list[Alarm]:
        phase, concurrent = self.case.phase, self.case.phase != "settled"
        alarms = [_breach(row, phase, self.case.newer) for row in rows if row.breached]
        if concurrent:
            hold: Reaction = "hold" if phase == "canary" else "tell"
            alarms += [_out_of_ratio("sample ratio", "units got", self._ratio, hold)] if self._ratio.alarm else []
            for metric, ratio in self._answers.items():
                if ratio.evidence >= -math.log(ratio.alpha):  # as it is now: late outcomes of one arm may still arrive
                    uneven = _out_of_ratio("answer ratio", f"outcomes by {metric} of", ratio, hold)
                    alarms.append(replace(uneven, metric=metric))
        if phase == "canary":
            alarms += self._overdue(at, share)
        else:
            alarms += [alarm for level in self._levels.values() if (alarm := level.alarm(self.case.newer))]
        return alarms

    def _overdue(self, at: datetime, share: float) -> list[Alarm]:
        watch, alarms = self._watch, []
        quiet = at - (self._last_met or self.case.since.at)
        if watch.no_traffic and quiet > watch.no_traffic:
            message = f"no user got the canary {short(self.case.newer)} for {time_span(quiet)}, at {percent(share)}"
            alarms.append(Alarm("no traffic", "hold", message))
        age = at - self.case.since.at
        if watch.deadline and age > watch.deadline:
            message = f"the canary {short(self.case.newer)} is {time_span(age)} old, and should be settled within "
            alarms.append(Alarm("deadline", "roll back", message + time_span(watch.deadline)))
        return alarms


class _Level:
    """Whether a playbook has become worse than it was at first, by one guard."""

    def __init__(self, guard: Guard, run_length: float) -> None:
        self._guard, self._run_length = guard, run_length
        self._first: list[float] = []
        self._drift: Drift | None = None

    def take(self, value: float) -> None:
        goodness = self._guard.goodness(value)
        if self._drift:
            self._drift.update(goodness)
            return
        self._first.append(goodness)
        if len(self._first) == REFERENCE and (level := self._normal - self._guard.margin) > 0:
            self._drift = Drift(level, run_length=self._run_length, least=0.0, most=1.0)

    @property
    def _normal(self) -> float:
        return sum(self._first) / len(self._first)

    def alarm(self, playbook: Digest) -> Alarm | None:
        if self._drift is None or not self._drift.alarm:
            return None
        guard = self._guard
        normal = f"{guard.value(self._normal):.3g} that is normal for it, by more than {abs(guard.by):g}"
        message = f"{guard.metric} of {short(playbook)} has become worse than the {normal}"
        return Alarm("drift", "tell", message, guard.metric)


def _breach(row: GuardStatus, phase: MonitorPhase, newer: Digest) -> Alarm:
    guard, reaction = row.guard, row.guard.action
    reference = {"canary": "its control", "kept back": "what was served before", "settled": "the one before it"}[phase]
    message = (
        f"{guard.metric} of {short(newer)} differs by {row.change:+.3g} from {reference} "
        f"(95% {row.low:+.3g} to {row.high:+.3g}, {row.pairs} pairs); the limit is {guard.by:+g}"
    )
    if phase == "canary":
        return Alarm("worse", reaction, message, guard.metric)
    if phase == "kept back":
        return Alarm("worse", reaction if reaction == "roll back" else "tell", message, guard.metric)
    return Alarm("regression", "tell", message, guard.metric)


def _out_of_ratio(kind: str, what: str, ratio: SampleRatio, reaction: Reaction) -> Alarm:
    counts = f"{ratio.counts['newer']} {what} the newer, {ratio.counts['older']} the older"
    figures = f"exact p = {ratio.exact_p:.2g}, e = {ratio.e:.3g}"
    message = f"{counts}; equally many were expected ({figures}): assignment or logging is broken"
    return Alarm(kind, reaction, message)
