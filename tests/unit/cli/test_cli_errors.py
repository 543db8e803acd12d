"""What the command line says when it is called wrongly, in words and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import SORTER, WORKSPACE, Seedbed, tasks, write

ORDER = "The playbook comes first, then the tasks."
A_PLAYBOOK = "Name a .yaml or .json file, a digest, a ref or a channel."
A_DATASET = "Name a file such as tasks.jsonl, a folder, or a stored dataset."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    write(tmp_path, **{"seedbed.yaml": WORKSPACE, "sorter.yaml": SORTER, "train.jsonl": tasks(4)})
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("evaluate train.jsonl sorter.yaml", ORDER),
        ("evolve train.jsonl sorter.yaml", ORDER),
        ("run train.jsonl", A_PLAYBOOK),
        ("playbook show train.jsonl", A_PLAYBOOK),
        ("dataset show sorter.yaml", A_DATASET),
        ("compare sorter.yaml sorter.yaml --on sorter.yaml", A_DATASET),
        ("evolve sorter.yaml train.jsonl --instructions nope.txt", "No such file or directory"),
        ("rollback production --because x", 'no channel with a release named "production"'),
        ("channel promote production --because x", "Release a playbook to it first: seedbed release PLAYBOOK"),
        ("channel freeze production --because x", 'no channel with a release named "production"'),
        ("channel log production", 'no channel with a release named "production"'),
        ("evidence verify nope.evidence", "nope.evidence: found no such file; expected an evidence file"),
        ("evidence verify 0abc", "is not an experiment in this store"),
        ("evaluate sorter.yaml train.jsonl --replicates 0", "'--replicates': found \"0\"; expected at least 1"),
        ("compare sorter.yaml sorter.yaml --on train.jsonl --replicates x", 'found "x"; expected a whole number'),
        ("evalute sorter.yaml", "No such command 'evalute'. Did you mean 'evaluate'"),
    ],
)
def test_a_wrong_call_says_what_to_do(line: str, message: str, seedbed: Seedbed) -> None:
    done = seedbed(*line.split())
    assert done.code in (1, 64)
    assert message in " ".join(done.err.split())
    assert "[Errno" not in done.err
    assert "Input should be" not in done.err
    assert (ORDER in done.err) == (message == ORDER)


@pytest.mark.parametrize(
    ("line", "path", "found"),
    [
        ("rollback production --because x", "channel", 'no channel with a release named "production"'),
        ("evidence verify nope.evidence", "nope.evidence", "no such file"),
        ("evaluate sorter.yaml train.jsonl --replicates 0", "--replicates", '"0"'),
        ("evaluate sorter.yaml", "DATASET", "only sorter.yaml"),
        ("evolve sorter.yaml train.jsonl --budget lots", "budget", '"lots"'),
        ("release sorter.yaml", "--to", "Missing option '--to'."),
        ("evalute", "", "No such command 'evalute'."),
        ("experiment show 0abc", "", '"0abc" is not an experiment in this store'),
    ],
)
def test_an_error_in_json_has_its_problems(line: str, path: str, found: str, seedbed: Seedbed) -> None:
    document = json.loads(seedbed(*line.split(), "--json").err)
    (problem,) = document["problems"]
    assert problem["path"] == path
    assert problem["found"].startswith(found)


def test_a_signing_key_that_is_none_is_refused_before_anything_moves(
    seedbed: Seedbed, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDBED_SIGNING_KEY", "/home/ann/key")
    done = seedbed("release", "sorter.yaml", "--to", "production", "--because", "the first one")
    assert done.code == 1
    assert "the path of a file" in done.err
    assert not (folder / "seedbed.db").exists()
