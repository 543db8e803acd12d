"""seedbed store: look after the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DryRun, WorkspaceFile
from seedbed.cli.output import BLOCKED, PASS, counted, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.storage.store import UpkeptStore
    from seedbed.storage.upkeep import Verification

app = typer.Typer(no_args_is_help=True)

NEW_KEY = "SEEDBED_NEW_KEY"


@contextmanager
def upkept(workspace: Path | None) -> Iterator[UpkeptStore]:
    """The store of the workspace, if it can be looked after."""
    from seedbed.errors import StoreError
    from seedbed.storage.store import Upkeep

    with options.opened(workspace) as space:
        if not isinstance(space.store, Upkeep):
            raise StoreError(f"{type(space.store).__name__} offers no upkeep; expected one of seedbed's own stores")
        yield space.store


@app.command()
def migrate(
    to: Annotated[int | None, typer.Option("--to", metavar="N", help="The version; the newest unless given.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring the schema of a SQL store to a version, also back to an older one; nothing is lost either way.

    Opening a store brings it to the newest version, so going back is for handing it to an older seedbed.

    JSON: store, before, after, steps, dry_run.
    """
    from seedbed.premises import store_url
    from seedbed.settings import Settings
    from seedbed.storage.paths import without_password
    from seedbed.storage.sql.migrations import MIGRATIONS
    from seedbed.storage.sql.store import migrate_to

    where = store_url(Settings.load(options.workspace_file(workspace)))
    before, goal = migrate_to(where, to, dry_run=dry_run)
    between = [step for step in MIGRATIONS if min(before, goal) < step.number <= max(before, goal)]
    steps = [step.name for step in (between if goal > before else reversed(between))]
    document = {"store": without_password(where), "before": before, "after": goal, "steps": steps, "dry_run": dry_run}
    way = "up" if goal > before else "down"
    told = f"{'would take' if dry_run else 'took'} {way}: {', '.join(steps)}" if steps else "nothing to do"
    output.show(document, as_json, line(("✓ ", "bold green"), f"version {before} → {goal}, {told}"))


