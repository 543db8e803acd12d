"""Simulated tools: what acts in place of tools outside live runs, so that trying an agent changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Literal

from seedbed.errors import NotFound, Problem, SettingsError
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.rules.rule import names
from seedbed.playbooks.steps.tool_use import chosen
from seedbed.stage.bounds import bounds
from seedbed.stage.tools import Tool, as_tool, takes_key

FOUR_WAYS = (
    "If one only reads, declare it: effect reads. For others there are four ways: a function that acts in its place, "
    "simulated=; a sandbox that is made for each run and thrown away, sandbox=; recorded results: seedbed compare "
    "--replay N; or really acting, if you say so: --real-tools (in Python: seedbed.open(real_tools=True))."
)


class SimulatedTools(dict[str, Tool]):
    """The tools of a run in which nothing acts on the world."""


def expect_simulated(tools: Iterable[Tool]) -> None:
    """Raises SettingsError with all tools that change the world and cannot be simulated."""
    if lacking := [tool.name for tool in tools if lacks_simulation(tool)]:
        actual = f"{', '.join(lacking)}, which would really change the world or send something out"
        raise SettingsError([Problem("tools", actual, "simulated or sandboxed tools outside live runs", FOUR_WAYS)])


def lacks_simulation(tool: Tool) -> bool:
    return tool.changes and not tool.simulated and not tool.sandbox


def permits(playbook: Playbook, tool: Tool) -> bool:
    """Whether a playbook could ever use a tool: a program any, a dialogue those that it names; and whether all whose
    rules hold here could let it act, whatever its arguments."""
    if not playbook.program and not playbook.opened and not chosen(playbook.named_tools, [tool.name]):
        return False
    forbidden = (rule for each in (playbook, *bounds().playbooks) for rule in each.rules.never if isinstance(rule, str))
    return not any(names(rule, tool.name) for rule in forbidden)


def reaches_tools(playbook: Playbook, library: Library) -> bool:
    """Whether runs of a playbook may call tools, or runs that they open."""
    if playbook.uses_tools:
        return True
    with suppress(NotFound):  # the run says so
        return any(reaches_tools(library.get(each), library) for each in playbook.opened)
    return False


@asynccontextmanager
async def simulated_tools(tools: Mapping[str, Tool]) -> AsyncIterator[SimulatedTools]:
    """The tools for one run outside the live ones: simulated where that is possible; the others read, or refuse.

    The sandboxes are made now and left at the end of the block. Tools with the same one share it.
    """
    async with AsyncExitStack() as stack:
        made: dict[Callable[[], Any], Any] = {}
        for sandbox in dict.fromkeys(tool.sandbox for tool in tools.values() if tool.sandbox):
            made[sandbox] = await _entered(stack, sandbox)
        yield SimulatedTools({name: _simulated(tool, made) for name, tool in tools.items()})


async def _entered(stack: AsyncExitStack, sandbox: Callable[[], Any]) -> Any:
    """What a sandbox offers; a context manager that is not async may take its time, so that it gets a thread."""
    made = await asyncio.to_thread(sandbox)
    if hasattr(made, "__aenter__"):
        return await stack.enter_async_context(made)
    if hasattr(made, "__enter__"):
        offered = await asyncio.to_thread(made.__enter__)

        async def leave(*error: Any) -> None:
            await asyncio.to_thread(made.__exit__, *error)

        stack.push_async_exit(leave)
        return offered
    return made


def _simulated(tool: Tool, made: Mapping[Callable[[], Any], Any]) -> Tool:
    if tool.simulated:
        return _acting(tool, tool.simulated, "simulated")
    if tool.sandbox:
        return _acting(tool, _offered(tool.name, made[tool.sandbox]), "sandbox")
    if not tool.changes:
        return tool

    async def refuse(**_: Any) -> None:
        expect_simulated([tool])

    return _acting(tool, refuse, "simulated")


def _acting(tool: Tool, function: Callable[..., Any], acts: Literal["simulated", "sandbox"]) -> Tool:
    return replace(tool, function=function, acts=acts, takes_key=takes_key(function), schema=tool.parameters)


def _offered(name: str, sandbox: Any) -> Callable[..., Any]:
    function = sandbox.get(name) if isinstance(sandbox, Mapping) else getattr(sandbox, name, None)
    if function is None:
        expected = f"one with a function called {name}"
        raise SettingsError([Problem(f"tool {name}: sandbox", f"a {type(sandbox).__name__} without it", expected)])
    return as_tool(function).function
