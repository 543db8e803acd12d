"""Semantic similarity, by embeddings whose weights ship in the package wordllama: no key, no network, no GPU."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.matching import alternatives
from seedbed.evaluation.metrics.metric import NO_ANSWER, Score, metric, text
from seedbed.runs.run import Run


@cache
def _embeddings() -> Any:
    import wordllama

    # Told where its files are, as by itself it looks for them elsewhere and then asks the network.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


@lru_cache(maxsize=4096)
def _embedded(said: str) -> Any:
    vector = _embeddings().embed([said])[0].astype(np.float64)
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector


@metric(version=1, needs=("wordllama", "embeddings"))
def similarity(run: Run, task: Task) -> Score:
    """How alike output and expected answer are in meaning: the cosine of their embeddings, or 0 if that is below.

    Of a list of expected answers the nearest counts. Texts on one subject are alike even if one denies the other.
    """
    if task.expected is None:
        return NO_ANSWER
    said, wanted = text(run.output).strip(), [each.strip() for each in alternatives(task.expected)]
    return Score(max((_alike(said, each) for each in wanted), default=0.0))


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    if not one or not other:
        return 0.0
    return min(1.0, max(0.0, float(_embedded(one) @ _embedded(other))))
