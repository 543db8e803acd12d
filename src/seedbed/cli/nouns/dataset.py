"""seedbed dataset: tasks and their expected answers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DatasetName, DryRun, WorkspaceFile
from seedbed.cli.output import clipped, counted, line, when

if TYPE_CHECKING:
    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.storage.store import Json, Ref
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)


class Respect(StrEnum):
    """What a draw minds."""

    TAG = "tag"
    EXPECTED = "expected"
    SOURCE = "source"


Seed = Annotated[int, typer.Option("--seed", help="Draws which.")]
Stratify = Annotated[
    Respect | None,
    typer.Option(
        "--stratify",
        metavar="BY",
        help="Keep the share of each answer (expected) or tag (tag), or keep whole sources together (source).",
    ),
]


@app.command("list")
def list_datasets(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show the datasets that are kept.

    JSON: datasets (name, dataset, tasks, splits, version, because, by, at).
    """
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        found = [_kept_document(space, ref) for ref in space.store.refs("datasets/")]
    rows = [
        (
            line((each["name"], "bold")),
            line((short(each["dataset"]), "yellow")),
            f"{each['tasks']:,}",
            _splits_told(each["splits"]),
            when(each["at"]),
        )
        for each in found
    ]
    table = output.table("dataset", "digest", "tasks#", "splits", "since", rows=rows)
    output.show({"datasets": found}, as_json, table if rows else line("no datasets yet"))


def _kept_document(space: Workspace, ref: Ref) -> Json:
    body = space.store.get(str(ref.target))
    return {
        "name": ref.name.removeprefix("datasets/"),
        "dataset": ref.target,
        "tasks": len(body["tasks"]),
        "splits": {name: len(ids) for name, ids in body.get("splits", {}).items()},
        "version": ref.version,
        "because": ref.because,
        "by": ref.by,
        "at": ref.at,
    }


