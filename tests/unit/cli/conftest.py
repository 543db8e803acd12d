"""A terminal of its own for every test: an empty folder, no settings from outside, no colour."""

from __future__ import annotations

import os
import shutil
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from command_line import BANK, EVOLVE, SORTER, WORKSPACE, Done, Seedbed, tasks, write

from seedbed.cli import output
from seedbed.cli.main import main


@pytest.fixture(autouse=True)
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SEEDBED_") or name in ("NO_COLOR", "FORCE_COLOR")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    output.console.cache_clear()
    output.errors.cache_clear()


@pytest.fixture
def seedbed(capsys: pytest.CaptureFixture[str]) -> Seedbed:
    """Type a command."""

    def typed(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return Done(code, printed.out, printed.err)

    return typed


@pytest.fixture(scope="session")
def left_behind() -> dict[bytes, tuple[Done, Path]]:
    """What was printed by commands that several tests begin with, and the folder that each left; by `prepared`."""
    return {}


@pytest.fixture
def prepared(
    tmp_path: Path,
    seedbed: Seedbed,
    left_behind: dict[bytes, tuple[Done, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Seedbed:
    """Type a command that other tests type too: in equal folders it is run once, and what it left is copied."""

    def typed(*arguments: str) -> Done:
        files = [(str(path.relative_to(tmp_path)), path.read_bytes()) for path in _files(tmp_path)]
        key = blake2b(repr((arguments, files)).encode()).digest()
        if key not in left_behind:
            done = seedbed(*arguments)
            left_behind[key] = done, tmp_path_factory.mktemp("left")
            shutil.copytree(tmp_path, left_behind[key][1], dirs_exist_ok=True)
        done, folder = left_behind[key]
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return done

    return typed


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A workspace in the current folder with a scripted model, a playbook, tasks and a bank of prompts."""
    write(tmp_path, seedbed__yaml=WORKSPACE, sorter__yaml=SORTER, tasks__jsonl=tasks(), bank__txt=BANK)
    return tmp_path


@pytest.fixture
def kept(space: Path, prepared: Seedbed) -> str:
    """The digest of the sorter, which is in the store."""
    return str(prepared("playbook", "keep", "sorter.yaml", "--because", "test", "--json").json["playbook"])


@pytest.fixture
def split(space: Path) -> Path:
    """A workspace whose tasks are split: enough to learn on, some held out."""
    lines = tasks(60).splitlines(keepends=True)
    write(space, train__jsonl="".join(lines[:40]), test__jsonl="".join(lines[40:]))
    return space


@pytest.fixture
def evolved(split: Path, prepared: Seedbed) -> Path:
    """A workspace in which a better playbook was found and the first one is released."""
    assert prepared(*EVOLVE).code == 0
    assert prepared("release", "sorter.yaml", "--to", "production", "--because", "first").code == 0
    return split
