"""Program: what performs a playbook once, be it its own function, the built-in dialogue, or a user's code."""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import re
import sys
import textwrap
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import deepcopy
from datetime import timedelta
from typing import Any, TypeVar

from seedbed.errors import BudgetSpent, PlaybookError, Problem, RunError, RunTaken, SeedbedError, StoreError, shown
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.warnings import unknown_tools
from seedbed.plugins import load, sources
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Run, RunStatus
from seedbed.runs.worker_presence import performing
from seedbed.stage.dialogue.dialogue import dialogue
from seedbed.stage.replay import ReplayTools
from seedbed.stage.stage import Stage
from seedbed.stage.tools import Tool, toolset
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Json, Query, Store, canonical, digest, now
from seedbed.telemetry import within

Program = Callable[[Mapping[str, Any], Stage], Awaitable[Any]]
Output = TypeVar("Output")

NAMELESS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


HERE = "__here__"
"""Stands for the module of a program that cannot be imported."""

_programs_here: dict[str, Program] = {}
"""The programs of this process that cannot be imported, by path."""


def program_of(playbook: Playbook) -> Program:
    """The async function that performs a playbook. Raises PlaybookError if it cannot be imported."""
    if playbook.program is None:
        return dialogue
    if is_here(playbook):
        if playbook.program in _programs_here:
            return _programs_here[playbook.program]
        remedy = "Pass the function again as program=, or move it to a module and name it with --program."
        raise PlaybookError([Problem("program", playbook.program, "a function of this process", remedy)])
    program: Program = load(playbook.program, "program", expected="module:function", error=PlaybookError)
    if not callable(program):
        raise PlaybookError([Problem("program", f"{playbook.program}, {shown(program)}", "an async function")])
    return program


def is_here(playbook: Playbook) -> bool:
    """Whether the program of a playbook cannot be imported, so that only the process that has it can perform it."""
    return (playbook.program or "").startswith(f"{HERE}:")


def expect_importable(playbook: Playbook) -> None:
    """Raise PlaybookError if other processes cannot perform a playbook."""
    if is_here(playbook):
        remedy = "Move it to the top of a module, or use parallel: loop."
        expected = "a function that other processes can import"
        raise PlaybookError([Problem("program", str(playbook.program), expected, remedy)])


def with_program(playbook: Playbook, program: Program | str) -> Playbook:
    """The playbook as a program performs it: an async function, or `module:function`. Raises PlaybookError.

    A function that can be imported becomes its path. Any other one works in this process only, under its name and a
    hash of its source.
    """
    if not callable(program) and not (isinstance(program, str) and re.fullmatch(r"[\w.]+:\w+", program)):
        remedy = "Give one as program=, or --program module:function."
        raise PlaybookError([Problem("program", shown(program), "an async function, or module:function", remedy)])
    path = program if isinstance(program, str) else _path(program)
    performed = Playbook.from_document({**playbook.document(), "program": path})
    program_of(performed)  # a wrong name is refused now, not by every run
    return performed


def _path(program: Program) -> str:
    """The path of a function; one that cannot be imported is remembered under its path."""
    module, name = getattr(program, "__module__", ""), getattr(program, "__qualname__", "")
    if module != "__main__" and name.isidentifier() and getattr(sys.modules.get(module), name, None) is program:
        return f"{module}:{name}"
    for path, known in _programs_here.items():
        if known is program:
            return path
    word = re.sub(r"\W", "_", getattr(program, "__name__", type(program).__name__))
    path = f"{HERE}:{word}_{_behaviour(program)[3:19]}"
    _programs_here[path] = program
    return path


def _behaviour(program: Program) -> str:
    """A digest of a function's source and of the values it holds; a random one if they are not plain values."""
    try:
        held = inspect.getclosurevars(program).nonlocals, program.__defaults__, program.__kwdefaults__
        return digest("program", [source(program) or uuid.uuid4().hex, *held])
    except (StoreError, TypeError, AttributeError):
        return digest("program", uuid.uuid4().hex)


def program_source(
    playbook: Playbook, tools: Iterable[Tool], store: Store, by: str, *, listed: Iterable[Tool] = ()
) -> Json | None:
    """What a playbook's own program and its tools do, as digests of their source, if that was edited: it makes other
    runs. None while it is as the store first saw it, so that runs of before keep their names.

    `listed` are the tools of the workspace file. Of all tools the modules count too, and with the program's those that
    they import from the same top folder. Comments and layout make no difference. Of code without source there is only
    the name.
    """
    if (name := playbook.program) is None:
        return None
    module, known = _module(playbook), list(tools)
    own: Json = {"program": source(module), "tools": {tool.name: source(tool.function) for tool in known}}
    modules = [module, *(inspect.getmodule(inspect.unwrap(tool.function)) for tool in (*known, *listed))]
    beside: Json = {"modules": digest("source", sources(modules))}
    # Apart, since runs of before these modules counted have names that depend on the first alone.
    seen = {name: own, f"{name} and what it imports": beside}
    store.append(Fact(kind="source", key=key, subject=name, at=now(), by=by, body=body) for key, body in seen.items())
    first = {fact.key: fact.body for fact in store.facts(Query(kind="source", keys=list(seen)))}
    edited = {part: value for key, body in seen.items() if first[key] != body for part, value in body.items()}
    return edited or None


