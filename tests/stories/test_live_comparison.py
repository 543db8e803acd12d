"""A canary is tried on people, found better by what they say of it, and released elsewhere on that evidence."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seedbed
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage.store import Query

SEEDBED = Path(sys.executable).with_name("seedbed")
OLD, NEW = (Playbook.from_document({"roles": {"writer": {"system": text}}}) for text in ("Answer.", "Answer briefly."))
CHANNELS = {"pilot": {"require": []}, "production": {"require": ["better", "held_out"]}}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/seedbed.db"
    else:
        yield request.getfixturevalue("postgres_url")


async def test_what_people_say_of_a_canary_decides_once_for_all_who_look(url: str, tmp_path: Path) -> None:
    file = tmp_path / "seedbed.yaml"
    file.write_text(json.dumps({"store": url, "by": "anna", "channels": CHANNELS}), encoding="utf-8")
    space = seedbed.open(Settings(store=url, by="anna", channels=CHANNELS))
    for channel in CHANNELS:
        await space.release(OLD, to=channel, because="the first one")
    await space.release(NEW, to="pilot", because="shorter answers", share=0.3)
    (looked,) = space.experiments.compare_live(seedbed.live("pilot"))
    assert looked.verdict is None
    chance = random.Random(3)
    for number in range(200):
        choice = await space.channels.choose("pilot", key=f"user {number}")
        space.feedback(choice, float(chance.random() < (0.95 if choice.arm == "canary" else 0.4)))

    command = [SEEDBED, "compare", "--live", "pilot", "-w", str(file), "--json"]
    looking = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    told = [json.loads(each.communicate(timeout=120)[0]) for each in looking]
    assert [each.returncode for each in looking] == [0, 0]
    assert told[0] == told[1]
    assert len(list(space.store.facts(Query(kind="verdict")))) == 1

    verdict = await space.compare(None, None, on=seedbed.live("pilot"), metric="rating")
    assert verdict.finding == "superior"
    await space.release(NEW, to="production", because=verdict)
    assert space.playbooks.get("production") == NEW
    space.close()
    checked = subprocess.run(
        [SEEDBED, "evidence", "verify", "-w", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert checked.returncode == 0, checked.stdout
    assert "follows from its raw facts" in checked.stdout
