"""Summary: all that is told of a search, as plain texts and numbers. Reports, pages and the terminal only set it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from seedbed.evaluation.metrics.metric import Better
from seedbed.evolution.evolve import Evolution, SearchStep
from seedbed.evolution.learning.surrogate_filter import SkippedCandidates
from seedbed.evolution.pool import Pool
from seedbed.playbooks.changes import Change, diff
from seedbed.playbooks.genes import distance
from seedbed.reports.scorecard import number
from seedbed.stats import pareto
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Json, short

Row = tuple[str, ...]

NEWEST = 8
"""Of so many of the newest candidates it is told how far they are apart."""

LOOKS = 60
"""At so many steps at most."""

ANCESTORS = 40
"""So many lines of a family are told."""

NO_ARM = "the start alone"
"""What steps are called that tried the start again, to read its runs."""


@dataclass(slots=True)
class Earned:
    """What one way of searching has earned: its turns, how many of them found the new best, by how much that was
    better, the runs that they took, and the candidates that they made."""

    turns: int = 0
    found: int = 0
    gain: float = 0.0
    runs: int = 0
    candidates: int = 0


def earned(steps: Sequence[SearchStep], pool: Pool) -> dict[str, Earned]:
    """What each way of searching has earned. A gain is how much more is believed of a new best than of the one before
    it; the first is seen from the start."""
    arms: dict[str, Earned] = {}
    best, score = pool.playbooks[0].digest, pool.standing(0).mean
    known = {best}
    for step in steps:
        tried = [each for each in step.offered if each != pool.playbooks[0].digest]
        arm = arms.setdefault(pool.arms[pool.place(tried[0])] if tried else NO_ARM, Earned())
        arm.turns += 1
        arm.runs += step.runs
        arm.candidates += len({*tried} - known)
        known |= {*tried}
        if step.best != best and step.best in tried:
            arm.found += 1
            arm.gain += max(0.0, step.score - score)
        best, score = step.best, step.score
    return arms


@dataclass(frozen=True, slots=True)
class Member:
    """A playbook of the pool as it is told: what is believed of it by each metric, as the metric gives it."""

    place: int
    playbook: Digest
    scores: Mapping[str, Interval]
    arm: str
    how: str
    parents: tuple[Digest, ...]


@dataclass(frozen=True)
class Summary:
    """All that is told of a search.

    `plan` is what was registered, if it is at hand. Scores are turned back to what metrics give, as far as `better`
    says which of them are better when lower.
    """

    found: Evolution
    plan: Json = field(default_factory=dict)
    better: Mapping[str, Better] = field(default_factory=dict)

    @property
    def pool(self) -> Pool:
        return self.found.pool

    @property
    def metric(self) -> str:
        """The one that decides."""
        return self.pool.metrics[0]

    @property
    def title(self) -> str:
        return f"Search from {short(self.found.start)}"

    @property
    def optimizer(self) -> str:
        """What searched; empty if that is not at hand."""
        return str(self.plan.get("optimizer", {}).get("optimizer", ""))

    @property
    def subtitle(self) -> str:
        """What was searched by, and on what."""
        sure = self.found.confirmed
        parts = [f"{len(self.pool.reflect)} tasks to read"] if self.pool.reflect else []
        parts.append(f"{len(self.pool.select)} to decide")
        parts += [f"{sure.tasks} to confirm"] if sure else []
        by = f" by {self.optimizer}" if self.optimizer else ""
        return f"{self.metric}{by}: {', '.join(parts)}"

    # What was found

    @property
    def answer(self) -> str:
        """yes, no, open or nothing: whether the best is better than the start, as far as other tasks tell."""
        if not self.found.improved:
            return "nothing"
        sure = self.found.confirmed
        if sure is None or not math.isfinite(sure.gain.low) or sure.gain.low <= 0 <= sure.gain.high:
            return "open"
        return "yes" if sure.gain.low > 0 else "no"

    @property
    def sentence(self) -> str:
        """The answer for people who know no statistics."""
        sure, tried = self.found.confirmed, len(self.pool) - 1
        if not self.found.improved:
            return f"Nothing was found that is better than the start, among {_counted(tried, 'candidate')}."
        if sure is None:
            return (
                "Not known: the best is better on the tasks that it was chosen by, which proves little, and no other "
                "tasks have confirmed it."
            )
        told = (
            f"on {_counted(sure.tasks, 'task')} that the search had not seen, the best scores "
            f"{number(sure.best.mean)} and the start {number(sure.start.mean)}: a gain of {gain_text(sure.gain)}."
        )
        more = " That may be chance; more tasks may tell." if self.answer == "open" else ""
        return {"yes": "Yes: ", "no": "No: ", "open": "Not known: "}[self.answer] + told + more

    @property
    def figures(self) -> list[Row]:
        """Each number with what it means."""
        return [*self._searched(), *self._confirmed(), *self._counts()]

    def _searched(self) -> Iterator[Row]:
        start, best = self.standing(0), self.standing(self.best)
        of = f"of {len(self.pool.select)} tasks that decide"
        yield f"{self.metric} of the start", level_text(start), f"on {start.n} {of}"
        if self.found.improved:
            why = f"believed after {best.n} {of}, within two standard errors of its difference from the start"
            yield f"{self.metric} of the best", level_text(best), f"{why}; chosen by them, it is too high"
        if self.optimism is None:
            yield "optimism", "–", "not known: fewer than two playbooks were tried on all tasks that decide"
        else:
            why = "how much of the score choosing by these tasks makes of chance, by drawing them again and again"
            yield "optimism", number(self.optimism), why
            less = best.mean - self._sign(0) * self.optimism
            yield "score less optimism", number(less), "what to expect of the best on other tasks like these"

    def _confirmed(self) -> Iterator[Row]:
        sure = self.found.confirmed
        if sure is None:
            yield "gain, confirmed", "–", self.unconfirmed
            return
        on = f"on {_counted(sure.tasks, 'task')} that were opened once, at the end"
        yield "start, confirmed", level_text(sure.start), on
        yield "best, confirmed", level_text(sure.best), on
        yield "gain, confirmed", gain_text(sure.gain), "of the best over the start, task by task"
        if sure.best_of_n is None or sure.over_best_of_n is None:
            yield "gain over best of N", "–", "no candidates were made without learning"
            return
        yield "best of N, confirmed", level_text(sure.best_of_n), "the best of those made without learning anything"
        why = "what learning has added; nothing, if the best is itself one of those"
        yield "gain over best of N", gain_text(sure.over_best_of_n), why

    def _counts(self) -> Iterator[Row]:
        yield "candidates", f"{len(self.pool) - 1:,}", f"in {_counted(len(self.found.steps), 'step')}"
        if self.skipped:
            yield "skipped", f"{self.skipped.candidates:,}", self.skipped.sentence
        yield "ended", self.found.ended or "not yet", "why the search came to an end"

    @property
    def unconfirmed(self) -> str:
        """Why nothing was confirmed, if it was not."""
        if self.found.confirmed:
            return ""
        if not self.found.ended:
            return "Nothing is confirmed: the search has not ended."
        if not self.found.improved:
            return "There was nothing to confirm: nothing better was found."
        return "Nothing is confirmed: no other tasks were kept for that."

    @cached_property
    def optimism(self) -> float | None:
        """By how much the score of the best is too high; None where nobody can say."""
        whole = ~np.isnan(self.pool.table()).any(axis=1)
        return self.found.optimism if whole.sum() > 1 else None

    # What it took

    @property
    def spending(self) -> list[tuple[str, float, float | None]]:
        """What is counted, what was spent of it, and what might have been; None is no limit."""
        budget, spent = self.found.budget, self.found.spent
        return [
            (name, float(spent[name]), None if (limit := getattr(budget, name)) is None else float(limit))
            for name in ("runs", "tokens", "usd", "seconds")
        ]

    @cached_property
    def skipped(self) -> SkippedCandidates | None:
        """What a surrogate has skipped, and how often that was wrong; None where nobody asked one."""
        asked = self.found.skips or self.plan.get("surrogate")
        return SkippedCandidates.of(self.found.skips, self.pool) if asked else None

    @cached_property
    def arms(self) -> dict[str, Earned]:
        """What each of several ways of searching has earned; nothing where there was one, or none was recorded."""
        if not any(self.pool.arms):
            return {}
        return {name: each for name, each in earned(self.found.steps, self.pool).items() if name}

    @property
    def gains(self) -> str:
        """How what the arms earned adds up to the gain of the search, by the scores that it has now."""
        earned = math.fsum(each.gain for each in self.arms.values())
        whole = self.pool.standing(self.best).mean - self.pool.standing(0).mean
        return (
            f"Together {earned:+.3f}; what is believed of these playbooks has changed by {whole - earned:+.3f} since "
            f"then, which nobody earned: in all the best is {whole:+.3f} from the start on the tasks that decide."
        )

    @property
    def no_arms(self) -> str:
        """Why nothing is told of arms, if it is not."""
        if self.arms:
            return ""
        several = "arms" in self.plan.get("optimizer", {})
        return "Which arm made which candidate was not recorded." if several else "There was one way of searching."

    @cached_property
    def curve(self) -> list[tuple[int, Interval]]:
        """What was believed of the best after so many runs."""
        runs, points = 0, []
        for step in self.found.steps:
            runs += step.runs
            unsure = step.deviation if step.best != self.found.start else 0.0
            points.append((runs, self._interval(step.score, unsure, len(self.pool.select), 0)))
        return points

    @cached_property
    def diversity(self) -> list[tuple[int, float]]:
        """The mean distance between the newest candidates after each step, or after some of very many: 0 if all are
        the same, 1 if they have nothing in common."""
        seen: dict[Digest, None] = {}
        every = max(1, math.ceil(len(self.found.steps) / LOOKS))
        points = []
        for number_, step in enumerate(self.found.steps, 1):
            for each in step.offered:
                if each != self.found.start:
                    seen.pop(each, None)
                    seen[each] = None
            newest = [self.pool.playbooks[self.pool.place(each)] for each in list(seen)[-NEWEST:]]
            if len(newest) > 1 and (number_ % every == 0 or number_ == len(self.found.steps)):
                apart = [distance(one, other) for place, one in enumerate(newest) for other in newest[:place]]
                points.append((number_, math.fsum(apart) / len(apart)))
        return points

    # What was tried

    @cached_property
    def best(self) -> int:
        return self.pool.place(self.found.best)

    def standing(self, place: int, metric: int = 0) -> Interval:
        """What is believed of a playbook by one metric, with two standard errors of its difference from the start on
        each side; the start itself has none."""
        standing = self.pool.standing(place, metric)
        return self._interval(standing.mean, standing.deviation if place else math.inf, standing.tasks, metric)

    def member(self, place: int) -> Member:
        pool = self.pool
        scores = {name: self.standing(place, metric) for metric, name in enumerate(pool.metrics)}
        return Member(
            place, pool.playbooks[place].digest, scores, pool.arms[place], pool.how[place], pool.parents[place]
        )

    def members(self, limit: int | None = None) -> list[Member]:
        """The best, then those believed to be next by the metric that decides; the start wherever it is."""
        means, _, tasks = self.pool.standings()
        ranked = np.lexsort((-tasks, -np.round(means, 12), tasks == 0)).tolist()
        order = [self.best, *(place for place in ranked if place != self.best)]
        return [self.member(place) for place in dict.fromkeys((*order[:limit], 0))]

    @cached_property
    def front(self) -> dict[int, bool]:
        """Of those that were tried on as many tasks as the best: whether none of them is as good by every metric and
        better by one. Nothing where there is only one metric."""
        pool = self.pool
        if len(pool.metrics) < 2:
            return {}
        tried = pool.standings()[2]
        places = np.flatnonzero(tried >= tried[self.best]).tolist()
        means = np.stack([pool.standings(metric, places)[0] for metric in range(len(pool.metrics))], axis=1)
        ranks = pareto.ranks(means, ["higher"] * means.shape[1])
        return {place: rank == 0 for place, rank in zip(places, ranks.tolist(), strict=True)}

    @cached_property
    def changes(self) -> list[Change]:
        """What the best says differently from the start."""
        return diff(self.pool.playbooks[0], self.pool.playbooks[self.best])

    @cached_property
    def lineage(self) -> list[str]:
        """What the best grew from, line by line: each with its score and how it was made, from what stands below it.
        Of several parents each begins a branch."""
        lines: list[str] = []
        told: set[Digest] = set()
        waiting = [(self.found.best, "", "")]
        while waiting:
            playbook, first, rest = waiting.pop()
            lines.append(first + self._told(playbook, told))
            parents = self.pool.parents[self.pool.place(playbook)] if playbook in self.pool else ()
            if playbook in told:
                continue
            told.add(playbook)
            if len(parents) == 1:
                waiting.append((parents[0], rest, rest))
            for place, parent in enumerate(reversed(parents) if len(parents) > 1 else ()):
                ends = ("└─ ", "   ") if place == 0 else ("├─ ", "│  ")
                waiting.append((parent, rest + ends[0], rest + ends[1]))
        return [*lines[:ANCESTORS], *([f"… and {len(lines) - ANCESTORS} more"] if len(lines) > ANCESTORS else [])]

    def _told(self, playbook: Digest, told: set[Digest]) -> str:
        if playbook not in self.pool:
            return f"{short(playbook)}  from before this search"
        member = self.member(self.pool.place(playbook))
        score = member.scores[self.metric]
        arm = f" by {member.arm}" if member.arm else ""
        again = ", as above" if playbook in told and member.parents else ""
        return f"{short(playbook)}  {number(score.mean)} on {_counted(score.n, 'task')}  {member.how}{arm}{again}"

    # Numbers as metrics give them

    def _sign(self, metric: int) -> float:
        return -1.0 if self.better.get(self.pool.metrics[metric]) == "lower" else 1.0

    def _interval(self, mean: float, deviation: float, tasks: int, metric: int) -> Interval:
        at = self._sign(metric) * mean
        if not math.isfinite(deviation):
            return Interval(at, -math.inf, math.inf, 0.95, tasks)
        least, most = self._ends[metric]
        return Interval(
            at, max(at - 2 * deviation, min(least, at)), min(at + 2 * deviation, max(most, at)), 0.95, tasks
        )

    @cached_property
    def _ends(self) -> list[tuple[float, float]]:
        """For each metric what no score is below or above: 0 and 1, if all of them lie there."""
        ends = []
        for metric in range(len(self.pool.metrics)):
            table = self._sign(metric) * self.pool.table(metric)
            shares = not np.any((table < 0) | (table > 1))
            ends.append((0.0, 1.0) if shares else (-math.inf, math.inf))
        return ends


def level_text(interval: Interval) -> str:
    """A score with its range."""
    if not interval.n:
        return "not tried"
    if not math.isfinite(interval.low):
        return number(interval.mean)
    return f"{number(interval.mean)} [{number(interval.low)}, {number(interval.high)}]"


def gain_text(interval: Interval) -> str:
    """A difference with its range."""
    if not math.isfinite(interval.low):
        return f"{interval.mean:+.3f}"
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
