"""Changes: what differs between two playbooks, and which changes exceed a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from seedbed.errors import Problem, shown
from seedbed.playbooks.genes import edited_characters, flatten, genes
from seedbed.playbooks.playbook import Parameter, Playbook, as_playbook
from seedbed.playbooks.rules import locks
from seedbed.playbooks.rules.patterns import matches
from seedbed.playbooks.values import is_number
from seedbed.playbooks.word_diff import changed_parts
from seedbed.storage.store import short

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


def escapes(before: Playbook, after: Playbook) -> list[Problem]:
    """What `after` frees itself from that binds `before`: rules, locks, bounds, steps, tools, and the code it runs.

    Only a person changes these; nothing that evolves may.
    """
    remedy = "Only a person may change it."
    problems = [*before.loosened_by(after), *beyond_bounds(before, after)]
    gone = [lock for lock in before.locked if lock not in after.locked]
    problems += [Problem("locked", f"no lock on {lock}", f"{lock} locked", remedy) for lock in gone]
    problems += [
        Problem(each.path, "another value", "a locked value as it was", remedy)
        for each in (diff(before, after) if before.locked else ())
        if any(locks(lock, each.path) for lock in before.locked)
    ]
    if before.program != after.program:
        actual, expected = (shown(each.program) if each.program else "no program" for each in (after, before))
        problems.append(Problem("program", actual, expected, remedy))
    if before.steps and (removed := _step_names(before) - _step_names(after)):
        problems.append(Problem("steps", f"no step {', '.join(sorted(removed))} any more", "every step", remedy))
    if new := sorted(after.opened - before.opened):
        actual = f"{', '.join(map(short, new))}, which it did not open"
        problems.append(Problem("steps.opens.playbook", actual, "only playbooks that it opened", remedy))
    return [*problems, *_more_tools(before, after)]


def _more_tools(before: Playbook, after: Playbook) -> Iterator[Problem]:
    """Tools that a step may call and could not before; a new step may call those of its role."""
    named = {step.name: before.tools_of(step) for step in before.all_steps()}
    for step in after.all_steps():
        role = before.roles.get(step.role)
        known = named.get(step.name, role.tools if role else ())
        if new := [name for name in after.tools_of(step) if not any(matches(each, name) for each in known)]:
            actual = f"{', '.join(new)} for the step {step.name}, which could not call it"
            yield Problem("tools", actual, f"only {', '.join(known) or 'no tools'}", "Only a person may change it.")


def _step_names(playbook: Playbook) -> set[str]:
    return {step.name for step in playbook.all_steps()}


def beyond_bounds(before: Playbook, after: Playbook) -> Iterator[Problem]:
    """Parameters that leave the bounds they had, have wider ones, or are no longer there to have any."""
    for name, was in before.parameters.items():
        if change := _escape_of(was, after.parameters.get(name)):
            yield Problem(
                f"parameters.{name}", change, "a number within its bounds" if _is_numeric(was) else "its options"
            )


def _is_numeric(parameter: Parameter) -> bool:
    return parameter.low is not None or parameter.high is not None


def _escape_of(was: Parameter, now: Parameter | None) -> str:
    """How a parameter escapes what bounds it; empty if it does not."""
    if not (_is_numeric(was) or was.options):
        return ""
    if now is None:
        return "gone, and its bounds with it"
    if was.options and not (now.options and {*now.options} <= {*was.options}):
        return f"{shown(now.value)}, with options that it did not have"
    if _is_numeric(was) and not is_number(now.value):
        return f"{shown(now.value)}, which is no number"
    sides = [
        (bound, new, sign)
        for bound, new, sign in ((was.low, now.low, -1), (was.high, now.high, 1))
        if bound is not None
    ]
    for bound, _, sign in sides:
        if is_number(now.value) and now.value * sign > bound * sign:
            return f"{now.value:g}, beyond its bound of {bound:g}"
    for bound, new, sign in sides:
        if new is None or new * sign > bound * sign:
            return f"its bound of {bound:g} {'removed' if new is None else f'moved to {new:g}'}"
    return "no longer a whole number" if was.whole and not now.whole else ""


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
