"""seedbed compare --live: what came of those who were served, as people see it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from seedbed.cli import options, output
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, line
from seedbed.cli.views import verdict as verdicts

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.release.live_comparison import LiveComparison
    from seedbed.workspace import Workspace


def compare_live(
    channels: list[str], metric: str, alpha: float | None, conclude: bool, workspace: Path | None, as_json: bool
) -> NoReturn:
    """The canary of one channel beside its control, or what each other channel serves beside what the first does."""
    first, *others = channels
    with options.opened(workspace) as space:
        if others:
            work = space.compare_channels(first, *others, metric=metric, alpha=alpha, conclude=conclude)
            found = options.complete(work)
            document = {"control": first, "arms": [each.document() for each in found]}
        else:
            found = [options.complete(space.compare_live(first, metric=metric, alpha=alpha, conclude=conclude))]
            document = found[0].document()
        names = [(first, each.channel) if others else ("the control", "the canary") for each in found]
        views = [view for each, called in zip(found, names, strict=True) for view in _view(space, each, called)]
    output.show(document, as_json, *views)
    findings = {each.finding for each in found}
    raise typer.Exit(PASS if "superior" in findings else BLOCKED if findings == {"inferior"} else INCONCLUSIVE)


def _view(space: Workspace, found: LiveComparison, names: verdicts.Names) -> list[RenderableType]:
    from seedbed.storage.store import short

    rows = [
        (
            name.removeprefix("the "),
            short(side.playbook),
            f"{side.units:,}",
            f"{side.known:,}",
            "" if side.mean is None else f"{side.mean:.3f}",
        )
        for name, side in zip(names, (found.control, found.canary), strict=True)
    ]
    table = output.table("arm", "playbook", "units #", "outcomes #", f"{found.metric} #", rows=rows)
    if found.verdict:
        return [verdicts.verdict_view(found.verdict, verdicts.registered_rule(space, found.verdict), names), table, ""]
    read = f"W {found.wins} T {found.ties} L {found.losses}"
    gain = "" if found.difference is None else f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}] "
    told = f": {gain}after {output.counted(found.pairs, 'pair')} of outcomes, {read}"
    return [line(("not decided yet", verdicts.FINDINGS["inconclusive"]), told), table, ""]


__all__ = ["compare_live"]
