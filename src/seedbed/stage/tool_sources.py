"""Equipment: the tools that the workspace file gives to programs, ready when they are first needed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.settings import ToolSource
from seedbed.stage.mcp import Connection


class ToolSources:
    """Functions by their path, and whatever the MCP servers offer."""

    def __init__(self, sources: Sequence[ToolSource], folder: Path = Path()) -> None:
        self._functions = [source.function for source in sources if source.function]
        self._connections = [Connection(source.mcp, folder) for source in sources if source.mcp]

    async def ready(self) -> list[Any]:
        """All tools; servers that are not there yet are started, all at once.

        Raises SettingsError for a function that cannot be imported, RunError for a server that does not answer.
        """
        functions = [_imported(path) for path in self._functions]
        offered = await asyncio.gather(*(connection.tools() for connection in self._connections))
        return [*functions, *(tool for tools in offered for tool in tools)]

    def close(self) -> None:
        """Have the servers closed soon."""
        for connection in self._connections:
            connection.close()

    async def closed(self) -> None:
        """Close the servers and wait for it."""
        await asyncio.gather(*(connection.closed() for connection in self._connections))


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as wrong:
        found = f"{path} ({type(wrong).__name__}: {wrong})"
        raise SettingsError([Problem("tools", found, "module:function", "Is its folder on PYTHONPATH?")]) from wrong
    if not (callable(function) or hasattr(function, "use") or hasattr(function, "ainvoke")):
        raise SettingsError([Problem("tools", f"{path}, {shown(function)}", "a function or a tool")])
    return function
