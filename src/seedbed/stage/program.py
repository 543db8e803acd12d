"""Perform a playbook once: its own program, or the built-in dialogue, on a recorded stage."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from seedbed.errors import BudgetSpent, PlaybookError, Problem, RunError, SeedbedError, StoreError, shown
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run, Status
from seedbed.stage.dialogue.dialogue import dialogue
from seedbed.stage.stage import Stage
from seedbed.storage.store import canonical
from seedbed.telemetry import within

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
    async with recording(stage) as ended:
        stage.output = await _output(stage, inputs)
    return ended.result()


@asynccontextmanager
async def recording(stage: Stage) -> AsyncIterator[asyncio.Future[Run]]:
    """Record a block from its acceptance to its end, which the future tells; what it raises is recorded too.

    A block that is cancelled has no end, so that it can be taken up again.
    """
    recorder = stage.recorder
    ended: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
    with within(run=recorder.id):
        try:
            await recorder.start()
        except asyncio.CancelledError:
            recorder.leave()
            raise
        try:
            yield ended
            _check_output(stage.output)
            recorder.check()
        except Exception as wrong:
            error = f"{type(wrong).__name__}: {wrong}"
            status: Status = "cost_limited" if isinstance(wrong, BudgetSpent) else "failed"
            await recorder.end(status, error=error.encode(errors="replace").decode())
            raise
        except BaseException:
            recorder.tell("interrupted")
            recorder.leave()
            raise
        ended.set_result(await recorder.end("cost_limited" if stage.ledger.refused else "completed", stage.output))


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
    return output


def _check_output(output: object) -> None:
    try:
        canonical(output)
    except StoreError as wrong:
        raise RunError(f"found an output that cannot be recorded, {wrong}") from wrong
