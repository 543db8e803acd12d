"""What a turn costs above the model, alone and in a crowd, beside the peers that are installed; see peers.py.

    python benchmarks/dialogues.py [--crowd 1000] [--repeats 30]

Each row is measured in a process of its own. Figures are medians.

- µs per turn: a dialogue of ten turns on a model that answers at once, and in brackets what lies around that model:
  without what it takes by itself to make up its answer
- peak, KB: the most that one such dialogue holds of Python's memory at a time
- crowd: so many of them at once; how much the process grows for each, and how long the event loop stands still
- on 100 ms: the same crowd on a model that takes so long; 1.0 s is the least
- 3 x 100 ms: 100 ms divided by what three such turns together take

And how long `seedbed run` takes from the start of its process to the first byte at a model's endpoint on loopback,
beside what it takes others to be imported.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from importlib.util import find_spec
from pathlib import Path

from peers import PEERS, TURNS, Dialogue

WAIT = 0.1
STARTS = 7
COLUMNS = (
    "µs per turn",
    "peak, KB",
    "{crowd} at once, s",
    "KB each",
    "loop stall p99, ms",
    "max, ms",
    "{crowd} on 100 ms, s",
    "3 × 100 ms",
)
IMPORTS = {
    "sys": "sys",
    "langchain_core": "langchain_core.language_models",
    "langgraph": "langgraph.graph",
    "autogen_agentchat": "autogen_agentchat.teams",
    "pydantic_ai": "pydantic_ai",
}


# One row


async def seconds(talk: Dialogue, repeats: int) -> float:
    """The median of some, after three to warm up."""
    for _ in range(3):
        await talk()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        await talk()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def crowd(talk: Dialogue, size: int) -> tuple[float, list[float]]:
    """Seconds for so many dialogues at once, and how long the event loop stood still each time, sorted."""
    stalls = [0.0]

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - began - 0.001)

    watcher = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    began = time.perf_counter()
    await asyncio.gather(*(talk() for _ in range(size)))
    took = time.perf_counter() - began
    await asyncio.sleep(0.002)  # or the watcher would never tell of the last time
    watcher.cancel()
    return took, sorted(stalls)


async def peak_kb(talk: Dialogue) -> float:
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    await talk()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (most - before) / 1024


def resident_kb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


async def measured(name: str, size: int, repeats: int) -> list[float]:
    peer = PEERS[name]
    assert peer, f"{name} is not to be had"
    with tempfile.TemporaryDirectory(prefix="seedbed-dialogues-") as folder:
        async with peer.talk(0.0, Path(folder)) as talk:
            alone = await seconds(talk, repeats)
            gc.collect()
            before = resident_kb()
            together, stalls = await crowd(talk, size)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            peak = await peak_kb(talk)
        async with peer.talk(WAIT, Path(folder)) as talk:
            waiting, _ = await crowd(talk, size)
        three = float("nan")
        if peer.three:
            async with peer.three(WAIT, Path(folder)) as talk:
                three = WAIT / await seconds(talk, repeats)
    stall = [stalls[int(0.99 * len(stalls))] * 1e3, stalls[-1] * 1e3]
    return [alone / TURNS * 1e6, peak, together, max(0.0, grown) / size, *stall, waiting, three]


def table(size: int, repeats: int) -> None:
    print("| | " + " | ".join(COLUMNS).format(crowd=f"{size:,}") + " |\n|---|" + "---:|" * len(COLUMNS))
    model = 0.0
    for name, peer in PEERS.items():
        if peer is None or not peer.installed:
            print(f"| {name} |" + " – |" * len(COLUMNS))
            continue
        command = [sys.executable, __file__, "--row", name, "--crowd", str(size), "--repeats", str(repeats)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        turn, peak, together, each, p99, most, waiting, three = json.loads(done.stdout)
        model = model or turn  # the first row is the model itself
        print(
            f"| {name} | {turn:,.0f} ({turn - model:,.0f}) | {peak:,.0f} | {together:.2f} | {each:,.0f} |"
            f" {p99:,.0f} | {most:,.0f} | {waiting:.2f} | {three:.3f} |",
            flush=True,
        )


# From the command line to the model


class Endpoint(threading.Thread):
    """Speaks as OpenAI's does, and remembers when the first byte of each request came."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.door = socket.create_server(("127.0.0.1", 0))
        self.came: list[float] = []
        self.start()

    def run(self) -> None:
        reply = {"choices": [{"message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}]}
        body = json.dumps({**reply, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        while True:
            caller, _ = self.door.accept()
            with caller:
                said = caller.recv(1)
                self.came.append(time.perf_counter())
                while b"\r\n\r\n" not in said or not said.rstrip().endswith(b"}"):
                    said += caller.recv(65536)
                caller.sendall(head + body)


def start_ms(command: list[str], folder: str, came: list[float]) -> float:
    """How long a command takes, or until the last of those that `came`; the median after one that writes bytecode."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took = []
    for _ in range(STARTS + 1):
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        took.append((came[-1] if came else time.perf_counter()) - began)
    return statistics.median(took[1:]) * 1e3


def first_call() -> float:
    """Milliseconds from the start of `seedbed run` to the first byte at the endpoint."""
    endpoint = Endpoint()
    with tempfile.TemporaryDirectory(prefix="seedbed-first-call-") as folder:
        url = f"http://127.0.0.1:{endpoint.door.getsockname()[1]}/v1"
        Path(folder, "seedbed.yaml").write_text(
            f"models: {{m: {{use: openai, args: {{model: m, base_url: '{url}'}}, usd_per_million: [0, 0]}}}}"
        )
        Path(folder, "ask.yaml").write_text("roles: {a: {model: m}}\nsteps: [{name: s, role: a, prompt: '{q}'}]\n")
        command = [str(Path(sys.executable).parent / "seedbed"), "run", "ask.yaml", "q=why"]
        return start_ms(command, folder, endpoint.came)


def import_ms(module: str) -> float:
    return start_ms([sys.executable, "-c", f"import {module}"], ".", [])


def starts() -> None:
    print("\n| | ms |\n|---|---:|")
    print(f"| `seedbed run`, to the first byte at the model | {first_call():,.0f} |", flush=True)
    for package, module in IMPORTS.items():
        if package == "sys" or find_spec(package):
            print(f"| `import {module}` | {import_ms(module):,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowd", type=int, default=200, help="dialogues at once (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=30, help="of what is measured alone (default %(default)s)")
    parser.add_argument("--row", choices=PEERS, help="measure this one alone, and tell its figures as JSON")
    given = parser.parse_args()
    if given.row:
        print(json.dumps(asyncio.run(measured(given.row, given.crowd, given.repeats))))
        return
    table(given.crowd, given.repeats)
    starts()


if __name__ == "__main__":
    main()
