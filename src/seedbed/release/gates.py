"""Gate and the built-in checks: what stands between a candidate and a channel.

Gates are named under `channels.<name>.require` in seedbed.yaml. Missing evidence is never a pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from seedbed.errors import NotFound, Problem
from seedbed.evaluation.judges import AGREEMENT, agreements, deciding, trusted
from seedbed.evaluation.judging import judges_in
from seedbed.experiments.held_out import known_tasks, seen_before
from seedbed.experiments.replay import is_replayed
from seedbed.experiments.sentinel import sentinel
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.storage.store import Digest, Json, Query, Store, short

Refusal = Problem


@dataclass(frozen=True, slots=True)
class Change:
    """A candidate on its way to a channel: what it would replace, and the verdict it comes with."""

    channel: str
    candidate: Digest
    incumbent: Digest | None
    verdict: Verdict | None
    library: Library


class Gate(Protocol):
    """Passes with None, or says what is missing and what to do."""

    async def __call__(self, change: Change) -> Refusal | None: ...


@dataclass(frozen=True, slots=True)
class Better:
    """A verdict says that exactly this candidate is better than exactly this incumbent.

    `error` is the highest error rate it may have. Only the first comparison on the same tasks counts, answered or not:
    who begins again, in another order or by a laxer rule, finds something in the end. Replays prove nothing of live
    runs. If a judge gave the scores, it has to be trusted: `agreement` is what the lower end of its kappa with people
    has to reach.

    While the A/A sentinel is alarmed, nobody passes.
    """

    error: float = 0.05
    agreement: float = AGREEMENT

    async def __call__(self, change: Change) -> Refusal | None:
        if change.incumbent is None:
            return None  # a first release has nothing to be better than
        verdict = change.verdict
        remedy = f"Run: seedbed compare {short(change.incumbent)} {short(change.candidate)} --on DATASET"
        expected = f"a verdict that {short(change.candidate)} is better than {short(change.incumbent)}"
        if verdict is None:
            return Refusal("better", "no verdict", expected, remedy)
        if (verdict.candidate, verdict.control) != (change.candidate, change.incumbent):
            found = f"a verdict about {short(verdict.candidate)} against {short(verdict.control)}"
            return Refusal("better", found, expected, remedy)
        store = change.library.store
        if not _is_recorded(verdict, store):
            return Refusal("better", "a verdict that this store does not hold", expected, remedy)
        try:
            plan = store.get(verdict.experiment)
        except NotFound:
            found, again = f"no experiment {short(verdict.experiment)}", "Copy it from the store that has it"
            return Refusal("better", found, "the one of the verdict", f"{again}, or compare again here.")
        if any(map(is_replayed, plan["models"].values())):
            return Refusal("better", "a verdict about replays", "one about live runs", remedy)
        if verdict.alpha > self.error:
            found = f"a verdict with an error rate of {verdict.alpha:g}"
            return Refusal("better", found, f"at most {self.error:g}", f"{remedy} --alpha {self.error:g}")
        if first := _earlier(verdict, plan["metric"], store):
            found = f"a second comparison on the same tasks; the first was {first}"
            return Refusal("better", found, "the first", "Compare on tasks that were not used yet.")
        if verdict.finding != "superior":
            return Refusal("better", f"the finding {verdict.finding}", "superior", "Look for a better candidate.")
        if (games := sentinel(store, self.error)).alarmed:
            found = f"{games.rate.mean:.1%} of {games.rate.n} playbooks called better than themselves"
            remedy = "Find out why before anything is released: seedbed evidence sentinel."
            return Refusal("better", found, f"at most {self.error:g}, but for chance", remedy)
        return self._distrust(verdict, plan["metric"], store)

    def _distrust(self, verdict: Verdict, metric: Json, store: Store) -> Refusal | None:
        """Why a judge that gave the scores, with exactly the words and the model it had then, is not trusted."""
        for judge in judges_in(metric):
            name = verdict.metric if judge == metric else ""
            if refused := trusted(deciding(agreements(store, judge)), self.agreement, name=name):
                found = f"a verdict by the {refused.path}, with {refused.found}"
                return Refusal("better", found, refused.expected, refused.remedy)
        return None


async def held_out(change: Change) -> Refusal | None:
    """The verdict's tasks are none of those the candidate, or anything it grew from, was chosen on or is shown."""
    if change.incumbent is None:
        return None
    if change.verdict is None:
        return Refusal("held_out", "no verdict", "one on tasks that were not evolved on", "Compare on held-out tasks.")
    library = change.library
    try:
        judged = known_tasks(library.store, change.verdict.dataset)
        shared = seen_before(library, library.get(change.candidate), judged)
    except NotFound as missing:
        remedy = "Copy it from the store that has it, or compare again here."
        return Refusal("held_out", str(missing), "every dataset it was evolved or judged on", remedy)
    if shared:
        found = f"{len(shared)} of {len(judged)} tasks that were evolved on"
        return Refusal("held_out", found, "tasks that were not evolved on", "Compare on held-out tasks.")
    return None


async def rules_kept(change: Change) -> Refusal | None:
    """No rule of the incumbent is dropped or loosened."""
    if change.incumbent is None:
        return None
    loosened = change.library.get(change.incumbent).loosened_by(change.library.get(change.candidate))
    if loosened:
        found = "; ".join(f"{problem.path}: {problem.found}" for problem in loosened)
        return Refusal("rules_kept", found, "every rule of the incumbent", "Put the rules back.")
    return None


def _is_recorded(verdict: Verdict, store: Store) -> bool:
    try:
        return Verdict.recall(store, verdict.experiment) == verdict
    except NotFound:
        return False


def _earlier(verdict: Verdict, metric: Json, store: Store) -> str:
    """What came of the first comparison of the same pair on the same tasks by the same metric, if it is another."""
    for fact in store.facts(Query(kind="comparison", subject=verdict.candidate)):
        if fact.key == verdict.experiment:
            return ""
        if (fact.body["control"], fact.body["dataset"]) != (verdict.control, verdict.dataset):
            continue
        try:
            if store.get(fact.key)["metric"] != metric:
                continue
        except NotFound:  # it may have been this metric
            pass
        try:
            return Verdict.recall(store, fact.key).finding
        except NotFound:
            return "not answered"
    return ""
