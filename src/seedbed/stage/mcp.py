"""MCP: tools of servers that speak the Model Context Protocol, started as programs or reached over HTTP.

The package `mcp` is imported when a server is first needed: it takes most of a second.
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

from seedbed.errors import InDoubt, Problem, RunError, SeedbedError, SettingsError, shown
from seedbed.plugins import optional
from seedbed.settings import McpServer, reveal
from seedbed.stage.tools import KEY, Effect, Tool

if TYPE_CHECKING:
    import mcp
    import mcp.types

MOST_PAGES = 100
"""How many pages of a list of tools are read; a faulty server could send them without end."""


@asynccontextmanager
async def connected(server: McpServer, folder: Path = Path()) -> AsyncIterator[list[Tool]]:
    """A server's tools; it is started in `folder`, or connected to, while the block lasts."""
    connection = Connection(server, folder)
    try:
        yield await connection.tools()
    finally:
        await connection.aclose()


class Connection:
    """One server, started when its tools are first needed, and again if it has died since.

    It belongs to the event loop it was started on, and is closed with it at the latest.
    """

    def __init__(self, server: McpServer, folder: Path = Path()) -> None:
        self.server = server
        self._folder = folder
        self._session: _McpSession | None = None

    async def tools(self) -> list[Tool]:
        """Raises RunError, which names the server, if it does not answer; SettingsError if its settings are wrong."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.stop.is_set() or self._session.loop is not loop:
            self._session = _McpSession(self.server, self._folder, loop)
        return await asyncio.shield(self._session.ready)

    def close(self) -> None:
        """Ask the server to close, from any thread, without waiting for it."""
        if self._session and not self._session.loop.is_closed():
            self._session.loop.call_soon_threadsafe(self._session.stop.set)

    async def aclose(self) -> None:
        """Close the server and wait for it, if it was started on the running loop."""
        if self._session and self._session.loop is asyncio.get_running_loop():
            self._session.stop.set()
            await asyncio.wait([self._session.task])


class _McpSession:
    """One connection from its start until `stop` is set. `ready` has its tools.

    It has a task of its own, because a context that is entered in one task cannot be left in another.
    """

    def __init__(self, server: McpServer, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.stop = asyncio.Event()
        self.ready: asyncio.Future[list[Tool]] = loop.create_future()
        self._server = server
        self._folder = folder
        self._secrets: list[str] = []
        self._garbage = ""
        self._stderr: IO[str] | None = None
        self.task = loop.create_task(self._run())

    async def _run(self) -> None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as self._stderr:
            try:
                await self._connect()
            except BaseException as error:
                if not self.ready.done():
                    self.ready.set_exception(self._explain(error))
                    self.ready.exception()  # it is read here because the caller may be cancelled
                self.stop.set()
                if not isinstance(error, Exception):
                    raise
            finally:
                self._stderr = None

    async def _connect(self) -> None:
        try:
            package = optional("mcp", extra="mcp", needed_for=self._server.label)
        except SettingsError as missing:
            raise RunError(str(missing)) from None
        for name in ("mcp", "client"):  # its own loggers; without a handler they would print tracebacks
            logging.getLogger(name).addHandler(logging.NullHandler())
        async with AsyncExitStack() as stack:
            transport = await self._transport(stack)
            async with asyncio.timeout(self._server.timeout_seconds) as starting:
                async with package.Client(transport, message_handler=self._note_garbage) as client:
                    tools = await self._tools(client)
                    starting.reschedule(None)
                    self.ready.set_result(tools)
                    await self.stop.wait()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        label = self._server.label
        if self._server.command:
            stdio = optional("mcp.client.stdio", extra="mcp", needed_for=label)
            program, *args = self._server.command
            references = {name: {"env": name} for name in self._server.env}
            env = reveal(references, os.environ, f"{label}: env", self._folder)
            self._secrets = [value for value in env.values() if value]
            parameters = stdio.StdioServerParameters(
                command=program, args=args, env=env, cwd=self._folder, encoding_error_handler="replace"
            )
            return stdio.stdio_client(parameters, errlog=self._stderr)
        http = optional("mcp.client.streamable_http", extra="mcp", needed_for=label)
        httpx2 = optional("httpx2", extra="mcp", needed_for=label)
        key = reveal(self._server.key, os.environ, f"{label}: key", self._folder)
        self._secrets = [key] if key else []
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx2.Timeout(self._server.timeout_seconds)
        client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=timeout))
        return http.streamable_http_client(self._server.url, http_client=client)

    async def _note_garbage(self, message: Any) -> None:
        if isinstance(message, Exception):
            self._garbage = self._garbage or str(message)

    # Tools

    async def _tools(self, client: mcp.Client) -> list[Tool]:
        listed: list[mcp.types.Tool] = []
        cursor = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        names = [tool.name for tool in listed]
        if unknown := [name for name in self._server.reads if name not in names]:
            where = f"{self._server.label}: reads"
            raise SettingsError([Problem(where, shown(name), f"one of: {', '.join(names)}") for name in unknown])
        return [self._tool(client, each) for each in listed]

    def _tool(self, client: mcp.Client, tool: mcp.types.Tool) -> Tool:
        name = f"{self._server.name}_{tool.name}" if self._server.name else tool.name

        async def use(**arguments: Any) -> Any:
            try:
                async with asyncio.timeout(self._server.timeout_seconds):
                    result = await client.call_tool(tool.name, arguments)
            except Exception as error:  # noqa: BLE001 - any failure is the server's
                raise self._explain(error, name) from None
            if result.is_error:
                raise RunError(self._redact(f"tool {name} failed: {shown(_text(result.content), 300)}"))
            return _result(result, tool.output_schema)

        takes_key = KEY in (tool.input_schema.get("properties") or {})
        about = tool.description or ""
        effect, schema = self._effect(tool), tool.input_schema
        return Tool(name, use, effect, about, timeout_seconds=None, takes_key=takes_key, schema=schema)

    def _effect(self, tool: mcp.types.Tool) -> Effect:
        """What the settings say, or else the server; a tool of which nobody says anything changes the world."""
        marks = tool.annotations
        if tool.name in self._server.reads:
            return "reads"
        if not (marks and marks.read_only_hint) or marks.destructive_hint:
            return "changes"
        return "sends" if marks.open_world_hint else "reads"

    # Errors

    def _explain(self, error: BaseException, tool: str = "") -> SeedbedError:
        """An error that a user can act on. After a broken connection, the next run makes a new one."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, SeedbedError):
            return error
        place = f"tool {tool}: {self._server.label}" if tool else self._server.label
        if isinstance(error, TimeoutError):
            expected = f"one within {self._server.timeout_seconds:g} seconds"
            problem = Problem(place, "no answer in time", expected, "Set timeout_seconds to let it take longer.")
        elif isinstance(error, OSError) and self._server.command:
            program = f"{shown(self._server.command[0])}, which cannot be started: {error.strerror or error}"
            problem = Problem(place, program, "a program", "Install it, or correct command.")
        elif _is_closed(error) or self.stop.is_set() or isinstance(error, asyncio.CancelledError):
            remedy = "Start it by hand to see why; the next run connects again."
            problem = Problem(place, "a connection that was closed", "an answer", remedy)
            self.stop.set()
        else:
            remedy = "Is it an MCP server?" if self._server.command else "Is it running, and are url and key right?"
            problem = Problem(place, f"{type(error).__name__}: {shown(str(error), 300)}", "an answer", remedy)
        return (InDoubt if tool else RunError)(self._redact(f"{problem}{self._server_output()}"))

    def _server_output(self) -> str:
        """The end of the server's error stream, and any output that is not a message."""
        text = ""
        if self._stderr:
            self._stderr.seek(0)
            text = self._stderr.read().strip()[-300:]
        output = f" Its error output ends with: {shown(text, 300)}" if text else ""
        if self._garbage:
            output += f" It also wrote something that is not a message: {shown(self._garbage, 200)}"
        return output

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…") if len(secret) > 5 else text  # shorter ones may be ordinary words
        return text


def _is_closed(error: BaseException) -> bool:
    package = optional("mcp", extra="mcp", needed_for="tools")
    return isinstance(error, package.MCPError) and error.code == package.types.CONNECTION_CLOSED


def _result(result: mcp.types.CallToolResult, schema: dict[str, Any] | None) -> Any:
    """The result of a tool: as JSON if the server gives it so, otherwise its text."""
    content = result.structured_content
    if content is None:
        return _text(result.content)
    # Older servers can return objects only, and wrap everything else in one with the key result.
    wrapped = isinstance(content, dict) and schema and list(schema.get("properties") or ()) == ["result"]
    return content.get("result") if wrapped else content


def _text(content: Sequence[mcp.types.ContentBlock]) -> str:
    """The text of a result; other content leaves a mark, so that it does not look empty."""
    return "\n".join(block.text if block.type == "text" else f"[{block.type}]" for block in content)
