"""Stage options: what a stage works with, beside its playbook, its models and its record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from seedbed.models.calling.limits import ModelLimits
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run, RunEvent
from seedbed.spending.ledger import Ledger
from seedbed.stage.confirmation import Confirm, Person
from seedbed.stage.tools import Tool
from seedbed.stage.turns.model_choice import Spender
from seedbed.storage.store import Digest, Json

if TYPE_CHECKING:
    from seedbed.models.routing.router import Router

OpenRun = Callable[[Any, str, Digest | None, Json], Awaitable[Run]]
"""Performs a run that a stage opens: its id, its playbook if it is not the same, and its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """What a stage works with. By default there is no budget, no tool and no one to ask.

    `router` chooses the models of roles that name none. `on_event` receives each piece of an answer as it arrives.
    `depth` counts the runs above this one; `above` are their playbooks, whose rules hold here too, `taken` their acts.
    `spender` says how requests are paid for; `on_start` is called when the start of the run is stored, and may refuse
    it. A run fails that takes longer than `run_time`.
    """

    limits: ModelLimits | None = None
    router: Callable[[], Router] | None = None
    ledger: Ledger | None = None
    tools: Mapping[str, Tool] | None = None
    confirm: Confirm | Person | None = None
    on_event: Callable[[RunEvent], None] | None = None
    open_run: OpenRun | None = None
    depth: int = 0
    above: Sequence[Playbook] = ()
    taken: list[tuple[str, Json]] | None = None
    spender: Spender = field(default_factory=Spender)
    on_start: Callable[[], Awaitable[None]] | None = None
    run_time: timedelta | None = None
