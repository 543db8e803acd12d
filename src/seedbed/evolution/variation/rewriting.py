"""Operators that ask a model for other words: paraphrase, summarise, persona, and to change only what differs.

Each asks by a small playbook of one role. An answer that is no usable text makes no child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from seedbed.evolution.protocols import Operator, Search
from seedbed.evolution.variation.checks import child
from seedbed.evolution.variation.sentences import only_in, split
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run

MANNERS = (
    "in plainer words",
    "in more exact words",
    "in fewer words",
    "as short commands",
    "with the most important thing first",
    "as you would explain it to a new colleague",
)
"""How a text is to be said otherwise: which of them is drawn by chance, so that the same text gets many paraphrases."""

_EDITOR = (
    "You edit instructions that are given to a language model. You keep what they ask for. Names in braces such as "
    "{{question}} stand for values that are filled in later: you keep each of them exactly as it is. Put the edited "
    "text, and nothing else, between <text> and </text>."
)
_THOUGHT = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_THOUGHT_END = re.compile(r"\A.*</(think|thinking|reasoning)>", re.DOTALL)
_FENCED = re.compile(r"\A```[\w-]*[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_PREAMBLE = re.compile(r"\A(?:sure|certainly|of course|okay|ok|here(?:'s| is| are))\b[^\n]*:\s*\n", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "„": "“", "`": "`"}


def rewriters(start: Playbook, model: str) -> list[Operator]:
    """All of them, for every text gene that has words."""
    found: list[Operator] = []
    for gene in genes(start).values():
        if gene.kind == "text" and len(gene.value.split()) > 2:
            found += [paraphrase(gene.path, model), summary(gene.path, model), difference(gene.path, model)]
        if gene.kind == "text" and gene.path.startswith("roles."):
            found.append(persona(gene.path, model))
    return found


def paraphrase(path: str, model: str) -> Operator:
    """Says the same in other words."""
    return Rewriting("paraphrase", path, _asking(model, "Rewrite this {manner}:\n\n{text}"), _manner)


def summary(path: str, model: str) -> Operator:
    """Says the same in fewer words."""
    asking = _asking(model, "Shorten this as far as you can without losing anything it asks for:\n\n{text}")
    return Rewriting("summarise", path, asking, lambda text, mates, chance: {}, _shorter)


def persona(path: str, model: str) -> Operator:
    """Begins with who the model is to be."""
    prompt = (
        "Who would be best at what these instructions ask for? Answer with one sentence that begins with "
        '"You are" and says nothing else.\n\n{text}'
    )
    return Rewriting("give a persona to", path, _asking(model, prompt), lambda text, mates, chance: {}, _introduced)


def difference(path: str, model: str) -> Operator:
    """Finds where two mates differ, and works a variation of that into the parent; what they share stays."""
    prompt = (
        "Two versions of some instructions differ in this.\nFirst:\n{first}\n\nSecond:\n{second}\n\n"
        "Think of a third way between or beyond the two. Work it into the following text, and change nothing else:"
        "\n\n{text}"
    )
    return Rewriting("change what differs in", path, _asking(model, prompt), _differing)


def _asking(model: str, prompt: str) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"editor": {"model": model, "system": _EDITOR}},
            "steps": [{"name": "edit", "role": "editor", "prompt": prompt}],
        }
    )


Told = Callable[[str, Sequence[str], np.random.Generator], Mapping[str, str] | None]
"""What else the model is told, by the text, those of the mates, and chance; None if there is nothing to ask for."""

Taken = Callable[[str, str], str | None]
"""The new text by the old one and what the model answered, or None if that is not what it was asked for."""


@dataclass(frozen=True)
class Rewriting:
    """Has a model write the text of one gene anew."""

    what: str
    path: str
    asking: Playbook
    told: Told
    taken: Taken = field(default=lambda text, answer: answer)

    @property
    def name(self) -> str:
        return f"{self.what} {self.path}"

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        gene = genes(parent).get(self.path)
        if gene is None or gene.kind != "text" or search.perform is None:
            return None
        others = [other.value for mate in mates if (other := genes(mate).get(self.path)) and other.kind == "text"]
        told = self.told(gene.value, others, search.chance(event))
        if told is None:
            return None
        run = await search.perform(f"{self.name} {event}", self.asking, {"text": gene.value, **told})
        answer = answered(run)
        new = self.taken(gene.value, answer) if answer else None
        return child(parent, {self.path: new}) if new else None


def answered(run: Run) -> str | None:
    """The text that a run came to, cleaned; None if it failed or was cut off."""
    if run.status != "completed" or (run.turns and run.turns[-1].finish_reason == "length"):
        return None
    return cleaned(str(run.output or ""))


def cleaned(answer: str) -> str | None:
    """The text in an answer without what models put around it: thoughts, tags, fences, quotes, a word before it."""
    text = _THOUGHT.sub("", answer)
    if (ended := _THOUGHT_END.match(text)) and f"<{ended[1]}>" not in text:
        text = text[ended.end() :]  # some models are made to begin with a thought, and say only where it ends
    text = text.strip()
    if "<text>" in text or "</text>" in text:
        before, _, rest = text.rpartition("</text>")
        _, begun, text = before.rpartition("<text>")
        if not begun or "<text>" in rest:
            return None  # it was cut off
    text = _PREAMBLE.sub("", text).strip()
    if fenced := _FENCED.match(text):
        text = fenced[1].strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text or None


def _manner(text: str, mates: Sequence[str], chance: np.random.Generator) -> Mapping[str, str]:
    return {"manner": MANNERS[int(chance.integers(len(MANNERS)))]}


def _differing(text: str, mates: Sequence[str], chance: np.random.Generator) -> Mapping[str, str] | None:
    if len(mates) < 2 or mates[0] == mates[1]:
        return None
    first, second = only_in(mates[0], mates[1]), only_in(mates[1], mates[0])
    return {"first": "\n".join(first) or "(nothing)", "second": "\n".join(second) or "(nothing)"}


def _shorter(text: str, answer: str) -> str | None:
    return answer if len(answer) < len(text) else None


def _introduced(text: str, answer: str) -> str | None:
    """The text with that for its first sentence, in place of another that says who the model is."""
    if not answer.startswith("You are ") or len(split(answer).texts) != 1:
        return None
    sentences = split(text)
    if sentences.texts and sentences.texts[0].startswith("You are ") and 0 in sentences.free():
        return str(sentences.replaced(0, answer))
    return str(sentences.having(0, answer))
