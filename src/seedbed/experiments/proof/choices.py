"""Choices: what else a comparison may be chosen by, if results of the control are known on its tasks.

Of ten metrics, some one makes the control look worse than it is; so do the first replicates of five, or a rule that
suits how well it did. Whoever chooses with these results in sight wins too often (benchmarks/choices.py). So where they
are known, one choice of each is left: what was named before the first of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from seedbed.errors import NotFound
from seedbed.evaluation.cells import completed_runs, run_of
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.experiment import Experiment
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.storage.store import Digest, Json, Query, Store, digest

HARMLESS = ("alpha", "at_most", "effect", "beta")
"""Settings of a rule that only make it call fewer candidates better, or that the experiment sets."""


@dataclass(frozen=True)
class KnownControl:
    """The runs of a control, and of playbooks that are nearly the same, on the tasks of a comparison.

    `read` names the inputs that count, `keys` the tasks by them; only what came before that fact counts.
    """

    store: Store
    playbooks: Collection[Digest]
    keys: Collection[Digest]
    read: Collection[str] | None
    before: float

    def chosen_late(self, plan: Experiment) -> str:
        """What may have been chosen by these runs; empty if nothing."""
        if plan.seed or plan.first_replicates != (0, 0):
            return "the order of the tasks or the first replicate"
        if not _is_usual(plan.rule):
            return "the rule"
        metric, replicates = self._named()
        if plan.replicates != replicates:
            return "the number of replicates"
        return "" if _name(plan.metric) == metric else "the metric"

    def _named(self) -> tuple[str, int]:
        """The metric and the replicates that were named before the first of the runs: by the first attempt on any of
        the tasks; else by the metric of the first score, if nobody had looked at answers without one."""
        runs = {name: self._runs(name) for name in self.playbooks}
        first = min(number for each in runs.values() for number in each.values())
        for fact in self.store.facts(Query(kind="comparison")):
            if fact.number < first and fact.body.get("mode") == "confirmatory" and self._asks(fact.body["dataset"]):
                plan = Experiment.from_content(self.store.get(fact.key))
                return _name(plan.metric), plan.replicates
        cells = [
            (cell.number, cell.key, started[run_of(cell.key)], name)
            for name, started in runs.items()
            for cell in self.store.facts(Query(kind="cell", subject=name))
            if cell.number < self.before and run_of(cell.key) in started
        ]
        scored = {run_of(key) for _, key, _, _ in cells}
        _, key, began, _ = min(cells, default=(0.0, "", self.before, ""))
        for name, started in runs.items():
            by_hand = {run for run, number in started.items() if number < began and run not in scored}
            if completed_runs(self.store, name, by_hand):
                return _name(ExactMatch().identity), 1
        return key.split("/")[1] if key else _name(ExactMatch().identity), 1

    def _runs(self, playbook: Digest) -> dict[str, float]:
        """The runs of a playbook on any of the tasks, and when each was begun."""
        return {
            start.key: start.number
            for start in self.store.facts(Query(kind="start", subject=playbook))
            if start.number < self.before and task_key(start.body["inputs"], self.read) in self.keys
        }

    def _asks(self, dataset: Digest) -> bool:
        """Whether a dataset has any of the tasks."""
        try:
            tasks = Dataset.from_content(self.store.get(dataset))
        except NotFound:
            return False
        return any(task_key(task.inputs, self.read) in self.keys for task in tasks)


def _is_usual(rule: Json) -> bool:
    """Whether a rule is the exact test or betting as they come: a choice between these two keeps the error rate, with a
    third rule it does not."""
    usual = {each["rule"]: each for each in (ExactMcNemar(at_most=1).state(), Betting().state())}.get(rule["rule"], {})
    free = {*HARMLESS, *(("goal", "margin") if rule.get("goal", "superior") != "superior" else ())}
    return bool(usual) and all(usual.get(name) == value for name, value in rule.items() if name not in free)


def _name(metric: Json) -> str:
    """A metric as the keys of cells name it."""
    return digest("metric", metric)[3:19]
