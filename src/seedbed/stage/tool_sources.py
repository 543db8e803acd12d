"""Tool sources: the tools that the workspace file names, loaded when they are first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.plugins import load
from seedbed.settings import ToolSource
from seedbed.stage.mcp import Connection
from seedbed.stage.tools import toolbox


class ToolSources:
    """Functions by their import path, and the tools of MCP servers."""

    def __init__(self, sources: Sequence[ToolSource], folder: Path = Path()) -> None:
        self._functions = [source.function for source in sources if source.function]
        self._connections = [Connection(source.mcp, folder) for source in sources if source.mcp]

    async def load(self) -> list[Any]:
        """All tools; servers that do not run yet are started, all at the same time.

        Raises SettingsError for a function that cannot be imported, RunError for a server that does not answer.
        """
        functions = [_load_function(path) for path in self._functions]
        served = await asyncio.gather(*(connection.tools() for connection in self._connections))
        return [*functions, *(tool for tools in served for tool in tools)]

    def close(self) -> None:
        """Ask the servers to close, without waiting for them."""
        for connection in self._connections:
            connection.close()

    async def aclose(self) -> None:
        """Close the servers and wait for them."""
        await asyncio.gather(*(connection.aclose() for connection in self._connections))


async def tool_names(sources: Sequence[ToolSource], folder: Path) -> list[str]:
    """The names of the tools that a workspace file lists. Raises as `ToolSources.load` does."""
    loaded = ToolSources(sources, folder)
    try:
        return list(toolbox(await loaded.load()))
    finally:
        await loaded.aclose()


def _load_function(path: str) -> Any:
    function = load(path, "tools", expected="module:function")
    if not (callable(function) or hasattr(function, "use") or hasattr(function, "ainvoke")):
        raise SettingsError([Problem("tools", f"{path}, {shown(function)}", "a function or a tool")])
    return function
