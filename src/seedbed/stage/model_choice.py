"""Model choice: the model that answers a turn, named by the playbook or chosen by the router, and what it may cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from seedbed.errors import BudgetSpent, Problem, SettingsError
from seedbed.models.calling.limits import Reserve
from seedbed.models.cards import Model, fallback_chain
from seedbed.models.chat import Message, OutputForm, ToolOffer, prompt_texts
from seedbed.models.prices import REMEDY
from seedbed.models.routing.request import ModelChoice, RoutingRequest
from seedbed.models.usage import estimated_tokens
from seedbed.playbooks.playbook import Playbook, Role, Step
from seedbed.settings import Quota
from seedbed.spending.ledger import USUAL_TOKENS, Ledger, Reservation, most_tokens
from seedbed.storage.store import Json

if TYPE_CHECKING:
    from seedbed.models.routing.router import Router


@dataclass(frozen=True, slots=True)
class ModelRequirements:
    """The model that a turn asks for: by name, or by what it needs and prefers."""

    model: str | None
    needs: Sequence[str]
    prefer: str | None
    quality: Literal["balanced", "maximum"]
    max_tokens: int | None
    max_cost_usd: float | None

    @classmethod
    def of(cls, role: Role, step: Step | str) -> ModelRequirements:
        """The requirements of a step override those of its role."""
        if isinstance(step, str) or not (step.needs or step.prefer or step.quality):
            limit = None if isinstance(step, str) else step.max_cost_usd
            return cls(role.model, role.needs, role.prefer, "balanced", role.max_tokens, limit)
        # The role's own model comes first where it can do what the step needs, unless the step asks for the best one.
        prefer = step.prefer or (None if step.quality else role.model or role.prefer)
        needs, quality = step.needs or role.needs, step.quality or "balanced"
        return cls(None, needs, prefer, quality, role.max_tokens, step.max_cost_usd)


def request_parameters(role: Role, requirements: ModelRequirements) -> Json:
    """How a role is asked beyond its messages: which model, or which abilities, with which settings.

    Replays compare this document with the recorded one.
    """
    open_to = {"needs": list(requirements.needs), "prefer": requirements.prefer, "quality": requirements.quality}
    return {
        "model": requirements.model,
        "wish": None if requirements.model else open_to,
        "temperature": role.temperature,
        "max_tokens": role.max_tokens,
        "stop": list(role.stop),
        "max_cost_usd": requirements.max_cost_usd,
    }


async def choose_model(
    router: Router,
    ledger: Ledger,
    requirements: ModelRequirements,
    step: str,
    texts: Sequence[str],
    *,
    last: bool,
    seed: str,
) -> ModelChoice:
    """The router's choice for a turn that reads those texts. If the money left pays for no model, wait until calls
    under way are settled."""

    def choose(*, held: bool) -> ModelChoice:
        request = RoutingRequest(
            task_type="+".join(sorted(requirements.needs)) or step,
            needs=requirements.needs,
            prefer=requirements.prefer,
            prompt_tokens=estimated_tokens(*texts),
            most_prompt_tokens=_most_prompt_tokens(texts),
            max_tokens=requirements.max_tokens or USUAL_TOKENS,
            affordable=ledger.left_usd(last=last, held=held) if ledger.needs_prices else None,
            quality=requirements.quality,
            max_cost_usd=requirements.max_cost_usd,
            seed=seed,
        )
        return router.choose(request)

    while True:
        with suppress(BudgetSpent):
            return choose(held=False)
        try:
            choose(held=True)
        except BudgetSpent:
            ledger.refuse()
            raise
        await ledger.settled()


@dataclass(frozen=True, slots=True)
class Spender:
    """How requests are paid for: `check` is awaited before each, and raises if none may be sent any more. With
    `any_price` a limit in money lets calls of unknown price through."""

    check: Callable[[], Awaitable[None]] | None = None
    any_price: bool = False

    def reserve_from(self, ledger: Ledger, last: bool, beyond: Sequence[ToolOffer | OutputForm] = ()) -> Reserve:
        """A Reserve that reserves the cost of a request, and what is `beyond` its messages, from a ledger; only the
        `last` turn may spend all of it."""

        @asynccontextmanager
        async def reserve(
            model: Model, messages: Sequence[Message], max_tokens: int | None, *, spare: bool = False
        ) -> AsyncIterator[Reservation]:
            if self.check:
                await self.check()
            prompt_tokens = _most_prompt_tokens(prompt_texts(messages, beyond))
            prices = model.price(prompt_tokens)
            if prices is None and ledger.needs_prices and not self.any_price:
                raise SettingsError([_unknown_price(model)])
            paid = ledger.reserved(prompt_tokens, prices or (0.0, 0.0), max_tokens, last=last, spare=spare)
            async with paid as reservation:
                yield reservation

        return reserve


def expect_prices(playbook: Playbook, models: Callable[[str], Model], ledger: Ledger, quota: Quota) -> None:
    """Refuse, before anything is paid, a limit in money for models of unknown price: those that a playbook names, and
    those that stand in for them. Raises SettingsError."""
    limited = ledger.needs_prices or quota.usd_per_day is not None
    if not limited and all(step.max_cost_usd is None for step in playbook.all_steps()):
        return
    named = {role.model for role in playbook.roles.values() if role.model}
    every = {each.name: each for name in sorted(named) for each in fallback_chain(models, name)}
    if problems := [_unknown_price(model) for model in every.values() if model.price() is None]:
        raise SettingsError(problems)


def _most_prompt_tokens(texts: Sequence[str]) -> int:
    return sum(map(most_tokens, texts))


def _unknown_price(model: Model) -> Problem:
    remedy = f"{REMEDY}; or set limits: {{unknown_prices: allow}}"
    return Problem(f"models.{model.name}.usd_per_million", "a limit on costs and no price", "two prices", remedy)
