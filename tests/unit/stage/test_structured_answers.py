"""Answers with a structure: in the way that a model has, repaired where they are wrong, used field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_samples import HELP, calls, desk, refund, replayed, search, workspace
from pydantic import BaseModel

from model_server import Answer, serving
from seedbed.errors import PlaybookError, RunError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.models.cards import Registry
from seedbed.models.chat import Message, OutputForm, Sampling, ask
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace


class Verdict(BaseModel):
    label: str
    score: float


OUTPUT = {"label": {"enum": ["good", "bad"]}, "score": "number", "tags": ["string"]}
GOOD = {"label": "good", "score": 0.9, "tags": ["mug"]}
PLAIN: dict[str, Any] = {
    "roles": {"judge": {"model": "fast"}},
    "steps": [
        {"name": "solve", "role": "judge", "prompt": "{question}", "output": OUTPUT},
        {"name": "reply", "role": "judge", "prompt": "Tell them: {solve.label}, {solve.tags.0}, {other.field} {solve}"},
    ],
}


def judged(*replies: str, **step: Any) -> tuple[Workspace, Playbook]:
    document = {**PLAIN, "steps": [{**PLAIN["steps"][0], **step}]}
    return workspace(list(replies)), Playbook.from_document(document)


async def test_later_steps_use_the_fields_of_an_answer() -> None:
    space = workspace({"Tell them": "Told.", "": f"Here it is:\n{json.dumps(GOOD)} Anything else?"})
    run = await space.run(Playbook.from_document(PLAIN), **HELP)
    first, second = run.turns
    assert first.value == GOOD
    text = '{"label":"good","score":0.9,"tags":["mug"]}'
    assert second.messages[-1][1] == f"Tell them: good, mug, {{other.field}} {text}"
    again = await replayed(space, run)
    assert (again.output, again.turns[0].value) == ("Told.", GOOD)


async def test_a_wrong_answer_is_shown_with_what_is_wrong_and_repaired() -> None:
    space, playbook = judged('{"label": "fine"}', "No JSON.", json.dumps(GOOD))
    run = await space.run(playbook, **HELP)
    assert run.output == GOOD
    said = [text for _, text, *_ in run.turns[-1].messages]
    assert said[1:] == [
        '{"label": "fine"}',
        "answer: found {'label': 'fine'}; 'score' is a required property. Answer again, as it was asked for.",
        "No JSON.",
        'answer: found no JSON object in "No JSON.". Answer again, as it was asked for.',
    ]
    assert [turn.is_misfit for turn in run.turns] == [True, True, False]


async def test_an_answer_that_stays_wrong_fails_the_step() -> None:
    space, playbook = judged("no", "no", repair=1)
    with pytest.raises(RunError, match=r"step solve: answer: found no JSON .* steps.solve.output"):
        await space.run(playbook, **HELP)


async def test_the_metric_counts_answers_that_were_right_at_once() -> None:
    space = workspace({"other one": json.dumps(GOOD), "Answer again": json.dumps(GOOD), "": "none"})
    playbook = Playbook.from_document({**PLAIN, "steps": PLAIN["steps"][:1]})
    tasks = Dataset([Task(id=name, inputs={"question": name}) for name in ("one", "other one")])
    card = await space.evaluate(playbook, tasks, metric="schema_valid")
    assert sorted((cell.task, cell.value) for cell in card.cells) == [("one", 0.0), ("other one", 1.0)]


async def test_a_step_may_call_tools_and_then_answer_in_its_form() -> None:
    space = workspace({"^Help": calls(("search", {"query": "mug"})), "is a mug": "?", "Answer again": json.dumps(GOOD)})
    run = await space.run(desk(output=OUTPUT), **HELP)
    assert run.output == GOOD
    assert [bool(turn.calls) for turn in run.turns] == [True, False, False]
    assert run.turns[-1].options.keys() == {"schema"}


@pytest.mark.parametrize("way", ["native", "tool", "prompted"])
async def test_each_way_reaches_the_endpoint_and_the_answer_is_the_same(way: str) -> None:
    text = json.dumps(GOOD)
    served = Answer(tool_calls=[{"name": "answer", "arguments": text}]) if way == "tool" else Answer(text)
    form = OutputForm("b2:1", Playbook.from_document(PLAIN).content()["steps"][0]["output"])
    with serving(served) as server:
        card = {"use": "openai", "args": {"model": "m", "base_url": server.url}, "output": way}
        reply = await ask(Registry({"m": card})["m"], [Message("user", "Judge.")], Sampling(form=form))
    (request,) = server.requests
    assert (json.loads(reply.text), reply.calls) == (GOOD, ())
    if way == "native":
        assert request["response_format"]["json_schema"]["schema"]["required"] == ["label", "score", "tags"]
    elif way == "tool":
        assert [each["function"]["name"] for each in request["tools"]] == ["answer"]
        assert request["tool_choice"]["function"]["name"] == "answer"
    else:
        assert "JSON Schema" in request["messages"][-1]["content"]
    assert ("tools" in request, "response_format" in request) == (way == "tool", way == "native")


def test_the_way_is_the_best_that_a_class_declares_unless_its_card_says_another() -> None:
    script = {"use": "scripted", "args": {"replies": ["x"]}}
    profiled = {"use": "scripted", "args": {"replies": ["x"], "profile": {"structured_output": True}}}
    cards = {"tools": script, "native": profiled, "plain": {"use": "embedded"}, "told": {**profiled, "output": "tool"}}
    registry = Registry(cards)
    ways = [registry[name].output_way for name in ("tools", "native", "told")]
    assert ways == ["tool", "native", "tool"]
    assert registry["plain"].lacking([], calls_tools=True) == ["tool calls"]


async def test_with_other_tools_a_model_must_call_one_and_the_answer_ends_the_loop() -> None:
    turns = [("search", '{"query": "mug"}'), ("answer", json.dumps(GOOD))]
    answers = [Answer(tool_calls=[{"name": name, "arguments": arguments}]) for name, arguments in turns]
    with serving(*answers) as server:
        models = {"fast": {"use": "openai", "args": {"model": "m", "base_url": server.url}}}
        settings = Settings.model_validate({"by": "ada", "models": models})
        space = Workspace(settings, MemoryStore(), tools=[search, refund])
        run = await space.run(desk(output=OUTPUT), **HELP)
    assert run.output == GOOD
    assert {each["function"]["name"] for each in server.requests[0]["tools"]} == {"answer", "refund", "search"}
    assert {each["tool_choice"] for each in server.requests} == {"required"}
    assert (await replayed(space, run)).output == GOOD


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"type": "array", "items": {"type": "string"}}, "a schema of"),
        ({"label": "txt"}, "schema: 'txt' is not valid"),
        ("no_module:Verdict", "no_module"),
        (f"{__name__}:desk", "which is no pydantic model"),
        (7, "found 7"),
    ],
)
def test_an_output_that_is_no_schema_of_an_object_is_refused(output: Any, message: str) -> None:
    with pytest.raises(PlaybookError, match=message) as refused:
        judged(output=output)
    assert "steps[0].output" in str(refused.value)


def test_a_field_that_the_answer_has_not_is_refused() -> None:
    steps = [PLAIN["steps"][0], {"name": "reply", "role": "judge", "prompt": "{solve.lable} {solve.tags.x}"}]
    with pytest.raises(PlaybookError) as refused:
        Playbook.from_document({**PLAIN, "steps": steps})
    assert "{solve.lable}, which the answer has not; expected one of its fields: label, score, tags" in str(
        refused.value
    )
    early = [{**PLAIN["steps"][1], "prompt": "{solve.label}"}, PLAIN["steps"][0]]
    with pytest.raises(PlaybookError, match=r"found {solve.label}; expected an earlier step"):
        Playbook.from_document({**PLAIN, "steps": early})


def test_a_pydantic_class_and_the_short_form_are_read_into_the_digest() -> None:
    _, by_class = judged(output=f"{__name__}:Verdict")
    schema = by_class.content()["steps"][0]["output"]
    assert schema["required"] == ["label", "score"]
    assert judged(output=schema)[1].digest == by_class.digest
    assert (
        judged(output=OUTPUT)[1].digest
        == judged(output=judged(output=OUTPUT)[1].content()["steps"][0]["output"])[1].digest
    )
    assert Playbook.from_document(by_class.document()).digest == by_class.digest


def test_braces_around_anything_else_stay_as_they_are() -> None:
    step = {"name": "solve", "role": "judge", "prompt": "{question} {a.b} {{question.x}}"}
    assert Playbook.from_document({**PLAIN, "steps": [step]}).needed_inputs == {"question"}
