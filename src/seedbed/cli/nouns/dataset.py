"""seedbed dataset: store, show, split and sample tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from seedbed.cli import output
from seedbed.cli.command import Invocation, command
from seedbed.cli.options import Because, DatasetName, Seed
from seedbed.cli.output import BLOCKED, Column, line, when
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.loading import Columns
from seedbed.reports.numbers import clipped, counted
from seedbed.storage.store import Json, Ref, short
from seedbed.workspace.execution import dataset_and_split, is_dataset_file
from seedbed.workspace.nouns.datasets import Draw, part_file, read_file, write_files

app = typer.Typer(no_args_is_help=True)


class Stratum(StrEnum):
    """What a draw respects."""

    TAG = "tag"
    EXPECTED = "expected"
    SOURCE = "source"


def _by(stratum: Stratum | None) -> Any:
    return stratum.value if stratum else None


StoredName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a stored dataset.")]
Stratify = Annotated[
    Stratum | None,
    typer.Option(
        "--stratify",
        metavar="BY",
        help="Preserve the proportions of answers (expected) or tags (tag), or keep each source together (source).",
    ),
]

COLUMNS = (
    Column("dataset", lambda each: line((each["name"], "bold"))),
    Column("digest", lambda each: line((short(each["dataset"]), "yellow")), drop=2),
    Column("tasks", lambda each: f"{each['tasks']:,}", number=True),
    Column("held out", lambda each: f"{each['held_out']:,}" if each["held_out"] else "", number=True, drop=2),
    Column("splits", lambda each: _splits(each["splits"]), flexible=True, drop=1),
    Column("since", lambda each: when(each["at"]), drop=3),
)


@command(app, "list")
def list_datasets(call: Invocation) -> None:
    """List the stored datasets."""
    with call.open() as space:
        datasets = space.datasets.describe()
    call.list("datasets", datasets, COLUMNS, "No datasets yet.")


@dataclass(frozen=True)
class FieldOptions:
    """Which fields of a file hold what."""

    expected: Annotated[
        str | None, typer.Option("--expected", metavar="FIELD", help="The field with the expected answer.")
    ] = None
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]FIELD", help="A field to use as an input. Default: all other fields."),
    ] = None
    own: Annotated[str | None, typer.Option("--id", metavar="FIELD", help="The field with the task's id.")] = None
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="FIELD", help="A field with tags.")] = None
    source: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="FIELD", help="The field that names a task's source, such as a document or a customer."
        ),
    ] = None
    split: Annotated[str | None, typer.Option("--split", metavar="FIELD", help="The field naming the split.")] = None
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="FIELD", help="The field with the tasks in a JSON document."),
    ] = None


@command(app, dry_run=True)
def add(
    call: Invocation,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A JSONL, JSON, CSV, TSV, Parquet or Arrow file, or a folder of splits."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="The name to store it under. Default: the file name.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Leave out duplicate tasks.")] = False,
    keep_case: Annotated[
        bool, typer.Option("--keep-case", help="Treat tasks that differ only in letter case as different.")
    ] = False,
    because: Annotated[str | None, typer.Option("--because", metavar="REASON", help="The reason to record.")] = None,
    *,
    fields: FieldOptions,
) -> None:
    """Store a dataset under a name that you can use wherever a DATASET is expected.

    If the name is taken, it moves to the new tasks; the old ones stay in the store.
    """
    inputs = {each.rpartition("=")[0] or each: each.rpartition("=")[2] for each in fields.inputs or ()}
    columns = Columns(inputs, fields.expected, fields.own, fields.tags or (), fields.source, fields.split, fields.rows)
    tasks, repeated = read_file(file, columns, once=once)
    tasks = replace(tasks, case="keep") if keep_case else tasks
    called = name or re.sub(r"(\.\w+?)(\.gz)?$", "", file.resolve().name)
    with call.open() as space:
        ref = space.datasets.add(called, tasks, because=because or f"from {file.name}")
    more = f"; {counted(repeated, 'repeated row')} left out" if repeated else ""
    document = {**_document(called, tasks, ref), "repeated": repeated, "dry_run": call.dry_run}
    call.show(document, _stored(call, called, tasks, more))


@command(app)
def show(
    call: Invocation,
    dataset: DatasetName,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many tasks to print.")] = 5,
) -> None:
    """Show a dataset's size, splits, tags and first tasks. No workspace is needed for files."""
    with call.open_for_files(dataset_and_split(dataset)[0]) as space:
        tasks = space.datasets.get(dataset)
    answers = Counter(str(task.expected) for task in tasks if task.expected is not None)
    tags = Counter(tag for task in tasks for tag in task.tags)
    sources = len({task.source for task in tasks} - {""})
    inputs = list(dict.fromkeys(name for task in tasks for name in task.inputs))
    unanswered = sum(task.expected is None for task in tasks)
    splits = {name: len(ids) for name, ids in tasks.splits.items()}
    first = list(tasks.rows())[:limit]
    document = {
        "dataset": tasks.digest,
        "tasks": len(tasks),
        "splits": splits,
        "tags": dict(tags.most_common()),
        "sources": sources,
        "inputs": inputs,
        "expected": dict(answers.most_common()),
        "without_answer": unanswered,
        "first": first,
    }
    pairs = [
        ("dataset", short(tasks.digest)),
        ("tasks", f"{len(tasks):,}"),
        ("splits", _splits(splits)),
        ("tags", _common(tags)),
        ("sources", f"{sources:,}" if sources else ""),
        ("inputs", clipped(", ".join(inputs), 300)),
        ("answers", _common(answers)),
        ("no answer", f"{unanswered:,}" if unanswered else ""),
    ]
    table = [output.listing(TASKS, first)] if first else []
    call.show(document, output.facts(pairs), *table)


