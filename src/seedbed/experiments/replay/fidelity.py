"""Fidelity: how often replays have the same result as the runs, and how a few live runs correct for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from seedbed.errors import DatasetError, Problem, RunError, shown
from seedbed.evaluation.context import seed_of
from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.replay.history import History, PastRun
from seedbed.experiments.replay.replay import Replayer, expect_paid
from seedbed.parallel import in_order
from seedbed.runs.cassette import LABELS, Missed
from seedbed.runs.drift import AnswerDrift, add_up, drift_of
from seedbed.runs.history import recall
from seedbed.spending.ledger import Ledger
from seedbed.stats.adjusted import AdjustedDifference, ppi
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.storage.store import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAgreement:
    """How often replays had the same result as the recorded runs, with an exact interval of that rate.

    A replay that missed something did not agree.
    """

    agreed: int
    missed: int
    rate: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How far a mode of replay can be trusted, measured on runs whose result is known."""

    mode: str
    steps: Mapping[str, Mapping[str, int]]
    """How many steps of each kind have which label."""
    agreement: ReplayAgreement
    """That of the runs that were replayed."""
    strata: Mapping[str, ReplayAgreement]
    population: Interval
    """The estimated rate in the population from which the runs were drawn."""
    drift: Sequence[AnswerDrift] = ()
    """How live answers differ from those recorded for the same request, by step and tool."""

    def share(self, label: str, kind: str | None = None) -> float:
        """The share of the steps, of one kind or of all, that have a label; NaN if there were none."""
        kinds = [self.steps.get(kind, {})] if kind else list(self.steps.values())
        total = sum(sum(each.values()) for each in kinds)
        return sum(each.get(label, 0) for each in kinds) / total if total else float("nan")


async def measure_fidelity(past: History, perform: Replayer, *, ledger: Ledger | None = None) -> Fidelity:
    """Replay each run under its own playbook, and check whether it has the same status, error and output.

    Raises BudgetSpent.
    """
    runner = perform.runner
    playbooks = {name: runner.library.get(name) for name in {each.playbook for each in past.past}}
    labels: dict[str, Counter[str]] = {}
    drifts: dict[str, list[AnswerDrift]] = {}

    async def one(item: tuple[PastRun, Task]) -> tuple[bool, bool]:
        then, task = item
        playbook, seed = playbooks[then.playbook], seed_of(task, 0)
        try:
            done = await perform("", playbook, task, seed, ledger or Ledger())
        except RunError as wrong:
            expect_paid(ledger)
            done = recall(runner.store, perform.key(playbook, task, seed).id)
            missed = isinstance(wrong, Missed)
        else:
            missed = False
        for kind, counts in perform.labels(playbook, task).items():
            labels.setdefault(kind, Counter()).update(counts)
        drifts[task.id] = drift_of(done)
        same = (done.status, done.error, canonical(done.output)) == (then.status, then.error, canonical(then.output))
        return same and not missed, missed

    items = list(zip(past.past, past.tasks, strict=True))
    async with aclosing(in_order(items, one, at_once=8)) as results:
        outcomes = [result async for result in results]
    by_stratum: dict[str, list[tuple[bool, bool]]] = {}
    for stratum, result in zip(past.strata, outcomes, strict=True):
        by_stratum.setdefault(stratum, []).append(result)
    whole = count_agreement(outcomes)
    population = past.mean({task.id: float(same) for task, (same, _) in zip(past.tasks, outcomes, strict=True)})
    return Fidelity(
        mode=str(perform.mode),
        steps=sorted_steps(labels),
        agreement=whole,
        strata={stratum: count_agreement(results) for stratum, results in sorted(by_stratum.items())},
        # Equal results show no spread, which does not prove that there is none.
        population=population if population.low < population.high else whole.rate,
        drift=add_up(each for task in past.tasks for each in drifts[task.id]),
    )


def sorted_steps(labels: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
    """How many steps of each kind have which label, always in the same order."""
    return {
        kind: {label: counts[label] for label in LABELS if counts[label]} for kind, counts in sorted(labels.items())
    }


def count_agreement(results: Sequence[tuple[bool, bool]]) -> ReplayAgreement:
    """From each replay: whether it had the same result as the run, and whether it missed something."""
    agreed = sum(same for same, _ in results)
    return ReplayAgreement(
        agreed=agreed, missed=sum(missed for _, missed in results), rate=exact_rate(agreed, len(results))
    )


def adjust_with_live(
    replays: Mapping[str, float], live: Mapping[str, float], confidence: float = 0.95
) -> AdjustedDifference:
    """The mean difference that live runs would show, from many replays and the few of their tasks that were run live.

    Both are differences, candidate minus control, by the id of the task; the live tasks must be drawn at random from
    those that were replayed. The live runs show the error of the replays, which is subtracted (`ppi`).
    """
    if strange := [task for task in live if task not in replays]:
        actual = f"{len(strange):,} tasks that were not replayed, such as {shown(strange[0])}"
        raise DatasetError([Problem("live", actual, "tasks that were replayed too")])
    rest = [difference for task, difference in replays.items() if task not in live]
    return ppi(list(live.values()), [replays[task] for task in live], rest, confidence)
