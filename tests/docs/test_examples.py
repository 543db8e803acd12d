"""README and docs are executed: every file is written, every Python block and every command line is run.

In Markdown, `<!-- file: NAME -->` before a block writes it to that file, `<!-- exit: 1 -->` names the exit
codes that are right for the commands of the next block (otherwise 0). A block after `<!-- example: PATH -->`
is the text of that file, which has tests of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
BLOCK = re.compile(r"(?:<!-- (?P<note>.+?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    note: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        yield Block(match["language"], match["text"], match["note"] or "", line)


def runnable(page: Path) -> bool:
    return any(block.language in ("python", "console") and "example: " not in block.note for block in blocks(page))


def run(command: list[str], folder: Path, allowed: set[int], where: str) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "default", "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode in allowed, f"{where}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, where


@pytest.mark.parametrize(
    "page", [page for page in PAGES if runnable(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_example_runs(page: Path, tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        kind, _, value = block.note.partition(": ")
        if kind == "example":
            continue
        if kind == "file":
            (folder / value).write_text(block.text)
        elif block.language == "python":
            run([sys.executable, "-c", block.text], folder, {0}, where)
        elif block.language == "console":
            allowed = {int(code) for code in value.split()} if kind == "exit" else {0}
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    run(["bash", "-c", line[2:]], folder, allowed, f"{where}: {line}")
                    # Each line is a shell of its own, so the walk follows `cd` by itself.
                    if moved := re.search(r"&& cd (\S+)$", line):
                        folder = folder / moved[1]


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in navigation, page.name
