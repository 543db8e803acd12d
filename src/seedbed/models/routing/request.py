"""Routing requests and choices, apart from the router, which takes a while to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

QualityLevel: TypeAlias = Literal["balanced", "maximum"]
"""Whether quality is weighed against cost and latency, or is all that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRequest:
    """One call that needs a model.

    The model must do all that the call `needs`, hold prompt and reply in its context, and be payable from `affordable`,
    which is left of a budget, and from `max_cost_usd`: for the whole reply or, if no model is, at least for a short
    one. `most_prompt_tokens` is what the caller reserves for the prompt, if that is more than the estimate
    `prompt_tokens`. `prefer` is chosen whenever it fits.
    """

    task_type: str
    needs: Sequence[str] = ()
    prefer: str | None = None
    prompt_tokens: int
    max_tokens: int
    most_prompt_tokens: int | None = None
    affordable: float | None = None
    quality: QualityLevel = "balanced"
    max_cost_usd: float | None = None
    seed: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """A model that the router looked at: why it was rejected, or how good it is expected to be.

    `score` is the expected quality minus the penalties for cost and latency; `chance` is how likely it was to be
    chosen.
    """

    model: str
    rejected: str = ""
    expected: float | None = None
    score: float | None = None
    cost_usd: float | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The chosen model, its chance, the models considered, and why. The router did not decide `preferred` choices."""

    model: str
    propensity: float
    considered: tuple[Considered, ...]
    because: str
    task_type: str
    quality: QualityLevel
    preferred: bool = False

    def document(self) -> dict[str, Any]:
        """The choice as JSON: the body of a fact of kind "routing"."""
        return {**asdict(self), "considered": [asdict(each) for each in self.considered]}
