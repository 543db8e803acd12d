"""Rubrics: judges that score one answer, by criteria, against the expected answer, or as a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from seedbed.errors import SeedbedError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import Judge, JudgedText, Judgement, JudgeQuestion
from seedbed.evaluation.metrics.metric import NO_ANSWER, Score
from seedbed.runs.run import Run
from seedbed.settings.judges import DebatePart
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Json

ANSWER_LENGTH = 300
"""Characters of a judged answer that are stored with its score."""

TURNS = 40
"""Turns of a dialogue that are shown: half of them from its beginning, half from its end."""


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
    def questions(self) -> tuple[JudgeQuestion, ...]:
        low, high = self.scale
        marks = tuple(map(str, range(low, high + 1)))
        return tuple(
            JudgeQuestion(f"{each.strip()} ({low} is worst, {high} is best.)", marks) for each in self.criteria
        )

    async def __call__(self, run: Run, task: Task) -> Score:
        material = [JudgedText("task", text_of(dict(task.inputs))), JudgedText("answer", text_of(run.output))]
        judgement = await self.judge(material)
        low, high = self.scale
        values = [(int(mark) - low) / (high - low) for mark in judgement.marks]
        return _score(judgement, [each.strip() for each in self.criteria], values, run)


@dataclass(frozen=True)
class Reference(Judge):
    """1 if the answer says what the expected one says, in whatever words; else 0."""

    name: str = "reference"
    needs_expected: ClassVar[bool] = True

    kind = "reference"
    purpose = "You are shown a task, the expected answer and a given answer, and say whether the two come to the same."
    question: ClassVar[JudgeQuestion] = JudgeQuestion(
        "Is the given answer equivalent to the expected one? Other words, order and format make no difference; another "
        "fact, number or conclusion does, and so does a missing one.",
        ("equivalent", "different"),
    )

    @property
    def questions(self) -> tuple[JudgeQuestion, ...]:
        return (self.question,)

    async def __call__(self, run: Run, task: Task) -> Score:
        if task.expected is None:
            return NO_ANSWER
        material = [JudgedText("task", text_of(dict(task.inputs))), JudgedText("expected", text_of(task.expected))]
        judgement = await self.judge([*material, JudgedText("answer", text_of(run.output))])
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
    qualities: ClassVar[dict[DebatePart, JudgeQuestion]] = {
        "conflict_found": JudgeQuestion(
            "Where turns contradict each other, or one of them is wrong, did the speakers find it and say what it is? "
            "none if there is nothing of the kind.",
            (*MARKS, "none"),
        ),
        "conflict_resolved": JudgeQuestion(
            "Were these conflicts settled by arguments or evidence, not dropped, repeated, or merely given in to? "
            "none if there were no conflicts.",
            (*MARKS, "none"),
        ),
        "synthesis": JudgeQuestion(
            "Does the conclusion keep what was shown to be right, leave out what was shown to be wrong, and so become "
            "better than each turn alone?",
            MARKS,
        ),
    }

    @property
    def questions(self) -> tuple[JudgeQuestion, ...]:
        return tuple(self.qualities.values())

    @property
    def identity(self) -> Json:
        return {**super().identity, "part": self.part}

    async def __call__(self, run: Run, task: Task) -> Score:
        if len(run.turns) < 2:
            return Score(None, f"found {len(run.turns)} turns; expected a dialogue of at least two")
        judgement = await self.judge(
            [
                JudgedText("task", text_of(dict(task.inputs))),
                *self._turns(run),
                JudgedText("conclusion", text_of(run.output)),
            ]
        )
        values = [None if mark == "none" else int(mark) / 4 for mark in judgement.marks]
        of_part = dict(zip(self.qualities, values, strict=False))
        chosen = values if self.part is None else [of_part.get(self.part)]
        return _score(judgement, list(self.qualities), [value for value in chosen if value is not None], run)

    def _turns(self, run: Run) -> list[JudgedText]:
        numbered = list(enumerate(run.turns, 1))
        left_out = len(numbered) - TURNS
        if left_out > 0:
            numbered = [*numbered[: TURNS // 2], *numbered[-TURNS // 2 :]]
        cut_at = max(self.cut_at // len(numbered), 200)
        parts = [JudgedText(f"turn_{number}", turn.text, f"Said by: {turn.role}.", cut_at) for number, turn in numbered]
        if left_out > 0:
            after = parts[TURNS // 2]
            parts[TURNS // 2] = replace(after, about=f"({left_out} turns are left out here.) {after.about}")
        return parts


def _score(judgement: Judgement, names: Sequence[str], values: Sequence[float], run: Run) -> Score:
    answer = text_of(run.output)[:ANSWER_LENGTH]
    if judgement.unscored:
        return Score(None, judgement.unscored, answer, *judgement.spent)
    marks = zip(names, judgement.marks, judgement.reasons, strict=True)
    reason = "\n".join(f"{name}: {mark}{f', as {why}' if why else ''}" for name, mark, why in marks)
    value = sum(values) / len(values) if values else None
    return Score(value, reason, answer, *judgement.spent)
