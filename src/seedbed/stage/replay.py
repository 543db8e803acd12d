"""Replays on a stage: the cassette of a recorded run, and models and tools that must not be asked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from seedbed.errors import NotFound, RunError
from seedbed.models.cards import Model
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Cassette
from seedbed.runs.recorder import Recorder
from seedbed.runs.replay_record import ReplayRecord
from seedbed.stage.tools import Tool
from seedbed.stage.turns.model_choice import ModelRequirements, request_parameters
from seedbed.storage.store import Json


def load_cassette(library: Library, run: str) -> Cassette:
    """The answers of a recorded run, and how its playbook asked for them. Raises NotFound."""

    @cache
    def playbook() -> Playbook | None:
        with suppress(NotFound):
            return library.get(cassette.playbook)
        return None

    def parameters(step: str, role: str) -> Json:
        recorded = playbook()
        if recorded is None or role not in recorded.roles:
            return {}
        speaker = recorded.roles[role]
        named = next((each for each in recorded.all_steps() if each.name == step), step)
        return request_parameters(speaker, ModelRequirements.of(speaker, named))

    cassette = Cassette.load(library.store, run, parameters)
    return cassette


class ReplayTools(dict[str, Tool]):
    """The tools of a strict replay: those of the workspace, and those of the recording, as models were told of them.

    With MCP `servers` in the workspace file any name may be a tool: they are not started to ask them.
    """

    def __init__(self, known: Mapping[str, Tool], cassette: Cassette, *, servers: bool) -> None:
        recorded = {
            name: Tool(name, refuse, "changes" if name in cassette.changing else "reads") for name in cassette.tools
        }
        super().__init__({**recorded, **known})
        for name, described in cassette.toolset.items():
            tool = self[name] if name in known else Tool(name, refuse, "changes" if described["changes"] else "reads")
            self[name] = replace(tool, about=described["about"], schema=described["parameters"])
        self._servers = servers

    def __bool__(self) -> bool:
        return self._servers or len(self) > 0

    def __contains__(self, name: object) -> bool:
        return self._servers or super().__contains__(name)

    def __missing__(self, name: str) -> Tool:
        return Tool(name, refuse)


def strict_record(recorder: Recorder) -> ReplayRecord | None:
    """The record itself if it is of a strict replay, which asks no model and no tool."""
    return recorder if isinstance(recorder, ReplayRecord) and recorder.mode.name == "strict" else None


def refuse(name: str = "", **_: object) -> Model:
    """Takes the place of the models and tools of a strict replay, which nothing may call."""
    raise RunError(f"found {name or 'a tool'} asked in a strict replay; expected its recording to answer")
