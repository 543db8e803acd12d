"""Judges: metrics that ask a model, and how far they agree with people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from seedbed.errors import DatasetError, Problem, SeedbedError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import Judge, Judgement, Part, Question
from seedbed.evaluation.metrics.metric import Metric, Score
from seedbed.parallel import in_order
from seedbed.runs.run import Run
from seedbed.settings.judges import DebatePart
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.stats.agreement import cohen_interval, confusion, raw_agreement
from seedbed.stats.estimates import paired_interval
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest

KEPT = 300
"""Characters of a judged answer that its score tells."""

TURNS = 40
"""Turns of a dialogue that are shown: half of them from its beginning, half from its end."""

AGREEMENT = 0.6
"""What the lower end of a trusted judge's kappa has to reach, unless something else is asked for."""

UNSCORED = 0.1
"""The share of labelled answers that a trusted judge may leave unscored: who judges easy ones only is no judge."""


SCALE = (1, 5)


@dataclass(frozen=True)
class Rubric(Judge):
    """Marks for each criterion on a scale of whole numbers, from worst to best; their mean is the score, from 0 to 1.

    The judge sees the task and the answer, not the expected one.
    """

    criteria: Sequence[str]
    scale: tuple[int, int] = SCALE
    name: str = "rubric"

    kind = "rubric"
    purpose = "You are shown a task and an answer to it, and say how well the answer meets each criterion."

    def __post_init__(self) -> None:
        low, high = self.scale
        if isinstance(self.criteria, str) or not self.criteria or not all(each.strip() for each in self.criteria):
            raise SeedbedError(f"criteria: found {shown(self.criteria)}; expected at least one, none of them empty")
        if not low < high <= low + 100:
            raise SeedbedError(f"scale: found {shown(self.scale)}; expected the worst and the best mark, as in (1, 5)")

    @property
    def questions(self) -> tuple[Question, ...]:
        low, high = self.scale
        marks = tuple(map(str, range(low, high + 1)))
        return tuple(Question(f"{each.strip()} ({low} is worst, {high} is best.)", marks) for each in self.criteria)

    async def __call__(self, run: Run, task: Task) -> Score:
        told_of = [Part("task", text_of(dict(task.inputs))), Part("answer", text_of(run.output))]
        judgement = await self.judged(told_of)
        low, high = self.scale
        values = [(int(mark) - low) / (high - low) for mark in judgement.marks]
        return _score(judgement, [each.strip() for each in self.criteria], values, run)


@dataclass(frozen=True)
class Reference(Judge):
    """1 if the answer says what the expected one says, in whatever words; else 0."""

    name: str = "reference"

    kind = "reference"
    purpose = "You are shown a task, the expected answer and a given answer, and say whether the two come to the same."
    asked = Question(
        "Is the given answer equivalent to the expected one? Other words, order and format make no difference; another "
        "fact, number or conclusion does, and so does a missing one.",
        ("equivalent", "different"),
    )

    @property
    def questions(self) -> tuple[Question, ...]:
        return (self.asked,)

    async def __call__(self, run: Run, task: Task) -> Score:
        if task.expected is None:
            return Score(None, "the task has no expected answer")
        shown_to = [Part("task", text_of(dict(task.inputs))), Part("expected", text_of(task.expected))]
        judgement = await self.judged([*shown_to, Part("answer", text_of(run.output))])
        values = [float(mark == "equivalent") for mark in judgement.marks]
        return _score(judgement, ["equivalent"], values, run)


MARKS = ("0", "1", "2", "3", "4")


