"""Gate and the built-in checks: what stands between a candidate and a channel.

Gates are named under `channels.<name>.require` in seedbed.yaml. Missing evidence is never a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from seedbed.errors import NotFound, Problem
from seedbed.evaluation.judges.judge import judges_in
from seedbed.evaluation.judges.rubrics import AGREEMENT, agreements, deciding, trusted
from seedbed.experiments.held_out import known_tasks, seen_before
from seedbed.experiments.replay.replay import is_replayed
from seedbed.experiments.sentinel import sentinel
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import is_number
from seedbed.release.review.panel import Panel
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
    share: float = 1.0
    """Of those who are served, how many it is for."""


class Gate(Protocol):
    """Passes with None, or says what is missing and what to do. It looks, and changes nothing."""

    async def __call__(self, change: Change) -> Refusal | None: ...


@dataclass(frozen=True, slots=True)
class Better:
    """A verdict says that exactly this candidate is better than exactly this incumbent.

    `error` is the highest error rate it may have. Only the first comparison on the same tasks counts, answered or not:
    who begins again, in another order or by a laxer rule, finds something in the end. Replays prove nothing of live
    runs, and count only where `replays` says so. If a judge gave the scores, it has to be trusted: `agreement` is what
    the lower end of its kappa with people has to reach.

    While the A/A sentinel is alarmed, nobody passes.
    """

    error: float = 0.05
    agreement: float = AGREEMENT
    replays: bool = False

    async def __call__(self, change: Change) -> Refusal | None:
        if change.incumbent is None:
            return None  # a first release has nothing to be better than
        remedy = f"Run: {compare_command(change)}"
        expected = f"a verdict that {short(change.candidate)} is better than {short(change.incumbent)}"
        if refusal := stray(change, "better", expected):
            return refusal
        verdict, store = change.verdict, change.library.store
        assert verdict
        plan = store.get(verdict.experiment)
        if not self.replays and any(map(is_replayed, plan["models"].values())):
            return Refusal("better", "a verdict about replays", "one about live runs", remedy)
        if verdict.alpha > self.error:
            found = f"a verdict with an error rate of {verdict.alpha:g}"
            return Refusal("better", found, f"at most {self.error:g}", f"{remedy} --alpha {self.error:g}")
        if first := _earlier(verdict, plan["metric"], store):
            units = "outcomes" if verdict.live else "tasks"
            found = f"a second comparison on the same {units}; the first was {first}"
            return Refusal("better", found, "the first", f"Compare on {units} that were not used yet.")
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
    if change.verdict.live:  # people were served, no tasks were set: there is none that it was evolved on
        return stray(change, "held_out", "a live verdict about exactly these two")
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


@dataclass(frozen=True, slots=True)
class RulesKept:
    """No rule of the incumbent is dropped or loosened, and no number leaves the bounds that it has there.

    With a `panel` a person may let it pass.
    """

    panel: Panel | None = None

    async def __call__(self, change: Change) -> Refusal | None:
        if change.incumbent is None:
            return None
        before, after = change.library.get(change.incumbent), change.library.get(change.candidate)
        loosened, escaped = before.loosened_by(after), list(beyond_bounds(before, after))
        if not loosened and not escaped:
            return None
        if self.panel and self.panel.objection(change.library, change.channel, change.candidate) is None:
            return None
        found = "; ".join(f"{problem.path}: {problem.found}" for problem in (*loosened, *escaped))
        expected = ["every rule of the incumbent"] * bool(loosened) + ["numbers within its bounds"] * bool(escaped)
        remedy = ["Put the rules back."] * bool(loosened) + ["Bring the numbers back."] * bool(escaped)
        return Refusal("rules_kept", found, " and ".join(expected), " ".join(remedy))


rules_kept = RulesKept()


def beyond_bounds(before: Playbook, after: Playbook) -> Iterator[Problem]:
    """Numbers that leave the bounds they had: whoever changes a playbook may have moved the bounds with them."""
    for name, was in before.parameters.items():
        now = after.parameters.get(name)
        if now is None or not is_number(now.value):
            continue
        below = was.low is not None and now.value < was.low
        above = was.high is not None and now.value > was.high
        if below or above:
            found = f"{now.value:g}, beyond its bound of {was.low if below else was.high:g}"
            yield Problem(f"parameters.{name}", found, "a number within its bounds")


# Verdicts


def compare_command(change: Change) -> str:
    """What gives the verdict that a change needs."""
    return f"seedbed compare {short(change.incumbent or '')} {short(change.candidate)} --on DATASET"


def stray(change: Change, gate: str, expected: str) -> Refusal | None:
    """Why the verdict of a change is no evidence about it: none, another pair's, forged, or without its experiment."""
    verdict, remedy = change.verdict, f"Run: {compare_command(change)}"
    if verdict is None:
        return Refusal(gate, "no verdict", expected, remedy)
    if (verdict.candidate, verdict.control) != (change.candidate, change.incumbent):
        found = f"a verdict about {short(verdict.candidate)} against {short(verdict.control)}"
        return Refusal(gate, found, expected, remedy)
    if not _is_recorded(verdict, change.library.store):
        return Refusal(gate, "a verdict that this store does not hold", expected, remedy)
    try:
        change.library.store.get(verdict.experiment)
    except NotFound:
        found, again = f"no experiment {short(verdict.experiment)}", "Copy it from the store that has it"
        return Refusal(gate, found, "the one of the verdict", f"{again}, or compare again here.")
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
