"""Embeddings: texts as vectors of their meaning, by weights that come with a package: no key, no network, no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from seedbed import plugins

Vectors = npt.NDArray[np.float64]


def is_installed() -> bool:
    return find_spec("wordllama") is not None


def embed(texts: Sequence[str], *, needed_for: str) -> Vectors:
    """A row for each text, of length 1, or 0 if it has no words. Raises SettingsError without wordllama."""
    vectors: Vectors = _model(needed_for).embed(list(texts)).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


@cache
def _model(needed_for: str) -> Any:
    wordllama = plugins.optional("wordllama", extra="embeddings", needed_for=needed_for)
    # Without the folder of its files it looks elsewhere for them, and then asks the network.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
