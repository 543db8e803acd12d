"""Processes that are killed, frozen or overtaken, and stores that fail, at random moments: every payment is made once.

A few points; `python benchmarks/faults.py --points 500` tries more, and says what happens at each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_no_payment_is_made_twice_or_lost_and_all_doubts_are_listed(store: str, request: pytest.FixtureRequest) -> None:
    where = ["--stores", store]
    if store == "postgresql":
        server: Any = request.getfixturevalue("postgres")
        where = ["--database", f"{request.getfixturevalue('postgres_url')},{server.get_uri()}"]
    command = [sys.executable, str(FAULTS), "--points", "7", "--gone", "0.3", "--json", *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert (told["points"], told["wrong"]) == (7, {}), (told, done.stderr)
