"""What a move made of a channel, and the option that says for how many."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.cli.command import Call
from seedbed.cli.views import lineage
from seedbed.settings.values import A_SHARE, share
from seedbed.storage.store import Ref


def _share(text: str) -> float:
    if (value := share(text)) is None:
        raise typer.BadParameter(f'found "{text}"; expected {A_SHARE}')
    return value


Share = Annotated[
    float | None,
    typer.Option("--share", metavar="SHARE", parser=_share, help="The share of users who get it, such as 5%."),
]


def show_channel(call: Call, ref: Ref, verb: str) -> None:
    """Print where a channel points now, or would point."""
    target = ref.target if isinstance(ref.target, dict) else {"stable": ref.target}
    channel = ref.name.removeprefix("channels/")
    document = {
        "channel": channel,
        "playbook": target["stable"],
        "canary": target.get("canary"),
        "frozen": target.get("frozen", False),
        "version": ref.version,
        "because": ref.because,
        "by": ref.by,
        "at": ref.at,
    }
    call.done(document, f"{channel} {verb} {lineage.target(target)}", would="would pass: ")
