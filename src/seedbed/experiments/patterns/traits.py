"""Traits: properties of a scored run and its task, and conditions that hold for some runs and not for others."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import Metric
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.storage.store import Digest, Query, Store, Upkeep, canonical, digest, short

NUMBERS = {
    "turns": "with {} turns",
    "tokens": "with {} tokens",
    "cost_usd": "that cost {} USD",
    "latency_seconds": "that took {} s",
    "tool_calls": "with {} calls of tools",
    "tool_errors": "with {} errors of tools",
    "failures": "with {} turns that nobody answered",
    "notices": "with {} notices",
    "confidence": "whose lowest confidence is {}",
    "decisions": "with {} decisions",
    "children": "that opened {} other runs",
    "input_length": "with {} characters of input",
    "prompt_length": "with {} characters of prompt",
    "output_length": "with {} characters of output",
}
"""The numbers of a run, and how they are described."""

WORDS = {
    "tag": "on tasks tagged {}",
    "expected": "on tasks whose answer should be {}",
    "answer": "that answer {}",
    "model": "in which the model {} speaks",
    "playbook": "of the playbook {}",
    "status": "that ended as {}",
    "failed at": "that ended without an answer at the step {}",
    "unanswered": "in which nobody answered a turn of the step {}",
    "tool error": "in which the tool {} failed",
    "decision": "that decided {}",
    "finish": "with a turn that ended because of {}",
    "input": "whose input mentions {}",
}
"""What is true or false for a run, and how it is described. Of equivalent conditions the first is reported."""

PER_TRAIT = 1_000
"""How many words of inputs are tried, the most common first."""

LONGEST = 60
"""Answers with more characters are not used as a trait."""


@dataclass(frozen=True)
class ScoredRun:
    """A run with its score and its task. A run that `failed` has the score of a failure."""

    run: Run
    score: float
    task: Task
    failed: bool = False

    @cached_property
    def inputs_digest(self) -> str:
        """Runs on the same inputs are at the same task."""
        return digest("inputs", dict(self.task.inputs))

    @cached_property
    def unit(self) -> str:
        """The independent unit that it belongs to: the source of its task, or else the task."""
        return f"source {self.task.source}" if self.task.source else self.inputs_digest

    @cached_property
    def numbers(self) -> dict[str, float]:
        run, inputs = self.run, _text(self.task.inputs)
        confidences = [*(each.confidence for each in run.turns), *(each.confidence for each in run.decisions)]
        sure = [each for each in confidences if each is not None]
        return {
            "turns": len(run.turns),
            "tokens": run.tokens,
            "cost_usd": run.cost_usd,
            "latency_seconds": run.latency_seconds,
            "tool_calls": len(run.calls),
            "tool_errors": sum(bool(call.error) for call in run.calls),
            "failures": len(run.failures),
            "notices": sum(len(turn.notices) for turn in run.turns),
            "confidence": min(sure, default=math.nan),
            "decisions": len(run.decisions),
            "repairs": sum(
                bool(each.options.get("schema")) and each.value is None and not each.calls for each in run.turns
            ),
            "children": len(run.children),
            "input_length": len(inputs),
            "prompt_length": sum(len(text) for turn in run.turns for _, text, *_ in turn.messages),
            "output_length": len(_text(run.output)) if run.output is not None else math.nan,
        }

    @cached_property
    def words(self) -> set[tuple[str, str]]:
        run, task = self.run, self.task
        words = {("tag", tag) for tag in task.tags} | {("model", turn.model) for turn in run.turns}
        words |= {("playbook", short(run.playbook)), ("status", run.status)}
        words |= {("finish", turn.finish_reason) for turn in run.turns if turn.finish_reason not in ("", "stop")}
        words |= {("tool error", call.tool) for call in run.calls if call.error}
        words |= {("unanswered", failure.step or failure.role) for failure in run.failures}
        words |= {("decision", f"{each.action} at {each.point}") for each in run.decisions}
        if run.status == "failed" and (step := _failed_at(run)):
            words.add(("failed at", step))
        for kind, value in (("expected", task.expected), ("answer", run.output)):
            if value is not None and len(text := _text(value)) <= LONGEST:
                words.add((kind, text))
        return words | {("input", each) for each in _terms(_text(task.inputs))}


def _failed_at(run: Run) -> str:
    """The last step that was tried; empty if none is known."""
    tried = [*(each.step or each.role for each in run.turns), *(each.step or each.role for each in run.failures)]
    return tried[-1] if tried else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return " ".join(_text(each) for each in value.values())
    return canonical(value)


def _terms(text: str) -> Iterator[str]:
    """Words, and pairs of words that follow each other."""
    words = re.findall(r"\w+", text.lower())
    yield from words
    yield from (f"{first} {second}" for first, second in pairwise(words))


@dataclass(frozen=True, slots=True, order=True)
class RunCondition:
    """Something that holds for some runs: a property, or a number above or up to a bound."""

    trait: str
    how: Literal["is", "above", "up to"]
    value: str | float

    def holds(self, scored: ScoredRun) -> bool:
        if isinstance(self.value, str):
            return (self.trait, self.value) in scored.words
        number = scored.numbers[self.trait]
        return number > self.value if self.how == "above" else number <= self.value

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return WORDS[self.trait].format(json.dumps(self.value, ensure_ascii=False))
        return NUMBERS[self.trait].format(f"{'more than' if self.how == 'above' else 'at most'} {self.value:g}")


def conditions(scored: Sequence[ScoredRun]) -> list[RunCondition]:
    """All conditions that distinguish some of these runs from others, the most informative first.

    Traits that determine the score are left out: the cost of a run where cost is the score, and answers where each is
    always right or always wrong.
    """
    scores = np.array([each.score for each in scored])
    made_of = {"answer", "output_length"} if _decides([each.run.output for each in scored], scores) else set()
    counts = Counter(word for each in scored for word in each.words if word[0] not in made_of)
    by_trait: dict[str, list[str]] = {}
    for (trait, word), times in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        seldom = trait != "input" or times <= len(scored) / 2
        if 1 < times < len(scored) and seldom and len(by_trait.setdefault(trait, [])) < PER_TRAIT:
            by_trait[trait].append(word)
    conditions = [RunCondition(trait, "is", word) for trait, words in by_trait.items() for word in words]
    for trait in NUMBERS.keys() - made_of:
        values = np.array([each.numbers[trait] for each in scored])
        known = values[~np.isnan(values)]
        if len(known) < 2 or known.min() == known.max() or _the_same(values, scores):
            continue
        bounds = {float(f"{bound:.4g}") for bound in (0.0, *np.quantile(known, (0.25, 0.5, 0.75)))}
        conditions += (
            RunCondition(trait, how, bound)
            for bound in sorted(bounds)
            if known.min() <= bound < known.max()
            for how in ("above", "up to")
        )
    places = {trait: place for place, trait in enumerate((*WORDS, *NUMBERS))}
    return sorted(
        conditions, key=lambda each: (places[each.trait], each.how, str(each.value).count(" "), str(each.value))
    )


def _decides(outputs: Sequence[Any], scores: np.ndarray) -> bool:
    """Whether the answer determines the score, where most answers occur more than once."""
    by_answer: dict[str, list[float]] = {}
    for output, score in zip(outputs, scores.tolist(), strict=True):
        by_answer.setdefault(canonical(output), []).append(score)
    repeated = [each for each in by_answer.values() if len(each) > 1]
    often = sum(map(len, repeated)) > len(scores) / 2
    return often and len(repeated) > 1 and all(len({*each}) == 1 for each in repeated)


def _the_same(values: np.ndarray, scores: np.ndarray) -> bool:
    """Whether one is a linear function of the other."""
    if np.isnan(values).any() or scores.min() == scores.max():
        return False
    return bool(abs(np.corrcoef(values, scores)[0, 1]) > 0.9999) and len({*scores.tolist()}) > 2


# Where scored runs come from


@dataclass(frozen=True)
class ScoredRuns:
    """Scored runs, and how many failed runs were left out because they have no score."""

    scored: tuple[ScoredRun, ...]
    left_out: int = 0

    @property
    def usual_playbook(self) -> Digest:
        """The playbook of most of them."""
        return Counter(each.run.playbook for each in self.scored).most_common(1)[0][0]


def gather_runs(
    store: Store,
    metric: Metric | None,
    *,
    playbook: Digest | None = None,
    tasks: Iterable[Task] | None = None,
    failure_counts_as: float = 0.0,
) -> ScoredRuns:
    """The live runs of a playbook, or of all, with scores by the metric, or by users if there is no metric.

    Only runs on these `tasks`; by default, tasks come from the stored datasets. A run that failed on one of the tasks,
    or on another task of a dataset with scored runs, has the score of a failure, if scores are from 0 to 1.
    """
    datasets = _stored_datasets(store) if tasks is None else [_by_inputs(tasks)]
    known = _by_inputs(task for each in datasets for task in each.values())
    scores = _outcomes(store) if metric is None else _cells(store, metric, playbook)
    ends = {fact.key.partition("@")[0]: fact for fact in store.facts(Query(kind="run", subject=playbook))}
    rates = all(0 <= score <= 1 for score in scores.values())
    live = {name: end for name, end in ends.items() if "replay" not in end.body and not end.body["parent"]}
    inputs = {name: canonical(end.body["inputs"]) for name, end in live.items()}
    wanted = {*known}
    if tasks is None:
        met = {inputs[name] for name in live if name in scores}
        wanted = met.union(*(each for each in datasets if not met.isdisjoint(each)))
    runs, left_out = [], 0
    for name, end in live.items():
        if inputs[name] not in wanted:
            continue
        failed = name not in scores and end.body["status"] != "completed"
        if failed and not (rates and metric):
            left_out += 1
        elif failed or name in scores:
            task = known.get(inputs[name]) or Task(digest("task", end.body["inputs"])[3:15], end.body["inputs"])
            score = failure_counts_as if failed else scores[name]
            runs.append(ScoredRun(recall(store, name), score, task, failed))
    return ScoredRuns(tuple(sorted(runs, key=lambda each: each.run.id)), left_out)


def _cells(store: Store, metric: Metric, playbook: Digest | None) -> dict[str, float]:
    """The mean of the scores of each run by this very metric."""
    own = f"/{digest('metric', metric.identity)[3:19]}/"
    values: dict[str, list[float]] = {}
    for fact in store.facts(Query(kind="cell", subject=playbook)):
        if fact.value is not None and own in fact.key:
            values.setdefault(fact.body["run"], []).append(fact.value)
    return {run: statistics.fmean(each) for run, each in values.items()}


def _outcomes(store: Store) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for fact in store.facts(Query(kind="outcome")):
        if fact.value is not None:
            values.setdefault(fact.subject, []).append(fact.value)
    return {run: statistics.fmean(each) for run, each in values.items()}


def _stored_datasets(store: Store) -> list[dict[str, Task]]:
    if not isinstance(store, Upkeep):
        return []
    return [_by_inputs(Dataset.from_content(store.get(each.digest))) for each in store.contents("dataset")]


def _by_inputs(tasks: Iterable[Task]) -> dict[str, Task]:
    """Tasks by their inputs; tasks with the same inputs are merged."""
    by_inputs: dict[str, Task] = {}
    for task in tasks:
        before = by_inputs.setdefault(canonical(dict(task.inputs)), task)
        if before is not task:
            tags = tuple(dict.fromkeys((*before.tags, *task.tags)))
            by_inputs[canonical(dict(task.inputs))] = replace(before, tags=tags, source=before.source or task.source)
    return by_inputs
