"""Operators: ways to change a playbook that need no model. Offspring: children made by operators drawn at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.protocols import Offer, Operator, Search
from seedbed.evolution.variation import sentences
from seedbed.evolution.variation.checks import child
from seedbed.evolution.variation.demonstrations import GoodRuns, demo_from_task, demo_operators
from seedbed.evolution.variation.numbers import NumberVariation, clip, has_room, numbers
from seedbed.playbooks.genes import Gene, genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats
from seedbed.storage.store import Digest

STEP = 0.2
"""The usual step of a number, as a share of its range, or of the number itself if it has no range."""

TRIES = 4
"""How many operators Offspring tries for one child."""


def reword(playbook: Playbook, path: str, instructions: Iterable[str]) -> Iterator[Playbook]:
    """The playbook with the text of one gene replaced by each of the instructions."""
    gene = _gene(playbook, path, "text")
    for text in instructions:
        if text != gene.value:
            yield with_genes(playbook, {path: text})


def demonstrate(playbook: Playbook, path: str, tasks: Sequence[Task], *, count: int, seed: int) -> Playbook:
    """The playbook with `count` worked examples, drawn from tasks with known answers."""
    _gene(playbook, path, "demos")
    known = [task for task in tasks if task.expected is not None]
    if len(known) < count:
        raise PlaybookError([Problem(path, f"{len(known)} tasks with an answer", f"at least {count} to draw from")])
    drawn = random.Random(f"{playbook.digest} {path} {seed}").sample(known, count)
    return with_genes(playbook, {path: [demo_from_task(task) for task in drawn]})


def _gene(playbook: Playbook, path: str, kind: str) -> Gene:
    known = genes(playbook)
    if path not in known or known[path].kind != kind:
        fitting = ", ".join(gene.path for gene in known.values() if gene.kind == kind) or "none"
        raise PlaybookError([Problem(path, "no such gene", f"a {kind} gene: {fitting}")])
    return known[path]


# Operators


def operators(
    start: Playbook,
    *,
    instructions: Sequence[str] = (),
    tasks: Sequence[Task] = (),
    models: Sequence[str] = (),
    runs: GoodRuns | None = None,
) -> list[Operator]:
    """All ways to change the genes of a start that need no model.

    `instructions` are texts to use whole or sentence by sentence, `models` those that roles may ask; `tasks` decide
    which demos can be made. Demos come from the reflect tasks of a search, and from its good `runs`.
    """
    ways: list[Operator] = []
    for gene in genes(start).values():
        match gene.kind:
            case "text":
                ways += _text_operators(gene, instructions)
            case "number" | "integer" if has_room(gene):
                ways.append(GeneChange("nudge", gene.path, nudge))
            case "choice":
                options = tuple(models) if gene.path.endswith(".model") and not gene.options else gene.options
                if set(options) - {gene.value}:
                    ways.append(GeneChange("choose another", gene.path, partial(choose_option, options=options)))
            case "demos":
                ways += demo_operators(start, gene.path, tasks, runs)
    if len(genes(start)) > 1:
        ways.append(CrossGenes())
    return ways


def vary_numbers_together(start: Playbook, ways: Sequence[Operator]) -> list[Operator]:
    """The operators with NumberVariation first, in place of the nudges of single numbers, to which they add nothing."""
    moved = numbers(start)
    rest = [each for each in ways if not (isinstance(each, GeneChange) and each.path in moved)]
    return [NumberVariation(), *rest] if moved else rest


@dataclass(frozen=True)
class GeneChange:
    """Gives one gene another value, drawn at random."""

    what: str
    path: str
    draw: Callable[[Gene, np.random.Generator], Any]

    @property
    def name(self) -> str:
        return f"{self.what} {self.path}"

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        gene = genes(parent).get(self.path)
        value = self.draw(gene, search.chance(event)) if gene else None
        return child(parent, {self.path: value}) if value is not None else None


def _text_operators(gene: Gene, instructions: Sequence[str]) -> list[Operator]:
    if gene.path.startswith("parameters.") and len(gene.value.split()) < 3:
        return []  # a name rather than an instruction
    if gene.path.startswith("steps.") and not gene.value.strip():
        return []  # a step without a prompt asks the task itself
    single = dict.fromkeys(each for text in instructions for each in sentences.split(text).texts)
    lines = [*single] or sentences.INSTRUCTIONS
    whole = tuple(dict.fromkeys(text for text in instructions if text.strip()))
    changes: dict[str, Callable[[str, np.random.Generator], str | None]] = {
        "drop a sentence of": sentences.drop_sentence,
        "swap two sentences of": sentences.swap_sentences,
        "repeat a sentence of": sentences.repeat_sentence,
        "add a sentence to": lambda text, chance: sentences.insert_sentence(text, lines, chance),
        "replace a sentence of": lambda text, chance: sentences.replace_sentence(text, lines, chance),
    }
    if not gene.path.startswith("parameters."):
        changes |= {
            "ask for another form of answer in": sentences.change_form,
            "turn a list into sentences or back in": sentences.toggle_list,
            "change the cue of": sentences.change_cue,
        }
    if whole:
        changes["take from the bank"] = lambda text, chance: _other(whole, text, chance)
    return [*(GeneChange(what, gene.path, _of_text(way)) for what, way in changes.items()), CrossSentences(gene.path)]


def _of_text(way: Callable[[str, np.random.Generator], str | None]) -> Callable[[Gene, np.random.Generator], Any]:
    return lambda gene, chance: way(gene.value, chance)


def nudge(gene: Gene, chance: np.random.Generator) -> float | None:
    """Another number nearby, within its bounds; a whole number moves at least by one."""
    scale = STEP * (gene.span or max(abs(gene.value), 1.0))
    step = float(chance.normal()) * scale
    whole = gene.kind == "integer"
    if whole:
        step = math.copysign(max(1.0, round(abs(step))), step)
    new = clip(gene, gene.value + step)
    if new == gene.value:  # it was at a bound: go the other way
        new = clip(gene, gene.value - step)
    if whole:
        return int(new) if new != gene.value else None
    digits = max(0, 2 - math.floor(math.log10(scale)))
    short = round(new, digits)
    return short if short != gene.value and gene.problem(short) is None else new


def choose_option(gene: Gene, chance: np.random.Generator, *, options: Sequence[Any]) -> Any:
    """Another of the options that the gene may have."""
    return _other([each for each in options if gene.problem(each) is None], gene.value, chance)


def _other(options: Sequence[Any], now: Any, chance: np.random.Generator) -> Any:
    others = [each for each in options if each != now]
    return others[int(chance.integers(len(others)))] if others else None


# Mixtures


@dataclass(frozen=True, slots=True)
class CrossGenes:
    """Each gene from one of two parents; at least one from each in which they differ."""

    name: str = "cross genes"

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        if not mates:
            return None
        mine, yours = genes(parent), genes(mates[0])
        differ = [path for path, gene in yours.items() if path in mine and mine[path].value != gene.value]
        differ = [path for path in differ if mine[path].problem(yours[path].value) is None]
        if len(differ) < 2:
            return None  # any mixture would be one of the two
        chance = search.chance(event)
        taken = chance.random(len(differ)) < 0.5
        if taken.all() or not taken.any():
            taken[int(chance.integers(len(differ)))] ^= True
        return child(parent, {path: yours[path].value for path, take in zip(differ, taken, strict=True) if take})


@dataclass(frozen=True, slots=True)
class CrossSentences:
    """Mixes the sentences that two parents have in one gene."""

    path: str

    @property
    def name(self) -> str:
        return f"cross sentences of {self.path}"

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        gene, other = genes(parent).get(self.path), genes(mates[0]).get(self.path) if mates else None
        if gene is None or other is None or not gene.kind == other.kind == "text":
            return None
        mixed = sentences.cross_sentences(gene.value, other.value, search.chance(event))
        return child(parent, {self.path: mixed}) if mixed else None


# Offspring


class Offspring:
    """Makes children for a search that are not in its pool yet, by operators drawn at random.

    All operators are drawn equally often. By default they are all that need no model, and NumberVariation is drawn as
    often as there are numbers among the genes. Raises PlaybookError if the start has no gene that may evolve.
    """

    def __init__(self, search: Search, ways: Sequence[Operator] | None = None) -> None:
        self._search = search
        self._operators, weights = _defaults(search) if ways is None else (list(ways), np.ones(len(ways)))
        if not self._operators:
            raise PlaybookError([Problem("start", "no gene that may be varied", "a text, a number, a choice or demos")])
        self._shares = weights / weights.sum()

    async def make(self, families: Iterable[Sequence[Playbook]], event: str) -> list[Offer]:
        """A child of each family, a parent and its mates, where one is neither in the pool nor a sibling."""
        made: dict[Digest, Offer] = {}
        for number, (parent, *mates) in enumerate(families):
            if offer := await self._child(parent, mates, f"{event}/{number}", made):
                made[offer.playbook.digest] = offer
        return list(made.values())

    async def _child(
        self, parent: Playbook, mates: Sequence[Playbook], event: str, made: dict[Digest, Offer]
    ) -> Offer | None:
        drawn = self._search.chance(event).choice(len(self._operators), size=TRIES, p=self._shares)
        for attempt, place in enumerate(drawn.tolist()):
            operator = self._operators[place]
            child = await operator(parent, mates, self._search, f"{event}/{attempt}")
            if child is not None and child.digest not in self._search.pool and child.digest not in made:
                return Offer(child, tuple(each.digest for each in (parent, *mates)), operator.name)
        return None


def _defaults(search: Search) -> tuple[list[Operator], Floats]:
    ways = vary_numbers_together(search.start, operators(search.start, tasks=search.reflect))
    moved = numbers(search.start)
    if not moved:
        return ways, np.ones(len(ways))
    share, others = len(moved) / len(genes(search.start)), len(ways) - 1
    if share == 1 or not others:
        return ways[:1], np.ones(1)
    return ways, np.array([share, *[(1 - share) / others] * others])
