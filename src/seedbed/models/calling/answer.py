"""Answered: what came of a question that models were asked, and the way to it."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import Why
from seedbed.models.chat import Reply

__all__ = ["Attempt", "Discard", "Fallback", "ModelAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A try that failed, or was `beaten` by a second one that answered sooner.

    `cost_usd` and `tokens` are what it may have taken at most: a provider may charge for what we never got.
    """

    model: str
    why: Why
    told: str
    seconds: float
    cost_usd: float
    tokens: int = 0
    beaten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One model asked in place of another, and why; as text it is a sentence for the user."""

    asked: str
    used: str
    because: str

    def __str__(self) -> str:
        return f"{self.used} was asked instead of {self.asked}: {self.because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """An answer and the way to it.

    `waited_seconds` were spent on rate limits, pauses and rests, apart from the model's own time.
    """

    reply: Reply
    substitutions: tuple[Fallback, ...] = ()
    waited_seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()

    @property
    def uncounted_tokens(self) -> int:
        """The most tokens that may have been used beside those that were reported."""
        return self.reply.uncounted_tokens + sum(attempt.tokens for attempt in self.attempts)

    @property
    def cost_usd(self) -> float:
        """What the answer and the other tries cost together."""
        return self.reply.cost_usd + sum(attempt.cost_usd for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class Discard:
    """All pieces of a stream so far are void; the answer begins anew."""

    because: str
