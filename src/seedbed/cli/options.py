"""Options and arguments that several commands take, and how their values are read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from seedbed.cli import output
from seedbed.documents import parse
from seedbed.errors import PlaybookError
from seedbed.settings.values import A_SHARE, share

REPORTS = (".md", ".html")
"""How the names of report files end."""

PLAYBOOK = "A file, a digest, a ref or a channel."
DATASET = "A file or folder of tasks, or a stored dataset; NAME:SPLIT selects one split."

Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
Because = Annotated[str, typer.Option("--because", metavar="REASON", help="The reason to record.")]
PlaybookName = Annotated[str, typer.Argument(metavar="PLAYBOOK", help=PLAYBOOK)]
DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help=DATASET)]
ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel's name, such as production.")]
ExperimentName = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="The experiment's digest, or a prefix of it.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set one value, for example roles.writer.temperature=0.2."),
]
ProgramPath = Annotated[
    str | None,
    typer.Option(
        "--program", metavar="MODULE:FUNCTION", help="The function that runs the playbook, in place of its own steps."
    ),
]
RowLimit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Show at most this many.")]
MetricName = Annotated[str, typer.Option("--metric", metavar="METRIC", help="The metric used to score answers.")]
RunScores = Annotated[str, typer.Option("--metric", help="The scores to use; outcome means user feedback.")]
Parallel = Annotated[
    str | None,
    typer.Option(
        "--parallel", metavar="WHERE", help="Where to execute runs: loop, processes, ray, or a number of processes."
    ),
]
RealTools = Annotated[
    bool,
    typer.Option("--real-tools", help="Use real tools. Default: only simulated or sandboxed ones."),
]
ReportFile = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a report to a new .md or .html file.")
]
OutputFile = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write. Default: standard output.")
]
Seed = Annotated[int, typer.Option("--seed", help="The random seed; the same seed gives the same draws.")]


def _dollars(amount: float | None) -> float | None:
    if amount is not None and not 0 <= amount < math.inf:
        raise typer.BadParameter(f"found {amount:g}; expected an amount in dollars, from 0, such as 0.5")
    return amount


MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="USD",
        callback=_dollars,
        help="Never spend more than this. Rerun the command to continue.",
    ),
]


def _error_rate(alpha: float) -> float:
    if not 0 < alpha < 0.5:
        raise typer.BadParameter(f"found {alpha}; expected above 0 and below 0.5")
    return alpha


AlphaRate = Annotated[
    float,
    typer.Option(
        "--alpha", metavar="RATE", callback=_error_rate, help="The maximum probability of a false finding, below 0.5."
    ),
]


def read_share(text: str) -> float:
    if (value := share(text)) is None:
        raise typer.BadParameter(f'found "{text}"; expected {A_SHARE}')
    return value


CanaryShare = Annotated[
    float | None,
    typer.Option(
        "--share", metavar="SHARE", parser=read_share, help="The share of users who get the canary, such as 5%."
    ),
]


def assignments(pairs: Iterable[str] | None, option: str = "--set") -> dict[str, Any]:
    """`PATH=VALUE` pairs as a mapping; values are YAML, so that 0.2 is a number and [a, b] a list."""
    return {name: _value(text) for name, text in texts(pairs, option).items()}


def _value(text: str) -> Any:
    """A value as it was meant: prose stays text, although YAML makes a mapping of `Mood: {text}` or `{text}`."""
    try:
        value = parse(text, "", PlaybookError).value
    except PlaybookError:
        return text
    if isinstance(value, str):
        meant = text.startswith(("'", '"'))
    elif isinstance(value, dict):
        meant = text.startswith("{") and None not in value.values()
    elif isinstance(value, list):
        meant = text.startswith("[")
    else:
        meant = value is not None or text in ("null", "~")
    return value if meant else text


def texts(pairs: Iterable[str] | None, option: str) -> dict[str, str]:
    """`name=value` pairs as a mapping of texts."""
    result = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"found {pair!r}; expected name=value", param_hint=option)
        result[name] = value
    return result


def moment(text: str | None, option: str) -> datetime | None:
    """A date or time as people write it; without a zone it is local."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        hint = "expected a date or time such as 2026-11-15 or 2026-11-15T14:00"
        raise typer.BadParameter(f"found {text!r}; {hint}", param_hint=option) from None


def expect_report(file: Path | None) -> None:
    """Refuse a file that a report cannot be written to, before anything is paid."""
    if file and file.suffix not in REPORTS:
        expected = f"expected a name that ends with {' or '.join(REPORTS)}"
        raise typer.BadParameter(f"found {file.name}; {expected}", param_hint="--output")
    if file:
        output.expect_new(file)
