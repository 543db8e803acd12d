"""Tools of MCP servers: programs that are started beside ours, or asked over HTTP, by the Model Context Protocol.

Nothing of the package `mcp` is imported before a server is first needed: it takes most of a second.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from seedbed.errors import Problem, RunError, SeedbedError, SettingsError, shown
from seedbed.settings import McpServer, reveal
from seedbed.stage.tools import Tool

if TYPE_CHECKING:
    import mcp
    import mcp.types

MOST_PAGES = 100
"""Of a list of tools: a server that goes on for ever is not believed."""


@asynccontextmanager
async def connected(server: McpServer, folder: Path = Path()) -> AsyncIterator[list[Tool]]:
    """A server's tools; it is started in `folder`, or connected to, for as long as the block lasts.

    Raises RunError that names the server if it cannot be talked to, SettingsError if it is described wrongly.
    """
    connection = Connection(server, folder)
    try:
        yield await connection.tools()
    finally:
        await connection.closed()


class Connection:
    """One server, started when its tools are first asked for, and again if it has died since.

    It lives on the event loop it was started on, and is closed with it at the latest.
    """

    def __init__(self, server: McpServer, folder: Path = Path()) -> None:
        self.server = server
        self._folder = folder
        self._line: _Line | None = None

    async def tools(self) -> list[Tool]:
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.stop.is_set() or self._line.loop is not loop:
            self._line = _Line(self.server, self._folder, loop)
        return await asyncio.shield(self._line.ready)

    def close(self) -> None:
        """Have the server closed soon, from whatever thread."""
        if self._line and not self._line.loop.is_closed():
            self._line.loop.call_soon_threadsafe(self._line.stop.set)

    async def closed(self) -> None:
        """Close the server and wait for it; its own loop is the one to do that on."""
        if self._line and self._line.loop is asyncio.get_running_loop():
            self._line.stop.set()
            await asyncio.wait([self._line.keeper])


class _Line:
    """One connection from its beginning to its end, which `stop` calls for. `ready` tells its tools.

    A task of its own keeps it, because what is entered in one task cannot be left in another.
    """

    def __init__(self, server: McpServer, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stop = asyncio.Event()
        self.ready: asyncio.Future[list[Tool]] = loop.create_future()
        self._server = server
        self._folder = folder
        self._secrets: list[str] = []
        self._garbage = ""
        self._words: IO[str] | None = None
        """What the server writes to its error stream."""
        self.keeper = loop.create_task(self._keep())

    async def _keep(self) -> None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as self._words:
            try:
                await self._talk()
            except BaseException as wrong:
                if not self.ready.done():
                    self.ready.set_exception(self._told(wrong))
                    self.ready.exception()  # whoever waited may have gone
                self.stop.set()
                if not isinstance(wrong, Exception):
                    raise
            finally:
                self._words = None

    async def _talk(self) -> None:
        try:
            import anyio
            from mcp import Client
        except ImportError:
            remedy = "Run: pip install 'seedbed[mcp]'"
            raise RunError(str(Problem(self._server.label, "no package mcp", "that it is installed", remedy))) from None
        for name in ("mcp", "client"):  # its own loggers; with nobody to hear them they would print tracebacks
            logging.getLogger(name).addHandler(logging.NullHandler())
        async with AsyncExitStack() as stack:
            transport = await self._transport(stack)
            with anyio.fail_after(self._server.timeout_seconds) as starting:
                async with Client(transport, message_handler=self._heard) as client:
                    tools = await self._tools(client)
                    starting.deadline = float("inf")
                    self.ready.set_result(tools)
                    await self.stop.wait()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        if self._server.command:
            from mcp.client.stdio import StdioServerParameters, stdio_client

            program, *args = self._server.command
            wanted = {name: {"env": name} for name in self._server.env}
            env = reveal(wanted, os.environ, f"{self._server.label}: env", self._folder)
            self._secrets = [value for value in env.values() if value]
            parameters = StdioServerParameters(
                command=program, args=args, env=env, cwd=self._folder, encoding_error_handler="replace"
            )
            assert self._words is not None
            return stdio_client(parameters, errlog=self._words)  # type: ignore[arg-type]
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        assert self._server.url
        key = reveal(self._server.key, os.environ, f"{self._server.label}: key", self._folder)
        self._secrets = [key] if key else []
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx2.Timeout(self._server.timeout_seconds)
        client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=timeout))
        return streamable_http_client(self._server.url, http_client=client)

    async def _heard(self, message: Any) -> None:
        if isinstance(message, Exception):
            self._garbage = self._garbage or str(message)

    # Tools

    async def _tools(self, client: mcp.Client) -> list[Tool]:
        told: list[mcp.types.Tool] = []
        cursor = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            told += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        names = [tool.name for tool in told]
        if unknown := [name for name in self._server.reads if name not in names]:
            where = f"{self._server.label}: reads"
            raise SettingsError([Problem(where, shown(name), f"one of: {', '.join(names)}") for name in unknown])
        return [self._tool(client, each) for each in told]

    def _tool(self, client: mcp.Client, told: mcp.types.Tool) -> Tool:
        name = f"{self._server.name}_{told.name}" if self._server.name else told.name
        reads = told.name in self._server.reads or bool(told.annotations and told.annotations.read_only_hint)

        async def use(**arguments: Any) -> Any:
            try:
                async with asyncio.timeout(self._server.timeout_seconds):
                    result = await client.call_tool(told.name, arguments)
            except Exception as wrong:  # noqa: BLE001 - whatever it is, it is the server's
                raise self._told(wrong, name) from None
            if result.is_error:
                raise RunError(self._discreet(f"tool {name} failed: {shown(_text(result.content), 300)}"))
            return _result(result, told.output_schema)

        return Tool(name, use, not reads, told.description or "", timeout_seconds=None)

    # What went wrong

    def _told(self, wrong: BaseException, tool: str = "") -> SeedbedError:
        """What a user can do about it. A line that is broken is given up, so that the next run has a new one."""
        while isinstance(wrong, BaseExceptionGroup):
            wrong = wrong.exceptions[0]
        if isinstance(wrong, SeedbedError):
            return wrong
        place = f"tool {tool}: {self._server.label}" if tool else self._server.label
        remedy = ""
        if isinstance(wrong, TimeoutError):
            found = "no answer in time"
            expected = f"one within {self._server.timeout_seconds:g} seconds"
            remedy = "Set timeout_seconds to let it take longer."
        elif isinstance(wrong, OSError) and self._server.command:
            found = f"{shown(self._server.command[0])}, which cannot be started: {wrong.strerror or wrong}"
            expected, remedy = "a program", "Install it, or correct command."
        elif _is_closed(wrong) or self.stop.is_set() or isinstance(wrong, asyncio.CancelledError):
            found, expected = "a connection that was closed", "an answer"
            remedy = "Start it by hand to see why; the next run connects again."
            self.stop.set()
        else:
            found, expected = f"{type(wrong).__name__}: {shown(str(wrong), 300)}", "an answer"
            remedy = "Is it an MCP server?" if self._server.command else "Is it running, and are url and key right?"
        return RunError(self._discreet(f"{Problem(place, found, expected, remedy)}{self._aside()}"))

    def _aside(self) -> str:
        said = ""
        if self._words:
            self._words.seek(0)
            said = self._words.read().strip()[-300:]
        aside = f" Its last words: {shown(said, 300)}" if said else ""
        if self._garbage:
            aside += f" It also said what is no message: {shown(self._garbage, 200)}"
        return aside

    def _discreet(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…") if len(secret) > 5 else text  # shorter ones are words like any other
        return text


def _is_closed(wrong: BaseException) -> bool:
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    return isinstance(wrong, MCPError) and wrong.code == CONNECTION_CLOSED


def _result(result: mcp.types.CallToolResult, schema: dict[str, Any] | None) -> Any:
    """What a tool gave: as JSON if the server tells it so, otherwise its text."""
    if result.structured_content is None:
        return _text(result.content)
    told = result.structured_content
    # Older servers can tell objects only, and put everything else into one called result.
    wrapped = isinstance(told, dict) and schema and list(schema.get("properties") or ()) == ["result"]
    return told.get("result") if wrapped else told


def _text(content: Sequence[mcp.types.ContentBlock]) -> str:
    """The text of an answer; what is none leaves a mark, so that nobody thinks that nothing was there."""
    return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in content)
