"""Comparisons and estimates on past runs that a test has drawn itself."""

from __future__ import annotations

from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.replay.coverage import ReplayedRuns, replay_past_runs
from seedbed.experiments.replay.estimate import Estimate, estimate_difference
from seedbed.experiments.replay.history import History
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.workspace.execution import Execution
from seedbed.workspace.workspace import Workspace


def context_of(space: Workspace, max_cost_usd: float | None = None) -> EvaluationContext:
    return Execution(space.resources).context(max_cost_usd=max_cost_usd)


async def compare_replayed(
    space: Workspace,
    control: Playbook,
    candidate: Playbook,
    *,
    metric: Metric,
    past: History,
    mode: str = "strict",
    max_cost_usd: float | None = None,
) -> tuple[Verdict, ReplayedRuns]:
    context = context_of(space, max_cost_usd)
    for each in (control, candidate):
        space.resources.keep(each, "compared")
    replays = await replay_past_runs(control, candidate, past, ReplayMode.parse(mode), context)
    return await run_experiment(control, candidate, replays, metric, context), replays


async def estimate_replayed(
    space: Workspace,
    control: Playbook,
    candidate: Playbook,
    *,
    metric: Metric,
    past: History,
    live_runs: int,
    mode: str = "strict",
    seed: int = 0,
    max_cost_usd: float | None = None,
) -> tuple[Estimate, ReplayedRuns]:
    context = context_of(space, max_cost_usd)
    for each in (control, candidate):
        space.resources.keep(each, "compared")
    replays = await replay_past_runs(control, candidate, past, ReplayMode.parse(mode), context)
    return await estimate_difference(
        control, candidate, replays, metric, context, live_runs=live_runs, seed=seed
    ), replays
