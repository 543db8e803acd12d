"""A court to try judges in: a workspace whose judge answers from a script, and everything it was asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.labels import LabelledAnswer
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run, Turn
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json
from seedbed.workspace import Workspace

TASK = Task("capital", {"question": "What is the capital of France?"}, "Paris")


class Court:
    """Performs a judge's playbook as a real run; `says` are the answers of its model, a dollar for each word."""

    def __init__(self, says: Sequence[str] | dict[str, str], usd_per_word: int = 1) -> None:
        replies = says if isinstance(says, dict) else list(says)
        card = {"use": "scripted", "args": {"replies": replies}, "usd_per_million": [0, 1_000_000 * usd_per_word]}
        self.space = Workspace(Settings(by="ada", models={"judge": card}), MemoryStore())
        self.runs: list[Run] = []

    async def perform(self, playbook: Playbook, inputs: Json, seed: int) -> Run:
        self.runs.append(await self.space.resources.runner.perform(playbook, inputs, seed))
        return self.runs[-1]

    @property
    def prompts(self) -> list[str]:
        """What the judge was asked, time after time."""
        return [run.turns[0].messages[-1][1] for run in self.runs]


def says(*marks: str | float, reason: str = "so it is") -> str:
    """What a judge says who keeps to the form."""
    return json.dumps({str(number): {"reason": reason, "mark": mark} for number, mark in enumerate(marks, 1)})


def answered(output: Any, *turns: str) -> Run:
    """A run that gave this, after these turns."""
    said = tuple(
        Turn(
            step=f"s{number}",
            role="critic" if number % 2 else "writer",
            model="secret-model",
            messages=(),
            text=text,
            prompt_tokens=1,
            completion_tokens=1,
            cost_usd=0.0,
            latency_seconds=0.0,
            finish_reason="stop",
            seed=1,
        )
        for number, text in enumerate(turns)
    )
    return replace(LabelledAnswer.answer(output, TASK, None).run, turns=said)
