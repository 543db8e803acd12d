"""seedbed confirm: what runs ask people, and the answers."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.cli.command import Invocation, command
from seedbed.cli.options import Because
from seedbed.cli.output import Column, line, listing, when
from seedbed.stage.confirmation import QuestionRecord, question_text
from seedbed.storage.store import Json

app = typer.Typer(no_args_is_help=True)

QuestionId = Annotated[str, typer.Argument(metavar="QUESTION", help="The question's id, or a prefix of it.")]
Everything = Annotated[bool, typer.Option("--all", help="Include questions that were answered or timed out.")]

COLUMNS = (
    Column("question", lambda each: line((each["question"][:10], "yellow"))),
    Column("status", lambda each: each["status"], drop=1),
    Column("action", lambda each: each["action"], flexible=True),
    Column("asked by", lambda each: each["by"], drop=3),
    Column("until", lambda each: when(each["until"]), drop=2),
)


@command(app, "list")
def list_questions(call: Invocation, everything: Everything = False) -> None:
    """List the questions that runs are waiting on, longest wait first."""
    with call.open() as space:
        questions = [(each, status) for each, status in space.runs.questions() if everything or status == "open"]
    documents = [_document(each, status) for each, status in questions]
    # In full: a yes is given to all of it, and an argument may be long to hide its end.
    texts = [
        line((each.key[:10], "yellow"), f" {question_text(each)}") for each in (one.question for one, _ in questions)
    ]
    table = listing(COLUMNS, documents) if documents else line("No questions are open.")
    call.show({"questions": documents}, table, *texts)


def _document(record: QuestionRecord, status: str) -> Json:
    answer = record.answer if status in ("yes", "no") else None
    return {
        "question": record.question.key,
        "run": record.question.run,
        "playbook": record.question.playbook,
        "action": record.question.action,
        "arguments": record.question.arguments,
        "because": record.question.because,
        "status": status,
        "by": record.by,
        "at": record.at,
        "until": record.until,
        "answered_by": answer.by if answer else None,
        "answer": answer.body["because"] if answer else None,
    }


def _answering(name: str, yes: bool, summary: str) -> None:
    """Declare the command that answers yes, or no."""

    def answer(call: Invocation, question: QuestionId, because: Because) -> None:
        with call.open() as space:
            record, fact = space.runs.answer(question, yes, because=because)
        document = {
            "question": record.question.key,
            "run": record.question.run,
            "action": record.question.action,
            "arguments": record.question.arguments,
            "answer": fact.body["answer"],
            "because": because,
            "by": fact.by,
            "at": fact.at,
        }
        call.done(document, f"{fact.by} said {fact.body['answer']}: {question_text(record.question)}")

    answer.__doc__ = f"{summary} The first answer counts.\n\nExits with code 1 if it was already answered or timed out."
    command(app, name, dry_run=True)(answer)


_answering("yes", True, "Allow the action once, exactly as requested.")
_answering("no", False, "Deny the requested action.")
