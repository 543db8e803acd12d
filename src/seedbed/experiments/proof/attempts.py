"""Attempts: all comparisons that may replace the same playbook share one error rate.

Whatever differs between two attempts (candidate, tasks, metric, rule, replicates), they are attempts at the same
release, and with enough of them some candidate would win by chance. So each gets its share of the rate, and all shares
together are at most the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from seedbed.errors import Problem, SettingsError
from seedbed.experiments.evidence import facts_by_key
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.verdict import Verdict
from seedbed.settings.channels import ChannelSettings
from seedbed.storage.store import Digest, Fact, Json, Query, Store, short

FIRST = 15 / 16
"""The first attempt's share of the error rate: little is lost by it, and another stays possible."""


@dataclass(frozen=True, slots=True)
class AttemptTerms:
    """How the error rate is divided: the first attempt gets the share `first`, all others together the rest.

    `most` is the highest error rate that may release anything: a comparison at another is no attempt.
    """

    first: float = FIRST
    most: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= 1:
            raise SettingsError([Problem("first", f"{self.first:g}", "above 0 and at most 1")])

    @classmethod
    def of(cls, channels: Sequence[ChannelSettings]) -> AttemptTerms:
        """How attempts to replace what these channels serve share one error rate: by the strictest, and at the highest
        rate by which any of them would release."""
        errors = [error for channel in channels if (error := channel.highest_error) is not None]
        return cls(min(channel.attempts.first for channel in channels), max(errors, default=1.0))

    def share(self, number: int, unspent: float) -> float:
        """The share of an attempt, with half of what earlier ones did not spend."""
        if number == 1:
            return self.first
        return (1 - self.first) * 6 / (math.pi * (number - 1)) ** 2 + unspent / 2


@dataclass(frozen=True, slots=True)
class ReleaseAttempt:
    """A candidate of an attempt to replace a playbook: its share of the error rate, and what was found."""

    incumbent: Digest
    number: int
    candidate: Digest
    experiment: Digest
    share: float
    level: float
    rate: float
    """The error rate that all attempts share."""
    finding: str
    """What was found; `open` if there is no verdict yet, `aborted` if somebody stopped it."""
    by: str
    at: datetime


def list_attempts(store: Store, incumbent: Digest | None = None) -> list[ReleaseAttempt]:
    """All attempts to replace a playbook, or any, oldest first. Candidates that share one have an equal part each."""
    facts = list(store.facts(Query(kind="attempt"))) if incumbent is None else attempts(store, incumbent)
    verdicts = facts_by_key(store, "verdict", [each for fact in facts for each in experiments_of(fact)])
    return [
        ReleaseAttempt(
            fact.subject,
            fact.body["number"],
            each["candidate"],
            each["experiment"],
            fact.body["share"] / len(group),
            fact.body["level"] / len(group),
            fact.body["rate"],
            _finding(verdicts.get(each["experiment"])),
            fact.by,
            fact.at,
        )
        for fact in facts
        for group in [(fact.body, *fact.body.get("others", ()))]
        for each in group
    ]


def _finding(verdict: Fact | None) -> str:
    if verdict is None:
        return "open"
    return "aborted" if verdict.body["aborted"] else str(verdict.body["finding"])


def attempts(store: Store, incumbent: Digest) -> list[Fact]:
    """All attempts to replace a playbook, in their order: begun, ended, aborted or given up."""
    return sorted(store.facts(Query(kind="attempt", subject=incumbent)), key=lambda fact: int(fact.body["number"]))


def next_share(store: Store, incumbent: Digest, terms: AttemptTerms) -> float:
    """The share of the error rate that the next attempt to replace a playbook gets."""
    return _share(store, attempts(store, incumbent), terms)


