"""Ways to change a playbook: other words from a bank, worked examples from tasks with known answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.dataset import Task
from seedbed.playbooks.genes import Gene, genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.dialogue import told


def reworded(playbook: Playbook, path: str, bank: Iterable[str]) -> Iterator[Playbook]:
    """The playbook with the text of one gene replaced by each of a bank's texts."""
    gene = _gene(playbook, path, "text")
    for text in bank:
        if text != gene.value:
            yield with_genes(playbook, {path: text})


def demonstrated(playbook: Playbook, path: str, tasks: Sequence[Task], *, count: int, seed: int) -> Playbook:
    """The playbook with `count` worked examples, drawn from tasks whose answer is known."""
    _gene(playbook, path, "demos")
    known = [task for task in tasks if task.expected is not None]
    if len(known) < count:
        raise PlaybookError([Problem(path, f"{len(known)} tasks with an answer", f"at least {count} to draw from")])
    drawn = random.Random(f"{playbook.digest} {path} {seed}").sample(known, count)
    demos = [
        {"inputs": {name: told(value) for name, value in task.inputs.items()}, "output": told(task.expected)}
        for task in drawn
    ]
    return with_genes(playbook, {path: demos})


def _gene(playbook: Playbook, path: str, kind: str) -> Gene:
    known = genes(playbook)
    if path not in known or known[path].kind != kind:
        fitting = ", ".join(gene.path for gene in known.values() if gene.kind == kind) or "none"
        raise PlaybookError([Problem(path, "no such gene", f"a {kind} gene: {fitting}")])
    return known[path]
