"""What a Ray cluster does beyond the contract of executors: nodes are lost, and scripts send what is their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

# In a process of its own: one process has one Ray.
STORY = """
import asyncio, os, sys, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from seedbed.parallel import in_chunks
from seedbed.parallel.ray import Ray

async def counted(told):  # stands in the script itself, as a user's metric may
    folder, numbers = told
    began = time.perf_counter()
    (Path(folder) / ray.get_runtime_context().get_node_id()).touch()
    await asyncio.sleep(0.02 * len(numbers))
    return [2 * each for each in numbers], time.perf_counter() - began

async def main(folder):
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    other = cluster.add_node(num_cpus=1)
    ray.init(cluster.address, log_to_driver=False)
    crew = Ray()
    assert await crew.ready() == 2

    async def some(numbers):
        return await crew.do(counted, (folder, list(numbers)))

    got = []
    async for each in in_chunks(range(400), some, workers=2):
        got.append(each)
        if len(got) == 40:
            while len(os.listdir(folder)) < 2:
                await asyncio.sleep(0.01)
            cluster.remove_node(other, allow_graceful=False)
    assert got == [2 * each for each in range(400)]
    crew.close()
    ray.shutdown()
    cluster.shutdown()
    print("all came back")

asyncio.run(main(sys.argv[1]))
"""


def test_what_a_lost_node_had_is_done_by_the_others(tmp_path: Path) -> None:
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", STORY, str(tmp_path)],
        env={**os.environ, **quiet},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as story:
        try:
            said, _ = story.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(story.pid, signal.SIGKILL)  # with all that its Ray has started
            raise
    assert said.endswith("all came back\n"), said
