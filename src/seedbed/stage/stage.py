"""Stage: everything a program may do outside of itself goes through it, and is recorded."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from seedbed.errors import (
    ActionForbidden,
    InDoubt,
    PlaybookError,
    Problem,
    QuotaSpent,
    RunError,
    Stopped,
    ToolFailed,
)
from seedbed.models.calling.fallback import ModelCall
from seedbed.models.calling.limits import ModelLimits
from seedbed.models.cards import Model, fallback_chain
from seedbed.models.chat import Message, ToolOffer, prompt_texts
from seedbed.playbooks.playbook import Playbook, Role, Step
from seedbed.playbooks.rules import Permission
from seedbed.playbooks.steps.tool_use import chosen
from seedbed.plugins import suggestion
from seedbed.runs.cassette import CONFIRM
from seedbed.runs.claims import idempotency_key
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Call, Child, Decision, Run, RunEvent, Turn
from seedbed.spending.ledger import Ledger
from seedbed.stage.confirmation import Callback, Nobody, Person, Questions
from seedbed.stage.frameworks import StagedRoles
from seedbed.stage.options import StageOptions
from seedbed.stage.permission import ActionRules, unconfirmed
from seedbed.stage.tools import Tool, toolset
from seedbed.stage.turns.model_choice import ModelRequirements, choose_model, request_parameters
from seedbed.stage.turns.model_turns import PLAIN, TurnOptions, TurnRequest, emit_turn, failure_of, pieces_of, turn_of
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Digest, Json, digest
from seedbed.telemetry import ToolEnded, emit, within

if TYPE_CHECKING:
    from seedbed.models.langchain.staged import StagedChat, StagedTool


class Stage:
    """What a program may do: ask the playbook's roles, call tools, decide, read the clock.

    Everything is recorded in the order in which it is done. A run that is resumed, or replayed, gets the recorded
    answers; only what is missing is done again.
    """

    def __init__(
        self,
        playbook: Playbook,
        models: Callable[[str], Model],
        recorder: Recorder,
        options: StageOptions | None = None,
    ) -> None:
        options = options or StageOptions()
        self.playbook = playbook
        self.recorder = recorder
        self.ledger = options.ledger or Ledger()
        self.output: Any = None
        """The output of the run, set by the caller that performs it."""
        self.on_event = options.on_event
        self.depth = options.depth
        self.above = tuple(options.above)
        self.taken = [] if options.taken is None else options.taken
        self._models = models
        self._limits = options.limits or ModelLimits()
        self._router = options.router
        self.toolbox = options.tools or {}
        """The tools of the run by name."""
        self._rules = ActionRules((playbook, *self.above), self.toolbox, self.taken, recorder.unasked)
        confirm = options.confirm or Nobody()
        self._person = confirm if isinstance(confirm, Person) else Callback(confirm)
        self._questions = Questions(recorder.id, playbook.digest)
        self._open_run, self.spender = options.open_run, options.spender
        self.on_start, self.run_time = options.on_start, options.run_time
        self._draws = count()

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
        """Ask a role; `before` are the earlier messages, `system` replaces the role's own instructions.

        `step` names the turn; what a Step needs and may cost overrides what the role says. The `last` turn of a run
        may spend what was reserved for it. Raises BudgetSpent, ModelUnavailable.
        """
        messages = [*self.instructions(role, system), *before, Message("user", prompt)]
        return await self.turn(role, messages, TurnOptions(last=last), step=step)

    def instructions(self, role: str, system: str | None = None) -> list[Message]:
        """The first message to a role: its own instructions, or those; none if they are empty."""
        text = self._role(role).system if system is None else system
        return [Message("system", text)] if text else []

    async def turn(
        self, role: str, messages: Sequence[Message], options: TurnOptions = PLAIN, *, step: Step | str = ""
    ) -> Turn:
        """Ask a role with these messages. Calls of tools that it answers are left to the caller. As `ask`, which is the
        usual way; frameworks come in here."""
        speaker = self._role(role)
        requirements = ModelRequirements.of(speaker, step, self.recorder.quality)
        name = step if isinstance(step, str) else step.name
        label, request = name or role, TurnRequest(role, messages, options)
        last = options.last and not self.depth  # the reserve is for the end of the topmost run
        event = RunEvent(run=self.recorder.id, step=label, role=role, model=requirements.model or "", depth=self.depth)

        async def work() -> Json:
            named = requirements.model
            chain = [named] if named else await self._choose(label, requirements, request, last)
            ledger = Ledger(requirements.max_cost_usd, last_share=0.0, within=self.ledger)
            if options.offer:
                await self.recorder.store_content("toolset", dict(options.offer.tools))
            call = ModelCall(
                fallback_chain(self._models, *chain),
                messages,
                self._limits,
                requirements.needs,
                self.spender.reserve_from(ledger, last, options.beyond),
                options.sampling(speaker, self.seed),
                pieces_of(replace(event, model=chain[0]), self._notify) if self.on_event else None,
            )
            try:
                with within(step=label, model=chain[0]):
                    answer = await call.answer()
                    emit_turn(role, answer, call)
            except Exception as error:
                if failure := failure_of(name, role, error, ledger):
                    await self.recorder.record_failure(failure)
                if isinstance(error, QuotaSpent | Stopped):  # the run has ended, even if its program catches that
                    self.recorder.claims.stop(error)
                raise
            self.recorder.paid_usd += answer.cost_usd
            return turn_of(name, request, self.seed, answer).body()

        def details() -> Json:
            return {**request.document(), **request_parameters(speaker, requirements)}

        try:
            recorded = await self.recorder.record("turn", label, request.words, work, details=details)
            turn = self.recorder.add_turn(recorded)
        except Exception as error:
            self._notify(replace(event, failed=str(error) or type(error).__name__))
            raise
        self._notify(replace(event, model=turn.model, turn=turn))
        return turn

    def _notify(self, event: RunEvent) -> None:
        if self.on_event:
            self.on_event(event)

    def _role(self, name: str) -> Role:
        roles = self.playbook.roles
        if name not in roles:
            expected = f"one of the roles: {', '.join(roles) or 'none'}"
            raise PlaybookError([Problem(f"roles.{name}", "nothing", expected, suggestion(name, roles))])
        return roles[name]

    async def _choose(self, step: str, requirements: ModelRequirements, request: TurnRequest, last: bool) -> list[str]:
        """The model for a turn that names none, chosen once and recorded with its chance; and if it fails, the other
        models that can do what is needed, the most promising first."""
        if self._router is None:
            remedy, place = "Name one, or say what it needs.", f"roles.{request.role}.model"
            raise PlaybookError([Problem(place, "nothing", "a model of the workspace", remedy)])
        router, seed = await off_loop(self._router), f"{self.seed}/{step}/{len(self.recorder.turns)}"
        texts = prompt_texts(request.messages, request.options.beyond)

        async def choose() -> Json:
            choice = await choose_model(router, self.ledger, requirements, step, texts, last=last, seed=seed)
            return {**choice.document(), "step": step}

        routed = await self.recorder.record("routing", step, request.words, choose)
        fitting = [each for each in routed["considered"] if not each["rejected"]]
        return [routed["model"], *(each["model"] for each in sorted(fitting, key=lambda each: -each["score"]))]

    async def open(self, inputs: Mapping[str, Any], *, playbook: Digest | None = None, step: str = "") -> Child:
        """Perform another run, of this playbook or of the one with that digest, within the budget of this one.

        Raises what it raises; a run that failed is tried again when this one is resumed.
        """
        if self._open_run is None:
            raise RunError("found a run that cannot open others; expected one of a workspace")
        opener = self._open_run

        async def work(run: str) -> Run:
            return await opener(self, run, playbook, dict(inputs))

        return await self.recorder.record_child(step or "open", [playbook, dict(inputs)], work)

    async def call(self, tool: str, confidence: float | None = None, /, **arguments: Any) -> Any:
        """Use a tool if the rules permit it and, where they ask for one, a person confirms it.

        Raises ActionForbidden, or ToolFailed if it fails; a failure is recorded too. Raises InDoubt if it may have
        changed the world and its result is lost: the run then ends.
        """
        return await self.call_as("", tool, confidence, **arguments)

    async def call_as(self, call: str, tool: str, confidence: float | None = None, /, **arguments: Any) -> Any:
        """`call` for what a model asked for under that id: each of several equal calls keeps its own result in a
        replay, in whichever order they are made."""
        self._tool(tool)
        arguments = deepcopy(arguments)  # the program must not alter what a person confirms
        await self.require_permission(tool, arguments, confidence)
        done = await self.use(tool, arguments, call)
        if done.error:
            raise ToolFailed(done.error)
        return done.result

    def _tool(self, name: str) -> Tool:
        if name not in self.toolbox:
            known = ", ".join(self.toolbox) or "none were given"
            near = suggestion(name, self.toolbox)
            raise RunError(f"found no tool {name!r}; expected one of: {known}{f'. {near}' if near else ''}")
        return self.toolbox[name]

    async def use(self, tool: str, arguments: Json, call: str = "") -> Call:
        """Use a tool that was permitted; `call` is the id under which a model asked for it. The result has its own
        error, if it fails; other errors are raised, as by `call`."""
        used = self._tool(tool)
        confirmed = any(each.point == f"{CONFIRM}{tool}" for each in self.recorder.decisions)
        risky, acted = used.acts == "really" and (used.changes or confirmed), False
        try:
            if self.spender.check:
                await self.spender.check()
        except Stopped as stopped:
            raise self.recorder.claims.stop(stopped) from None
        # From here until it is recorded nothing may be awaited: the key is that of the next such request.
        turn = self.recorder.keys.expect(call, tool, arguments)
        with_key = used.with_key(arguments, idempotency_key(self.recorder.keys.next("call", tool, arguments)))

        async def work() -> Json:
            nonlocal acted
            acted, began = True, time.perf_counter()
            result, error = None, ""
            try:
                result = await used.use(with_key)
            except RunError as wrong:
                if risky and isinstance(wrong, InDoubt):
                    raise
                error = str(wrong)
            seconds = time.perf_counter() - began
            emit(ToolEnded(tool=tool, seconds=seconds, failed=bool(error)))
            return Call(
                tool=tool,
                arguments=arguments,
                result=result,
                error=error,
                changes=used.changes,
                latency_seconds=seconds,
                call=call,
                turn=turn,
                how="real" if used.acts == "really" else used.acts,
            ).body()

        done = Call.from_body(await self.recorder.record("call", tool, arguments, work, risky=risky))
        if used.acts == "sandbox" and not acted:  # the sandbox of a run that was resumed is a new one
            await work()
        self.recorder.calls.append(done)
        self._notify(RunEvent(run=self.recorder.id, step=tool, role="", model="", depth=self.depth, call=done))
        return done

    def model(self, role: str, *, step: str = "") -> StagedChat:
        """A role as a LangChain chat model, for any agent made of one; agents at the same time have a `step` each."""
        return StagedRoles(self, step).model(role)

    def tools(self, *names: str) -> list[StagedTool]:
        """The tools with these names as LangChain tools; by default those of the roles, or all if they name none."""
        named = {name for role in self.playbook.roles.values() for name in role.tools}
        return StagedRoles(self).tools(names or sorted(named) or ["*"])

    def openai(self, *, step: str = "", blocking: bool = False) -> dict[str, Any]:
        """The arguments of an `AsyncOpenAI` client, or of a blocking `OpenAI` for other threads, whose chat completions
        are turns of this run: `model=` is a role."""
        return StagedRoles(self, step).openai(blocking=blocking)

    def offer(self, names: Collection[str], choice: str = "") -> ToolOffer | None:
        """The tools that these names and patterns choose, as a model is offered them; None if they choose none."""
        if not (tools := toolset(self.toolbox, chosen(names, self.toolbox), self.playbook.tools)):
            return None
        return ToolOffer(digest("toolset", tools), tools, choice)

    def fail(self, error: Exception) -> None:
        """End the run with this error, whatever the framework makes of it that raised it here: every later use of the
        stage raises it again."""
        self.recorder.claims.stopped = self.recorder.claims.stopped or error

    async def search(self, query: str, **more: Any) -> Any:
        """Look something up with the tool called `search`."""
        return await self.call("search", query=query, **more)

    async def require_permission(self, action: str, arguments: Json, confidence: float | None = None) -> None:
        """Ask the rules, and a person where they say so. Raises ActionForbidden."""
        permission, unsure = self.may(action, confidence, arguments), self.may(action, None, arguments)
        if permission.answer == "forbidden":
            await self.decide(f"may {action}", "forbidden", because=permission.because)
            raise ActionForbidden(f"{action}: {permission.because}")
        with self._rules.taking(action, arguments):
            if permission.answer == "confirm" and not await self.confirm(action, permission.because, arguments):
                raise ActionForbidden(unconfirmed(action, permission.because))
        if permission and not unsure:  # the confidence made the difference
            sure = None if confidence is None else float(confidence)
            await self.decide(f"may {action}", "allowed", because=permission.because, confidence=sure)

    def may(
        self, action: str, confidence: float | None = None, arguments: Mapping[str, Any] | None = None
    ) -> Permission:
        """Whether the rules permit an action: those of the playbook, and of the runs above this one.

        Without arguments the answer is the strictest that any could get.
        """
        return self._rules.may(action, confidence, arguments)

    async def confirm(self, action: str, because: str, arguments: Mapping[str, Any] | None = None) -> bool:
        """Ask a person, who sees the arguments. A forbidden action is refused without asking anybody.

        The answer is recorded as a decision, with how it was given.
        """
        permission = self.may(action, None, arguments)
        if permission.answer == "forbidden":
            await self.decide(f"may {action}", "forbidden", because=permission.because)
            return False
        words = [action, because] if arguments is None else [action, because, dict(arguments)]
        question = self._questions.next(action, because, arguments)

        async def ask() -> Json:
            reply = await self._person.ask(question)
            yes = "yes" if reply.yes is True else "no"
            return Decision(point=f"{CONFIRM}{action}", action=yes, because=because, answered=reply.how).body()

        return (await self._record_decision(f"{CONFIRM}{action}", words, ask, person=True)).action == "yes"

    async def decide(
        self,
        point: str,
        action: str,
        *,
        because: str,
        propensity: float | None = None,
        confidence: float | None = None,
    ) -> str:
        """Record a decision of the program at a point, its reason and its chance; returns the action."""
        body = Decision(
            point=point, action=action, because=because, propensity=propensity, confidence=confidence
        ).body()

        async def decision() -> Json:
            return body

        return (await self._record_decision(point, body, decision)).action

    async def _record_decision(
        self, point: str, request: object, work: Callable[[], Awaitable[Json]], *, person: bool = False
    ) -> Decision:
        decision = Decision.from_body(await self.recorder.record("decision", point, request, work, person=person))
        self.recorder.decisions.append(decision)
        return decision

    async def now(self) -> datetime:
        """The time; a replay returns the recorded one."""
        read = await self._read("now", lambda: datetime.now(UTC).isoformat())
        return datetime.fromisoformat(read)

    async def random(self) -> float:
        """A random number from 0 to 1, from the seed of the run."""
        draw = random.Random(f"{self.seed} {next(self._draws)}")
        return float(await self._read("random", draw.random))

    async def log(self, text: str, **fields: Any) -> None:
        """Record a remark."""

        async def remark() -> Json:
            return {"text": text, **fields}

        await self.recorder.record("remark", "log", [text, fields], remark)

    async def _read(self, name: str, read: Callable[[], Any]) -> Any:
        async def reading() -> Json:
            return {"name": name, "value": read()}

        return (await self.recorder.record("reading", name, None, reading))["value"]
