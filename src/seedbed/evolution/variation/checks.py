"""Checks of a child before anything is spent on it: lost placeholders, cut or overlong texts, changed rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from seedbed.errors import PlaybookError, Problem, shown
from seedbed.evolution.variation.sentences import split
from seedbed.playbooks.genes import Gene, flatten, genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.prompts import placeholders

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|reasoning)>")
_TAG = re.compile(r"<(/?)([A-Za-z]\w*)>")
_DANGLING = re.compile(
    r"(?:[,;(\[{–—-]|\b(?:a|an|the|of|to|and|or|but|with|that|which|for|from|as|if|your|their))$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a child may be: a text up to `growth` times its parent's plus `slack` characters, all texts and demos
    together up to `characters`, and each step up to `demos` demos."""

    growth: float = 3.0
    slack: int = 2_000
    characters: int = 60_000
    demos: int = 16


LIMITS = Limits()


def problems(
    parent: Playbook, child: Playbook, limits: Limits = LIMITS, *, start: Playbook | None = None
) -> list[Problem]:
    """All reasons not to pay for a child. With a `start`, growth is measured from there: small steps cannot add up
    to a large one."""
    if parent.digest == child.digest:
        return [Problem("child", "nothing changed", "something other than its parent")]
    known = genes(parent)
    before, after = flatten(parent), flatten(child)
    outside = [
        Problem(path, "a change", "what its parent has", "Only genes may change, and of those only what is not locked.")
        for path in sorted(before.keys() | after.keys())
        if path not in known and before.get(path) != after.get(path)
    ]
    own = genes(child)
    values = {path: own[path].value for path in own if path in known and own[path].value != known[path].value}
    return outside + list(_wrong(parent, known, values, limits, genes(start) if start else known))


def child(parent: Playbook, values: Mapping[str, Any], limits: Limits = LIMITS) -> Playbook | None:
    """The child with these genes, or None if it would be the same or has any problems."""
    known = genes(parent)
    changed = {path: value for path, value in values.items() if path not in known or known[path].value != value}
    if not changed or any(path not in known for path in changed):
        return None
    made = build_child(parent, changed)
    return None if next(_wrong(parent, known, changed, limits, known), None) else made


def build_child(parent: Playbook, values: Mapping[str, Any]) -> Playbook | None:
    """The parent with these genes, or None if that is no valid playbook. Nothing else is checked."""
    try:
        return with_genes(parent, values)
    except PlaybookError:
        return None


def _wrong(
    parent: Playbook,
    known: Mapping[str, Gene],
    values: Mapping[str, Any],
    limits: Limits,
    origins: Mapping[str, Gene],
) -> Iterator[Problem]:
    for path, value in values.items():
        gene = known[path]
        if problem := gene.problem(value):
            yield problem
        elif gene.kind == "text":
            yield from _wrong_text(parent, gene, value, limits, origins.get(path, gene))
        elif gene.kind == "demos" and len(value) > max(limits.demos, len(gene.value)):
            yield Problem(path, f"{len(value)} demos", f"at most {limits.demos}")
    yield from _unshown(parent, values)
    before = sum(gene.length for gene in known.values())
    after = before + sum(
        replace(known[path], value=value).length - known[path].length for path, value in values.items()
    )
    if after > limits.characters and after > before:
        yield Problem("child", f"{after:,} characters", f"at most {limits.characters:,} in all texts and demos")


def _wrong_text(parent: Playbook, gene: Gene, text: str, limits: Limits, origin: Gene) -> Iterator[Problem]:
    before, path = str(gene.value), gene.path
    if not text.strip():
        if before.strip():
            yield Problem(path, "an empty text", "some words")
        return
    needed, present = (dict.fromkeys(placeholders(each)) for each in (before, text))
    for lost in needed:
        if lost not in present:
            yield Problem(path, f"no {lost}", f"{lost}, as its parent has it")
    filled = parent.needed_inputs | {step.name for step in parent.all_steps()}
    for new in present:
        if new not in needed and new.name not in filled:
            yield Problem(path, str(new), "placeholders that something fills")
    if path.startswith("steps.") and not before.strip() and not present:
        # A step without a prompt asks the task itself; with one it asks only what the prompt says.
        yield Problem(path, "a prompt that does not tell the task", "a placeholder for it, or no prompt")
    if (broken := cut(text)) and not cut(before):
        yield Problem(path, f"{broken}: {shown(text[-40:])}", "a text that is complete")
    most = int(limits.growth * max(len(str(origin.value)), 1)) + limits.slack
    if len(text) > max(most, len(before)):
        yield Problem(path, f"{len(text):,} characters", f"at most {most:,}", "Say it in fewer words.")
    tags = {name for _, name in _TAG.findall(text)}
    if lost_tags := (_closed(before) - _closed(text)) & tags:
        yield Problem(path, f"<{min(lost_tags)}> without its end", "tags that are closed")


@lru_cache(maxsize=4096)
def cut(text: str) -> str:
    """What shows that a text was cut off; empty if nothing does."""
    if text.count("```") % 2:
        return "an open code fence"
    thoughts = _THOUGHT.findall(text)
    if thoughts.count("") != thoughts.count("/"):
        return "a thought without its end"
    sentences = split(text).texts
    if not sentences:
        return ""
    last = sentences[-1].rstrip("*_ ")
    if _DANGLING.search(last[-20:]):
        return "an unfinished sentence"
    # Where all others end with a full stop the last one should too; but items of a list need none.
    ended = [each for each in sentences[:-1] if each[-1] in ".!?"]
    unended = [each for each in sentences[:-1] if each[-1].isalnum()]
    if last[-1:].isalnum() and ended and not unended:
        return "an unfinished sentence"
    return ""


def _closed(text: str) -> set[str]:
    """The tags that are closed as often as opened."""
    counts: Counter[str] = Counter()
    for closing, name in _TAG.findall(text):
        counts[name] += -1 if closing else 1
    return {name for name, count in counts.items() if count == 0}


def _unshown(parent: Playbook, values: Mapping[str, Any]) -> Iterator[Problem]:
    """Demos without a value for a placeholder of their step's prompt: such a step could not be performed."""
    for step in parent.all_steps():
        prompt_path, path = f"steps.{step.name}.prompt", f"demos.{step.name}"
        if prompt_path not in values and path not in values:
            continue
        demos = values[path] if path in values else parent.demos.get(step.name, ())
        needed = list(placeholders(values.get(prompt_path, step.prompt)))
        for demo in demos:
            inputs = demo["inputs"] if isinstance(demo, Mapping) else demo.inputs
            if missing := [str(each) for each in needed if each.of_model or each.name not in inputs]:
                yield Problem(path, f"a demo without {', '.join(missing)}", "what the prompt of its step needs")
                break
