"""Pairwise: a judge that says which of two answers is better, asked twice, in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import Judge, JudgedText, JudgeQuestion
from seedbed.runs.run import Run
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.stats.estimates import Interval, exact_rate, mcnemar

Preferred = Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Preference:
    """1 if `b` is better, -1 if `a` is, 0 for a tie; None if that is not known, and `reason` says why.

    `preferred` is the judge's choice with `a` first, and with `b` first. It is empty if the judge was not asked.
    """

    value: Literal[-1, 0, 1] | None
    reason: str = ""
    preferred: tuple[Preferred, ...] = ()
    cost_usd: float = 0.0


@dataclass(frozen=True)
class Pairwise(Judge):
    """Which of two answers to a task is better. If the judge prefers another when they are swapped, it is a tie.

    The same two answers the other way round give exactly the opposite.
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
        there = await self._prefer(one, other, task)
        if there.value is None:
            return there
        back = await self._prefer(other, one, task)
        cost = there.cost_usd + back.cost_usd
        if back.value is None:
            return Preference(None, back.reason, cost_usd=cost)
        reason = f"a first: {there.reason}\nb first: {back.reason}"
        agreed = there.value == -back.value
        return Preference(there.value if agreed else 0, reason, (*there.preferred, *back.preferred), cost)

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
