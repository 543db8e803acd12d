"""Sessions that another agent recorded: read and compared without a workspace, and not stored."""

from __future__ import annotations

from pathlib import Path

from seedbed.errors import DocumentError, Problem
from seedbed.experiments import session_comparison
from seedbed.experiments.session_comparison import Hindsight
from seedbed.runs.imports.sessions import Session, load


def read_sessions(file: Path) -> tuple[Session, ...]:
    """The sessions of a file. Raises DocumentError."""
    return load(file)


def compare_sessions(file: Path, a: str, b: str, *, alpha: float = 0.05) -> Hindsight:
    """Compare sessions of a file, by their ids or by `config.KEY=VALUE`.

    Raises DocumentError with what is wrong on both sides.
    """
    recorded = load(file)
    sides, problems = [], list[Problem]()
    for name in (a, b):
        try:
            sides.append(session_comparison.select(recorded, name))
        except DocumentError as wrong:
            problems += wrong.problems
    if problems:
        raise DocumentError(problems, str(file))
    return session_comparison.compare_sessions(*sides, alpha=alpha)
