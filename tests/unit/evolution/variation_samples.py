"""Playbooks with genes of every kind, some of them locked, and searches to vary them in."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Performs, Search
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run

TASKS = [Task(f"t{n}", {"text": f"message {n}"}, "positive" if n % 2 else "negative") for n in range(20)]
LOCKS = ["roles.sorter.system", "roles.*", "steps.*", "demos.*", "parameters.patience", "parameters.*", "steps.label.*"]
WORDS = ["read", "the", "message", "mind", "each", "word", "naïve", "日本", "sure"]
BANK = ["Sort the message.", "Is it positive or negative?", "Look at the last word. Then decide.", "Text: {text}"]


def sorter(**more: Any) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"sorter": {"model": "fast", "system": "Read the message. Name its mood.", "temperature": 0.5}},
            "steps": [{"name": "label", "role": "sorter", "prompt": "Be exact. Be brief.\nMessage: {text}\nMood:"}],
            "rules": {"never": ["delete_message"]},
            **more,
        }
    )


def demo(n: int) -> dict[str, Any]:
    return {"inputs": {"text": f"shown {n}"}, "output": f"answer {n}"}


def search(
    start: Playbook,
    *,
    reflect: Sequence[Task] = TASKS,
    seed: int = 0,
    perform: Performs | None = None,
    transcript: Callable[[str], Run | None] = lambda run: None,
) -> Search:
    pool = Pool([ExactMatch()], ["s1"], [task.id for task in reflect])
    pool.add(Offer(start))
    return Search(start, reflect, pool, seed, perform, transcript)


def random_text(rng: random.Random, *needed: str) -> str:
    pieces = [
        " ".join(rng.choices(WORDS, k=rng.randint(1, 5))).capitalize() + rng.choice([".", ".", "!", "?", ""])
        for _ in range(rng.randint(0, 4))
    ]
    pieces += [rng.choice(["{%s}", "Text: {%s}", "Now {%s} it is."]) % name for name in needed]
    rng.shuffle(pieces)
    text = "".join(piece + rng.choice([" ", " ", "\n", "\n\n"]) for piece in pieces)
    return text.strip() + rng.choice(["", "", "\nAnswer:", "\n- one\n- two", "\n```\ncode. more\n```"])


def random_start(rng: random.Random) -> Playbook:
    """A playbook of two steps with genes of every kind; any of them may be locked."""
    return Playbook.from_document(
        {
            "roles": {
                "sorter": {
                    "model": "fast",
                    "system": random_text(rng) or "Go.",
                    "temperature": rng.choice([0, 0.7, 2]),
                },
                "judge": {"system": random_text(rng, "text")},
            },
            "steps": [
                {"name": "label", "role": "sorter", "prompt": random_text(rng, "text")},
                {
                    "name": "verdict",
                    "role": "judge",
                    "prompt": rng.choice(["", random_text(rng, "text", "label")]),
                    "sees": ["label"],
                },
            ],
            "demos": {"label": [demo(n) for n in range(rng.randint(0, 3))]},
            "parameters": {
                "patience": {"value": rng.choice([0, 0.3, 1]), "low": 0, "high": 1},
                "tries": {"value": rng.randint(1, 9), "low": 1, "high": 9, "whole": True},
                "fixed": {"value": 3, "low": 3, "high": 3},
                "open": rng.choice([0, -40, 1e6]),
                "tone": {"value": "warm", "options": ["warm", "dry", "kind"]},
                "note": rng.choice(["short", "Mind the gap. Then go on."]),
                "caution": {"value": rng.choice([0.3, 0.6, 1]), "low": 0, "high": 1},
            },
            "rules": {"never": ["pay"], "prefer_confirm": ["send"], "confirm_below": "caution"},
            "locked": rng.sample(LOCKS, rng.randint(0, 2)),
        }
    )
