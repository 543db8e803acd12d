"""seedbed store: verify, copy, measure and clean the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import RenderableType

from seedbed.cli import output, progress
from seedbed.cli.command import Invocation, command
from seedbed.cli.output import BLOCKED, PASS, line
from seedbed.reports.numbers import counted
from seedbed.storage.store import short
from seedbed.storage.upkeep import Verification
from seedbed.workspace.nouns import storage
from seedbed.workspace.resources import find_file

app = typer.Typer(no_args_is_help=True)


@command(app, dry_run=True)
def migrate(
    call: Invocation,
    to: Annotated[
        int | None, typer.Option("--to", metavar="N", help="The target version. Default: the newest.")
    ] = None,
) -> None:
    """Migrate the schema of a SQL store to a newer or older version. No data is lost either way.

    Opening a store upgrades it to the newest version, so downgrade only to use an older seedbed.
    """
    where, before, after, steps = storage.migrate(find_file(call.workspace), to, dry_run=call.dry_run)
    document = {"store": where, "before": before, "after": after, "steps": steps, "dry_run": call.dry_run}
    way = "up" if after > before else "down"
    verb = "would run" if call.dry_run else "ran"
    text = f"{verb} {way}grade steps: {', '.join(steps)}" if steps else "nothing to do"
    call.show(document, line(("✓ ", "bold green"), f"version {before} → {after}, {text}"))


@command(app)
def verify(
    call: Invocation,
    head: Annotated[
        str,
        typer.Option(
            "--head",
            metavar="LINK",
            help="A link printed earlier by `evidence head`, which must still be in the chain.",
        ),
    ] = "",
) -> None:
    """Recompute every digest, link and ref, and list any mismatches.

    Exits with code 1 if anything is damaged.
    """
    with call.open() as space:
        report = space.storage.verify(head)
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
    call.show(document, *_report(report))
    raise typer.Exit(PASS if report.clean else BLOCKED)


def _report(report: Verification) -> Iterator[RenderableType]:
    checked = (
        f"{counted(report.contents, 'content object')}, {counted(report.facts, 'fact')} "
        f"({report.chained:,} of them chained), {counted(report.refs, 'ref')}; the chain ends at {short(report.head)}"
    )
    if report.clean:
        intact = "content, releases, approvals, verdicts and trials are exactly as they were written"
        yield line(("✓ ", "bold green"), f"{intact}: {checked}")
        return
    yield line(("✗ ", "bold red"), f"{counted(len(report.problems), 'problem')} in {checked}")
    yield from map(output.problem_view, report.problems)


@command(app)
def stats(call: Invocation) -> None:
    """Count the content objects, facts and refs in the store by kind."""
    with call.open() as space:
        stats = space.storage.stats()
    rows = [("content", kind, f"{count:,}") for kind, count in stats.contents.items()]
    rows += [("fact", kind, f"{count:,}") for kind, count in stats.facts.items()]
    rows += [("ref", "", f"{stats.refs:,}")]
    document = {"contents": stats.contents, "facts": stats.facts, "refs": stats.refs}
    call.show(document, output.table("what", "kind", "count#", rows=rows))


@command(app, workspace=False, dry_run=True)
def copy(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The URL of a store, such as sqlite:///seedbed.db.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The URL of an empty store or of an earlier copy.")],
    unseal: Annotated[bool, typer.Option("--unseal", help="Decrypt the source with SEEDBED_KEY.")] = False,
    seal: Annotated[bool, typer.Option("--seal", help="Encrypt the target with SEEDBED_KEY.")] = False,
) -> None:
    """Copy one store into another, preserving digests, order, times and refs. If interrupted, run it again to continue.

    Without --unseal, an encrypted store is copied as is, and its key is not needed. No workspace is needed.
    """
    with progress.counting("copying") as watch:
        copied = storage.copy(source, target, unseal=unseal, seal=seal, dry_run=call.dry_run, on_event=watch)
    held = copied.stats
    contents, facts = sum(held.contents.values()), sum(held.facts.values())
    amount = {"contents": contents, "facts": facts, "refs": held.refs}
    document = {"source": copied.source, "target": copied.target, **amount}
    text = f"{counted(contents, 'content object')}, {counted(facts, 'fact')}, {counted(held.refs, 'ref')}"
    mark = line(("would copy " if call.dry_run else "✓ copied ", "bold green"), text)
    call.show({**document, "dry_run": call.dry_run}, mark)


@command(app, dry_run=True)
def gc(call: Invocation) -> None:
    """Discard unreferenced content. Run this only while nothing is writing to the store."""
    with call.open(dry_run=False) as space:
        discarded = space.storage.gc(dry_run=call.dry_run)
    document = {
        "discarded": [{"digest": digest, "kind": kind} for digest, kind in discarded.items()],
        "dry_run": call.dry_run,
    }
    rows = [(kind, short(digest)) for digest, kind in discarded.items()]
    text = f"{'would discard' if call.dry_run else 'discarded'} {counted(len(rows), 'content object')}"
    table = [output.table("kind", "digest", rows=rows)] if rows else []
    call.show(document, *table, line(text if rows else "nothing to discard"))


@command(app, dry_run=True)
def rotate(call: Invocation) -> None:
    """Change the key of an encrypted store from SEEDBED_KEY to SEEDBED_NEW_KEY.

    Stored data is not re-encrypted: if the old key has leaked, copy the data into a new encrypted store instead.
    """
    with call.open(dry_run=False) as space:
        space.storage.rotate(dry_run=call.dry_run)
    text = (
        "both keys work; nothing was changed" if call.dry_run else f"rotated: {storage.NEW_KEY} is the key from now on"
    )
    call.show({"rotated": not call.dry_run, "dry_run": call.dry_run}, line(("✓ ", "bold green"), text))
