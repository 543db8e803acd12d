"""The `better` gate: a verdict says that the candidate is better than what the channel serves."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import NotFound
from seedbed.evaluation.judges.agreement import AGREEMENT, agreements, deciding, distrust
from seedbed.evaluation.judges.judge import judges_in
from seedbed.experiments.proof.attempts import attempt_of
from seedbed.experiments.replay.replay import is_replayed
from seedbed.experiments.verdict import Verdict
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_sentinel, check_verdict, compare_command
from seedbed.storage.store import Json, Query, Store, short


@dataclass(frozen=True, slots=True)
class BetterGate:
    """A verdict says that exactly this candidate is better than exactly this incumbent.

    `error` is the highest error rate that all attempts to replace the incumbent may have together: with enough of them,
    some would succeed by chance. An exploratory verdict does not count. Replays prove nothing about live runs, and
    count only with `replays`, each on tasks that were not replayed before. If a judge gave the scores, it must be
    trusted: the lower end of its kappa with people must reach `agreement`.

    With `metrics`, only verdicts by one of these count. While the A/A sentinel is alarmed, no candidate passes.
    """

    error: float = 0.05
    agreement: float = AGREEMENT
    replays: bool = False
    metrics: tuple[str, ...] = ()

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None  # a first release has nothing to be better than
        remedy = f"Run: {compare_command(request)}"
        expected = f"a verdict that {short(request.candidate)} is better than {short(request.incumbent)}"
        if refusal := check_verdict(request, "better", expected):
            return refusal
        verdict, store = request.verdict, request.library.store
        assert verdict
        plan = store.get(verdict.experiment)
        replayed = any(map(is_replayed, plan["models"].values()))
        if replayed and not self.replays:
            return Refusal("better", "a verdict about replays", "one about live runs", remedy)
        # Live comparisons that were begun by an old version have no mode, and count as they did then.
        if not replayed and verdict.mode != "confirmatory" and (verdict.mode or not verdict.live):
            actual = f"an exploratory verdict{': ' * bool(verdict.why)}{verdict.why}"
            on = "registered before its first outcome" if verdict.live else "on tasks with no known results"
            return Refusal("better", actual, f"a confirmatory one, {on}", remedy)
        if verdict.mode == "confirmatory" and not verdict.attempt and plan["channel"] != request.channel:
            actual = f"a verdict paid from the error budget of {plan['channel']}"
            return Refusal("better", actual, f"one for {request.channel}", remedy)
        if self.metrics and not verdict.live and plan["metric"] not in map(request.metric, self.metrics):
            return Refusal("better", f"a verdict by {verdict.metric}", f"one by {' or '.join(self.metrics)}", remedy)
        if not (replayed or verdict.live) and (others := _other_models(request, plan["models"])):
            actual = f"a verdict about another {', '.join(others)} than the one in use now"
            return Refusal("better", actual, "one about the models in use", remedy)
        rate = _rate(verdict, store)
        if rate is None or rate > self.error:
            actual = "a verdict that is no attempt" if rate is None else f"a verdict with an error rate of {rate:g}"
            return Refusal("better", actual, f"at most {self.error:g}", f"{remedy} --alpha {self.error:g}")
        if first := (replayed or verdict.live) and _earlier(verdict, plan["metric"], store):
            units = "outcomes" if verdict.live else "tasks"
            actual = f"a second comparison on the same {units}; the first was {first}"
            return Refusal("better", actual, "the first", f"Compare on {units} that were not used yet.")
        if verdict.finding != "superior":
            return Refusal("better", f"the finding {verdict.finding}", "superior", "Look for a better candidate.")
        return check_sentinel("better", store, self.error) or self._distrust(verdict, plan["metric"], store)

    def _distrust(self, verdict: Verdict, metric: Json, store: Store) -> Refusal | None:
        """Why a judge that gave the scores, with the words and the model it had then, is not trusted."""
        for judge in judges_in(metric):
            name = verdict.metric if judge == metric else ""
            if refused := distrust(deciding(agreements(store, judge)), self.agreement, name=name):
                actual = f"a verdict by the {refused.path}, with {refused.found}"
                return Refusal("better", actual, refused.expected, refused.remedy)
        return None


def _other_models(request: ReleaseRequest, compared: Json) -> list[str]:
    """The models that were something else in the comparison than what their names stand for now."""
    if request.in_use is None:
        return []
    others = set[str]()
    for arm, digest in (("control", request.incumbent), ("candidate", request.candidate)):
        now, then = request.in_use.models(request.library.get(str(digest))), compared.get(arm, {})
        others |= {f"model {name}" for name in now if name in then and now[name] != then[name]}
    return sorted(others)


def _rate(verdict: Verdict, store: Store) -> float | None:
    """The error rate of all attempts together that a verdict is one of; None if it was not registered as one."""
    if not verdict.attempt:
        return verdict.alpha
    taken = attempt_of(store, verdict.control, verdict.experiment)
    return float(taken.body["rate"]) if taken else None


def _earlier(verdict: Verdict, metric: Json, store: Store) -> str:
    """The finding of an earlier comparison of the same pair on the same tasks by the same metric, if there is one."""
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
