"""Run start: the conditions of a run, which are known before it does anything."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from seedbed.runs.history import START_FIELDS
from seedbed.storage.store import Digest, Fact, Json, canonical


@dataclass(frozen=True, slots=True)
class RunStart:
    """The conditions of a run, known when it starts. `parent` is the run that opened it, if any. Without `real_tools`,
    simulated tools act in place of those that change the world."""

    playbook: Digest
    inputs: Json
    seed: int
    models: Json
    parent: str = ""
    max_cost_usd: float | None = None
    real_tools: bool = True
    quality: str = ""
    """`maximum` if the best models are wanted."""
    tags: tuple[str, ...] = ()

    def body(self) -> Json:
        body: Json = json_copy({name: getattr(self, name) for name in START_FIELDS})
        body |= {"quality": self.quality} if self.quality else {}
        return body if self.real_tools else {**body, "real_tools": False}


def conditions(start: Fact) -> RunStart:
    """The conditions of a run, from the fact it began with."""
    known = RunStart(start.subject, **{name: start.body[name] for name in START_FIELDS})
    about = start.body.get("real_tools", True), start.body.get("quality", "")
    return replace(known, real_tools=about[0], quality=about[1], tags=start.tags)


def json_copy(value: Any) -> Any:
    """A value as a store returns it: a copy that no program can alter."""
    return json.loads(canonical(value))
