"""Pairwise: a judge that says which of two answers is better, asked twice, in both orders, the first drawn by lot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import Judge, JudgedText, JudgeQuestion
from seedbed.runs.run import Run
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.stats.estimates import Interval, exact_rate, mcnemar
from seedbed.storage.store import digest

Preferred = Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Preference:
    """1 if `b` is better, -1 if `a` is, 0 for a tie; None if that is not known, and `reason` says why.

    `preferred` is the judge's choice with `a` first, and with `b` first. It is empty if the judge was not asked.
    `began` is the answer that was shown first when it was asked for the first time.
    """

    value: Literal[-1, 0, 1] | None
    reason: str = ""
    preferred: tuple[Preferred, ...] = ()
    cost_usd: float = 0.0
    began: Literal["a", "b", ""] = ""


@dataclass(frozen=True)
class Pairwise(Judge):
    """Which of two answers to a task is better. If the judge prefers another when they are swapped, it is a tie.

    The same two answers the other way round give exactly the opposite: which of them comes first in the first of both
    orders is drawn from the task and the answers, whoever wrote them.
    """

    criterion: str = "Which of the two answers does what the task asks for better? tie if neither does."
    name: str = "pairwise"

    kind = "pairwise"
    purpose = (
        "You are shown a task and two answers to it, and say which one is better. "
        "Which of them comes first means nothing: they are shown in both orders."
    )

    @property
    def questions(self) -> tuple[JudgeQuestion, ...]:
        return (JudgeQuestion(self.criterion.strip(), ("first", "second", "tie")),)

    async def __call__(self, a: Run, b: Run, task: Task) -> Preference:
        one, other = text_of(a.output), text_of(b.output)
        if one == other:
            return Preference(0, "the answers are the same")
        lot = int(digest("side", [dict(task.inputs), *sorted((one, other))])[3:11], 16) % 2
        began: Literal["a", "b"] = "a" if (one < other) == (lot == 0) else "b"
        first, second = (one, other) if began == "a" else (other, one)
        there = await self._prefer(first, second, task)
        if there.value is None:
            return replace(there, began=began)
        back = await self._prefer(second, first, task)
        cost = there.cost_usd + back.cost_usd
        if back.value is None:
            return Preference(None, back.reason, cost_usd=cost, began=began)
        a_first, b_first = (there, back) if began == "a" else (back, there)
        reason = f"a first: {a_first.reason}\nb first: {b_first.reason}"
        agreed = a_first.value if a_first.value == -(b_first.value or 0) else 0
        return Preference(agreed, reason, (*a_first.preferred, *b_first.preferred), cost, began)

    async def _prefer(self, first: str, second: str, task: Task) -> Preference:
        """Ask in this order: 1 if the second is preferred."""
        material = [
            JudgedText("task", text_of(dict(task.inputs))),
            JudgedText("first", first),
            JudgedText("second", second),
        ]
        judgement = await self.judge(material)
        if judgement.unscored:
            return Preference(None, judgement.unscored, cost_usd=judgement.cost_usd)
        preferred: Preferred = judgement.marks[0]  # type: ignore[assignment]  # parse_judgement refuses others
        values: dict[Preferred, Literal[-1, 0, 1]] = {"first": -1, "tie": 0, "second": 1}
        reason = f"{preferred}, as {judgement.reasons[0]}" if judgement.reasons[0] else preferred
        return Preference(values[preferred], reason, (preferred,), judgement.cost_usd)


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How much a judge goes by the order. `consistent` is the share of pairs with the same answer in both orders.

    Of the others `to_first` leant to whatever came first, `to_second` to what came second; `p` is the chance of so
    uneven a split in a judge that leans to neither.
    """

    consistent: Interval
    to_first: int
    to_second: int
    p: float


def position_bias(preferences: Sequence[Preference]) -> PositionBias:
    """How far swapping changed the answers of a judge. Only pairs that were judged in both orders count."""
    place = {"first": -1, "tie": 0, "second": 1}
    leanings = [sum(place[each] for each in pair.preferred) for pair in preferences if len(pair.preferred) == 2]
    to_first, to_second = sum(each < 0 for each in leanings), sum(each > 0 for each in leanings)
    consistent = exact_rate(len(leanings) - to_first - to_second, len(leanings))
    return PositionBias(consistent, to_first, to_second, mcnemar(to_first, to_second))
