"""seedbed judge: metrics that ask a model, and how far they agree with people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType

from seedbed.cli import output, progress
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.output import BLOCKED, PASS, Column, line
from seedbed.cli.views import run as run_views
from seedbed.evaluation.judges.agreement import JudgeAgreement
from seedbed.evaluation.judges.declared import DeclaredJudge
from seedbed.reports.numbers import clipped
from seedbed.storage.store import Json
from seedbed.workspace.nouns.judges import JudgeTrust

app = typer.Typer(no_args_is_help=True)

FEW = 10
"""How many values and disagreements a table shows; JSON has all of them."""

JudgeName = Annotated[str, typer.Argument(metavar="JUDGE", help="A judge listed under metrics in the workspace file.")]
AtLeast = Annotated[
    float | None,
    typer.Option(
        "--at-least",
        min=-1,
        max=1,
        metavar="KAPPA",
        help="The minimum value for the lower bound on kappa. Default: 0.6.",
    ),
]


COLUMNS = (
    Column("judge", lambda each: line((each["name"], "bold"))),
    Column("kind", lambda each: each["kind"], drop=2),
    Column("model", lambda each: each["model"], drop=1),
    Column("kappa", lambda each: "" if each["kappa"] is None else f"{each['kappa']:.2f}", number=True),
    Column("labels", lambda each: "" if each["n"] is None else f"{each['n']:,}", 3, True),
    Column("", lambda each: line(("✓ trusted", "green") if each["trusted"] else ("not trusted", "yellow"))),
)


@command(app, dry_run=True)
def check(
    call: Invocation,
    judge: JudgeName,
    labels: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="JSON lines with inputs, expected, output, and a label from 0 to 1."),
    ],
    at_least: AtLeast = None,
) -> None:
    """Have a judge score human-labelled answers, and report how well the two agree.

    The agreement is stored and decides whether releases can rely on this judge, as long as its model, wording and scale
    stay the same. If there are several checks, the first one with the most labels counts. A label can include the turns
    of a dialogue (role, text).

    Exits with code 1 if the judge is not trusted.
    """
    with call.open() as space, progress.counting(f"{judge} judges") as watch:
        if call.dry_run:
            expected = space.runs.estimate(space.judges[judge].playbook, space.judges.size(labels))
            call.show(expected.document(), run_views.estimate_line(expected))
            return
        agreement, differing = wait_for(space.judges.check(judge, labels, watch))
        trust = space.judges.trust(judge, at_least)
    document = {**asdict(agreement), **_trust_document(trust), "disagreements": differing}
    call.show(document, *_check_view(agreement, trust, differing))
    raise typer.Exit(BLOCKED if trust.refusal else PASS)


@command(app, "list")
def list_judges(call: Invocation) -> None:
    """List the judges in the workspace file, and show which are trusted."""
    with call.open() as space:
        judges = [_listed(space.judges[name], space.judges.trust(name)) for name in space.judges]
    call.list("judges", judges, COLUMNS, "No judges yet: declare one under metrics in the workspace file.")


@command(app)
def show(call: Invocation, judge: JudgeName) -> None:
    """Show a judge's playbook, and how well it agrees with human labels."""
    with call.open() as space:
        chosen, trust, checks = space.judges[judge], space.judges.trust(judge), space.judges.agreements(judge)
        document = {
            "name": chosen.name,
            "kind": chosen.kind,
            "model": chosen.model,
            "identity": chosen.identity,
            "playbook": chosen.playbook.document(),
            "agreements": [asdict(each) for each in checks],
            **_trust_document(trust),
        }
    pairs = [("judge", chosen.name), ("kind", chosen.kind), ("model", chosen.model)]
    text = line((chosen.playbook.to_yaml().rstrip(), "dim"))
    call.show(document, output.facts(pairs), text, *(line(each.figures) for each in checks), _trust_view(trust))


def _trust_document(trust: JudgeTrust) -> Json:
    because = trust.refusal and output.problem_documents([trust.refusal])[0]
    return {"trusted": trust.refusal is None, "at_least": trust.at_least, "because": because}


def _listed(judge: DeclaredJudge, trust: JudgeTrust) -> Json:
    counts = trust.agreement
    return {
        "name": judge.name,
        "kind": judge.kind,
        "model": judge.model,
        "n": counts and counts.n,
        "kappa": counts and counts.kappa,
        "low": counts and counts.low,
        "high": counts and counts.high,
        "trusted": trust.refusal is None,
    }


def _check_view(agreement: JudgeAgreement, trust: JudgeTrust, differing: Sequence[Json]) -> list[RenderableType]:
    parts: list[RenderableType] = [line((f"{agreement.name} ", "bold"), agreement.figures)]
    if 0 < len(agreement.values) <= FEW:
        heads = [f"judge {value:g}#" for value in agreement.values]
        counts = [
            (f"people {value:g}", *map(str, row)) for value, row in zip(agreement.values, agreement.table, strict=True)
        ]
        parts.append(output.table("", *heads, rows=counts))
    if differing:
        rows = [
            (
                each["place"],
                f"{each['label']:g}",
                "unscored" if each["score"] is None else f"{each['score']:.2f}",
                clipped(each["answer"], 50),
                clipped(each["reason"], 80),
            )
            for each in differing[:FEW]
        ]
        parts.append(output.table("disagreement", "people#", "judge#", "answer", "the judge's reason", rows=rows))
    if len(differing) > FEW:
        parts.append(line((f"and {len(differing) - FEW:,} more: --json lists them all", "dim")))
    if trust.agreement not in (None, agreement):
        parts.append(line((f"the check with the most labels counts: {trust.agreement.figures}", "dim")))
    return [*parts, _trust_view(trust)]


def _trust_view(trust: JudgeTrust) -> RenderableType:
    if trust.refusal is None:
        return line(("✓ trusted: ", "bold green"), "releases can rely on it")

    text = line(("✗ not trusted: ", "bold red"), "no release can rely on it")
    return Group(text, output.problem_view(trust.refusal))
