from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
for folder in Path(__file__).parent.iterdir():  # samples that tests of several packages share
    if folder.is_dir():
        sys.path.append(str(folder))


@pytest.fixture
def sighted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics see whom they score, which makes it easy to say who wins."""
    monkeypatch.setattr("seedbed.evaluation.evaluate.blind", lambda run: run)
