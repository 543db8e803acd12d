"""Perform a playbook once: its own program, or the built-in dialogue, on a recorded stage."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from seedbed.errors import PlaybookError, Problem
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.stage.dialogue import dialogue
from seedbed.stage.stage import Stage

Program = Callable[[Mapping[str, Any], Stage], Awaitable[Any]]


def program_of(playbook: Playbook) -> Program:
    """The async function that performs a playbook. Raises PlaybookError if it cannot be imported."""
    if playbook.program is None:
        return dialogue
    module, _, name = playbook.program.partition(":")
    try:
        program: Program = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as wrong:
        remedy = "Is its folder on PYTHONPATH?"
        raise PlaybookError([Problem("program", f"{playbook.program} ({wrong})", "module:function", remedy)]) from wrong
    return program


async def perform(stage: Stage, inputs: Mapping[str, Any]) -> Run:
    """Run to the end and record how it ended; the error of a failed run is raised again."""
    recorder = stage.recorder
    try:
        output = await program_of(stage.playbook)(inputs, stage)
    except Exception as wrong:
        recorder.end("failed", error=f"{type(wrong).__name__}: {wrong}")
        raise
    return recorder.end("completed", output=output)
