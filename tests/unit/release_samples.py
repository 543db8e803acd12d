"""A candidate on its way to a channel: a library with agents, real verdicts, and changes to ask gates about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loop_samples import CONFIRMING, agent, bench, numbers

from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import ReleaseRequest
from seedbed.storage.memory import MemoryStore

RULES = {"never": ["delete_*"], "confirm": ["refund"], "prefer_confirm": ["bulk_*"], "confirm_below": 0.7}
PARAMETERS = {"warmth": {"value": 0.5, "low": 0, "high": 1}}
OLD, NEW, POOR = (agent(known, rules=RULES, parameters=PARAMETERS) for known in ("[0-4]", ".*", "x"))
"""One that knows a few answers, one that knows all, and one that says the same whatever it is asked."""
TASKS = numbers(30, first=30)


def kept(*playbooks: Playbook, by: str = "ada") -> Library:
    """A library of its own with the agents and some others."""
    library = Library(MemoryStore(), by)
    for playbook in (OLD, NEW, POOR, *playbooks):
        library.keep(playbook, because="written")
    return library


async def compared(library: Library, before: Playbook = OLD, after: Playbook = NEW, **more: Any) -> Verdict:
    tasks = more.pop("tasks", TASKS)
    return await run_experiment(before, after, tasks, ExactMatch(), bench(library.store), replace(CONFIRMING, **more))


async def scored(library: Library, *metrics: str, tasks: Dataset = TASKS, playbooks: tuple[Playbook, ...] = ()) -> None:
    """Have both scored by more metrics."""
    for playbook in playbooks or (OLD, NEW):
        await evaluate(playbook, tasks, [parse_metric(each) for each in metrics], bench(library.store))


def change(library: Library, verdict: Verdict | None = None, **given: Any) -> ReleaseRequest:
    about: dict[str, Any] = {"candidate": NEW.digest, "incumbent": OLD.digest, "verdict": verdict, **given}
    return ReleaseRequest("production", library=library, **about)
