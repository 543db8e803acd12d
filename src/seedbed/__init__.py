"""seedbed makes LLM agents better and proves it: run, evaluate, compare, evolve, release."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seedbed.errors import SeedbedError
    from seedbed.evaluation.datasets.dataset import Dataset, Task
    from seedbed.evaluation.metrics.metric import ExactMatch, Score, metric
    from seedbed.evolution.optimizers.best_of import BestOf
    from seedbed.playbooks.library import Library
    from seedbed.playbooks.playbook import Playbook
    from seedbed.playbooks.rules import Rules
    from seedbed.workspace import Workspace

_HOMES = {
    "BestOf": "seedbed.evolution.optimizers.best_of",
    "Dataset": "seedbed.evaluation.datasets.dataset",
    "ExactMatch": "seedbed.evaluation.metrics.metric",
    "Library": "seedbed.playbooks.library",
    "Playbook": "seedbed.playbooks.playbook",
    "Rules": "seedbed.playbooks.rules",
    "Score": "seedbed.evaluation.metrics.metric",
    "SeedbedError": "seedbed.errors",
    "Task": "seedbed.evaluation.datasets.dataset",
    "Workspace": "seedbed.workspace",
    "metric": "seedbed.evaluation.metrics.metric",
}

__all__ = [
    "BestOf",
    "Dataset",
    "ExactMatch",
    "Library",
    "Playbook",
    "Rules",
    "Score",
    "SeedbedError",
    "Task",
    "Workspace",
    "metric",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import seedbed` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seedbed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
