"""Surrogate: predict a playbook's score from its genes and past cells, to try the promising and skip the hopeless.

Its error is measured on playbooks that it has not learned from, never assumed: each prediction is an interval as wide
as those errors were. Where it is no better than the mean of all playbooks it predicts nothing. It decides nothing
alone: each skip is a fact, some skipped playbooks are evaluated anyway, and `audit` reports how often a skip was wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.storage.store import Digest, Fact, digest

LEAST = 20
"""The fewest playbooks with scores to predict from: fewer cannot show an error rate of one in twenty."""

FOLDS = 10
BUCKETS = 64
"""The columns that the words and pairs of words of one text are hashed into."""

AUDITED = 0.05
"""The share of hopeless playbooks that is evaluated anyway."""

Table: TypeAlias = dict[Digest, dict[str, float]]
"""The mean score of each playbook at each task."""


@dataclass(frozen=True, slots=True)
class PredictionQuality:
    """How well playbooks were predicted by a model of the others.

    `error` and `mean_error` are root mean squares: of the predictions, and of always predicting the mean. `coverage`
    is the share of scores within the predicted interval, which should be `confidence`.
    """

    playbooks: int
    error: float
    mean_error: float
    coverage: float
    confidence: float

    @property
    def refusal(self) -> str:
        """Why there is no prediction; empty if there is one."""
        if self.playbooks < LEAST:
            return f"found {self.playbooks} playbooks with scores; expected at least {LEAST}"
        if not self.error < self.mean_error:
            return f"found an error of {self.error:.3g}; expected less than the {self.mean_error:.3g} of the mean"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A candidate that is most likely no better than the incumbent. If it is `audited`, evaluate it anyway."""

    playbook: Digest
    metric: str
    predicted: Interval
    incumbent: float
    chance: float
    tasks: int
    audited: bool

    def fact(self, at: datetime, by: str, search: Digest | None = None) -> Fact:
        """The skip as a fact, of a search if there is one."""
        predicted = self.predicted
        body = {
            "metric": self.metric,
            "low": predicted.low,
            "high": predicted.high,
            "playbooks": predicted.n,
            "tasks": self.tasks,
            "incumbent": self.incumbent,
            "chance": self.chance,
            "audited": self.audited,
            **({"search": search} if search else {}),
        }
        key = digest("skip", [self.playbook, predicted.mean, body])
        return Fact(kind="skip", key=key, subject=self.playbook, at=at, by=by, body=body, value=predicted.mean)


class Surrogate:
    """Predicts scores of playbooks from past cells of others. All cells are of one metric; all tasks weigh the same.

    A score is modelled as the ease of the task plus the worth of the playbook plus noise; the worth is a Gaussian
    process over the genes.
    """

    def __init__(self, table: Table, playbooks: Mapping[Digest, Playbook], metric: str) -> None:
        self.metric = metric
        self._known = {name: playbooks[name] for name in table}
        self._table = table
        self._tasks = sorted({task for scores in table.values() for task in scores})
        self._model = _Model(table, self._known) if len(table) >= LEAST else None
        self._others = self._held_out() if self._model else {}
        self._errors: dict[frozenset[str], _Errors] = {}

    def quality(self, seen: Iterable[str] = (), confidence: float = 0.95) -> PredictionQuality:
        """How good predictions are for playbooks whose scores at these tasks are known."""
        if self._model is None:
            return PredictionQuality(len(self._table), math.nan, math.nan, math.nan, confidence)
        errors = self._errors_at(frozenset(seen))
        return PredictionQuality(
            len(self._table), errors.error, errors.mean_error, errors.coverage(confidence), confidence
        )

    def predict(
        self, playbook: Playbook, seen: Mapping[str, float] = MappingProxyType({}), confidence: float = 0.95
    ) -> Interval:
        """The predicted mean score over all tasks. `seen` are the scores that it already has, by task.

        Where there is no prediction (see `quality`) the mean is NaN and the range infinite.
        """
        if self._model is None or self.quality(seen).refusal:
            return Interval(math.nan, -math.inf, math.inf, confidence, len(self._table))
        mean, deviation = self._model.predict(playbook, seen, self._tasks)
        low, high = _reach(self._errors_at(frozenset(seen)).relative, confidence)
        return Interval(mean, mean + low * deviation, mean + high * deviation, confidence, len(self._table))

    def skip(self, candidate: Playbook, incumbent: float, *, chance: float = 0.05, seed: int = 0) -> Skip | None:
        """A skip to record if the candidate beats the incumbent's score with less than this chance.

        At most that share of all candidates is skipped wrongly; among the few that are better it may be more. The seed
        draws those that are evaluated anyway.
        """
        predicted = self.predict(candidate, confidence=1 - 2 * chance)
        if predicted.high >= incumbent:
            return None
        drawn = int(digest("audit", [seed, candidate.digest])[3:15], 16) / 16**12
        return Skip(
            playbook=candidate.digest,
            metric=self.metric,
            predicted=predicted,
            incumbent=incumbent,
            chance=chance,
            tasks=len(self._tasks),
            audited=drawn < AUDITED,
        )

    def _held_out(self) -> dict[Digest, _Model]:
        """For each playbook a model of the others, in folds that do not depend on their order."""
        names = sorted(self._table, key=lambda name: digest("fold", [name]))
        models: dict[Digest, _Model] = {}
        for start in range(FOLDS):
            fold = set(names[start::FOLDS])
            rest = {name: scores for name, scores in self._table.items() if name not in fold}
            models |= dict.fromkeys(fold, _Model(rest, {name: self._known[name] for name in rest}))
        return models

    def _errors_at(self, tasks: frozenset[str]) -> _Errors:
        """The errors of predictions that knew the scores of these tasks, and no others."""
        if tasks not in self._errors:
            made = []
            for name, model in self._others.items():
                scores = self._table[name]
                own = {task: scores[task] for task in tasks & scores.keys()}
                mean, deviation = model.predict(self._known[name], own, sorted(scores))
                truth = math.fsum(scores.values()) / len(scores)
                made.append((truth - mean, deviation, truth - model.middle(scores)))
            self._errors[tasks] = _Errors(np.array(made))
        return self._errors[tasks]


