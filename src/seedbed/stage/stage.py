"""Stage: the one door between a program and the outside."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from copy import deepcopy
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from seedbed.errors import ActionForbidden, PlaybookError, Problem, RunError
from seedbed.models.calling.fallback import Discard, ModelAnswer, ask_chain, stream_chain
from seedbed.models.calling.limits import ModelLimits
from seedbed.models.chat import Message, Model
from seedbed.playbooks.playbook import Playbook, Role, Step
from seedbed.playbooks.rules import Permission, strictest
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Call, Child, Decision, Failure, Run, RunEvent, Turn
from seedbed.spending.ledger import Ledger, Reservation
from seedbed.stage.confirmation import Callback, Confirm, Nobody, Person, Questions
from seedbed.stage.model_choice import ModelRequirements, choose_model, most_prompt_tokens, price, requirements_of
from seedbed.stage.tools import Tool
from seedbed.storage.store import Digest, Json
from seedbed.telemetry import Substituted, TurnEnded, emit, listeners, within

if TYPE_CHECKING:
    from seedbed.models.routing.router import Router

Open = Callable[["Stage", str, Digest | None, Json], Awaitable[Run]]
"""Performs a run opened by that of a stage: under which id, which playbook if not the same, on which inputs."""


class Stage:
    """What a program may do: ask the playbook's roles, call tools, decide, look at the clock.

    Everything is recorded in the order in which it is done. A run that is taken up again is given what it was told
    before, and so is a replay; only what is missing is done anew.
    """

    def __init__(
        self,
        playbook: Playbook,
        models: Callable[[str], Model],
        recorder: Recorder,
        *,
        lines: ModelLimits | None = None,
        router: Callable[[], Router] | None = None,
        ledger: Ledger | None = None,
        tools: Mapping[str, Tool] | None = None,
        confirm: Confirm | Person | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
        open_run: Open | None = None,
        depth: int = 0,
        above: Sequence[Playbook] = (),
    ) -> None:
        self.playbook = playbook
        self.recorder = recorder
        self.ledger = ledger or Ledger()
        self.output: Any = None
        """What the run gives: set by whoever performs it."""
        self._models = models
        self._lines = lines or ModelLimits()
        self._router = router
        self._tools = tools or {}
        asked = confirm or Nobody()
        self._person = asked if isinstance(asked, Person) else Callback(asked)
        self._questions = Questions(recorder.id, playbook.digest)
        self.on_event = on_event
        """Is told what is said, piece by piece."""
        self.depth = depth
        """How many runs are above this one."""
        self.above = tuple(above)
        """Their playbooks, whose rules hold here too."""
        self._open_run = open_run
        self._draws = count()
        if recorder.resumed and not depth and self.ledger.is_limited:
            self.ledger.spend(*recorder.paid_before)  # at once: what is asked anew may not count on it

    @property
    def seed(self) -> int:
        return self.recorder.seed

    async def ask(
        self,
        role: str,
        prompt: str,
        *,
        before: Sequence[Message] = (),
        system: str | None = None,
        step: Step | str = "",
        last: bool = False,
    ) -> Turn:
        """Have a role answer; `before` is what was said earlier, `system` stands in for the role's own words.

        `step` names the turn; what a Step needs and may cost goes before what the role says. The `last` one of a run
        may spend what was kept for it. Raises BudgetSpent, ModelUnavailable.
        """
        asked = self._role(role)
        wished = requirements_of(asked, step)
        name = step if isinstance(step, str) else step.name
        if wished.model is None and self._router is None:
            remedy = "Name one, or say what it needs."
            raise PlaybookError([Problem(f"roles.{role}.model", "nothing", "a model of the workspace", remedy)])
        instructions = asked.system if system is None else system
        messages = [Message("system", instructions)] if instructions else []
        messages += [*before, Message("user", prompt)]
        spoken = tuple((message.role, message.text) for message in messages)
        request = "\x1e".join((role, *(f"{speaker}\x1f{text}" for speaker, text in spoken)))
        last = last and not self.depth  # what was kept is for the end of the run that is above all

        async def spoke() -> Turn:
            model = wished.model or await self._chosen(name or role, wished, request, messages, last)
            ledger = Ledger(wished.max_cost_usd, kept=0.0, within=self.ledger)
            try:
                with within(step=name or role, model=model):
                    got = await self._answered(ledger, asked, wished, model, messages, last, name or role, role)
                    _tell(role, got)
            except Exception as wrong:
                if ledger.spent_usd or ledger.spent_tokens:
                    told = str(wrong).encode(errors="replace").decode()
                    usd, tokens = ledger.spent_usd, ledger.spent_tokens
                    paid = Failure(step=name, role=role, error=told, cost_usd=usd, tokens=tokens)
                    await self.recorder.failure(paid)
                raise
            return Turn(
                step=name,
                role=role,
                model=got.reply.model,
                messages=spoken,
                text=got.reply.text,
                prompt_tokens=got.reply.usage.prompt_tokens,
                completion_tokens=got.reply.usage.completion_tokens,
                cost_usd=got.cost_usd,
                latency_seconds=got.reply.latency_seconds,
                finish_reason=got.reply.finish_reason,
                seed=self.seed,
                waited_seconds=got.waited_seconds,
                confidence=got.reply.confidence,
                notices=_notices(got),
                uncounted_tokens=got.uncounted_tokens,
            )

        def how() -> Json:
            spoken_by = [{"speaker": message.role, "text": message.text} for message in messages]
            return {"role": role, "messages": spoken_by, **parameters(asked, wished)}

        try:
            turn = await self.recorder.turn(name or role, request, spoke, how)
        except Exception as wrong:
            self._let_hear(name or role, role, wished.model or "", failed=str(wrong) or type(wrong).__name__)
            raise
        self._let_hear(name or role, role, turn.model, turn=turn)
        return turn

    def _let_hear(self, step: str, role: str, model: str, **what: Any) -> None:
        if self.on_event:
            self.on_event(RunEvent(run=self.recorder.id, step=step, role=role, model=model, depth=self.depth, **what))

    def _role(self, name: str) -> Role:
        if name not in self.playbook.roles:
            known = ", ".join(self.playbook.roles) or "none"
            raise PlaybookError([Problem(f"roles.{name}", "nothing", f"one of the roles: {known}")])
        return self.playbook.roles[name]

    async def _chosen(
        self, place: str, wished: ModelRequirements, request: str, messages: Sequence[Message], last: bool
    ) -> str:
        """The model for a turn that names none: chosen once, and recorded with the chance of it."""
        assert self._router is not None
        router, seed = self._router(), f"{self.seed}/{place}/{len(self.recorder.turns)}"

        async def choose() -> Json:
            choice = await choose_model(router, self.ledger, wished, place, messages, last=last, seed=seed)
            return {**choice.document(), "step": place}

        return str((await self.recorder.once("routing", place, request, choose))["model"])

    async def _answered(
        self,
        ledger: Ledger,
        role: Role,
        wished: ModelRequirements,
        model: str,
        messages: Sequence[Message],
        last: bool,
        step: str,
        speaker: str,
    ) -> ModelAnswer:
        """An answer by the model, or by those that stand in for it; every try is paid from the ledger."""

        def reserve(
            model: Model, messages: Sequence[Message], wanted: int | None, *, spare: bool = False
        ) -> AbstractAsyncContextManager[Reservation]:
            prompt_tokens = most_prompt_tokens(messages)
            return ledger.reserved(prompt_tokens, price(model, prompt_tokens, ledger), wanted, last=last, spare=spare)

        wishes: dict[str, Any] = {
            "lines": self._lines,
            "needs": wished.needs,
            "reserve": reserve,
            "temperature": role.temperature,
            "max_tokens": role.max_tokens,
            "stop": role.stop,
            "seed": self.seed,
        }
        if self.on_event is None:
            return await ask_chain(self._models, model, messages, **wishes)
        async with aclosing(stream_chain(self._models, model, messages, **wishes)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelAnswer):
                    return piece
                void = piece.because if isinstance(piece, Discard) else ""
                said = piece if isinstance(piece, str) else None
                self._let_hear(step, speaker, model, piece=said, discarded=void)
        raise AssertionError("a stream ends with its answer or an error")

    async def open(self, inputs: Mapping[str, Any], *, playbook: Digest | None = None, step: str = "") -> Child:
        """Perform another run, of this playbook or of the one with that digest, on money of this one.

        Raises what it raises; a run that failed is tried again when this one is taken up again.
        """
        if self._open_run is None:
            raise RunError("found a run that cannot open others; expected one of a workspace")
        opener = self._open_run

        async def work(run: str) -> Run:
            return await opener(self, run, playbook, dict(inputs))

        return await self.recorder.child(step or "open", [playbook, dict(inputs)], work)

    async def call(self, tool: str, confidence: float | None = None, /, **arguments: Any) -> Any:
        """Use a tool, whatever it says of itself, if the rules permit it, and a person where they ask for one.

        Raises ActionForbidden, or RunError with what went wrong; a failure is recorded too.
        """
        if tool not in self._tools:
            raise RunError(f"found no tool {tool!r}; expected one of: {', '.join(self._tools) or 'none were given'}")
        choose_model = self._tools[tool]
        arguments = deepcopy(arguments)  # what is confirmed is what is done
        await self._permitted(tool, arguments, confidence)

        async def used() -> Json:
            began = time.perf_counter()
            result, error = None, ""
            try:
                result = await choose_model.use(arguments)
            except RunError as wrong:
                error = str(wrong)
            seconds = time.perf_counter() - began
            return Call(
                tool=tool,
                arguments=arguments,
                result=result,
                error=error,
                changes=choose_model.changes,
                latency_seconds=seconds,
            ).body()

        call = Call(**await self.recorder.once("call", tool, arguments, used, risky=choose_model.changes))
        self.recorder.calls.append(call)
        if call.error:
            raise RunError(call.error)
        return call.result

    async def search(self, query: str, **more: Any) -> Any:
        """Look something up with the tool called `search`."""
        return await self.call("search", query=query, **more)

    async def _permitted(self, action: str, arguments: Json, confidence: float | None) -> None:
        permission = self.may(action, confidence)
        if permission.answer == "forbidden":
            await self.decide(f"may {action}", "forbidden", because=permission.because)
            raise ActionForbidden(f"{action}: {permission.because}")
        if permission.answer == "confirm" and not await self.confirm(action, permission.because, arguments):
            raise ActionForbidden(f"{action}: {permission.because}, and nobody confirmed it")
        if permission and not self.may(action):  # the confidence made the difference
            told = None if confidence is None else float(confidence)
            await self.decide(f"may {action}", "allowed", because=permission.because, confidence=told)

    def may(self, action: str, confidence: float | None = None) -> Permission:
        """Whether the rules let an action be taken: those of the playbook, and of the runs above this one."""
        return strictest(each.may(action, confidence) for each in (self.playbook, *self.above))

    async def confirm(self, action: str, because: str, arguments: Mapping[str, Any] | None = None) -> bool:
        """Ask a person, who sees the arguments. For what must never be done nobody is asked, and the answer is no.

        It is a decision, recorded with how it was answered.
        """
        permission = self.may(action)
        if permission.answer == "forbidden":
            await self.decide(f"may {action}", "forbidden", because=permission.because)
            return False
        words = [action, because] if arguments is None else [action, because, dict(arguments)]
        question = self._questions.next(action, because, arguments)

        async def asked() -> Json:
            said = await self._person.ask(question)
            yes = "yes" if said.yes is True else "no"
            return _decision(f"confirm {action}", yes, because, answered=said.how)

        return (await self._decided(f"confirm {action}", words, asked, person=True)).action == "yes"

    async def decide(
        self,
        point: str,
        action: str,
        *,
        because: str,
        propensity: float | None = None,
        confidence: float | None = None,
    ) -> str:
        """Record what was decided at a point, why, and with which chance; gives the action back."""
        body = _decision(point, action, because, propensity=propensity, confidence=confidence)

        async def decided() -> Json:
            return body

        return (await self._decided(point, body, decided)).action

    async def _decided(
        self, point: str, request: object, work: Callable[[], Awaitable[Json]], *, person: bool = False
    ) -> Decision:
        decision = Decision(**await self.recorder.once("decision", point, request, work, person=person))
        self.recorder.decisions.append(decision)
        return decision

    async def now(self) -> datetime:
        """The time, the same again in a replay."""
        read = await self._read("now", lambda: datetime.now(UTC).isoformat())
        return datetime.fromisoformat(read)

    async def random(self) -> float:
        """A number from 0 to 1, drawn from the run's seed, another one each time."""
        draw = random.Random(f"{self.seed} {next(self._draws)}")
        return float(await self._read("random", draw.random))

    async def log(self, text: str, **fields: Any) -> None:
        """Leave a remark in the record."""

        async def remark() -> Json:
            return {"text": text, **fields}

        await self.recorder.once("remark", "log", [text, fields], remark)

    async def _read(self, name: str, look: Callable[[], Any]) -> Any:
        async def looked() -> Json:
            return {"name": name, "value": look()}

        return (await self.recorder.once("reading", name, None, looked))["value"]


