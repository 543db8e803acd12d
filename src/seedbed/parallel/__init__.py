"""Do many things at once, here, in other processes or on a Ray cluster, with the results in order."""

from __future__ import annotations

import re

from seedbed.errors import Problem, SettingsError, shown
from seedbed.parallel.ordering import in_chunks, in_order
from seedbed.parallel.processes import Processes
from seedbed.parallel.ray import Ray
from seedbed.parallel.worker_pool import Executor, Loop, WorkerLost

__all__ = ["Executor", "Loop", "WorkerLost", "executor", "in_chunks", "in_order"]


def executor(named: str | int) -> Executor:
    """The executor of that name; `ray` is the cluster of RAY_ADDRESS, or else on this machine. Raises SettingsError."""
    text = str(named)
    if text == "loop":
        return Loop()
    if text == "processes" or re.fullmatch(r"[1-9]\d{0,3}", text):
        return Processes(None if text == "processes" else int(text))
    if text == "ray" or re.match(r"ray:.", text):
        return Ray(text if text.startswith("ray://") else text.partition(":")[2])
    remedy = "Give loop, processes, a number of processes, ray, ray://HOST:PORT or ray:ADDRESS."
    raise SettingsError([Problem("parallel", shown(named), "where work is done", remedy)])
