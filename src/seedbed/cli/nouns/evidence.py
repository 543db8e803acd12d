"""seedbed evidence: certificates, the error budget, and the A/A sentinel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, MetricName, WorkspaceFile
from seedbed.cli.output import BLOCKED, PASS, line

if TYPE_CHECKING:
    pass

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Its digest, or how it begins.")]


@app.command()
def show(name: Name, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """The certificate of a verdict: what was registered, every outcome, the path of the rule, what can be doubted.

    JSON: verdict, experiment, path, flags, coverage, problems.
    Exit code 1 if, computed again, anything differs.
    """
    from rich.console import Group

    from seedbed.cli.views import verdict as verdicts
    from seedbed.experiments.certificate import certificate
    from seedbed.experiments.verdict import found

    with options.opened(workspace) as space:
        proof = certificate(space.store, found(space.store, name))
    flags = [
        (line(("✓", "green")) if kept else line(("✗", "bold red")), words(flag)) for flag, kept in proof.flags.items()
    ]
    view = Group(verdicts.verdict_view(proof.verdict, proof.experiment.rule), "", output.table("", "claim", rows=flags))
    covered = [Group("", verdicts.coverage_view(proof.coverage))] if proof.coverage else []
    output.show(proof.document(), as_json, view, *covered, *map(output.problem_view, proof.problems))
    raise typer.Exit(BLOCKED if proof.problems else PASS)


def words(flag: str) -> str:
    return flag.replace("_", " ")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="EXPERIMENT", help="Digests, or how they begin; all if none is given.")
    ] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Compute every number of verdicts again from raw facts, and see that no byte was changed.

    JSON: a list of experiment, problems (path, found, expected, remedy).
    Exit code 1 if anything differs.
    """
    from seedbed.experiments.certificate import verify as verified
    from seedbed.experiments.verdict import found
    from seedbed.storage.store import Query, short

    with options.opened(workspace) as space:
        keys = [found(space.store, name) for name in names or ()]
        keys = keys or [fact.key for fact in space.store.facts(Query(kind="verdict"))]
        results = verified(space.store, keys)
    documents = [
        {"experiment": key, "problems": output.problem_documents(problems)} for key, problems in results.items()
    ]
    views = [
        line(("✗ ", "bold red") if problems else ("✓ ", "bold green"), short(key), f" {told}")
        for key, problems in results.items()
        for told in ["is not what it says" if problems else "follows from the raw facts, every number of it"]
    ]
    wrong = dict.fromkeys(problem for problems in results.values() for problem in problems)
    output.show(documents, as_json, *(views or [line("There is no verdict yet.")]), *map(output.problem_view, wrong))
    raise typer.Exit(BLOCKED if wrong else PASS)


@app.command()
def budget(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Whose candidates were judged.")],
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """What is left of a channel's error budget, which all candidates ever judged for it share.

    Its rate, and what keeps it, is `error_budget` under the channel in the workspace file.

    JSON: channel, budget, alpha, next_alpha, left, spent, tested, waiting, discoveries.
    """
    from dataclasses import asdict, replace

    from seedbed.experiments.error_budget import error_budget

    with options.opened(workspace) as space:
        bank = error_budget(space.store, channel, space.terms(channel))
        balance = replace(bank.balance(), next_alpha=space.next_level(channel))
    view = output.facts(
        [
            ("budget", f"{bank.name}: {bank.guarantee}"),
            ("tested", f"{balance.tested}, of which {balance.discoveries} were called better; {balance.waiting} wait"),
            ("next", f"the next candidate may err with chance {balance.next_alpha:.2g}"),
            ("left", f"{balance.left:.2g} of {bank.alpha:g} for all to come, and more with every discovery"),
        ]
    )
    output.show({"channel": channel, "budget": bank.name, "alpha": bank.alpha, **asdict(balance)}, as_json, view)


def _expect_rate(alpha: float) -> None:
    if not 0 < alpha < 0.5:
        raise typer.BadParameter(f"found {alpha}; expected above 0 and below 0.5", param_hint="--alpha")


@app.command()
def sentinel(
    playbook: Annotated[str | None, typer.Argument(metavar="PLAYBOOK", help="Who plays against itself.")] = None,
    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help="On which tasks.")] = None,
    metric: MetricName = "exact_match",
    times: Annotated[int, typer.Option("--times", min=1, help="How many games more.")] = 1,
    alpha: Annotated[float, typer.Option("--alpha", help="The error rate that is promised.")] = 0.05,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """How often a playbook was called better than itself: the error rate that is really kept.

    With a playbook and a dataset, so many games more are played first, by the same code as every comparison.

    JSON: alpha, games, rate, low, high, alarmed.
    Exit code 1 if it is more often than promised, beyond chance: then nothing should be released by itself.
    """
    from seedbed.experiments.sentinel import play
    from seedbed.experiments.sentinel import sentinel as looked

    if (playbook is None) != (dataset is None):
        raise typer.BadParameter("expected a playbook and a dataset, or neither", param_hint="DATASET")
    _expect_rate(alpha)
    read = options.dataset_file(dataset) if dataset else None
    with options.opened(workspace) as space:
        if playbook and dataset:
            from seedbed.cli import progress

            tasks = read or options.dataset(space, dataset)
            chosen, by = space.playbook(playbook), options.metric(space, metric)
            space.library.keep(chosen, because="compared")
            with progress.counting(times, "games") as heard:
                done = iter(range(1, times + 1))
                work = play(
                    chosen, tasks, by, space.context, times=times, alpha=alpha, watch=lambda _: heard(next(done))
                )
                found = options.complete(work)
        else:
            found = looked(space.store, alpha)
    rate = found.rate
    body = {"alpha": alpha, "games": rate.n, "rate": rate.mean, "low": rate.low, "high": rate.high}
    told = (
        f"{rate.mean:.3f} [{rate.low:.3f}, {rate.high:.3f}] in {output.counted(rate.n, 'game')}"
        if rate.n
        else "no games yet"
    )
    mark = line(("✗ more often than promised", "bold red")) if found.alarmed else line(("✓ as promised", "bold green"))
    view = output.facts([("false winners", told), ("promised", f"at most {alpha:g}"), ("", mark if rate.n else "")])
    output.show({**body, "alarmed": found.alarmed}, as_json, view)
    raise typer.Exit(BLOCKED if found.alarmed else PASS)
