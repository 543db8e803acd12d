"""The same dialogue in seedbed and in its peers: two speakers take ten turns, and each sees all turns before.

Every model here answers after `wait` seconds with 300 characters and tells its usage, in the way its library likes
best. Whoever keeps a dialogue syncs every turn to SQLite before the next one begins. AutoGen can tell its state but
stores it nowhere, and pydantic-ai leaves it to Temporal, DBOS or Prefect, so they have no durable row.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

TURNS = 10
TALK = "x" * 300

Dialogue = Callable[[], Awaitable[Any]]
Opened = AbstractAsyncContextManager[Dialogue]


@dataclass(frozen=True)
class Peer:
    """How somebody holds the dialogue, and how it has three speakers answer together."""

    talk: Callable[[float, Path], Opened]
    """Given the model's seconds, and a folder for what is kept."""
    three: Callable[[float, Path], Opened] | None = None
    needs: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        return all(find_spec(package.partition(".")[0]) and find_spec(package) for package in self.needs)


class Instant(BaseChatModel):
    """A LangChain model, for seedbed, LangGraph and the bare loop."""

    wait: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=TALK, usage_metadata=usage))])

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        if self.wait:
            await asyncio.sleep(self.wait)
        return self._generate()


# Nobody


@asynccontextmanager
async def model_alone(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    model = Instant(wait=wait)

    async def talk() -> None:
        for _ in range(TURNS):
            await model._agenerate([])

    yield talk


@asynccontextmanager
async def bare(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    model = Instant(wait=wait)

    async def talk() -> None:
        said: list[AnyMessage] = []
        for _ in range(TURNS):
            said.append(await model.ainvoke([*said, HumanMessage("go on")]))

    yield talk


@asynccontextmanager
async def bare_three(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    model = Instant(wait=wait)

    async def talk() -> None:
        await asyncio.gather(*(model.ainvoke([HumanMessage("go on")]) for _ in range(3)))

    yield talk


# seedbed


def _steps() -> list[Any]:
    names = [f"s{number}" for number in range(TURNS)]
    return [
        {"name": name, "role": "ab"[number % 2], "prompt": "go on {q}", "sees": names[:number]}
        for number, name in enumerate(names)
    ]


@asynccontextmanager
async def _seedbed(url: str, wait: float, steps: list[Any]) -> AsyncIterator[Dialogue]:
    from seedbed.playbooks.playbook import Playbook
    from seedbed.settings import Settings
    from seedbed.storage import open_store
    from seedbed.workspace import Workspace

    playbook = Playbook.from_document({"roles": {"a": {"model": "m"}, "b": {"model": "m"}}, "steps": steps})
    card = {"use": f"{Instant.__module__}.Instant", "args": {"wait": wait}}
    space = Workspace(Settings.model_validate({"by": "bench", "models": {"m": card}}), open_store(url))

    async def talk() -> None:
        await space.run(playbook, q="why", seed=1)

    yield talk
    space.close()


def seedbed(wait: float, _: Path) -> Opened:
    return _seedbed("memory:", wait, _steps())


def seedbed_durable(wait: float, folder: Path) -> Opened:
    return _seedbed(f"sqlite:///{folder / 'runs.db'}", wait, _steps())


def _together() -> list[Any]:
    return [{"together": [{"name": name, "role": "a", "prompt": "go on {q}"} for name in ("x", "y", "z")]}]


def seedbed_three(wait: float, _: Path) -> Opened:
    return _seedbed("memory:", wait, _together())


def seedbed_durable_three(wait: float, folder: Path) -> Opened:
    return _seedbed(f"sqlite:///{folder / 'three.db'}", wait, _together())


# LangGraph


def _node(model: Instant) -> Any:
    from langgraph.graph import MessagesState

    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([*state["messages"], HumanMessage("go on")])]}

    return speak


def _graph(wait: float, saver: Any = None) -> Dialogue:
    from langgraph.graph import END, START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    for name in "ab":
        graph.add_node(name, _node(Instant(wait=wait)))
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: END if len(state["messages"]) >= TURNS else "a", ["a", END])
    return _invoked(graph, saver)


