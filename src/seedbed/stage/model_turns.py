"""Model turns: an answer of a model as a turn of a run, and as an event for those who watch."""

from __future__ import annotations

from collections.abc import Sequence

from seedbed.models.calling.fallback import ModelAnswer, ModelCall
from seedbed.models.chat import Message
from seedbed.runs.run import Turn
from seedbed.telemetry import Substituted, TurnEnded, emit, listeners
from seedbed.telemetry.conventions import provider_of


def turn_of(step: str, role: str, messages: Sequence[Message], seed: int, answer: ModelAnswer) -> Turn:
    """The turn of a step in which a role got that answer to these messages."""
    reply = answer.reply
    return Turn(
        step=step,
        role=role,
        model=reply.model,
        messages=tuple((message.role, message.text) for message in messages),
        text=reply.text,
        prompt_tokens=reply.usage.prompt_tokens,
        completion_tokens=reply.usage.completion_tokens,
        cost_usd=answer.cost_usd,
        latency_seconds=round(reply.latency_seconds, 6),
        finish_reason=reply.finish_reason,
        seed=seed,
        waited_seconds=answer.waited_seconds,
        confidence=reply.confidence,
        notices=_notices(answer),
        uncounted_tokens=answer.uncounted_tokens,
        unpriced=answer.unpriced,
    )


def _notices(answer: ModelAnswer) -> tuple[str, ...]:
    notices = tuple(map(str, answer.fallbacks))
    notices += tuple(f"{each.model} was asked twice: {each.error}" for each in answer.attempts if each.overtaken)
    notices += (answer.overbilled,) if answer.overbilled else ()
    return notices if answer.reply.text.strip() else (*notices, f"{answer.reply.model} answered nothing")


def emit_turn(role: str, answer: ModelAnswer, call: ModelCall) -> None:
    """Say what answered a role, and which models took the place of others."""
    if not listeners:
        return
    for fallback in answer.fallbacks:
        emit(Substituted(requested=fallback.requested, used=fallback.used))
    card = next(model.card for model in call.models if model.name == answer.reply.model)
    provided = card.args.get("model", card.args.get("model_name", answer.reply.model))
    emit(
        TurnEnded(
            role=role,
            model=answer.reply.model,
            provider=provider_of(card.class_path),
            provided=str(provided),
            temperature=call.sampling.temperature,
            max_tokens=call.sampling.max_tokens,
            seed=call.sampling.seed or 0,
            prompt_tokens=answer.reply.usage.prompt_tokens,
            completion_tokens=answer.reply.usage.completion_tokens,
            cost_usd=answer.cost_usd,
            latency_seconds=answer.reply.latency_seconds,
            waited_seconds=answer.waited_seconds,
            finish_reason=answer.reply.finish_reason,
        )
    )
