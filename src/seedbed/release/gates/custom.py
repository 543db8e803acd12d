"""Gates of your own: named `module:name`, or offered by an installed package as an entry point."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from seedbed.errors import Problem, shown
from seedbed.release.gates.gate import Change, Gate, Refusal

GROUP = "seedbed.gates"
"""The entry points by which a package offers gates: async functions `(change, **options)`, or classes of them."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A gate of somebody else. Whatever goes wrong in it is a refusal: it cannot pass a candidate by mistake."""

    name: str
    options: Mapping[str, Any] = field(hash=False)
    gate: Gate = field(compare=False, repr=False)

    async def __call__(self, change: Change) -> Refusal | None:
        try:
            answer: object = await self.gate(change)
        except Exception as wrong:  # noqa: BLE001  whatever it is, the candidate does not pass
            found = f"{type(wrong).__name__}: {wrong}"
            return Refusal(self.name, found, "an answer", "Repair the gate, or ask who offers it.")
        if answer is None or isinstance(answer, Problem):
            return answer
        remedy = "Repair the gate: it passes with None."
        return Refusal(self.name, f"the answer {shown(answer)}", "None or a refusal", remedy)


def custom(place: str, name: str, options: object) -> Custom | Problem | None:
    """The gate of that name with its options, or what is wrong with it; None if nobody offers one."""
    offered = _offered()
    if name not in offered and ":" not in name:
        return None
    if not isinstance(options, Mapping | None) or not all(isinstance(key, str) for key in options or ()):
        return Problem(f"{place}.{name}", shown(options), "its options, such as {limit: 80}")
    given = dict(options or {})
    try:
        made = offered[name].load() if name in offered else _imported(name)
    except (ImportError, AttributeError, ValueError) as wrong:
        return Problem(place, f"{shown(name)}: {wrong}", "a module and a gate in it")
    try:
        if inspect.isclass(made):
            gate: Any = made(**given)
        else:
            inspect.signature(made).bind(None, **given)
            gate = partial(made, **given) if given else made
    except (TypeError, ValueError) as wrong:
        return Problem(f"{place}.{name}", str(wrong), "options that it has")
    called = made if inspect.isfunction(made) else (made if inspect.isclass(made) else type(made)).__call__
    if not inspect.iscoroutinefunction(called):
        return Problem(place, shown(name), "a gate: async, called with the change")
    return Custom(name, given, gate)


def names() -> list[str]:
    """The gates that installed packages offer."""
    return sorted(_offered())


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


__all__ = ["GROUP", "Custom", "custom", "names"]
