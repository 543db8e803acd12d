"""Long dialogues are stored once: a turn names the turns before it and does not repeat them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.workspace import Workspace

TURNS, DIALOGUES, ANSWER = 50, 10, "x" * 300
MOST_BYTES = 70_000
"""For each dialogue, in the files of the store."""


async def test_a_dialogue_of_fifty_turns_is_stored_in_seventy_kilobytes(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(TURNS)]
    steps = [
        {"name": name, "role": "ab"[number % 2], "prompt": "go on {q}", "sees": names[:number]}
        for number, name in enumerate(names)
    ]
    playbook = Playbook.from_document({"roles": {"a": {"model": "m"}, "b": {"model": "m"}}, "steps": steps})
    models = {"m": {"use": "scripted", "args": {"replies": {"": ANSWER}}}}
    space = Workspace(
        Settings.model_validate({"by": "ann", "models": models}), open_store(f"sqlite:///{tmp_path}/r.db")
    )
    runs = await asyncio.gather(*(space.run(playbook, q="why") for _ in range(DIALOGUES)))
    space.close()
    stored = sum(file.stat().st_size for file in tmp_path.iterdir())
    made = open_store(f"sqlite:///{tmp_path}/empty/r.db")
    made.close()
    empty = sum(file.stat().st_size for file in (tmp_path / "empty").iterdir())
    assert stored - empty <= DIALOGUES * MOST_BYTES
    again = Workspace(Settings(by="ann"), open_store(f"sqlite:///{tmp_path}/r.db"))
    assert again.runs.get(runs[0]) == runs[0]
    assert sum(text.count(ANSWER) for _, text in runs[0].turns[-1].messages) == TURNS - 1
    again.close()
