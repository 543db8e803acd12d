"""Drill: send tasks to a channel as if users asked, to try a ramp and its guards before real users do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from seedbed.errors import RunError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import Metric, blind
from seedbed.runs.run import Run
from seedbed.storage.store import Digest

Serve = Callable[[str, Mapping[str, Any]], Awaitable[Run]]
"""Serves a request for the user with that key."""
RecordRating = Callable[[Run, float], object]
"""Records the rating of a run, from 0 to 1."""

AT_ONCE = 8


@dataclass(slots=True)
class Drill:
    """How often each playbook was served, how often well, and how many runs failed."""

    met: Counter[Digest] = field(default_factory=Counter)
    good: Counter[Digest] = field(default_factory=Counter)
    failed: int = 0


async def drill(
    tasks: Dataset,
    units: Iterable[int],
    metric: Metric,
    serve: Serve,
    record_rating: RecordRating,
    watch: Callable[[int], None],
) -> Drill:
    """Serve each unit the next task and rate the output. After the last task the first comes again.

    `watch` receives the number of units served.
    """
    result, limit, through = Drill(), asyncio.Semaphore(AT_ONCE), count(1)

    async def one(unit: int, task: Task) -> None:
        async with limit:
            try:
                run = await serve(f"unit {unit}", task.inputs)
            except RunError:
                result.failed += 1
                return
            finally:
                watch(next(through))
            result.met[run.playbook] += 1
            score = await metric(blind(run), task)
            if score.value is not None:
                value = min(max(score.value, 0.0), 1.0)
                record_rating(run, value)
                result.good[run.playbook] += int(value >= 0.5)

    listed = list(tasks)
    await asyncio.gather(*(one(unit, listed[unit % len(listed)]) for unit in units))
    return result
