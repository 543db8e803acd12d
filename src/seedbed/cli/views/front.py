"""The Pareto front of evaluated playbooks, at the terminal and in reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from seedbed.cli import output
from seedbed.cli.output import line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.experiments.front import Front
    from seedbed.reports.scorecard import Report


def front_view(found: Front) -> RenderableType:
    """A line for each playbook; arrows point to where a measure is better."""
    from rich.console import Group

    from seedbed.reports import front

    count = f"{len(found.names)} of {output.counted(len(found.standings), 'playbook')} on the front"
    table = output.table(*front.heads(found), rows=front.rows(found))
    return Group("", line((count, "bold")), table, line((front.MEANING, "dim")))


def to_markdown(report: Report, found: Front) -> str:
    from seedbed.reports import front
    from seedbed.reports import scorecard as written

    table = written.table(front.heads(found), front.rows(found))
    return f"{written.to_markdown(report)}\n## {front.TITLE}\n\n{table}\n\n{front.MEANING}\n"


def to_html(report: Report, found: Front) -> str:
    from seedbed.reports import experiment_plots as plots
    from seedbed.reports import front, page

    return page.to_html(report, front.section(found), plots.STYLE)


def to_json(report: Report, found: Front) -> str:
    from seedbed.reports.scorecard import to_document

    return json.dumps(output.plain({**to_document(report), "front": found.document()}), ensure_ascii=False, indent=2)
