"""seedbed evolve: search for a better playbook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DryRun, WorkspaceFile
from seedbed.cli.output import INCONCLUSIVE, PASS

if TYPE_CHECKING:
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evolution.evolve import Evolution
    from seedbed.evolution.plan import Plan
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

NONE = "none"
"""What is written for no confirmation."""


def evolve(
    playbook: Annotated[
        str | None, typer.Argument(metavar="PLAYBOOK", help="A file, a digest, a ref or a channel.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="A file or folder of tasks, or a kept dataset; its splits reflect, select and confirm are minded.",
        ),
    ] = None,
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer", metavar="NAME", help="How to search: portfolio, best_of, reflection, nsga2(size=30), …"
        ),
    ] = "portfolio",
    budget: Annotated[
        str,
        typer.Option(
            "--budget", metavar="LIMIT", help="Never spend more: 400 runs, $2, 10 minutes; several with commas."
        ),
    ] = "500 runs",
    confirm: Annotated[
        str | None,
        typer.Option(
            "--confirm",
            metavar="DATASET",
            help="Other tasks that confirm what was found; none for no confirmation. Unless given: a quarter of them.",
        ),
    ] = None,
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="FILE", help="Texts to try: one on each line, or a YAML list.")
    ] = None,
    gene: Annotated[str | None, typer.Option("--gene", metavar="PATH", help="The text that is changed.")] = None,
    demos: Annotated[
        int, typer.Option("--demos", min=0, help="Try each text of the bank also with so many worked examples.")
    ] = 0,
    reflector: Annotated[
        str | None,
        typer.Option("--reflector", metavar="MODEL", help="A model that reads poor runs and proposes edits."),
    ] = None,
    patience: Annotated[
        int | None, typer.Option("--patience", min=1, metavar="STEPS", help="Stop after so many that found nothing.")
    ] = None,
    surrogate: Annotated[
        bool,
        typer.Option(
            "--surrogate", help="Skip candidates that seem hopeless by the scores of others; one in twenty is tried."
        ),
    ] = False,
    branch: Annotated[str | None, typer.Option("--branch", help="A branch to point at the best.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Draws tasks and candidates.")] = 0,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="How answers are scored: exact_match. Several make a front; the first decides.",
        ),
    ] = None,
    parallel: Annotated[
        str | None, typer.Option("--parallel", metavar="WHERE", help="loop, processes, a number of them, or ray.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a report: .md or .html.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SEARCH", help="Go on with a search that was interrupted.")
    ] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Search for a better playbook within a budget, and say how much of the gain other tasks confirm.

    Every candidate is kept as a child of what it grew from. A third of the tasks may be read, most decide, and a
    quarter is opened once at the end. After an interruption give the same command again, or --resume: it goes on where
    it was, and pays nothing twice.

    JSON: search, optimizer, metric, better, tasks (reflect, select), start, best, improved, score, start_score,
    optimism, confirmed, answer, changes (path, before, after), arms, skipped (candidates, hopeless, evaluated, wrong,
    low, high), front, diversity (step, distance), tried (playbook, how, arm, parents, score, deviation, tasks, scores),
    steps (runs, offered, best, score, deviation), spent (runs, tokens, usd, seconds), budget, ended, branch.
    JSON with --dry-run: start, optimizer, budget, reflect, select, confirm.
    Exit code 2 if nothing was better than the start.
    """
    from seedbed.cli.views import search as evolving
    from seedbed.reports.search.report import view_of

    given: Json = {
        "playbook": playbook,
        "dataset": dataset,
        "optimizer": optimizer,
        "budget": budget,
        "confirm": confirm,
        "bank": [] if bank is None else read_bank(bank),
        "gene": gene,
        "demos": demos,
        "reflector": reflector,
        "patience": patience,
        "surrogate": surrogate,
        "seed": seed,
        "metric": metric or ["exact_match"],
    }
    if resume is None and (playbook is None or dataset is None):
        raise typer.BadParameter("expected a playbook and a dataset, or --resume SEARCH", param_hint="PLAYBOOK")
    options.new_report(report)
    for name in given["metric"]:
        options.expect_metric(workspace, name)
    with options.opened(workspace, dry_run=dry_run) as space:
        if resume is not None:
            given = begun(space, resume)
        plan, metrics = planned(space, given)
        if dry_run:
            output.show(evolving.plan_document(plan), as_json, evolving.plan_view(plan))
            return
        found = evolved(space, plan, metrics, given, parallel)
        chosen = branch if found.improved else None
        if chosen:
            space.library.name(chosen, found.best, because=f"best of {len(found.pool) - 1} candidates")
        summary = view_of(space.store, found)
        if report:
            evolving.write_report(summary, report)
        output.show({**evolving.document(summary), "branch": chosen}, as_json, evolving.view(summary))
    if report and not as_json:
        output.show(None, False, output.line(("✓ ", "bold green"), f"wrote {report}"))
    raise typer.Exit(PASS if found.improved else INCONCLUSIVE)


