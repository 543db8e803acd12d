"""Stage: the one door between a program and the outside."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from seedbed.errors import ActionForbidden, PlaybookError, Problem, RunError, SettingsError
from seedbed.models.chat import Message, Model
from seedbed.models.fallback import Answered, answered
from seedbed.models.limits import Lines
from seedbed.playbooks.playbook import Playbook, Role
from seedbed.playbooks.rules import Permission
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Call, Decision, Turn
from seedbed.stage.ledger import USUAL_TOKENS, Ledger, Reservation, most_tokens
from seedbed.stage.tools import Tool
from seedbed.storage.store import Json
from seedbed.telemetry import Substituted, TurnEnded, emit, listeners, within

if TYPE_CHECKING:
    from seedbed.models.routing import Router

Confirm = Callable[[str, str], Awaitable[bool]]
"""Asks a person whether an action may be taken, with the reason why it is asked."""


async def nobody(action: str, because: str) -> bool:
    """Where no person can be asked the answer is no."""
    return False


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
        lines: Lines | None = None,
        router: Callable[[], Router] | None = None,
        ledger: Ledger | None = None,
        tools: Mapping[str, Tool] | None = None,
        confirm: Confirm | None = None,
    ) -> None:
        self.playbook = playbook
        self.recorder = recorder
        self.ledger = ledger or Ledger()
        self.output: Any = None
        """What the run gives: set by whoever performs it."""
        self._models = models
        self._lines = lines or Lines()
        self._router = router
        self._tools = tools or {}
        self._confirm = confirm or nobody
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
        step: str = "",
        last: bool = False,
    ) -> Turn:
        """Have a role answer; `before` is what was said earlier, `system` stands in for the role's own words.

        The `last` step of a run may spend what was kept for it. Raises BudgetSpent, ModelUnavailable.
        """
        asked = self._role(role)
        instructions = asked.system if system is None else system
        messages = [Message("system", instructions)] if instructions else []
        messages += [*before, Message("user", prompt)]
        spoken = tuple((message.role, message.text) for message in messages)

        request = "\x1e".join((role, *(f"{speaker}\x1f{text}" for speaker, text in spoken)))
        paid = False

        async def spoke() -> Turn:
            nonlocal paid
            paid = True
            model = asked.model or await self._chosen(step or role, role, asked, request)
            with within(step=step or role, model=model):
                got = await self._answered(asked, model, messages, last)
                _tell(role, got)
            return Turn(
                step=step,
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
                notices=tuple(map(str, got.substitutions)),
            )

        turn = await self.recorder.turn(step or role, request, spoke)
        if not paid:  # before the run was taken up again
            self.ledger.spend(turn.cost_usd)
        return turn

    def _role(self, name: str) -> Role:
        if name not in self.playbook.roles:
            known = ", ".join(self.playbook.roles) or "none"
            raise PlaybookError([Problem(f"roles.{name}", "nothing", f"one of the roles: {known}")])
        role = self.playbook.roles[name]
        if role.model is None and not (self._router and (role.needs or role.prefer)):
            remedy = "Name one, or say what it needs."
            raise PlaybookError([Problem(f"roles.{name}.model", "nothing", "a model of the workspace", remedy)])
        return role

    async def _chosen(self, place: str, name: str, role: Role, request: str) -> str:
        """The model for a role that names none: chosen once for a turn, and recorded with the chance of it."""
        assert self._router is not None
        router = self._router()

        async def choose() -> Json:
            choice = router.choose(
                "+".join(sorted(role.needs)) or name,
                role.needs,
                role.prefer,
                prompt_tokens=len(request.encode()) // 4,
                max_tokens=role.max_tokens or USUAL_TOKENS,
                seed=f"{self.seed}/{place}/{len(self.recorder.turns)}",
            )
            return {**choice.document(), "step": place}

        return str((await self.recorder.once("routing", place, request, choose))["model"])

    async def _answered(self, role: Role, model: str, messages: Sequence[Message], last: bool) -> Answered:
        """An answer by the model, or by those that stand in for it; every try is paid from the ledger."""

        def reserve(
            model: Model, messages: Sequence[Message], wanted: int | None
        ) -> AbstractAsyncContextManager[Reservation]:
            prompt_tokens = sum(most_tokens(message.text) for message in messages)
            return self.ledger.reserved(prompt_tokens, self._price(model, prompt_tokens), wanted, last=last)

        return await answered(
            self._models,
            model,
            messages,
            lines=self._lines,
            needs=role.needs,
            reserve=reserve,
            temperature=role.temperature,
            max_tokens=role.max_tokens,
            stop=role.stop,
            seed=self.seed,
        )

    def _price(self, model: Model, prompt_tokens: int) -> tuple[float, float]:
        price = model.price(prompt_tokens)
        if price is None and self.ledger.limit_usd is not None:
            found = "a limit on costs and no price"
            remedy = "Set usd_per_million on its card, or install the extra prices."
            raise SettingsError([Problem(f"models.{model.name}.usd_per_million", found, "two prices", remedy)])
        return price or (0.0, 0.0)

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """Use a tool. One that changes the world needs the rules' permission, and a person's where they ask for it.

        Raises ActionForbidden, or RunError with what went wrong; a failure is recorded too.
        """
        if tool not in self._tools:
            raise RunError(f"found no tool {tool!r}; expected one of: {', '.join(self._tools) or 'none were given'}")
        chosen = self._tools[tool]
        if chosen.changes:
            await self._permitted(tool)

        async def used() -> Json:
            began = time.perf_counter()
            result, error = None, ""
            try:
                result = await chosen.use(arguments)
            except RunError as wrong:
                error = str(wrong)
            seconds = time.perf_counter() - began
            return Call(
                tool=tool,
                arguments=arguments,
                result=result,
                error=error,
                changes=chosen.changes,
                latency_seconds=seconds,
            ).body()

        call = Call(**await self.recorder.once("call", tool, arguments, used, risky=chosen.changes))
        self.recorder.calls.append(call)
        if call.error:
            raise RunError(call.error)
        return call.result

    async def search(self, query: str, **more: Any) -> Any:
        """Look something up with the tool called `search`."""
        return await self.call("search", query=query, **more)

    async def _permitted(self, action: str) -> None:
        permission = self.may(action)
        if permission.answer == "forbidden":
            raise ActionForbidden(f"{action}: {permission.because}")
        if permission.answer == "confirm" and not await self.confirm(action, permission.because):
            raise ActionForbidden(f"{action}: {permission.because}, and nobody confirmed it")

    def may(self, action: str, confidence: float | None = None) -> Permission:
        """Whether the playbook's rules let an action be taken."""
        return self.playbook.may(action, confidence)

    async def confirm(self, action: str, because: str) -> bool:
        """Ask a person. The answer is a decision, recorded with who was asked for what."""

        async def asked() -> Json:
            said = await self._confirm(action, because)
            return _decision(f"confirm {action}", "yes" if said else "no", because)

        return (await self._decided(f"confirm {action}", [action, because], asked)).action == "yes"

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
        body = _decision(point, action, because, propensity, confidence)

        async def decided() -> Json:
            return body

        return (await self._decided(point, body, decided)).action

    async def _decided(self, point: str, request: object, work: Callable[[], Awaitable[Json]]) -> Decision:
        decision = Decision(**await self.recorder.once("decision", point, request, work))
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


def _tell(role: str, got: Answered) -> None:
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


def _decision(
    point: str, action: str, because: str, propensity: float | None = None, confidence: float | None = None
) -> Json:
    return Decision(point=point, action=action, because=because, propensity=propensity, confidence=confidence).body()
