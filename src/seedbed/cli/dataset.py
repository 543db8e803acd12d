"""seedbed dataset: tasks and their expected answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import output
from seedbed.cli.options import AsJson, DatasetFile, DryRun
from seedbed.cli.output import clipped, counted, line

if TYPE_CHECKING:
    from seedbed.evaluation.dataset import Dataset

app = typer.Typer(no_args_is_help=True)


@app.command()
def show(
    dataset: DatasetFile,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many tasks to print.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show what a dataset holds. Needs no workspace.

    JSON: dataset, tasks, inputs, expected (how often each answer), without_answer, first.
    """
    from seedbed.evaluation.dataset import Dataset
    from seedbed.storage.store import short

    found = Dataset.load(dataset)
    answers = Counter(str(task.expected) for task in found if task.expected is not None)
    inputs = list(dict.fromkeys(name for task in found for name in task.inputs))
    unanswered = sum(task.expected is None for task in found)
    first = [task.body() for task in found.tasks[:limit]]
    document = {
        "dataset": found.digest,
        "tasks": len(found),
        "inputs": inputs,
        "expected": dict(answers.most_common()),
        "without_answer": unanswered,
        "first": first,
    }
    common = ", ".join(f"{clipped(answer, 30)} ×{count}" for answer, count in answers.most_common(8))
    pairs = [
        ("dataset", short(found.digest)),
        ("tasks", f"{len(found):,}"),
        ("inputs", ", ".join(inputs)),
        ("answers", f"{common}, …" if len(answers) > 8 else common),
        ("no answer", f"{unanswered:,}" if unanswered else ""),
    ]
    rows = [
        (task["id"], clipped(", ".join(map(str, task["inputs"].values()))), clipped(_told(task["expected"]), 30))
        for task in first
    ]
    table = [output.table("task", "inputs", "expected", rows=rows)] if rows else []
    output.show(document, as_json, output.facts(pairs), *table)


def _told(answer: object) -> object:
    return "" if answer is None else answer


@app.command()
def split(
    dataset: DatasetFile,
    share: Annotated[float, typer.Option("--share", help="The share of tasks in the first file.")] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="Draws which.")] = 0,
    train: Annotated[Path | None, typer.Option("--train", metavar="FILE", help="The first file.")] = None,
    test: Annotated[Path | None, typer.Option("--test", metavar="FILE", help="The second file.")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Split tasks into those to evolve on and those held out, NAME-train.jsonl and NAME-test.jsonl.

    The same seed always draws the same tasks. Needs no workspace.

    JSON: train (file, dataset, tasks), test (file, dataset, tasks), dry_run.
    """
    from seedbed.errors import DatasetError, Problem
    from seedbed.evaluation.dataset import Dataset

    if not 0 < share < 1:
        raise typer.BadParameter(f"found {share}; expected more than 0 and less than 1", param_hint="--share")
    parts = Dataset.load(dataset).split(share, seed)
    if not all(parts):
        found = f"{counted(len(parts[0]), 'task')} and {counted(len(parts[1]), 'task')}"
        raise DatasetError([Problem("--share", found, "at least one in each file", "Give more tasks.")], str(dataset))
    files = [
        train or dataset.with_name(f"{dataset.stem}-train.jsonl"),
        test or dataset.with_name(f"{dataset.stem}-test.jsonl"),
    ]
    if files[0].resolve() == files[1].resolve():
        raise typer.BadParameter(f"found {files[0]} twice; expected two files", param_hint="--train, --test")
    remedy = "Remove it, or name others with --train and --test."
    taken = [Problem(str(file), "a file that exists", "a new one", remedy) for file in files if file.exists()]
    if taken:
        raise DatasetError(taken)
    if not dry_run:
        for file, tasks in zip(files, parts, strict=True):
            write(file, tasks)
    told = [
        {"file": str(file), "dataset": tasks.digest, "tasks": len(tasks)}
        for file, tasks in zip(files, parts, strict=True)
    ]
    mark = ("would write ", "yellow") if dry_run else ("✓ wrote ", "bold green")
    lines = [line(mark, f"{file}, {counted(len(tasks), 'task')}") for file, tasks in zip(files, parts, strict=True)]
    output.show({"train": told[0], "test": told[1], "dry_run": dry_run}, as_json, *lines)


def write(file: Path, tasks: Dataset) -> None:
    """A dataset as JSON lines; `Dataset.load` gives it back."""
    lines = (json.dumps(task.body(), ensure_ascii=False) for task in tasks)
    file.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
