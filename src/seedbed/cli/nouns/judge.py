"""seedbed judge: metrics that ask a model, and how far they agree with people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, WorkspaceFile
from seedbed.cli.output import BLOCKED, PASS, clipped, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.errors import Problem
    from seedbed.evaluation.judges.declared import Declared
    from seedbed.evaluation.judges.rubrics import Agreement, Labelled
    from seedbed.evaluation.metrics.metric import Score
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

FEW = 10
"""So many values fit into a table, and so many disagreements are read; JSON has all of them."""

JudgeName = Annotated[str, typer.Argument(metavar="JUDGE", help="One that stands under metrics in the workspace file.")]
AtLeast = Annotated[
    float | None,
    typer.Option("--at-least", min=-1, max=1, metavar="KAPPA", help="What the lower end of kappa has to reach. [0.6]"),
]


class Standing(NamedTuple):
    """What is known of a judge: the agreement that counts, and why it is not trusted, if it is not."""

    agreement: Agreement | None
    refusal: Problem | None


@app.command()
def check(
    judge: JudgeName,
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="JSON lines with inputs, expected, output and label, from 0 to 1.")
    ],
    at_least: AtLeast = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Have a judge judge what people have judged, and say how far they agree.

    That is kept, and decides whether releases may rest on this judge: with the same model, words and scale. Of several
    checks the first on most labels counts. A label may have the turns of a dialogue (role, text).

    JSON: judge, name, labels, n, unscored, kappa, low, high, confidence, weights, raw, raw_low, raw_high, bias,
    bias_low, bias_high, values, table, cost_usd, trusted, at_least, because, disagreements (place, label, score,
    answer, reason).
    Exit code 1 if the judge is not trusted.
    """
    from seedbed.cli import progress
    from seedbed.evaluation.judges import labels as labelled
    from seedbed.evaluation.judges.rubrics import calibrated

    read = labelled.read(labels)
    scores: list[Score] = []
    with options.opened(workspace) as space:
        chosen = _chosen(space, judge)
        with progress.counting(len(read), f"{judge} judges") as heard:

            def watch(item: Labelled, score: Score) -> None:
                scores.append(score)
                heard(len(scores))

            found = options.complete(calibrated(chosen, list(read.values()), watch=watch))
        kept = found.keep(space.store, space.by)
        standing = _standing(space, chosen, at_least)
    differing = _disagreements(read, scores)
    document = {**asdict(kept), **_trust_document(standing, at_least), "disagreements": differing}
    output.show(document, as_json, *_check_view(kept, standing, differing))
    raise typer.Exit(BLOCKED if standing.refusal else PASS)


@app.command("list")
def list_judges(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show the judges of the workspace file, and which of them are trusted.

    JSON: judges (name, kind, model, n, kappa, low, high, trusted).
    """
    with options.opened(workspace) as space:
        found = [_listed(each, _standing(space, each, None)) for each in space.judges.values()]
    rows = [
        (
            line((each["name"], "bold")),
            each["kind"],
            each["model"],
            _number(each["kappa"]),
            f"{each['n']:,}" if each["n"] is not None else "",
            line(("✓ trusted", "green") if each["trusted"] else ("not trusted", "yellow")),
        )
        for each in found
    ]
    table = output.table("judge", "kind", "model", "kappa#", "labels#", "", rows=rows)
    empty = line("no judges yet: declare one under metrics in the workspace file")
    output.show({"judges": found}, as_json, table if rows else empty)


@app.command()
def show(judge: JudgeName, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show all that a judge is told, and how far it agrees with people.

    JSON: name, kind, model, identity, playbook, agreements, trusted, at_least, because.
    """
    from seedbed.evaluation.judges.rubrics import agreements

    with options.opened(workspace) as space:
        chosen = _chosen(space, judge)
        standing = _standing(space, chosen, None)
        known = agreements(space.store, chosen)
        document = {
            "name": chosen.name,
            "kind": chosen.kind,
            "model": chosen.model,
            "identity": chosen.identity,
            "playbook": chosen.playbook.document(),
            "agreements": [asdict(each) for each in known],
            **_trust_document(standing, None),
        }
    pairs = [("judge", chosen.name), ("kind", chosen.kind), ("model", chosen.model)]
    checks = [line(each.figures) for each in known]
    told = line((chosen.playbook.to_yaml().rstrip(), "dim"))
    output.show(document, as_json, output.facts(pairs), told, *checks, _trust_view(standing))


def _chosen(space: Workspace, name: str) -> Declared:
    judges = space.judges
    if name not in judges:
        known = ", ".join(judges) or "none: declare one under metrics in the workspace file"
        raise typer.BadParameter(f"found {name!r}; expected one of: {known}", param_hint="JUDGE")
    return judges[name]


def _standing(space: Workspace, judge: Declared, at_least: float | None) -> Standing:
    from seedbed.evaluation.judges.rubrics import AGREEMENT, agreements, deciding, trusted

    counts = deciding(agreements(space.store, judge))
    return Standing(counts, trusted(counts, AGREEMENT if at_least is None else at_least, name=judge.name))


def _trust_document(standing: Standing, at_least: float | None) -> Json:
    from seedbed.evaluation.judges.rubrics import AGREEMENT

    because = standing.refusal and output.problem_documents([standing.refusal])[0]
    wanted = AGREEMENT if at_least is None else at_least
    return {"trusted": standing.refusal is None, "at_least": wanted, "because": because}


def _listed(judge: Declared, standing: Standing) -> Json:
    counts = standing.agreement
    return {
        "name": judge.name,
        "kind": judge.kind,
        "model": judge.model,
        "n": counts and counts.n,
        "kappa": counts and counts.kappa,
        "low": counts and counts.low,
        "high": counts and counts.high,
        "trusted": standing.refusal is None,
    }


def _disagreements(labels: dict[str, Labelled], scores: Sequence[Score]) -> list[Json]:
    """Where the judge says something else than people, or nothing: the farthest from them first."""
    found = [
        {
            "place": place,
            "label": item.label,
            "score": score.value,
            "answer": item.run.output,
            "reason": score.reason,
        }
        for (place, item), score in zip(labels.items(), scores, strict=True)
        if score.value is None or abs(score.value - (item.label or 0.0)) > 1e-6
    ]
    return sorted(found, key=lambda each: -2.0 if each["score"] is None else -abs(each["score"] - each["label"]))


def _check_view(kept: Agreement, standing: Standing, differing: Sequence[Json]) -> list[RenderableType]:
    parts: list[RenderableType] = [line((f"{kept.name} ", "bold"), kept.figures)]
    if 0 < len(kept.values) <= FEW:
        heads = [f"judge {value:g}#" for value in kept.values]
        counts = [(f"people {value:g}", *map(str, row)) for value, row in zip(kept.values, kept.table, strict=True)]
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
        parts.append(line((f"and {len(differing) - FEW:,} more: --json has all of them", "dim")))
    if standing.agreement not in (None, kept):
        parts.append(line((f"what counts is the check on most labels: {standing.agreement.figures}", "dim")))
    return [*parts, _trust_view(standing)]


def _trust_view(standing: Standing) -> RenderableType:
    if standing.refusal is None:
        return line(("✓ trusted: ", "bold green"), "releases may rest on it")
    from rich.console import Group

    told = line(("✗ not trusted: ", "bold red"), "no release may rest on it")
    return Group(told, output.problem_view(standing.refusal))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
