"""Evaluations as commands do them: one playbook after the other, on the same money, with live progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seedbed.cli import options, output, progress
from seedbed.cli.output import INTERRUPTED, line

if TYPE_CHECKING:
    from seedbed.evaluation.cells import Cell
    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evaluation.scorecard import Scorecard
    from seedbed.playbooks.playbook import Playbook
    from seedbed.reports.scorecard import Report
    from seedbed.workspace import Workspace


@dataclass(frozen=True)
class How:
    """How evaluations are done: on how much money together, where, and how long a run may take."""

    max_cost_usd: float | None = None
    parallel: str | None = None
    timeout_seconds: float | None = None


class Scoring:
    """Evaluations in a workspace, one after the other, that share their money."""

    def __init__(self, space: Workspace, how: How) -> None:
        self._space = space
        self._how = how
        self._paid_usd = 0.0

    async def card(
        self, playbook: Playbook, tasks: Dataset, by: Sequence[Metric], replicates: int, watch: Callable[[Cell], None]
    ) -> Scorecard:
        from seedbed.evaluation.evaluate import evaluate

        limit, space = self._how.max_cost_usd, self._space
        left = None if limit is None else max(0.0, limit - self._paid_usd)
        context = replace(space.context_on(self._how.parallel), timeout_seconds=self._how.timeout_seconds)
        space.library.keep(playbook, because="evaluated")
        space.store.put("dataset", tasks.content())
        card = await evaluate(playbook, tasks, by, context, replicates=replicates, max_cost_usd=left, watch=watch)
        self._paid_usd += card.cost_usd
        return card


def chosen(space: Workspace, names: Iterable[str]) -> dict[str, Playbook]:
    """The playbooks by what they are called: a file by its name, without its folder where that is enough."""
    typed = list(dict.fromkeys(names))
    short = [Path(each).name if options.is_file(each) else each for each in typed]
    called = [each if short.count(each) == 1 else whole for each, whole in zip(short, typed, strict=True)]
    return {name: space.playbook(whole) for name, whole in zip(called, typed, strict=True)}


def evaluated(
    space: Workspace,
    playbooks: Mapping[str, Playbook],
    tasks: Dataset,
    by: Sequence[Metric],
    replicates: int,
    how: How,
) -> Report:
    """The scorecards of some playbooks over the same tasks."""
    from seedbed.reports.scorecard import Report

    scoring = Scoring(space, how)
    with watched(len(tasks) * replicates * len(playbooks)) as watch:

        async def cards() -> dict[str, Scorecard]:
            return {
                name: await scoring.card(playbook, tasks, by, replicates, partial(watch, name))
                for name, playbook in playbooks.items()
            }

        return Report(options.complete(cards()), tasks.digest)


@contextmanager
def watched(total: int) -> Iterator[Callable[[str, Cell], None]]:
    """A watcher of cells that come in rounds; whoever interrupts is told how to go on."""
    done = 0
    try:
        with progress.candidates(total) as watch:

            def heard(name: str, cell: Cell) -> None:
                nonlocal done
                done += 1
                watch(name, cell)

            yield heard
    except KeyboardInterrupt:
        tell(f"stopped after {done:,} of {total:,}: the same command goes on from there, and pays nothing twice")
        raise typer.Exit(INTERRUPTED) from None


def tell(text: str) -> None:
    """Say something that is no result, on the error stream."""
    output.errors().print(line(("! ", "bold yellow"), text), soft_wrap=True)
