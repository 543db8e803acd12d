"""compare(): feed tasks to both arms in registered order until the stopping rule answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import aclosing, suppress

from seedbed.errors import DatasetError, NotFound, Problem
from seedbed.evaluation.dataset import Dataset, Task
from seedbed.evaluation.evaluate import Bench, Cell, cells_of
from seedbed.evaluation.metrics import Metric
from seedbed.experiments.experiment import Experiment, Finding, Verdict
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.estimates import paired_interval
from seedbed.stats.sequential import Answer
from seedbed.storage.store import Fact

Watcher = Callable[[Answer], None]


async def compare(
    control: Playbook,
    candidate: Playbook,
    tasks: Dataset,
    metric: Metric,
    bench: Bench,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    watch: Watcher | None = None,
) -> Verdict:
    """Is the candidate better on these tasks? Registered before the first run, recorded when it is answered.

    Both arms meet each task with the same seed. Results are read in the registered order however fast each
    comes, and reading stops when the rule answers: that is what keeps its error rate. A run that fails
    counts as the experiment says. A comparison that has been answered is not repeated: its verdict stands.
    """
    models = {"control": bench.identity(control), "candidate": bench.identity(candidate)}
    plan = Experiment.plan(control.digest, candidate.digest, tasks, metric, alpha=alpha, seed=seed, models=models)
    if not plan.order:
        raise DatasetError([Problem("tasks", "none", "at least one")])
    with suppress(NotFound):
        return Verdict.recall(bench.store, plan.digest)
    bench.store.put("dataset", tasks.content())
    bench.store.put("experiment", plan.content())
    by_id = {task.id: task for task in tasks}
    order = [(by_id[name], 0) for name in plan.order]
    # A playbook against itself is one arm: each of its cells is paid once, so every task is a tie.
    arms = [cells_of(playbook, order, [metric], bench) for playbook in dict.fromkeys((control, candidate))]

    async def pair(item: tuple[Task, int]) -> tuple[Cell, Cell]:
        cells = [cell async for (cell,) in in_order(arms, lambda arm: arm(item), at_once=bench.at_once)]
        return cells[0], cells[-1]

    rule = plan.start()
    scores: list[tuple[float, float]] = []
    async with aclosing(in_order(order, pair, at_once=max(1, bench.at_once // len(arms)))) as pairs:
        async for cells in pairs:
            before, after = (plan.failure_counts_as if cell.value is None else cell.value for cell in cells)
            scores.append((before, after))
            answer = rule.update(after - before)
            if watch:
                watch(answer)
            if answer.verdict != "continue":
                break
    return _recorded(plan, metric, rule.state()["outcomes"], rule.answer, scores, bench)


def _recorded(
    plan: Experiment, metric: Metric, outcomes: str, answer: Answer, scores: list[tuple[float, float]], bench: Bench
) -> Verdict:
    before, after = ([pair[arm] for pair in scores] for arm in (0, 1))
    interval = paired_interval(before, after)
    # Differences that are all the same show no spread, which is no proof that there is none.
    known = math.isfinite(interval.low) and interval.low < interval.high
    finding: Finding = answer.verdict if answer.verdict != "continue" else "inconclusive"
    verdict = Verdict(
        experiment=plan.digest,
        control=plan.control,
        candidate=plan.candidate,
        dataset=plan.dataset,
        metric=metric.name,
        finding=finding,
        tasks=answer.n,
        at_most=len(plan.order),
        wins=answer.wins,
        ties=answer.ties,
        losses=answer.losses,
        control_mean=sum(before) / len(before),
        candidate_mean=sum(after) / len(after),
        difference=interval.mean,
        low=interval.low if known else None,
        high=interval.high if known else None,
        p=answer.p,
        alpha=plan.rule["alpha"],
        outcomes=outcomes,
    )
    fact = Fact(
        kind="verdict",
        key=plan.digest,
        subject=plan.candidate,
        at=bench.clock(),
        by=bench.by,
        body=verdict.body(),
        value=verdict.difference,
    )
    bench.store.append([fact])
    return Verdict.recall(bench.store, plan.digest)