def take_attempt(
    store: Store,
    incumbent: Digest,
    terms: AttemptTerms,
    rate: float,
    planned: Callable[[float, int], Sequence[Experiment]],
    *,
    by: str,
    clock: Callable[[], datetime],
) -> Fact:
    """The next attempt to replace a playbook, taken for an experiment, or for those of several candidates together.

    `planned` returns them for the level and the number of the attempt. An attempt is taken by a fact with a unique
    key: a process that finds it taken for something else takes the next. It stays taken even if the experiments never
    end.
    """
    while True:
        known = attempts(store, incumbent)
        for fact in (each for each in known if each.body["rate"] == rate):
            begun = planned(fact.body["level"], fact.body["number"])
            if [plan.digest for plan in begun] == experiments_of(fact):
                return fact
        number, share = len(known) + 1, _share(store, known, terms)
        plans = planned(rate * share, number)
        body: Json = {
            "number": number,
            "experiment": plans[0].digest,
            "candidate": plans[0].candidate,
            "rate": rate,
            "first": known[0].body["first"] if known else terms.first,
            "share": share,
            "level": rate * share,
        }
        if len(plans) > 1:
            body["others"] = [{"experiment": plan.digest, "candidate": plan.candidate} for plan in plans[1:]]
        taken = Fact(kind="attempt", key=f"{incumbent}@{number}", subject=incumbent, at=clock(), by=by, body=body)
        if store.append([taken]):
            return taken


def experiments_of(attempt: Fact) -> list[Digest]:
    """The experiments of an attempt: one for each candidate."""
    return [each["experiment"] for each in (attempt.body, *attempt.body.get("others", ()))]


def attempt_of(store: Store, incumbent: Digest, experiment: Digest) -> Fact | None:
    """The attempt as which an experiment was registered, if it was."""
    return next((fact for fact in attempts(store, incumbent) if experiment in experiments_of(fact)), None)


def check_attempts(store: Store, incumbent: Digest) -> list[Problem]:
    """What is wrong with the attempts to replace a playbook: missing ones, and shares that were not theirs."""
    problems, known = [], attempts(store, incumbent)
    begun = facts_by_key(store, "comparison", [each for fact in known for each in experiments_of(fact)])
    for place, fact in enumerate(known):
        path = f"attempt {fact.body['number']} against {short(incumbent)}"
        if fact.body["number"] != place + 1:
            problems.append(Problem(path, "one missing before it", f"number {place + 1}", "Restore it from a copy."))
            break
        if not begun.keys() & {*experiments_of(fact)}:
            remedy = "Run the comparison again to finish it."
            problems.append(Problem(path, "no experiment that was begun", "its registration", remedy))
        share = _share(store, known[:place], AttemptTerms(fact.body["first"]), before=fact.number)
        if not math.isclose(share, fact.body["share"]) or fact.body["first"] != known[0].body["first"]:
            problems.append(Problem(path, f"a share of {fact.body['share']:g}", f"{share:g}"))
    return problems


def _share(store: Store, known: list[Fact], terms: AttemptTerms, before: float = math.inf) -> float:
    """The share of the attempt after these. Half of what is left over goes to the next one each time."""
    terms = AttemptTerms(known[0].body["first"]) if known else terms
    verdicts = facts_by_key(store, "verdict", [each for fact in known for each in experiments_of(fact)])
    left = [
        (verdict.number, _left(Verdict.from_body(verdict.body), fact))
        for fact in known
        for each in experiments_of(fact)
        if (verdict := verdicts.get(each)) and verdict.number < before
    ]
    unspent, read = 0.0, -math.inf
    for number in (*(fact.number for fact in known[1:]), before):
        unspent += math.fsum(share for at, share in left if read < at < number)
        unspent, read = (unspent / 2 if number != before else unspent), number
    return terms.share(len(known) + 1, unspent)


def _left(verdict: Verdict, attempt: Fact) -> float:
    """The share that a verdict of an attempt did not spend: an exact test knows, others may have spent all.

    Only a test that read its last task leaves something. One that ended early, as futile, would have spent the rest:
    with that given back, twenty attempts err in 11 % of cases (benchmarks/attempts.py).
    """
    if verdict.spent is None or verdict.finding != "inconclusive":
        return 0.0
    share = float(attempt.body["share"]) / len(experiments_of(attempt))
    return max(0.0, share - verdict.spent / float(attempt.body["rate"]))
