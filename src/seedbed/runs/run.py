"""Run and Turn: what happened in one performance of a playbook."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from seedbed.storage.store import Digest, Json

Status = Literal["completed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One contribution: who was asked what by which step, and what came back at what price."""

    step: str
    role: str
    model: str
    messages: tuple[tuple[str, str], ...]
    text: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_seconds: float
    finish_reason: str
    seed: int

    def body(self) -> Json:
        return {**asdict(self), "messages": [list(message) for message in self.messages]}

    @classmethod
    def from_body(cls, body: Json) -> Turn:
        return cls(**{**body, "messages": tuple((speaker, text) for speaker, text in body["messages"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One performance: what went in, every turn, what came out, or why nothing did."""

    id: str
    playbook: Digest
    inputs: Json
    seed: int
    started: datetime
    status: Status
    output: Any
    error: str
    turns: tuple[Turn, ...]
    latency_seconds: float
    models: Json
    """What each model name stood for: its class, arguments, price and runtime."""

    @property
    def cost_usd(self) -> float:
        return sum(turn.cost_usd for turn in self.turns)

    @property
    def tokens(self) -> int:
        return sum(turn.prompt_tokens + turn.completion_tokens for turn in self.turns)
