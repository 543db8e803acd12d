"""Estimate: what runs of a playbook will take, before anything is paid for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import islice

from seedbed.models.cards import Model
from seedbed.models.usage import estimated_tokens
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import model_speeds
from seedbed.spending.ledger import USUAL_TOKENS
from seedbed.storage.store import Fact, Json, Query, Store

LOOKED_AT = 100
"""An estimate is the mean of this many of a playbook's latest runs."""


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a number of runs will take: `seconds` one after the other. None is unknown.

    It is the mean of the playbook's latest completed runs, `as_runs` of them; without any, the most that its steps can
    take if each is performed once, at the usual speed of their models.
    """

    runs: int
    calls: float | None = None
    tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None
    as_runs: int = 0

    def document(self) -> Json:
        return asdict(self)

    def __add__(self, other: RunEstimate) -> RunEstimate:
        def sum_of(name: str) -> float | None:
            one, two = getattr(self, name), getattr(other, name)
            return None if one is None or two is None else one + two

        calls, tokens, usd, seconds = map(sum_of, ("calls", "tokens", "usd", "seconds"))
        return RunEstimate(self.runs + other.runs, calls, tokens, usd, seconds, min(self.as_runs, other.as_runs))


def estimate(playbook: Playbook, runs: int, store: Store, models: Callable[[str], Model]) -> RunEstimate:
    """What so many runs of a playbook will take."""
    latest = islice(_completed(store.facts(Query(kind="run", subject=playbook.digest, newest=True))), LOOKED_AT)
    if known := [fact.body for fact in latest]:
        calls, tokens, usd, seconds = (
            runs * sum(float(body[name]) for body in known) / len(known)
            for name in ("turns", "tokens", "cost_usd", "latency_seconds")
        )
        priced = not any(body.get("unpriced") for body in known)
        return RunEstimate(runs, calls, tokens, usd if priced else None, seconds, len(known))
    if playbook.program is not None:  # who knows what it does
        return RunEstimate(runs)
    return _by_steps(playbook, runs, models, model_speeds(store))


def _completed(facts: Iterable[Fact]) -> Iterable[Fact]:
    return (fact for fact in facts if fact.body["status"] == "completed" and not fact.body.get("replay"))


def _by_steps(playbook: Playbook, runs: int, models: Callable[[str], Model], speeds: Mapping[str, Json]) -> RunEstimate:
    calls, tokens, usd = 0, 0, 0.0
    known, named = True, [playbook.roles[step.role].model or "" for step in playbook.all_steps()]
    timed = all(name in speeds for name in named)
    seconds = runs * sum(speeds[name]["median_seconds"] for name in named) if timed else None
    for step in playbook.all_steps():
        role = playbook.roles[step.role]
        read, written = estimated_tokens(role.system, step.prompt), role.max_tokens or USUAL_TOKENS
        price = models(role.model).price(read) if role.model else None
        calls, tokens, known = calls + 1, tokens + read + written, known and price is not None
        usd += (read * price[0] + written * price[1]) / 1_000_000 if price else 0.0
    return RunEstimate(runs, runs * calls, runs * tokens, runs * usd if known else None, seconds)
