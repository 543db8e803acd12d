"""Tools: functions of the user's own and MCP servers, under `tools` in the workspace file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from seedbed.errors import Problem, shown
from seedbed.plugins import offered, unknown
from seedbed.settings.secrets import A_REFERENCE
from seedbed.settings.section import Expected, Section, refusal, require
from seedbed.settings.values import SecretReference

GROUP = "seedbed.tools"
"""The entry points by which a package offers tools: functions, LangChain tools, or `Tool`."""

ImportPath = Annotated[
    str,
    AfterValidator(require(lambda path: re.fullmatch(r"[\w.]+:\w+", path))),
    Expected("module:function"),
]


def _find_tool(name: str) -> str:
    """The import path of a tool, which may be known by the name of an entry point."""
    if ":" in name:
        return name
    offers = offered(GROUP)
    if name not in offers:
        raise refusal(unknown("", name, offers, "Write module:function, or install the package that offers the tool."))
    return offers[name]


ToolPath = Annotated[
    Annotated[
        str,
        AfterValidator(require(lambda name: re.fullmatch(r"[\w.-]+|[\w.]+:\w+", name))),
        Expected("module:function, or the name of a tool that a package offers"),
    ],
    AfterValidator(_find_tool),
]


class McpServer(Section):
    """A tool server: a program to start, or one that listens at a URL.

    With a `name`, its tools are called name_tool. A tool is assumed to change the world unless the server marks it as
    read-only or `reads` lists it. The server gets only the usual environment variables and those listed in `env`.
    """

    name: str = ""
    command: list[str] = Field(default_factory=list)
    env: list[str] = Field(default_factory=list)
    url: Annotated[
        str,
        AfterValidator(require(lambda url: not url or re.match(r"https?://[^/\s]", url))),
        Expected("a URL such as http://127.0.0.1:8080/mcp"),
    ] = ""
    key: Annotated[str | SecretReference | None, Expected(A_REFERENCE)] = Field(default=None, repr=False)
    reads: list[str] = Field(default_factory=list)
    timeout_seconds: float = Field(default=60.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_place(self) -> McpServer:
        if bool(self.command) == bool(self.url):
            both = f"both {shown(' '.join(self.command))} and {self.url}" if self.url else "neither command nor url"
            raise refusal(Problem("", both, "either a command to start it with or the url it listens at"))
        if (self.key and self.command) or (self.env and self.url):
            wrong = "a key for a command" if self.key and self.command else "env for a url"
            raise refusal(Problem("", wrong, "a key for a url, env for a command"))
        return self

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"MCP server {self.name or self.url or shown(' '.join(self.command))}"


class ToolSource(Section):
    """Where tools come from: a function, written simply as module:function or by the name of a tool that a package
    offers, or an MCP server.

    `effect` says what a function does to the world, if its code does not. Outside live runs `simulated` acts in its
    place, or what `sandbox` makes for each run; a server has only a sandbox.
    """

    short_form: ClassVar[Mapping[str, Any]] = {"type": "string", "pattern": r"^[\w.:-]+$"}

    function: ToolPath | None = None
    mcp: McpServer | None = None
    effect: Literal["reads", "changes", "sends"] | None = None
    simulated: ImportPath | None = None
    sandbox: ImportPath | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if isinstance(value, str):
            return {"function": value}
        if not isinstance(value, dict | ToolSource) or not value:
            raise refusal(Problem("", shown(value), "module:function, or mcp with a server"))
        return value

    @model_validator(mode="after")
    def _check_one(self) -> ToolSource:
        if bool(self.function) == bool(self.mcp):
            actual = "both function and mcp" if self.mcp else "neither function nor mcp"
            raise refusal(Problem("", actual, "one of them"))
        if self.mcp and (self.effect or self.simulated):
            actual = "effect for a server" if self.effect else "simulated for a server"
            remedy = "List the tools that only read under reads of the server; give it a sandbox."
            raise refusal(Problem("", actual, "one for a function", remedy))
        if self.simulated and self.sandbox:
            raise refusal(Problem("", "both simulated and sandbox", "one of them"))
        return self
