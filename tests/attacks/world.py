"""A world in which somebody wants a false winner released: two agents whose answers are known for every task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from seedbed import Dataset, Playbook, Task, Workspace
from seedbed.errors import ReleaseRefused
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Store

GATES = ("better", "held_out", "rules_kept", "content")


def agent(model: str, **more: Any) -> Playbook:
    role = {"model": model, "system": f"You are the {model} one."}
    step = {"name": "answer", "role": "clerk", "prompt": "{text}"}
    return Playbook.from_document({"roles": {"clerk": role}, "steps": [step], **more})


OLD, NEW = agent("old"), agent("new")


def question(number: int) -> str:
    return f"Should the request numbered {number} of the customer in row {number * 7919 % 10007} be granted?"


def tasks(numbers: Iterable[int], reword: Callable[[str], str] = str, *, prefix: str = "t", **more: Any) -> Dataset:
    return Dataset(tuple(Task(f"{prefix}{n}", {"text": reword(question(n)), **more}, "yes") for n in numbers))


def joined(*datasets: Dataset) -> Dataset:
    return Dataset(tuple(task for each in datasets for task in each))


def says_yes(numbers: Collection[int], yes: str = "yes") -> dict[str, Any]:
    names = "|".join(map(str, sorted(numbers))) or "none"
    return {"use": "scripted", "args": {"replies": {rf"(?i)numbered ({names}) of": yes, "": f"not {yes}"}}}


def world(
    old: Collection[int] = (),
    new: Collection[int] = (),
    *,
    yes: str = "yes",
    store: Store | None = None,
    require: Any = GATES,
) -> Workspace:
    """A workspace whose production serves OLD. `old` and `new` are the tasks that each answers correctly, NEW by
    saying `yes`."""
    settings = Settings(
        by="eve",
        models={"old": says_yes(old), "new": says_yes(new, yes)},
        channels={"production": {"require": list(require)}, "scratch": {"require": ["error_budget"]}},
    )
    return Workspace(settings, store or MemoryStore())


async def serve_old(space: Workspace) -> Workspace:
    await space.release(OLD, to="production", because="the first one")
    return space


async def is_released(space: Workspace, candidate: Playbook = NEW, because: Any = None) -> bool:
    """Whether an attempt to release the candidate succeeds."""
    try:
        await space.release(candidate, to="production", because=because)
    except ReleaseRefused:
        return False
    return True
