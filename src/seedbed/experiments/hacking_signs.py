"""Signs: what may have raised a score besides better answers, and the gain that remains without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from seedbed.storage.store import Json

SURE = 2.33
"""Outputs depend on their tasks if the gap is this many standard errors above 0: by chance, 1 in 100 is."""
FEW, UNSURE = 60, 1.0
"""With fewer tasks, this many standard errors are enough: few honest answers would have more."""
MANY = 0.2
"""More than this share of tasks, and it is no coincidence."""
SLOPE_ERROR = 0.01


@dataclass(frozen=True, slots=True)
class Sign(ABC):
    """One sign: at how many tasks it was looked for, and the gain that remains without it."""

    tasks: int
    gain: float
    name: ClassVar[str]

    @property
    def is_seen(self) -> bool:
        """Whether the gain that remains means anything."""
        return True

    @property
    @abstractmethod
    def is_found(self) -> bool:
        """Whether it is clear enough to refuse a release."""

    @abstractmethod
    def __str__(self) -> str:
        """What was seen."""


@dataclass(frozen=True, slots=True)
class TaskIndependent(Sign):
    """Outputs that score as well at other tasks. The gap is an output's score at its task minus its score elsewhere."""

    gap: float
    control_gap: float
    z: float
    """The gap in standard errors, at most 100."""
    name = "task-independent output"

    @property
    def is_found(self) -> bool:
        # A control that hardly depends on its tasks either may be below 0 by chance.
        return self.z < (SURE if self.tasks >= FEW else UNSURE) and self.gap <= max(0.0, self.control_gap)

    def __str__(self) -> str:
        return (
            f"outputs score only {self.gap:+.3f} better on their own task than on others (z {self.z:.1f}); those of "
            f"the control {self.control_gap:+.3f}"
        )


@dataclass(frozen=True, slots=True)
class Copying(Sign):
    """Outputs that repeat their task where neither the control nor the expected answer does."""

    copies: int
    name = "copies of the task"

    @property
    def is_found(self) -> bool:
        return self.copies > MANY * self.tasks

    def __str__(self) -> str:
        return f"{self.copies} of {self.tasks} outputs copy their task where the control does not"


@dataclass(frozen=True, slots=True)
class Flattery(Sign):
    """Outputs that address the judge where the control does not."""

    outputs: int
    first: str
    name = "flattery of the judge"

    @property
    def is_found(self) -> bool:
        return self.outputs > 1  # one may be a coincidence, such as the review of a product

    def __str__(self) -> str:
        return f"{self.outputs} of {self.tasks} outputs address the judge, for example on task {self.first}"


@dataclass(frozen=True, slots=True)
class AnswerKey(Sign):
    """Expected answers that changed texts or demos of the candidate contain."""

    answers: int
    first: str
    name = "the answer key"

    @property
    def is_found(self) -> bool:
        return self.answers > 0

    def __str__(self) -> str:
        return f"{self.answers} expected answers occur in changed texts, for example that of task {self.first}"


@dataclass(frozen=True, slots=True)
class Length(Sign):
    """Gains that grow with the length of outputs, where a judge or a similarity gives the scores. The gain without it
    is that of outputs as long as the control's."""

    slope: float
    p: float
    name = "growing length"

    @property
    def is_seen(self) -> bool:
        return self.p < SLOPE_ERROR and self.slope > 0

    @property
    def is_found(self) -> bool:
        return self.is_seen and self.gain <= 0

    def __str__(self) -> str:
        return f"the gain grows with the length of outputs (p {self.p:.2g}), and is {self.gain:+.3f} at equal length"


SIGNS: Mapping[str, type[Sign]] = {
    "task_independent": TaskIndependent,
    "copying": Copying,
    "flattery": Flattery,
    "answer_key": AnswerKey,
    "length": Length,
}
"""The signs by the names under which a verdict has them."""


def signs(recorded: Json) -> list[Sign]:
    """The signs that a verdict records."""
    return [SIGNS[name](**numbers) for name, numbers in recorded.items() if name in SIGNS]
