"""The `not_worse` gates: metrics by which a candidate need not be better but must not be worse, and tags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from seedbed.errors import NotFound, SettingsError, shown
from seedbed.evaluation.cells import Naming, TaskTexts
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.intervals import mean_gain
from seedbed.evaluation.metrics.metric import better
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.proof.held_out import known_tasks
from seedbed.experiments.replay.replay import is_replayed
from seedbed.experiments.slices import Slices, SliceTerms
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_verdict, compare_command
from seedbed.stats.arrays import Direction
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.storage.store import Digest, Json, Query, Store, digest, in_brief, short

TaskScores: TypeAlias = Mapping[tuple[str, int], float]
"""The score of each task and replicate."""


@dataclass(frozen=True, slots=True)
class NotWorse:
    """By each metric, the candidate is worse than the incumbent by no more than its margin, with this `error` rate.

    It uses the scores of both on all tasks of the verdict's dataset, with the models of its experiment: all of them, so
    that no one can stop where it looks good. A missing score is a refusal.
    """

    margins: Mapping[str, float] = field(hash=False)
    error: float = 0.05

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None
        named = ", ".join(self.margins)
        if refusal := check_verdict(request, "not_worse", f"scores of both on the same tasks by {named}"):
            return refusal
        store, verdict = request.library.store, request.verdict
        assert verdict
        plan = Experiment.from_content(store.get(verdict.experiment))
        if verdict.live:
            expected, remedy = f"scores of both on the same tasks by {named}", f"Run: {compare_command(request)}"
            return Refusal("not_worse", "a live verdict, which has no tasks", expected, remedy)
        if any(map(is_replayed, plan.models.values())):
            return Refusal("not_worse", "a verdict about replays", "one about live runs", "Compare live.")
        try:
            tasks = known_tasks(store, plan.dataset)
        except NotFound as missing:
            remedy = "Copy it from the store that has it, or compare again here."
            return Refusal("not_worse", str(missing), "the tasks of the verdict", remedy)
        before = scores(store, plan.control, plan.models["control"], tasks, plan.replicates)
        after = scores(store, plan.candidate, plan.models["candidate"], tasks, plan.replicates)
        wanted = len(tasks) * plan.replicates
        absent, worse = [], []
        for metric, margin in self.margins.items():
            now = request.metric(metric)
            pair, known = _complete(now, before.get(metric, {}), after.get(metric, {}), wanted)
            if pair is None:
                absent.append(f"{metric} of both at {known} of {wanted} tasks")
                continue
            loss = _loss(metric, *pair, tasks, 1 - 2 * self.error)
            if not loss.high <= margin:
                worse.append(f"{metric}: {loss.mean:+.4g} worse, perhaps {loss.high:+.4g}, on {len(tasks)} tasks")
        if not absent and not worse:
            return None
        limits = ", ".join(f"{metric} worse by at most {margin:g}" for metric, margin in self.margins.items())
        remedies = [f"Run: {_command(request, plan, store, self.margins)}"] * bool(absent)
        remedies += ["Look for a better candidate, or compare on more tasks."] * bool(worse)
        return Refusal("not_worse", "; ".join([*absent, *worse]), limits, " ".join(remedies))


@dataclass(frozen=True, slots=True)
class NoSliceWorse:
    """The candidate is worse on no tag with enough tasks, by what a comparison found out after its verdict.

    It passes where there are no such tags: without them there is nothing to look at.
    """

    terms: SliceTerms = field(default_factory=SliceTerms)

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        name, expected = "no_slice_worse", "a candidate that is worse on no tag"
        if request.incumbent is None:
            return None
        if refusal := check_verdict(request, name, expected):
            return refusal
        store, verdict = request.library.store, request.verdict
        assert verdict
        if verdict.live:  # what users say of it has no tags
            return None
        plan = Experiment.from_content(store.get(verdict.experiment))
        try:
            tags = self.terms.tags(plan.units(known_tasks(store, plan.dataset)))
            if not tags:
                return None
            worse = Slices.recall(store, verdict.experiment, self.terms).worse
        except NotFound as missing:
            remedy = f"Compare again, with the same tasks and options: {compare_command(request)}"
            return Refusal(name, str(missing), f"results for each tag with {self.terms.least} tasks or more", remedy)
        if not worse:
            return None
        listed = ", ".join(
            f"{shown(each.tag)} ({each.difference:+.3f} [{each.low:+.3f}, {each.high:+.3f}] after {each.tasks} tasks)"
            for each in worse
        )
        remedy = f"Read what became worse: seedbed experiment show {short(verdict.experiment)}"
        return Refusal(name, f"worse on {len(worse)} of {len(tags)} tags: {listed}", expected, remedy)


def scores(
    store: Store, playbook: Digest, models: Json, tasks: Dataset, replicates: int
) -> Mapping[str, Mapping[str, TaskScores]]:
    """All scores of a playbook at these tasks with these models, by the name and the digest of the metric."""
    inputs = TaskTexts()
    naming = Naming(playbook, models, [], inputs)
    wanted: dict[tuple[str, str], tuple[str, int]] = {}
    for task in tasks:
        for replicate in range(replicates):
            wanted[naming(task, replicate).run, inputs(task)[1]] = task.id, replicate
    by_metric: dict[str, dict[str, dict[tuple[str, int], float]]] = {}
    for key, value, body in in_brief(store, Query(kind="cell", subject=playbook)):
        run, _, rest = key.partition("/")
        metric, _, what = rest.partition("/")
        place = wanted.get((run, what))
        if place is not None and value is not None:
            by_metric.setdefault(json.loads(body)["metric"], {}).setdefault(metric, {})[place] = value
    return by_metric


def _complete(
    metric: Json | None, before: Mapping[str, TaskScores], after: Mapping[str, TaskScores], wanted: int
) -> tuple[tuple[TaskScores, TaskScores] | None, int]:
    """The scores of both on all tasks by the metric as it is now, or by one version of a metric that is not known, if
    complete; and on how many tasks there are."""
    now = metric and digest("metric", metric)[3:19]
    versions = [each for each in after if each in before and now in (None, each)]
    shared = {each: len(before[each].keys() & after[each].keys()) for each in versions}
    newest = next((each for each in reversed(versions) if shared[each] == wanted), None)
    return (before[newest], after[newest]) if newest else None, max(shared.values(), default=0)


def _direction(metric: str) -> Direction:
    try:
        return better(parse_metric(metric))
    except SettingsError:
        return "higher"


def _loss(metric: str, before: TaskScores, after: TaskScores, tasks: Dataset, confidence: float) -> Interval:
    """How much worse the candidate is, over tasks. Tasks of one source count together."""
    old, new = (_by_task(arm) for arm in (before, after))
    names, sources = [task.id for task in tasks], [task.source or task.id for task in tasks]
    olds, news = [old[name] for name in names], [new[name] for name in names]
    lower = _direction(metric) == "lower"
    loss = mean_gain(metric, *((olds, news) if lower else (news, olds)), sources, confidence)
    if loss.low < loss.high:
        return loss
    # No spread in the sample is no proof that there is none: tasks outside it may lose everything.
    values = {*olds, *news}
    unseen = exact_rate(0, len({*sources}), confidence).high
    return Interval(loss.mean, loss.mean, loss.mean + (max(values) - min(values)) * unseen, confidence, loss.n)


def _by_task(arm: TaskScores) -> dict[str, float]:
    values_of: dict[str, list[float]] = {}
    for (task, _), value in arm.items():
        values_of.setdefault(task, []).append(value)
    return {task: sum(values) / len(values) for task, values in values_of.items()}


def _command(request: ReleaseRequest, plan: Experiment, store: Store, metrics: Mapping[str, float]) -> str:
    """The command that scores both on all tasks by all metrics."""
    names = (ref.name.removeprefix("datasets/") for ref in store.refs("datasets/") if ref.target == plan.dataset)
    arms = f"{short(request.incumbent or '')} {short(request.candidate)} --on {next(names, plan.dataset)}"
    by = " ".join(f"--metric {metric}" if metric.isidentifier() else f"--metric '{metric}'" for metric in metrics)
    more = f" --replicates {plan.replicates}" if plan.replicates > 1 else ""
    return f"seedbed evaluate {arms} {by}{more}"
