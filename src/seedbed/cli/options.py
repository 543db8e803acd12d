"""What commands share: their options, and how they find and open a workspace."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from seedbed.cli import output

if TYPE_CHECKING:
    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.playbooks.playbook import Playbook
    from seedbed.runs.cassette import ReplayMode
    from seedbed.storage.store import Store
    from seedbed.workspace import Workspace

Result = TypeVar("Result")

FILE = "seedbed.yaml"

REPORTS = (".md", ".html")
"""How the names of files end that the report of a comparison is written to."""

WorkspaceFile = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="FILE",
        help=f"The workspace file. Unless given: {FILE} in this folder or one above.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen and change nothing.")]
Because = Annotated[str, typer.Option("--because", metavar="REASON", help="Why; it is recorded.")]
PlaybookName = Annotated[str, typer.Argument(metavar="PLAYBOOK", help="A file, a digest, a ref or a channel.")]
DatasetName = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="A file or folder of tasks, or a kept dataset; NAME:SPLIT is one split of it."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change one value, such as roles.writer.temperature=0.2."),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="How many at most.")]
MetricName = Annotated[str, typer.Option("--metric", help="How answers are scored: exact_match.")]


def dollars(amount: float | None) -> float | None:
    """An amount of money as it is typed: a number from 0."""
    if amount is not None and not 0 <= amount < math.inf:
        raise typer.BadParameter(f"found {amount:g}; expected an amount in dollars, from 0, such as 0.5")
    return amount


def max_cost(meaning: str) -> Any:
    """The option --max-cost, with what it means to a command."""
    return typer.Option("--max-cost", metavar="USD", callback=dollars, help=meaning)


def workspace_file(given: Path | None) -> Path:
    """The file named, or the nearest one upwards. Raises SettingsError if there is none."""
    from seedbed.errors import Problem, SettingsError

    here = Path.cwd()
    tried = [given] if given else [folder / FILE for folder in (here, *here.parents)]
    for path in tried:
        if path.is_file():
            return path
    found = f"no file {given}" if given else f"no {FILE} in {here} or above"
    remedy = "Run: seedbed init, or name the file with --workspace."
    raise SettingsError([Problem("workspace", found, "a workspace file", remedy)])


@contextmanager
def opened(given: Path | None, *, dry_run: bool = False) -> Iterator[Workspace]:
    """The workspace, closed again at the end. In a dry run nothing that happens in it is kept."""
    from seedbed.settings import Settings
    from seedbed.workspace import Workspace

    path = workspace_file(given)
    # A playbook's own program lies beside the workspace file more often than it is installed.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    space = Workspace.at(Settings.load(path))
    try:
        if dry_run:
            from seedbed.storage.dry_run import DryRunStore

            yield Workspace(space.settings, DryRunStore(space.store))
        else:
            yield space
    finally:
        space.close()


@contextmanager
def opened_for(given: Path | None, *names: str) -> Iterator[Workspace | None]:
    """The workspace, or None where there is none and all these playbooks are files, which need none."""
    from seedbed.errors import SettingsError

    try:
        path = workspace_file(given)
    except SettingsError:
        if given or not all(map(is_file, names)):
            raise
        yield None
    else:
        with opened(path) as space:
            yield space


def complete(work: Coroutine[Any, Any, Result]) -> Result:
    import asyncio  # for those who only ask for help it would be the slowest import

    return asyncio.run(work)


def assignments(pairs: Iterable[str] | None, option: str) -> dict[str, Any]:
    """`PATH=VALUE` pairs as a mapping; values are YAML, so that 0.2 is a number and [a, b] a list."""
    return {name: _value(text) for name, text in texts(pairs, option).items()}


def _value(text: str) -> Any:
    """A value as it was meant: prose stays as it is, although YAML makes a mapping of `Mood: {text}` or `{text}`."""
    from seedbed.documents import parse
    from seedbed.errors import PlaybookError

    try:
        value = parse(text, "", PlaybookError).value
    except PlaybookError:
        return text
    if isinstance(value, str):
        meant = text.startswith(("'", '"'))
    elif isinstance(value, dict):
        meant = text.startswith("{") and None not in value.values()
    elif isinstance(value, list):
        meant = text.startswith("[")
    else:
        meant = value is not None or text in ("null", "~")
    return value if meant else text


def texts(pairs: Iterable[str] | None, option: str) -> dict[str, str]:
    """`name=value` pairs as a mapping of texts."""
    result = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"found {pair!r}; expected name=value", param_hint=option)
        result[name] = value
    return result


def chosen(space: Workspace | None, name: str, values: dict[str, Any] | None = None) -> Playbook:
    """The playbook of that name with some values changed: any value of a file, the genes of a kept playbook.

    Files need no workspace.
    """
    from seedbed.playbooks.genes import with_genes
    from seedbed.playbooks.playbook import Playbook

    if is_file(name):
        return Playbook.load(name, values)
    assert space is not None
    playbook = space.playbook(name)
    return with_genes(playbook, values) if values else playbook


def is_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml", ".json")


def kept(space: Workspace, name: str, because: str) -> str:
    """The digest of a playbook that is in the store, once this returns."""
    return space.library.keep(space.playbook(name), because=because) if is_file(name) else space.library.find(name)


def dataset(space: Workspace | None, name: str) -> Dataset:
    """The tasks of a file, a folder, a kept name or a digest; `:SPLIT` after it takes one split of them.

    What is there as a file or folder is meant first, and needs no workspace.
    """
    from seedbed.errors import NotFound, shown
    from seedbed.evaluation.datasets.dataset import Dataset

    if found := dataset_file(name):
        return found
    assert space is not None
    whole, split = dataset_and_split(name)
    ref = space.store.ref(f"datasets/{whole.removeprefix('datasets/')}")
    digest = ref.target if ref else whole
    body = space.store.get(digest) if isinstance(digest, str) and digest.startswith("b2:") else {}
    if "tasks" not in body:
        known = ", ".join(ref.name.removeprefix("datasets/") for ref in space.store.refs("datasets/")) or "none yet"
        remedy = "A file such as tasks.jsonl works too; seedbed dataset add keeps one"
        raise NotFound(f"no dataset is called {shown(whole)}. Known names: {known}. {remedy}")
    found = Dataset.from_content(body)
    return found.only(split=split) if split else found


def dataset_file(name: str) -> Dataset | None:
    """The tasks if a file or folder is meant, or a split of one; None for what a store has to be asked for."""
    from seedbed.evaluation.datasets.dataset import Dataset

    whole, split = dataset_and_split(name)
    if not is_tasks(whole):
        return None
    found = Dataset.load(whole)
    return found.only(split=split) if split else found


def dataset_and_split(name: str) -> tuple[str, str | None]:
    """`mail:test` as `mail` and `test`; a file whose own name has a colon is meant first."""
    parts = None if Path(name).exists() else re.fullmatch(r"(b2:[0-9a-f]{64}|.+?):([^:/\\]+)", name)
    return (parts[1], parts[2]) if parts and parts[1] != "b2" else (name, None)


def is_tasks(name: str) -> bool:
    """Whether a dataset is meant as a file or folder: by its ending, or because it is there."""
    from seedbed.evaluation.datasets.files import KINDS, ending

    return ending(Path(name)) in KINDS or Path(name).exists()


@contextmanager
def opened_for_dataset(given: Path | None, name: str) -> Iterator[Workspace | None]:
    """The workspace, or None where there is none and the dataset is a file or folder, which needs none."""
    from seedbed.errors import SettingsError

    try:
        path = workspace_file(given)
    except SettingsError:
        if given or not is_tasks(dataset_and_split(name)[0]):
            raise
        yield None
    else:
        with opened(path) as space:
            yield space


def expect_metric(given: Path | None, name: str) -> None:
    """A name that nobody has given is a wrong call, to be told before a store is made."""
    from seedbed.errors import SettingsError
    from seedbed.evaluation.metrics.metric import parsed
    from seedbed.settings import Settings

    own = Settings.load(workspace_file(given)).metrics
    if ":" not in name and name.partition("(")[0].strip() not in own:
        try:
            parsed(name, {})
        except SettingsError as wrong:
            raise typer.BadParameter(str(wrong), param_hint="--metric") from None


def metric(space: Workspace, name: str) -> Metric:
    """The metric of that name: one that comes with seedbed, one's own, or a judge of the workspace."""
    from seedbed.errors import SettingsError
    from seedbed.evaluation.metrics.metric import parsed

    judges = space.judges  # what is wrong in the workspace file is no wrong call
    try:
        return parsed(name, judges)
    except SettingsError as wrong:
        raise typer.BadParameter(str(wrong), param_hint="--metric") from None


