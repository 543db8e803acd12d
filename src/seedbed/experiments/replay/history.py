"""History: past runs as tasks, in a representative sample."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from seedbed.errors import DatasetError, Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.experiments.replay.sampling import draw, stratified_mean
from seedbed.runs.run import RunStatus
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Json, Query, Store, canonical, digest

OF = "replay of "
"""The prefix of the id of a task that is a past run."""

Criterion = Literal["difficulty", "age", "outcome"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)

DIFFICULTIES = ("easy", "medium", "hard")
GOOD = 0.5
"""A run with at least this score went well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A live run that has ended: its inputs, its result, its score, and its size."""

    run: str
    playbook: Digest
    inputs: Json
    seed: int
    started: datetime
    status: RunStatus
    output: Any
    error: str
    tokens: int
    turns: int
    score: float | None
    """The mean of its scores by the chosen metric; None if it has none."""


def find_past_runs(
    store: Store,
    *,
    playbook: Digest | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    statuses: Collection[RunStatus] | None = None,
    metric: str | None = None,
    scores: tuple[float | None, float | None] = (None, None),
) -> list[PastRun]:
    """The live runs that have ended, the oldest first: by playbook, period, status, and range of scores.

    `metric` names the metric of the scores; with a bound in `scores`, runs without a score are left out. So are
    replays, and runs that other runs opened.
    """
    known = _scores(store, playbook, metric) if metric else {}
    facts = store.facts(Query(kind="run", subject=playbook, since=since, until=until))
    last = {fact.key.partition("@")[0]: fact for fact in facts}
    runs = [
        PastRun(
            run=run,
            playbook=end.subject,
            inputs=end.body["inputs"],
            seed=end.body["seed"],
            started=end.at,
            status=end.body["status"],
            output=end.body["output"],
            error=end.body["error"],
            tokens=end.body["tokens"],
            turns=end.body["turns"],
            score=known.get(run),
        )
        for run, end in last.items()
        if "replay" not in end.body and not end.body["parent"]
    ]
    chosen = (each for each in runs if statuses is None or each.status in statuses)
    in_range = chosen if scores == (None, None) else (each for each in chosen if _between(each.score, *scores))
    return sorted(in_range, key=lambda past: (past.started, past.run))


def _scores(store: Store, playbook: Digest | None, metric: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for fact in store.facts(Query(kind="cell", subject=playbook)):
        if fact.value is not None and fact.body["metric"] == metric:
            values.setdefault(fact.body["run"], []).append(fact.value)
    return {run: statistics.fmean(each) for run, each in values.items()}


def _between(score: float | None, low: float | None, high: float | None) -> bool:
    return score is not None and (low is None or score >= low) and (high is None or score <= high)


@dataclass(frozen=True)
class History:
    """Past runs as tasks, each with its weight in the population from which they were drawn."""

    past: tuple[PastRun, ...]
    tasks: Dataset
    """In the order of `past`; the id of each names its recording, its tags are its stratum."""
    strata: tuple[str, ...]
    weights: tuple[float, ...]
    sizes: Mapping[str, int]
    """How many runs there are of each stratum in the population."""

    def mean(self, values: Mapping[str, float]) -> Interval:
        """The unbiased mean over the population of a value of each task, by its id.

        Raises DatasetError if a value is missing: the others alone are not representative.
        """
        missing = [task.id for task in self.tasks if task.id not in values]
        if missing:
            expected = "a value for every task"
            remedy = "Choose a mode that misses nothing, or report the share of those that are missing."
            actual = f"none for {len(missing):,} of {len(self.past):,}, such as {shown(missing[0])}"
            raise DatasetError([Problem("values", actual, expected, remedy)])
        return stratified_mean([values[task.id] for task in self.tasks], self.strata, self.sizes)


def draw_history(
    past: Sequence[PastRun],
    n: int | None = None,
    *,
    seed: int = 0,
    by: Sequence[Criterion] = CRITERIA,
    allocation: Literal["proportional", "neyman"] = "proportional",
    known: Iterable[Task] = (),
    difficulty: Callable[[PastRun], float] = lambda past: past.tokens,
) -> History:
    """Draw `n` of the past runs, or take all, stratified by these criteria; the same runs for the same seed.

    Difficulty is divided into thirds of the population, by default by tokens; age into halves; the outcome is `failed`
    if the run was not completed, else `good` or `poor` by its score, else `completed`. `neyman` draws more where
    scores vary more. The expected answers come from `known` tasks with the same inputs.
    """
    if not past:
        raise DatasetError([Problem("runs", "none", "at least one", "Choose others, or a longer time.")])
    strata = _strata(past, by, difficulty)
    spreads = _spreads(past, strata) if allocation == "neyman" else None
    sample = draw(strata, len(past) if n is None else n, seed=seed, spreads=spreads)
    chosen = [past[place] for place in sample.places]
    expected = {canonical(dict(task.inputs)): task.expected for task in known}
    inputs = [canonical(each.inputs) for each in chosen]
    often = Counter(inputs)
    tasks = tuple(
        Task(
            id=f"{OF}{each.run}",
            inputs=each.inputs,
            expected=expected.get(text),
            tags=tuple(word for word in strata[place].split(", ") if word),
            # Runs on the same inputs are not independent.
            source=digest("inputs", each.inputs)[3:19] if often[text] > 1 else "",
        )
        for place, each, text in zip(sample.places, chosen, inputs, strict=True)
    )
    drawn = tuple(strata[place] for place in sample.places)
    return History(tuple(chosen), Dataset(tasks), drawn, sample.weights, sample.sizes)


def recording_of(task: Task) -> str:
    """The id of the run behind a task. Raises DatasetError if there is none."""
    if not task.id.startswith(OF):
        remedy = "Draw the tasks with `draw_history`."
        raise DatasetError([Problem(f"task {shown(task.id)}", "no recording", f"an id such as {OF}RUN", remedy)])
    return task.id.removeprefix(OF)


def _strata(past: Sequence[PastRun], by: Sequence[Criterion], difficulty: Callable[[PastRun], float]) -> list[str]:
    words: list[list[str]] = []
    for what in by:
        match what:
            case "difficulty":
                words.append(_cut([difficulty(each) for each in past], DIFFICULTIES))
            case "age":
                words.append(_cut([each.started.timestamp() for each in past], ("old", "recent")))
            case "outcome":
                words.append([_outcome(each) for each in past])
            case _:
                raise DatasetError([Problem("by", shown(what), f"some of: {', '.join(CRITERIA)}")])
    return [", ".join(each) for each in zip(*words, strict=True)] if words else [""] * len(past)


def _cut(values: Sequence[float], names: Sequence[str]) -> list[str]:
    """The name of the quantile that each value is in; equal values are in the same one."""
    order = sorted(values)
    bounds = [order[len(order) * part // len(names)] for part in range(1, len(names))]
    return [names[sum(value >= bound for bound in bounds)] for value in values]


def _outcome(past: PastRun) -> str:
    if past.status != "completed":
        return "failed"
    if past.score is None:
        return "completed"
    return "good" if past.score >= GOOD else "poor"


def _spreads(past: Sequence[PastRun], strata: Sequence[str]) -> dict[str, float]:
    """The standard deviation of scores in each stratum; a run without a score counts 1 if completed, else 0."""
    values: dict[str, list[float]] = {}
    for each, stratum in zip(past, strata, strict=True):
        value = float(each.status == "completed") if each.score is None else each.score
        values.setdefault(stratum, []).append(value)
    return {stratum: statistics.pstdev(each) for stratum, each in values.items()}
