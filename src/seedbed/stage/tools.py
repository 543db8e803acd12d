"""Tool: a typed function that a program may call; it reads the world or changes it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError, validate_call

from seedbed.errors import InDoubt, PlaybookError, Problem, RunError, shown

TIMEOUT_SECONDS = 60.0

KEY = "idempotency_key"
"""A parameter that a tool may declare: it receives a key of its own for each call, the same if a run is resumed."""

_CUT_OFF = (TimeoutError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with a name. One that `changes` the world needs permission and never runs in a replay."""

    name: str
    function: Callable[..., Any]
    changes: bool = False
    about: str = ""
    timeout_seconds: float | None = TIMEOUT_SECONDS
    """None leaves the limit to the function."""
    takes_key: bool = False
    """Whether the function has the parameter `idempotency_key`."""

    def with_key(self, arguments: dict[str, Any], key: str) -> dict[str, Any]:
        """The arguments of a call with its idempotency key, if the function takes one. Raises RunError."""
        if not self.takes_key:
            return arguments
        if KEY in arguments:
            raise RunError(f"tool {self.name}: found {KEY} as an argument; expected none: each call is given its own")
        return {**arguments, KEY: key}

    async def use(self, arguments: dict[str, Any]) -> Any:
        """The function's result. Raises RunError if the arguments do not fit, or if it fails; InDoubt if it does not
        answer, be it that it takes too long or that a connection breaks: it may have done its work."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                if inspect.iscoroutinefunction(inspect.unwrap(self.function)):
                    return await self.function(**arguments)
                return await asyncio.to_thread(self.function, **arguments)
        except TimeoutError:
            limit = "its own limit" if self.timeout_seconds is None else f"at most {self.timeout_seconds:g} seconds"
            raise InDoubt(f"tool {self.name}: found no answer in time; expected one within {limit}") from None
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise RunError(f"tool {self.name}: found arguments that do not fit: {problems}") from None
        except RunError:
            raise
        except Exception as error:
            kind = InDoubt if _is_cut_off(error) else RunError
            raise kind(f"tool {self.name} failed: {type(error).__name__}: {shown(str(error), 300)}") from error


def tool(
    function: Callable[..., Any] | None = None,
    *,
    changes: bool = False,
    name: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Any:
    """Make a tool of a typed function, as a decorator with or without arguments."""

    def make(function: Callable[..., Any]) -> Tool:
        about = inspect.getdoc(function) or ""
        takes_key = KEY in inspect.signature(function).parameters
        return Tool(name or function.__name__, validate_call(function), changes, about, timeout_seconds, takes_key)

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
    return Tool(original.name, use, changes, original.description, takes_key=KEY in original.args)


def _is_cut_off(error: Exception) -> bool:
    """Whether an error leaves open if the work was done. HTTP libraries have time-outs of their own."""
    return isinstance(error, _CUT_OFF) or any("Timeout" in kind.__name__ for kind in type(error).__mro__)
