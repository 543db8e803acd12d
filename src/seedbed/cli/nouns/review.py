"""seedbed review: who asked for one, what there is to look at, and yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Because, DryRun, PlaybookName, WorkspaceFile
from seedbed.cli.output import line, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from seedbed.errors import Problem
    from seedbed.experiments.verdict import Verdict
    from seedbed.playbooks.changes import Change
    from seedbed.release.review.outputs import OutputSample
    from seedbed.release.review.review import ReviewItem
    from seedbed.storage.store import Digest, Fact, Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name, such as production.")]


@app.command("list")
def list_reviews(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are answered.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show whose review was asked for and is not answered yet, the one that waits for longest first.

    JSON: reviews (channel, playbook, status, because, by, at, approved_by, refused_by).
    """
    from seedbed.release.gates.registry import build_panel
    from seedbed.release.review.review import queue
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        names = dict.fromkeys([*space.settings.channels, *_channels(space)])
        panels = {name: build_panel(name, space.protection(name)) for name in names}
        found = [each for each in queue(space.library, panels) if everything or each.status in ("waiting", "expired")]
    documents = [_item(each) for each in found]
    rows = [
        (
            line((each["channel"], "bold")),
            short(each["playbook"]),
            each["status"],
            each["because"],
            each["by"],
            when(each["at"]),
        )
        for each in documents
    ]
    table = output.table("channel", "playbook", "status", "because", "asked by", "since", rows=rows)
    output.show({"reviews": documents}, as_json, table if rows else line("nobody waits for a review"))


def _channels(space: Workspace) -> list[str]:
    return [ref.name.removeprefix("channels/") for ref in space.store.refs("channels/")]


def _item(item: ReviewItem) -> Json:
    return {
        "channel": item.channel,
        "playbook": item.candidate,
        "status": item.status,
        "because": item.request.body["because"],
        "by": item.request.by,
        "at": item.request.at,
        "approved_by": [fact.by for fact in item.opinion.approvals],
        "refused_by": [fact.by for fact in item.opinion.refusals],
    }


