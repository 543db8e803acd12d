"""A world whose truth is known: texts hide rules, tasks need some of them, and a reflector reveals rules with noise.

A playbook has two texts. Each of `RULES` hidden rules belongs to one of them and is kept if its sentence stands there.
A task has a difficulty and needs one to three rules; few rules are needed by many tasks, most by few, as 1/rank. Each
rule that is needed and not kept makes success less likely, and so does each harmful sentence, on a third of all tasks:

    P(success) = sigmoid(ABILITY - difficulty - MISSING * rules missing - HARM * harmful sentences)

Why these numbers: difficulties with a deviation of 1.5 leave most outcomes of a task to the task, as in tables of real
models; with ABILITY 2.2 and MISSING 1.2 the start succeeds on about half of the tasks and a perfect playbook on about
85 %; a single rule is worth 1 to 10 points, which 60 tasks cannot show with certainty; a harmful sentence takes as much
as a usual rule gives. They were chosen before anything was run, and are the same for all.

An outcome is drawn by the name of (texts, task, replicate): who asks again gets the same answer, whoever asks.

The reflector is shown tasks that failed. With probability `reveals` it adds the sentence of a rule that one of them
needs, if one is missing in the text at hand. Else it guesses: it deletes a sentence, or more often adds one that is
of no use, and with probability `harms` does harm. Nobody can tell from a sentence which it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

GENES = ("roles.solver.system", "roles.checker.system")
RULES, KEPT_AT_START, NOTES, TEST = 12, 2, 400, 2_000
ABILITY, DIFFICULTY, MISSING, HARM, HIT = 2.2, 1.5, 1.2, 0.6, 1 / 3
DELETES = 0.25

_BETWEEN = re.compile(r"(?<=\.)\s+")

Floats = NDArray[np.float64]
Texts = Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """How much the reflector sees, and how much harm its guesses do."""

    name: str
    reveals: float
    harms: float


SETTINGS = (
    Setting("clear", reveals=0.6, harms=0.2),
    Setting("usual", reveals=0.4, harms=0.35),
    Setting("murky", reveals=0.2, harms=0.5),
)


@dataclass(frozen=True)
class World:
    """One world: `tasks` numbered from 0, and after them those of the test, which only `truth` looks at."""

    seed: int
    setting: Setting
    tasks: int

    def _chance(self, *event: object) -> np.random.Generator:
        return np.random.default_rng(_number("world", self.seed, *event))

    @cached_property
    def start(self) -> dict[str, str]:
        """Two texts with a few sentences each: some that nobody needs, and one rule."""
        rules = range(RULES - KEPT_AT_START, RULES)
        return {
            gene_of(rule): f"You are one of a team. Read the task with care. {_rule(rule)} Be brief." for rule in rules
        }

    @cached_property
    def needs(self) -> NDArray[np.bool_]:
        """Which rules each task needs."""
        chance = self._chance("needs")
        ranked = 1 / (1 + chance.permutation(RULES))
        needed = np.zeros((self.tasks + TEST, RULES), bool)
        for row in needed:
            row[chance.choice(RULES, chance.integers(1, 4), replace=False, p=ranked / ranked.sum())] = True
        return needed

    @cached_property
    def difficulty(self) -> Floats:
        return self._chance("difficulty").normal(0, DIFFICULTY, self.tasks + TEST)

    @cached_property
    def harmful(self) -> NDArray[np.bool_]:
        """Which tasks each note harms; most notes harm none."""
        chance = self._chance("harmful")
        bad = chance.random(NOTES) < self.setting.harms
        return bad[:, None] & (chance.random((NOTES, self.tasks + TEST)) < HIT)

    def chances(self, texts: Texts) -> Floats:
        """The probability of success on each task."""
        kept = np.array([_rule(rule) in texts[gene_of(rule)] for rule in range(RULES)])
        notes = {note for text in texts.values() for note in _notes(text)}
        harm = self.harmful[sorted(notes)].sum(axis=0)
        missing = (self.needs & ~kept).sum(axis=1)
        return np.asarray(1 / (1 + np.exp(-(ABILITY - self.difficulty - MISSING * missing - HARM * harm))))

    def truth(self, texts: Texts) -> float:
        """The true score: the mean probability of success on the tasks of the test."""
        return float(self.chances(texts)[self.tasks :].mean())

    @cached_property
    def perfect(self) -> float:
        """The true score with all rules and no harm."""
        every = {gene: " ".join(_rule(rule) for rule in range(RULES) if gene_of(rule) == gene) for gene in GENES}
        return self.truth(every)

    def reflect(self, text: str, gene: str, failed: Sequence[int], chance: np.random.Generator) -> str:
        """A new text for a gene, by whoever is shown tasks that failed."""
        missing = {
            rule
            for task in failed
            for rule in np.flatnonzero(self.needs[task])
            if gene_of(rule) == gene and _rule(rule) not in text
        }
        if chance.random() < self.setting.reveals and missing:
            return f"{text} {_rule(chance.choice(sorted(missing)))}"
        sentences = _BETWEEN.split(text)
        if chance.random() < DELETES and len(sentences) > 1:
            del sentences[chance.integers(len(sentences))]
            return " ".join(sentences)
        return f"{text} {_note(int(chance.integers(NOTES)))}"


class Evaluator:
    """Scores texts in a world, and counts how often it was asked."""

    def __init__(self, world: World) -> None:
        self.world, self.runs = world, 0
        self._chances: dict[tuple[str, ...], Floats] = {}

    def __call__(self, texts: Texts, task: int, replicate: int = 0) -> float:
        self.runs += 1
        named = tuple(texts[gene] for gene in GENES)
        if named not in self._chances:
            self._chances[named] = self.world.chances(texts)
        drawn = _number("outcome", self.world.seed, *named, task, replicate) / 2**64
        return float(drawn < self._chances[named][task])


def gene_of(rule: int) -> str:
    """The text a rule belongs to."""
    return GENES[rule % len(GENES)]


def _rule(rule: int) -> str:
    return f"Always keep rule R{rule}."


def _note(note: int) -> str:
    return f"Remember note N{note}."


def _notes(text: str) -> list[int]:
    return [int(word[1:]) for word in text.replace(".", "").split() if word[0] == "N" and word[1:].isdigit()]


def _number(*event: object) -> int:
    return int.from_bytes(blake2b(repr(event).encode(), digest_size=8).digest(), "little")
