"""Processes that are killed, frozen or overtaken, and stores that fail, at random moments: every payment is made once.

A few points, or as many as SEEDBED_FAULTS says; `python benchmarks/faults.py` tries 500, and also prints a table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

POINTS = os.environ.get("SEEDBED_FAULTS", "7")
FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_no_payment_is_made_twice_or_lost_and_all_doubts_are_listed(store: str, request: pytest.FixtureRequest) -> None:
    where = ["--stores", store]
    if store == "postgresql":
        server: Any = request.getfixturevalue("postgres")
        where = ["--database", f"{request.getfixturevalue('postgres_url')},{server.get_uri()}"]
    command = [sys.executable, str(FAULTS), "--points", POINTS, "--gone", "0.3", "--long", "0", "--json", *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert (told["points"], told["wrong"]) == (int(POINTS), {}), (told, done.stderr)