@app.command()
def add(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, JSON, CSV, TSV, Parquet, Arrow, or a folder of splits.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called from now on. Unless given: as the file.")
    ] = None,
    expected: Annotated[
        str | None, typer.Option("--expected", metavar="FIELD", help="The field that is the expected answer.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="[NAME=]FIELD", help="A field that is an input. Unless given: all that are nothing else."
        ),
    ] = None,
    own: Annotated[str | None, typer.Option("--id", metavar="FIELD", help="The field that names a task.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="FIELD", help="A field that holds tags.")] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="FIELD", help="What tasks share: the field of a document or a customer."),
    ] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="FIELD", help="The field that names a split.")] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="FIELD", help="The list of tasks within a JSON document.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Leave out tasks that are there a second time.")] = False,
    because: Annotated[str | None, typer.Option("--because", metavar="REASON", help="Why; it is recorded.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep a dataset under a name, which then works wherever a DATASET is asked for.

    Under a name that is known the new tasks take the place of the old ones, which stay in the store.

    JSON: name, dataset, tasks, splits, repeated, version, dry_run.
    """
    from seedbed.evaluation.datasets import loading
    from seedbed.evaluation.datasets.dataset import Dataset

    named = {each.rpartition("=")[0] or each: each.rpartition("=")[2] for each in inputs or ()}
    columns = loading.columns(named, expected, own, tags or (), source, split, rows)
    loaded = loading.read(file, columns, once=once)
    tasks = Dataset.made(loaded)
    called = name or re.sub(r"(\.\w+?)(\.gz)?$", "", file.resolve().name)
    with options.opened(workspace, dry_run=dry_run) as space:
        ref = _keep(space, called, tasks, because or f"from {file.name}")
    document = {**_told(called, tasks, ref), "repeated": loaded.repeated, "dry_run": dry_run}
    more = f"; {counted(loaded.repeated, 'repeated row')} left out" if loaded.repeated else ""
    output.show(document, as_json, _kept_line(called, tasks, dry_run, more))


@app.command()
def show(
    dataset: DatasetName,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many tasks to print.")] = 5,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a dataset holds. A file needs no workspace.

    JSON: dataset, tasks, splits, tags (how many tasks of each), sources (how many), inputs, expected (how often each
    answer), without_answer, first.
    """
    from seedbed.storage.store import short

    with options.opened_for_dataset(workspace, dataset) as space:
        found = options.dataset(space, dataset)
    answers = Counter(str(task.expected) for task in found if task.expected is not None)
    tags = Counter(tag for task in found for tag in task.tags)
    sources = len({task.source for task in found} - {""})
    inputs = list(dict.fromkeys(name for task in found for name in task.inputs))
    unanswered = sum(task.expected is None for task in found)
    splits = {name: len(ids) for name, ids in found.splits.items()}
    first = list(found.rows())[:limit]
    document = {
        "dataset": found.digest,
        "tasks": len(found),
        "splits": splits,
        "tags": dict(tags.most_common()),
        "sources": sources,
        "inputs": inputs,
        "expected": dict(answers.most_common()),
        "without_answer": unanswered,
        "first": first,
    }
    pairs = [
        ("dataset", short(found.digest)),
        ("tasks", f"{len(found):,}"),
        ("splits", _splits_told(splits)),
        ("tags", _common(tags)),
        ("sources", f"{sources:,}" if sources else ""),
        ("inputs", clipped(", ".join(inputs), 300)),
        ("answers", _common(answers)),
        ("no answer", f"{unanswered:,}" if unanswered else ""),
    ]
    table = [_table(first)] if first else []
    output.show(document, as_json, output.facts(pairs), *table)


def _table(tasks: list[Json]) -> Any:
    """Tasks below each other; a column that is empty in all of them is left out."""
    columns = dict(
        zip(("task", "inputs", "expected", "split", "tags"), zip(*map(_row, tasks), strict=True), strict=True)
    )
    used = {heading: cells for heading, cells in columns.items() if any(cells)}
    return output.table(*used, rows=zip(*used.values(), strict=True))


def _row(task: Json) -> tuple[str, ...]:
    answer, splits = task["expected"], task.get("split", "")
    return (
        clipped(task["id"], 40),
        clipped(", ".join(map(str, task["inputs"].values()))),
        clipped("" if answer is None else answer, 30),
        clipped(splits if isinstance(splits, str) else ", ".join(splits), 30),
        clipped(", ".join(task.get("tags", ())), 30),
    )


def _common(counts: Counter[str]) -> str:
    told = ", ".join(f"{clipped(each, 30)} ×{count}" for each, count in counts.most_common(8))
    return f"{told}, …" if len(counts) > 8 else told


def _splits_told(splits: Mapping[str, int]) -> str:
    return clipped(", ".join(f"{name} {count:,}" for name, count in splits.items()), 200)


@app.command()
def split(
    dataset: DatasetName,
    share: Annotated[float, typer.Option("--share", help="The share of tasks in the first part.")] = 0.5,
    folds: Annotated[
        int | None,
        typer.Option("--folds", metavar="K", help="Instead: K folds, named fold-1-train and fold-1-test and so on."),
    ] = None,
    stratify: Stratify = None,
    seed: Seed = 0,
    into: Annotated[
        str, typer.Option("--into", metavar="A,B", help="What the two parts of a kept dataset are called.")
    ] = "train,test",
    train: Annotated[Path | None, typer.Option("--train", metavar="FILE", help="The first file.")] = None,
    test: Annotated[Path | None, typer.Option("--test", metavar="FILE", help="The second file.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Split tasks into those to evolve on and those held out: NAME:train and NAME:test from now on.

    A file stays as it is, and its parts are written to FILE-train.jsonl and FILE-test.jsonl, or with their folds to
    FILE-folds.jsonl. The same seed always draws the same tasks. A file needs no workspace.

    JSON: dataset, parts (split, file, dataset, tasks), dry_run.
    """
    if not 0 < share < 1:
        raise typer.BadParameter(f"found {share}; expected more than 0 and less than 1", param_hint="--share")
    names = [each.strip() for each in into.split(",")]
    if len({*names}) != 2:
        raise typer.BadParameter(f"found {into}; expected two names", param_hint="--into")
    whole, part = options.dataset_and_split(dataset)
    with options.opened_for_dataset(workspace, dataset) as space:
        tasks = options.dataset(space, dataset)
        parts = _drawn(tasks, share, folds, stratify, seed, names)
        if space and not (options.is_tasks(whole) or train or test):
            whole = whole.removeprefix("datasets/")
            _keep_splits(space, whole, parts, f"split {', '.join(parts)} by seed {seed}", dry_run)
            files: dict[str, Path | None] = dict.fromkeys(parts)
        elif folds is not None:
            folded = train or _beside(whole, part, "folds")
            files = dict.fromkeys(parts, folded)
            _write({folded: tasks.with_splits(parts)}, dry_run)
        else:
            both = [train or _beside(whole, part, names[0]), test or _beside(whole, part, names[1])]
            if both[0].resolve() == both[1].resolve():
                raise typer.BadParameter(f"found {both[0]} twice; expected two files", param_hint="--train, --test")
            files = dict(zip(parts, both, strict=True))
            _write(dict(zip(both, parts.values(), strict=True)), dry_run)
    told = [
        {"split": name, "file": str(files[name]) if files[name] else None, "dataset": each.digest, "tasks": len(each)}
        for name, each in parts.items()
    ]
    places = [str(file) if file and folds is None else f"{file or whole}:{name}" for name, file in files.items()]
    done = "keep" if None in files.values() else "write"
    lines = [
        line(_mark(done, dry_run), f"{place}, {counted(len(each), 'task')}")
        for place, each in zip(places, parts.values(), strict=True)
    ]
    output.show({"dataset": tasks.digest, "parts": told, "dry_run": dry_run}, as_json, *lines)


def _mark(verb: str, dry_run: bool) -> tuple[str, str]:
    past = {"keep": "kept", "write": "wrote"}[verb]
    return (f"would {verb} ", "yellow") if dry_run else (f"✓ {past} ", "bold green")


def _drawn(
    tasks: Dataset, share: float, folds: int | None, stratify: Respect | None, seed: int, names: list[str]
) -> dict[str, Dataset]:
    from seedbed.errors import DatasetError, Problem

    by: Any = stratify.value if stratify else None
    if folds is not None:
        pairs = enumerate(tasks.folds(folds, seed, by=by), 1)
        return {f"fold-{n}-{name}": part for n, pair in pairs for name, part in zip(names, pair, strict=True)}
    halves = tasks.stratified(share, seed, by=by) if by else tasks.split(share, seed)
    if not all(halves):
        found = f"{counted(len(halves[0]), 'task')} and {counted(len(halves[1]), 'task')}"
        raise DatasetError([Problem("--share", found, "at least one in each part", "Give more tasks.")])
    return dict(zip(names, halves, strict=True))


def _keep_splits(space: Workspace, name: str, parts: dict[str, Dataset], because: str, dry_run: bool) -> None:
    from seedbed.errors import DatasetError, Problem

    tasks = options.dataset(space, f"datasets/{name}")
    remedy = "Name others with --into, or add the dataset again."
    taken = [each for each in parts if each in tasks.splits]
    if taken:
        raise DatasetError([Problem(f"splits.{each}", "a split that exists", "a new one", remedy) for each in taken])
    named = tasks.with_splits(parts)
    if not dry_run:
        _keep(space, name, named, because)


def _beside(whole: str, part: str | None, name: str) -> Path:
    """Where a part of a file goes: mail-train.jsonl beside mail.csv."""
    from seedbed.evaluation.datasets.files import ending

    path = Path(whole)
    stem = path.name[: path.name.lower().rindex(ending(path))] if ending(path) else path.name
    return path.with_name("-".join([stem, *([part] if part else []), name]) + ".jsonl")


@app.command()
def sample(
    dataset: DatasetName,
    n: Annotated[int, typer.Option("-n", "--tasks", min=1, help="How many tasks.")],
    seed: Seed = 0,
    stratify: Stratify = None,
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write them to a new file of JSON lines.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Keep them under this name.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Draw a smaller dataset, into a file (-o) or kept under a name. The same seed always draws the same tasks.

    JSON: name, dataset, tasks, splits, version, file, dry_run.
    """
    if (file is None) == (name is None):
        raise typer.BadParameter("expected -o FILE or --name NAME, one of the two", param_hint="-o, --name")
    by: Any = stratify.value if stratify else None
    ref = None
    with options.opened_for_dataset(workspace, dataset) as space:
        drawn = options.dataset(space, dataset).sample(n, seed, by=by)
    if name:
        with options.opened(workspace, dry_run=dry_run) as home:
            ref = _keep(home, name, drawn, f"{counted(len(drawn), 'task')} of {Path(dataset).name} by seed {seed}")
        told = _kept_line(name, drawn, dry_run)
    elif file:
        _write({file: drawn}, dry_run)
        told = line(_mark("write", dry_run), f"{file}, {counted(len(drawn), 'task')}")
    document = {**_told(name, drawn, ref), "file": str(file) if file else None, "dry_run": dry_run}
    output.show(document, as_json, told)


def _keep(space: Workspace, name: str, tasks: Dataset, because: str) -> Ref:
    """Point a name at these tasks; one that does so already is left alone."""
    from seedbed.errors import DatasetError, Problem, shown
    from seedbed.evaluation.datasets.files import KINDS, ending
    from seedbed.playbooks.library import REF_NAME

    if not REF_NAME.fullmatch(name) or ending(Path(name)) in KINDS:
        remedy = "Give one with --name."
        raise DatasetError([Problem("--name", shown(name), "a word such as mail, not that of a file", remedy)])
    digest = space.store.put("dataset", tasks.content())
    current = space.store.ref(f"datasets/{name}")
    if current and current.target == digest:
        return current
    return space.store.move(f"datasets/{name}", digest, expected=current, because=because, by=space.by)


def _told(name: str | None, tasks: Dataset, ref: Ref | None) -> Json:
    splits = {each: len(ids) for each, ids in tasks.splits.items()}
    version = ref.version if ref else None
    return {"name": name, "dataset": tasks.digest, "tasks": len(tasks), "splits": splits, "version": version}


def _kept_line(name: str, tasks: Dataset, dry_run: bool, more: str = "") -> Any:
    from seedbed.storage.store import short

    splits = f" ({_splits_told({each: len(ids) for each, ids in tasks.splits.items()})})" if tasks.splits else ""
    return line(_mark("keep", dry_run), f"{name}, {counted(len(tasks), 'task')}{splits}, {short(tasks.digest)}{more}")


def _write(files: dict[Path, Dataset], dry_run: bool) -> None:
    """New files of JSON lines, all or none; `Dataset.load` gives the datasets back."""
    from seedbed.errors import DatasetError, Problem

    remedy = "Remove it, or name another."
    taken = [Problem(str(file), "a file that exists", "a new one", remedy) for file in files if file.exists()]
    if taken:
        raise DatasetError(taken)
    for file, tasks in files.items() if not dry_run else ():
        lines = (json.dumps(row, ensure_ascii=False) for row in tasks.rows())
        file.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