def planned(space: Workspace, given: Json) -> tuple[Plan, list[Metric]]:
    """The plan that the options make, and how its candidates are scored."""
    from seedbed.errors import PlaybookError, SettingsError
    from seedbed.evolution.optimizers.registry import SearchInputs, make_optimizer
    from seedbed.evolution.plan import Plan, split_tasks
    from seedbed.spending.account import Budget

    start, seed, confirm = space.playbook(given["playbook"]), given["seed"], given["confirm"]
    reads = given["optimizer"] != "best_of" or bool(given["demos"])
    tasks = split_tasks(options.dataset(space, given["dataset"]), seed, reads=reads, confirms=confirm is None)
    others = options.dataset(space, confirm) if confirm not in (None, NONE) else None
    means = SearchInputs(
        start,
        instructions=tuple(given["bank"]),
        gene=given["gene"],
        tasks=tasks.only(split="reflect").tasks if "reflect" in tasks.splits else (),
        demos=given["demos"],
        reflector=given["reflector"],
        seed=seed,
    )
    try:
        chosen, limit = make_optimizer(given["optimizer"], means), Budget.parse(given["budget"])
    except SettingsError as wrong:
        option = wrong.problems[0].path.partition(" ")[0]
        raise typer.BadParameter(str(wrong), param_hint=f"--{option}") from None
    except PlaybookError as wrong:
        if wrong.problems[0].path != "gene":  # the others are about the playbook, not about what was typed
            raise
        raise typer.BadParameter(str(wrong), param_hint="--gene") from None
    limits = {"budget": limit, "patience": given["patience"], "surrogate": given.get("surrogate", False)}
    plan = Plan.of(start, tasks, chosen, confirm=others, seed=seed, **limits)
    return plan, [options.metric(space, name) for name in given["metric"]]


def evolved(space: Workspace, plan: Plan, metrics: list[Metric], given: Json, parallel: str | None) -> Evolution:
    """Search with live progress. What was asked for is kept, to be taken up by --resume."""
    from seedbed.cli.views import search as evolving
    from seedbed.evolution.evaluators import RunEvaluator
    from seedbed.evolution.evolve import evolve

    arena, because = RunEvaluator(space.context_on(parallel), metrics), f"by {given['optimizer']}"
    with evolving.watched(plan, metrics) as watch:
        work = evolve(plan, arena, space.library, because=because, options=_named(space, plan, given), on_event=watch)
        return options.complete(work)


def _named(space: Workspace, plan: Plan, given: Json) -> Json:
    """The options with what they named: files may change until the search is taken up again."""
    from seedbed.evaluation.datasets.dataset import Dataset

    parts = {name: part for name, part in (("reflect", plan.reflect), ("select", plan.select)) if len(part)}
    whole = Dataset((*plan.reflect, *plan.select)).with_splits(parts)
    return {
        **given,
        "playbook": space.library.keep(plan.start, because="evolved"),
        "dataset": space.store.put("dataset", whole.content()),
        "confirm": space.store.put("dataset", plan.confirm.content()) if len(plan.confirm) else NONE,
    }


def begun(space: Workspace, search: str) -> Json:
    """The options that a search was begun with. Raises NotFound."""
    from seedbed.errors import NotFound
    from seedbed.storage.store import Query

    start = f"b2:{search.removeprefix('b2:')}"
    found = list(space.store.facts(Query(kind="search", key_from=start, limit=2)))
    if len(found) != 1:
        told = "begins several searches. Give more characters" if found else "is no search in this store"
        raise NotFound(f"{search} {told}. `seedbed search list` has them all")
    given: Json = found[0].body["options"]
    if not given:
        raise NotFound(f"{search} was begun in Python. Begin it there again with the same arguments, and it goes on")
    return given


def read_bank(path: Path) -> list[str]:
    from seedbed import documents
    from seedbed.errors import PlaybookError, Problem

    if path.suffix in (".yaml", ".yml", ".json"):
        texts = documents.read(path, PlaybookError).value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise PlaybookError([Problem("document", type(texts).__name__, "a list of texts")], str(path))
    else:
        try:
            texts = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as wrong:
            raise PlaybookError([Problem("file", str(wrong), "a readable file of texts")], str(path)) from None
    texts = [text.strip() for text in texts if text.strip()]
    if not texts:
        raise PlaybookError([Problem("file", "no texts", "at least one")], str(path))
    return texts
