"""seedbed review: request, show and answer reviews."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from seedbed.cli import output
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import Because, ChannelName, PlaybookName
from seedbed.cli.output import Column, line, when
from seedbed.cli.views import playbook as playbook_views
from seedbed.cli.views import run as views
from seedbed.reports.numbers import clipped
from seedbed.storage.store import Fact, Json, short
from seedbed.workspace.nouns.reviews import ReviewPage, Reviews

app = typer.Typer(no_args_is_help=True)

COLUMNS = (
    Column("channel", lambda each: line((each["channel"], "bold"))),
    Column("playbook", lambda each: short(each["playbook"])),
    Column("status", lambda each: each["status"]),
    Column("because", lambda each: each["because"], flexible=True),
    Column("asked by", lambda each: each["by"], drop=1),
    Column("since", lambda each: when(each["at"]), drop=2),
)


@command(app, "list")
def list_reviews(
    call: Invocation,
    everything: Annotated[bool, typer.Option("--all", help="Include answered reviews.")] = False,
) -> None:
    """List the reviews waiting for an answer, longest wait first."""
    with call.open() as space:
        reviews = [each.document() for each in space.reviews.queue(everything=everything)]
    call.list("reviews", reviews, COLUMNS, "No reviews are waiting.")


@command(app)
def show(
    call: Invocation,
    channel: ChannelName,
    playbook: PlaybookName,
    count: Annotated[int, typer.Option("--samples", min=0, max=100, help="How many outputs to show.")] = 5,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show which output is the candidate's.")] = False,
) -> None:
    """Show a playbook's changes, evidence and gate findings, with outputs side by side.

    The outputs come from the runs behind the verdict, where the two playbooks differ. Their order does not reveal which
    is which: each reviewer sees an order of their own, which does not change.
    """
    with call.open(dry_run=True) as space:
        page = wait_for(space.reviews.show(channel, playbook, samples=count))
    document: Json = {
        "channel": channel,
        "playbook": page.playbook,
        "incumbent": page.incumbent,
        "changes": [playbook_views.change_document(each) for each in page.changes],
        "verdict": str(page.verdict) if page.verdict else None,
        "refusals": output.problem_documents(page.refusals),
        "samples": [each.document(reveal) for each in page.samples],
        "answers": [_answer(fact) for fact in page.answers],
    }
    summary = output.facts(
        [
            ("candidate", short(page.playbook)),
            ("now serving", short(page.incumbent) if page.incumbent else "nothing yet"),
            ("verdict", str(page.verdict) if page.verdict else "none yet"),
            ("outputs", page.no_samples),
        ]
    )
    call.show(document, summary, *_parts(page, reveal))


def _answer(fact: Fact) -> Json:
    answer = "approved" if fact.kind == "approval" else "refused"
    return {"answer": answer, "by": fact.by, "because": fact.body["because"], "at": fact.at}


def _parts(page: ReviewPage, reveal: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [playbook_views.change_view(each) for each in page.changes]
    parts += [output.problem_view(each) for each in page.refusals]
    if page.samples:
        rows = [
            (
                clipped(dict(each.task.inputs), 200),
                views.answer_text(each.left),
                views.answer_text(each.right),
                *([("left" if each.swapped else "right")] if reveal else []),
            )
            for each in page.samples
        ]
        parts.append(output.wrapped_table("task", "left", "right", *(["candidate"] if reveal else []), rows=rows))
    for each in map(_answer, page.answers):
        parts.append(line((each["answer"], "bold"), f" by {each['by']} on {when(each['at'])}: {each['because']}"))
    return parts


def _saying(name: str, say: Callable[..., Fact], past: str, summary: str) -> None:
    """Declare a command by which a person says something about a candidate."""

    def said(call: Invocation, channel: ChannelName, playbook: PlaybookName, because: Because) -> None:
        with call.open() as space:
            fact: Any = say(space.reviews, channel, playbook, because=because)
        document = {"channel": channel, "playbook": fact.subject, "because": fact.body["because"]}
        text = f"{fact.by} {past} {short(fact.subject)} for {channel}"
        call.done({**document, "by": fact.by, "at": fact.at}, text)

    said.__doc__ = summary
    command(app, name, dry_run=True)(said)


_saying(
    "request", Reviews.request, "requested a review of", "Request a review of a playbook. Someone else must approve it."
)
_saying(
    "approve",
    Reviews.approve,
    "approved",
    "Approve someone else's playbook. It can then be released to this channel.",
)
_saying(
    "refuse",
    Reviews.refuse,
    "refused",
    "Refuse a playbook. Your refusal stands until you approve the playbook, whatever other reviewers say.",
)