@dataclass(frozen=True)
class DebateQuality(Judge):
    """How well a dialogue was led: conflict found, conflict resolved, and how good the synthesis is, each from 0 to 1.

    The score is the mean of the three, or the one named by `part`. Where nothing conflicts there is nothing to find or
    to resolve: these two then take no part in the mean, and alone they are unscored. The judge sees the turns, with the
    roles of who spoke and without their models, and the output.
    """

    part: DebatePart | None = None
    name: str = "debate_quality"

    kind = "debate_quality"
    purpose = (
        "You are shown a task, the turns of a dialogue about it and its conclusion, and say how well the dialogue was "
        "led. Agreement alone is no merit, nor is conflict. 0 is not at all, 4 is fully."
    )
    qualities: ClassVar[dict[DebatePart, Question]] = {
        "conflict_found": Question(
            "Where turns contradict each other, or one of them is wrong, did the speakers find it and say what it is? "
            "none if there is nothing of the kind.",
            (*MARKS, "none"),
        ),
        "conflict_resolved": Question(
            "Were these conflicts settled by arguments or evidence, not dropped, repeated, or merely given in to? "
            "none if there were no conflicts.",
            (*MARKS, "none"),
        ),
        "synthesis": Question(
            "Does the conclusion keep what was shown to be right, leave out what was shown to be wrong, and so become "
            "better than each turn alone?",
            MARKS,
        ),
    }

    @property
    def questions(self) -> tuple[Question, ...]:
        return tuple(self.qualities.values())

    @property
    def identity(self) -> Json:
        return {**super().identity, "part": self.part}

    async def __call__(self, run: Run, task: Task) -> Score:
        if len(run.turns) < 2:
            return Score(None, f"found {len(run.turns)} turns; expected a dialogue of at least two")
        judgement = await self.judged(
            [Part("task", text_of(dict(task.inputs))), *self._turns(run), Part("conclusion", text_of(run.output))]
        )
        values = [None if mark == "none" else int(mark) / 4 for mark in judgement.marks]
        of_part = dict(zip(self.qualities, values, strict=False))
        chosen = values if self.part is None else [of_part.get(self.part)]
        return _score(judgement, list(self.qualities), [value for value in chosen if value is not None], run)

    def _turns(self, run: Run) -> list[Part]:
        numbered = list(enumerate(run.turns, 1))
        left_out = len(numbered) - TURNS
        if left_out > 0:
            numbered = [*numbered[: TURNS // 2], *numbered[-TURNS // 2 :]]
        cut_at = max(self.cut_at // len(numbered), 200)
        parts = [Part(f"turn_{number}", turn.text, f"Said by: {turn.role}.", cut_at) for number, turn in numbered]
        if left_out > 0:
            after = parts[TURNS // 2]
            parts[TURNS // 2] = replace(after, about=f"({left_out} turns are left out here.) {after.about}")
        return parts


def _score(judgement: Judgement, asked: Sequence[str], values: Sequence[float], run: Run) -> Score:
    answer = text_of(run.output)[:KEPT]
    if judgement.unscored:
        return Score(None, judgement.unscored, answer, judgement.cost_usd, judgement.tokens)
    said = zip(asked, judgement.marks, judgement.reasons, strict=True)
    reason = "\n".join(f"{name}: {mark}{f', as {why}' if why else ''}" for name, mark, why in said)
    value = sum(values) / len(values) if values else None
    return Score(value, reason, answer, judgement.cost_usd, judgement.tokens)


@dataclass(frozen=True, slots=True)
class Labelled:
    """An answer to a task, and what a person says of it, from 0 to 1; None if nobody said."""

    run: Run
    task: Task
    label: float | None

    @classmethod
    def answer(cls, output: Any, task: Task, label: float | None) -> Labelled:
        """An answer that was written down without its run."""
        return cls(
            Run(
                id="",
                playbook="",
                inputs=dict(task.inputs),
                seed=0,
                started=datetime.fromtimestamp(0, UTC),
                status="completed",
                output=output,
                error="",
                turns=(),
                tokens=0,
                cost_usd=0.0,
                latency_seconds=0.0,
                models={},
            ),
            task,
            label,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far a judge agrees with people: kept as a fact, once for the same judge and the same labels.

    `judge` is the digest of its identity. `kappa` is Cohen's, weighted by squared distance if there are more values
    than 0 and 1; None if nothing can be said. `raw` is the share of equal values, `bias` how much more the judge gives
    than people do. `table` counts the answers to which people gave the value of a row and the judge that of a column.
    """

    judge: Digest
    name: str
    labels: Digest
    n: int
    unscored: int
    kappa: float | None
    low: float
    high: float
    confidence: float
    weights: Literal["quadratic"] | None
    raw: float | None
    raw_low: float
    raw_high: float
    bias: float | None
    bias_low: float | None
    bias_high: float | None
    values: tuple[float, ...]
    table: tuple[tuple[int, ...], ...]
    cost_usd: float

    def __str__(self) -> str:
        return f"{self.name}: {self.figures}"

    @property
    def figures(self) -> str:
        on = f"on {self.n} labels, {self.unscored} unscored"
        if self.kappa is None or self.raw is None or self.bias is None:
            return f"no kappa {on}"
        interval = f"{self.confidence:.0%} {self.low:.2f} to {self.high:.2f}"
        return f"kappa {self.kappa:.2f} ({interval}), raw agreement {self.raw:.0%}, bias {self.bias:+.2f} {on}"

    def keep(self, store: Store, by: str) -> Agreement:
        """Add it to the store; gives the one that counts, which is the first of this judge on these labels."""
        key = digest("agreement", [self.judge, self.labels])
        at = datetime.now(UTC)
        body = {**asdict(self), "values": list(self.values), "table": [list(row) for row in self.table]}
        store.append([Fact(kind="agreement", key=key, subject=self.judge, at=at, by=by, body=body, value=self.kappa)])
        return next(_agreements(store, Query(kind="agreement", key=key)))


def agreements(store: Store, judge: Metric | Json) -> list[Agreement]:
    """What is known of how far a judge, given as such or by its identity, agrees with people; oldest first."""
    return list(_agreements(store, Query(kind="agreement", subject=_digest(judge))))


def deciding(known: Iterable[Agreement]) -> Agreement | None:
    """The agreement that counts: the first on most labels, so that it does not help to leave some of them out."""
    return max(known, key=lambda each: each.n + each.unscored, default=None)


async def calibrated(
    judge: Metric,
    labelled: Sequence[Labelled],
    *,
    at_once: int = 8,
    watch: Callable[[Labelled, Score], None] | None = None,
) -> Agreement:
    """Have answers judged that people have judged, and see how far the two agree.

    Answers without a label are not judged. Those that the judge leaves unscored are counted, and no part of the rest.
    Whoever wants to `watch` is told each score, in the order of the labels.
    """
    items = [each for each in labelled if each.label is not None]
    wrong = [
        Problem(f"label of {each.task.id}", shown(each.label), "a number from 0 to 1")
        for each in items
        if not (isinstance(each.label, int | float) and 0 <= each.label <= 1)
    ]
    if wrong:
        raise DatasetError(wrong)
    people = [round(float(each.label or 0), 6) for each in items]
    judged: list[float | None] = []
    cost = 0.0
    async with aclosing(in_order(items, lambda each: judge(each.run, each.task), at_once=at_once)) as scores:
        async for score in scores:
            if watch:
                watch(items[len(judged)], score)
            judged.append(None if score.value is None else round(score.value, 6))
            cost += score.cost_usd
    return _agreement(judge, _labels(items), people, judged, cost)


def trusted(agreement: Agreement | None, at_least: float = AGREEMENT, *, name: str = "") -> Problem | None:
    """None if a judge may decide what is released, else why not: the lower end of its kappa has to be high enough."""
    path = f"judge {name or (agreement.name if agreement else '')}".rstrip()
    expected = f"a judge whose kappa with people is at least {at_least:g}, at the lower end of its interval"
    check = f"and run: seedbed judge check {name or (agreement.name if agreement else 'JUDGE')} LABELS"
    if agreement is None:
        return Problem(path, "no agreement with people", expected, f"Label some answers, {check}")
    asked = agreement.n + agreement.unscored
    if agreement.unscored > UNSCORED * asked:
        found = f"{agreement.unscored} of {asked} labelled answers unscored"
        return Problem(path, found, f"at most {UNSCORED:.0%}", f"Use a model that keeps to the form, {check}")
    if agreement.kappa is not None and agreement.low >= at_least:
        return None
    close = agreement.kappa is None or agreement.kappa >= at_least
    remedy = "Label more answers, good and bad ones" if close else "Use another model, or ask more clearly"
    return Problem(path, agreement.figures, expected, f"{remedy}, {check}")


def _agreement(
    judge: Metric, labels: Digest, people: Sequence[float], judged: Sequence[float | None], cost_usd: float
) -> Agreement:
    pairs = [(one, other) for one, other in zip(people, judged, strict=True) if other is not None]
    theirs, ours = [one for one, _ in pairs], [other for _, other in pairs]
    table = confusion(theirs, ours)
    weights: Literal["quadratic"] | None = None if {*theirs, *ours} <= {0.0, 1.0} else "quadratic"
    kappa, raw = cohen_interval(theirs, ours, weights=weights), raw_agreement(theirs, ours)
    bias = paired_interval(theirs, ours)
    return Agreement(
        judge=_digest(judge),
        name=judge.name,
        labels=labels,
        n=len(pairs),
        unscored=len(people) - len(pairs),
        kappa=_known(kappa.mean),
        low=kappa.low,
        high=kappa.high,
        confidence=kappa.confidence,
        weights=weights,
        raw=_known(raw.mean),
        raw_low=raw.low,
        raw_high=raw.high,
        bias=_known(bias.mean),
        bias_low=_known(bias.low),
        bias_high=_known(bias.high),
        values=tuple(float(str(value)) for value in table.labels),
        table=table.counts,
        cost_usd=cost_usd,
    )


def _agreements(store: Store, query: Query) -> Iterator[Agreement]:
    for fact in store.facts(query):
        table = tuple(tuple(row) for row in fact.body["table"])
        yield Agreement(**{**fact.body, "values": tuple(fact.body["values"]), "table": table})


def _digest(judge: Metric | Json) -> Digest:
    return digest("judge", judge if isinstance(judge, dict) else judge.identity)


def _labels(items: Sequence[Labelled]) -> Digest:
    said = [[each.task.digest, each.run.output, [turn.text for turn in each.run.turns], each.label] for each in items]
    return digest("labels", sorted(said, key=canonical))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
