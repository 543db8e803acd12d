"""Pairwise: a judge that says which of two answers is better, asked twice, in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import Judge, Part, Question
from seedbed.runs.run import Run
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.stats.estimates import Interval, mcnemar, wilson

Said = Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Preference:
    """1 if `b` is better, -1 if `a` is, 0 for a tie; None if that is not known, and why.

    `said` is what the judge preferred when `a` was shown first, and when `b` was. It is empty if nobody was asked.
    """

    value: Literal[-1, 0, 1] | None
    reason: str = ""
    said: tuple[Said, ...] = ()
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
    def questions(self) -> tuple[Question, ...]:
        return (Question(self.criterion.strip(), ("first", "second", "tie")),)

    async def __call__(self, a: Run, b: Run, task: Task) -> Preference:
        one, other = text_of(a.output), text_of(b.output)
        if one == other:
            return Preference(0, "the answers are the same")
        there = await self._said(one, other, task)
        if there.value is None:
            return there
        back = await self._said(other, one, task)
        cost = there.cost_usd + back.cost_usd
        if back.value is None:
            return Preference(None, back.reason, cost_usd=cost)
        reason = f"a first: {there.reason}\nb first: {back.reason}"
        agreed = there.value == -back.value
        return Preference(there.value if agreed else 0, reason, (*there.said, *back.said), cost)

    async def _said(self, first: str, second: str, task: Task) -> Preference:
        """What is preferred in this order: 1 for the second."""
        material = [Part("task", text_of(dict(task.inputs))), Part("first", first), Part("second", second)]
        judgement = await self.judged(material)
        if judgement.unscored:
            return Preference(None, judgement.unscored, cost_usd=judgement.cost_usd)
        said: Said = judgement.marks[0]  # type: ignore[assignment]  # read() lets no other pass
        values: dict[Said, Literal[-1, 0, 1]] = {"first": -1, "tie": 0, "second": 1}
        reason = f"{said}, as {judgement.reasons[0]}" if judgement.reasons[0] else said
        return Preference(values[said], reason, (said,), judgement.cost_usd)


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
    """What swapping showed about a judge; pairs that were not judged in both orders say nothing."""
    place = {"first": -1, "tie": 0, "second": 1}
    leanings = [sum(place[said] for said in each.said) for each in preferences if len(each.said) == 2]
    to_first, to_second = sum(each < 0 for each in leanings), sum(each > 0 for each in leanings)
    consistent = wilson(len(leanings) - to_first - to_second, len(leanings))
    return PositionBias(consistent, to_first, to_second, mcnemar(to_first, to_second))
