"""Screening: what another policy would have scored at a decision that past runs made at random (off-policy).

It reads recorded runs and runs nothing. A policy gives the probability of each action; a changed prompt has no such
probabilities: replay it instead. The result suggests what to try next. It promotes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from seedbed.errors import DocumentError, NotFound, Problem, SeedbedError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.intervals import mean_score, score_range
from seedbed.evaluation.metrics.metric import ExactMatch, FunctionMetric, Metric, better, blind
from seedbed.experiments.patterns.traits import ScoredRun, gather_runs
from seedbed.experiments.screening.policies import DecisionPolicy, NoChances, Situation, check_chances
from seedbed.runs.history import recall
from seedbed.runs.run import Decision, Run
from seedbed.stats.arrays import Direction
from seedbed.stats.estimates import Interval
from seedbed.stats.offpolicy import (
    ESTIMATORS,
    REMEDY,
    Decisions,
    Screen,
    guess_rewards,
    screen,
)
from seedbed.storage.store import Digest, Json, Query, Store, canonical, digest, short

OUTCOME = "outcome"
"""The name used in place of a metric where users rated the runs."""

ScreeningFinding = Literal["promising", "unpromising", "unclear", "refused"]

NEXT: dict[ScreeningFinding, str] = {
    "promising": "Try it next: seedbed compare, on live runs, can prove it. This alone promotes nothing.",
    "unpromising": "Try another candidate first.",
    "unclear": "The log cannot tell them apart: try it live, or log more runs.",
    "refused": f"No estimate can be trusted. {REMEDY}.",
}


@dataclass(frozen=True, slots=True)
class DecisionLog:
    """Scored runs that reached a decision, each with its actions there, in order, and their probabilities."""

    point: str
    metric: str
    better: Direction
    options: tuple[str, ...]
    runs: tuple[tuple[ScoredRun, tuple[Decision, ...]], ...]
    unscored: int = 0
    """Runs without a score."""
    without_chance: int = 0
    """Runs in which a probability was not recorded."""


async def read_decisions(
    store: Store,
    point: str,
    metric: Metric | None,
    *,
    playbook: Digest | None = None,
    tasks: Iterable[Task] | None = None,
    since: datetime | None = None,
) -> DecisionLog:
    """The live runs that decided at this point, with their scores by the metric, or by users if there is none.

    A completed run without a score is scored now if the metric is a plain function. One that failed has the worst
    score, if scores are from 0 to 1: the decision may be why it failed. Raises NotFound if there is no such decision,
    SeedbedError if none has a chance or a score.
    """
    chosen = None if tasks is None else tuple(tasks)
    at_point = _at(store, point, playbook, since)
    direction = better(metric) if metric else "higher"
    worst = float(direction == "lower")
    scored = {
        each.run.id: each
        for each in gather_runs(store, metric, playbook=playbook, tasks=chosen, failure_counts_as=worst).scored
        if each.run.id in at_point
    }
    known = {canonical(dict(task.inputs)): task for task in chosen or ()}
    failed = []
    for name in sorted(at_point.keys() - scored.keys()):
        run = recall(store, name)
        task = known.get(canonical(run.inputs))
        if chosen is not None and task is None:
            del at_point[name]
            continue
        task = task or Task(digest("task", run.inputs)[3:15], run.inputs)
        if run.status in ("failed", "cost_limited"):
            failed.append(ScoredRun(run, worst, task, failed=True))
        elif (value := await _applied(metric, run, task)) is not None:
            scored[name] = ScoredRun(run, value, task)
    if not at_point:
        raise NotFound(f"no run on these tasks decided at {shown(point)}. Leave out the dataset, or name another")
    if metric and scored and all(0 <= each.score <= 1 for each in scored.values()):
        scored |= {each.run.id: each for each in failed}
    return _log(point, metric.name if metric else OUTCOME, direction, at_point, scored)


def _at(store: Store, point: str, playbook: Digest | None, since: datetime | None) -> dict[str, list[Decision]]:
    """The decisions of each live run at a point. Raises NotFound, which lists the known points."""
    live = {
        fact.key
        for fact in store.facts(Query(kind="start", subject=playbook, since=since))
        if "replay" not in fact.body and not fact.body["parent"]
    }
    decisions: dict[str, list[Decision]] = {}
    points: Counter[str] = Counter()
    for fact in store.facts(Query(kind="decision")):
        if fact.subject in live:
            points[fact.body["point"]] += fact.body["propensity"] is not None
            if fact.body["point"] == point:
                decisions.setdefault(fact.subject, []).append(Decision.from_body(fact.body))
    if not live:
        which = f"no run{' of this playbook' * bool(playbook)}{' since then' * bool(since)} is recorded here"
        raise NotFound(f"{which}. `seedbed runs list` shows what is")
    if not decisions:
        with_chance = ", ".join(shown(each) for each in sorted(points) if points[each]) or "none"
        raise NotFound(f"no run decided at {shown(point)}. Points with recorded chances: {with_chance}")
    return decisions


async def _applied(metric: Metric | None, run: Run, task: Task) -> float | None:
    """The score of a run by a metric that calls no model; None if there is none."""
    if run.status != "completed" or not isinstance(metric, FunctionMetric | ExactMatch):
        return None
    return (await metric(blind(run), task)).value


def _log(
    point: str,
    metric: str,
    direction: Direction,
    at_point: Mapping[str, Sequence[Decision]],
    scored: dict[str, ScoredRun],
) -> DecisionLog:
    chances = {name: made for name, made in at_point.items() if all(each.propensity is not None for each in made)}
    if not chances:
        raise SeedbedError(
            f"decision {shown(point)}: found no chance in {len(at_point):,} runs; expected that of each action. "
            "Give stage.decide a propensity when the decision is made: it cannot be known afterwards"
        )
    for name, made in chances.items():
        for each in made:
            if not 0 < (each.propensity or 0) <= 1:
                raise SeedbedError(
                    f"run {short(name)}, decision {shown(point)}: found a chance of {shown(each.propensity)}; expected "
                    "one above 0 and at most 1, since the action was taken"
                )
    runs = tuple((scored[name], tuple(made)) for name, made in sorted(chances.items()) if name in scored)
    if not runs:
        raise SeedbedError(
            f"decision {shown(point)}: found {len(chances):,} runs without a score by {metric}; expected scores. "
            "Name the metric they were scored by, or a dataset with the expected answers"
        )
    return DecisionLog(
        point=point,
        metric=metric,
        better=direction,
        options=tuple(sorted({each.action for made in at_point.values() for each in made})),
        runs=runs,
        unscored=len(chances) - len(runs),
        without_chance=len(at_point) - len(chances),
    )


@dataclass(frozen=True, slots=True)
class Screening:
    """What a log says about a policy. `estimates` by name, the most reliable first; none if it is `refused`."""

    log: DecisionLog
    weights: Screen
    logged: Interval
    """The scores of the runs as they were decided."""
    finding: ScreeningFinding
    estimates: Mapping[str, Interval]
    refusals: tuple[Problem, ...]
    notices: tuple[str, ...]

    @property
    def next(self) -> str:
        return NEXT[self.finding]

    def document(self) -> Json:
        log, weights = self.log, self.weights
        taken = Counter(each.action for _, made in log.runs for each in made)
        return {
            "point": log.point,
            "metric": log.metric,
            "better": log.better,
            "runs": len(log.runs),
            "decisions": sum(taken.values()),
            "unscored": log.unscored,
            "without_chance": log.without_chance,
            "taken": dict(sorted(taken.items())),
            "logged": _reach(self.logged),
            "effective": weights.effective,
            "largest_weight": weights.largest,
            "mean_weight": _reach(weights.mean_weight),
            "coverage": weights.coverage,
            "estimates": [{"estimator": name, **_reach(each)} for name, each in self.estimates.items()],
            "finding": self.finding,
            "refusals": [str(each) for each in self.refusals],
            "notices": list(self.notices),
            "next": self.next,
        }


def _reach(interval: Interval) -> Json:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def screen_policy(log: DecisionLog, policy: DecisionPolicy) -> Screening:
    """The score that the policy would have had, if the log allows an estimate.

    If each run has one decision, the first estimate is self-normalized and doubly robust. Where runs decide several
    times, the weight of a run is the product of its weights, and no rewards are guessed. A decision records only the
    chance of its own action: if that is below 1, every action ever taken at this point counts as possible.
    """
    chances = _chances(log, policy)
    single = all(len(made) == 1 for _, made in log.runs)
    made = _single(log, chances) if single else _several(log, chances)
    weights = screen(made)
    ends = score_range(log.metric, made.rewards.tolist())
    logged = mean_score(log.metric, made.rewards.tolist(), made.clusters)
    unknown = sorted({action for each in chances for row in each for action in row if row[action] > 0} - {*log.options})
    refusals, notices = list(weights.refusals()), _notices(log)
    if unknown:
        actual = f"{', '.join(map(shown, unknown))}, never taken at {shown(log.point)}"
        remedy = "Correct the name, or try it live: an action that was never taken has no outcome"
        problem = Problem("policy", actual, f"one of: {', '.join(log.options)}", remedy)
        if refusals:
            refusals.insert(0, problem)
        else:
            notices.append(str(problem))
    estimates: dict[str, Interval] = {}
    finding: ScreeningFinding = "refused"
    if not refusals:
        names = ["sndr", *(name for name in ESTIMATORS if name != "sndr")] if single else ["snips", "ips", "clipped"]
        estimates = {name: ESTIMATORS[name](made).within(*ends) for name in names}
        finding = _finding(estimates[names[0]], logged, log.better)
    return Screening(log, weights, logged, finding, estimates, tuple(refusals), tuple(notices))


def _notices(log: DecisionLog) -> list[str]:
    notices = []
    if log.unscored:
        notices.append(f"{log.unscored:,} more runs have no score; if they differ in kind, this may not hold for them")
    if log.without_chance:
        notices.append(f"{log.without_chance:,} more runs did not record a chance, and are left out")
    return notices


def _finding(candidate: Interval, logged: Interval, direction: Direction) -> ScreeningFinding:
    """Direction or worse only where the intervals do not meet."""
    above, below = candidate.low > logged.high, candidate.high < logged.low
    if direction == "lower":
        above, below = below, above
    return "promising" if above else "unpromising" if below else "unclear"


Rows: TypeAlias = list[dict[str, float]]


def _chances(log: DecisionLog, policy: DecisionPolicy) -> list[Rows]:
    """For each run, the probabilities of the policy at each of its decisions. Raises DocumentError."""
    chances, problems = [], list[Problem]()
    for scored, made in log.runs:
        rows = []
        for place in range(len(made)):
            earlier = tuple(each.action for each in made[:place])
            situation = Situation(scored.run.id, log.point, dict(scored.run.inputs), earlier, log.options)
            try:
                rows.append(check_chances(policy(situation)))
            except Exception as wrong:  # noqa: BLE001 - a policy is anybody's program
                why = str(wrong) if isinstance(wrong, NoChances) else f"{type(wrong).__name__}: {wrong}"
                problems.append(Problem(f"run {short(scored.run.id)}", why, "chances from 0 to 1 that sum to 1"))
        chances.append(rows)
    if problems:
        more = f" and {len(problems) - 5:,} more like that" if len(problems) > 5 else ""
        raise DocumentError(problems[:5], f"policy{more}")
    return chances


def _single(log: DecisionLog, chances: Sequence[Rows]) -> Decisions:
    """A row for each run, a column for each action, and a last one for actions that were possible and never taken."""
    named = {action for rows in chances for row in rows for action in row}
    columns = sorted({*log.options} | named)
    logged, target, actions = [], [], []
    for (_, (made,)), (wanted,) in zip(log.runs, chances, strict=True):
        chance = made.propensity or 0.0
        others = [each for each in log.options if each != made.action]
        row = {each: (1 - chance) / len(others) for each in others} | {made.action: chance}
        logged.append([row.get(each, 0.0) for each in columns] + [0.0 if others else 1 - chance])
        target.append([wanted.get(each, 0.0) for each in columns] + [0.0])
        actions.append(columns.index(made.action))
    rewards, units = [scored.score for scored, _ in log.runs], [scored.unit for scored, _ in log.runs]
    kinds = [scored.task.tags for scored, _ in log.runs]
    guesses = guess_rewards(kinds, actions, rewards, len(columns) + 1, units)
    return Decisions(actions, rewards, logged, target, guesses, units)


def _several(log: DecisionLog, chances: Sequence[Rows]) -> Decisions:
    """A row for each run: the actions taken, all others that were possible, and those that were not."""
    logged, target = [], []
    for (_, made), rows in zip(log.runs, chances, strict=True):
        chance, wanted, possible = 1.0, 1.0, 1.0
        for each, row in zip(made, rows, strict=True):
            likely = each.propensity or 0.0
            open_to = (each.action,) if likely == 1 else log.options
            chance *= likely
            wanted *= row.get(each.action, 0.0)
            possible *= math.fsum(row.get(action, 0.0) for action in open_to)
        never = 1 - possible if possible < 1 - 1e-9 else 0.0
        logged.append([chance, 1 - chance, 0.0])
        target.append([wanted, max(0.0, 1 - wanted - never), never])
    rewards, units = [scored.score for scored, _ in log.runs], [scored.unit for scored, _ in log.runs]
    return Decisions([0] * len(rewards), rewards, logged, target, None, units)