@command(app)
def check(
    call: Invocation,
    dataset: DatasetName,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many findings of each kind to print.")] = 5,
    not_leaked: Annotated[
        list[str] | None,
        typer.Option("--not-leaked", metavar="ID", help="Record that this task of a stored dataset is not a leak."),
    ] = None,
    because: Annotated[str, typer.Option("--because", metavar="REASON", help="The reason for --not-leaked.")] = "",
    playbook: Annotated[
        str | None,
        typer.Option(metavar="PLAYBOOK", help="Also look for tasks that appear in this playbook."),
    ] = None,
) -> None:
    """Look for duplicate tasks, leaks between splits and missing answers. No workspace is needed for files.

    If a task merely resembles one in another split, say so with --not-leaked and --because. Identical tasks always
    count as leaks.

    Exits with code 1 if a split repeats tasks from another, or if any tasks appear in the playbook.
    """
    if not_leaked and not because.strip():
        raise typer.BadParameter("expected a reason with --not-leaked", param_hint="--because")
    with call.open_for_files(dataset_and_split(dataset)[0]) as space:
        for task in not_leaked or ():
            space.datasets.not_leaked(dataset_and_split(dataset)[0], task, because=because)
        checked = space.datasets.check(dataset, playbook)
    pairs = [
        ("tasks", f"{checked.tasks:,}, asking {counted(checked.units, 'different question')}"),
        ("no answer", f"{len(checked.unanswered):,}" if checked.unanswered else ""),
    ]
    rows = [
        *(("duplicate", clipped(", ".join(ids), 60), "") for ids in checked.duplicates[:limit]),
        *(("near duplicate", f"{each.task}, {each.other}", f"{each.similarity:.2f}") for each in checked.near[:limit]),
        *(("leak", f"{one.split}: {one.task}", f"{one.other_split}: {one.other}") for one in checked.leaks[:limit]),
        *(("in playbook", each.task, f"{playbook}: {each.where}") for each in checked.shown[:limit]),
        *(
            ("source?", each.field, f"{each.distinct:,} different in {each.rows:,} tasks")
            for each in checked.fields[:limit]
        ),
    ]
    table = [output.table("finding", "tasks", "", rows=rows)] if rows else ["No duplicates or leaks."]
    call.show({**checked.document(), "dataset": dataset}, output.facts(pairs), *table)
    if checked.leaks or checked.shown:
        raise typer.Exit(BLOCKED)


def _splits_of(task: Json) -> str:
    splits = task.get("split", "")
    return splits if isinstance(splits, str) else ", ".join(splits)


