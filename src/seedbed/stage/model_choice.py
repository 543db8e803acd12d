"""Which model a turn is asked of: the one that was named, or one that is chosen and can be paid."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from seedbed.errors import BudgetSpent, Problem, SettingsError
from seedbed.models.calling.fallback import estimated_tokens
from seedbed.models.chat import Message, Model
from seedbed.playbooks.playbook import Role, Step
from seedbed.spending.ledger import USUAL_TOKENS, Ledger, most_tokens

if TYPE_CHECKING:
    from seedbed.models.routing.router import ModelChoice, Router


@dataclass(frozen=True, slots=True)
class ModelRequirements:
    """Which model a turn asks for: by name, or by what it needs and prefers."""

    model: str | None
    needs: Sequence[str]
    prefer: str | None
    quality: Literal["balanced", "maximum"]
    max_tokens: int | None
    max_cost_usd: float | None


def requirements_of(role: Role, step: Step | str) -> ModelRequirements:
    """What a step asks for goes before what its role does."""
    if isinstance(step, str) or not (step.needs or step.prefer or step.quality):
        limit = None if isinstance(step, str) else step.max_cost_usd
        return ModelRequirements(role.model, role.needs, role.prefer, "balanced", role.max_tokens, limit)
    # The role's own model goes first where it can do what the step needs, unless the best one is asked for.
    prefer = step.prefer or (None if step.quality else role.model or role.prefer)
    needs, quality = step.needs or role.needs, step.quality or "balanced"
    return ModelRequirements(None, needs, prefer, quality, role.max_tokens, step.max_cost_usd)


async def choose_model(
    router: Router,
    ledger: Ledger,
    requirements: ModelRequirements,
    place: str,
    messages: Sequence[Message],
    *,
    last: bool,
    seed: str,
) -> ModelChoice:
    """The router's choice for a turn. If there is none for what is left now, wait for what calls under way leave."""

    def choice(*, held: bool) -> ModelChoice:
        return router.choose(
            "+".join(sorted(requirements.needs)) or place,
            requirements.needs,
            requirements.prefer,
            prompt_tokens=estimated_tokens(*(message.text for message in messages)),
            most_prompt_tokens=most_prompt_tokens(messages),
            max_tokens=requirements.max_tokens or USUAL_TOKENS,
            affordable=ledger.left_usd(last=last, held=held) if ledger.needs_prices else None,
            quality=requirements.quality,
            max_cost_usd=requirements.max_cost_usd,
            seed=seed,
        )

    while True:
        with suppress(BudgetSpent):
            return choice(held=False)
        try:
            choice(held=True)
        except BudgetSpent:
            ledger.refuse()
            raise
        await ledger.settled()


def most_prompt_tokens(messages: Sequence[Message]) -> int:
    return sum(most_tokens(message.text) for message in messages)


def price(model: Model, prompt_tokens: int, ledger: Ledger) -> tuple[float, float]:
    """US dollars for a million tokens read and written. Raises SettingsError if a limit needs one that nobody knows."""
    known = model.price(prompt_tokens)
    if known is None and ledger.needs_prices:
        found = "a limit on costs and no price"
        remedy = "Set usd_per_million on its card, or install the extra prices."
        raise SettingsError([Problem(f"models.{model.name}.usd_per_million", found, "two prices", remedy)])
    return known or (0.0, 0.0)
