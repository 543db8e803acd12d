"""Have a question answered: by the model that was named, or by one of those its card names in `then`.

A model that fails for a moment is asked again, one that keeps failing is left alone for a while, and the next one takes
its place; the result says so. A mistake of ours is never covered up by asking somebody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from seedbed.errors import BudgetSpent, ModelUnavailable, RunError, Why, shown
from seedbed.models.calling.answer import Attempt, Discard, Fallback, ModelAnswer
from seedbed.models.calling.hedging import first_answer
from seedbed.models.calling.limits import Hold, ModelLimit, ModelLimits, Reserve, free
from seedbed.models.chat import Message, Model, Reply, Usage, ask, stream
from seedbed.telemetry import Hedged, ModelFailed, emit

__all__ = ["Attempt", "Discard", "Fallback", "Hold", "ModelAnswer", "ask_chain", "plain", "stream_chain"]

Midstream: TypeAlias = Literal["restart", "keep", "fail"]
"""What becomes of an answer that breaks off: it begins anew, what came is the answer, or there is none."""


async def ask_chain(
    models: Callable[[str], Model],
    name: str,
    messages: Sequence[Message],
    *,
    lines: ModelLimits,
    needs: Collection[str] = (),
    reserve: Reserve = free,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    stop: Sequence[str] = (),
) -> ModelAnswer:
    """Have the named model answer, or else those that stand in for it, in the order of `chain`.

    A model is passed over if it cannot do what the step `needs`, if the messages do not fit its context, if there is no
    money for it, or while it rests. If all that are left are resting and one will be back soon, we wait for it.

    Raises ModelUnavailable with every try if nobody answers, BudgetSpent if only money is missing, and a mistake of
    ours at once.
    """
    wishes = {"temperature": temperature, "seed": seed, "stop": stop}
    return await _FallbackCall(chain(models, name), messages, lines, needs, reserve, max_tokens, wishes).answer()


async def stream_chain(
    models: Callable[[str], Model],
    name: str,
    messages: Sequence[Message],
    *,
    lines: ModelLimits,
    needs: Collection[str] = (),
    reserve: Reserve = free,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    stop: Sequence[str] = (),
    midstream: Midstream = "restart",
) -> AsyncGenerator[str | Discard | ModelAnswer, None]:
    """Like `answered`, in pieces as they come; the last thing is the Answered.

    If an answer breaks off, `restart` gives a Discard and then another answer from its beginning; `keep` ends with what
    came and the finish reason "interrupted"; `fail` raises. Who may leave early closes it with `contextlib.aclosing`.
    """
    wishes = {"temperature": temperature, "seed": seed, "stop": stop}
    heard: asyncio.Queue[str | Discard | None] = asyncio.Queue()
    call = _FallbackCall(
        chain(models, name), messages, lines, needs, reserve, max_tokens, wishes, heard.put_nowait, midstream
    )
    answering = asyncio.ensure_future(call.answer())
    answering.add_done_callback(lambda _: heard.put_nowait(None))
    try:
        while (piece := await heard.get()) is not None:
            yield piece
        yield await answering
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


def chain(models: Callable[[str], Model], name: str) -> list[Model]:
    """The named model, then those it names, then those they name; each once."""
    found: dict[str, Model] = {}
    names = deque([name])
    while names:
        name = names.popleft()
        if name not in found:
            found[name] = models(name)
            names.extend(found[name].card.then)
    return list(found.values())


def plain(messages: Sequence[Message]) -> list[Message]:
    """The same conversation in the form every provider takes: at most one system message, which is first; then the
    others, none of them empty and no two of one speaker in a row."""
    said = [message for message in messages if message.text.strip()]
    merged: list[Message] = []
    for message in sorted(said, key=lambda each: each.role != "system"):
        if merged and merged[-1].role == message.role:
            merged[-1] = Message(message.role, f"{merged[-1].text}\n\n{message.text}")
        else:
            merged.append(message)
    return merged


def estimated_tokens(*texts: str) -> int:
    """About how many tokens messages with these texts have."""
    return sum(len(text.encode(errors="replace")) // 4 + 5 for text in texts)


@dataclass(frozen=True, slots=True)
class _GivenUp:
    """Why a model will not answer this call: in words, and in a word."""

    because: str
    why: Why | Literal["budget"]


_REMEDIES: dict[Why, str] = {
    "transient": "Try again in a moment, or name another model in models.{name}.then",
    "rate": "Ask less often (models.{name}.requests_per_minute), or name another model in models.{name}.then",
    "credit": "Pay the provider, or name another model in models.{name}.then",
    "context": "Say less, or name a model that can read more in models.{name}.then",
    "refused": "Say it differently, or name another model in models.{name}.then",
    "ours": "Name a model that can in models.{name}.then, or correct what is needed",
}
"""What to do if nobody answers. What may pass by itself comes first: it decides what the whole failure is called."""


@dataclass
class _FallbackCall:
    """One question on its way along a chain. If somebody wants to `hear` it, it is streamed."""

    models: Sequence[Model]
    messages: Sequence[Message]
    lines: ModelLimits
    needs: Collection[str]
    reserve: Reserve
    max_tokens: int | None
    wishes: dict[str, Any]
    on_event: Callable[[str | Discard], None] | None = None
    midstream: Midstream = "restart"
    given_up: dict[str, _GivenUp] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    waited: float = 0.0
    began: float | None = None
    said: list[str] = field(default_factory=list)
    answer_tokens: int = 0
    second: Reply | ModelUnavailable | None = None
    is_hedged: bool = False

    @cached_property
    def prompt_tokens(self) -> int:
        return estimated_tokens(*(message.text for message in self.messages))

    async def answer(self) -> ModelAnswer:
        left = [model for model in self.models if self._suits(model)]
        rounds, rested = 0, 0.0
        while left:
            for model in left:
                reply = await self._ask(model)
                if reply is not None:
                    return ModelAnswer(
                        reply=reply,
                        substitutions=self._substitutions(model),
                        waited_seconds=self.waited,
                        attempts=tuple(self.attempts),
                    )
            left = [model for model in left if model.name not in self.given_up]
            if left:
                rounds += 1
                pause = min(self.lines[model].breaker.rest_seconds for model in left)
                pause += self.lines.retry.jitter(rounds, self.lines.chance)
                rested += pause
                if rested > self.lines.retry.total_seconds:
                    break
                await self._pause(pause)
        raise self._nobody()

    def _suits(self, model: Model) -> bool:
        card = model.card
        tokens = self.prompt_tokens + (self.max_tokens or 0)
        if missing := [need for need in self.needs if not card.masters(need)]:
            self.given_up[model.name] = _GivenUp(f"it cannot do {', '.join(missing)}", "ours")
        elif card.context_tokens is not None and tokens > card.context_tokens:
            told = f"its context holds {card.context_tokens:,} tokens of about {tokens:,}"
            self.given_up[model.name] = _GivenUp(told, "context")
        return model.name not in self.given_up

    async def _ask(self, model: Model) -> Reply | None:
        """Ask one model until it answers, is given up, or rests."""
        line = self.lines[model]
        messages = self.messages if model is self.models[0] else plain(self.messages)
        self.began = None
        while line.breaker.lets_in:
            try:
                outcome = await self._paid(model, messages, line)
            except BudgetSpent as spent:
                self.given_up[model.name] = _GivenUp(str(spent), "budget")
                return None
            if not isinstance(outcome, ModelUnavailable):
                return outcome
            pause = self._after(model, outcome, self.lines.clock() - (self.began or 0.0))
            if pause is None:
                return None
            if line.breaker.lets_in:
                await self._pause(pause)
        return None

    async def _paid(
        self, model: Model, messages: Sequence[Message], line: ModelLimit, *, spare: bool = False
    ) -> Reply | ModelUnavailable | None:
        """One try when its turn comes, or a second one beside it from money to spare; None if the model now rests."""
        clock = self.lines.clock
        came = clock()
        async with self.reserve(model, messages, self.max_tokens, spare=spare) as hold:
            held = clock() - came
            tokens = self.prompt_tokens + (hold.max_tokens or 0)
            booking, waited = await line.limit.wait(tokens)
            if not spare:
                self.waited += waited + (held if held > 0.001 else 0.0)  # others held the money; less is no waiting
            entered = line.breaker.enter()
            if entered is None:  # it began to rest while we waited
                line.limit.cancel(booking)
                return None
            self.began = clock() if self.began is None else self.began
            self.is_hedged |= spare
            why: Why | None = "ours"
            try:
                if spare or self.on_event or model.card.hedge is None:
                    outcome = await self._try(model, messages, hold)
                else:
                    outcome = await self._hedged(model, messages, hold, line, model.card.hedge)
                why = outcome.why if isinstance(outcome, ModelUnavailable) else None
            finally:
                line.breaker.leave(entered, why)
        if isinstance(outcome, Reply):
            line.limit.settle(booking, outcome.usage.prompt_tokens + outcome.usage.completion_tokens or tokens)
        return outcome

    async def _hedged(
        self, model: Model, messages: Sequence[Message], hold: Hold, line: ModelLimit, share: float
    ) -> Reply | ModelUnavailable:
        """One try and, if its answer is slower to come than this share of them, a second one; once in a call."""
        began = self.lines.clock()
        slow = None if self.is_hedged else line.latencies.quantile(share)
        if slow is None:
            outcome = await self._try(model, messages, hold)
        else:
            first, again = self._try(model, messages, hold), partial(self._again, model, messages, line)
            outcome, others = await first_answer(first, again, lambda each: isinstance(each, Reply), after_seconds=slow)
            for late in others:
                if isinstance(late, Reply):
                    self._beaten(model, late.latency_seconds, late.cost_usd, late.tokens)
            if self.is_hedged:
                emit(Hedged(model=model.name, after_seconds=slow, won=outcome is self.second))
        if isinstance(outcome, Reply):
            line.latencies.note(self.lines.clock() - began)
        return outcome

    async def _again(
        self, model: Model, messages: Sequence[Message], line: ModelLimit
    ) -> Reply | ModelUnavailable | None:
        with suppress(BudgetSpent):
            self.second = await self._paid(model, messages, line, spare=True)
        return self.second

    def _beaten(self, model: Model, seconds: float, usd: float, tokens: int) -> None:
        told = f"this request had no answer after {seconds:.1f} s, when the other one had"
        beaten = Attempt(
            model=model.name, why="transient", told=told, seconds=seconds, cost_usd=usd, tokens=tokens, beaten=True
        )
        self.attempts.append(beaten)

    def _after(self, model: Model, failure: ModelUnavailable, gone_seconds: float) -> float | None:
        """What follows from a failure: a pause before the next try, or that the model is given up."""
        if self.said and self.on_event:
            if self.midstream == "fail":
                raise failure
            self.on_event(Discard(f"the answer of {model.name} broke off: {shown(str(failure), 200)}"))
        why, wait, tries = failure.why, failure.wait_seconds, sum(each.model == model.name for each in self.attempts)
        pause = self.lines.retry.pause(tries, why, wait, gone_seconds, self.lines.chance)
        if pause is None:
            many = f"{tries} tries failed, the last one" if tries > 1 else "it failed"
            self.given_up[model.name] = _GivenUp(f"{many} with: {shown(str(failure), 200)}", why)
            if why == "rate" and wait:
                self.lines[model].breaker.rest(wait, "rate", "its provider asks us to wait")
        return pause

    async def _try(self, model: Model, messages: Sequence[Message], hold: Hold) -> Reply | ModelUnavailable:
        """One try. A mistake of ours is raised, any other failure is kept and returned."""
        clock, started = self.lines.clock, self.lines.clock()
        self.said = []
        try:
            reply = await self._spoken(model, messages, hold.max_tokens)
        except asyncio.CancelledError:
            hold.spent_usd, hold.spent_tokens = self._most(model, hold)
            self._beaten(model, clock() - started, hold.spent_usd, hold.spent_tokens)  # or all of it is given up
            raise
        except ModelUnavailable as error:
            emit(ModelFailed(model=model.name, why=error.why, seconds=clock() - started))
            if error.why == "ours":
                raise
            if self.said:
                said = estimated_tokens("".join(self.said))
                hold.spent_usd, hold.spent_tokens = self._taken(model, min(said, hold.max_tokens or said))
            elif "Timeout" in type(error.__cause__).__name__:  # it may have answered, and want to be paid
                hold.spent_usd, hold.spent_tokens = self._most(model, hold)
            kept, seconds = self.said and self.midstream == "keep", clock() - started
            cost, tokens = (0.0, 0) if kept else (hold.spent_usd, hold.spent_tokens)  # what is kept is in the reply
            self.attempts.append(
                Attempt(model=model.name, why=error.why, told=str(error), seconds=seconds, cost_usd=cost, tokens=tokens)
            )
            return self._interrupted(model, hold.spent_usd, seconds) if kept else error
        if not (reply.cost_known and reply.tokens):  # then it counts as much as it can be
            usd, tokens = self._most(model, hold)
            usd, tokens = reply.cost_usd if reply.cost_known else usd, 0 if reply.tokens else tokens
            reply = replace(reply, cost_usd=usd, uncounted_tokens=tokens)
        hold.spent_usd, hold.spent_tokens = reply.cost_usd, reply.tokens
        self.answer_tokens = reply.usage.completion_tokens
        return reply

    def _most(self, model: Model, hold: Hold) -> tuple[float, int]:
        """What a try can take, in US dollars and tokens. One without a bound takes what the other one beside it did, if
        there was one."""
        usd, tokens = self._taken(model, hold.max_tokens or self.answer_tokens)
        return (
            usd if hold.most_usd is None else hold.most_usd,
            tokens if hold.most_tokens is None else hold.most_tokens,
        )

    def _taken(self, model: Model, answer_tokens: int) -> tuple[float, int]:
        """What a try takes that is answered with so many tokens, by estimate."""
        read, written = model.price(self.prompt_tokens) or (0.0, 0.0)
        usd = (self.prompt_tokens * read + answer_tokens * written) / 1_000_000
        return usd, self.prompt_tokens + answer_tokens

    async def _spoken(self, model: Model, messages: Sequence[Message], max_tokens: int | None) -> Reply:
        if self.on_event is None:
            return await ask(model, messages, max_tokens=max_tokens, **self.wishes)
        async with aclosing(stream(model, messages, max_tokens=max_tokens, **self.wishes)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    return piece
                self.said.append(piece)
                self.on_event(piece)
        raise AssertionError("a stream ends with its reply or an error")

    def _interrupted(self, model: Model, cost_usd: float, seconds: float) -> Reply:
        return Reply(
            text="".join(self.said),
            usage=Usage(self.prompt_tokens, estimated_tokens("".join(self.said))),
            cost_usd=cost_usd,
            latency_seconds=seconds,
            model=model.name,
            finish_reason="interrupted",
        )

    async def _pause(self, seconds: float) -> None:
        before = self.lines.clock()
        await self.lines.sleep(seconds)
        self.waited += self.lines.clock() - before

    def _because(self, model: Model) -> str:
        if model.name in self.given_up:
            return self.given_up[model.name].because
        breaker = self.lines[model].breaker
        return f"it rests for another {breaker.rest_seconds:.0f} s because {breaker.because}"

    def _substitutions(self, used: Model) -> tuple[Fallback, ...]:
        way = pairwise(self.models[: self.models.index(used) + 1])
        return tuple(Fallback(asked=one.name, used=two.name, because=self._because(one)) for one, two in way)

    def _nobody(self) -> RunError:
        names = [model.name for model in self.models]
        told = [f"{each.model} ({each.why}, {each.seconds:.1f} s): {shown(each.told, 300)}" for each in self.attempts]
        asked = {attempt.model for attempt in self.attempts}
        told += [f"{each.name} was not asked: {self._because(each)}" for each in self.models if each.name not in asked]
        breakers = {model.name: self.lines[model].breaker for model in self.models}
        whys = {self.given_up[name].why if name in self.given_up else breakers[name].why for name in names}
        found = "\n  ".join(["no model answered: found", *told, f"expected an answer from {' or '.join(names)}. "])
        if whys - {"context", "ours"} == {"budget"}:
            return BudgetSpent(f"{found}Raise the limit, or ask for less")
        why = next(why for why in _REMEDIES if why in whys)
        waits = [breaker.rest_seconds for breaker in breakers.values() if breaker.rest_seconds > 0]
        return ModelUnavailable(f"{found}{_REMEDIES[why].format(name=names[0])}", why, min(waits, default=None))
