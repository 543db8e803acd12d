"""The A/A sentinel: compares a playbook with itself by the same code, to measure how often there is a false winner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.options import DEFAULT, USUAL_ALPHA, Comparing
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.storage.store import Fact, Query, Store


@dataclass(frozen=True, slots=True)
class Sentinel:
    """How often a playbook was called better than itself, with an exact interval, and the promised error rate."""

    alpha: float
    rate: Interval

    @property
    def alarmed(self) -> bool:
        """Whether that is more often than promised, beyond chance: then nothing may be released automatically."""
        return self.rate.low > self.alpha


async def play_sentinel(
    playbook: Playbook,
    tasks: Dataset,
    metric: Metric,
    context: EvaluationContext,
    options: Comparing = DEFAULT,
    *,
    times: int = 1,
    watch: Callable[[Verdict], None] | None = None,
) -> Sentinel:
    """Compare a playbook with itself `times` more, each time with new runs in both arms."""
    alpha = USUAL_ALPHA if options.alpha is None else options.alpha
    played = sum(1 for _ in context.store.facts(Query(kind="sentinel", subject=playbook.digest)))
    for turn in range(played, played + times):
        again = replace(options, alpha=alpha, seed=turn, first_replicate=(2 * turn, 2 * turn + 1))
        verdict = await run_experiment(playbook, playbook, tasks, metric, context, again)
        body = {"finding": verdict.finding, "alpha": alpha, "dataset": tasks.digest, "metric": metric.name}
        fact = Fact(
            kind="sentinel",
            key=verdict.experiment,
            subject=playbook.digest,
            at=context.clock(),
            by=context.by,
            body=body,
            value=float(verdict.finding == "superior"),
        )
        context.store.append([fact])
        if watch:
            watch(verdict)
    return sentinel(context.store, alpha)


def sentinel(store: Store, alpha: float = 0.05) -> Sentinel:
    """The rate of false winners in all comparisons of playbooks with themselves at this error rate.

    Invalid verdicts and unfinished comparisons do not count.
    """
    games = [fact for fact in store.facts(Query(kind="sentinel")) if fact.body["alpha"] == alpha]
    findings = [fact.body["finding"] for game in games for fact in store.facts(Query(kind="verdict", key=game.key))]
    counted = [finding for finding in findings if finding != "invalid"]
    return Sentinel(alpha, exact_rate(counted.count("superior"), len(counted)))
