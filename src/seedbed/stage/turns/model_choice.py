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
from seedbed.runs.run import Run
from seedbed.spending.ledger import LEAST_TOKENS, USUAL_TOKENS, Ledger, Reservation, most_tokens
from seedbed.spending.quota import QuotaShare
from seedbed.storage.store import Fact, Json, Query, Store, now

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
    def of(cls, role: Role, step: Step | str, quality: str = "") -> ModelRequirements:
        """The requirements of a step override those of its role, and the `quality` of the whole run."""
        own = None if isinstance(step, str) else step
        limit = own.max_cost_usd if own else None
        best = (own.quality if own and own.quality else quality) == "maximum"
        if not best and not (own and (own.needs or own.prefer or own.quality)):
            return cls(role.model, role.needs, role.prefer, "balanced", role.max_tokens, limit)
        # The role's own model comes first where it can do what the step needs, unless the best one is asked for.
        prefer = (own and own.prefer) or (None if best or (own and own.quality) else role.model or role.prefer)
        needs = own.needs if own and own.needs else role.needs
        return cls(None, needs, prefer, "maximum" if best else "balanced", role.max_tokens, limit)


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


def routing_outcomes(store: Store, run: Run, score: float, by: str) -> list[Fact]:
    """What the score of a run, from 0 to 1, tells the router: one fact for each model that it chose."""
    turns = {turn.step or turn.role: turn for turn in run.turns}
    outcomes = []
    for choice in store.facts(Query(kind="routing", subject=run.id)):
        if turn := turns.get(choice.body["step"]):
            body = {"task_type": choice.body["task_type"], "model": turn.model, "score": score}
            body |= {"cost_usd": turn.cost_usd, "latency_seconds": turn.latency_seconds}
            fact = Fact(kind="outcome", key=choice.key, subject=run.id, at=now(), by=by, body=body, value=score)
            outcomes.append(fact)
    return outcomes


@dataclass(frozen=True, slots=True)
class Spender:
    """How requests are paid for: `check` is awaited before each, and raises if none may be sent any more; `share` is
    what the run holds of the quotas. With `any_price` a limit in money lets calls of unknown price through."""

    check: Callable[[], Awaitable[None]] | None = None
    share: QuotaShare | None = None
    by: str = ""
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
            limited = self.share is not None and self.share.is_limited
            if prices is None and (ledger.needs_prices or limited) and not self.any_price:
                raise SettingsError([_unknown_price(model)])
            prices = prices or (0.0, 0.0)
            async with self._held(prompt_tokens, prices, max_tokens, spare) as held:
                paid = ledger.reserved(prompt_tokens, prices, held.max_tokens, last=last, spare=spare)
                async with paid as reservation:
                    try:
                        yield reservation
                    finally:
                        held.spent_usd = reservation.spent_usd

        return reserve

    @asynccontextmanager
    async def _held(
        self, prompt_tokens: int, prices: tuple[float, float], max_tokens: int | None, spare: bool
    ) -> AsyncIterator[Reservation]:
        """Hold the most that a request can cost of the quotas in money. Raises QuotaSpent."""
        read, written = prices[0] / 1_000_000, prices[1] / 1_000_000
        if self.share is None or not self.share.is_limited or not (read or written):
            yield Reservation(max_tokens)
            return
        wanted, prompt = max_tokens or USUAL_TOKENS, prompt_tokens * read
        most, fewest = prompt + wanted * written, wanted if spare else min(LEAST_TOKENS, wanted)
        usd = await self.share.reserve(prompt + fewest * written, most, self.by)
        tokens = max(fewest, int((usd - prompt) / written * (1 - 1e-9))) if usd < most else wanted
        reservation = Reservation(tokens)
        try:
            yield reservation
        finally:
            self.share.settle(usd, reservation.spent_usd)


def expect_arguments(playbook: Playbook, models: Callable[[str], Model]) -> None:
    """Refuse, before anything is paid, arguments that the models of a playbook do not have. Raises SettingsError."""
    for name in sorted({role.model for role in playbook.roles.values() if role.model}):
        models(name).expect_arguments()


def expect_prices(playbook: Playbook, models: Callable[[str], Model], *, limited: bool) -> None:
    """Refuse, before anything is paid, a limit in money for models of unknown price: those that a playbook names, and
    those that stand in for them. Raises SettingsError."""
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
