"""This loop, processes and Ray keep the contract of executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from seedbed.parallel import Executor, Loop
from seedbed.parallel.processes import Processes
from seedbed.parallel.ray import Ray
from seedbed.testing import ExecutorContract


class TestLoop(ExecutorContract):
    may_lose = False

    @pytest.fixture
    def executor(self) -> Executor:
        return Loop()


class TestProcesses(ExecutorContract):
    # One for all tests: to start workers takes longer than most of them, and none may leave it unusable.
    @pytest.fixture(scope="class")
    @classmethod
    def executor(cls) -> Iterator[Executor]:
        processes = Processes(2)
        yield processes
        processes.close()


@pytest.mark.xdist_group("ray")
class TestRay(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def executor(cls, ray: Any) -> Iterator[Executor]:
        cluster = Ray()
        yield cluster
        cluster.close()
