"""compare_many(): several candidates against one baseline, with an error rate for all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from seedbed.errors import SeedbedError, shown
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import Bench
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.compare import compare
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.ledger import Ledger
from seedbed.stats.multiplicity import e_bh, holm
from seedbed.stats.rule import Answer
from seedbed.storage.store import Json, short

FEW = 10
"""Up to so many candidates the chance of any false winner is kept; among more, the share of false ones."""

Control = Literal["holm", "e-bh"]


@dataclass(frozen=True, slots=True)
class Place:
    """A candidate's place: its verdict, its p-value among all, and whether it is better when all are counted."""

    verdict: Verdict
    adjusted: float
    better: bool


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates by how much better they seem, and what keeps the error rate `alpha` of all of them together.

    "holm": the chance that any is called better that is not. "e-bh": the expected share of those among all called
    better. Both hold although all meet the same baseline on the same tasks.
    """

    control: Control
    alpha: float
    places: tuple[Place, ...]

    def document(self) -> Json:
        rows = [{**each.verdict.body(), "adjusted": each.adjusted, "better": each.better} for each in self.places]
        return {"control": self.control, "alpha": self.alpha, "candidates": rows}


async def compare_many(
    baseline: Playbook,
    candidates: Sequence[Playbook],
    tasks: Dataset,
    metric: Metric,
    bench: Bench,
    *,
    alpha: float = 0.05,
    seed: int = 0,
    effect: float | None = None,
    replicates: int = 1,
    ledger: Ledger | None = None,
    watch: Callable[[Playbook, Answer], None] | None = None,
) -> Ranking:
    """Compare each candidate with the baseline on the same tasks, one after the other.

    The baseline's runs are paid once. Up to ten candidates share the error rate evenly while they are tested, and what
    the best do not need is given to the others at the end. Raises SeedbedError for fewer than two, or one twice.
    """
    if len({each.digest for each in candidates}) < max(2, len(candidates)):
        found = shown([short(each.digest) for each in candidates])
        raise SeedbedError(f"candidates: found {found}; expected at least two, each once. For one, call compare")
    few = len(candidates) <= FEW
    money = ledger or Ledger()
    verdicts = []
    for candidate in candidates:
        verdict = await compare(
            baseline,
            candidate,
            tasks,
            metric,
            bench,
            alpha=alpha / len(candidates),
            seed=seed,
            rule={"effect": effect} if few else {"rule": "betting", "effect": effect},
            replicates=replicates,
            ledger=money,
            watch=partial(watch, candidate) if watch else None,
        )
        verdicts.append(verdict)
    return _ranked(verdicts, alpha, "holm" if few else "e-bh")


def _ranked(verdicts: Sequence[Verdict], alpha: float, control: Control) -> Ranking:
    if control == "holm":
        corrected = holm([1.0 if each.finding == "invalid" or each.p is None else each.p for each in verdicts], alpha)
    else:
        corrected = e_bh([0.0 if each.finding == "invalid" or each.e is None else each.e for each in verdicts], alpha)
    places = map(Place, verdicts, corrected.p, corrected.rejected)
    by_gain = sorted(places, key=lambda place: (place.better, place.verdict.gain), reverse=True)
    return Ranking(control, alpha, tuple(by_gain))


__all__ = ["Place", "Ranking", "compare_many"]
