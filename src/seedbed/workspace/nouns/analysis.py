"""space.analysis: what past runs show without another run: patterns in good and bad ones, and other policies."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.experiments.patterns.patterns import Patterns, find_patterns
from seedbed.experiments.patterns.suggestion import Suggestion, suggest
from seedbed.experiments.patterns.traits import ScoredRuns, gather_runs
from seedbed.experiments.screening.policies import load_policy
from seedbed.experiments.screening.screening import Screening, read_decisions, screen_policy
from seedbed.storage.store import Digest
from seedbed.workspace.execution import Execution, Tasks
from seedbed.workspace.resources import AnyPlaybook, Resources

OUTCOME = "outcome"
"""Stands for a metric where users said how good runs were."""


class Analysis:
    """Hindsight in a workspace: it reads recorded runs, starts none and decides nothing."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._execution = Execution(resources)

    def patterns(
        self,
        playbook: AnyPlaybook | None = None,
        *,
        metric: Metric | str = "exact_match",
        on: Tasks | None = None,
        alpha: float = 0.05,
    ) -> tuple[Patterns, ScoredRuns]:
        """What sets good runs apart from bad ones: suggested by one half of the tasks, tested in the other."""
        by, tasks, subject = self._scored(playbook, metric, on)
        direction = better(by) if by else "higher"
        worst = float(direction == "lower")
        runs = gather_runs(self._resources.store, by, playbook=subject, tasks=tasks, failure_counts_as=worst)
        return find_patterns(runs.scored, by.name if by else OUTCOME, alpha=alpha, better=direction), runs

    def _scored(
        self, playbook: AnyPlaybook | None, metric: Metric | str, on: Tasks | None
    ) -> tuple[Metric | None, Dataset | None, Digest | None]:
        """The metric (None: users' feedback), the tasks and the playbook (None: all) of the runs to read."""
        by = None if metric == OUTCOME else self._execution.metric(metric)
        tasks = None if on is None else self._execution.dataset(on)
        return by, tasks, self._resources.playbook(playbook).digest if playbook else None

    def suggest(
        self,
        patterns: Patterns,
        runs: ScoredRuns,
        file: Path,
        *,
        playbook: AnyPlaybook | None,
        metric: str,
        number: int,
    ) -> Suggestion:
        """Write a finding as the next experiment, for people to edit."""
        control = (
            self._resources.playbook(playbook).digest
            if playbook
            else Counter(each.run.playbook for each in runs.scored).most_common(1)[0][0]
        )
        by = None if metric == OUTCOME else self._execution.metric(metric)
        return suggest(
            patterns.findings[number - 1],
            file,
            control=control,
            metric=metric if by else "METRIC",
            binary=bool(getattr(by, "binary", False)),
            alpha=patterns.alpha,
        )

    async def screen(
        self,
        point: str,
        candidate: str,
        *,
        playbook: AnyPlaybook | None = None,
        metric: Metric | str = "exact_match",
        on: Tasks | None = None,
        since: datetime | None = None,
    ) -> Screening:
        """What another policy would have scored at a decision that past runs made by chance. Nothing is run."""
        chosen = load_policy(candidate)
        by, tasks, subject = self._scored(playbook, metric, on)
        log = await read_decisions(self._resources.store, point, by, playbook=subject, tasks=tasks, since=since)
        return screen_policy(log, chosen)
