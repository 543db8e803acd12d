"""Contract suites: the tests that every plug-in must pass. Needs pytest."""

from __future__ import annotations

from seedbed.testing.executor import ExecutorContract
from seedbed.testing.gate import GateContract
from seedbed.testing.metric import MetricContract
from seedbed.testing.optimizer import OptimizerContract
from seedbed.testing.store import BODIES, NOON, StoreContract, everything, fact, keys, move

__all__ = [
    "BODIES",
    "NOON",
    "ExecutorContract",
    "GateContract",
    "MetricContract",
    "OptimizerContract",
    "StoreContract",
    "everything",
    "fact",
    "keys",
    "move",
]
