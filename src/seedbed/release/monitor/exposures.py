"""Readings: who met what on a channel, and what came of it, read from the store as it arrives.

What is known of a run is read when it has ended and those that began before it have too: failures may come sooner than
the rest. Everything else is the first feedback of that name, as it arrives. Of the exposures of a unit that are
compared only the first counts, since the second time somebody comes is not independent of the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from seedbed.settings.channels import RUN_METRICS
from seedbed.storage.store import Digest, Fact, Feed, Query, Store

WAITING = 200_000
"""Of so many exposures an outcome is waited for; after that many more, one counts as unknown."""

RUN_TIME = timedelta(minutes=10)
"""So long a run keeps those waiting that began after it."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """That a unit met a playbook. `compared` says whether it is set against what others met."""

    playbook: Digest
    at: datetime
    compared: bool


@dataclass(frozen=True, slots=True)
class ExposureOutcome:
    """What came of an exposure by one metric."""

    playbook: Digest
    metric: str
    value: float
    compared: bool


ExposureEvent: TypeAlias = Exposure | ExposureOutcome


@dataclass(slots=True)
class _Open:
    met: Exposure
    missing: set[str]
    denied: bool = field(default=False)


class ExposureFeed:
    """Follows the exposures of a channel to some playbooks, and what comes of them by some metrics."""

    def __init__(
        self,
        store: Store,
        channel: str,
        playbooks: Collection[Digest],
        metrics: Sequence[str],
        *,
        after: int,
        until: int | None = None,
    ) -> None:
        # What comes last is asked for first: nobody then hears of an outcome and not of what it came of.
        queries = [Query(kind="feedback", tag=metric) for metric in metrics]
        self._runs = any(metric in RUN_METRICS for metric in metrics)
        if self._runs:
            queries += [Query(kind="run", subject=playbook) for playbook in playbooks]
        if "violation_rate" in metrics:
            queries.append(Query(kind="decision"))
        self._news = Feed(store, [*queries, Query(kind="exposure", subject=f"channels/{channel}")], after)
        self._playbooks, self._metrics, self._until = playbooks, metrics, until
        self._units: set[str] = set()
        self._open: dict[str, _Open] = {}
        self._lines: dict[Digest, deque[tuple[str, datetime]]] = {playbook: deque() for playbook in playbooks}
        self._ended: dict[str, list[ExposureOutcome] | None] = {}
        """What came of the runs in a line; None of those that go on."""

    def read(self) -> Iterator[ExposureEvent]:
        """What has happened since it was read last, in its order."""
        for fact in self._news.read():
            if fact.kind == "exposure":
                yield from self._met(fact)
            elif fact.kind == "feedback":
                yield from self._read_values(fact.subject, {fact.body["metric"]: fact.value})
            elif fact.kind == "decision":
                self._decided(fact)
            else:
                yield from self._over(fact)

    def _over(self, fact: Fact) -> Iterator[ExposureOutcome]:
        run = fact.key.partition("@")[0]
        if run not in self._open:
            return
        readings = list(self._read_values(run, _of_run(fact, self._open[run].denied)))
        if run in self._ended:
            self._ended[run] = self._ended[run] or readings
            yield from self._next(fact.subject, fact.at)
        else:
            yield from readings

    def _next(self, playbook: Digest, at: datetime) -> Iterator[ExposureOutcome]:
        """What came of those in the line whose turn it is."""
        line = self._lines[playbook]
        while line and (self._ended[line[0][0]] is not None or at - line[0][1] > RUN_TIME):
            yield from self._ended.pop(line.popleft()[0]) or ()

    def _met(self, fact: Fact) -> Iterator[ExposureEvent]:
        body = fact.body
        if body["playbook"] not in self._playbooks or (self._until is not None and fact.number >= self._until):
            return
        compared = bool(body.get("compared")) and body["unit"] not in self._units
        if compared:
            self._units.add(body["unit"])
        met = Exposure(body["playbook"], fact.at, compared)
        self._open[fact.key] = _Open(met, set(self._metrics))
        if len(self._open) > WAITING:
            del self._open[next(iter(self._open))]
        yield met
        if body.get("run") and self._runs:
            self._lines[met.playbook].append((fact.key, fact.at))
            self._ended[fact.key] = None
            yield from self._next(met.playbook, fact.at)

    def _decided(self, fact: Fact) -> None:
        if fact.subject in self._open:
            body = (fact.body["point"].partition(" ")[0], fact.body["action"])
            self._open[fact.subject].denied |= body in {("may", "forbidden"), ("confirm", "no")}

    def _read_values(self, exposure: str, values: dict[str, float | None]) -> Iterator[ExposureOutcome]:
        if (waiting := self._open.get(exposure)) is None:
            return
        for metric, value in values.items():
            if metric in waiting.missing and value is not None:
                waiting.missing.remove(metric)
                yield ExposureOutcome(waiting.met.playbook, metric, value, waiting.met.compared)
        if not waiting.missing:
            del self._open[exposure]


def _of_run(fact: Fact, denied: bool) -> dict[str, float | None]:
    body = fact.body
    return {
        "error_rate": float(body["status"] == "failed"),
        "violation_rate": float(denied),
        "latency_seconds": body["latency_seconds"],
        "cost_usd": body["cost_usd"],
    }
