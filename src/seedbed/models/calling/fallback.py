"""Fallback: a call to a model, or to the fallbacks that its card names in `then` if it gives no answer.

A model that fails for a moment is asked again, one that keeps failing is left alone for a while, and the next one takes
its place; the answer says so. A mistake of ours is raised at once: another model would not help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal

from seedbed.errors import BudgetSpent, ModelUnavailable, QuotaSpent, RunError, Why, shown
from seedbed.models.calling.bills import REST_SECONDS, is_impossible, overbilled
from seedbed.models.calling.hedging import first_answer
from seedbed.models.calling.limits import ModelLimits, Reserve, free
from seedbed.models.cards import Model
from seedbed.models.chat import AS_ON_ITS_CARD, Message, Reply, Sampling, ask, merge_messages, prompt_texts, stream
from seedbed.models.usage import estimated_tokens
from seedbed.spending.ledger import Reservation
from seedbed.telemetry import Hedged, ModelFailed, emit


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A request that failed, or that a second one overtook.

    `cost_usd` and `tokens` are the most that it can have taken: a provider may charge for an answer we never got.
    `unpriced` is 1 if it may, and at a price that is not known.
    """

    model: str
    why: Why
    error: str
    seconds: float
    cost_usd: float
    tokens: int = 0
    unpriced: int = 0
    overtaken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """One model asked in place of another, and why; as text it is a sentence for the user."""

    requested: str
    used: str
    because: str

    def __str__(self) -> str:
        return f"{self.used} was asked instead of {self.requested}: {self.because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The answer to a call and how it came about.

    `waited_seconds` were spent on rate limits and pauses, apart from the model's own time. `overbilled` says, if so,
    that more was charged than a request can carry.
    """

    reply: Reply
    fallbacks: tuple[Fallback, ...] = ()
    waited_seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    overbilled: str = ""

    @property
    def unpriced(self) -> int:
        """How many of its requests have an unknown price."""
        return (not self.reply.cost_known) + sum(attempt.unpriced for attempt in self.attempts)

    @property
    def uncounted_tokens(self) -> int:
        """The most tokens that may have been used in addition to the reported ones."""
        return self.reply.uncounted_tokens + sum(attempt.tokens for attempt in self.attempts)

    @property
    def cost_usd(self) -> float:
        """The cost of the answer and of the other attempts together."""
        return self.reply.cost_usd + sum(attempt.cost_usd for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class Discard:
    """All pieces of a streamed answer so far are void; it begins again."""

    because: str


@dataclass(frozen=True, slots=True)
class _Rejected:
    """Why a model will not answer this call: as a sentence, and as a word."""

    because: str
    why: Why | Literal["budget"]


_REMEDIES: dict[Why, str] = {
    "transient": "Try again in a moment, or name another model in models.{name}.then",
    "rate": "Lower models.{name}.requests_per_minute, or name another model in models.{name}.then",
    "credit": "Add credit at the provider, or name another model in models.{name}.then",
    "context": "Shorten the messages, or name a model with a larger context in models.{name}.then",
    "refused": "Rephrase the prompt, or name another model in models.{name}.then",
    "ours": "Name a model that can in models.{name}.then, or correct what is needed",
}
"""What to do if no model answers. Reasons that may pass by themselves come first: the first that applies is the reason
of the whole failure."""


@dataclass
class ModelCall:
    """One call to a chain of models: the named one and its fallbacks, in order.

    A model is passed over if it cannot do what the call `needs`, if the messages do not fit its context, if there is no
    money for it, or while it rests. If all that are left are resting and one is back soon, the call waits for it.

    With `on_piece` the answer is streamed: it receives each piece of text, and a Discard if the answer broke off and
    begins again.
    """

    models: Sequence[Model]
    messages: Sequence[Message]
    limits: ModelLimits
    needs: Collection[str] = ()
    reserve: Reserve = free
    sampling: Sampling = AS_ON_ITS_CARD
    on_piece: Callable[[str | Discard], None] | None = None
    _rejected: dict[str, _Rejected] = field(init=False, default_factory=dict)
    _attempts: list[Attempt] = field(init=False, default_factory=list)
    _waited: float = field(init=False, default=0.0)
    _began: float | None = field(init=False, default=None)
    _pieces: list[str] = field(init=False, default_factory=list)
    _answer_tokens: int = field(init=False, default=0)
    _second: Reply | ModelUnavailable | None = field(init=False, default=None)
    _is_hedged: bool = field(init=False, default=False)
    _overbilled: str = field(init=False, default="")

    @cached_property
    def _prompt_tokens(self) -> int:
        return estimated_tokens(*prompt_texts(self.messages, self.sampling.beyond))

    async def answer(self) -> ModelAnswer:
        """Ask the models in turn until one answers.

        Raises ModelUnavailable with every attempt if none does, BudgetSpent if only money is missing, and a mistake of
        ours at once.
        """
        left = [model for model in self.models if self._suits(model)]
        rounds, rested = 0, 0.0
        while left:
            for model in left:
                reply = await self._ask(model)
                if reply is not None:
                    return ModelAnswer(
                        reply=reply,
                        fallbacks=self._fallbacks(model),
                        waited_seconds=self._waited,
                        attempts=tuple(self._attempts),
                        overbilled=self._overbilled,
                    )
            left = [model for model in left if model.name not in self._rejected]
            if left:
                rounds += 1
                pause = min(self.limits[model].breaker.rest_seconds for model in left)
                pause += self.limits.retry.jitter(rounds, self.limits.chance)
                rested += pause
                if rested > self.limits.retry.total_seconds:
                    break
                await self._pause(pause)
        raise self._unanswered()

    def _suits(self, model: Model) -> bool:
        card = model.card
        tokens = self._prompt_tokens + (self.sampling.max_tokens or 0)
        if missing := model.lacking(self.needs, calls_tools=self.sampling.offer is not None):
            self._rejected[model.name] = _Rejected(f"it cannot do {', '.join(missing)}", "ours")
        elif card.context_tokens is not None and tokens > card.context_tokens:
            because = f"its context holds {card.context_tokens:,} tokens of about {tokens:,}"
            self._rejected[model.name] = _Rejected(because, "context")
        return model.name not in self._rejected

    async def _ask(self, model: Model) -> Reply | None:
        """Ask one model until it answers, is rejected, or rests."""
        breaker = self.limits[model].breaker
        self._began = None
        while breaker.lets_in:
            try:
                outcome = await self._pay(model)
            except BudgetSpent as spent:
                if isinstance(spent, QuotaSpent):
                    raise  # another model would not help
                self._rejected[model.name] = _Rejected(str(spent), "budget")
                return None
            if not isinstance(outcome, ModelUnavailable):
                return outcome
            pause = self._after_failure(model, outcome, self.limits.clock() - (self._began or 0.0))
            if pause is None:
                return None
            if breaker.lets_in:
                await self._pause(pause)
        return None

    def _messages(self, model: Model) -> Sequence[Message]:
        """The messages for a model; fallbacks get them in the form that every provider accepts."""
        return self.messages if model is self.models[0] else merge_messages(self.messages)

    async def _pay(self, model: Model, *, spare: bool = False) -> Reply | ModelUnavailable | None:
        """One request within the limits, or a spare one beside it; None if its breaker opened meanwhile."""
        clock, limit = self.limits.clock, self.limits[model]
        came = clock()
        async with self.reserve(model, self._messages(model), self.sampling.max_tokens, spare=spare) as reservation:
            held = clock() - came
            tokens = self._prompt_tokens + (reservation.max_tokens or 0)
            booking, waited = await limit.rate.wait(tokens)
            if not spare:
                self._waited += waited + (held if held > 0.001 else 0.0)  # while others held the money
            entered = limit.breaker.enter()
            if entered is None:  # it began to rest while we waited
                limit.rate.cancel(booking)
                return None
            self._began = clock() if self._began is None else self._began
            self._is_hedged |= spare
            why: Why | None = "ours"
            try:
                if spare or self.on_piece or model.card.hedge is None:
                    outcome = await self._request(model, reservation)
                else:
                    outcome = await self._hedge(model, reservation, model.card.hedge)
                why = outcome.why if isinstance(outcome, ModelUnavailable) else None
            finally:
                limit.breaker.leave(entered, why)
        if isinstance(outcome, Reply):
            limit.rate.settle(booking, outcome.usage.prompt_tokens + outcome.usage.completion_tokens or tokens)
        return outcome

    async def _hedge(self, model: Model, reservation: Reservation, share: float) -> Reply | ModelUnavailable:
        """One request and, if its answer is slower than this share of them, a second one; once in a call."""
        began, latencies = self.limits.clock(), self.limits[model].latencies
        slow = None if self._is_hedged else latencies.quantile(share)
        if slow is None:
            outcome = await self._request(model, reservation)
        else:
            first, again = self._request(model, reservation), partial(self._again, model)
            outcome, others = await first_answer(first, again, lambda each: isinstance(each, Reply), after_seconds=slow)
            for late in others:
                if isinstance(late, Reply):
                    self._note_overtaken(model, late.latency_seconds, late.cost_usd, late.tokens)
            if self._is_hedged:
                emit(Hedged(model=model.name, after_seconds=slow, won=outcome is self._second))
        if isinstance(outcome, Reply):
            latencies.add(self.limits.clock() - began)
        return outcome

    async def _again(self, model: Model) -> Reply | ModelUnavailable | None:
        with suppress(BudgetSpent):
            self._second = await self._pay(model, spare=True)
        return self._second

    def _note_overtaken(self, model: Model, seconds: float, usd: float, tokens: int) -> None:
        error = f"this request had no answer after {seconds:.1f} s, when the other one had"
        self._attempts.append(
            Attempt(
                model=model.name,
                why="transient",
                error=error,
                seconds=seconds,
                cost_usd=usd,
                tokens=tokens,
                overtaken=True,
            )
        )

    def _after_failure(self, model: Model, failure: ModelUnavailable, gone_seconds: float) -> float | None:
        """What follows from a failure: a pause before the next attempt, or that the model is rejected."""
        if self._pieces and self.on_piece:
            self.on_piece(Discard(f"the answer of {model.name} broke off: {shown(str(failure), 200)}"))
        why, wait, tries = failure.why, failure.wait_seconds, sum(each.model == model.name for each in self._attempts)
        pause = self.limits.retry.pause(tries, why, wait, gone_seconds, self.limits.chance)
        if pause is None:
            many = f"{tries} tries failed, the last one" if tries > 1 else "it failed"
            self._rejected[model.name] = _Rejected(f"{many} with: {shown(str(failure), 200)}", why)
            if why == "rate" and wait:
                self.limits[model].breaker.rest(wait, "rate", "its provider asks us to wait")
        return pause

    async def _request(self, model: Model, reservation: Reservation) -> Reply | ModelUnavailable:
        """One request. A mistake of ours is raised, any other failure is noted and returned."""
        clock, started, self._pieces = self.limits.clock, self.limits.clock(), []
        sampling = replace(self.sampling, max_tokens=reservation.max_tokens)
        try:
            if self.on_piece is None:
                reply = await ask(model, self._messages(model), sampling)
            else:
                reply = await self._stream(model, sampling, self.on_piece)
        except ModelUnavailable as failure:
            emit(ModelFailed(model=model.name, why=failure.why, seconds=clock() - started))
            if self._pieces or failure.paid:
                self._spend(model, reservation, *self._most(model, reservation))
            if failure.why == "ours":
                raise
            self._attempts.append(
                Attempt(
                    model=model.name,
                    why=failure.why,
                    error=str(failure),
                    seconds=clock() - started,
                    cost_usd=reservation.spent_usd,
                    tokens=reservation.spent_tokens,
                    unpriced=reservation.unpriced,
                )
            )
            return failure
        except BaseException as error:  # also one of those who listen to the pieces
            cancelled = isinstance(error, asyncio.CancelledError)
            if self._pieces or cancelled:
                self._spend(model, reservation, *self._most(model, reservation))
            if cancelled:
                self._note_overtaken(model, clock() - started, reservation.spent_usd, reservation.spent_tokens)
            raise
        if not (reply.cost_known and reply.tokens):  # then the most it can be counts
            usd, tokens = self._most(model, reservation, estimated_tokens(reply.counted))
            known = reply.cost_known or model.price(tokens) is not None
            usd, tokens = reply.cost_usd if reply.cost_known else usd, 0 if reply.tokens else tokens
            reply = replace(reply, cost_usd=usd, uncounted_tokens=tokens, cost_known=known)
        self._spend(model, reservation, reply.cost_usd, reply.tokens, priced=reply.cost_known)
        self._check_bill(model, reservation, reply)
        self._answer_tokens = reply.usage.completion_tokens
        return reply

    def _spend(
        self, model: Model, reservation: Reservation, usd: float, tokens: int, *, priced: bool | None = None
    ) -> None:
        """Count what a request took, or may have taken."""
        reservation.spent_usd, reservation.spent_tokens = usd, tokens
        reservation.unpriced = int(not (model.price(tokens) is not None if priced is None else priced))

    def _check_bill(self, model: Model, reservation: Reservation, reply: Reply) -> None:
        """Name a model that charged more than the request can carry, and leave it alone if the bill cannot be right."""
        if said := overbilled(reservation, reply):
            self._overbilled = reservation.overbilled = said
            if is_impossible(reservation, reply):
                self.limits[model].breaker.rest(REST_SECONDS, "credit", said)

    async def _stream(self, model: Model, sampling: Sampling, on_piece: Callable[[str | Discard], None]) -> Reply:
        async with aclosing(stream(model, self._messages(model), sampling)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    return piece
                self._pieces.append(piece)
                on_piece(piece)
        raise AssertionError("a stream ends with its reply or an error")

    def _most(self, model: Model, reservation: Reservation, written: int = 0) -> tuple[float, int]:
        """The most that a request can take, in US dollars and tokens. One without a bound takes as much as was
        `written`, or as the other one beside it did, if there was one."""
        written = written or (estimated_tokens("".join(self._pieces)) if self._pieces else self._answer_tokens)
        usd, tokens = self._estimate(model, reservation.max_tokens or written)
        return (
            usd if reservation.most_usd is None else reservation.most_usd,
            tokens if reservation.most_tokens is None else reservation.most_tokens,
        )

    def _estimate(self, model: Model, answer_tokens: int) -> tuple[float, int]:
        """What a request with an answer of that length takes, in US dollars and tokens."""
        return model.cost_usd(self._prompt_tokens, answer_tokens) or 0.0, self._prompt_tokens + answer_tokens

    async def _pause(self, seconds: float) -> None:
        before = self.limits.clock()
        await self.limits.sleep(seconds)
        self._waited += self.limits.clock() - before

    def _because(self, model: Model) -> str:
        if model.name in self._rejected:
            return self._rejected[model.name].because
        breaker = self.limits[model].breaker
        return f"it rests for another {breaker.rest_seconds:.0f} s because {breaker.because}"

    def _fallbacks(self, used: Model) -> tuple[Fallback, ...]:
        steps = pairwise(self.models[: self.models.index(used) + 1])
        return tuple(Fallback(requested=one.name, used=two.name, because=self._because(one)) for one, two in steps)

    def _unanswered(self) -> RunError:
        names = [model.name for model in self.models]
        attempts = self._attempts
        tries = [f"{each.model} ({each.why}, {each.seconds:.1f} s): {shown(each.error, 300)}" for each in attempts]
        tried = {attempt.model for attempt in attempts}
        tries += [f"{each.name} was not asked: {self._because(each)}" for each in self.models if each.name not in tried]
        breakers = {model.name: self.limits[model].breaker for model in self.models}
        whys = {self._rejected[name].why if name in self._rejected else breakers[name].why for name in names}
        message = "\n  ".join(["no model answered: found", *tries, f"expected an answer from {' or '.join(names)}. "])
        if whys - {"context", "ours"} == {"budget"}:
            return BudgetSpent(f"{message}Raise the limit, or ask for less")
        why = next(why for why in _REMEDIES if why in whys)
        waits = [breaker.rest_seconds for breaker in breakers.values() if breaker.rest_seconds > 0]
        return ModelUnavailable(f"{message}{_REMEDIES[why].format(name=names[0])}", why, min(waits, default=None))
