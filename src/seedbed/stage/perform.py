"""Perform a playbook once: its own program, or the built-in dialogue, on a recorded stage."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any

from seedbed.errors import PlaybookError, Problem, RunError, SeedbedError, StoreError, shown
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.stage.dialogue import dialogue
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical

Program = Callable[[Mapping[str, Any], Stage], Awaitable[Any]]


def program_of(playbook: Playbook) -> Program:
    """The async function that performs a playbook. Raises PlaybookError if it cannot be imported."""
    if playbook.program is None:
        return dialogue
    module, _, name = playbook.program.partition(":")
    try:
        program: Program = getattr(importlib.import_module(module), name)
    except Exception as wrong:
        found = f"{playbook.program} ({type(wrong).__name__}: {wrong})"
        remedy = "Is its folder on PYTHONPATH?"
        raise PlaybookError([Problem("program", found, "module:function", remedy)]) from wrong
    if not callable(program):
        raise PlaybookError([Problem("program", f"{playbook.program}, {shown(program)}", "an async function")])
    return program


async def perform(stage: Stage, inputs: Mapping[str, Any]) -> Run:
    """Run to the end and record how it ended; the error of a failed run is raised again, as a SeedbedError."""
    recorder = stage.recorder
    try:
        output = await _output(stage, inputs)
    except SeedbedError as wrong:
        error = f"{type(wrong).__name__}: {wrong}"
        recorder.end("failed", error=error.encode(errors="replace").decode())
        raise
    return recorder.end("completed", output=output)


async def _output(stage: Stage, inputs: Mapping[str, Any]) -> Any:
    program = program_of(stage.playbook)
    name = stage.playbook.program or "the dialogue"
    try:
        doing = program(deepcopy(inputs), stage)  # whatever it does to them, the next run gets the same
        if not inspect.isawaitable(doing):
            raise PlaybookError([Problem("program", f"{name}, which is not async", "an async function")])
        output = await doing
    except SeedbedError:
        raise
    except Exception as wrong:
        raise RunError(f"{name} failed: {type(wrong).__name__}: {wrong}") from wrong
    try:
        canonical(output)
    except StoreError as wrong:
        raise RunError(f"{name} returned what cannot be recorded, {wrong}") from wrong
    return output
