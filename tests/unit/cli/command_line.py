"""The command line as a test types it, and a workspace to type it in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from seedbed.storage import open_store
from seedbed.storage.store import Content, Fact, Ref
from seedbed.testing import everything

WORKSPACE = """\
store: sqlite:///seedbed.db
by: ann
models:
  local:
    use: scripted
    args: {replies: {"(?s)Good or bad.*love": good, "Good or bad": bad, "boom": "", ".": "unsure [bold]ä[/bold] 🙂"}}
    can: [sorting]
    usd_per_million: [1000, 2000]
channels:
  production: {require: [better, held_out, rules_kept]}
"""

SORTER = """\
roles:
  sorter: {model: local, system: "Sort [red]mail[/red].", temperature: 0.5}
steps:
  - {name: label, role: sorter, prompt: "Message: {text}"}
parameters:
  caution: {value: 0.5, low: 0.0, high: 1.0}
rules:
  never: [delete_message]
locked: [roles.sorter.system]
"""

BANK = "Good or bad? {text}\nWhat about {text}\n"
BETTER = "Good or bad? {text}"
SIMPLY = ("--optimizer", "best_of")
EVOLVE = ("evolve", "sorter.yaml", "train.jsonl", "--bank", "bank.txt", "--branch", "better", *SIMPLY)


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Seedbed: TypeAlias = Callable[..., Done]


def tasks(count: int = 12) -> str:
    """Tasks that the sorter gets wrong and a better prompt gets right."""
    rows = [
        {"inputs": {"text": f"I {word} item {number}"}, "expected": answer}
        for number in range(count // 2)
        for word, answer in (("love", "good"), ("hate", "bad"))
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def held(url: str = "sqlite:///seedbed.db") -> tuple[list[Content], list[Fact], list[Ref]]:
    """All that a store holds, for comparison."""
    with closing(open_store(url)) as store:
        contents, facts, refs = everything(store)
        return sorted(contents, key=lambda content: content.digest), facts, refs


PAGE = Path(__file__).parents[3] / "docs" / "json.md"


def promised(*command: str, form: str = "JSON") -> dict[str, list[str]]:
    """The keys that docs/json.md promises of a command, each with those of the objects in it."""
    section = re.search(rf"^## {' '.join(command)}\n\n(.+?)(?=\n## |\Z)", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert section, f"docs/json.md has no section on {' '.join(command)}"
    lines = [" ".join(each.split()) for each in section[1].split("\n\n") if each.strip()]
    when = form.removeprefix("JSON").strip()
    when = when[:1].upper() + when[1:]
    fits = (lambda line: line.startswith(f"{when}: ")) if when else (lambda line: not re.match(r"[A-Z]", line))
    text = next(filter(fits, lines), "")
    assert text, f"docs/json.md says nothing of {' '.join(command)} {when}"
    keys = {}
    for name, inner in re.findall(r"(\w+)(?: \(([^)]*)\))?", text.removeprefix(f"{when}: ").rstrip(".")):
        keys[name] = inner.split(", ") if re.fullmatch(r"\w+(, \w+)+", inner) else []
    return keys


def keeps_promise(document: Any, *command: str, form: str = "JSON", also: str = "") -> bool:
    """Whether a document has exactly the keys that the docs promise; raises AssertionError with what differs."""
    keys = promised(*command, form=form) | (promised(*command, form=also) if also else {})
    assert list(document) == list(keys) or set(document) == set(keys)
    for name, inner in keys.items():
        each = document[name] if isinstance(document[name], list) else [document[name]]
        for item in each:
            assert not inner or item is None or set(item) == set(inner), name
    return True


def write(folder: Path, **files: str) -> None:
    """Files by name; a double underscore stands for the dot."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
