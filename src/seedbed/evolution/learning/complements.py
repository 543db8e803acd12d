"""Complements: pairs of playbooks that are good at different tasks, and the child with the changes of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any

import numpy as np

from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.evolution.variation.checks import LIMITS, Limits, build_child, problems
from seedbed.evolution.variation.sentences import split
from seedbed.playbooks.genes import Gene, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats

SHARED = 4
"""How many tasks two playbooks must have in common to be compared."""


@dataclass
class Complements:
    """Offers one child for each pair that is worth it."""

    limits: Limits = LIMITS
    _tried: set[tuple[int, int]] = field(default_factory=set)

    def offer(self, pool: Pool, places: Sequence[int]) -> Offer | None:
        """The child of the pair of these places, best first, that gains most if the gains of both add up.

        Both are estimated to be better than their common ancestor, and each is the better one on some task. The child
        is the better one with the changes of the other; where both changed the same words, the better one's stay.
        """
        pairs = [pair for pair in combinations(places, 2) if pair not in self._tried]
        if not pairs:
            return None
        above = {place: _ancestors(pool, place) for place in places}
        bases = [max(above[one] & above[other], default=0) for one, other in pairs]
        sums = _sums(pool, pairs, bases)
        sums[_together(pool, pairs) <= 0] = -np.inf
        for at in np.argsort(-sums, kind="stable"):
            if np.isneginf(sums[at]):
                return None
            one, other = pairs[at]
            self._tried.add((one, other))
            ours, theirs = pool.playbooks[one], pool.playbooks[other]
            child = _cross(pool.playbooks[bases[at]], ours, theirs)
            if child and child.digest not in pool and not problems(ours, child, self.limits, start=pool.playbooks[0]):
                return Offer(child, (ours.digest, theirs.digest), "merged")
        return None


def _cross(base: Playbook, ours: Playbook, theirs: Playbook) -> Playbook | None:
    before, mine, yours = genes(base), genes(ours), genes(theirs)
    changed = {
        path: _merge_gene(before[path], mine[path], yours[path])
        for path in yours
        if path in before and path in mine and yours[path].value != before[path].value
    }
    return build_child(ours, changed)


def _sums(pool: Pool, pairs: Sequence[tuple[int, int]], bases: Sequence[int]) -> Floats:
    """The expected score of a child of each pair, if both gain; otherwise -inf."""
    places = sorted({*bases, *(place for pair in pairs for place in pair)})
    means = dict(zip(places, pool.standings(places=places)[0].tolist(), strict=True))
    one, other = (np.array([means[pair[side]] for pair in pairs]) for side in (0, 1))
    base = np.array([means[place] for place in bases])
    return np.where(np.round(np.minimum(one, other) - base, 12) > 0, np.round(one + other - base, 12), -np.inf)


def _together(pool: Pool, pairs: Sequence[tuple[int, int]]) -> Floats:
    """How much better each pair would be together than the better one alone, on the tasks that both have."""
    rows = {place: pool.row(place) for pair in pairs for place in pair}
    ours, theirs = (np.stack([rows[pair[side]] for pair in pairs]) for side in (0, 1))
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    tasks = both.sum(axis=1)
    alone = [np.where(both, each, 0.0).sum(axis=1) for each in (ours, theirs)]
    together = np.where(both, np.fmax(ours, theirs), 0.0).sum(axis=1)
    gains: Floats = (together - np.maximum(*alone)) / np.maximum(tasks, 1)
    return np.where(tasks >= SHARED, np.round(gains, 12), 0.0)


def _ancestors(pool: Pool, place: int) -> set[int]:
    """A playbook and all its ancestors in the pool."""
    ancestors, waiting = set[int](), [place]
    while waiting:
        each = waiting.pop()
        if each not in ancestors:
            ancestors.add(each)
            waiting += [pool.place(parent) for parent in pool.parents[each] if parent in pool]
    return ancestors


def merge_changes(base: Playbook, siblings: Sequence[Playbook]) -> dict[str, Any]:
    """The changes of all siblings to their base together, by gene."""
    own = genes(base)
    values: dict[str, Any] = {}
    for sibling in siblings:
        for path, theirs in genes(sibling).items():
            if path in own and theirs.value != own[path].value:
                ours = replace(own[path], value=values.get(path, own[path].value))
                values[path] = _merge_gene(own[path], ours, theirs)
    return values


def _merge_gene(base: Gene, ours: Gene, theirs: Gene) -> object:
    if ours.value == base.value:
        return theirs.value
    if ours.kind != "text":
        return ours.value
    return with_both(base.value, ours.value, theirs.value)


def with_both(base: str, ours: str, theirs: str) -> str:
    """Our text with the sentences that theirs changed too. Where both changed the same, ours stays, and so does our
    order."""
    before, after = split(base).texts, split(theirs)
    mine = split(ours)
    words = list(zip(mine.gaps, mine.texts, strict=False))
    for same, a, b, c, d in SequenceMatcher(None, before, after.texts, autojunk=False).get_opcodes():
        if same == "equal":
            continue
        known = [text for _, text in words]
        new = [(after.gaps[n], after.texts[n]) for n in range(c, d) if after.texts[n] not in known]
        if a == b:
            start = end = (known.index(before[a - 1]) + 1 if before[a - 1] in known else len(known)) if a else 0
        elif before[a] in known and tuple(known[known.index(before[a]) :][: b - a]) == before[a:b]:
            start = known.index(before[a])
            end = start + b - a
        else:
            continue
        words[start:end] = [*(each for each in words[start:end] if each[1] in after.texts), *new]
    text, usual = mine.gaps[0], "\n" if any("\n" in gap for gap in mine.gaps[1:-1]) else " "
    for number, (gap, sentence) in enumerate(words):
        space = gap or ("" if text.endswith(("。", "！", "？")) else usual)
        text += f"{space}{sentence}" if number else sentence
    return text + mine.gaps[-1]
