"""Attacks by leaks: secrets in what people, models and tools write, and files that others can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import seedbed
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.stage.tools import tool
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store, Upkeep, canonical
from seedbed.workspace import Workspace

SECRET = "sk-proj-" + "a1B2c3D4e5F6" * 3
SCRIPTED = {"one": {"use": "scripted", "args": {"replies": {".": f"it is {SECRET}"}}}}
PLAN = Playbook.from_document(
    {
        "inputs": ["q"],
        "roles": {"a": {"model": "one"}},
        "steps": [{"name": "s", "role": "a", "prompt": "{q}"}],
        "rules": {"allow": ["pay"]},
    }
)


def stored(store: Store) -> str:
    """Everything that a store says in its facts and refs."""
    assert isinstance(store, Upkeep)
    facts = [fact for kind in store.kinds() for fact in store.facts(Query(kind=kind))]
    return canonical([[each.key, each.body, list(each.tags)] for each in facts]) + str(store.refs())


@tool(effect="changes")
def pay(to: str) -> str:
    return f"paid with {SECRET}"


async def agent(task: Any, stage: Any) -> str:
    await stage.call("pay", to=f"bob, who has {SECRET}")
    await stage.log(f"it was {SECRET}")
    return str((await stage.ask("a", f"what is {SECRET}?")).text)


async def test_no_secret_gets_into_a_fact_by_any_door() -> None:
    store = MemoryStore()
    settings = Settings.model_validate({"models": SCRIPTED, "channels": {"production": {"require": []}}})
    space = Workspace(settings, store)
    space.tools = [pay]
    run = await space.run(PLAN, program=agent, q=f"mine is {SECRET}")
    space.feedback(run, 1.0, f"use {SECRET}", metric=SECRET)
    await space.release(PLAN, to="production", because=f"with {SECRET}")
    space.channels.freeze("production", because=f"lost {SECRET}")
    space.playbooks.tag(PLAN.digest, SECRET)
    space.playbooks.name("mine", PLAN.digest, because=f"as {SECRET} says")
    space.playbooks.archive("mine", because=f"no more {SECRET}")
    space.stop(because=f"{SECRET} was stolen")
    space.stop(lift=True, because=f"{SECRET} is changed")
    tasks = seedbed.Dataset([seedbed.Task("t", {"q": "?"}, "yes")])
    await space.evaluate(PLAN, tasks, metric="regex(pattern='it is (.*)')")
    assert SECRET not in stored(store)
    for form in ("md", "html", "json"):
        assert SECRET not in str(space.runs.get(run.id).export(form))


async def test_no_secret_of_a_tools_description_is_stored_or_told_to_a_model() -> None:
    async def look(at: str = f"of {SECRET}") -> str:
        return "seen"

    look.__doc__ = f"Looks with {SECRET}."
    store = MemoryStore()
    role = {"model": "one", "tools": ["look"]}
    desk = Playbook.from_document({"roles": {"a": role}, "steps": [{"name": "s", "role": "a", "prompt": "{q}"}]})
    run = await Workspace(Settings(models=SCRIPTED), store, tools=[tool(look, effect="reads")]).run(desk, q="?")
    assert "[secret]" in str(store.get(run.turns[0].toolset))
    assert SECRET not in str(store.get(run.turns[0].toolset))


@pytest.mark.parametrize("scheme", ["files", "sqlite"])
async def test_every_file_of_a_store_is_its_owners_alone(scheme: str, tmp_path: Path) -> None:
    url = f"files:{tmp_path / 'store'}" if scheme == "files" else f"sqlite:///{tmp_path / 'seedbed.db'}"
    space = Workspace(Settings.model_validate({"models": SCRIPTED}), open_store(url))
    run = await space.run(PLAN, q="?")
    run.export(tmp_path / "run.md")
    readable = [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_mode & 0o077]
    assert readable == []
    space.close()
