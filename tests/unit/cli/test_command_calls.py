"""Whatever goes wrong becomes text and an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Seedbed
from typer.main import get_command

from seedbed.cli.main import main
from seedbed.errors import StoreError


def ending(error: BaseException) -> Any:
    """A command line whose only command ends so."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def fail(as_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    return get_command(app)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (typer.Exit(2), 2, ""),
        (StoreError("full"), 1, "✗ full"),
        (PermissionError(13, "Permission denied", "x.db"), 1, "✗ x.db: Permission denied"),
        (typer.BadParameter("odd"), 64, "Try 'seedbed --help'"),
        (KeyboardInterrupt(), 130, "Interrupted. Everything recorded so far is stored."),
        (typer.Abort(), 130, "Interrupted"),
        (ZeroDivisionError("by zero"), 70, "unexpected ZeroDivisionError: by zero"),
        (RecursionError("deep"), 70, "unexpected RecursionError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_end_has_its_exit_code_and_its_words(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], ending(error)) == code
    printed = capsys.readouterr()
    assert said in printed.err
    assert not printed.out
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("error", [StoreError("full"), typer.BadParameter("odd"), ZeroDivisionError("by zero")])
def test_with_json_an_error_is_json_too(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"], ending(error))
    assert json.loads(capsys.readouterr().err)["error"] == type(error).__name__


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("run",),
        ("run", "sorter.yaml", "--nonsense"),
        ("run", "sorter.yaml", "no equals sign"),
        ("run", "sorter.yaml", "--seed", "many"),
        ("compare", "a", "b"),
        ("compare", "sorter.yaml", "sorter.yaml", "--on", "tasks.jsonl", "--alpha", "0.7"),
        ("evaluate", "sorter.yaml", "tasks.jsonl", "--metric", "beauty"),
        ("evaluate", "sorter.yaml", "tasks.jsonl", "--replicates", "0"),
        ("rollback", "production"),
        ("playbook", "nonsense"),
        ("playbook", "list", "--limit", "0"),
        ("playbook", "list", "--after", "99999999999999999999"),
        ("runs", "list", "--limit", "99999999999999999999"),
        ("playbook", "search", "--since", "yesterday"),
        ("playbook", "export", "sorter.yaml", "--format", "prose"),
        ("playbook", "derive", "sorter.yaml", "--because", "x"),
        ("playbook", "merge", "a", "b", "--because", "x", "--resolve", "coin"),
        ("playbook", "branch", "careful"),
        ("playbook", "branch", "careful", "sorter.yaml"),
        ("dataset", "split", "tasks.jsonl", "--share", "1"),
        ("store", "migrate", "--to", "newest"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_ends_with_64_and_changes_nothing(
    arguments: tuple[str, ...], space: Path, seedbed: Seedbed
) -> None:
    done = seedbed(*arguments)
    assert done.code == 64
    assert not done.out
    assert done.err.startswith("Usage: seedbed")
    assert "--help'" in done.err
    assert sorted(path.name for path in space.iterdir()) == ["bank.txt", "seedbed.yaml", "sorter.yaml", "tasks.jsonl"]
