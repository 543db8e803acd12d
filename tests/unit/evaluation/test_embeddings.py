from __future__ import annotations

import sys

import numpy as np
import pytest

from seedbed.errors import SettingsError
from seedbed.evaluation import embeddings


def test_vectors_have_length_one_and_those_of_nothing_length_zero() -> None:
    pytest.importorskip("wordllama")
    vectors = embeddings.embed(["a broken lamp", "the lamp broke", ""], needed_for="this")
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 1, 0])
    assert vectors[0] @ vectors[1] > 0.5


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(SettingsError, match="embeddings"):
        embeddings.embed(["x"], needed_for="that")
