"""Lessons: the cases that a playbook did poorly, and which changes of a text helped and which did not."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from seedbed.errors import Problem, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import JudgedText
from seedbed.evolution.pool import Pool
from seedbed.playbooks.word_diff import changed_parts
from seedbed.runs.run import Run
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Digest

RECALLED = 6
"""How many of the latest changes that helped are recalled, and how many that did not."""
REMEMBERED = 64
"""How many changes of a gene are remembered with their outcomes."""


@dataclass(frozen=True, slots=True)
class PoorCase:
    """A task that a playbook did poorly: its answer, the reason for the score, and its run if there is one."""

    task: Task
    score: float | None
    reason: str = ""
    answer: str = ""
    run: Run | None = None

    def parts(self, number: int) -> list[JudgedText]:
        """What a model reads of the case. All of it is untrusted text."""
        scored = "was not scored" if self.score is None else f"scored {self.score:.3g}"
        parts = [JudgedText(f"task_{number}", text_of(dict(self.task.inputs)), f"Case {number} {scored}.")]
        if self.task.expected is not None:
            parts.append(JudgedText(f"expected_{number}", text_of(self.task.expected)))
        parts.append(JudgedText(f"answer_{number}", self.answer))
        if self.reason:
            parts.append(JudgedText(f"reason_{number}", self.reason, "Why it scored so:"))
        if dialogue := self._dialogue():
            parts.append(JudgedText(f"transcript_{number}", dialogue))
        return parts

    def _dialogue(self) -> str:
        """The run turn by turn, if that says more than the answer."""
        if self.run is None:
            return ""
        lines = [f"[{turn.step} by {turn.role}]\n{turn.text}" for turn in self.run.turns]
        lines += [f"[{call.tool} was called]\n{text_of(call.error or call.result)}" for call in self.run.calls]
        lines += [f"[{failed.step} by {failed.role} failed]\n{failed.error}" for failed in self.run.failures]
        lines += [f"[the run failed]\n{self.run.error}"] if self.run.error else []
        return "\n\n".join(lines) if len(lines) > 1 or self.run.error else ""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A change of one gene's text and its outcome.

    `gain` is how much better the child is than its parent on the `tasks` that both have; None if it is not known yet.
    `refused` says why a change was never tried.
    """

    gene: str
    change: str
    why: str = ""
    gain: float | None = None
    tasks: int = 0
    refused: str = ""

    @property
    def helped(self) -> bool:
        return self.gain is not None and self.gain > 0

    def __str__(self) -> str:
        why = f" ({shown(self.why, 200)})" if self.why else ""
        if self.refused:
            return f"- not allowed: {self.change}: {self.refused}"
        known = f": {self.gain:+.3f} on {self.tasks} tasks" if self.gain is not None else ""
        return f"- {self.change}{why}{known}"


class Lessons:
    """The latest changes that were tried or refused, by gene, in their order."""

    def __init__(self) -> None:
        self._lessons: dict[str, deque[_Tried]] = {}

    def try_out(self, gene: str, old: str, new: str, why: str, parent: Digest, child: Digest) -> None:
        """Add a change that will be tried. Its outcome is learned from the scores of parent and child."""
        self._add(_Tried(Lesson(gene, describe_change(old, new), why), parent, child))

    def refuse(self, gene: str, change: str, problems: Sequence[Problem]) -> None:
        self._add(_Tried(Lesson(gene, change, refused="; ".join(map(str, problems)))))

    def _add(self, tried: _Tried) -> None:
        self._lessons.setdefault(tried.lesson.gene, deque(maxlen=REMEMBERED)).append(tried)

    def learn(self, pool: Pool, scored: Set[Digest]) -> None:
        """Compare each child with its parent on the tasks that both have, where one of them has new scores."""
        for tried in (each for lessons in self._lessons.values() for each in lessons):
            if not scored.isdisjoint((tried.child, tried.parent)) and tried.parent in pool and tried.child in pool:
                apart = pool.row(pool.place(tried.child)) - pool.row(pool.place(tried.parent))
                both = apart[~np.isnan(apart)]
                gain = float(both.mean()) if both.size else None
                tried.lesson = replace(tried.lesson, gain=gain, tasks=int(both.size))

    def of(self, gene: str) -> list[Lesson]:
        """The latest lessons of a gene whose outcome is known, those that helped first."""
        lessons = [tried.lesson for tried in self._lessons.get(gene, ())]
        known = [each for each in lessons if each.refused or each.gain is not None]
        helped = [each for each in known if each.helped][-RECALLED:]
        return [*helped, *[each for each in known if not each.helped][-RECALLED:]]

    def helpful(self, gene: str) -> int:
        """How many of the latest changes of a gene helped."""
        return sum(tried.lesson.helped for tried in self._lessons.get(gene, ()))


@dataclass(slots=True)
class _Tried:
    lesson: Lesson
    parent: Digest = ""
    child: Digest = ""


def describe_change(old: str, new: str, limit: int = 200) -> str:
    """A change in a few words: what was replaced by what, added or deleted."""
    changes = []
    for before, after in changed_parts(old, new):
        was, now = before.strip(), after.strip()
        if was == now:
            continue
        if was and now:
            changes.append(f"{shown(was, limit)} became {shown(now, limit)}")
        else:
            changes.append(f"added {shown(now, limit)}" if now else f"deleted {shown(was, limit)}")
    return ", ".join(changes[:6]) or "white space"
