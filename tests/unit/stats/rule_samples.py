"""Sequences of differences, and how a rule ends on them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from seedbed.stats.sequential.stopping_rule import Answer, StoppingRule


def draw(seed: int, rows: int, tasks: int, discordance: float, effect: float = 0.0) -> NDArray[np.float64]:
    """Rows of differences of scores that are 0 or 1."""
    luck = np.random.default_rng(seed).random((rows, tasks))
    return (luck < (discordance + effect) / 2).astype(float) - (luck > 1 - (discordance - effect) / 2)


def told(rule: StoppingRule, sequence: Iterable[float]) -> list[Answer]:
    """What a new rule says after each task, until it ends."""
    answers = []
    for difference in sequence:
        answers.append(rule.update(float(difference)))
        if answers[-1].verdict != "continue":
            break
    return answers