def audit(facts: Iterable[Fact], table: Table, confidence: float = 0.95) -> Interval:
    """How often skipping was wrong: the share of audited skips that beat the incumbent, with an exact interval.

    Only skips that were evaluated on as many tasks as were predicted count. Without any the interval is 0 to 1.
    """
    wrong = total = 0
    for fact in facts:
        scores = table.get(fact.subject, {})
        if fact.kind == "skip" and fact.body["audited"] and len(scores) >= fact.body["tasks"]:
            total += 1
            wrong += math.fsum(scores.values()) / len(scores) > fact.body["incumbent"]
    return exact_rate(wrong, total, confidence)


# Features of a playbook


def features(playbook: Playbook) -> dict[str, dict[str, float]]:
    """Numbers that distinguish playbooks, in groups: for each gene its value, or its length and its words."""
    groups: dict[str, dict[str, float]] = {}
    for path, gene in genes(playbook).items():
        match gene.kind:
            case "number" | "integer":
                groups[path] = {"": float(gene.value)}
            case "choice":
                groups[path] = {str(gene.value): 1.0}
            case "demos":
                groups[path] = {"": float(len(gene.value))}
            case "text":
                words = re.findall(r"\w+", gene.value.lower())
                groups[f"{path}.length"] = {"": math.log1p(len(words))}
                groups[f"{path}.words"] = _words(words)
    return groups


@lru_cache(maxsize=4096)
def _flat(playbook: Playbook) -> dict[tuple[str, str], float]:
    """Its features by group and name. Each fold of each surrogate of a search needs those of the same playbooks."""
    return {(group, name): value for group, more in features(playbook).items() for name, value in more.items()}


