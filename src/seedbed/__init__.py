"""seedbed makes LLM agents better and proves it: run, evaluate, compare, evolve, release."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seedbed.errors import SeedbedError
    from seedbed.evaluation.datasets.dataset import Dataset, Task
    from seedbed.evaluation.metrics.metric import ExactMatch, Score, metric
    from seedbed.evaluation.scorecard import Scorecard
    from seedbed.evolution.optimizers.best_of import BestOf
    from seedbed.evolution.plan import SearchOptions
    from seedbed.evolution.searches import Evolution
    from seedbed.evolution.training import Training
    from seedbed.experiments.evidence_sources import live, past_runs
    from seedbed.experiments.options import Comparing
    from seedbed.experiments.proof.evidence_file import verify_evidence
    from seedbed.experiments.verdict import Verdict
    from seedbed.playbooks.changes import diff
    from seedbed.playbooks.genes import genes, with_genes
    from seedbed.playbooks.playbook import Playbook
    from seedbed.playbooks.rules import Rules
    from seedbed.runs.run import Run
    from seedbed.settings import Settings
    from seedbed.stage.tools import Tool, tool
    from seedbed.workspace.blocking import open_blocking
    from seedbed.workspace.opening import open_workspace as open  # noqa: A004 - seedbed.open reads well
    from seedbed.workspace.workspace import Workspace

_HOMES = {
    "BestOf": "seedbed.evolution.optimizers.best_of",
    "Comparing": "seedbed.experiments.options",
    "Dataset": "seedbed.evaluation.datasets.dataset",
    "Evolution": "seedbed.evolution.searches",
    "ExactMatch": "seedbed.evaluation.metrics.metric",
    "Playbook": "seedbed.playbooks.playbook",
    "Rules": "seedbed.playbooks.rules",
    "Run": "seedbed.runs.run",
    "Score": "seedbed.evaluation.metrics.metric",
    "Scorecard": "seedbed.evaluation.scorecard",
    "SearchOptions": "seedbed.evolution.plan",
    "SeedbedError": "seedbed.errors",
    "Settings": "seedbed.settings",
    "Task": "seedbed.evaluation.datasets.dataset",
    "Tool": "seedbed.stage.tools",
    "Training": "seedbed.evolution.training",
    "Verdict": "seedbed.experiments.verdict",
    "Workspace": "seedbed.workspace.workspace",
    "diff": "seedbed.playbooks.changes",
    "genes": "seedbed.playbooks.genes",
    "live": "seedbed.experiments.evidence_sources",
    "metric": "seedbed.evaluation.metrics.metric",
    "open": "seedbed.workspace.opening:open_workspace",
    "open_blocking": "seedbed.workspace.blocking",
    "past_runs": "seedbed.experiments.evidence_sources",
    "tool": "seedbed.stage.tools",
    "verify_evidence": "seedbed.experiments.proof.evidence_file",
    "with_genes": "seedbed.playbooks.genes",
}

__all__ = [
    "BestOf",
    "Comparing",
    "Dataset",
    "Evolution",
    "ExactMatch",
    "Playbook",
    "Rules",
    "Run",
    "Score",
    "Scorecard",
    "SearchOptions",
    "SeedbedError",
    "Settings",
    "Task",
    "Tool",
    "Training",
    "Verdict",
    "Workspace",
    "diff",
    "genes",
    "live",
    "metric",
    "open",
    "open_blocking",
    "past_runs",
    "tool",
    "verify_evidence",
    "with_genes",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import seedbed` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seedbed' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
