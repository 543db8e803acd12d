"""Monitor loop: look at a channel, roll back what does harm, and send alerts.

All actions are stored as facts. A second loop, at the same time or later, repeats none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from seedbed.playbooks.library import Library
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.delivery import history, resend, send
from seedbed.release.alerts.senders.sender import Sender
from seedbed.release.channels import moves
from seedbed.release.gates.gate import Gate, Refusal, ReleaseRequest
from seedbed.release.monitor.monitor import MONITOR, Alarm, Health, Monitor
from seedbed.release.states import serves
from seedbed.settings.alerts import Severity
from seedbed.stats.monitors import LOOK_ERROR
from seedbed.storage.store import Fact, Json, Ref, Store
from seedbed.telemetry import ChannelWatched, emit

WARNINGS = ("worse", "sample ratio", "answer ratio", "no traffic", "regression")
"""The kinds of alarms that can end by themselves."""
LOOKS = 4
"""A ramp with more steps looks at each with less error, so that all together have no more."""


@dataclass(frozen=True, slots=True)
class WatchResult:
    """The health of a channel at one look, the rollback if there was one, and the alerts that were sent."""

    health: Health
    moved: Ref | None
    alerts: tuple[Alert, ...]


async def watch_once(library: Library, monitor: Monitor, senders: Sequence[Sender]) -> WatchResult:
    """Look once and react. An alert that cannot be sent does not prevent a rollback."""
    health = await asyncio.to_thread(monitor.look)
    moved = await asyncio.to_thread(monitor.react, health)
    emit(ChannelWatched(channel=health.channel, alarms=len(health.alarms), moved=bool(moved)))
    alerts = await asyncio.to_thread(_alerts, library.store, health)
    await asyncio.gather(*(send(library, senders, alert) for alert in alerts))
    await resend(library, senders)
    return WatchResult(health, moved, tuple(alerts))


def no_alarm_gate(health: Health, steps: int = 0) -> Gate:
    """A gate that lets no canary advance while there is an alarm.

    The end of each of the `steps` of a ramp is a look at the split of the units that was fixed beforehand: an exact
    test finds a mismatch there that is too slight for the one at every look.
    """
    newer, older = health.units
    level = LOOK_ERROR * min(1, LOOKS / max(steps, 1))

    async def watch(request: ReleaseRequest) -> Refusal | None:
        messages = [alarm.message for alarm in health.alarms if alarm.reaction != "tell"]
        if health.ratio["p"] <= level and not any(alarm.kind == "sample ratio" for alarm in health.alarms):
            split = f"{newer} units got the newer, {older} the older; equally many were expected"
            messages.append(f"{split} (exact p = {health.ratio['p']:.2g} at the end of a step)")
        remedy = "Roll it back, or find out why; it can advance when the alarm is over."
        return Refusal("watch", "; ".join(messages), "no alarm", remedy) if messages else None

    return watch


def _alerts(store: Store, health: Health) -> list[Alert]:
    """The alerts to send: for a rollback, for the beginning of each alarm, and for its end."""
    known, past = [record.alert for record in history(store, health.channel)], moves(store, health.channel)
    # A playbook that was rolled back meanwhile needs no attention.
    begun = _begun(health, known) if serves(past[-1].body["to"], health.newer) else ()
    return [*_rollbacks(health, known, past), *begun, *_over(health, known)]


def _rollbacks(health: Health, known: Sequence[Alert], past: Sequence[Fact]) -> Iterator[Alert]:
    """Rollbacks of the monitor without an alert: its process may have died in between."""
    sent = {alert.key for alert in known}
    for move in past:
        key = f"{health.channel}/{move.number}/rolled back"
        if move.by == MONITOR and key not in sent:
            details = {"from": move.body["from"], "to": move.body["to"]}
            yield _alert(health, "rolled back", "critical", f"rolled back: {move.body['because']}", key, details)


def _begun(health: Health, known: Sequence[Alert]) -> Iterator[Alert]:
    open_now = {_without_count(alert.key) for alert in _open(known)}
    for alarm in health.alarms:
        key = _key(health, alarm)
        if key in open_now:
            continue
        times = sum(_without_count(alert.key) == key and not alert.resolved for alert in known)
        urgent = alarm.reaction == "roll back" or alarm.kind not in WARNINGS
        severity: Severity = "critical" if urgent else "warning"
        yield _alert(health, alarm.kind, severity, alarm.message, f"{key}/{times + 1}", _figures(health, alarm))


def _over(health: Health, known: Sequence[Alert]) -> Iterator[Alert]:
    """Alarms that are over, or that were about a playbook that is no longer watched."""
    current = {_key(health, alarm) for alarm in health.alarms}
    for alert in _open(known):
        ours = alert.severity == "warning" and alert.kind in WARNINGS
        waits = health.phase == "canary" and alert.details.get("newer") == health.older  # until that is watched again
        if ours and not waits and _without_count(alert.key) not in current:
            yield replace(alert, message=f"it is over: {alert.message}", at=health.at, resolved=True)


def _open(known: Sequence[Alert]) -> list[Alert]:
    ended = {alert.key for alert in known if alert.resolved}
    return [alert for alert in known if not alert.resolved and alert.key not in ended]


def _alert(health: Health, kind: str, severity: Severity, message: str, key: str, details: Json) -> Alert:
    channel, at = health.channel, health.at
    return Alert(channel=channel, kind=kind, severity=severity, message=message, at=at, key=key, details=details)


def _figures(health: Health, alarm: Alarm) -> Json:
    about: Json = {"phase": health.phase, "newer": health.newer, "older": health.older}
    row = next((row for row in health.rows if row.guard.metric == alarm.metric), None)
    if row is None:
        return about
    figures = {"change": row.change, "low": row.low, "high": row.high, "limit": row.guard.by}
    return {**about, "metric": alarm.metric, **figures}


def _key(health: Health, alarm: Alarm) -> str:
    """The key of an alarm, the same however often it comes and goes."""
    return f"{health.channel}/{health.since.number}/{alarm.kind}/{alarm.metric or 'all'}"


def _without_count(key: str) -> str:
    return key.rpartition("/")[0]
