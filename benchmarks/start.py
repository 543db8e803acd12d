"""How long it takes to start, in CPU seconds: ours, a bare Python, and whatever else you name.

python benchmarks/start.py
python benchmarks/start.py "other/bin/python -c 'import dspy'" "other/bin/mlflow --help"
"""

from __future__ import annotations

import argparse
import resource
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

TIMES = 9


def cpu_seconds(command: str) -> float:
    """The median over some starts, after one to warm the disk's cache."""
    spent = []
    for _ in range(TIMES + 1):
        before = _children()
        subprocess.run(shlex.split(command), check=True, stdout=subprocess.DEVNULL)
        spent.append(_children() - before)
    return statistics.median(spent[1:])


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("others", nargs="*", metavar="COMMAND", help="what to measure beside ours")
    others = parser.parse_args().others
    python = Path(sys.executable)
    ours = {
        "python -c pass": f"{python} -c pass",
        "import seedbed": f"{python} -c 'import seedbed'",
        "from seedbed import Playbook, Workspace": f"{python} -c 'from seedbed import Playbook, Workspace'",
        "seedbed --help": f"{python.parent / 'seedbed'} --help",
    }
    print("| what | CPU seconds |\n|---|---:|")
    for name, command in (ours | {each: each for each in others}).items():
        print(f"| `{name}` | {cpu_seconds(command):.2f} |", flush=True)


if __name__ == "__main__":
    main()
