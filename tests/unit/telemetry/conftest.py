from __future__ import annotations

from collections.abc import Iterator

import pytest

from seedbed.telemetry import Place, TelemetryEvent, listeners


@pytest.fixture(autouse=True)
def _nobody_listens_afterwards() -> Iterator[None]:
    before = list(listeners)
    yield
    listeners[:] = before


@pytest.fixture
def heard() -> list[tuple[TelemetryEvent, Place]]:
    told: list[tuple[TelemetryEvent, Place]] = []
    listeners.append(lambda event, place: told.append((event, place)))
    return told