def moment(text: str | None, option: str) -> datetime | None:
    """A date or time as people write it; without a zone it is local."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        hint = "expected a date or time such as 2026-11-15 or 2026-11-15T14:00"
        raise typer.BadParameter(f"found {text!r}; {hint}", param_hint=option) from None


def mode(text: str) -> ReplayMode:
    """A mode of replay as people write it."""
    from seedbed.errors import SettingsError
    from seedbed.runs.cassette import ReplayMode

    try:
        return ReplayMode.parse(text)
    except SettingsError as wrong:
        (problem,) = wrong.problems
        raise typer.BadParameter(f"found {problem.found}; expected {problem.expected}", param_hint="--mode") from None


def new_report(file: Path | None) -> None:
    """Refuse a file that a report cannot be written to, before anything is paid."""
    if file and file.suffix not in REPORTS:
        expected = f"expected a name that ends with {' or '.join(REPORTS)}"
        raise typer.BadParameter(f"found {file.name}; {expected}", param_hint="--output")
    if file:
        output.expect_new(file)


def whole_run(store: Store, start: str) -> str:
    """The id of the run that begins so."""
    from seedbed.errors import NotFound
    from seedbed.storage.store import Query

    if not re.fullmatch(r"[0-9a-f]{4,31}", start):
        return start
    found = [fact.key for fact in store.facts(Query(kind="start", key_from=start, limit=2))]
    if len(found) > 1:
        raise NotFound(f"{start} begins several runs. Give more characters")
    return found[0] if found else start


def looks_like_digest(text: str) -> bool:
    return re.fullmatch(r"(b2:)?[0-9a-f]{8,64}", text) is not None
