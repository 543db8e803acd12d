"""Frameworks: the stage of a run as LangChain's models and tools, and as the server of an OpenAI client.

The libraries are loaded when a program asks for them. Frameworks swallow errors, so that what a model must not be told
ends the run: see `Stage.fail`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from seedbed.errors import ActionForbidden, ModelUnavailable, ToolFailed
from seedbed.models.chat import Message, Reply, Sampling, ToolCall, ToolOffer
from seedbed.models.usage import Usage
from seedbed.plugins import load
from seedbed.runs.run import Turn
from seedbed.stage.tools import Tool
from seedbed.stage.turns.model_turns import TurnOptions
from seedbed.storage.store import canonical, digest

if TYPE_CHECKING:
    from seedbed.models.langchain.staged import StagedChat, StagedTool

STAGED = "seedbed.models.langchain.staged"


class TurnsAndCalls(Protocol):
    """What frameworks need of a stage."""

    @property
    def toolbox(self) -> Mapping[str, Tool]: ...
    def instructions(self, role: str) -> list[Message]: ...
    def offer(self, names: Sequence[str]) -> ToolOffer | None: ...
    def fail(self, error: Exception) -> None: ...
    async def turn(self, role: str, messages: Sequence[Message], options: TurnOptions, *, step: str) -> Turn: ...
    async def call_as(self, call: str, tool: str, /, **arguments: Any) -> Any: ...


class StagedRoles:
    """What frameworks call: the roles and tools of a stage, under the name of a step if there is one."""

    def __init__(self, stage: TurnsAndCalls, step: str = "") -> None:
        self._stage, self._step = stage, step

    def model(self, role: str) -> StagedChat:
        self._stage.instructions(role)  # raises PlaybookError for one that is not there
        chat: StagedChat = load(f"{STAGED}:StagedChat", "model")(
            role=role, ask=self.ask, loop=asyncio.get_running_loop()
        )
        return chat

    def tools(self, names: Sequence[str]) -> list[StagedTool]:
        kind, loop = load(f"{STAGED}:StagedTool", "tools"), asyncio.get_running_loop()
        offer = self._stage.offer(names)
        return [
            kind(name=name, description=each["about"], args_schema=each["parameters"], use=self.use, loop=loop)
            for name, each in (offer.tools if offer else {}).items()
        ]

    def openai(self, *, blocking: bool) -> dict[str, Any]:
        options: dict[str, Any] = load("seedbed.models.openai_transport:client_options", "openai")(
            self.ask, asyncio.get_running_loop(), blocking=blocking
        )
        return options

    async def ask(self, role: str, messages: Sequence[Message], sampling: Sampling) -> Reply:
        """One turn of a role."""
        offer = self._marked(sampling.offer)
        options = TurnOptions(offer, sampling.form, stop=tuple(sampling.stop))
        try:
            turn = await self._stage.turn(role, messages, options, step=self._step)
        except ModelUnavailable:  # a framework may have another model to ask
            raise
        except Exception as error:
            self._stage.fail(error)
            raise
        return Reply(
            text=turn.text,
            usage=Usage(turn.prompt_tokens, turn.completion_tokens),
            cost_usd=turn.cost_usd,
            latency_seconds=turn.latency_seconds,
            model=turn.model,
            finish_reason=turn.finish_reason,
            calls=tuple(ToolCall(**each) for each in turn.calls),
            native=turn.native,
            cached_tokens=turn.cached_tokens,
        )

    async def use(self, call: str, tool: str, arguments: dict[str, Any]) -> str:
        """One call of a tool; raises a ToolException for what its model is told."""
        try:
            result = await self._stage.call_as(call, tool, **arguments)
        except (ToolFailed, ActionForbidden) as failed:
            raise load(f"{STAGED}:tool_error", "tools")(failed) from None
        except Exception as error:
            self._stage.fail(error)
            raise
        return result if isinstance(result, str) else canonical(result)

    def _marked(self, offer: ToolOffer | None) -> ToolOffer | None:
        """An offer that says which of its tools change the world, as those of the stage do."""
        if offer is None:
            return None
        known = self._stage.toolbox
        tools = {name: {**each, "changes": name in known and known[name].changes} for name, each in offer.tools.items()}
        return ToolOffer(digest("toolset", tools), tools, offer.choice)
