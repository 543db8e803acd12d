"""The error budget of a channel limits the share of false winners among all candidates ever called better for it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from seedbed.errors import SeedbedError, shown
from seedbed.experiments.evidence import facts_by_key
from seedbed.experiments.experiment import Experiment, RuleChoice
from seedbed.experiments.verdict import Verdict
from seedbed.stats.multiplicity import ELond, ErrorBudget, Lord, e_from_p, p_for_e
from seedbed.stats.sequential.betting import Betting
from seedbed.storage.store import Fact, Query, Store


def _p(verdict: Verdict) -> float:
    """The p-value of a verdict; 1 unless it is superior."""
    return 1.0 if verdict.finding != "superior" or verdict.p is None else verdict.p


def _e(verdict: Verdict) -> float:
    """The e-value of a verdict: that of the rule if it has one, else one derived from the p-value."""
    if verdict.finding != "superior" or verdict.p is None:
        return 0.0
    return e_from_p(max(verdict.p, sys.float_info.min)) if verdict.e is None else verdict.e


def _rule_name(rule: RuleChoice) -> str | None:
    return rule.get("rule") if isinstance(rule, Mapping) else rule


CONTROLS: Mapping[str, tuple[type[ErrorBudget], Callable[[Verdict], float]]] = {
    "lord": (Lord, _p),
    "e-lond": (ELond, _e),
}
"""The methods that control the rate of a budget, and the number that each takes from a verdict."""


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """The promise of an error budget: of all candidates ever called better, at most a share `rate` is not.

    `control` is the method. `lord` has more power, and holds if each candidate is judged on tasks of its own; `e-lond`
    also holds if candidates share tasks, or runs of the control.
    """

    rate: float = 0.05
    control: str = "lord"
    unpaid: str = ""
    """Why a verdict that is paid from the budget releases nothing, if it does not."""

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise SeedbedError(f"control: found {shown(self.control)}; expected one of {', '.join(CONTROLS)}")

    def rule(self, choice: RuleChoice) -> RuleChoice:
        """The rule of a comparison: the chosen one, or betting where e-values count and none was chosen."""
        if _rule_name(choice) or self.control != "e-lond":
            return choice
        return {**(choice if isinstance(choice, Mapping) else {}), "rule": Betting.name}

    def alpha(self, level: float, choice: RuleChoice) -> float:
        """The error rate at which a comparison that calls a candidate better is a discovery at this level.

        A betting rule ends at an e-value of 1/level, which is a discovery. Other rules have only a p-value, which must
        be smaller to give the same e-value.
        """
        as_it_is = self.control != "e-lond" or _rule_name(self.rule(choice)) == Betting.name
        return level if as_it_is else p_for_e(1 / level)


def error_budget(store: Store, channel: str, terms: BudgetTerms | None = None) -> ErrorBudget:
    """The budget after all comparisons for a channel, in the order of their reservations.

    A candidate pays when it reserves its place, even if it is never judged. These terms apply to all of them.
    """
    return _spent(*_history(store, channel), terms or BudgetTerms())


def next_level(store: Store, channel: str, terms: BudgetTerms | None = None) -> float:
    """The level of the next comparison for a channel: never more than the rate of the whole budget.

    Several discoveries at once may earn more than that.
    """
    return _level(error_budget(store, channel, terms))


def reserve(
    store: Store,
    channel: str,
    terms: BudgetTerms,
    planned: Callable[[float, RuleChoice, float], Experiment],
    rule: RuleChoice,
    *,
    by: str,
    clock: Callable[[], datetime],
) -> Experiment:
    """The experiment at the error rate of its reservation, or else at the next level of its channel's budget.

    `planned` returns it for an error rate, a rule, and the number of the fact before which it was planned. A place is
    reserved by a fact with a unique key: a process that finds it taken tries the next place. The place stays paid even
    if the experiment never ends.
    """
    while True:
        places, answers = _history(store, channel)
        level = _level(_spent(places, answers, terms))
        plan = planned(terms.alpha(level, rule), terms.rule(rule), math.inf)
        for fact in places:
            taken_by = fact.body
            if taken_by["candidate"] == plan.candidate:
                then = BudgetTerms(taken_by["rate"], taken_by["control"]).rule(rule)
                begun = planned(taken_by["alpha"], then, fact.number)
                if begun.digest == taken_by["experiment"]:
                    return begun
        place = len(places) + 1
        body = {
            "place": place,
            "experiment": plan.digest,
            "candidate": plan.candidate,
            "alpha": plan.rule["alpha"],
            "rate": terms.rate,
            "control": terms.control,
            "answered": len(answers),
        }
        taken = Fact(kind="reservation", key=f"{channel}@{place}", subject=channel, at=clock(), by=by, body=body)
        if store.append([taken]):
            return plan


def _level(budget: ErrorBudget) -> float:
    return min(budget.alpha, budget.next_alpha)


def _spent(places: list[Fact], answers: list[Fact], terms: BudgetTerms) -> ErrorBudget:
    """The budget after these reservations and answers. Each reservation counts the answers known when it was made."""
    control, value = CONTROLS[terms.control]
    budget, read = control(alpha=terms.rate), 0
    for place in places:
        for answer in answers[read : place.body["answered"]]:
            budget.tell(answer.key, value(Verdict.from_body(answer.body)))
        read = place.body["answered"]
        budget.reserve(place.body["experiment"])
    for answer in answers[read:]:
        budget.tell(answer.key, value(Verdict.from_body(answer.body)))
    return budget


def _history(store: Store, channel: str) -> tuple[list[Fact], list[Fact]]:
    """The reservations and verdicts of a channel, each in their order.

    Both kinds are chained, so their numbers are the order in which they became visible. Reservations are read first,
    and verdicts only up to the newest one at that time, so that no reader sees a verdict and misses an earlier one.
    """
    places = list(store.facts(Query(kind="reservation", subject=channel)))
    newest = next((fact.number for fact in store.facts(Query(kind="verdict", newest=True, limit=1))), 0)
    verdicts = facts_by_key(store, "verdict", [fact.body["experiment"] for fact in places])
    known = [fact for fact in verdicts.values() if fact.number <= newest]
    return places, sorted(known, key=lambda fact: fact.number)
