"""The test that stops a comparison: it reads results in registered order until the stopping rule answers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import islice

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import TaskReplicate
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.experiment import Experiment, expect_score
from seedbed.experiments.verdict import Finding, Verdict
from seedbed.stats.estimates import Interval, after_ratio_test, after_stopping, fisher, paired_interval
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar, Futility
from seedbed.stats.sequential.gsprt import Gsprt, Sprt
from seedbed.stats.sequential.rule import SIGNS, Answer
from seedbed.storage.store import Digest, Json

MISSING = 0.1
"""A verdict is invalid if more than this share of an arm's runs got no answer or no score, through no fault of the
agent's. In experiments registered before faults were told apart, half as many of the completed ones."""


class SequentialTest:
    """The sequential test of an experiment: takes results unit by unit, and answers after each.

    The same results always give the same verdict: in the comparison, after a crash, and when the verdict is checked.
    """

    def __init__(self, plan: Experiment, tasks: Dataset, metric: str) -> None:
        self.plan = plan
        self.metric = metric
        self.units = plan.units(tasks)
        self.rule = plan.start()
        self.cells: list[Cell] = []
        """All cells that were read, at each unit the control's before the candidate's."""
        self._arms: dict[str, list[Cell]] = {"control": [], "candidate": []}
        self.answers: list[Answer] = []
        self._scores: list[tuple[float, float]] = []
        self._gains: list[float] = []

    def items(self) -> tuple[list[list[TaskReplicate]], list[list[TaskReplicate]]]:
        """The tasks and replicates of each unit, for each arm."""
        arms = []
        for first in self.plan.first_replicates:
            replicates = range(first, first + self.plan.replicates)
            arms.append([[(task, each) for task in unit for each in replicates] for unit in self.units])
        return arms[0], arms[1]

    def read(self, control: Sequence[Cell], candidate: Sequence[Cell]) -> Answer:
        """Take the cells of the next unit, and answer."""
        for cell in (*control, *candidate):
            expect_score(self.metric, cell)
        failure = self.plan.failure_counts_as
        before, after = self._mean(control, 1 - failure), self._mean(candidate, failure)
        self.cells += [*control, *candidate]
        for arm, cells in zip(self._arms.values(), (control, candidate), strict=True):
            arm.extend(cells)
        self._scores.append((before, after))
        self._gains.append(self._gain(before, after))
        self.answers.append(self.rule.update(self._gains[-1], len(self._gains)))
        return self.answers[-1]

    def _mean(self, cells: Sequence[Cell], missing: float) -> float:
        """The mean score of an arm. What is missing counts against the candidate: as the control's success, or as the
        candidate's failure. So losing answers never helps it."""
        return statistics.fmean(self._score(cell, missing) for cell in cells)

    def _score(self, cell: Cell, missing: float) -> float:
        """The score of a cell as it counts; without one, what is `missing` or the agent's failure counts as."""
        if cell.value is not None:
            return cell.value
        return missing if self._is_missing(cell) else self.plan.failure_counts_as

    def _is_missing(self, cell: Cell) -> bool:
        return cell.value is None and cell.fault in ("infrastructure", "metric")

    def verdict(
        self, *, evidence: Digest = "", judges: Json | None = None, replay: Json | None = None, aborted: str = ""
    ) -> Verdict:
        """The verdict so far. `aborted` is the reason if a person stopped the experiment."""
        failed = tuple(cell.key for cell in self.cells if cell.value is None)
        unscored = tuple(cell.key for cell in self.cells if cell.value is None and (cell.run or self._is_missing(cell)))
        because = aborted and f"stopped by hand: {aborted}"
        most = MISSING if self.plan.inputs is not None else MISSING / 2
        for name, cells in self._arms.items():
            missing = sum(cell.value is None and bool(cell.run or self._is_missing(cell)) for cell in cells)
            if missing > most * len(cells):
                because = f"{missing} of {len(cells)} runs of the {name} got no score; at most {most:.0%} may"
        answer = self.rule.answer
        finding: Finding = answer.verdict if answer.verdict != "continue" else "inconclusive"
        controls, candidates = ([pair[arm] for pair in self._scores] for arm in (0, 1))
        plain, adjusted = _shown(paired_interval(controls, candidates)), _shown(self._adjusted())
        return Verdict(
            experiment=self.plan.digest,
            control=self.plan.control,
            candidate=self.plan.candidate,
            dataset=self.plan.dataset,
            metric=self.metric,
            finding="invalid" if because else finding,
            tasks=answer.n,
            at_most=len(self.units),
            wins=answer.wins,
            ties=answer.ties,
            losses=answer.losses,
            control_mean=statistics.fmean(controls or [0.0]),
            candidate_mean=statistics.fmean(candidates or [0.0]),
            difference=plain[0] or 0.0,
            low=plain[1],
            high=plain[2],
            p=answer.p,
            alpha=self.rule.alpha,
            outcomes="".join(SIGNS[float((gain > 0) - (gain < 0))] for gain in self._gains),
            rule=self.rule.name,
            guarantee=self.rule.guarantee,
            because=because,
            aborted=bool(aborted),
            estimate=adjusted[0],
            estimate_low=adjusted[1],
            estimate_high=adjusted[2],
            scores=tuple(self._scores),
            failed=failed,
            unscored=unscored,
            evidence=evidence,
            e=math.exp(min(answer.evidence, 700.0)) if isinstance(self.rule, Betting) else None,
            better=self.plan.better,
            cost_usd=math.fsum(cell.cost_usd for cell in self.cells),
            judges=judges or {},
            replay=replay or {},
            observed=self._observed(),
            missing=self._lost(),
            mode=self.plan.mode,
            attempt=self.plan.attempt,
            spent=answer.spent if isinstance(self.rule, ExactMcNemar) else None,
        )

    def _observed(self) -> tuple[float, float] | None:
        """The means of what was scored, if anything is missing."""
        if not any(map(self._is_missing, self.cells)):
            return None
        control, candidate = ([cell.value for cell in arm if cell.value is not None] for arm in self._arms.values())
        return statistics.fmean(control or [0.0]), statistics.fmean(candidate or [0.0])

    def _lost(self) -> Json:
        """What is missing on each side, whether that is more than chance, and how much of it may go against the
        candidate."""
        control, candidate = (sum(map(self._is_missing, arm)) for arm in self._arms.values())
        if not control + candidate:
            return {}
        runs = [len(arm) for arm in self._arms.values()]
        p = fisher(control, runs[0], candidate, runs[1])
        return {"control": control, "candidate": candidate, "p": p, "tipping": self._tipping(control + candidate)}

    def _tipping(self, missing: int) -> int | None:
        """The most missing answers that may go against the candidate while it is superior, if the others go for it."""
        if self.rule.answer.verdict == "superior":
            return missing
        low, high = -1, missing  # with all against it, it is not superior
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_superior(against=middle) else (low, middle)
        return low if low >= 0 else None

    def _is_superior(self, against: int) -> bool:
        """Whether the candidate would be superior if so many missing answers went against it, the first ones, and the
        others for it."""
        rule, worst, seen = self.plan.start(), self.plan.failure_counts_as, 0
        arms = [iter(arm) for arm in self._arms.values()]
        for number, unit in enumerate(self.units[: len(self.answers)], 1):
            means = []
            for arm, bad in zip(arms, (1 - worst, worst), strict=True):
                scores = []
                for cell in islice(arm, len(unit) * self.plan.replicates):
                    seen += self._is_missing(cell)
                    scores.append(self._score(cell, bad if seen <= against else 1 - bad))
                means.append(statistics.fmean(scores))
            answer = rule.update(self._gain(*means), number)
            if answer.verdict != "continue":
                return answer.verdict == "superior"
        return False

    def _gain(self, before: float, after: float) -> float:
        """By how much the candidate did better; equal means may differ by rounding."""
        gain = after - before if self.plan.better == "higher" else before - after
        return 0.0 if math.isclose(before, after, abs_tol=1e-12) else gain

    def _adjusted(self) -> Interval | None:
        """The difference, corrected for the early stop."""
        if not self.answers:
            return None
        rule, last = self.rule, self.answers[-1]
        if isinstance(rule, ExactMcNemar):
            return after_stopping(self._gains, [answer.boundary for answer in self.answers], self._give_up(rule))
        if isinstance(rule, Betting):
            low, high = rule.interval()
            return Interval(statistics.fmean(self._gains), low, high, 0.95, len(self._gains))
        if isinstance(rule, Gsprt | Sprt) and last.low is not None and last.high is not None:
            low, high, ratio = last.low, last.high, last.evidence
            return after_ratio_test(self._gains, d0=rule.d0, effect=rule.effect, ratio=ratio, low=low, high=high)
        return None

    def _give_up(self, rule: ExactMcNemar) -> list[int | None] | None:
        """After each unit, the number of wins at or below which the test would have ended against the candidate."""
        if rule.effect is None:
            return None
        futility = Futility(rule.effect, rule.beta)
        most: list[int | None] = []
        for answer in self.answers:
            differed = answer.wins + answer.losses
            inferior = -1 if answer.boundary is None else differed - answer.boundary
            wins = max(inferior, futility.most_wins(differed, answer.ties))
            most.append(wins if wins >= 0 else None)
        return most


def _shown(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    """A mean and its interval; no interval where the differences show no spread, which does not prove there is none."""
    if interval is None or math.isnan(interval.mean):
        return None, None, None
    known = math.isfinite(interval.low) and interval.low < interval.high
    return (interval.mean, interval.low, interval.high) if known else (interval.mean, None, None)