TASKS = (
    Column("task", lambda each: clipped(each["id"], 40)),
    Column("inputs", lambda each: clipped(", ".join(map(str, each["inputs"].values()))), flexible=True),
    Column("expected", lambda each: clipped("" if each["expected"] is None else each["expected"], 30), drop=1),
    Column("split", lambda each: clipped(_splits_of(each), 30), drop=2),
    Column("tags", lambda each: clipped(", ".join(each.get("tags", ())), 30), drop=3),
)


def _common(counts: Counter[str]) -> str:
    text = ", ".join(f"{clipped(each, 30)} ×{count}" for each, count in counts.most_common(8))
    return f"{text}, …" if len(counts) > 8 else text


def _splits(splits: Mapping[str, int]) -> str:
    return clipped(", ".join(f"{name} {count:,}" for name, count in splits.items()), 200)


@dataclass(frozen=True)
class SplitOptions:
    """How a dataset is split, and where its parts go."""

    share: Annotated[float, typer.Option("--share", help="The share of tasks in the first part.")] = 0.5
    folds: Annotated[
        int | None,
        typer.Option("--folds", metavar="K", help="Make K folds instead, named fold-1-train, fold-1-test and so on."),
    ] = None
    stratify: Stratify = None
    seed: Seed = 0
    into: Annotated[
        str, typer.Option("--into", metavar="A,B", help="The names of the two parts of a stored dataset.")
    ] = "train,test"
    train: Annotated[Path | None, typer.Option("--train", metavar="FILE", help="The file for the first part.")] = None
    test: Annotated[Path | None, typer.Option("--test", metavar="FILE", help="The file for the second part.")] = None

    @property
    def names(self) -> list[str]:
        return [each.strip() for each in self.into.split(",")]


@command(app, dry_run=True)
def split(call: Invocation, dataset: DatasetName, parts: SplitOptions) -> None:
    """Split tasks into a part to evolve on and a part to test on, named NAME:train and NAME:test.

    A file is left unchanged; its parts are written to FILE-train.jsonl and FILE-test.jsonl, or its folds to
    FILE-folds.jsonl. The same seed always draws the same tasks. No workspace is needed for files.
    """
    if not 0 < parts.share < 1:
        raise typer.BadParameter(f"found {parts.share}; expected more than 0 and less than 1", param_hint="--share")
    if len({*parts.names}) != 2:
        raise typer.BadParameter(f"found {parts.into}; expected two names", param_hint="--into")
    whole, part = dataset_and_split(dataset)
    with call.open_for_files(whole) as space:
        tasks = space.datasets.get(dataset)
        drawn = Draw(parts.share, parts.folds, _by(parts.stratify), parts.seed).parts(tasks, parts.names)
        if not (is_dataset_file(whole) or parts.train or parts.test):
            whole = whole.removeprefix("datasets/")
            because = f"split {', '.join(drawn)} by seed {parts.seed}"
            space.datasets.add_splits(whole, drawn, because=because)
            files: dict[str, Path | None] = dict.fromkeys(drawn)
        else:
            files = _write(call, tasks, drawn, parts, [whole, *([part] if part else [])])
    documents = [
        {"split": name, "file": str(files[name]) if files[name] else None, "dataset": each.digest, "tasks": len(each)}
        for name, each in drawn.items()
    ]
    places = [str(file) if file and parts.folds is None else f"{file or whole}:{name}" for name, file in files.items()]
    verb = "store" if None in files.values() else "write"
    lines = [
        line(_mark(call, verb), f"{place}, {counted(len(each), 'task')}")
        for place, each in zip(places, drawn.values(), strict=True)
    ]
    call.show({"dataset": tasks.digest, "parts": documents, "dry_run": call.dry_run}, *lines)


def _write(
    call: Invocation, tasks: Dataset, drawn: dict[str, Dataset], parts: SplitOptions, place: list[str]
) -> dict[str, Path | None]:
    """Write the parts of a file beside it; where each went."""
    if parts.folds is not None:
        folded = parts.train or part_file(*place, "folds")
        write_files({folded: tasks.with_splits(drawn)}, dry_run=call.dry_run)
        return dict.fromkeys(drawn, folded)
    first, second = parts.names
    both = [parts.train or part_file(*place, first), parts.test or part_file(*place, second)]
    if both[0].resolve() == both[1].resolve():
        raise typer.BadParameter(f"found {both[0]} twice; expected two files", param_hint="--train, --test")
    write_files(dict(zip(both, drawn.values(), strict=True)), dry_run=call.dry_run)
    return dict(zip(drawn, both, strict=True))


