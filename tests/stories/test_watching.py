"""Somebody watches from outside: what is told of real runs, and what never is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, serving
from seedbed.playbooks.playbook import Playbook
from seedbed.telemetry import listeners, place

SAID = "the-patient-is-ill"
KEY = "key-of-the-tests"
PLAYBOOK = Playbook.from_document(
    {
        "roles": {"doctor": {"model": "main", "system": "Be kind."}},
        "steps": [{"name": "advice", "role": "doctor", "prompt": "{complaint}"}],
    }
)


@pytest.fixture(autouse=True)
def _nobody_listens_afterwards() -> Iterator[None]:
    yield
    listeners.clear()


def workspace(folder: Path, url: str) -> Path:
    path = folder / "seedbed.yaml"
    path.write_text(
        f"""
        store: "memory:"
        models:
          main: {{use: openai, args: {{model: m, base_url: {url!r}, api_key: {{env: WATCHED_KEY}}}}, then: [spare]}}
          spare: {{use: scripted, args: {{replies: {{".": "{SAID}, so rest"}}}}}}
        telemetry: {{logs: told.jsonl}}
        """
    )
    return path


def told(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines()]


async def test_the_log_tells_how_a_run_went_and_nothing_that_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHED_KEY", KEY)
    with serving(Answer(status=402, message=f"no credit for {KEY} to say {SAID}")) as server:
        async with (
            seedbed.open(workspace(tmp_path, server.url)) as space,
            space.runs.recording(PLAYBOOK, complaint="none") as stage,
        ):
            outer = stage.recorder.id
            run = await space.run(PLAYBOOK, complaint=SAID)
            assert place().run == outer
    lines = [line for line in told(tmp_path) if line["run"] == run.id]
    assert [line["event"] for line in lines] == [
        "run_started",
        "model_failed",
        "substituted",
        "turn_ended",
        "run_ended",
    ]
    assert {line["parent"] for line in lines} == {outer}
    assert [line.get("step") for line in lines] == [None, "advice", "advice", "advice", None]
    assert (lines[1]["model"], lines[1]["why"]) == ("main", "credit")
    assert (lines[2]["asked"], lines[2]["used"]) == ("main", "spare")
    assert (lines[3]["model"], lines[3]["completion_tokens"]) == ("spare", run.turns[0].completion_tokens)
    assert (lines[4]["status"], lines[4]["tokens"]) == ("completed", run.tokens)
    text = (tmp_path / "told.jsonl").read_text()
    assert SAID in run.output
    assert SAID not in text
    assert KEY not in text


async def test_a_run_that_is_cancelled_is_told_to_be_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHED_KEY", KEY)
    loop, asked = asyncio.get_running_loop(), asyncio.Event()

    def hang(_: dict[str, Any]) -> Answer:
        loop.call_soon_threadsafe(asked.set)
        return Answer(delay=30)

    with serving(script=hang) as server:
        async with seedbed.open(workspace(tmp_path, server.url)) as space:
            running = asyncio.create_task(space.run(PLAYBOOK, complaint=SAID))
            await asked.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert [line["event"] for line in told(tmp_path)] == ["run_started", "run_ended"]
    assert told(tmp_path)[-1]["status"] == "interrupted"
