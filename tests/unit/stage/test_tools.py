"""Tools are typed functions that read the world or change it."""

from __future__ import annotations

import asyncio
import time

import pytest
from langchain_core.tools import StructuredTool

from seedbed.errors import PlaybookError, RunError
from seedbed.stage.tools import Tool, tool, toolbox


@tool(effect="reads")
async def look_up(word: str, times: int = 1) -> str:
    """What a word means."""
    return f"{word}!" * times


@tool(changes=True, name="send", timeout_seconds=0.01)
async def send_mail(to: str) -> str:
    await asyncio.sleep(60)
    return to


async def test_a_tool_says_what_it_is() -> None:
    assert (look_up.name, look_up.changes, look_up.about) == ("look_up", False, "What a word means.")
    assert (send_mail.name, send_mail.changes) == ("send", True)
    assert await look_up.use({"word": "ja", "times": 2}) == "ja!ja!"


@pytest.mark.parametrize("arguments", [{}, {"word": "ja", "times": "often"}, {"word": "ja", "volume": 11}])
async def test_arguments_that_do_not_fit_are_named(arguments: dict[str, object]) -> None:
    with pytest.raises(RunError, match=r"tool look_up: found arguments that do not fit: (word|times|volume)"):
        await look_up.use(arguments)


async def test_a_tool_that_hangs_is_given_up() -> None:
    with pytest.raises(RunError, match=r"tool send: found no answer in time; expected one within at most 0\.01 s"):
        await send_mail.use({"to": "anna"})


async def test_a_tool_that_raises_says_so_under_its_name() -> None:
    @tool(effect="reads")
    def divide(by: int) -> float:
        return 1 / by

    with pytest.raises(RunError, match="tool divide failed: ZeroDivisionError"):
        await divide.use({"by": 0})


async def test_a_plain_function_does_not_hold_up_the_loop() -> None:
    def slow() -> str:
        time.sleep(0.05)
        return "done"

    ticks = 0

    async def ticking() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    other = asyncio.ensure_future(ticking())
    assert await toolbox([slow])["slow"].use({}) == "done"
    other.cancel()
    assert ticks > 1


async def test_langchain_tools_are_tools_and_say_in_their_metadata_whether_they_change_anything() -> None:
    async def shout(text: str) -> str:
        """Louder."""
        return text.upper()

    reading = StructuredTool.from_function(coroutine=shout, metadata={"effect": "reads"})
    older = [("hear", {"changes": False}), ("publish", {"changes": True}), ("mail", {"effect": "sends"}), ("say", None)]
    others = [StructuredTool.from_function(coroutine=shout, name=name, metadata=about) for name, about in older]
    box = toolbox([reading, *others])
    effects = {"shout": "reads", "hear": "reads", "publish": "changes", "mail": "sends", "say": "changes"}
    assert {name: each.effect for name, each in box.items()} == effects
    assert await box["shout"].use({"text": "hi"}) == "HI"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(PlaybookError, match="two tools named look_up"):
        toolbox([look_up, Tool("look_up", print)])


async def test_a_tool_that_keeps_its_own_time_is_told_to_be_late_all_the_same() -> None:
    async def slow() -> None:
        raise TimeoutError

    with pytest.raises(RunError, match="tool slow: found no answer in time"):
        await Tool("slow", slow, timeout_seconds=None).use({})
