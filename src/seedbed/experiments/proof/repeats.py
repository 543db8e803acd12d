"""Repeats: tasks of a comparison that ask in slightly other words what was asked before.

They would be as good as new to a comparison that only knows tasks by their keys: whoever has seen scores could take the
winners, add a comma to each, and compare again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seedbed.errors import Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.near_tasks import copies, leaks
from seedbed.evaluation.datasets.seal import cleared, seals
from seedbed.experiments.experiment import Experiment, drawn
from seedbed.experiments.proof.freshness import LEAST, families, first_results
from seedbed.experiments.proof.held_out import inputs_read
from seedbed.playbooks.library import Library
from seedbed.storage.store import Digest, Store

LEFT_OUT_SINCE = 3
"""The first edition of experiments in which tasks that nearly repeat others are left out."""
CLEARED_SINCE = 5
"""The first one in which small edits are known by the second rules of wording, and tasks can be cleared."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The tasks of a comparison that ask in slightly other words what was asked before."""

    left_out: tuple[str, ...] = ()
    """Those near one with a known result, and all but one of those that ask the same among themselves."""
    spoiled: tuple[str, ...] = ()
    """Those near one with a result of the candidate that is younger than results of the control on these tasks. To
    leave them out could be a choice by those; so they count as missing answers."""

    def exploratory(self, tasks: int) -> str:
        """Why they leave too little, if they do."""
        if not self.left_out or tasks - len(self.left_out) >= LEAST:
            return ""
        names = ", ".join(map(shown, self.left_out[:5])) + (", …" if len(self.left_out) > 5 else "")
        actual = f"{len(self.left_out)} of {tasks} tasks nearly repeat others of these or some with known results"
        return f"{actual} ({names}), which leaves fewer than {LEAST}; add tasks that ask something else"


def repeats(library: Library, plan: Experiment, tasks: Dataset, *, before: float = math.inf) -> Repeats:
    """The tasks that nearly repeat one of which a result was known before that fact was written, or one another.

    What is left out does not depend on results of the control on these very tasks. Tasks of one source may repeat one
    another: they count as one. The rest of a dataset of which these were held out was never asked about them.
    Tasks that were cleared are no copies of each other, but still of a known one if they are in the same words.
    """
    control, candidate = library.get(plan.control), library.get(plan.candidate)
    store, read = library.store, inputs_read(control, candidate)
    first, tried = (first_results(store, each, read, before) for each in families(library, control, candidate))
    keys, unit = {task_key(task.inputs, read) for task in tasks}, dict[str, int]()
    for number, members in enumerate(drawn(tasks, 0, read)):
        unit |= dict.fromkeys((task.id for task in members), number)
    named = min((each.number for key, each in first.items() if key in keys), default=math.inf)
    elsewhere = keys | _held_out_from(store, keys, read, before)
    first, tried = ({key: each for key, each in known.items() if key not in elsewhere} for known in (first, tried))
    early = {key: each.inputs for key, each in (*first.items(), *tried.items()) if each.number < named}
    late = [each.inputs for key, each in tried.items() if key not in early]
    new = plan.edition >= CLEARED_SINCE
    harmless = cleared(store, before) if new else ()
    cleared_ids = {task.id for task in tasks if harmless and task_key(task.inputs) in harmless}
    unlike = [task for task in tasks if task.id not in cleared_ids]

    def near(known: Sequence[Mapping[str, Any]]) -> set[str]:
        alike = leaks(tasks.tasks, known, read, rules=2 if new else 1)
        return {each.task for each in alike if each.similarity == 1 or each.task not in cleared_ids}

    twice = copies(unlike, read, tasks.case if new else "fold", rules=2 if new else 1)
    gone = {each.task for each in twice if unit[each.task] != unit[each.other]} | near([*early.values()])
    spoiled = near(late) - gone
    return Repeats(*(tuple(task.id for task in tasks if task.id in each) for each in (gone, spoiled)))


def check_repeats(library: Library, plan: Experiment, tasks: Dataset, before: float) -> Iterator[Problem]:
    """What is wrong with the tasks that an experiment leaves out, if it may release its candidate."""
    if plan.edition < LEFT_OUT_SINCE:
        return
    again = repeats(library, plan, tasks, before=before)
    if plan.left_out != again.left_out or not {*again.spoiled} <= {*plan.retired}:
        actual = f"{len(plan.left_out)} left out, {len(plan.retired)} counted as missing"
        expected = f"{len(again.left_out)} left out and {len(again.spoiled)} missing, as they nearly repeat others"
        yield Problem("left_out", actual, expected)
    if why := again.exploratory(len(tasks)):
        yield Problem("mode", why, "enough tasks that repeat no others")


def _held_out_from(store: Store, keys: Collection[Digest], read: Collection[str] | None, before: float) -> set[Digest]:
    """The keys of all tasks of the datasets of which these tasks were held out."""
    beside: set[Digest] = set()
    for seal in seals(store):
        if seal.number < before and any(task_key(task.inputs, read) in keys for task in seal.tasks(store)):
            beside |= {task_key(task.inputs, read) for task in Dataset.from_content(store.get(seal.dataset))}
    return beside
