"""seedbed confirm: what runs wait to be allowed, and yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Because, DryRun, WorkspaceFile
from seedbed.cli.output import line, when

if TYPE_CHECKING:
    from pathlib import Path

    from seedbed.stage.confirmation import QuestionRecord
    from seedbed.storage.store import Json

app = typer.Typer(no_args_is_help=True)

QuestionId = Annotated[str, typer.Argument(metavar="QUESTION", help="Its id, or the beginning of it.")]


@app.command("list")
def list_questions(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are answered, or timed out.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what runs ask a person for and nobody has answered yet, the one that waits for longest first.

    JSON: questions (question, run, playbook, action, arguments, because, status, by, at, until, answered_by, answer).
    """
    from seedbed.stage.confirmation import asked_for, questions
    from seedbed.storage.store import now

    with options.opened(workspace) as space:
        found = [(each, each.status(now())) for each in questions(space.store)]
    shown = [(each, status) for each, status in found if everything or status == "open"]
    rows = [
        (
            line((each.question.key[:10], "yellow")),
            *([status] if everything else []),
            asked_for(each.question),
            each.by,
            when(each.until),
        )
        for each, status in shown
    ]
    headings = ("question", *(["status"] if everything else []), "what", "asked by", "until")
    table = output.table(*headings, rows=rows)
    documents = [_document(each, status) for each, status in shown]
    output.show({"questions": documents}, as_json, table if rows else line("no run waits for an answer"))


def _document(asked: QuestionRecord, status: str) -> Json:
    said = asked.answer if status in ("yes", "no") else None
    return {
        "question": asked.question.key,
        "run": asked.question.run,
        "playbook": asked.question.playbook,
        "action": asked.question.action,
        "arguments": asked.question.arguments,
        "because": asked.question.because,
        "status": status,
        "by": asked.by,
        "at": asked.at,
        "until": asked.until,
        "answered_by": said.by if said else None,
        "answer": said.body["because"] if said else None,
    }


@app.command()
def yes(
    question: QuestionId,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a run do what it asks for: exactly this, once. The first answer counts.

    JSON: question, run, action, arguments, answer, because, by, at, dry_run. Exit code 1 if somebody was quicker, or
    its time is over.
    """
    _answer(question, True, because, workspace, dry_run, as_json)


@app.command()
def no(
    question: QuestionId,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Do not let a run do what it asks for. The first answer counts.

    JSON: question, run, action, arguments, answer, because, by, at, dry_run. Exit code 1 if somebody was quicker, or
    its time is over.
    """
    _answer(question, False, because, workspace, dry_run, as_json)


def _answer(start: str, said: bool, because: str, workspace: Path | None, dry_run: bool, as_json: bool) -> None:
    from seedbed.stage.confirmation import answer, asked_for, find

    with options.opened(workspace, dry_run=dry_run) as space:
        asked = find(space.store, start)
        fact = answer(space.store, asked, said, because=because, by=space.by)
    question = asked.question
    document = {
        "question": question.key,
        "run": question.run,
        "action": question.action,
        "arguments": question.arguments,
        "answer": fact.body["answer"],
        "because": because,
        "by": fact.by,
        "at": fact.at,
        "dry_run": dry_run,
    }
    mark = ("would have: ", "yellow") if dry_run else ("✓ ", "bold green")
    output.show(document, as_json, line(mark, f"{fact.by} said {fact.body['answer']}: {asked_for(question)}"))
