"""How long it takes to start, in seconds of CPU and of the clock: ours, a bare Python, and whatever else you name.

python benchmarks/start.py
python benchmarks/start.py --beside other/bin "other/bin/python -c 'import dspy'" "other/bin/mlflow --help"

`seedbed run` is measured to the first byte of its request, which a server on loopback answers. The commands take turns,
so that all of them share the load of the machine. CPU is read from Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

MESSAGE = {"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
ANSWER = json.dumps({"choices": [MESSAGE], "usage": {"prompt_tokens": 2, "completion_tokens": 2}}).encode()
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass
class Start:
    """A command and what its starts took."""

    name: str
    run: Callable[[], tuple[float, float]]
    cpu: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)

    def again(self) -> None:
        cpu, clock = self.run()
        self.cpu.append(cpu)
        self.clock.append(clock)

    def __str__(self) -> str:
        return f"| {self.name} | {statistics.median(self.cpu[1:]):.3f} | {statistics.median(self.clock[1:]):.3f} |"


def to_end(command: list[str], folder: str) -> tuple[float, float]:
    """Seconds of CPU and of the clock until a command has ended."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, clock


def to_request(command: list[str], folder: str, server: socket.socket) -> tuple[float, float]:
    """Seconds of CPU and of the clock until a command has sent the first byte of a request."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    connection, _ = server.accept()
    with connection:
        received = connection.recv(1 << 16)
        clock = time.perf_counter() - began
        threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
        cpu = sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
        while not received.endswith(b"}"):
            received += connection.recv(1 << 16)
        header = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
        connection.sendall(header.encode() + ANSWER)
        if process.wait():
            raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}")
    return cpu, clock


def starts_of(binaries: Path, folder: str, server: socket.socket) -> list[Start]:
    """How an installation of ours starts; the runs are kept in a folder of its own."""
    url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    model = f"{{use: openai, args: {{model: m, base_url: '{url}'}}, usd_per_million: [0, 0]}}"
    Path(folder, "seedbed.yaml").write_text(f"store: sqlite:///seedbed.db\nmodels:\n  m: {model}\n")
    Path(folder, "greeter.yaml").write_text("roles:\n  writer: {system: Answer., model: m}\n")
    seedbed, python = str(binaries / "seedbed"), str(binaries / "python")
    request = [seedbed, "run", "greeter.yaml", "question=Hello?"]
    commands = {
        "`seedbed --help`": [seedbed, "--help"],
        "`seedbed runs list`": [seedbed, "runs", "list"],
        "`import seedbed`": [python, "-c", "import seedbed"],
        "`from seedbed import Playbook, Workspace`": [python, "-c", "from seedbed import Playbook, Workspace"],
    }
    return [
        Start("`seedbed run`, to its request", lambda: to_request(request, folder, server)),
        *(Start(name, lambda command=command: to_end(command, folder)) for name, command in commands.items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("others", nargs="*", metavar="COMMAND", help="what to measure beside ours")
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="the commands of another installation of ours")
    parser.add_argument("--times", type=int, default=15, help="starts of each (default %(default)s)")
    options = parser.parse_args()
    python = sys.executable
    others = [shlex.join([python, "-c", "import langchain_core.language_models"]), *options.others]
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        starts = starts_of(Path(python).parent, folder, server)
        if options.beside:
            other = stack.enter_context(tempfile.TemporaryDirectory())
            for start in starts_of(options.beside.absolute(), other, server):
                start.name += f" of {options.beside}"
                starts.append(start)
        starts.append(Start("`python -c pass`", lambda: to_end([python, "-c", "pass"], folder)))
        starts += [Start(f"`{each}`", lambda each=each: to_end(shlex.split(each), folder)) for each in others]
        for _ in range(options.times + 1):  # the first warms the disk's cache
            for start in starts:
                start.again()
    print("| what | CPU seconds | seconds |", "|---|---:|---:|", *starts, sep="\n")


if __name__ == "__main__":
    main()