def _graph_three(wait: float, saver: Any = None) -> Dialogue:
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    for name in "xyz":
        graph.add_node(name, _node(Instant(wait=wait)))
        graph.add_edge(START, name)
    return _invoked(graph, saver)


def _invoked(graph: Any, saver: Any) -> Dialogue:
    app = graph.compile(checkpointer=saver)
    threads = count()

    async def talk() -> None:
        config = {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": 100}
        await app.ainvoke({"messages": []}, config, **({"durability": "sync"} if saver else {}))

    return talk


@asynccontextmanager
async def langgraph(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    yield _graph(wait)


@asynccontextmanager
async def langgraph_three(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    yield _graph_three(wait)


def _kept(made: Callable[[float, Any], Dialogue]) -> Callable[[float, Path], Opened]:
    @asynccontextmanager
    async def opened(wait: float, folder: Path) -> AsyncIterator[Dialogue]:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(folder / f"graph{wait}.db")) as saver:
            yield made(wait, saver)

    return opened


# AutoGen


def _client(wait: float) -> Any:
    from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage

    usage = RequestUsage(prompt_tokens=10, completion_tokens=10)

    class Client(ChatCompletionClient):
        async def create(self, *_: Any, **__: Any) -> CreateResult:
            if wait:
                await asyncio.sleep(wait)
            return CreateResult(finish_reason="stop", content=TALK, usage=usage, cached=False)

        def create_stream(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def close(self) -> None: ...

        def actual_usage(self) -> RequestUsage:
            return usage

        total_usage = actual_usage

        def count_tokens(self, *_: Any, **__: Any) -> int:
            return 10

        remaining_tokens = count_tokens

        @property
        def model_info(self) -> ModelInfo:
            return ModelInfo(
                vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False
            )

        capabilities = model_info

    return Client()


@asynccontextmanager
async def autogen(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat

    client = _client(wait)

    async def talk() -> None:  # a team holds one dialogue at a time
        speakers = [AssistantAgent(name, client, system_message=None) for name in "ab"]
        await RoundRobinGroupChat(speakers, max_turns=TURNS).run(task="go on")

    yield talk


@asynccontextmanager
async def autogen_three(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import DiGraphBuilder, GraphFlow

    client = _client(wait)

    async def talk() -> None:
        graph = DiGraphBuilder()
        for name in "xyz":
            graph.add_node(AssistantAgent(name, client, system_message=None))
        await GraphFlow(graph.get_participants(), graph.build()).run(task="go on")

    yield talk


# pydantic-ai


def _agent(wait: float) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    async def answer(*_: Any) -> ModelResponse:
        if wait:
            await asyncio.sleep(wait)
        return ModelResponse(parts=[TextPart(TALK)], usage=RequestUsage(input_tokens=10, output_tokens=10))

    return Agent(FunctionModel(answer))


@asynccontextmanager
async def pydantic_ai(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    speakers = [_agent(wait), _agent(wait)]

    async def talk() -> None:
        said: Any = []
        for number in range(TURNS):
            said = (await speakers[number % 2].run("go on", message_history=said)).all_messages()

    yield talk


@asynccontextmanager
async def pydantic_ai_three(wait: float, _: Path) -> AsyncIterator[Dialogue]:
    speakers = [_agent(wait) for _ in range(3)]

    async def talk() -> None:
        await asyncio.gather(*(speaker.run("go on") for speaker in speakers))

    yield talk


PEERS: dict[str, Peer | None] = {
    "the model itself": Peer(model_alone),
    "bare LangChain loop": Peer(bare, bare_three),
    "seedbed, in memory": Peer(seedbed, seedbed_three),
    "seedbed, durable": Peer(seedbed_durable, seedbed_durable_three),
    "LangGraph": Peer(langgraph, langgraph_three, ("langgraph.graph",)),
    "LangGraph, durable": Peer(_kept(_graph), _kept(_graph_three), ("langgraph.graph", "langgraph.checkpoint.sqlite")),
    "AutoGen": Peer(autogen, autogen_three, ("autogen_agentchat",)),
    "AutoGen, durable": None,
    "pydantic-ai": Peer(pydantic_ai, pydantic_ai_three, ("pydantic_ai",)),
    "pydantic-ai, durable": None,
}
