"""Exposures: which units got which playbook on a channel, and the outcomes, read from the store as they arrive.

The figures of a run are read when it and all runs that began before it have ended, as failures may arrive sooner than
the rest. Every other outcome is the first feedback of that name. Only the first compared exposure of a unit counts: a
second visit is not independent of the first. A unit that guards read beside the control may become one of the canary
when its share grows, so of those the first exposure to each playbook counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from seedbed.release.assignment import Split, place
from seedbed.settings.channels import RUN_METRICS
from seedbed.storage.store import Digest, Fact, Feed, Json, Query, Store

WAITING = 200_000
"""How many exposures wait for an outcome. When there are more, the outcome of the oldest counts as unknown."""

RUN_TIME = timedelta(minutes=10)
"""How long a run delays those that began after it."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """A unit got a playbook. `compared` says whether it is compared with units of the other arm; `beside`, whether it
    is not and guards read it beside the control. `controls` is how many outcomes of others guards set against one."""

    playbook: Digest
    at: datetime
    compared: bool
    beside: bool = False
    controls: int = 1


@dataclass(frozen=True, slots=True)
class ExposureOutcome:
    """The outcome of an exposure by one metric."""

    met: Exposure
    metric: str
    value: float


ExposureEvent: TypeAlias = Exposure | ExposureOutcome


@dataclass(slots=True)
class _OpenExposure:
    met: Exposure
    missing: set[str]
    denied: bool = False


class ExposureFeed:
    """Follows the exposures of a channel to some playbooks, the newest first, and their outcomes by some metrics."""

    def __init__(
        self,
        store: Store,
        channel: str,
        playbooks: Sequence[Digest],
        metrics: Sequence[str],
        *,
        after: int,
        until: int | None = None,
    ) -> None:
        # Later kinds of facts are queried first, so that no outcome is read without its exposure.
        queries = [Query(kind="feedback", tag=metric) for metric in metrics]
        self._runs = any(metric in RUN_METRICS for metric in metrics)
        if self._runs:
            queries += [Query(kind="run", subject=playbook) for playbook in playbooks]
        if "violation_rate" in metrics:
            queries.append(Query(kind="decision"))
        self._news = Feed(store, [*queries, Query(kind="exposure", subject=f"channels/{channel}")], after)
        self._channel, self._playbooks, self._metrics, self._until = channel, playbooks, metrics, until
        self._units: set[str] = set()
        self._beside: set[str] = set()
        self._open: dict[str, _OpenExposure] = {}
        self._queues: dict[Digest, deque[tuple[str, datetime]]] = {playbook: deque() for playbook in playbooks}
        self._ended: dict[str, list[ExposureOutcome] | None] = {}
        """The outcomes of the queued runs; None while a run goes on."""

    def read(self) -> Iterator[ExposureEvent]:
        """The events since the last read, in their order."""
        for fact in self._news.read():
            if fact.kind == "exposure":
                yield from self._met(fact)
            elif fact.kind == "feedback":
                yield from self._read_values(fact.subject, {fact.body["metric"]: fact.value})
            elif fact.kind == "decision":
                if exposure := self._open.get(fact.subject):
                    answer = (fact.body["point"].partition(" ")[0], fact.body["action"])
                    exposure.denied |= answer in {("may", "forbidden"), ("confirm", "no")}
            else:
                yield from self._over(fact)

    def _over(self, fact: Fact) -> Iterator[ExposureOutcome]:
        run = fact.key.partition("@")[0]
        if run not in self._open:
            return
        figures = {
            "error_rate": float(fact.body["status"] == "failed"),
            "violation_rate": float(self._open[run].denied),
            "latency_seconds": fact.body["latency_seconds"],
            "cost_usd": fact.body["cost_usd"],
        }
        readings = list(self._read_values(run, figures))
        if run in self._ended:
            self._ended[run] = self._ended[run] or readings
            yield from self._next(fact.subject, fact.at)
        else:
            yield from readings

    def _next(self, playbook: Digest, at: datetime) -> Iterator[ExposureOutcome]:
        """The outcomes of the runs at the front of the queue that have ended."""
        line = self._queues[playbook]
        while line and (self._ended[line[0][0]] is not None or at - line[0][1] > RUN_TIME):
            yield from self._ended.pop(line.popleft()[0]) or ()

    def _met(self, fact: Fact) -> Iterator[ExposureEvent]:
        body = fact.body
        if body["playbook"] not in self._playbooks or (self._until is not None and fact.number >= self._until):
            return
        compared = bool(body.get("compared")) and body["unit"] not in self._units
        if compared:
            self._units.add(body["unit"])
        met = Exposure(body["playbook"], fact.at, compared, self._is_beside(body), _split(body).controls)
        if met.beside:
            self._beside.add(body["unit"])
        self._open[fact.key] = _OpenExposure(met, set(self._metrics))
        if len(self._open) > WAITING:
            del self._open[next(iter(self._open))]
        yield met
        if body.get("run") and self._runs:
            self._queues[met.playbook].append((fact.key, fact.at))
            self._ended[fact.key] = None
            yield from self._next(met.playbook, fact.at)

    def _is_beside(self, body: Json) -> bool:
        """Whether guards read an exposure to an older playbook beside the control."""
        newest, unit = self._playbooks[0], body["unit"]
        if body["arm"] != "stable" or body["playbook"] == newest or unit in self._beside:
            return False
        return _split(body).is_beside(place(self._channel, newest, unit))

    def _read_values(self, exposure: str, values: dict[str, float | None]) -> Iterator[ExposureOutcome]:
        if (waiting := self._open.get(exposure)) is None:
            return
        for metric, value in values.items():
            if metric in waiting.missing and value is not None:
                waiting.missing.remove(metric)
                yield ExposureOutcome(waiting.met, metric, value)
        if not waiting.missing:
            del self._open[exposure]


def _split(body: Json) -> Split:
    """How the channel was split when an exposure was recorded; a share of 1 if it was not."""
    return Split(body["playbook"], "", body["share"] or 1.0)
