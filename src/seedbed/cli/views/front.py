"""The Pareto front of evaluated playbooks, at the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed.cli import output
from seedbed.cli.output import line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.experiments.front import Front


def front_view(found: Front) -> RenderableType:
    """A line for each playbook; arrows point to where a measure is better."""
    from rich.console import Group

    from seedbed.reports import front

    count = f"{len(found.names)} of {output.counted(len(found.standings), 'playbook')} on the front"
    table = output.table(*front.heads(found), rows=front.rows(found))
    return Group("", line((count, "bold")), table, line((front.MEANING, "dim")))
