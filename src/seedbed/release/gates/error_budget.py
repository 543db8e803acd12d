"""The `error_budget` gate: the verdict was paid from the error budget of its channel."""

from __future__ import annotations

from seedbed.experiments.experiment import Experiment
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_sentinel, check_verdict, compare_command
from seedbed.storage.store import Query


async def error_budget(request: ReleaseRequest) -> Refusal | None:
    """The verdict was paid from the error budget of exactly this channel, and no sentinel is alarmed."""
    if request.incumbent is None:
        return None
    expected = f"a verdict that was paid from the error budget of {request.channel}"
    remedy = f"Run: {compare_command(request)} --for {request.channel}"
    if refusal := check_verdict(request, "error_budget", expected):
        return Refusal(refusal.path, refusal.found, refusal.expected, remedy)
    verdict, store = request.verdict, request.library.store
    assert verdict
    plan = Experiment.from_content(store.get(verdict.experiment))
    if plan.channel != request.channel:
        actual = f"one for {plan.channel}" if plan.channel else "one that was not paid from an error budget"
        return Refusal("error_budget", actual, expected, remedy)
    places = store.facts(Query(kind="reservation", subject=request.channel))
    paid = (verdict.experiment, verdict.candidate, verdict.alpha)
    if not any((fact.body["experiment"], fact.body["candidate"], fact.body["alpha"]) == paid for fact in places):
        return Refusal("error_budget", "one without a reservation", expected, remedy)
    alphas = sorted({float(fact.body["alpha"]) for fact in store.facts(Query(kind="sentinel"))})
    return next(filter(None, (check_sentinel("error_budget", store, alpha) for alpha in alphas)), None)
