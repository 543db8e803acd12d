"""Whatever is wrong is told with what to do about it, or recorded as a failure; and what was paid for is not lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from model_server import Answer, ModelServer, serving
from seedbed.errors import ActionForbidden, ModelUnavailable, PlaybookError, RunError, SettingsError
from seedbed.models.calling.limits import ModelLimits, Retry
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.run import Run, RunEvent
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage import open_store
from seedbed.storage.store import Json, Query
from seedbed.workspace import Workspace

FINE = {"use": "scripted", "args": {"replies": {".": "fine"}}}
TWO_STEPS = Playbook.from_document(
    {
        "roles": {"first": {"model": "good"}, "second": {"model": "odd"}},
        "steps": [
            {"name": "one", "role": "first", "prompt": "begin with {q}"},
            {"name": "two", "role": "second", "prompt": "go on from {one}"},
        ],
    }
)


class Spaces:
    """Workspaces on one SQLite file; each call opens it anew, as another day would."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'seedbed.db'}"
        self.opened: list[Workspace] = []

    def __call__(self, **models: Json) -> Workspace:
        space = Workspace(Settings.model_validate({"by": "ada", "models": models}), open_store(self.url))
        space.resources.runner.limits = ModelLimits(retry=Retry(tries=3, first_seconds=0.01))
        self.opened.append(space)
        return space


@pytest.fixture
def spaces(tmp_path: Path) -> Iterator[Spaces]:
    made = Spaces(tmp_path)
    yield made
    for space in made.opened:
        space.close()


def recorded(space: Workspace) -> Run:
    """The only run there is."""
    (start,) = space.store.facts(Query(kind="start"))
    return recall(space.store, start.key)


def over(server: ModelServer) -> Json:
    return {"use": "openai", "args": {"model": "m", "base_url": server.url}}


async def fails(space: Workspace, error: type[Exception], match: str) -> Run:
    """The record of a run whose second step fails: the first one is kept."""
    with pytest.raises(error, match=match) as caught:
        await space.run(TWO_STEPS, q="why", seed=1)
    run = recorded(space)
    assert run.status == "failed"
    assert run.error == f"{error.__name__}: {caught.value}"
    assert [(turn.step, turn.text) for turn in run.turns] == [("one", "fine")]
    return run


async def goes_on(space: Workspace, run: Run, output: str) -> None:
    """Put right, the run goes on where it was: the first step is not asked again."""
    again = await space.runs.resume(run.id)
    assert (again.status, again.output) == ("completed", output)
    assert again.turns[0] == run.turns[0]


NEVER = {"use": "scripted", "args": {"replies": {}}}
"""Has an answer to nothing."""


# Settings


async def test_an_unknown_model_is_told_before_anything_is_asked(spaces: Spaces) -> None:
    space = spaces(good=FINE)
    with pytest.raises(SettingsError, match=r'no model named "odd"; expected one of: good\. Add it'):
        await space.run(TWO_STEPS, q="why")
    assert list(space.store.facts(Query(kind="start"))) == []


async def test_an_argument_that_a_model_would_ignore_is_told_before_anything_is_asked(spaces: Spaces) -> None:
    fake = "langchain_core.language_models.fake_chat_models.FakeListChatModel"
    space = spaces(good=FINE, odd={"use": fake, "args": {"responses": ["x"], "slep": 1}})
    with pytest.raises(SettingsError, match=r"models.odd.args.slep: found an unknown key; .* Did you mean sleep\?"):
        await space.run(TWO_STEPS, q="why")
    assert list(space.store.facts(Query(kind="turn"))) == []


async def test_a_missing_key_is_told_by_its_name_and_once_it_is_set_the_run_goes_on(
    spaces: Spaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY_OF_THE_ODD", raising=False)
    with serving(Answer("said with a key")) as server:
        odd = {"use": "openai", "args": {**over(server)["args"], "api_key": {"env": "KEY_OF_THE_ODD"}}}
        run = await fails(spaces(good=FINE, odd=odd), SettingsError, "Set KEY_OF_THE_ODD")
        assert server.requests == []
        monkeypatch.setenv("KEY_OF_THE_ODD", "secret")
        await goes_on(spaces(good=NEVER, odd=odd), run, "said with a key")
        assert server.requests[0]["headers"]["authorization"] == "Bearer secret"


# Playbooks and tasks


async def test_a_placeholder_that_nothing_fills_is_told_and_nothing_is_asked(spaces: Spaces) -> None:
    space = spaces(good=FINE, odd=FINE)
    with pytest.raises(PlaybookError, match=r"\{q\}: found question; expected a task input named q"):
        await space.run(TWO_STEPS, question="why")
    assert recorded(space).turns == ()
    assert recorded(space).status == "failed"


@pytest.mark.parametrize("sees", [{"a": ["b"], "b": ["a"]}, {"a": ["a"]}, {"a": ["c"], "b": ["a"], "c": ["b"]}])
def test_steps_that_see_each_other_in_a_circle_are_refused_with_their_places(sees: dict[str, list[str]]) -> None:
    steps = [{"name": name, "role": "r", "prompt": "x", "sees": seen} for name, seen in sees.items()]
    with pytest.raises(PlaybookError, match=r"steps\[0\]\.sees\[0\]: found .*; expected an earlier step"):
        Playbook.from_document({"roles": {"r": {"model": "good"}}, "steps": steps})


def test_steps_that_quote_each_other_in_a_circle_are_refused_too() -> None:
    steps = [{"name": "a", "role": "r", "prompt": "on {b}"}, {"name": "b", "role": "r", "prompt": "on {a}"}]
    with pytest.raises(PlaybookError, match=r"steps\[0\].*found \{b\}; expected an earlier step"):
        Playbook.from_document({"roles": {"r": {"model": "good"}}, "steps": steps})


# Answers


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b'{"choices": [{"message": {"content": "caf\xe9"}}]}'])
async def test_an_answer_that_is_no_utf8_is_asked_for_again(spaces: Spaces, body: bytes) -> None:
    with serving(Answer(body=body), Answer("well said")) as server:
        run = await spaces(good=FINE, odd=over(server)).run(TWO_STEPS, q="why")
    assert (run.status, run.output, len(server.requests)) == ("completed", "well said", 2)


