"""How many of the facts that a step is asked for are still in what it sees, when it may see only a part.

    python benchmarks/context.py

Five conversations of ten turns, with questions about three to five facts each (tests/stories/test_seen_facts.py). The
weights were set on the first four, so that only the last one, written afterwards, says how it does on others; one
weight, for neighbours, was changed since. The peer keeps the newest tokens, as most frameworks do when a conversation
gets too long; the other one is chance: sentences drawn at random.
"""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from seedbed.stage.dialogue.context import Statement, condense, tokens, total

Shorten = Callable[[Sequence[Statement], str, int], list[Statement]]


def newest(said: Sequence[Statement], about: str, at_most_tokens: int) -> list[Statement]:
    kept: list[Statement] = []
    for each in reversed(said):
        if total([each, *kept]) <= at_most_tokens:
            kept.insert(0, each)
            continue
        words = each.text.split()
        while words and total([Statement(each.name, " ".join(words)), *kept]) > at_most_tokens:
            words.pop(0)
        return [Statement(each.name, " ".join(words)), *kept] if words else kept
    return kept


def by_chance(said: Sequence[Statement], about: str, at_most_tokens: int) -> list[Statement]:
    drawn = [(turn, text) for turn, each in enumerate(said) for text in re.split(r"(?<=[.!?])\s+", each.text)]
    random.Random(about).shuffle(drawn)
    kept: dict[int, list[str]] = {}
    for turn, text in drawn:
        tried = {**kept, turn: [*kept.get(turn, []), text]}
        if sum(tokens(f"{said[at].name}:\n{' '.join(texts)}") for at, texts in tried.items()) <= at_most_tokens:
            kept = tried
    return [Statement(said[at].name, " ".join(texts)) for at, texts in sorted(kept.items())]


def stories() -> ModuleType:
    path = Path(__file__).parents[1] / "tests" / "stories" / "test_seen_facts.py"
    spec = importlib.util.spec_from_file_location("seen_facts", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["seen_facts"] = module
    spec.loader.exec_module(module)
    return module


def found(
    conversations: Sequence[Any], shorten: Shorten, share: float, *, chosen: bool, shown: Callable[..., str]
) -> str:
    found = asked = 0
    for conversation in conversations:
        for question in conversation.questions:
            said = conversation.said(*question.sees) if chosen else conversation.said()
            seen = shown(shorten(said, question.prompt, int(share * total(conversation.said()))))
            found += sum(fact in seen for fact in question.facts)
            asked += len(question.facts)
    return f"{found} of {asked} ({found / asked:.0%})"


def main() -> None:
    told = stories()
    ways: dict[str, Shorten] = {"seedbed": condense, "newest tokens": newest, "chance": by_chance}
    for title, conversations in (("first four", told.CONVERSATIONS[:4]), ("last", told.CONVERSATIONS[4:])):
        for chosen in (True, False):
            turns = "3 turns of 10" if chosen else "all 10 turns"
            print(f"{title.capitalize()}, facts found by a step that sees {turns}\n")
            print(f"| budget, of the conversation | {' | '.join(ways)} |\n|---:|{'---:|' * len(ways)}")
            for share in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
                cells = [found(conversations, way, share, chosen=chosen, shown=told.shown) for way in ways.values()]
                print(f"| {share:.0%} | {' | '.join(cells)} |")
            print()
    text = " ".join(f"Sentence {at} says that {at * 37 % 1000} belongs to Item{at % 50}." for at in range(21_000))
    began = time.process_time()
    condense([Statement("long", text)], "What belongs to Item7?", 1000)
    print(f"{len(text) / 1e6:.1f} MB condensed to 1,000 tokens in {time.process_time() - began:.2f} s of CPU")


if __name__ == "__main__":
    main()
