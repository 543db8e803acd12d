"""Delivery: an alert is recorded first, then sent once to every sender that wants it.

An alert is a fact, and so is the beginning and the end of each delivery. The process that records the beginning sends
the alert: of several processes that is one. A failed delivery is tried again, for a day. Nothing here raises: an alert
that cannot be delivered must never keep a channel from being rolled back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from seedbed.errors import StoreError
from seedbed.playbooks.library import Library
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.senders.sender import NotDelivered, Sender, wants
from seedbed.storage.store import Fact, Json, Query, Store, now

_log = logging.getLogger("seedbed")

GIVE_UP_AFTER = timedelta(days=1)
"""The age from which an alert is only sent again on request."""
LEASE = timedelta(minutes=2)
"""How long a delivery may take. After that its process counts as dead."""

DeliveryStatus: TypeAlias = Literal["begun", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one attempt may take, how many there are before a delivery has failed, and the pause after the first.

    Each further pause is four times as long.
    """

    timeout_seconds: float = 10.0
    attempts: int = 3
    pause_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the delivery to one sender went. `error` says why it failed, or which of several people it did not reach."""

    alert: str
    sender: str
    status: DeliveryStatus
    attempts: int = 0
    error: str = ""

    def document(self) -> Json:
        return asdict(self)


async def send(
    library: Library, senders: Sequence[Sender], alert: Alert, patience: Patience | None = None
) -> list[Delivery]:
    """Record an alert, and send it to every sender that wants it. One whose key is known already is not sent again.

    Failures are in the result, and `resend` tries them again. An alert that cannot be recorded is not sent either, and
    the log says so.
    """
    chosen = [sender for sender in senders if wants(sender, alert)]
    if not await _record(library.store, _fact(alert, [sender.name for sender in chosen], library.by)):
        return []
    return await _deliver(library, [_DueDelivery(alert, sender) for sender in chosen], patience)


async def resend(
    library: Library, senders: Sequence[Sender], patience: Patience | None = None, *, everything: bool = False
) -> list[Delivery]:
    """Try again what is `undelivered`."""
    try:
        waiting = await asyncio.to_thread(_due, library.store, senders, library.clock(), everything)
    except (StoreError, OSError) as error:
        _log.error("alerts that wait cannot be read: %s", error)
        return []
    return await _deliver(library, waiting, patience)


def undelivered(
    store: Store, senders: Sequence[Sender], *, at: datetime | None = None, everything: bool = False
) -> list[tuple[Alert, Sender]]:
    """The deliveries to try again now: one minute after the first failure, and twice as long after each further one.

    With `everything`, those that are not due yet or too old are included. An alert that has ended meanwhile is left
    out: its end is sent instead.
    """
    return [(each.alert, each.sender) for each in _due(store, senders, at or now(), everything)]


@dataclass(frozen=True, slots=True)
class _DueDelivery:
    """A delivery that is due, after so many attempts."""

    alert: Alert
    sender: Sender
    tries: int = 0


def _due(store: Store, senders: Sequence[Sender], at: datetime, everything: bool) -> list[_DueDelivery]:
    since = None if everything else at - GIVE_UP_AFTER
    known = {fact.key: fact for fact in store.facts(Query(kind="alert", since=since))}
    tries: dict[tuple[str, str], list[Fact]] = {}
    for fact in store.facts(Query(kind="delivery", since=since)):
        tries.setdefault((fact.subject, fact.body["sender"]), []).append(fact)
    return [
        _DueDelivery(_alert(fact), sender, sum(each.body["status"] == "begun" for each in past))
        for key, fact in known.items()
        if f"{key}/resolved" not in known
        for sender in senders
        if sender.name in fact.body["to"] and _is_due(past := tries.get((key, sender.name), []), at, everything)
    ]


def _is_due(tries: Sequence[Fact], at: datetime, everything: bool) -> bool:
    if not tries:
        return True
    if any(fact.body["status"] == "delivered" for fact in tries):
        return False
    last = tries[-1]
    if last.body["status"] == "begun":
        return last.at + LEASE <= at
    failed = sum(fact.body["status"] == "failed" for fact in tries)
    return everything or last.at + timedelta(minutes=min(2 ** (failed - 1), 60)) <= at


# History


@dataclass(frozen=True, slots=True)
class AlertRecord:
    """An alert with its newest delivery to each sender that it was meant for, as far as that began."""

    alert: Alert
    to: tuple[str, ...]
    deliveries: tuple[Delivery, ...]

    def document(self) -> Json:
        alert, newest = self.alert, {each.sender: each.status for each in self.deliveries}
        return {
            "key": alert.key,
            "at": alert.at,
            "severity": alert.severity,
            "channel": alert.channel,
            "kind": alert.kind,
            "told": alert.message,
            "details": alert.details,
            "resolved": alert.resolved,
            "delivered": [name for name in self.to if newest.get(name) == "delivered"],
            "failed": [name for name in self.to if newest.get(name) == "failed"],
            "waiting": [name for name in self.to if newest.get(name) not in ("delivered", "failed")],
        }


def history(store: Store, channel: str | None = None) -> Iterator[AlertRecord]:
    """All alerts, newest first."""
    about = f"channels/{channel}" if channel else None
    newest: dict[str, dict[str, Delivery]] = {}
    for fact in store.facts(Query(kind="delivery", tag=about)):
        newest.setdefault(fact.subject, {})[fact.body["sender"]] = Delivery(alert=fact.subject, **fact.body)
    for fact in store.facts(Query(kind="alert", subject=about, newest=True)):
        yield AlertRecord(_alert(fact), tuple(fact.body["to"]), tuple(newest.get(fact.key, {}).values()))


def _fact(alert: Alert, to: Iterable[str], by: str) -> Fact:
    body = {
        "what": alert.kind,
        "severity": alert.severity,
        "told": alert.message,
        "details": alert.details,
        "resolved": alert.resolved,
        "to": list(to),
    }
    subject = f"channels/{alert.channel}"
    return Fact(kind="alert", key=alert.record_key, subject=subject, at=alert.at, by=by, body=body)


def _alert(fact: Fact) -> Alert:
    resolved = bool(fact.body["resolved"])
    return Alert(
        channel=fact.subject.removeprefix("channels/"),
        kind=fact.body["what"],
        severity=fact.body["severity"],
        message=fact.body["told"],
        details=fact.body["details"],
        at=fact.at,
        key=fact.key.removesuffix("/resolved") if resolved else fact.key,
        resolved=resolved,
    )


# Delivering


async def _deliver(library: Library, waiting: Sequence[_DueDelivery], patience: Patience | None) -> list[Delivery]:
    ended = await asyncio.gather(*(_begin(library, each, patience or Patience()) for each in waiting))
    return [delivery for delivery in ended if delivery]


async def _begin(library: Library, waiting: _DueDelivery, patience: Patience) -> Delivery | None:
    """Deliver, unless another process has begun with it."""
    alert, sender = waiting.alert, waiting.sender
    # The number says how many attempts there were when it was due: two processes that see the same write the same key.
    key = f"{alert.record_key}/{sender.name}/{waiting.tries + 1}"
    begun = Delivery(alert.record_key, sender.name, "begun")
    if not await _record(library.store, _delivery_fact(library, alert, key, begun)):
        return None
    ended = await _attempts(alert, sender, patience)
    if ended.error:
        _log.warning("alert %s to %s: %s", alert.record_key, sender.name, ended.error)
    await _record(library.store, _delivery_fact(library, alert, f"{key}/ended", ended))
    return ended


async def _attempts(alert: Alert, sender: Sender, patience: Patience) -> Delivery:
    attempt, again, error, pause = 0, True, "", patience.pause_seconds
    while again and attempt < patience.attempts:
        if attempt:
            await asyncio.sleep(pause)
            pause *= 4
        attempt += 1
        try:
            async with asyncio.timeout(patience.timeout_seconds):
                missed = await sender.send(alert)
            return Delivery(alert.record_key, sender.name, "delivered", attempt, missed)
        except NotDelivered as wrong:
            error, again = str(wrong), wrong.again
        except TimeoutError:
            error = (
                f"found no answer within {patience.timeout_seconds:g} s; expected one. Check that the receiver is up"
            )
        except Exception as wrong:  # noqa: BLE001 - whatever it is, it must not stop the monitor or reveal a secret
            error, again = f"found {type(wrong).__name__}; expected a delivery", False
    return Delivery(alert.record_key, sender.name, "failed", attempt, error)


def _delivery_fact(library: Library, alert: Alert, key: str, delivery: Delivery) -> Fact:
    return Fact(
        kind="delivery",
        key=key,
        subject=delivery.alert,
        at=library.clock(),
        by=library.by,
        body={name: value for name, value in asdict(delivery).items() if name != "alert"},
        tags=(delivery.sender, f"channels/{alert.channel}"),
    )


async def _record(store: Store, fact: Fact) -> bool:
    """Record a fact. Returns whether it was new and could be written."""
    try:
        return bool(await asyncio.to_thread(store.append, [fact]))
    except (StoreError, OSError) as error:
        _log.error("%s %s cannot be recorded: %s", fact.kind, fact.key, error)
        return False
