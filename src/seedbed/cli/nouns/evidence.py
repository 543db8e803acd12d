"""seedbed evidence: certificates, attempts, files that prove a verdict, signatures, budget and sentinel."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from seedbed.cli import output, progress
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import AlphaRate, ChannelName, ExperimentName, MetricName, RealTools
from seedbed.cli.output import BLOCKED, PASS, Column, line, when
from seedbed.cli.views import verdict as views
from seedbed.reports.numbers import counted
from seedbed.storage.store import short
from seedbed.workspace.nouns.experiments import verify_evidence
from seedbed.workspace.nouns.storage import new_signing_key, read_signers

app = typer.Typer(no_args_is_help=True)

DIGEST = re.compile(r"(b2:)?[0-9a-f]+")
"""How an experiment is named; anything else is a file."""

ATTEMPTS = (
    Column("against", lambda each: line((short(each["incumbent"]), "yellow"))),
    Column("attempt", lambda each: f"{each['number']}", number=True),
    Column("candidate", lambda each: short(each["candidate"])),
    Column("share", lambda each: f"{each['share']:.4f}", number=True),
    Column("level", lambda each: f"{each['level']:.2g}", number=True),
    Column("finding", lambda each: each["finding"]),
    Column("by", lambda each: each["by"], drop=1),
    Column("since", lambda each: when(each["at"]), drop=2),
)


@command(app)
def show(call: Invocation, name: ExperimentName) -> None:
    """Show a verdict's certificate: its registration, every outcome, the stopping rule's path, and any caveats.

    Exits with code 1 if anything differs when recomputed.
    """
    with call.open() as space:
        proof = space.experiments.certificate(name)
    flags = [
        (line(("✓", "green")) if holds else line(("✗", "bold red")), flag.replace("_", " "))
        for flag, holds in proof.flags.items()
    ]
    view = Group(views.verdict_view(proof.verdict, proof.experiment.rule), "", output.table("", "claim", rows=flags))
    coverage = [Group("", views.coverage_view(proof.coverage))] if proof.coverage else []
    tried = [output.listing(ATTEMPTS, [asdict(attempt) for attempt in proof.attempts])] if proof.attempts else []
    call.show(proof.document(), view, *coverage, *tried, *map(output.problem_view, proof.problems))
    raise typer.Exit(BLOCKED if proof.problems else PASS)


@command(app)
def verify(
    call: Invocation,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help="Digests, digest prefixes, or files written by `evidence export`. Default: all verdicts.",
        ),
    ] = None,
    signers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A workspace file with `signers`: one of them must have registered and signed the experiment in each "
            "evidence file, and everything done in a signer's name must carry that signer's signature.",
        ),
    ] = None,
) -> None:
    """Recompute every number in verdicts from the raw facts, and check that nothing was altered.

    A file is checked without a store or a workspace; for verdicts in a store, the signers are read from
    the workspace file.

    Exits with code 1 if anything differs.
    """
    files = [name for name in names or () if Path(name).is_file() or not DIGEST.fullmatch(name)]
    others = [name for name in names or () if name not in files]
    if signers and (others or not files):
        raise typer.BadParameter("expected evidence files; a workspace has its own signers", param_hint="--signers")
    keys = read_signers(signers) if signers else None
    checks = (verify_evidence(file, signers=keys) for file in files)
    results = {check.experiment: [*check.problems] for check in checks}
    if others or not files:
        with call.open() as space:
            results |= space.experiments.verify(others)
    documents = [
        {"experiment": key, "problems": output.problem_documents(problems)} for key, problems in results.items()
    ]
    lines = [
        line(("✗ ", "bold red"), f"{short(key) or 'a release'} differs from its raw facts")
        if problems
        else line(("✓ ", "bold green"), f"every number in {short(key)} follows from its raw facts")
        for key, problems in results.items()
    ]
    wrong = dict.fromkeys(problem for problems in results.values() for problem in problems)
    call.show(documents, *(lines or [line("No verdicts yet.")]), *map(output.problem_view, wrong))
    raise typer.Exit(BLOCKED if wrong else PASS)


@command(app)
def head(call: Invocation) -> None:
    """Print the last link in the chain of facts, for you to keep outside the store.

    Each fact is chained to all earlier ones. If `store verify --head LINK` still finds this link later, nothing before
    it has been changed or removed, not even by someone who can write to the store.
    """
    with call.open() as space:
        end = space.experiments.head()
    call.show(end, output.facts([(name, str(value)) for name, value in end.items()]))


@command(app)
def export(
    call: Invocation,
    name: ExperimentName,
    to: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The new file to write.")],
) -> None:
    """Write everything a verdict rests on to one file, which `evidence verify FILE` can check anywhere.

    It contains the tasks, playbooks, answers and scores of the comparison in plain text, and the ids, times and authors
    of all other facts.
    """
    output.expect_new(to)
    with call.open() as space:
        path = space.experiments.export_evidence(name, to)
    size = path.stat().st_size
    call.show({"file": str(path), "bytes": size}, line(f"Wrote {path} ({size:,} bytes)."))


@command(app)
def key(
    call: Invocation,
    to: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file for the private key.")],
) -> None:
    """Create a key for signing what you register, approve and release.

    The private key is written to a file that only you can read. Add the public key to `signers` in the workspace file.
    """
    public = new_signing_key(to)
    text = f"Wrote {to}. Set SEEDBED_SIGNING_KEY to its contents, and add this to the workspace file:"
    call.show({"file": str(to), "public": public}, line(text), line(f"signers: {{YOUR NAME: {public}}}"))


@command(app)
def sign(call: Invocation) -> None:
    """Sign anything you registered, approved or released that is not signed yet.

    You rarely need this: if SEEDBED_SIGNING_KEY is set, each command signs its own work before it exits.
    """
    with call.open() as space:
        count = space.experiments.sign()
    call.show({"signed": count}, line(f"Signed {counted(count, 'fact')}."))


@command(app)
def attempts(
    call: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(metavar="CHANNEL|PLAYBOOK", help="The playbook, or a channel that serves it. Default: all."),
    ] = None,
) -> None:
    """List the attempts to replace a playbook, or a channel's current one. They all share one error rate.

    Aborted and unfinished attempts count too. Set the first attempt's share with `attempts` under the channel in the
    workspace file.
    """
    with call.open() as space:
        known = [asdict(attempt) for attempt in space.experiments.attempts(name)]
    call.list("attempts", known, ATTEMPTS, "No attempts yet.")


@command(app)
def budget(call: Invocation, channel: ChannelName) -> None:
    """Show how much is left of a channel's error budget, which all candidates ever judged for it share.

    Set its rate with `error_budget` under the channel in the workspace file.
    """
    with call.open() as space:
        budget, balance = space.experiments.error_budget(channel)
    view = output.facts(
        [
            ("budget", f"{budget.name}: {budget.guarantee}"),
            (
                "tested",
                f"{balance.tested} ({balance.discoveries} called better); {balance.waiting} waiting",
            ),
            ("next", f"the error rate of the next candidate is {balance.next_alpha:.2g}"),
            ("left", f"{balance.left:.2g} of {budget.alpha:g} for all future candidates; each discovery adds to it"),
        ]
    )
    call.show({"channel": channel, "budget": budget.name, "alpha": budget.alpha, **asdict(balance)}, view)


@command(app)
def sentinel(
    call: Invocation,
    playbook: Annotated[
        str | None, typer.Argument(metavar="PLAYBOOK", help="The playbook to compare with itself.")
    ] = None,
    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help="The tasks to compare it on.")] = None,
    metric: MetricName = "exact_match",
    times: Annotated[int, typer.Option("--times", min=1, help="How many more A/A comparisons to run.")] = 1,
    alpha: AlphaRate = 0.05,
    real_tools: RealTools = False,
) -> None:
    """Show how often a playbook was judged better than itself: the error rate actually achieved.

    Given a playbook and a dataset, it first runs more A/A comparisons, using the same code as any other comparison.

    Exits with code 1 if that rate exceeds the promised one by more than chance would explain; releases are
    then blocked.
    """
    if (playbook is None) != (dataset is None):
        raise typer.BadParameter("expected a playbook and a dataset, or neither", param_hint="DATASET")
    done = count(1)
    with call.open(real_tools=real_tools) as space, progress.counting("A/A comparisons") as watch:
        result = wait_for(
            space.experiments.sentinel(
                playbook,
                dataset,
                metric=metric,
                times=times,
                alpha=alpha,
                on_event=lambda _: watch(next(done), times),
            )
        )
    rate = result.rate
    document = {"alpha": alpha, "games": rate.n, "rate": rate.mean, "low": rate.low, "high": rate.high}
    text = f"{rate.mean:.3f} [{rate.low:.3f}, {rate.high:.3f}] in {counted(rate.n, 'comparison')}"
    mark = line(("✗ more often than promised", "bold red")) if result.alarmed else line(("✓ as promised", "bold green"))
    view = output.facts(
        [
            ("false winners", text if rate.n else "no A/A comparisons yet"),
            ("promised", f"at most {alpha:g}"),
            ("", mark if rate.n else ""),
        ]
    )
    call.show({**document, "alarmed": result.alarmed}, view)
    raise typer.Exit(BLOCKED if result.alarmed else PASS)
