"""Changes: what differs between two playbooks, and which changes exceed a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from seedbed.errors import Problem, shown
from seedbed.playbooks.genes import edited_characters, flatten, genes
from seedbed.playbooks.playbook import Playbook, as_playbook
from seedbed.playbooks.values import is_number
from seedbed.playbooks.word_diff import changed_parts

DiffPiece = tuple[Literal["kept", "removed", "added"], str]


@dataclass(frozen=True, slots=True)
class Change:
    """One leaf that differs. `before` or `after` is None where it did not exist."""

    path: str
    before: Any
    after: Any

    @property
    def is_text(self) -> bool:
        return isinstance(self.before, str) and isinstance(self.after, str) and " " in self.before + self.after

    def pieces(self) -> Iterator[DiffPiece]:
        """The change of a text, word by word."""
        for same, parts in groupby(changed_parts(str(self.before), str(self.after)), lambda part: part[0] == part[1]):
            old, new = map("".join, zip(*parts, strict=True))
            if same and old:
                yield "kept", old
            if not same and old:
                yield "removed", old
            if not same and new:
                yield "added", new

    def __str__(self) -> str:
        if not self.is_text:
            return f"{self.path}: {_shown(self.before)} → {_shown(self.after)}"
        marks = {"kept": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
        return f"{self.path}: " + "".join(marks[what].format(text) for what, text in self.pieces())


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return f"{value:g}" if is_number(value) else shown(value, 200)


def diff(before: Playbook | Path | str, after: Playbook | Path | str) -> list[Change]:
    """Every leaf that differs between two playbooks or files of them, in the order of the documents."""
    before, after = as_playbook(before), as_playbook(after)
    old, new = flatten(before), flatten(after)
    was, now = {**_rounds(before), **old}, {**_rounds(after), **new}
    return [Change(path, was.get(path), now.get(path)) for path in {**old, **new} if was.get(path) != now.get(path)]


def _rounds(playbook: Playbook) -> dict[str, int]:
    """The limit of rounds of each loop, also where it is the default."""
    return {f"steps.{step.name}.until.at_most": step.until.at_most for step in playbook.all_steps() if step.until}


def excess(before: Playbook, after: Playbook, *, number: float, text: float) -> list[Problem]:
    """Changes that are larger than allowed.

    `number` is the largest change of a number, as a share of its range if it has one; `text` the largest edit of a text
    in characters. A gene that appears, disappears or changes its kind is always too much.
    """
    old, new = genes(before), genes(after)
    problems = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was is None or now is None or was.kind != now.kind:
            change = "a gene that is new" if was is None else "a gene that is gone" if now is None else "another kind"
            problems.append(Problem(path, change, "the same genes as before", "A person may review it."))
        elif was.kind in ("number", "integer"):
            span = 1.0 if was.span is None else was.span
            if abs(now.value - was.value) > number * span + 1e-12:
                change = f"{was.value:g} → {now.value:g}"
                problems.append(Problem(path, change, f"a change of at most {number * span:g}"))
        elif was.kind == "text" and (size := edited_characters(was.value, now.value)) > text:
            problems.append(Problem(path, f"{size:,} edited characters", f"at most {text:,g}"))
    return problems
