"""A model that answers from a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from seedbed.errors import ModelUnavailable, SettingsError
from seedbed.models.cards import Model, Registry
from seedbed.models.chat import Message, Sampling, ask
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.models.usage import Usage


def script(replies: Any) -> Model:
    return Registry({"script": {"use": "scripted", "args": {"replies": replies}}})["script"]


async def said(model: Model, *texts: str) -> str:
    return (await ask(model, [Message("user", text) for text in texts])).text


async def test_the_first_expression_found_in_the_prompt_answers() -> None:
    model = script({r"colou?r": "blue", r"^what": "a thing", r".": "anything"})
    assert await said(model, "which color is it?") == "blue"
    assert await said(model, "what colour is it?") == "blue"
    assert await said(model, "what is it?") == "a thing"
    assert await said(model, "who is it?") == "anything"


async def test_only_the_last_user_message_is_looked_at() -> None:
    model = script({"first": "1", "second": "2"})
    talk = [
        Message("system", "first"),
        Message("user", "first"),
        Message("user", "second"),
        Message("assistant", "first"),
    ]
    assert (await ask(model, talk)).text == "2"


async def test_a_reply_is_plain_text() -> None:
    assert await said(script({r"(\w+)": r"{0} \1 {name}"}), "hello") == r"{0} \1 {name}"


async def test_a_list_is_read_out_in_the_order_of_the_questions() -> None:
    model = script(["one", "two", "three", "four"])
    assert await asyncio.gather(*(said(model, question) for question in "abc")) == ["one", "two", "three"]
    assert await said(model, "d") == "four"


async def test_a_list_that_is_over_says_so_and_quotes_the_prompt() -> None:
    model = script(["one"])
    await said(model, "a")
    with pytest.raises(
        ModelUnavailable, match=r'over: found the prompt "and then\?"; expected no more than 1\. Add a reply'
    ):
        await said(model, "and then?")


async def test_a_prompt_that_nothing_matches_is_quoted_with_what_would_match() -> None:
    with pytest.raises(ModelUnavailable, match=r'"what now\?".*"hello" or "bye"\. Add a reply'):
        await said(script({"hello": "hi", "bye": "see you"}), "what now?")


async def test_tokens_are_words() -> None:
    model = script({"": "three little words"})
    reply = await ask(model, [Message("system", "be  kind"), Message("user", "say\nsomething nice")])
    assert reply.usage == Usage(prompt_tokens=5, completion_tokens=3)


async def test_a_script_is_written_in_yaml() -> None:
    document = """
    models:
      critic: {use: scripted, args: {replies: {'weak.*claim': The second., '.*': None.}}}
    """
    critic = Registry(yaml.safe_load(document)["models"])["critic"]
    assert await said(critic, "Which is the weakest claim?") == "The second."


def test_an_expression_that_is_wrong_is_refused_with_its_place() -> None:
    with pytest.raises(SettingsError, match=r"models\.script\.args.*regular expression"):
        _ = script({"(": "never"}).chat


def test_it_answers_langchain_without_an_event_loop() -> None:
    assert ScriptedChat(replies=["yes"]).invoke("really?").text == "yes"


async def test_an_answer_ends_after_max_tokens_or_where_a_stop_text_begins() -> None:
    model = script({"": "one two three. four"})
    asked = [Message("user", "?")]
    short = await ask(model, asked, Sampling(max_tokens=2))
    assert (short.text, short.usage.completion_tokens, short.finish_reason) == ("one two", 2, "length")
    stopped = await ask(model, asked, Sampling(max_tokens=3, stop=["."]))
    assert (stopped.text, stopped.finish_reason) == ("one two three", "stop")


@pytest.mark.parametrize("text", ["", " ", "one", "  one  two\n\nthree \n"])
async def test_pieces_of_a_stream_make_up_the_answer(text: str) -> None:
    pieces = [str(piece.text) async for piece in ScriptedChat(replies=[text]).astream("?")]
    assert "".join(pieces) == text
    assert "".join(str(piece.text) for piece in ScriptedChat(replies=[text]).stream("?")) == text


async def test_a_missing_reply_is_our_own_mistake() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await said(script([]), "?")
    assert caught.value.why == "ours"