def parameters(role: Role, wished: ModelRequirements) -> Json:
    """How a role is asked beyond the words: of which model, or of one with which abilities, and with what settings."""
    open_to = {"needs": list(wished.needs), "prefer": wished.prefer, "quality": wished.quality}
    return {
        "model": wished.model,
        "wish": None if wished.model else open_to,
        "temperature": role.temperature,
        "max_tokens": role.max_tokens,
        "stop": list(role.stop),
        "max_cost_usd": wished.max_cost_usd,
    }


def _notices(got: ModelAnswer) -> tuple[str, ...]:
    told = tuple(map(str, got.substitutions))
    told += tuple(f"{each.model} was asked twice: {each.told}" for each in got.attempts if each.beaten)
    return told if got.reply.text.strip() else (*told, f"{got.reply.model} answered nothing")


def _tell(role: str, got: ModelAnswer) -> None:
    if not listeners:
        return
    for each in got.substitutions:
        emit(Substituted(asked=each.asked, used=each.used))
    emit(
        TurnEnded(
            role=role,
            model=got.reply.model,
            prompt_tokens=got.reply.usage.prompt_tokens,
            completion_tokens=got.reply.usage.completion_tokens,
            cost_usd=got.cost_usd,
            latency_seconds=got.reply.latency_seconds,
            waited_seconds=got.waited_seconds,
            finish_reason=got.reply.finish_reason,
        )
    )


def _decision(point: str, action: str, because: str, **more: Any) -> Json:
    return Decision(
        point=point, action=action, because=because, **{"propensity": None, "confidence": None} | more
    ).body()
