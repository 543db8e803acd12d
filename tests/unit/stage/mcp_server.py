"""A real MCP server for the tests: `python mcp_server.py stdio`, or `http`, which prints its port first."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("files")
notes = Path("notes.txt")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def names(folder: str) -> list[str]:
    """The names in a folder."""
    return [f"{folder}/a", f"{folder}/b"]


@server.tool(structured_output=False)
def lines() -> list[str]:
    return ["first", "second"]


@server.tool(annotations=READS)
def size(of: str) -> dict[str, int]:
    return {of: len(of)}


@server.tool()
def write(text: str) -> str:
    notes.write_text(text)
    return "written"


@server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))  # it cannot be both
def spoil() -> str:
    raise ToolError("the disk is full")


@server.tool(annotations=READS)
async def wait() -> None:
    notes.write_text("waiting")
    await asyncio.sleep(3600)


@server.tool(annotations=READS)
def quit() -> None:  # noqa: A001
    sys.stderr.write("I have had enough\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool(annotations=READS)
def variable(name: str) -> str:
    return os.environ.get(name, "nothing")


@server.tool(annotations=READS)
def process() -> int:
    return os.getpid()


async def listen() -> None:
    app: Any = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        """Lets in whoever knows the key, if there is one."""
        key = os.environ.get("SHOP_KEY")
        if scope["type"] == "http" and key and dict(scope["headers"]).get(b"authorization") != f"Bearer {key}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you"})
            return
        await app(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as door:
        sys.stdout.write(f"{door.getsockname()[1]}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(guarded, log_level="error")).serve(sockets=[door])


if sys.argv[1:] == ["http"]:
    asyncio.run(listen())
elif sys.argv[1:] == ["stdio"]:
    server.run()
