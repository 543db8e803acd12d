"""Replays on a stage: the cassette of a recorded run, and a stage that asks nobody."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from seedbed.errors import NotFound, RunError
from seedbed.models.cards import Model
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Cassette
from seedbed.stage.model_choice import requirements_of
from seedbed.stage.stage import parameters
from seedbed.stage.tools import Tool
from seedbed.storage.store import Json


def cassette_of(library: Library, run: str) -> Cassette:
    """What a recorded run was told, and how its playbook asked for it. Raises NotFound."""

    @cache
    def playbook() -> Playbook | None:
        with suppress(NotFound):
            return library.get(cassette.playbook)
        return None

    def how(step: str, role: str) -> Json:
        then = playbook()
        if then is None or role not in then.roles:
            return {}
        asked = then.roles[role]
        return parameters(
            asked, requirements_of(asked, next((each for each in then.all_steps() if each.name == step), step))
        )

    cassette = Cassette.load(library.store, run, how)
    return cassette


class ReplayTools(dict[str, Tool]):
    """The tools of a strict replay: those that are at hand, and those of the recording, wherever they are now.

    With `servers` in the workspace file, which are not started to ask them what they offer, there may be any.
    """

    def __init__(self, known: Mapping[str, Tool], cassette: Cassette, *, servers: bool) -> None:
        used = {name: Tool(name, nobody, changes=name in cassette.changing) for name in cassette.tools}
        super().__init__({**used, **known})
        self._servers = servers

    def __bool__(self) -> bool:
        return self._servers or len(self) > 0

    def __contains__(self, name: object) -> bool:
        return self._servers or super().__contains__(name)

    def __missing__(self, name: str) -> Tool:
        return Tool(name, nobody, changes=True)


def nobody(name: str = "", **_: object) -> Model:
    """Stands where a model or a tool would be asked."""
    raise RunError(f"found {name or 'a tool'} asked in a strict replay; expected its recording to answer")
