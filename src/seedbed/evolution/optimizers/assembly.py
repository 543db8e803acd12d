"""Assembly: combines the parts that are worth most, of all candidates so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evolution.learning.effects import effects_of
from seedbed.evolution.protocols import Offer, Search, at_least, check_settings
from seedbed.evolution.variation.checks import LIMITS, Limits, child
from seedbed.evolution.variation.sentences import Sentences, is_cue, split
from seedbed.playbooks.genes import Gene, genes
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.prompts import placeholders
from seedbed.storage.store import Digest, Json, canonical

TRIES = 6
LEAST = 4
"""How many candidates must have been tried first."""


class Assembly:
    """Offers the best playbook so far with parts of others added and poor parts left out, `brood` at a time.

    The parts are drawn by their worth, estimated from all scores together (see Effects), so each candidate adds to what
    is known of every part it has. It makes no new parts; other optimizers do.
    """

    def __init__(self, *, brood: int = 4, limits: Limits = LIMITS) -> None:
        check_settings("assembly", brood=at_least(1, brood))
        self.brood, self.limits = brood, limits

    @property
    def identity(self) -> Json:
        return {"optimizer": "assembly", "brood": self.brood}

    def begin(self, search: Search) -> None:
        self._search, self._turn = search, 0

    async def ask(self) -> Sequence[Offer]:
        pool = self._search.pool
        self._turn += 1
        effects = effects_of(pool)
        if len(effects.places) < LEAST:
            return []
        base = pool.playbooks[effects.places[int(np.argmax(effects.means))]]
        tried = [genes(pool.playbooks[place]) for place in effects.places]
        offers: dict[Digest, Offer] = {}
        for number in range(self.brood):
            for attempt in range(TRIES):
                chance = self._search.chance("assembly", self._turn, number, attempt)
                made = self._assemble(base, effects.draw(chance), tried)
                if made is not None and made.digest not in pool and made.digest not in offers:
                    offers[made.digest] = Offer(made, (base.digest,), "assembled from parts of others")
                    break
        return list(offers.values())

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None

    def _assemble(
        self, base: Playbook, worth: Mapping[tuple[str, str], float], tried: Sequence[Mapping[str, Gene]]
    ) -> Playbook | None:
        values: dict[str, Any] = {}
        for gene in genes(base).values():
            own = {text: value for (path, text), value in worth.items() if path == gene.path}
            match gene.kind:
                case "text":
                    new = _text(gene.value, own)
                case "demos":
                    new = _demos(gene, own, tried)
                case "choice":
                    new = _option(gene, own, tried)
                case _:
                    continue
            if new != gene.value:
                values[gene.path] = new
        return child(base, values, self.limits) if values else None


def _demos(gene: Gene, worth: Mapping[str, float], tried: Sequence[Mapping[str, Gene]]) -> Any:
    """The set of demos that is worth most of all that were tried. A set is not split."""
    sets = [gene.value, *_values(gene, tried)]
    return max(sets, key=lambda demos: sum(worth.get(canonical(each), 0.0) for each in demos))


def _option(gene: Gene, worth: Mapping[str, float], tried: Sequence[Mapping[str, Gene]]) -> Any:
    """The option that is worth most. If a gene lists none, like a role's model, those that were tried count."""
    best = max(worth, key=worth.__getitem__, default=str(gene.value))
    options = gene.options or _values(gene, tried)
    return next((each for each in options if str(each) == best), gene.value)


def _values(gene: Gene, tried: Sequence[Mapping[str, Gene]]) -> list[Any]:
    """The values of a gene in the candidates so far."""
    return [each.get(gene.path, gene).value for each in tried]


def _text(value: str, worth: Mapping[str, float]) -> str:
    """A text with all sentences of positive worth and none of negative worth. Sentences with placeholders stay and none
    are added, or a prompt would say the same twice. It has at most one cue, the one that is worth most."""
    text = split(value)
    for place in reversed(text.free()):
        if worth.get(text.texts[place], 0.0) < 0 and len(text.texts) > 1:
            text = text.without(place)
    for sentence, gain in sorted(worth.items(), key=lambda each: -each[1]):
        if gain > 0 and sentence not in text.texts and not any(placeholders(sentence)):
            text = _with(text, sentence, worth)
    return str(text)


def _with(text: Sentences, sentence: str, worth: Mapping[str, float]) -> Sentences:
    cue = text.texts[-1] if text.body() < len(text.texts) else None
    if cue is None or not is_cue(sentence):
        return text.insert(text.body(), sentence)
    fits = not any(placeholders(cue)) and worth[sentence] > worth.get(cue, 0.0)
    return text.replace(len(text.texts) - 1, sentence) if fits else text