@app.command()
def verify(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Re-derive every name, link and ref, and list what does not fit.

    JSON: clean, problems, contents, sealed, facts, chained, refs, head. Exit code 1 if anything is damaged.
    """
    from seedbed.storage import upkeep

    with upkept(workspace) as store:
        report = upkeep.verify(store)
    document = {
        "clean": report.clean,
        "problems": output.problem_documents(report.problems),
        "contents": report.contents,
        "sealed": report.sealed,
        "facts": report.facts,
        "chained": report.chained,
        "refs": report.refs,
        "head": report.head,
    }
    output.show(document, as_json, *report_view(report))
    raise typer.Exit(PASS if report.clean else BLOCKED)


def report_view(report: Verification) -> Iterator[RenderableType]:
    from seedbed.storage.store import short

    checked = (
        f"{counted(report.contents, 'content')}, {counted(report.facts, 'fact')} ({report.chained:,} of them chained), "
        f"{counted(report.refs, 'ref')}; the chain ends at {short(report.head)}"
    )
    if report.clean:
        yield line(
            ("✓ ", "bold green"),
            f"content, releases, approvals, verdicts and trials are as they were written: {checked}",
        )
        return
    yield line(("✗ ", "bold red"), f"{counted(len(report.problems), 'problem')} in {checked}")
    yield from map(output.problem_view, report.problems)


@app.command()
def stats(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show how much there is of everything.

    JSON: contents, facts (each by kind), refs.
    """
    from seedbed.storage import upkeep

    with upkept(workspace) as store:
        found = upkeep.stats(store)
    rows = [("content", kind, f"{count:,}") for kind, count in found.contents.items()]
    rows += [("fact", kind, f"{count:,}") for kind, count in found.facts.items()]
    rows += [("ref", "", f"{found.refs:,}")]
    document = {"contents": found.contents, "facts": found.facts, "refs": found.refs}
    output.show(document, as_json, output.table("what", "kind", "count#", rows=rows))


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The URL of a store, such as sqlite:///seedbed.db.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The URL of an empty store or of an earlier copy.")],
    unseal: Annotated[bool, typer.Option("--unseal", help="The source is encrypted; SEEDBED_KEY opens it.")] = False,
    seal: Annotated[bool, typer.Option("--seal", help="Encrypt the target with SEEDBED_KEY.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Copy everything of one store into another: digests, order, times and refs. Run it again to go on.

    An encrypted store is copied as it is unless it is unsealed. Needs no workspace.

    JSON: source, target, contents, facts, refs, dry_run.
    """
    from seedbed.cli import progress
    from seedbed.storage import upkeep
    from seedbed.storage.paths import without_password

    _expect(source)
    with closing(_store(source, unseal)) as origin:
        held = upkeep.stats(origin)
        contents, facts = sum(held.contents.values()), sum(held.facts.values())
        if not dry_run:
            with closing(_store(target, seal)) as goal, progress.counting(contents + facts, "copying") as watch:
                upkeep.copy(origin, goal, watch)
    amount = {"contents": contents, "facts": facts, "refs": held.refs}
    document = {"source": without_password(source), "target": without_password(target), **amount, "dry_run": dry_run}
    told = f"{counted(contents, 'content')}, {counted(facts, 'fact')}, {counted(held.refs, 'ref')}"
    output.show(document, as_json, line(("would copy " if dry_run else "✓ copied ", "bold green"), told))


def _expect(source: str) -> None:
    """Opening a store makes one where there is none; a copy of nothing helps nobody."""
    from seedbed.errors import Problem, SettingsError

    for scheme in ("sqlite:///", "files:"):
        path = source.removeprefix(scheme)
        if path != source and not Path(path).exists():
            raise SettingsError([Problem("SOURCE", f"nothing at {path}", "a store", "Check the path.")])


def _store(url: str, sealed: bool) -> UpkeptStore:
    from seedbed.storage import open_store
    from seedbed.storage.encryption import EncryptedStore, MasterKey

    store: UpkeptStore = open_store(url)
    return EncryptedStore(store, MasterKey.from_environment()) if sealed else store


@app.command()
def gc(workspace: WorkspaceFile = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Discard content that nothing mentions any more. Run it while nothing writes.

    JSON: discarded (digest, kind), dry_run.
    """
    from seedbed.storage import upkeep
    from seedbed.storage.store import short

    with upkept(workspace) as store:
        forgotten = upkeep.gc(store, dry_run=dry_run)
    document = {
        "discarded": [{"digest": digest, "kind": kind} for digest, kind in forgotten.items()],
        "dry_run": dry_run,
    }
    rows = [(kind, short(digest)) for digest, kind in forgotten.items()]
    told = f"{'would discard' if dry_run else 'discarded'} {counted(len(rows), 'content')}"
    table = [output.table("kind", "digest", rows=rows)] if rows else []
    output.show(document, as_json, *table, line(told if rows else "nothing is forgotten"))


@app.command()
def rotate(workspace: WorkspaceFile = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Hand an encrypted store over from the key in SEEDBED_KEY to the one in SEEDBED_NEW_KEY.

    What was sealed before is not sealed anew: if the old key has leaked, copy into a new encrypted store instead.

    JSON: rotated, dry_run.
    """
    from seedbed.errors import Problem, SettingsError
    from seedbed.storage.encryption import EncryptedStore, MasterKey

    new = MasterKey(os.environ.get(NEW_KEY, ""), NEW_KEY)
    with options.opened(workspace) as space:
        if not isinstance(space.store, EncryptedStore):
            remedy = "Copy it into an encrypted one: seedbed store copy … --seal, and set encrypted: true."
            raise SettingsError([Problem("encrypted", "a store that is not encrypted", "an encrypted one", remedy)])
        if not dry_run:
            space.store.rotate(new, by=space.by)
    told = "both keys fit; nothing was changed" if dry_run else f"rotated: from now on {NEW_KEY} is the key"
    output.show({"rotated": not dry_run, "dry_run": dry_run}, as_json, line(("✓ ", "bold green"), told))
