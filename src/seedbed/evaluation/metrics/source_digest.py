"""What a function does, as a digest: so that whatever it gave is known again until somebody changes it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from seedbed.errors import StoreError
from seedbed.storage.store import canonical, digest


def source_of(function: Callable[..., Any], above: tuple[Callable[..., Any], ...] = ()) -> str:
    """A digest of what a function does: its source without comments and layout, and what that refers to."""
    try:
        if function.__name__ == "<lambda>":  # of which the source gives whole lines, with all that is on them
            raise OSError
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except OSError:  # typed in, or run from a command line
        text = _compiled(function.__code__)
    outside = inspect.getclosurevars(function)
    used: dict[str, Any] = {}
    for name, value in {**outside.globals, **outside.nonlocals}.items():
        value = getattr(value, "function", value)  # what a decorator wrapped
        if inspect.isfunction(value) and value.__module__ == function.__module__:
            used[name] = "" if value in (*above, function) else source_of(value, (*above, function))
        else:
            used[name] = _constant(value)
    return digest("source", [text, used])


def _constant(value: object) -> str:
    """The text of a constant; of what has none that is the same in every process, nothing."""
    if isinstance(value, re.Pattern):
        value = [str(value.pattern), value.flags]
    elif isinstance(value, set | frozenset):
        value = sorted(map(repr, value))
    try:
        return canonical(value)
    except StoreError:
        return ""


def _compiled(code: Any) -> str:
    kept = [
        _compiled(each) if inspect.iscode(each) else repr(sorted(each, key=repr) if type(each) is frozenset else each)
        for each in code.co_consts
    ]
    return repr([code.co_code.hex(), code.co_names, code.co_varnames, kept])
