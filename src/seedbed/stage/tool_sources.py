"""Tool sources: the tools of a workspace, loaded when they are first needed, and which of them a run gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.steps.tool_use import chosen
from seedbed.plugins import load
from seedbed.runs.recorder import Recorder
from seedbed.runs.replay_record import ReplayRecord
from seedbed.settings import ToolSource
from seedbed.stage.mcp import Connection
from seedbed.stage.program import source
from seedbed.stage.replay import ReplayTools, strict_record
from seedbed.stage.simulated_tools import SimulatedTools, simulated_tools
from seedbed.stage.stage import Stage
from seedbed.stage.tools import Tool, as_tool, toolbox, toolset
from seedbed.storage.store import Json, digest


class ToolSources:
    """What the workspace file names: functions by their import path, and the tools of MCP servers."""

    def __init__(self, sources: Sequence[ToolSource], folder: Path = Path()) -> None:
        self._functions = [each for each in sources if each.function]
        self._servers = [(Connection(each.mcp, folder), each) for each in sources if each.mcp]
        self._served: list[Tool] = []

    async def load(self, others: Iterable[Any]) -> dict[str, Tool]:
        """All tools by name, with `others` that were passed in Python; servers that do not run yet are started, all at
        the same time.

        Raises SettingsError for a function that cannot be imported, RunError for a server that does not answer.
        """
        functions = self.listed()
        served = await asyncio.gather(*(_served(*server) for server in self._servers))
        self._served = [tool for tools in served for tool in tools]
        return toolbox([*others, *functions, *self._served])

    def identity(self, others: Iterable[Any], playbook: Playbook) -> Json:
        """The digest of what models are told of the tools that a dialogue names, if it names some; those of MCP servers
        count as they were when last loaded."""
        if playbook.program or not playbook.named_tools:
            return {}
        tools = toolbox([*others, *self.listed(), *self._served])
        return {"toolset": digest("toolset", toolset(tools, chosen(playbook.named_tools, tools), playbook.tools))}

    @asynccontextmanager
    async def for_run(
        self, others: Iterable[Any], recorder: Recorder, parent: Stage | None, *, reached: bool
    ) -> AsyncIterator[Mapping[str, Tool]]:
        """The tools of one run; none are loaded unless it may call some. A run within another shares the simulated
        ones."""
        if strict := strict_record(recorder):
            yield ReplayTools(toolbox(others), strict.cassette, servers=bool(self._functions or self._servers))
            return
        tools = await self.load(others) if reached else toolbox(others)
        if recorder.real_tools or not reached or isinstance(recorder, ReplayRecord):
            yield tools
        elif parent and isinstance(parent.toolbox, SimulatedTools):
            yield parent.toolbox
        else:
            async with simulated_tools(tools) as simulated:
                yield simulated

    def simulations(self, others: Iterable[Any]) -> Json:
        """What acts in place of tools, and its source, by the name of the tool or the server. Raises SettingsError."""
        tools = toolbox([*others, *self.listed()]).values()
        known: Json = {tool.name: {"simulated": source(tool.simulated)} for tool in tools if tool.simulated}
        known |= {tool.name: {"sandbox": source(tool.sandbox)} for tool in tools if tool.sandbox}
        servers = {each.server.label: _load(about.sandbox) for each, about in self._servers if about.sandbox}
        return known | {name: {"sandbox": source(sandbox)} for name, sandbox in servers.items()}

    def listed(self) -> list[Tool]:
        """The functions of the workspace file, as tools. Raises SettingsError."""
        return [_load_tool(each) for each in self._functions]

    def close(self) -> None:
        """Ask the servers to close, without waiting for them."""
        for connection, _ in self._servers:
            connection.close()

    async def aclose(self) -> None:
        """Close the servers and wait for them."""
        await asyncio.gather(*(connection.aclose() for connection, _ in self._servers))


async def _served(connection: Connection, about: ToolSource) -> list[Tool]:
    tools, sandbox = await connection.tools(), _load(about.sandbox)
    return [replace(tool, sandbox=sandbox) for tool in tools] if sandbox else tools


def _load_tool(about: ToolSource) -> Tool:
    """A function as a tool; what the workspace file says of it counts more than what its code says."""
    made = as_tool(_load(about.function))
    twin, sandbox = _load(about.simulated), _load(about.sandbox)
    if twin or sandbox:
        made = replace(made, simulated=as_tool(twin).function if twin else None, sandbox=sandbox)
    return replace(made, effect=about.effect) if about.effect else made


async def tool_names(sources: Sequence[ToolSource], folder: Path) -> list[str]:
    """The names of the tools that a workspace file lists. Raises as `ToolSources.load` does."""
    loaded = ToolSources(sources, folder)
    try:
        return list(await loaded.load([]))
    finally:
        await loaded.aclose()


def _load(path: str | None) -> Any:
    """The function of a path; None where there is none."""
    if path is None:
        return None
    function = load(path, "tools", expected="module:function")
    if not (callable(function) or hasattr(function, "use") or hasattr(function, "ainvoke")):
        raise SettingsError([Problem("tools", f"{path}, {shown(function)}", "a function or a tool")])
    return function