def code_of(playbook: Playbook) -> str:
    """The hashes of the source of a playbook's program and, behind a `/`, of its module with all that this imports from
    the same top folder; empty if it has none, or none that can be read.

    They are no digests of content: the source is not in the store.
    """
    if not (own := source(module := _module(playbook))):
        return ""
    return "/".join(each.removeprefix("b2:") for each in (own, digest("source", sources([module]))))


def is_same_code(now: str, then: str) -> bool:
    """Whether two hashes of code are of the same; an older one has nothing of what a program imports."""
    return now == then or ("/" not in then and now.partition("/")[0] == then)


def _module(playbook: Playbook) -> Any:
    try:
        return inspect.getmodule(program_of(playbook)) if playbook.program else None
    except PlaybookError:  # a run says so
        return None


def source(of: Any) -> str:
    """The digest of the source of a module or function; empty if it has none."""
    try:
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(of)))))
    except (OSError, TypeError, SyntaxError):
        return ""
    return digest("source", text)


async def perform(stage: Stage, inputs: Mapping[str, Any]) -> Run:
    """Run to the end and record how it ended; the error of a failed run is raised again, as a SeedbedError."""
    async with recording(stage) as ended:
        program, name = program_of(stage.playbook), stage.playbook.program or "the dialogue"
        try:
            work = program(deepcopy(inputs), stage)  # the program may alter them; the record keeps them as they were
            if not inspect.isawaitable(work):
                raise PlaybookError([Problem("program", f"{name}, which is not async", "an async function")])
            stage.output = await work
        except SeedbedError:
            raise
        except Exception as error:
            raise RunError(f"{name} failed: {type(error).__name__}: {error}") from error
    return ended.result()


@asynccontextmanager
async def recording(stage: Stage) -> AsyncIterator[asyncio.Future[Run]]:
    """Record a block from its start to its end, and what it raises; the future then has the Run.

    A block that is cancelled, or that loses its run to another worker, has no end, so that it can be resumed.
    """
    recorder = stage.recorder
    ended: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
    with within(run=recorder.id), performing(recorder.id):
        try:
            await _name_tools(stage)
            await recorder.start()
            try:
                async with _in_time(stage.run_time):
                    if stage.on_start:
                        await stage.on_start()
                    yield ended
                _check_output(stage.output)
                recorder.check()
            except Exception as error:
                _expect_own(recorder, error)
                error = recorder.claims.stopped or error  # whatever a framework made of it
                text = f"{type(error).__name__}: {error}"
                status: RunStatus = "cost_limited" if isinstance(error, BudgetSpent) else "failed"
                await recorder.end(status, error=text.encode(errors="replace").decode())
                raise error
            except BaseException:
                recorder.emit_end("interrupted")
                raise
            ended.set_result(await recorder.end("cost_limited" if stage.ledger.refused else "completed", stage.output))
        finally:
            if recorder.claims.held:
                await off_loop(recorder.claims.leave)


async def _name_tools(stage: Stage) -> None:
    """Let the start of a run name the tools that it may call. Raises PlaybookError for one that is not there."""
    playbook, tools = stage.playbook, stage.toolbox
    if not (playbook.uses_tools and (tools or playbook.named_tools)):
        return
    if not isinstance(tools, ReplayTools) and (unknown := list(unknown_tools(playbook, tools))):
        raise PlaybookError(unknown)
    stage.recorder.toolset = await stage.recorder.store_content("toolset", toolset(tools, tools, {}))


def _expect_own(recorder: Recorder, error: Exception) -> None:
    """Raise RunTaken if another worker has the run, or one that it opened, whatever its program made of that."""
    taken = error if isinstance(error, RunTaken) else recorder.claims.stopped
    if isinstance(taken, RunTaken):
        recorder.emit_end("interrupted")
        raise taken


@asynccontextmanager
async def _in_time(limit: timedelta | None) -> AsyncIterator[None]:
    """Raise RunError if the block takes longer than a run may."""
    seconds = limit.total_seconds() if limit else None
    try:
        async with asyncio.timeout(seconds) as clock:
            yield
    except TimeoutError as late:
        if not clock.expired():
            raise
        problem = f"found it still under way after {seconds:g} s, limits.run_time; expected its end"
        raise RunError(f"{problem}. Resume it, or raise the limit") from late


def recorded(
    function: Callable[..., Awaitable[Output]], recording: Callable[..., AbstractAsyncContextManager[Stage]]
) -> Callable[..., Awaitable[Output]]:
    """The function with each call performed in a block of `recording`, which receives its arguments by name.

    A parameter called `stage` receives the stage; callers do not pass it. Raises RunError for a function that is not
    async, or has arguments without names.
    """
    signature = inspect.signature(function)
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "stage"]
    if not inspect.iscoroutinefunction(function) or any(parameter.kind in NAMELESS for parameter in parameters):
        name = f"{getattr(function, '__name__', 'something')}{signature}"
        raise RunError(str(Problem("recorded", name, "an async function whose arguments have names")))
    for_callers = signature.replace(parameters=parameters)
    takes_stage = "stage" in signature.parameters

    @functools.wraps(function)
    async def call(*args: Any, **named: Any) -> Output:
        bound = for_callers.bind(*args, **named)
        bound.apply_defaults()
        async with recording(**bound.arguments) as stage:
            output = await function(**bound.arguments, **({"stage": stage} if takes_stage else {}))
            stage.output = output
        return output

    return call


def _check_output(output: object) -> None:
    try:
        canonical(output)
    except StoreError as error:
        raise RunError(f"found an output that cannot be recorded, {error}") from error