async def test_answers_that_never_are_utf8_are_a_recorded_failure_and_lose_nothing(spaces: Spaces) -> None:
    with serving(script=lambda _: Answer(body=b"\xff\xfe\x00")) as server:
        run = await fails(spaces(good=FINE, odd=over(server)), ModelUnavailable, "cannot be read")
        assert len(server.requests) == 3
    with serving(Answer("well said")) as server:
        await goes_on(spaces(good=NEVER, odd=over(server)), run, "well said")


@pytest.mark.parametrize("streamed", [False, True])
async def test_half_a_character_in_an_answer_loses_neither_it_nor_the_run(spaces: Spaces, streamed: bool) -> None:
    """JSON can say what no text can hold: one half of a pair that stands for a character."""
    content = r"half \ud83d of it"
    if streamed:
        events = [f'{{"choices": [{{"index": 0, "delta": {{"content": "{content}"}}, "finish_reason": "stop"}}]}}']
        body = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()
        answer = Answer(body=body, headers={"Content-Type": "text/event-stream"})
    else:
        answer = Answer(body=f'{{"choices": [{{"message": {{"content": "{content}"}}}}]}}'.encode())
    heard: list[RunEvent] = []
    with serving(script=lambda _: answer) as server:
        space = spaces(good=FINE, odd=over(server))
        run = await space.run(TWO_STEPS, q="why", on_event=heard.append if streamed else None)
    assert run.status == "completed"
    assert run.output.startswith("half ")
    assert run.output.endswith(" of it")
    assert recall(space.store, run.id) == run


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_of_a_megabyte_is_kept_whole_and_can_be_quoted(spaces: Spaces, streamed: bool) -> None:
    long = " ".join(f"wörd{number}" * 10 for number in range(12_000))
    assert len(long.encode()) > 1_000_000
    plan = Playbook.from_document(
        {
            "roles": {"first": {"model": "odd"}, "second": {"model": "good"}},
            "steps": [
                {"name": "one", "role": "first", "prompt": "{q}"},
                {"name": "two", "role": "second", "prompt": "in short: {one}"},
            ],
        }
    )
    heard: list[RunEvent] = []
    with serving(Answer(long)) as server:
        space = spaces(good=FINE, odd=over(server))
        run = await space.run(plan, q="why", on_event=heard.append if streamed else None)
    assert run.status == "completed"
    assert run.turns[0].text == long
    assert run.turns[1].messages[-1][1] == f"in short: {long}"
    assert "".join(each.piece or "" for each in heard if each.step == "one") == (long if streamed else "")
    assert recall(spaces(good=FINE).store, run.id) == run


# Tools and what is forbidden


@tool(effect="reads")
async def broken(order: str) -> str:
    raise ValueError(f"out of order: {order}")


@tool(effect="reads", timeout_seconds=0.05)
async def hanging() -> str:
    await asyncio.Event().wait()
    return "never"


@tool(changes=True)
async def refund(order: str) -> str:
    refunded.append(order)
    return "refunded"


refunded: list[str] = []


async def agent(task: Mapping[str, Any], stage: Stage) -> str:
    """Asks, and then does what the task says; what goes wrong is what it has to say, unless it is to fail."""
    said = (await stage.ask("helper", "What now?")).text
    try:
        return f"{said}: {await stage.call(task['tool'], **task['arguments'])}"
    except RunError as wrong:
        if task["careless"]:
            raise
        return f"{said}, but {wrong}"


TOOLS: list[Any] = [
    ("broken", {"order": "7"}, "tool broken failed: ValueError: .*out of order: 7"),
    ("broken", {"wrong": 1}, "tool broken: found arguments that do not fit"),
    ("hanging", {}, "tool hanging: found no answer in time; expected one within at most 0.05 seconds"),
    ("missing", {}, "found no tool 'missing'; expected one of: broken, hanging, refund"),
    ("refund", {"order": "7"}, "refund: .*never"),
]


@pytest.mark.parametrize("careless", [False, True])
@pytest.mark.parametrize(("name", "arguments", "told"), TOOLS)
async def test_a_tool_that_fails_hangs_or_is_forbidden_is_told_to_the_program_and_recorded(
    spaces: Spaces, name: str, arguments: Json, told: str, careless: bool
) -> None:
    refunded.clear()
    document = {"program": f"{__name__}:agent", "roles": {"helper": {"model": "good"}}, "rules": {"never": ["refund"]}}
    space = spaces(good=FINE)
    space.tools = [broken, hanging, refund]
    task = {"tool": name, "arguments": arguments, "careless": careless}
    doing = space.run(Playbook.from_document(document), **task)
    if careless:
        with pytest.raises(ActionForbidden if name == "refund" else RunError, match=told):
            await doing
    else:
        await doing
    run = recorded(space)
    assert run.status == ("failed" if careless else "completed")
    assert [turn.text for turn in run.turns] == ["fine"]
    assert refunded == []
    calls = [fact.body for fact in space.store.facts(Query(kind="call"))]
    assert [call["tool"] for call in calls] == ([name] if name in ("broken", "hanging") else [])
    assert all(call["error"] and call["result"] is None for call in calls)
    assert re.search(told, run.error if careless else run.output)
