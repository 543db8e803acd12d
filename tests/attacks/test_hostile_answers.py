"""Models that answer what no program can read: values that JSON cannot hold, calls without end, schemas that trap."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

import seedbed
from seedbed import Dataset, Playbook, Task, Workspace, tool
from seedbed.errors import ModelUnavailable, PlaybookError, RunError
from seedbed.models import chat
from seedbed.models.cards import Registry
from seedbed.models.chat import Message, ask, stream
from seedbed.models.requests import read_request
from seedbed.playbooks.steps.schemas import misfit, read_answer
from seedbed.storage.memory import MemoryStore

USED = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
PRICE = (1_000_000.0, 1_000_000.0)
paid: list[str] = []


class Hostile(BaseChatModel):
    """Says a text and calls tools, the same each time until it has said all."""

    says: list[tuple[str, list[dict[str, Any]]]] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "hostile"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self.bind(tools=tools)

    def _next(self) -> dict[str, Any]:
        text, calls = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        return {"content": text, "tool_calls": calls, "usage_metadata": USED}

    def _generate(self, messages: list[BaseMessage], *_: Any, **more: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**self._next()))])

    def _stream(self, messages: list[BaseMessage], *_: Any, **more: Any) -> Iterator[ChatGenerationChunk]:
        for call in (said := self._next()).pop("tool_calls"):
            piece = {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))
        yield ChatGenerationChunk(message=AIMessageChunk(**said))


@tool(effect="changes")
def pay(to: str, amount: float = 1.0) -> str:
    paid.append(to)
    return f"paid {to}"


def call(**arguments: Any) -> tuple[str, list[dict[str, Any]]]:
    return "", [{"name": "pay", "args": arguments, "id": "one"}]


def agent(**step: Any) -> Playbook:
    role = {"model": "m", "tools": [] if "output" in step else ["pay"]}
    steps = [{"name": "s", "role": "r", "prompt": "{q}", **step}]
    return Playbook.from_document({"roles": {"r": role}, "steps": steps, "rules": {"allow": ["pay"]}})


def space(*says: Any) -> Workspace:
    paid.clear()
    model = {"use": f"{__name__}.Hostile", "args": {"says": says}, "usd_per_million": PRICE}
    return seedbed.open(store=MemoryStore(), models={"m": model}, tools=[pay], by="eve")


FORM = {"output": {"label": "number"}, "repair": 0}
UNREADABLE = {
    "not a number": '{"label": NaN}',
    "infinite": '{"label": 1e999}',
    "without end": '{"a":' * 100_000,
    "nested deeply": '{"label":' * 900 + "1" + "}" * 900,
}


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_an_answer_that_json_cannot_hold_is_a_wrong_answer_that_is_paid_for(kind: str) -> None:
    hostile = space((UNREADABLE[kind], []))
    with pytest.raises(RunError, match=r"step s: answer: .*Raise repair"):
        await hostile.run(agent(**FORM), q="x")
    (run,) = hostile.runs.recent()
    assert run.cost_usd > 0


async def test_one_such_answer_does_not_end_an_evaluation() -> None:
    script = {"use": "scripted", "args": {"replies": {"q3": '{"label": NaN}', "": '{"label": 1}'}}}
    trying = seedbed.open(store=MemoryStore(), models={"m": script}, by="eve")
    tasks = Dataset(tuple(Task(f"t{n}", {"q": f"q{n}"}, {"label": 1}) for n in range(6)))
    card = await trying.evaluate(agent(**FORM), tasks, metric="exact_match")
    assert [cell.value for cell in card.cells].count(None) + [cell.value for cell in card.cells].count(0.0) == 1


class Broken(Hostile):
    """Says what no card can say."""

    def _next(self) -> dict[str, Any]:
        return {**super()._next(), **(broken.pop() if broken else {})}


broken: list[dict[str, Any]] = []


@pytest.mark.parametrize("arguments", [{"to": "eve", "amount": float("nan")}, {"to": "\udc80"}])
async def test_arguments_that_json_cannot_hold_are_a_call_that_is_not_made(arguments: Any) -> None:
    broken.append({"tool_calls": call(**arguments)[1]})
    model = Broken(says=[("I could not.", [])])
    hostile = seedbed.open(store=MemoryStore(), models={"m": model}, tools=[pay], by="eve")
    paid.clear()
    run = await hostile.run(agent(), q="x")
    assert (run.output, paid) == ("I could not.", [])


def test_nor_is_such_a_call_read_when_a_client_sends_it_back() -> None:
    sent = {"id": "one", "function": {"name": "pay", "arguments": '{"amount": NaN}'}}
    _, (message,), _ = read_request({"model": "r", "messages": [{"role": "assistant", "tool_calls": [sent]}]})
    assert [(each.arguments, each.unreadable) for each in message.calls] == [(None, '{"amount": NaN}')]


async def test_a_text_with_half_a_character_is_an_answer() -> None:
    broken.append({"content": "a\udc80b"})
    hostile = seedbed.open(store=MemoryStore(), models={"m": Broken(says=[("", [])])}, tools=[pay], by="eve")
    assert (await hostile.run(agent(), q="x")).output == "a?b"


@pytest.mark.parametrize("more", [{"calls": {"at_most": 1}}, {"tools": []}])
async def test_a_model_that_only_calls_tools_has_not_answered(more: Any) -> None:
    hostile = space(call(to="ann"))
    with pytest.raises(RunError, match="calls of tools where it may call none; expected an answer"):
        await hostile.run(agent(**more), q="x")


# Money and bounds


async def answered(model: Any, streamed: bool) -> Any:
    asked = [Message("user", "x")]
    return [each async for each in stream(model, asked)][-1] if streamed else await ask(model, asked)


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_model_writes_in_calls_is_counted_and_bounded(
    streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = [call(to="y" * 60_000)]
    model = Registry({"m": {"use": f"{__name__}.Hostile", "args": {"says": says}, "usd_per_million": PRICE}})["m"]
    reply = await answered(model, streamed)
    assert reply.usage.completion_tokens >= 10_000
    assert reply.cost_usd >= 10_000
    monkeypatch.setattr(chat, "MOST_CHARACTERS", 50_000)
    with pytest.raises(ModelUnavailable, match="more than 50,000 characters") as cut:
        await answered(model, streamed)
    assert cut.value.paid


# Schemas


@pytest.mark.parametrize(
    ("text", "most"),
    [("{ " * 100_000, 1_000), ('{"a":"\\"' * 50_000, 1_000), ('{"k":[' * 300 + "1," * 2_000, 1)],
    ids=["braces", "quotes", "lists"],
)
def test_braces_without_end_are_not_read_again_and_again(text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    decode = json.JSONDecoder.raw_decode

    def counted(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        return decode(*arguments)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    assert "found no JSON object" in read_answer(text, {"type": "object"})[1]
    assert tries <= most


def test_a_part_of_an_object_that_was_cut_off_is_no_answer() -> None:
    assert read_answer('{"all": [{"label": 1}, {"label"', {"type": "object"})[0] is None
    assert read_answer('{first} {"label": 1}', {"type": "object"})[0] == {"label": 1}


def test_a_pattern_of_a_schema_that_takes_too_long_is_a_misfit() -> None:
    schema = {"properties": {"a": {"pattern": "^(a|a)*(a|aa)+$"}}}
    assert "took longer than 1 s" in misfit({"a": "a" * 60 + "b"}, schema, "answer")


def test_what_does_not_fit_is_said_in_few_words_however_long_it_is() -> None:
    wrong = misfit({"label": "x" * 1_000_000}, {"properties": {"label": {"enum": ["late", "lost"]}}}, "answer")
    assert len(wrong) < 600
    assert "['late', 'lost']" in wrong


@pytest.mark.parametrize("reference", ["#/$defs/nothing", "http://127.0.0.1:9/schema", "file:///etc/passwd"])
def test_a_reference_that_leads_nowhere_is_a_mistake_of_the_playbook(reference: str) -> None:
    with pytest.raises(PlaybookError, match="which leads to nothing in the schema"):
        agent(output={"type": "object", "properties": {"a": {"$ref": reference}}})


@pytest.mark.parametrize("schema", [{"$ref": "#/no"}, {"type": "strng"}, {"allOf": [{"$ref": "#"}]}, {"pattern": "("}])
def test_a_broken_schema_of_a_server_lets_nothing_through(schema: Any) -> None:
    assert misfit("anything", schema, "arguments").startswith("arguments: ")
