"""Tool: a typed function that a program may call; it reads the world or changes it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError, validate_call

from seedbed.errors import PlaybookError, Problem, RunError, expect_function, shown

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with a name. One that `changes` the world needs permission and never runs in a replay."""

    name: str
    function: Callable[..., Any]
    changes: bool = False
    about: str = ""
    timeout_seconds: float | None = TIMEOUT_SECONDS
    """None leaves the limit to the function."""

    async def use(self, arguments: dict[str, Any]) -> Any:
        """The function's result. Raises RunError if the arguments do not fit, if it fails, or if it takes too long."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                if inspect.iscoroutinefunction(inspect.unwrap(self.function)):
                    return await self.function(**arguments)
                return await asyncio.to_thread(self.function, **arguments)
        except TimeoutError:
            limit = "its own limit" if self.timeout_seconds is None else f"at most {self.timeout_seconds:g} seconds"
            raise RunError(f"tool {self.name}: found no answer in time; expected one within {limit}") from None
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise RunError(f"tool {self.name}: found arguments that do not fit: {problems}") from None
        except RunError:
            raise
        except Exception as error:
            raise RunError(f"tool {self.name} failed: {type(error).__name__}: {shown(str(error), 300)}") from error


def tool(
    function: Callable[..., Any] | None = None,
    *,
    changes: bool = False,
    name: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Any:
    """Make a tool of a typed function, as a decorator with or without arguments."""

    def make(function: Callable[..., Any]) -> Tool:
        expect_function(function, "tool", name)
        about = inspect.getdoc(function) or ""
        return Tool(name or function.__name__, validate_call(function), changes, about, timeout_seconds)

    return make if function is None else make(function)


def toolbox(tools: Iterable[Any]) -> dict[str, Tool]:
    """Tools by name: ours, plain functions, which only read, and LangChain tools, which say so in their metadata."""
    box: dict[str, Tool] = {}
    for each in tools:
        made = each if isinstance(each, Tool) else _langchain(each) if hasattr(each, "ainvoke") else tool(each)
        if made.name in box:
            raise PlaybookError([Problem("tools", f"two tools named {made.name}", "names that differ")])
        box[made.name] = made
    return box


def _langchain(original: Any) -> Tool:
    async def use(**arguments: Any) -> Any:
        return await original.ainvoke(arguments)

    changes = bool((original.metadata or {}).get("changes"))
    return Tool(original.name, use, changes, original.description)
