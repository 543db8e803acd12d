"""The test that stops a comparison: it reads results in registered order until the stopping rule answers."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import TaskReplicate
from seedbed.evaluation.datasets.check import shared_source, shared_wording
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.experiment import Experiment, expect_score
from seedbed.experiments.verdict import Finding, Verdict
from seedbed.stats.arrays import Direction
from seedbed.stats.estimates import (
    Interval,
    after_ratio_test,
    after_stopping,
    fisher,
    least_after_stopping,
    paired_interval,
)
from seedbed.stats.scores import few_sources
from seedbed.stats.sequential.betting import Betting, bets, interval
from seedbed.stats.sequential.exact import ExactMcNemar, Futility
from seedbed.stats.sequential.gsprt import Gsprt, Sprt
from seedbed.stats.sequential.stopping_rule import SIGNS, Answer
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
        scores = unit_scores(self.plan, control, candidate)
        self.cells += [*control, *candidate]
        for arm, cells in zip(self._arms.values(), (control, candidate), strict=True):
            arm.extend(cells)
        self._scores.append(scores)
        self._gains.append(gain(self.plan, *scores))
        self.answers.append(self.rule.update(self._gains[-1], len(self._gains)))
        return self.answers[-1]

    def verdict(
        self, *, evidence: Digest = "", judges: Json | None = None, replay: Json | None = None, aborted: str = ""
    ) -> Verdict:
        """The verdict so far. `aborted` is the reason if a person stopped the experiment."""
        failed = tuple(cell.key for cell in self.cells if cell.value is None)
        unscored = tuple(cell.key for cell in self.cells if cell.value is None and (cell.run or _is_missing(cell)))
        because = self._too_many_missing() or (aborted and f"stopped by hand: {aborted}")
        answer = self.rule.answer
        finding: Finding = answer.verdict if answer.verdict != "continue" else "inconclusive"
        controls, candidates = ([pair[arm] for pair in self._scores] for arm in (0, 1))
        adjusted = _shown(self._adjusted())
        plain = _shown(paired_interval(controls, candidates))
        if self.plan.edition > 1:
            plain = plain[0], *_turned(adjusted[1], adjusted[2], self.plan.better)
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
            outcomes="".join(SIGNS[float((each > 0) - (each < 0))] for each in self._gains),
            rule=self.rule.name,
            guarantee=self.rule.guarantee,
            because=because,
            aborted=bool(aborted),
            estimate=adjusted[0],
            estimate_low=adjusted[1],
            estimate_high=adjusted[2],
            at_least=self._at_least() if finding == "superior" and not because and self.plan.edition > 1 else None,
            warning=self._warning() if self.plan.edition > 1 else "",
            scores=tuple(self._scores),
            failed=failed,
            unscored=unscored,
            evidence=evidence,
            e=math.exp(min(answer.evidence, 700.0)) if isinstance(self.rule, Betting) else None,
            better=self.plan.better,
            cost_usd=math.fsum(cell.cost_usd for cell in self.cells),
            unpriced=sum(cell.unpriced for cell in self.cells),
            judges=judges or {},
            replay=replay or {},
            observed=self._observed(),
            missing=self._lost(),
            mode=self.plan.mode,
            attempt=self.plan.attempt,
            spent=answer.spent if isinstance(self.rule, ExactMcNemar) else None,
        )

    def _too_many_missing(self) -> str:
        """Why so much is missing that the verdict is invalid."""
        because, most = "", MISSING if self.plan.inputs is not None else MISSING / 2
        for name, cells in self._arms.items():
            missing = sum(cell.value is None and bool(cell.run or _is_missing(cell)) for cell in cells)
            if missing > most * len(cells):
                because = f"{missing} of {len(cells)} runs of the {name} got no score; at most {most:.0%} may"
        return because

    def _observed(self) -> tuple[float, float] | None:
        """The means of what was scored, if anything is missing."""
        if not any(map(_is_missing, self.cells)):
            return None
        control, candidate = ([cell.value for cell in arm if cell.value is not None] for arm in self._arms.values())
        return statistics.fmean(control or [0.0]), statistics.fmean(candidate or [0.0])

    def _lost(self) -> Json:
        """What is missing on each side, whether that is more than chance, and how much of it may go against the
        candidate."""
        control, candidate = (sum(map(_is_missing, arm)) for arm in self._arms.values())
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
                    seen += _is_missing(cell)
                    scores.append(_score(self.plan, cell, bad if seen <= against else 1 - bad))
                means.append(statistics.fmean(scores))
            answer = rule.update(gain(self.plan, *means), number)
            if answer.verdict != "continue":
                return answer.verdict == "superior"
        return False

    def _adjusted(self) -> Interval | None:
        """How much better the candidate is, corrected for the early stop."""
        if not self.answers:
            return None
        rule, last = self.rule, self.answers[-1]
        if isinstance(rule, ExactMcNemar):
            return after_stopping(self._gains, *self._ends(rule))
        if isinstance(rule, Betting):
            return Interval(statistics.fmean(self._gains), *rule.interval(), 0.95, len(self._gains))
        if not isinstance(rule, Gsprt | Sprt) or last.low is None or last.high is None:
            return None
        if isinstance(rule, Sprt) and self.plan.edition > 1:
            estimate = after_stopping(self._gains, *self._ends(rule))
        else:
            low, high, ratio = last.low, last.high, last.evidence
            estimate = after_ratio_test(self._gains, d0=rule.d0, effect=rule.effect, ratio=ratio, low=low, high=high)
        if self.plan.edition == 1:
            return estimate
        # What these rules say of themselves holds approximately; this interval holds at every look.
        low, high = interval(Counter(self._gains), bets())
        return Interval(min(max(estimate.mean, low), high), low, high, 0.95, len(self._gains))

    def _at_least(self) -> float:
        """By how much the candidate is better at least, after a test that ended superior."""
        rule = self.rule
        if isinstance(rule, ExactMcNemar):
            return least_after_stopping(self._gains, *self._ends(rule), rule.alpha)
        return rule.at_least() if isinstance(rule, Betting | Gsprt | Sprt) else 0.0

    def _ends(self, rule: ExactMcNemar | Sprt) -> tuple[list[int | None], list[int | None] | None]:
        """After each unit, how many wins would have ended the test superior, and at how many or fewer it would have
        ended against the candidate."""
        if isinstance(rule, Sprt):
            known = {
                differed: rule.wins_to_end(differed) for differed in {each.wins + each.losses for each in self.answers}
            }
            ends = [known[each.wins + each.losses] for each in self.answers]
            return [superior for superior, _ in ends], [futile for _, futile in ends]
        superior = [answer.boundary for answer in self.answers]
        if rule.effect is None:
            return superior, None
        futility = Futility(rule.effect, rule.beta)
        most: list[int | None] = []
        for answer in self.answers:
            differed = answer.wins + answer.losses
            inferior = -1 if answer.boundary is None else differed - answer.boundary
            wins = max(inferior, futility.most_wins(differed, answer.ties))
            most.append(wins if wins >= 0 else None)
        return superior, most

    def _warning(self) -> str:
        read = self.units[: len(self.answers)]
        if any(len(unit) > 1 for unit in read):
            return few_sources(len(read))
        warning = shared_source([task for unit in read for task in unit])
        if warning or self.plan.edition < 3:
            return warning
        return shared_wording([task for unit in self.units for task in unit])


def _turned(low: float | None, high: float | None, better: Direction) -> tuple[float | None, float | None]:
    """The ends of an interval of how much better the candidate is, as those of candidate minus control."""
    return (low, high) if better == "higher" or low is None or high is None else (-high, -low)


def unit_scores(plan: Experiment, control: Sequence[Cell], candidate: Sequence[Cell]) -> tuple[float, float]:
    """The mean scores of both arms at a unit. What is missing counts against the candidate: as the control's success,
    or as the candidate's failure. So losing answers never helps it."""
    worst = plan.failure_counts_as

    def mean(cells: Sequence[Cell], missing: float) -> float:
        return statistics.fmean(_score(plan, cell, missing) for cell in cells)

    return mean(control, 1 - worst), mean(candidate, worst)


def gain(plan: Experiment, before: float, after: float) -> float:
    """How much better the candidate did at a unit. Equal means may differ by rounding."""
    difference = after - before if plan.better == "higher" else before - after
    return 0.0 if math.isclose(before, after, abs_tol=1e-12) else difference


def _score(plan: Experiment, cell: Cell, missing: float) -> float:
    """The score of a cell as it counts; without one, what is `missing` or the agent's failure counts as."""
    if cell.value is not None:
        return cell.value
    return missing if _is_missing(cell) else plan.failure_counts_as


def _is_missing(cell: Cell) -> bool:
    return cell.value is None and cell.fault in ("infrastructure", "metric")


def _shown(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    """A mean and its interval; no interval where the differences show no spread, which does not prove there is none."""
    if interval is None or math.isnan(interval.mean):
        return None, None, None
    known = math.isfinite(interval.low) and interval.low < interval.high
    return (interval.mean, interval.low, interval.high) if known else (interval.mean, None, None)
