"""Specialised playbooks and their bases over all corpora, at the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from seedbed.cli import options, output
from seedbed.cli.output import counted, line, money
from seedbed.cli.views import scoring

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evaluation.scorecard import Scorecard
    from seedbed.evaluation.specialisation import Across
    from seedbed.playbooks.playbook import Playbook
    from seedbed.playbooks.specialised import Specialised
    from seedbed.workspace import Workspace


def named(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The specialised playbooks and the CORPUS=DATASET pairs among the arguments of --across."""
    given = list(arguments)
    pairs = options.texts([each for each in given if "=" in each], "CORPUS=DATASET")
    return [each for each in given if "=" not in each], pairs


def evaluated(
    space: Workspace,
    task: str,
    names: Sequence[str],
    datasets: dict[str, str],
    by: Sequence[Metric],
    replicates: int,
    how: scoring.How,
) -> Across:
    """Every specialised playbook of a kind of task, or those named, and their bases, on every corpus."""
    from seedbed.evaluation.specialisation import Specialist, across
    from seedbed.experiments.held_out import seen_before

    library = space.library
    chosen = _chosen(space, task, names)
    specialists = [Specialist(each.name, each.corpus, each.base, library.get(each.playbook)) for each in chosen]
    bases = {each.base: library.get(each.base) for each in chosen}
    corpora = _corpora(space, task, chosen, datasets, every=not names)
    work = scoring.Scoring(space, how)
    total = sum(map(len, corpora.values())) * replicates * len({*bases, *(each.name for each in specialists)})
    with scoring.watched(total) as watch:

        async def evaluate(name: str, playbook: Playbook, corpus: str, tasks: Dataset) -> Scorecard:
            return await work.card(playbook, tasks, by, replicates, partial(watch, f"{name} on {corpus}"))

        return options.complete(across(bases, specialists, corpora, evaluate, partial(seen_before, library)))


def _chosen(space: Workspace, task: str, names: Sequence[str]) -> list[Specialised]:
    from seedbed.errors import NotFound
    from seedbed.playbooks import specialised

    library = space.library
    found = [specialised.find(library, each) for each in dict.fromkeys(names)]
    for each in found:
        if each.task != task:
            raise typer.BadParameter(f"found {each.name}; expected playbooks for {task}", param_hint="PLAYBOOK")
    found = found or specialised.all_specialised(library, task)
    if not found:
        known = ", ".join(dict.fromkeys(each.task for each in specialised.all_specialised(library))) or "none yet"
        remedy = f"Begin one: seedbed playbook specialise BASE CORPUS/{task}"
        raise NotFound(f"no playbook is specialised for {task}. Known kinds of task: {known}. {remedy}")
    for each in found:
        if each.current is None:
            remedy = f"Inherit another: seedbed playbook rebase {each.name} --onto BASE"
            raise NotFound(f"{each.name} inherits {each.base}, and nothing is called so any more. {remedy}")
    return found


def _corpora(
    space: Workspace, task: str, chosen: Iterable[Specialised], datasets: dict[str, str], *, every: bool
) -> dict[str, Dataset]:
    """The tasks of each corpus: those that are given, or kept as datasets/CORPUS/TASK."""
    from seedbed.errors import DatasetError, Problem

    kept = [ref.name.split("/") for ref in space.store.refs("datasets/") if ref.name.count("/") == 2]
    known = {corpus for _, corpus, of in kept if of == task}
    wanted = {each.corpus for each in chosen} | {*datasets} | (known if every else set())
    problems = [
        Problem(
            f"datasets/{corpus}/{task}",
            "nothing",
            f"the tasks of {corpus}",
            f"Keep them: seedbed dataset add FILE --name {corpus}/{task}, or add {corpus}=FILE to the command.",
        )
        for corpus in sorted(wanted - {*datasets} - known)
    ]
    if problems:
        raise DatasetError(problems)
    return {
        corpus: options.dataset(space, datasets.get(corpus, f"datasets/{corpus}/{task}")) for corpus in sorted(wanted)
    }


def view(found: Across) -> RenderableType:
    """Scores and gains as tables with a column for each corpus, and which corpus is hard."""
    from rich.console import Group

    from seedbed.reports import specialisation as across

    columns = [f"{corpus}#" for corpus in found.corpora]
    scores = output.table("playbook", *columns, rows=across.score_rows(found), title=found.metric)
    rows = across.gain_rows(found)
    if len(found.bases) == 1:  # then the heading names it
        gains = output.table(f"gain over {found.bases[0]}", *columns, rows=[(name, *rest) for name, _, *rest in rows])
    else:
        gains = output.table("gain over the base", "base", *columns, rows=rows)
    hard = [
        line((f"{base}, the hardest first: ", "dim"), ", ".join(corpus for corpus, _ in found.difficulty(base)))
        for base in found.bases
    ]
    paid = sum(card.cost_usd for card in found.cards.values())
    known = sum(card.reused for card in found.cards.values())
    spent = line((f"paid now: {money(paid)}; {counted(known, 'cell')} known before", "dim"))
    notes = [line(("! ", "bold yellow"), note) for note in found.notes]
    return Group(scores, "", gains, *hard, *notes, spent, line((across.MEANING, "dim")))
