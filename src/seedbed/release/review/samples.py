"""Samples: outputs of the two playbooks of a verdict, shown to a reviewer without saying which is whose."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.proof.outputs import OutputPair
from seedbed.storage.store import Digest, Json


@dataclass(frozen=True, slots=True)
class OutputSample:
    """Two outputs for one task, in an order that does not reveal which is which. `swapped` does."""

    task: Task
    left: Any
    right: Any
    swapped: bool
    """Whether the candidate is on the left."""

    def document(self, reveal: bool) -> Json:
        """The sample as JSON. `reveal` says which side is the candidate's."""
        return {
            "task": self.task.id,
            "inputs": dict(self.task.inputs),
            "left": self.left,
            "right": self.right,
            "candidate": ("left" if self.swapped else "right") if reveal else None,
        }


def draw_samples(
    output_pairs: Sequence[OutputPair], candidate: Digest, reviewer: str, count: int = 5
) -> list[OutputSample]:
    """A random sample of tasks with different outputs, in random order: always the same for one reviewer."""
    chance = random.Random(f"{reviewer} {candidate}")
    differing = [pair for pair in output_pairs if pair.differs]
    samples = []
    for pair in chance.sample(differing, min(count, len(differing))):
        swapped = chance.random() < 0.5
        left, right = (pair.candidate, pair.control) if swapped else (pair.control, pair.candidate)
        samples.append(OutputSample(pair.task, left, right, swapped))
    return samples