@app.command()
def show(
    channel: ChannelName,
    playbook: PlaybookName,
    count: Annotated[int, typer.Option("--samples", min=0, max=100, help="How many outputs to show.")] = 5,
    reveal: Annotated[bool, typer.Option("--reveal", help="Say whose output is whose.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what there is to look at: what changes, the evidence, what the gates say, and outputs side by side.

    Outputs are those of the runs behind the verdict where both differ, in an order that does not tell whose they are:
    for each reviewer another, and always the same.

    JSON: channel, playbook, incumbent, changes (path, before, after), verdict, refusals (path, found, expected,
    remedy), samples (task, inputs, left, right, candidate), answers (answer, by, because, at).
    """
    from seedbed.cli.views import run as views
    from seedbed.playbooks.changes import diff
    from seedbed.release.channels import stable
    from seedbed.release.review.panel import answers
    from seedbed.release.review.review import newest_verdict
    from seedbed.storage.store import short

    with options.opened(workspace, dry_run=True) as space:
        library = space.library
        digest = options.kept(space, playbook, "looked at")
        incumbent = stable(space.store, channel)
        verdict = newest_verdict(library, digest, incumbent)
        changes = diff(library.get(incumbent), library.get(digest)) if incumbent else []
        refusals = _refusals(space, channel, digest, incumbent, verdict)
        drawn, missing = _samples(space, digest, verdict, count)
        said = answers(library, channel, digest)
    document: Json = {
        "channel": channel,
        "playbook": digest,
        "incumbent": incumbent,
        "changes": [views.change_document(each) for each in changes],
        "verdict": str(verdict) if verdict else None,
        "refusals": output.problem_documents(refusals),
        "samples": [_sample(each, reveal) for each in drawn],
        "answers": [_answer(fact) for fact in said],
    }
    told = output.facts(
        [
            ("candidate", short(digest)),
            ("serves now", short(incumbent) if incumbent else "nothing yet"),
            ("verdict", str(verdict) if verdict else "none yet"),
            ("outputs", missing),
        ]
    )
    output.show(document, as_json, told, *_pages(changes, refusals, drawn, said, reveal))


def _refusals(
    space: Workspace, channel: str, digest: Digest, incumbent: Digest | None, verdict: Verdict | None
) -> list[Problem]:
    """What the gates say but for the review itself."""
    from seedbed.release.gates.gate import ReleaseRequest
    from seedbed.release.gates.registry import build_gates
    from seedbed.release.gates.review import Review

    gates = [gate for gate in build_gates(channel, space.protection(channel)) if not isinstance(gate, Review)]
    change = ReleaseRequest(channel, digest, incumbent, verdict, space.library)

    async def ask() -> list[Problem]:
        return [refusal for gate in gates if (refusal := await gate(change))]

    return options.complete(ask())


def _samples(space: Workspace, digest: Digest, verdict: Verdict | None, count: int) -> tuple[list[OutputSample], str]:
    """Some outputs, and why there are none if so."""
    from seedbed.errors import NotFound
    from seedbed.release.review.outputs import draw_samples, read_output_pairs

    if verdict is None:
        return [], "none: nobody has compared the two"
    try:
        found = draw_samples(read_output_pairs(space.store, verdict), digest, space.by, count)
    except NotFound as missing:
        return [], str(missing)
    return found, "" if found or not count else "the same at every task"


def _sample(sample: OutputSample, reveal: bool) -> Json:
    return {
        "task": sample.task.id,
        "inputs": dict(sample.task.inputs),
        "left": sample.left,
        "right": sample.right,
        "candidate": ("left" if sample.swapped else "right") if reveal else None,
    }


def _answer(fact: Fact) -> Json:
    answer = "approved" if fact.kind == "approval" else "refused"
    return {"answer": answer, "by": fact.by, "because": fact.body["because"], "at": fact.at}


def _pages(
    changes: Sequence[Change],
    refusals: Sequence[Problem],
    drawn: Sequence[OutputSample],
    said: Sequence[Fact],
    reveal: bool,
) -> list[RenderableType]:
    from seedbed.cli.views import run as views

    pages: list[RenderableType] = [views.change_view(each) for each in changes]
    pages += [output.problem_view(each) for each in refusals]
    if drawn:
        rows = [
            (
                output.clipped(dict(each.task.inputs), 200),
                views.answer_text(each.left),
                views.answer_text(each.right),
                *([("left" if each.swapped else "right")] if reveal else []),
            )
            for each in drawn
        ]
        pages.append(output.table("task", "left", "right", *(["candidate"] if reveal else []), rows=rows))
    for each in map(_answer, said):
        pages.append(line((each["answer"], "bold"), f" by {each['by']} on {when(each['at'])}: {each['because']}"))
    return pages


@app.command()
def request(
    channel: ChannelName,
    playbook: PlaybookName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Ask for a review. Whoever asks cannot approve it.

    JSON: channel, playbook, because, by, at, dry_run.
    """
    from seedbed.release.review import review

    with options.opened(workspace, dry_run=dry_run) as space:
        space.protection(channel)
        digest = options.kept(space, playbook, because)
        fact = review.request(space.library, channel, digest, because=because)
    _show(fact, "asked for a review of", dry_run, as_json)


@app.command()
def approve(
    channel: ChannelName,
    playbook: PlaybookName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Say yes to a playbook of somebody else. Exactly this one may then go onto exactly this channel.

    JSON: channel, playbook, because, by, at, dry_run.
    """
    from seedbed.release.gates.registry import build_panel
    from seedbed.release.review import review

    with options.opened(workspace, dry_run=dry_run) as space:
        jury = build_panel(channel, space.protection(channel))
        digest = space.playbook(playbook).digest
        fact = review.approve(space.library, channel, digest, because=because, panel=jury)
    _show(fact, "approved", dry_run, as_json)


@app.command()
def refuse(
    channel: ChannelName,
    playbook: PlaybookName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Say no to a playbook. It stands until you approve it yourself, whatever others say.

    JSON: channel, playbook, because, by, at, dry_run.
    """
    from seedbed.release.gates.registry import build_panel
    from seedbed.release.review import review

    with options.opened(workspace, dry_run=dry_run) as space:
        jury = build_panel(channel, space.protection(channel))
        digest = space.playbook(playbook).digest
        fact = review.refuse(space.library, channel, digest, because=because, panel=jury)
    _show(fact, "refused", dry_run, as_json)


def _show(fact: Fact, told: str, dry_run: bool, as_json: bool) -> None:
    from seedbed.storage.store import short

    channel = fact.body["channel"]
    document = {"channel": channel, "playbook": fact.subject, "because": fact.body["because"]}
    mark = ("would have: ", "yellow") if dry_run else ("✓ ", "bold green")
    text = line(mark, f"{fact.by} {told} {short(fact.subject)} for {channel}")
    output.show({**document, "by": fact.by, "at": fact.at, "dry_run": dry_run}, as_json, text)
