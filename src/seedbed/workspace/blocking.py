"""The workspace for code without await: every method of the async one, generated from it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from functools import wraps
from typing import Any

from seedbed.errors import Problem, SeedbedError
from seedbed.workspace.opening import open_workspace
from seedbed.workspace.workspace import Workspace, closed


class Blocking:
    """A workspace, or a part of one, whose methods return results instead of coroutines."""

    def __init__(self, inner: Any, runner: asyncio.Runner) -> None:
        self._inner = inner
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if inspect.ismethod(value):
            return self._blocking(value)
        return Blocking(value, self._runner) if type(value).__module__.startswith("seedbed.workspace.") else value

    # Python looks these up on the class, so __getattr__ does not see them.

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, name: str) -> Any:
        return self._inner[name]

    def __contains__(self, name: object) -> bool:
        return name in self._inner

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return dir(self._inner)

    def __repr__(self) -> str:
        return f"Blocking({self._inner!r})"

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        with self._runner:
            self._runner.run(self._inner.__aexit__(None, None, None))

    def _blocking(self, method: Any) -> Any:
        @wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            self._expect_open()
            result = method(*arguments, **options)
            if inspect.iscoroutine(result):
                return self._runner.run(result)
            if isinstance(result, Workspace):
                return Blocking(result, self._runner)
            return self._entered(result) if isinstance(result, AbstractAsyncContextManager) else result

        return call

    def _expect_open(self) -> None:
        try:
            self._runner.get_loop()
        except RuntimeError:
            raise closed() from None

    @contextmanager
    def _entered(self, manager: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        """An async context manager as a plain one; what it gives may be awaited in functions that run in it."""
        value = self._runner.run(manager.__aenter__())
        try:
            yield value
        except BaseException as error:
            if not self._runner.run(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._runner.run(manager.__aexit__(None, None, None))


@wraps(open_workspace, assigned=())
def open_blocking(*arguments: Any, **options: Any) -> AbstractContextManager[Any]:
    """Open a workspace for scripts without await: use it in `with`. See `seedbed.open` for the arguments."""
    with suppress(RuntimeError):  # there is none, as it should be
        asyncio.get_running_loop()
        remedy = "Write: async with seedbed.open() as space, and await."
        raise SeedbedError(Problem("open_blocking", "a running event loop", "code without await", remedy))
    return Blocking(open_workspace(*arguments, **options), asyncio.Runner())
