"""The source of metrics: what a function does, in a digest that stays the same while its scores must."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from seedbed.errors import StoreError
from seedbed.plugins import sources, top_folder
from seedbed.storage.store import canonical, digest


def source_of(function: Callable[..., Any], above: tuple[Callable[..., Any], ...] = ()) -> str:
    """A digest of what a function does: its source without comments and layout, and what that refers to."""
    try:
        if function.__name__ == "<lambda>":  # its source would be whole lines, with everything else on them
            raise OSError
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except OSError:  # typed in, or run from a command line
        text = _compiled(function.__code__)
    outside = inspect.getclosurevars(function)
    used: dict[str, Any] = {}
    for name, value in {**outside.globals, **outside.nonlocals, **_used_inside(function)}.items():
        value = getattr(value, "function", value)  # what a decorator wrapped
        if inspect.isfunction(value) and value.__module__ == function.__module__:
            used[name] = "" if value in (*above, function) else source_of(value, (*above, function))
        else:
            used[name] = _modules(value, function) or _constant(value)
    return digest("source", [text, used])


def _used_inside(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals that functions and generators within a function use."""
    names, pending = set[str](), [each for each in function.__code__.co_consts if inspect.iscode(each)]
    while pending:
        code = pending.pop()
        names |= {*code.co_names}
        pending += filter(inspect.iscode, code.co_consts)
    return {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}


def _modules(value: Any, function: Callable[..., Any]) -> str:
    """A digest of the module of a value and of those it imports, if it is one of yours beside the function's: a module
    itself, or something that a class or another module defines. Empty if not."""
    module = value if inspect.ismodule(value) else None
    if module is None:
        kind = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
        module = sys.modules.get(kind.__module__)
    folder = top_folder(module)
    if not folder or folder != top_folder(sys.modules.get(function.__module__)):
        return ""
    return digest("source", sources([module]))


def _constant(value: object) -> str:
    """The text of a constant; empty for values without a text that is the same in every process."""
    if isinstance(value, re.Pattern):
        value = [str(value.pattern), value.flags]
    elif isinstance(value, set | frozenset):
        value = sorted(map(repr, value))
    try:
        return canonical(value)
    except StoreError:
        return ""


def _compiled(code: Any) -> str:
    constants = [
        _compiled(each) if inspect.iscode(each) else repr(sorted(each, key=repr) if type(each) is frozenset else each)
        for each in code.co_consts
    ]
    return repr([code.co_code.hex(), code.co_names, code.co_varnames, constants])
