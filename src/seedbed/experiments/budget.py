"""The error budget of a channel: of all candidates ever called better for it, at most a share is not."""

from __future__ import annotations

from collections.abc import Callable

from seedbed.experiments.experiment import Experiment
from seedbed.experiments.verdict import Verdict
from seedbed.stats.multiplicity import ErrorBudget, Lord
from seedbed.storage.store import Digest, Fact, Query, Store


def error_budget(store: Store, channel: str, *, alpha: float = 0.05) -> ErrorBudget:
    """The budget as all comparisons for a channel have left it, in the order in which they were begun and answered.

    A candidate pays for its level when its comparison is begun, and gets nothing back if it is never answered.
    """
    budget = Lord(alpha=alpha)
    for fact in _history(store, channel):
        if fact.kind == "comparison":
            budget.reserve(fact.key)
        else:
            budget.tell(fact.key, _p(Verdict.from_body(fact.body)))
    return budget


def level_for(store: Store, plan: Experiment, named: Callable[[float], Digest]) -> float:
    """The error rate that a comparison may have: the one it was begun with, or else the next of its channel's budget.

    The plan has the rate of the whole budget; `named` gives the digest that the experiment has with another rate.
    """
    for fact in store.facts(Query(kind="comparison", subject=plan.candidate)):
        if fact.body["channel"] == plan.channel and named(fact.body["alpha"]) == fact.key:
            return float(fact.body["alpha"])
    return next_level(store, plan.channel, float(plan.rule["alpha"]))


def next_level(store: Store, channel: str, alpha: float) -> float:
    """The error rate that the next comparison for a channel may have: never more than the rate of the whole budget.

    Discoveries that were waited for together may earn more than that at once.
    """
    return min(alpha, error_budget(store, channel, alpha=alpha).next_alpha)


def _history(store: Store, channel: str) -> list[Fact]:
    begun = [fact for fact in store.facts(Query(kind="comparison")) if fact.body["channel"] == channel]
    answered: list[Fact] = []
    for fact in begun:
        answered += store.facts(Query(kind="verdict", key=fact.key))
    return sorted([*begun, *answered], key=lambda fact: fact.number)


def _p(verdict: Verdict) -> float:
    """What a verdict counts as: a discovery only if it says so."""
    if verdict.finding != "superior" or verdict.p is None:
        return 1.0
    return verdict.p


__all__ = ["error_budget", "level_for", "next_level"]
