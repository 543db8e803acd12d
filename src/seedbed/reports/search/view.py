"""A search as people see it: texts and numbers, for reports and the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from seedbed.evolution.confirmation import Confirmation
from seedbed.evolution.learning.surrogate_filter import SkippedCandidates
from seedbed.evolution.pool import Pool
from seedbed.evolution.searches import Evolution, SearchStep
from seedbed.playbooks.changes import Change, diff
from seedbed.playbooks.genes import distance
from seedbed.reports.numbers import TableRow, counted, gain_text, number, score_text
from seedbed.stats import pareto
from seedbed.stats.arrays import Direction
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Json, short

NEWEST = 8
"""Diversity is the distance between this many of the newest candidates."""

LOOKS = 60
"""Diversity is computed at this many steps at most."""

ANCESTORS = 40
"""How many lines of a lineage are shown."""

NO_ARM = "the start alone"
"""The name of steps that tried the start again, to read its runs."""


@dataclass(slots=True)
class ArmTotals:
    """What one way of searching brought: its turns, how many of them brought a new best, by how much that was better,
    the runs that they took, and the candidates that they made."""

    turns: int = 0
    new_bests: int = 0
    gain: float = 0.0
    runs: int = 0
    candidates: int = 0


@dataclass(frozen=True, slots=True)
class CandidateView:
    """A playbook of the pool: its estimated score by each metric, and where it came from."""

    place: int
    playbook: Digest
    scores: Mapping[str, Interval]
    arm: str
    how: str
    parents: tuple[Digest, ...]


def arm_totals(steps: Sequence[SearchStep], pool: Pool) -> dict[str, ArmTotals]:
    """What each way of searching brought. A gain is how much higher the estimate for a new best is than that for the
    one before; the first is compared with the start."""
    arms: dict[str, ArmTotals] = {}
    best, score = pool.playbooks[0].digest, pool.standing(0).mean
    known = {best}
    for step in steps:
        tried = [each for each in step.offered if each != pool.playbooks[0].digest]
        arm = arms.setdefault(pool.arms[pool.place(tried[0])] if tried else NO_ARM, ArmTotals())
        arm.turns += 1
        arm.runs += step.runs
        arm.candidates += len({*tried} - known)
        known |= {*tried}
        if step.best != best and step.best in tried:
            arm.new_bests += 1
            arm.gain += max(0.0, step.score - score)
        best, score = step.best, step.score
    return arms


@dataclass(frozen=True)
class SearchView:
    """A search as people see it: texts, numbers and figures. Reports, pages and the terminal only print it.

    `plan` is what was registered, if it is at hand; `names` are the names that people gave to playbooks. Scores are as
    the metrics give them: where lower is better, low.
    """

    evolution: Evolution
    plan: Json = field(default_factory=dict)
    names: Mapping[Digest, str] = field(default_factory=dict)

    @property
    def pool(self) -> Pool:
        return self.evolution.pool

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self.pool.metrics[0]

    @property
    def better(self) -> dict[str, Direction]:
        signs = zip(self.pool.metrics, self.pool.signs, strict=True)
        return {name: "higher" if sign > 0 else "lower" for name, sign in signs}

    @property
    def optimizer(self) -> str:
        """The name of the optimizer; empty if the plan is not at hand."""
        return str(self.plan.get("optimizer", {}).get("optimizer", ""))

    # The conclusion

    @property
    def title(self) -> str:
        start, best = self.names.get(self.evolution.start), self.names.get(self.evolution.best)
        if best and self.evolution.improved:
            return f"{best}, evolved from {start}" if start else f"{best}, the best of a search"
        return f"Search from {start}" if start else "Search for a better playbook"

    @property
    def subtitle(self) -> str:
        """What was searched by, on what, and the digests."""
        sure = self.evolution.confirmed
        parts = [f"{len(self.pool.reflect)} tasks to read"] if self.pool.reflect else []
        parts.append(f"{len(self.pool.select)} to decide")
        parts += [f"{sure.tasks} to confirm"] if sure else []
        by = f" by {self.optimizer}" if self.optimizer else ""
        digests = f"Start {short(self.evolution.start)}, best {short(self.evolution.best)}"
        return f"{self.metric}{by}: {', '.join(parts)}. {digests}"

    @property
    def answer(self) -> Literal["yes", "no", "open", "nothing"]:
        """Whether the best is better than the start, as far as new tasks tell."""
        if not self.evolution.improved:
            return "nothing"
        if self.evolution.is_confirmed:
            return "yes"
        return "no" if self.confirmed and self.confirmed.gain.high < 0 else "open"

    @property
    def sentence(self) -> str:
        """The answer for people who know no statistics."""
        sure, tried, why = self.confirmed, len(self.pool) - 1, self.evolution.unconfirmed
        if not self.evolution.improved:
            return f"The search tried {counted(tried, 'candidate')} and found none better than the start."
        if sure is None:
            ahead = self.pool.standing(self.best).mean > self.pool.standing(0).mean
            higher = "higher" if ahead else "no higher than the start"
            return f"Undecided: the best scores {higher} on the tasks it was selected on, which proves little. {why}"
        measured = (
            f"on {counted(sure.tasks, 'task')} that the search had not seen, the best scores "
            f"{number(sure.best.mean)} and the start {number(sure.start.mean)}: "
            f"a {'gain' if sure.gain.mean > 0 else 'difference'} of {gain_text(sure.gain)}."
        )
        shortly = {"yes": "Yes", "no": "No", "open": "Undecided"}[self.answer]
        return f"{shortly}: {measured} {why}".strip()

    @cached_property
    def confirmed(self) -> Confirmation | None:
        """The scores on new tasks, cut at what scores can be."""
        sure = self.evolution.confirmed
        return sure and sure.within(*self._ends[0])

    # Figures

    @property
    def figures(self) -> list[TableRow]:
        """Each number with what it means."""
        return [*self._searched(), *self._confirmed(), *self._counts()]

    def _searched(self) -> Iterator[TableRow]:
        start, best = self.standing(0), self.standing(self.best)
        of = f"of {len(self.pool.select)} selection tasks"
        yield f"{self.metric} of the start", score_text(start), f"on {start.n} {of}"
        if self.evolution.improved:
            why = f"estimated from {best.n} {of}, with two standard errors of its difference from the start"
            yield f"{self.metric} of the best", score_text(best), f"{why}; too high, because it was selected on them"
        if self.optimism is None:
            why = "not known: fewer than two playbooks were tried on all selection tasks"
            yield "selection bias (optimism)", "–", why
            return
        why = "how much of the score is the luck of having been selected on these tasks, estimated by resampling them"
        yield "selection bias (optimism)", number(self.optimism), why
        raw = self.pool.signs[0] * (self.pool.standing(self.best).mean - self.optimism)
        yield "score less bias", number(self._clip(raw, 0)), "what to expect of the best on other tasks like these"

    def _confirmed(self) -> Iterator[TableRow]:
        sure, why = self.confirmed, self.evolution.unconfirmed
        if sure is None:
            yield "gain, confirmed", "–", why
            return
        on = f"on {counted(sure.tasks, 'task')} that were used once, at the end"
        yield "start, confirmed", score_text(sure.start), on
        yield "best, confirmed", score_text(sure.best), on
        name = "gain, not confirmed" if why else "gain, confirmed"
        yield name, gain_text(sure.gain), f"of the best over the start, task by task. {why}".strip()
        if sure.best_of_n is None or sure.over_best_of_n is None:
            yield "gain over best of N", "–", "no candidates were made without learning"
            return
        of_n = score_text(sure.best_of_n)
        yield "best of N, confirmed", of_n, "the best of the candidates made without learning"
        why = "what learning has added; nothing if the best is itself one of those"
        yield "gain over best of N", gain_text(sure.over_best_of_n), why

    def _counts(self) -> Iterator[TableRow]:
        yield "candidates", f"{len(self.pool) - 1:,}", f"in {counted(len(self.evolution.steps), 'step')}"
        if self.skipped:
            yield "skipped", f"{self.skipped.candidates:,}", self.skipped.sentence
        yield "ended", self.evolution.ended or "not yet", "why the search came to an end"

    @cached_property
    def optimism(self) -> float | None:
        """By how much the score of the best is too high; None if it cannot be estimated."""
        whole = ~np.isnan(self.pool.table()).any(axis=1)
        return self.evolution.optimism if whole.sum() > 1 else None

    # What it took

    @property
    def spending(self) -> list[tuple[str, float, float | None]]:
        """Each unit, how much of it was spent, and the limit; None is no limit."""
        budget, spent = self.evolution.budget, self.evolution.spent
        return [
            (name, float(spent[name]), None if (limit := getattr(budget, name)) is None else float(limit))
            for name in ("runs", "tokens", "usd", "seconds")
        ]

    @cached_property
    def skipped(self) -> SkippedCandidates | None:
        """What a surrogate has skipped, and how often that was wrong; None if there was no surrogate."""
        in_use = self.evolution.skips or self.plan.get("surrogate")
        return SkippedCandidates.of(self.evolution.skips, self.pool) if in_use else None

    @cached_property
    def arms(self) -> dict[str, ArmTotals]:
        """What each of several ways of searching brought; empty where there was one, or none was recorded."""
        if not any(self.pool.arms):
            return {}
        return {name: each for name, each in arm_totals(self.evolution.steps, self.pool).items() if name}

    @property
    def gains(self) -> str:
        """How the gains of the arms add up to the gain of the search, by the scores that it has now."""
        earned = math.fsum(each.gain for each in self.arms.values())
        whole = self.pool.standing(self.best).mean - self.pool.standing(0).mean
        return (
            f"Together {earned:+.3f}. Estimates have changed by {whole - earned:+.3f} since, which no arm earned: "
            f"in all, the best is {whole:+.3f} from the start on the selection tasks."
        )

    @property
    def no_arms(self) -> str:
        """Why there is no table of arms, if there is none."""
        if self.arms:
            return ""
        several = "arms" in self.plan.get("optimizer", {})
        return "Which arm made which candidate was not recorded." if several else "There was one way of searching."

    @cached_property
    def curve(self) -> list[tuple[int, Interval]]:
        """The estimate for the best by the number of runs spent."""
        runs, points = 0, []
        for step in self.evolution.steps:
            runs += step.runs
            unsure = step.deviation if step.best != self.evolution.start else 0.0
            points.append((runs, self._interval(step.score, unsure, len(self.pool.select), 0)))
        return points

    @cached_property
    def diversity(self) -> list[tuple[int, float]]:
        """The mean distance between the newest candidates after each step, or after some of very many."""
        seen: dict[Digest, None] = {}
        every = max(1, math.ceil(len(self.evolution.steps) / LOOKS))
        points = []
        for count, step in enumerate(self.evolution.steps, 1):
            for each in step.offered:
                if each != self.evolution.start:
                    seen.pop(each, None)
                    seen[each] = None
            newest = [self.pool.playbooks[self.pool.place(each)] for each in list(seen)[-NEWEST:]]
            if len(newest) > 1 and (count % every == 0 or count == len(self.evolution.steps)):
                apart = [distance(one, other) for place, one in enumerate(newest) for other in newest[:place]]
                points.append((count, math.fsum(apart) / len(apart)))
        return points

    # What was tried

    @cached_property
    def best(self) -> int:
        return self.pool.place(self.evolution.best)

    def name(self, playbook: Digest) -> str:
        """The name of a playbook, or its digest."""
        return self.names.get(playbook) or short(playbook)

    def standing(self, place: int, metric: int = 0) -> Interval:
        """The estimated score of a playbook, with two standard errors of its difference from the start on each side;
        the start itself has none."""
        standing = self.pool.standing(place, metric)
        return self._interval(standing.mean, standing.deviation if place else math.inf, standing.tasks, metric)

    def candidate(self, place: int) -> CandidateView:
        pool = self.pool
        scores = {name: self.standing(place, metric) for metric, name in enumerate(pool.metrics)}
        origin = pool.arms[place], pool.how[place], pool.parents[place]
        return CandidateView(place, pool.playbooks[place].digest, scores, *origin)

    def candidates(self, limit: int | None = None) -> list[CandidateView]:
        """The best, then the others by their estimated score by the metric that decides; the start is always there."""
        means, _, tasks = self.pool.standings()
        ranked = np.lexsort((-tasks, -np.round(means, 12), tasks == 0)).tolist()
        order = [self.best, *(place for place in ranked if place != self.best)]
        return [self.candidate(place) for place in dict.fromkeys((*order[:limit], 0))]

    @cached_property
    def front(self) -> dict[int, bool]:
        """Of those that were tried on as many tasks as the best: whether none of them is as good by every metric and
        better by one. Empty where there is only one metric."""
        pool = self.pool
        if len(pool.metrics) < 2:
            return {}
        tried = pool.standings()[2]
        places = np.flatnonzero(tried >= tried[self.best]).tolist()
        means = np.stack([pool.standings(metric, places)[0] for metric in range(len(pool.metrics))], axis=1)
        ranks = pareto.ranks(means, ["higher"] * means.shape[1])
        return {place: rank == 0 for place, rank in zip(places, ranks.tolist(), strict=True)}

    @property
    def front_places(self) -> list[int]:
        """Those on the front, then the others; the best by the first metric first."""
        return sorted(self.front, key=lambda place: (not self.front[place], -self.pool.standing(place).mean))

    def changes(self, place: int | None = None) -> list[Change]:
        """What a candidate says differently from the start. Default: the best."""
        return diff(self.pool.playbooks[0], self.pool.playbooks[self.best if place is None else place])

    @cached_property
    def lineage(self) -> list[str]:
        """The ancestors of the best, line by line: each with its score and how it was made from the one below it. Each
        of several parents begins a branch."""
        lines: list[str] = []
        seen: set[Digest] = set()
        waiting = [(self.evolution.best, "", "")]
        while waiting:
            playbook, first, rest = waiting.pop()
            lines.append(first + self._ancestor(playbook, playbook in seen))
            parents = self.pool.parents[self.pool.place(playbook)] if playbook in self.pool else ()
            if playbook in seen:
                continue
            seen.add(playbook)
            if len(parents) == 1:
                waiting.append((parents[0], rest, rest))
            for place, parent in enumerate(reversed(parents) if len(parents) > 1 else ()):
                ends = ("└─ ", "   ") if place == 0 else ("├─ ", "│  ")
                waiting.append((parent, rest + ends[0], rest + ends[1]))
        return [*lines[:ANCESTORS], *([f"… and {len(lines) - ANCESTORS} more"] if len(lines) > ANCESTORS else [])]

    def _ancestor(self, playbook: Digest, repeated: bool) -> str:
        name = self.names.get(playbook, "")
        called = f"{short(playbook)} {name}".strip()
        if playbook not in self.pool:
            return f"{called}  from before this search"
        each = self.candidate(self.pool.place(playbook))
        score = each.scores[self.metric]
        arm = f" by {each.arm}" if each.arm else ""
        again = ", as above" if repeated and each.parents else ""
        return f"{called}  {number(score.mean)} on {counted(score.n, 'task')}  {each.how}{arm}{again}"

    # Numbers as metrics give them

    def _interval(self, mean: float, deviation: float, tasks: int, metric: int) -> Interval:
        at = self.pool.signs[metric] * mean
        if not math.isfinite(deviation):
            return Interval(self._clip(at, metric), -math.inf, math.inf, 0.95, tasks)
        whole = Interval(at, at - 2 * deviation, at + 2 * deviation, 0.95, tasks)
        return whole.within(*self._ends[metric])

    def _clip(self, score: float, metric: int) -> float:
        least, most = self._ends[metric]
        return min(max(score, least), most)

    @cached_property
    def _ends(self) -> list[tuple[float, float]]:
        """For each metric the least and the most that a score can be."""
        return [self.pool.bounds(metric) for metric in range(len(self.pool.metrics))]
