"""Model turns: what a role is asked, and the answer as a turn of a run and as an event for those who watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from seedbed.models.calling.fallback import Discard, ModelAnswer, ModelCall
from seedbed.models.chat import Message, OutputForm, Sampling, ToolCall, ToolOffer
from seedbed.playbooks.playbook import Role
from seedbed.playbooks.steps.schemas import read_answer
from seedbed.runs.messages import SpeakerText, to_compare
from seedbed.runs.run import Failure, RunEvent, Turn
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Json
from seedbed.telemetry import Substituted, TurnEnded, emit, listeners
from seedbed.telemetry.conventions import provider_of


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What a turn is asked for beyond its messages: `offer` are tools that it may call, `form` is the structure of its
    answer. The `last` turn of a run may spend what was reserved for it."""

    offer: ToolOffer | None = None
    form: OutputForm | None = None
    last: bool = False
    stop: tuple[str, ...] = ()

    @property
    def beyond(self) -> tuple[ToolOffer | OutputForm, ...]:
        return Sampling(offer=self.offer, form=self.form).beyond

    def sampling(self, role: Role, seed: int) -> Sampling:
        """How the role answers such a turn."""
        stop = self.stop or role.stop
        return Sampling(role.temperature, role.max_tokens, seed, stop, self.offer, self.form)

    def body(self) -> Json:
        """What a turn stores of them, beside the tools."""
        choice, schema = self.offer.choice if self.offer else "", self.form.digest if self.form else ""
        options = ("tool_choice", choice), ("schema", schema), ("stop", list(self.stop))
        return {name: value for name, value in options if value}


PLAIN = TurnOptions()


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a role is asked."""

    role: str
    messages: Sequence[Message]
    options: TurnOptions = PLAIN

    @property
    def toolset(self) -> str:
        return self.options.offer.digest if self.options.offer else ""

    @property
    def words(self) -> object:
        """What names the request. Text alone is named as it always was, so that older recordings answer it."""
        if self.toolset or self.options.body() or not all(message.is_plain for message in self.messages):
            return [self.role, to_compare(map(_entry, self.messages)), self.toolset, self.options.body()]
        return "\x1e".join((self.role, *(f"{message.role}\x1f{message.text}" for message in self.messages)))

    def document(self) -> Json:
        """As replays compare it with a recorded one."""
        beyond = {"toolset": self.toolset, "options": self.options.body()}
        said = {name: value for name, value in beyond.items() if value}
        return {"role": self.role, "messages": to_compare(map(_entry, self.messages)), **said}


def _entry(message: Message) -> SpeakerText:
    """A message as a turn stores it."""
    if message.is_plain:
        return (message.role, message.text)
    calls = [_call(each) for each in message.calls]
    fields = {"calls": calls, "call": message.call, "failed": message.failed, "native": message.native}
    return (message.role, message.text, {name: value for name, value in fields.items() if value})


def _call(call: ToolCall) -> Json:
    return {name: value for name, value in asdict(call).items() if name != "unreadable" or value}


def answer_message(turn: Turn) -> Message:
    """The answer of a turn as a message for the next one."""
    return Message("assistant", turn.text, tuple(ToolCall(**each) for each in turn.calls), native=turn.native)


def turn_of(step: str, request: TurnRequest, seed: int, answer: ModelAnswer) -> Turn:
    """The turn of a step that a request got that answer."""
    reply, form = answer.reply, request.options.form
    return Turn(
        step=step,
        role=request.role,
        model=reply.model,
        messages=tuple(map(_entry, request.messages)),
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
        calls=tuple(map(_call, reply.calls)),
        toolset=request.toolset,
        options=request.options.body(),
        native=reply.native,
        cached_tokens=reply.cached_tokens,
        value=read_answer(reply.text, form.schema)[0] if form and not reply.calls else None,
    )


def _notices(answer: ModelAnswer) -> tuple[str, ...]:
    notices = tuple(map(str, answer.fallbacks))
    notices += tuple(f"{each.model} was asked twice: {each.error}" for each in answer.attempts if each.overtaken)
    notices += (answer.overbilled,) if answer.overbilled else ()
    return (
        notices
        if answer.reply.text.strip() or answer.reply.calls
        else (*notices, f"{answer.reply.model} answered nothing")
    )


def failure_of(step: str, role: str, error: Exception, ledger: Ledger) -> Failure | None:
    """A turn that got no answer, if it cost anything."""
    usd, tokens, unpriced = ledger.spent_usd, ledger.spent_tokens, ledger.unpriced
    if not (usd or tokens or unpriced):
        return None
    text = str(error).encode(errors="replace").decode()
    return Failure(step=step, role=role, error=text, cost_usd=usd, tokens=tokens, unpriced=unpriced)


def pieces_of(event: RunEvent, notify: Callable[[RunEvent], None]) -> Callable[[str | Discard], None]:
    """Passes on the pieces of an answer, as they arrive."""

    def on_piece(piece: str | Discard) -> None:
        if isinstance(piece, Discard):
            notify(replace(event, discarded=piece.because))
        else:
            notify(replace(event, piece=piece))

    return on_piece


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
