"""Recorded functions: each call of an async function is a run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from seedbed.errors import Problem, RunError
from seedbed.stage.stage import Stage

T = TypeVar("T")
NAMELESS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def recorded(
    function: Callable[..., Awaitable[T]], recording: Callable[..., AbstractAsyncContextManager[Stage]]
) -> Callable[..., Awaitable[T]]:
    """The function with each call of it in a block of `recording`, which is told its arguments by name.

    A parameter called `stage` is not for the caller: it is given the stage. Raises RunError for a function that is not
    async, or has arguments without names.
    """
    signature = inspect.signature(function)
    given = [parameter for name, parameter in signature.parameters.items() if name != "stage"]
    if not inspect.iscoroutinefunction(function) or any(parameter.kind in NAMELESS for parameter in given):
        found = f"{getattr(function, '__name__', 'something')}{signature}"
        raise RunError(str(Problem("recorded", found, "an async function whose arguments have names")))
    for_callers = signature.replace(parameters=given)
    staged = "stage" in signature.parameters

    @functools.wraps(function)
    async def call(*args: Any, **named: Any) -> T:
        bound = for_callers.bind(*args, **named)
        bound.apply_defaults()
        async with recording(**bound.arguments) as stage:
            output = await function(**bound.arguments, **({"stage": stage} if staged else {}))
            stage.output = output
        return output

    return call