def _words(words: Sequence[str]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for term in (*words, *map(" ".join, pairwise(words))):
        hashed = blake2b(term.encode(), digest_size=4).digest()
        bucket = str(hashed[0] % BUCKETS)
        counts[bucket] = counts.get(bucket, 0.0) + (1.0 if hashed[1] % 2 else -1.0)
    return counts


class _FeatureColumns:
    """Features as a matrix in which each group weighs the same, and columns that never differ weigh nothing."""

    def __init__(self, playbooks: Iterable[Playbook]) -> None:
        described = [_flat(playbook) for playbook in playbooks]
        self._names = sorted({name for each in described for name in each})
        raw = self._raw(described)
        spread = raw.std(axis=0)
        self._middle = raw.mean(axis=0)
        varied = spread > 1e-9
        sizes: dict[str, int] = {}
        for (group, _), counts in zip(self._names, varied, strict=True):
            sizes[group] = sizes.get(group, 0) + bool(counts)
        share = np.array([max(1, sizes[group]) for group, _ in self._names], dtype=np.float64)
        self._scale = np.where(varied, 1 / np.where(varied, spread, 1.0) / np.sqrt(share), 0.0)
        self.groups = max(1, sum(size > 0 for size in sizes.values()))
        self.rows: Floats = (raw - self._middle) * self._scale

    def of(self, playbook: Playbook) -> Floats:
        scaled: Floats = (self._raw([_flat(playbook)]) - self._middle) * self._scale
        return scaled

    def _raw(self, described: Sequence[Mapping[tuple[str, str], float]]) -> Floats:
        rows = [[each.get(name, 0.0) for name in self._names] for each in described]
        return np.array(rows, dtype=np.float64).reshape(len(described), len(self._names))


# The model

LENGTHS = (0.5, 1.0, 2.0, 4.0)
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Length scales, and shares of the worth that the genes explain: the pair that predicts best is used."""


class _Model:
    """The ease of tasks, and the worth of playbooks by their genes."""

    def __init__(self, table: Table, playbooks: Mapping[Digest, Playbook]) -> None:
        self._ease, worth, self._noise = _additive(table)
        self._mean = float(worth.mean())
        counts = np.array([len(scores) for scores in table.values()], dtype=np.float64)
        self._spread = max(float(worth.var()) - self._noise * float((1 / counts).mean()), 1e-9)
        self._columns = _FeatureColumns(playbooks.values())
        self._rows = self._columns.rows
        best = math.inf
        for length in LENGTHS:
            alike = self._alike(self._rows, length)
            for share in SHARES:
                inner = self._spread * share * alike + self._broad
                whole = inner + np.diag(self._spread * (1 - share) + self._noise / counts + 1e-9)
                inverse = np.linalg.inv(whole)
                weights = inverse @ (worth - self._mean)
                # Leave-one-out predictions of all playbooks, and how sure they are, in one step.
                sharpness = np.diag(inverse)
                surprise = float(np.sum(weights**2 / sharpness - np.log(sharpness)))
                if surprise < best - 1e-9:
                    best, self._length, self._share = surprise, length, share
                    self._inverse, self._weights = inverse, weights

    def predict(self, playbook: Playbook, own: Mapping[str, float], tasks: Sequence[str]) -> tuple[float, float]:
        """The mean score over the tasks and its standard deviation, given the scores that are known."""
        near = self._spread * self._share * self._alike(self._columns.of(playbook), self._length)[0] + self._broad
        worth = self._mean + float(near @ self._weights)
        doubt = max(self._spread + self._broad - float(near @ self._inverse @ near), 1e-12)
        seen = {task: score for task, score in own.items() if task in self._ease}
        if seen:
            measured = math.fsum(score - self._ease[task] for task, score in seen.items()) / len(seen)
            trust = doubt / (doubt + self._noise / len(seen) + 1e-12)
            worth, doubt = worth + trust * (measured - worth), doubt * (1 - trust)
        open_ = [task for task in tasks if task not in own]
        total = math.fsum(own[task] for task in tasks if task in own)
        total += math.fsum(worth + self._ease.get(task, 0.0) for task in open_)
        share = len(open_) / len(tasks)
        return total / len(tasks), math.sqrt(share**2 * doubt + share * self._noise / len(tasks)) + 1e-9

    def middle(self, tasks: Iterable[str]) -> float:
        """The mean of all playbooks at these tasks."""
        eases = [self._ease.get(task, 0.0) for task in tasks]
        return self._mean + math.fsum(eases) / len(eases)

    @property
    def _broad(self) -> float:
        """The variance of the mean before any score is known: so large that only known scores count."""
        return 10 * self._spread

    def _alike(self, rows: Floats, length: float) -> Floats:
        """How similar playbooks are to those of the model, from 0 to 1."""
        squares = (rows**2).sum(axis=1)[:, None] + (self._rows**2).sum(axis=1) - 2 * rows @ self._rows.T
        alike: Floats = np.exp(-np.maximum(squares, 0.0) / (2 * length**2 * self._columns.groups))
        return alike


class _Errors:
    """Errors on held-out playbooks: the errors, their predicted deviations, and the errors of the mean."""

    def __init__(self, made: Floats) -> None:
        errors, deviations, means = made.T
        self.error = float(np.sqrt((errors**2).mean()))
        self.mean_error = float(np.sqrt((means**2).mean()))
        self.relative = errors / deviations
        self._coverage: dict[float, float] = {}

    def coverage(self, confidence: float) -> float:
        """The share of errors within the range of all others."""
        if confidence not in self._coverage:
            within = 0
            for place, error in enumerate(self.relative):
                low, high = _reach(np.delete(self.relative, place), confidence)
                within += bool(low <= error <= high)
            self._coverage[confidence] = within / len(self.relative)
        return self._coverage[confidence]


def _reach(errors: Floats, confidence: float) -> tuple[float, float]:
    """The range of the next error with at least this confidence (conformal prediction); infinite for few errors."""
    ranked = np.sort(errors)
    outside = math.floor((len(ranked) + 1) * (1 - confidence) / 2 + 1e-9)
    return (float(ranked[outside - 1]), float(ranked[-outside])) if outside else (-math.inf, math.inf)


def _additive(table: Table) -> tuple[dict[str, float], Floats, float]:
    """How easy each task is relative to the others, the worth of each playbook, and the residual variance."""
    tasks = {task: place for place, task in enumerate(sorted({task for scores in table.values() for task in scores}))}
    cells = [(row, tasks[task], score) for row, scores in enumerate(table.values()) for task, score in scores.items()]
    rows, columns, scores = (np.array(part) for part in zip(*cells, strict=True))
    worth, ease = np.zeros(len(table)), np.zeros(len(tasks))
    for _ in range(30):
        worth = np.bincount(rows, scores - ease[columns]) / np.bincount(rows)
        ease = np.bincount(columns, scores - worth[rows]) / np.bincount(columns)
        ease -= ease.mean()
    worth = np.bincount(rows, scores - ease[columns]) / np.bincount(rows)
    free = max(1, len(cells) - len(table) - len(tasks) + 1)
    noise = float(((scores - worth[rows] - ease[columns]) ** 2).sum()) / free
    return {task: float(ease[place]) for task, place in tasks.items()}, worth, noise
