from __future__ import annotations

import pytest


@pytest.fixture
def sighted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics see whom they score, which makes it easy to say who wins."""
    monkeypatch.setattr("seedbed.evaluation.evaluate.blind", lambda run: run)
