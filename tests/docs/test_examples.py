"""README and docs are executed: every file is written, every Python block and every command line is run.

In Markdown, `<!-- file: NAME -->` before a block writes it to that file, `<!-- exit: 1 -->` names the exit
codes that are right for the commands of the next block (otherwise 0). A block after `<!-- example: PATH -->`
is the text of that file, which has tests of its own. Datasets of the product are cut to a sixth and budgets to a
fifth, but not in WHOLE, whose search needs them to confirm its gain.
The embedded model answers in EMBEDDED, a quicker one in the other pages.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copy, copytree

import pytest

import forked

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
BLOCK = re.compile(r"(?:<!-- (?P<note>.+?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)

EMBEDDED = ROOT / "examples" / "suite" / "README.md"
WHOLE = ROOT / "docs" / "loop.md"

TASKS, BUDGET = 6, 5
"""By how much datasets and budgets are cut."""


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
    while assigned := re.match(r"([A-Z_]+)=(.*)", command[0]):
        environment[assigned[1]] = assigned[2]
        command = command[1:]
    if command[0] == "bash":
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=forked.SECONDS, check=False
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        code, out, err = forked.run(command, folder, environment, folder / ".command")
    assert code in allowed, f"{where}: exit code {code}\n{out}\n{err}"
    assert "Traceback" not in err, where


def typed(line: str, cut: int = BUDGET) -> list[str]:
    """A line as a command: of seedbed, if it is that alone, or for the shell. Budgets are cut as tasks are."""
    line = re.sub(r'"(\d+) runs"', lambda budget: f'"{int(budget[1]) // cut} runs"', line)
    words = shlex.shlex(line.partition(" && cd ")[0], posix=True, punctuation_chars="();<>|&$*`")
    words.whitespace_split = True
    found = list(words)
    plain = re.match(r"([A-Z_]+=\w+ )?seedbed ", line) and not any(set(word) & set("();<>|&$*`") for word in found)
    return found if plain else ["bash", "-c", line]


def shorten(*files: Path, share: int = TASKS) -> None:
    """A few of the tasks show that the commands work; how good the answers are, other tests find out with all."""
    for file in files:
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(sorted(random.Random(0).sample(lines, len(lines) // share), key=lines.index)))


def be_quick(folder: Path) -> None:
    """Let a new workspace ask the quick model wherever it would ask the embedded one."""
    for file in folder.glob("*/seedbed.yaml"):
        copy(Path(__file__).with_name("quick_model.py"), file.parent)
        was = "local: {use: embedded, args: {template: raw}}"
        assert was in file.read_text()
        file.write_text(file.read_text().replace(was, "local: {use: quick_model.QuickChat, usd_per_million: [0, 0]}"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if runnable(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_example_runs(page: Path, tmp_path: Path) -> None:
    folder = tmp_path
    copytree(ROOT / "examples", folder / "examples")
    shorten(*(folder / "examples/suite").glob("*.jsonl"))
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        kind, _, value = block.note.partition(": ")
        if kind == "example":
            continue
        if kind == "file":
            (folder / value).write_text(block.text)
        elif block.language == "python":
            run(["python", "-c", block.text], folder, {0}, where)
        elif block.language == "console":
            allowed = {int(code) for code in value.split()} if kind == "exit" else {0}
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    run(typed(line[2:], 1 if page == WHOLE else BUDGET), folder, allowed, f"{where}: {line}")
                    if line.startswith("$ seedbed init"):
                        if page != WHOLE:
                            shorten(*folder.rglob("messages.jsonl"), share=2)  # some are shown as worked examples
                        if page != EMBEDDED:
                            be_quick(folder)
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
