"""Runs commands and scripts in children of one Python that has everything imported already.

To start Python and import seedbed takes longer than most commands of the documentation.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SECONDS = 600
"""How long a command may take."""

processes = multiprocessing.get_context("forkserver")


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


def run(command: list[str], folder: Path, environment: Mapping[str, str], output: Path) -> Done:
    """The result of `seedbed …` or `python -c …` in that folder. Its output passes through files beside `output`."""
    streams = [output.with_suffix(".stdout"), output.with_suffix(".stderr")]
    child = processes.Process(target=_perform, args=(command, folder, dict(environment), streams))
    child.start()
    child.join(SECONDS)
    if child.exitcode is None:
        child.kill()
        child.join()
    return Done(int(child.exitcode or 0), *(stream.read_text() for stream in streams))


def _perform(command: list[str], folder: Path, environment: dict[str, str], streams: list[Path]) -> None:
    for number, stream in enumerate(streams, 1):
        with stream.open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.setsid()
    warnings.simplefilter("default")
    sys.path[:] = [path for path in sys.path if "tests" not in Path(path).parts]
    name, *arguments = command
    if name == "seedbed":
        from seedbed.cli.main import run

        sys.argv = ["seedbed", *arguments]
        run()
    else:
        sys.path.insert(0, "")
        sys.argv = ["-c"]
        main = sys.modules["__main__"].__dict__
        exec(compile(arguments[-1], "<string>", "exec"), main)