def _mark(call: Invocation, verb: str) -> tuple[str, str]:
    past = {"store": "stored", "write": "wrote"}[verb]
    return (f"would {verb} ", "yellow") if call.dry_run else (f"✓ {past} ", "bold green")


@command(app, "hold-out", dry_run=True)
def hold_out(
    call: Invocation,
    name: StoredName,
    share: Annotated[
        float, typer.Option("--share", help="The share to hold out of the tasks that have no results yet.")
    ] = 0.3,
    seed: Seed = 0,
) -> None:
    """Reserve some tasks of a stored dataset for comparisons that can support a release.

    From then on, NAME refers to the other tasks and NAME:held-out to these, which `evaluate`, `evolve` and exploratory
    comparisons refuse under any name. You can do this once per dataset; the same seed draws the same tasks.
    """
    with call.open() as space:
        held = space.datasets.hold_out(name, share=share, seed=seed)
    document = {"name": held.name, "held_out": list(held.ids), "share": share, "seed": seed}
    done = f"{counted(len(held.ids), 'task')} of {held.name} held out; compare on {held.name}:held-out"
    call.done(document, done)


@command(app, dry_run=True)
def retire(
    call: Invocation,
    name: StoredName,
    task: Annotated[str, typer.Argument(metavar="TASK_ID", help="The id of the task.")],
    because: Because,
) -> None:
    """Retire a broken task from a stored dataset.

    A task that has no results yet is removed. Any other task counts as a missing answer in comparisons that can support
    a release, so that no candidate gains from retiring it.
    """
    with call.open() as space:
        done = space.datasets.retire(name, task, because=because)
    effect = "counts as a missing answer, because it already has results" if done.known else "removed"
    document = {"name": done.name, "task": done.task, "known": done.known, "because": done.because}
    call.done(document, f"retired {done.task}: {effect}")


@command(app, dry_run=True)
def sample(
    call: Invocation,
    dataset: DatasetName,
    n: Annotated[int, typer.Option("-n", "--tasks", min=1, help="How many tasks to draw.")],
    seed: Seed = 0,
    stratify: Stratify = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the sample to a new JSON lines file.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Store the sample under this name.")] = None,
) -> None:
    """Draw a sample, and write it to a file (-o) or store it (--name). The same seed draws the same tasks."""
    if (file is None) == (name is None):
        raise typer.BadParameter("expected either -o FILE or --name NAME", param_hint="-o, --name")
    ref = None
    with call.open_for_files(dataset_and_split(dataset)[0]) as space:
        drawn = space.datasets.get(dataset).sample(n, seed, by=_by(stratify))
    if name:
        because = f"{counted(len(drawn), 'task')} of {Path(dataset).name} by seed {seed}"
        with call.open() as space:
            ref = space.datasets.add(name, drawn, because=because)
        text = _stored(call, name, drawn)
    elif file:
        write_files({file: drawn}, dry_run=call.dry_run)
        text = line(_mark(call, "write"), f"{file}, {counted(len(drawn), 'task')}")
    document = {**_document(name, drawn, ref), "file": str(file) if file else None, "dry_run": call.dry_run}
    call.show(document, text)


def _document(name: str | None, tasks: Dataset, ref: Ref | None) -> Json:
    splits = {each: len(ids) for each, ids in tasks.splits.items()}
    version = ref.version if ref else None
    return {"name": name, "dataset": tasks.digest, "tasks": len(tasks), "splits": splits, "version": version}


def _stored(call: Invocation, name: str, tasks: Dataset, more: str = "") -> Any:
    splits = f" ({_splits({each: len(ids) for each, ids in tasks.splits.items()})})" if tasks.splits else ""
    text = f"{name}, {counted(len(tasks), 'task')}{splits}, {short(tasks.digest)}{more}"
    return line(_mark(call, "store"), text)
