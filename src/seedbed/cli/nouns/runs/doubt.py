"""seedbed runs doubt, seedbed runs settle: calls that may have happened, and what people find out about them."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli.command import Invocation, command
from seedbed.cli.options import Because
from seedbed.cli.output import Column, line, when
from seedbed.storage.store import Json, canonical, short

if TYPE_CHECKING:
    from seedbed.workspace.nouns.runs import CallInDoubt

app = typer.Typer()

COLUMNS = (
    Column("run", lambda each: line((short(each["run"]), "yellow"))),
    Column("call", lambda each: line((each["call"][:10], "yellow"))),
    Column("tool", lambda each: each["tool"]),
    Column("arguments", lambda each: "" if each["arguments"] is None else canonical(each["arguments"]), flexible=True),
    Column("by", lambda each: each["by"], drop=2),
    Column("at", lambda each: when(each["at"]), drop=1),
)
FIELDS = ("run", "call", "tool", "arguments", "by", "at")


class Settlement(StrEnum):
    """Whether a call in doubt has happened."""

    done = "done"
    not_done = "not-done"


@command(app)
def doubt(call: Invocation) -> None:
    """List tool calls that started but whose results were lost, oldest first.

    Find out whether each one happened; the call id is the idempotency key that the tool received. Then use
    `seedbed runs settle`.
    """
    with call.open() as space:
        documents = [_document(each) for each in space.runs.doubts()]
    call.list("doubts", documents, COLUMNS, "No call is in doubt.")


@command(app, dry_run=True)
def settle(
    call: Invocation,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or a prefix of it.")],
    which: Annotated[
        str, typer.Argument(metavar="CALL", help="The call's id, a prefix of it, or the name of its tool.")
    ],
    answer: Annotated[Settlement, typer.Argument(metavar="ANSWER", help="done or not-done.")],
    because: Because,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="The tool's result, if done. Default: null.")
    ] = None,
) -> None:
    """Record whether a call in doubt happened. `seedbed run --resume RUN` then continues the run.

    If the call is done, it gets the result you give and is not repeated; if it is not-done, it is made.
    """
    done = answer is Settlement.done
    value = _result(result, done=done)
    with call.open() as space:
        settled = space.runs.settle(run, which, done=done, because=because, result=value)
    document = {**_document(settled), "answer": answer.value, "result": value, "because": because}
    text = f"{settled.tool} is {answer.value}. To continue: seedbed run --resume {short(settled.run)}"
    call.done(document, text)


def _document(doubt: CallInDoubt) -> Json:
    return {name: getattr(doubt, name) for name in FIELDS}


def _result(text: str | None, *, done: bool) -> Any:
    if text is None:
        return None
    if not done:
        raise typer.BadParameter("found a result for a call that is not done; expected none", param_hint="--result")
    try:
        return json.loads(text)
    except ValueError:
        expected = 'JSON, as "sent" with its quotes or {"id": 7}'
        raise typer.BadParameter(f"found {text!r}; expected {expected}", param_hint="--result") from None
