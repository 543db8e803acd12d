"""How specialised playbooks and their bases look over all corpora."""

from __future__ import annotations

from rich.console import Group, RenderableType

from seedbed.cli import output
from seedbed.cli.output import line
from seedbed.cli.views.scorecard import spent_line
from seedbed.evaluation.specialisation import Specialisation
from seedbed.reports import specialisation as reports


def view(across: Specialisation) -> RenderableType:
    """Scores and gains as tables with a column for each corpus, and which corpus is hard."""

    columns = [f"{corpus}#" for corpus in across.corpora]
    scores = output.table("playbook", *columns, rows=reports.score_rows(across), title=across.metric)
    rows = reports.gain_rows(across)
    if len(across.bases) == 1:  # then the heading names it
        gains = output.table(f"gain over {across.bases[0]}", *columns, rows=[(name, *rest) for name, _, *rest in rows])
    else:
        gains = output.table("gain over the base", "base", *columns, rows=rows)
    hard = [
        line((f"{base}, the hardest first: ", "dim"), ", ".join(corpus for corpus, _ in across.difficulty(base)))
        for base in across.bases
    ]
    spent = spent_line(across.cards.values())
    notes = [line(("! ", "bold yellow"), note) for note in across.notes]
    return Group(scores, "", gains, *hard, *notes, spent, line((reports.MEANING, "dim")))
