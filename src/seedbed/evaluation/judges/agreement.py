"""Agreement: how far a judge agrees with people, and whether it may decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

from seedbed.errors import DatasetError, Problem, shown
from seedbed.evaluation.intervals import mean_gain
from seedbed.evaluation.judges.labels import LabelledAnswer
from seedbed.evaluation.metrics.metric import Metric, Score
from seedbed.evaluation.scorecard import finite
from seedbed.parallel import in_order
from seedbed.stats.agreement import cohen_interval, confusion, raw_agreement
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical, digest

AGREEMENT = 0.6
"""The lower end of its kappa that a judge needs to be trusted, by default."""

UNSCORED = 0.1
"""The share of labelled answers that a trusted judge may leave unscored: a judge must not choose the easy ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """How far a judge agrees with people: a fact, once for the same judge and the same labels.

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

    def record(self, store: Store, by: str) -> JudgeAgreement:
        """Store it; returns the one that counts, which is the first of this judge on these labels."""
        key = digest("agreement", [self.judge, self.labels])
        at = datetime.now(UTC)
        body = {**asdict(self), "values": list(self.values), "table": [list(row) for row in self.table]}
        store.append([Fact(kind="agreement", key=key, subject=self.judge, at=at, by=by, body=body, value=self.kappa)])
        return next(_agreements(store, Query(kind="agreement", key=key)))


def agreements(store: Store, judge: Metric | Json) -> list[JudgeAgreement]:
    """The stored agreements with people of a judge, which may be named by its identity; oldest first."""
    return list(_agreements(store, Query(kind="agreement", subject=_digest(judge))))


def deciding(known: Iterable[JudgeAgreement]) -> JudgeAgreement | None:
    """The agreement that counts: the first one on the most labels, so that leaving labels out gains nothing."""
    return max(known, key=lambda each: each.n + each.unscored, default=None)


async def calibrate(
    judge: Metric,
    labelled: Sequence[LabelledAnswer],
    *,
    at_once: int = 8,
    watch: Callable[[LabelledAnswer, Score], None] | None = None,
) -> JudgeAgreement:
    """Judge answers that people have judged, and measure how far the two agree.

    Answers without a label are not judged. Those that the judge leaves unscored are counted, but not compared.
    `watch` receives each score, in the order of the labels.
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


def distrust(agreement: JudgeAgreement | None, at_least: float = AGREEMENT, *, name: str = "") -> Problem | None:
    """Why a judge may not decide what is released; None if it may: the lower end of its kappa is high enough."""
    path = f"judge {name or (agreement.name if agreement else '')}".rstrip()
    expected = f"a judge whose kappa with people is at least {at_least:g}, at the lower end of its interval"
    check = f"and run: seedbed judge check {name or (agreement.name if agreement else 'JUDGE')} LABELS"
    if agreement is None:
        return Problem(path, "no agreement with people", expected, f"Label some answers, {check}")
    answers = agreement.n + agreement.unscored
    if agreement.unscored > UNSCORED * answers:
        actual = f"{agreement.unscored} of {answers} labelled answers unscored"
        return Problem(
            path, actual, f"at most {UNSCORED:.0%}", f"Use a model that answers in the required form, {check}"
        )
    if agreement.kappa is not None and agreement.low >= at_least:
        return None
    close = agreement.kappa is None or agreement.kappa >= at_least
    remedy = "Label more answers, good and bad ones" if close else "Use another model, or ask more clearly"
    return Problem(path, agreement.figures, expected, f"{remedy}, {check}")


def _agreement(
    judge: Metric, labels: Digest, people: Sequence[float], judged: Sequence[float | None], cost_usd: float
) -> JudgeAgreement:
    pairs = [(one, other) for one, other in zip(people, judged, strict=True) if other is not None]
    theirs, ours = [one for one, _ in pairs], [other for _, other in pairs]
    table = confusion(theirs, ours)
    weights: Literal["quadratic"] | None = None if {*theirs, *ours} <= {0.0, 1.0} else "quadratic"
    possible = sorted({0.0, 1.0, *theirs, *ours})  # rare values that did not come may be those that agree
    kappa, raw = cohen_interval(theirs, ours, weights=weights, labels=possible), raw_agreement(theirs, ours)
    bias = mean_gain(judge.name, theirs, ours)
    return JudgeAgreement(
        judge=_digest(judge),
        name=judge.name,
        labels=labels,
        n=len(pairs),
        unscored=len(people) - len(pairs),
        kappa=finite(kappa.mean),
        low=kappa.low,
        high=kappa.high,
        confidence=kappa.confidence,
        weights=weights,
        raw=finite(raw.mean),
        raw_low=raw.low,
        raw_high=raw.high,
        bias=finite(bias.mean),
        bias_low=finite(bias.low),
        bias_high=finite(bias.high),
        values=tuple(float(str(value)) for value in table.labels),
        table=table.counts,
        cost_usd=cost_usd,
    )


def _agreements(store: Store, query: Query) -> Iterator[JudgeAgreement]:
    for fact in store.facts(query):
        table = tuple(tuple(row) for row in fact.body["table"])
        yield JudgeAgreement(**{**fact.body, "values": tuple(fact.body["values"]), "table": table})


def _digest(judge: Metric | Json) -> Digest:
    return digest("judge", judge if isinstance(judge, dict) else judge.identity)


def _labels(items: Sequence[LabelledAnswer]) -> Digest:
    rows = [[each.task.digest, each.run.output, [turn.text for turn in each.run.turns], each.label] for each in items]
    return digest("labels", sorted(rows, key=canonical))
