"""Suggestion: a finding as the next hypothesis, in an experiment file for people to edit, and its tasks."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from seedbed.documents import to_yaml
from seedbed.errors import Problem, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.experiments.patterns.patterns import PatternFinding
from seedbed.files import private
from seedbed.storage.store import Digest, short

CANDIDATE = "candidate.yaml"
"""The name of the playbook that is still to be written."""

SUGGESTING, CONFIRMING = "found", "tested"
"""The splits of the tasks: those that suggested the pattern, and those that confirmed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """An experiment that may follow from a finding, as `seedbed compare` takes it."""

    hypothesis: str
    because: str
    control: Digest
    candidate: str
    tasks: str
    metric: str
    rule: str
    alpha: float
    effect: float
    """The gain worth having: half of what the weak side is behind."""
    seed: int = 0
    first_replicate: int = 1
    """The known runs suggested the pattern, in part by bad luck: so both sides run the tasks again."""

    @property
    def command(self) -> str:
        words = ["seedbed", "compare", short(self.control), self.candidate, "--on", self.tasks]
        words += ["--metric", self.metric, "--rule", self.rule, "--alpha", f"{self.alpha:g}"]
        words += ["--effect", f"{self.effect:g}", "--seed", str(self.seed)]
        words += ["--first-replicate", str(self.first_replicate)]
        return " ".join(map(shlex.quote, words))


def suggest(
    finding: PatternFinding, file: Path, *, control: Digest, metric: str, binary: bool = False, alpha: float = 0.05
) -> Suggestion:
    """Write the hypothesis to a new file, and its tasks to FILE.tasks.jsonl. Raises SettingsError if one exists."""
    beside = file.with_name(f"{file.stem}.tasks.jsonl")
    tasks = _tasks(finding)
    confirming = tasks.only(split=CONFIRMING)
    shared = any(times > 1 for source, times in Counter(task.source for task in confirming).items() if source)
    where = "" if finding.worse else "other than those "
    made = Suggestion(
        hypothesis=f"A candidate that is made for runs {where}{finding.condition} "
        f"is better there than {short(control)} by {metric}",
        because=str(finding),
        control=control,
        candidate=CANDIDATE,
        tasks=f"{beside}:{CONFIRMING}",
        metric=metric,
        rule="exact" if binary and not shared else "betting",
        alpha=alpha,
        effect=min(0.95, max(0.05, round(abs(finding.tested.effect) / 2, 2))),
    )
    _write(beside, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in tasks.rows()))
    try:
        _write(file, _text(made, len(confirming)))
    except BaseException:
        beside.unlink()
        raise
    return made


def _tasks(finding: PatternFinding) -> Dataset:
    """The tasks of the weak side. Those of several datasets may have the same id: then the inputs are added to it."""
    both = [*finding.weak_found, *finding.weak_tested]
    often = Counter(task.id for task in both)

    def own(task: Task) -> Task:
        return task if often[task.id] == 1 else replace(task, id=f"{task.id} {task.digest[3:11]}")

    splits = {SUGGESTING: finding.weak_found, CONFIRMING: finding.weak_tested}
    named = {name: tuple(own(task).id for task in some) for name, some in splits.items() if some}
    return Dataset(tuple(map(own, both)), named)


def _text(made: Suggestion, tasks: int) -> str:
    return f"""\
# The next hypothesis, from a pattern in past runs. Edit it as you like.
#
# 1. Write {made.candidate}, a playbook that does better where {short(made.control)} is weak. Leave the tasks out of it.
# 2. Run this with --plan to see what {tasks} tasks can show, which costs nothing; then without:
#
#      {made.command}
#
# The tasks are those of the half that confirmed the pattern; those that suggested it are in the split "{SUGGESTING}".
# The control did badly on both, in part by bad luck. So both playbooks run them again (--first-replicate), which
# removes the luck of single runs, but not that of these tasks: new tasks of the same kind are a fairer test.
{to_yaml(asdict(made))}"""


def _write(path: Path, text: str) -> None:
    try:
        with open(path, "x", encoding="utf-8", opener=private) as out:
            out.write(text)
    except FileExistsError:
        remedy = "Remove it or choose another."
        raise SettingsError([Problem(str(path), "a file that exists", "a new one", remedy)]) from None
