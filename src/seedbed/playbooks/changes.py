"""What differs between two playbooks, and whether that is more than is allowed in one go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from seedbed.errors import Problem, shown
from seedbed.playbooks.genes import edited_characters, genes, leaves
from seedbed.playbooks.playbook import Playbook

Piece = tuple[Literal["kept", "removed", "added"], str]


@dataclass(frozen=True, slots=True)
class Change:
    """One leaf that differs. `before` or `after` is None where it did not exist."""

    path: str
    before: Any
    after: Any

    @property
    def is_text(self) -> bool:
        return isinstance(self.before, str) and isinstance(self.after, str) and " " in self.before + self.after

    def pieces(self) -> Iterator[Piece]:
        """A text's change word by word."""
        old, new = (re.findall(r"\s+|\S+", str(text)) for text in (self.before, self.after))
        for what, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if what == "equal":
                yield "kept", "".join(old[a:b])
            else:
                if a < b:
                    yield "removed", "".join(old[a:b])
                if c < d:
                    yield "added", "".join(new[c:d])

    def __str__(self) -> str:
        if not self.is_text:
            return f"{self.path}: {_told(self.before)} → {_told(self.after)}"
        marks = {"kept": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}
        return f"{self.path}: " + "".join(marks[what].format(text) for what, text in self.pieces())


def _told(value: object) -> str:
    if value is None:
        return "nothing"
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else shown(value, 200)


def diff(before: Playbook, after: Playbook) -> list[Change]:
    """Every leaf that differs, in the order of the documents."""
    old, new = leaves(before), leaves(after)
    return [Change(path, old.get(path), new.get(path)) for path in {**old, **new} if old.get(path) != new.get(path)]


def excess(before: Playbook, after: Playbook, *, number: float, text: float) -> list[Problem]:
    """Changes that are larger than one step may be.

    `number` is the largest change of a number, as a share of its range where it has one; `text` the
    largest edit of a text in characters. A gene that appears, disappears or changes kind is always too much.
    """
    old, new = genes(before), genes(after)
    problems = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was is None or now is None or was.kind != now.kind:
            found = "a gene that is new" if was is None else "a gene that is gone" if now is None else "another kind"
            problems.append(Problem(path, found, "the same genes as before", "A person may review it."))
        elif was.kind in ("number", "integer"):
            span = was.high - was.low if was.low is not None and was.high is not None else 1.0
            if abs(now.value - was.value) > number * span + 1e-12:
                found = f"{was.value:g} → {now.value:g}"
                problems.append(Problem(path, found, f"a change of at most {number * span:g}"))
        elif was.kind == "text" and (size := edited_characters(was.value, now.value)) > text:
            problems.append(Problem(path, f"{size:,} edited characters", f"at most {text:,g}"))
    return problems
