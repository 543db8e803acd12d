"""A workspace in memory whose only model says one word."""

from __future__ import annotations

from typing import Any

from loop_samples import ORACLE

from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace


def in_memory(**settings: Any) -> Workspace:
    chosen: Any = {"by": "ada", "models": {"oracle": ORACLE}, "channels": {"production": {}}, **settings}
    return Workspace(Settings(**chosen), MemoryStore())
