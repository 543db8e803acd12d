"""What a turn costs above the model, alone and in a crowd, beside bare LangChain and LangGraph where it is installed.

    python benchmarks/dialogues.py [--crowd 1000]

Two speakers take ten turns; each sees all turns before. The model answers at once with 300 characters, so all that is
measured is what lies around it. Durable means: every turn is synced to SQLite before the next one begins. Figures are
medians; those in brackets are divided by the bare loop's.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.workspace import Workspace

TURNS = 10
REPEATS = 30
TALK = "x" * 300

Dialogue = Callable[[], Awaitable[Any]]


class Instant(BaseChatModel):
    """Answers at once."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=TALK, usage_metadata=usage))])

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        return self._generate()


def bare() -> Dialogue:
    model = Instant()

    async def talk() -> None:
        said: list[AnyMessage] = []
        for _ in range(TURNS):
            said.append(await model.ainvoke([*said, HumanMessage("go on")]))

    return talk


def seedbed(url: str) -> Dialogue:
    names = [f"s{number}" for number in range(TURNS)]
    steps = [
        {"name": name, "role": "ab"[number % 2], "prompt": "go on {q}", "sees": names[:number]}
        for number, name in enumerate(names)
    ]
    playbook = Playbook.from_document({"roles": {"a": {"model": "m"}, "b": {"model": "m"}}, "steps": steps})
    settings = Settings.model_validate({"by": "bench", "models": {"m": {"use": f"{__name__}.Instant"}}})
    space = Workspace(settings, open_store(url))
    space.library.keep(playbook, because="bench")

    async def talk() -> None:
        await space.run(playbook, q="why", seed=1)

    return talk


def langgraph(saver: Any = None) -> Dialogue:
    from langgraph.graph import END, START, MessagesState, StateGraph

    models = {"a": Instant(), "b": Instant()}

    def node(name: str) -> Any:
        async def speak(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await models[name].ainvoke([*state["messages"], HumanMessage("go on")])]}

        return speak

    graph = StateGraph(MessagesState)
    for name in models:
        graph.add_node(name, node(name))
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: END if len(state["messages"]) >= TURNS else "a", ["a", END])
    app = graph.compile(checkpointer=saver)
    threads = iter(range(10**9))

    async def talk() -> None:
        config = {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": 100}
        await app.ainvoke({"messages": []}, config, **({"durability": "sync"} if saver else {}))

    return talk


async def per_turn(talk: Dialogue) -> float:
    """Microseconds."""
    for _ in range(3):
        await talk()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        await talk()
        times.append(time.perf_counter() - began)
    return statistics.median(times) / TURNS * 1e6


async def crowd(talk: Dialogue, size: int) -> tuple[float, float]:
    """Seconds for so many dialogues at once, and the longest the event loop stood still, in milliseconds."""
    stalls = [0.0]

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append(time.perf_counter() - began - 0.001)

    watcher = asyncio.ensure_future(watch())
    began = time.perf_counter()
    await asyncio.gather(*(talk() for _ in range(size)))
    seconds = time.perf_counter() - began
    watcher.cancel()
    return seconds, sorted(stalls)[int(0.99 * len(stalls))] * 1e3


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowd", type=int, default=200, help="dialogues at once (default %(default)s)")
    size = parser.parse_args().crowd
    folder = Path(tempfile.mkdtemp(prefix="seedbed-dialogues-"))
    runners: dict[str, Dialogue] = {
        "bare LangChain loop": bare(),
        "seedbed, in memory": seedbed("memory:"),
        "seedbed, durable": seedbed(f"sqlite:///{folder / 'runs.db'}"),
    }
    if find_spec("langgraph"):
        runners["LangGraph"] = langgraph()
    print(f"| | µs per turn | {size} dialogues at once, s | loop stall p99, ms |\n|---|---:|---:|---:|")
    base: float | None = None
    for name, talk in runners.items():
        await _told(name, talk, size, base := base or await per_turn(runners["bare LangChain loop"]))
    if find_spec("langgraph") and find_spec("langgraph.checkpoint.sqlite"):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
            await _told("LangGraph, durable", langgraph(saver), size, base or 1.0)


async def _told(name: str, talk: Dialogue, size: int, base: float) -> None:
    alone = await per_turn(talk)
    seconds, stall = await crowd(talk, size)
    print(f"| {name} | {alone:,.0f} ({alone / base:.1f}×) | {seconds:.2f} | {stall:.0f} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
