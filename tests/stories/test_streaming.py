"""Whoever listens to a run hears over a real connection what is being said, also when it breaks off or fails."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from model_server import Answer, ModelServer, echo, serving
from seedbed.errors import ModelUnavailable
from seedbed.models.calling.limits import ModelLimits, Retry
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.run import RunEvent, Turn
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

ROLES = {"speaker": {"model": "main"}}


def workspace(server: ModelServer, store: MemoryStore | None = None, **cards: Any) -> Workspace:
    args = {"model": "m", "base_url": server.url}
    main = {"use": "openai", "args": args, "usd_per_million": [1, 1], "then": list(cards)}
    settings = Settings.model_validate({"by": "ada", "models": {"main": main, **cards}})
    space = Workspace(settings, store or MemoryStore())
    space.resources.runner.limits = ModelLimits(retry=Retry(tries=3, first_seconds=0.01))
    return space


def steps(**prompts: str) -> Playbook:
    listed = [{"name": name, "role": "speaker", "prompt": prompt} for name, prompt in prompts.items()]
    return Playbook.from_document({"roles": ROLES, "steps": listed})


def words(heard: list[RunEvent]) -> dict[tuple[str, str], str]:
    """What a listener has of each step of each run, who forgets what does not count."""
    said: defaultdict[tuple[str, str], str] = defaultdict(str)
    for each in heard:
        if each.discarded:
            said[each.run, each.step] = ""
        said[each.run, each.step] += each.piece or ""
    return said


def kinds(heard: list[RunEvent], step: str) -> list[str]:
    """What came of a step, in order, with pieces in a row told once."""
    found: list[str] = []
    for each in heard:
        kind = "discarded" if each.discarded else "failed" if each.failed else "turn" if each.turn else "piece"
        if each.step == step and not (kind == "piece" and found[-1:] == ["piece"]):
            found.append(kind)
    return found


async def test_the_pieces_of_every_turn_are_its_text_and_come_before_it_is_done() -> None:
    heard: list[RunEvent] = []
    with serving() as server:
        plan = steps(first="one two three – ünïcödé 🎈 and {thing}", second="what comes after: {first}")
        run = await workspace(server).run(plan, thing="a last word", on_event=heard.append)
    assert all(request["stream"] for request in server.requests)
    assert words(heard) == {(run.id, turn.step): turn.text for turn in run.turns}
    assert run.turns[0].text == "one two three – ünïcödé 🎈 and a last word"
    assert sum(each.step == "first" and each.piece is not None for each in heard) > 5
    assert kinds(heard, "first") == kinds(heard, "second") == ["piece", "turn"]
    assert [each.turn for each in heard if each.turn] == list(run.turns)
    assert {(each.role, each.model) for each in heard} == {("speaker", "main")}


async def test_an_answer_that_breaks_off_is_discarded_and_comes_again_in_full() -> None:
    heard: list[RunEvent] = []
    cut = Answer("this is never heard to its very end", cut=True)
    with serving(echo({"messages": [{"content": "fine"}]}), cut, cut, Answer("this is heard to its end")) as server:
        run = await workspace(server).run(steps(one="say", two="say {one}"), on_event=heard.append)
    assert kinds(heard, "one") == ["piece", "turn"]
    assert kinds(heard, "two") == ["piece", "discarded", "piece", "discarded", "piece", "turn"]
    assert all("broke off" in each.discarded for each in heard if each.discarded)
    assert words(heard)[run.id, "two"] == run.turns[1].text == "this is heard to its end"
    assert len(server.requests) == 4
    # What was said in vain is paid for all the same.
    usual = (run.turns[1].prompt_tokens + run.turns[1].completion_tokens) / 1e6
    assert run.turns[1].cost_usd > usual
    assert run.status == "completed"


async def test_if_the_model_keeps_breaking_off_another_one_is_heard_in_its_place() -> None:
    heard: list[RunEvent] = []
    spare = {"use": "scripted", "args": {"replies": {".": "said by somebody else"}}}
    with serving(script=lambda _: Answer("this is never heard to its end", cut=True)) as server:
        run = await workspace(server, spare=spare).run(steps(one="say"), on_event=heard.append)
    assert kinds(heard, "one") == ["piece", "discarded"] * 3 + ["piece", "turn"]
    assert words(heard)[run.id, "one"] == run.output == "said by somebody else"
    assert run.turns[0].model == "spare"
    assert run.turns[0].notices[0].startswith("spare was asked instead of main: ")


async def test_a_turn_that_fails_is_heard_to_fail_and_those_beside_it_are_heard_to_the_end() -> None:
    heard: list[RunEvent] = []

    def script(request: dict[str, Any]) -> Answer:
        bad = request["messages"][-1]["content"].startswith("bad")
        return Answer(status=500, message="out of order") if bad else echo(request)

    block = [{"name": name, "role": "speaker", "prompt": f"{name} news for all"} for name in ("good", "bad")]
    end = {"name": "end", "role": "speaker", "prompt": "so {good}, {bad}"}
    plan = Playbook.from_document({"roles": ROLES, "steps": [{"together": block}, end]})
    with serving(script=script) as server:
        space = workspace(server)
        with pytest.raises(ModelUnavailable, match="out of order"):
            await space.run(plan, on_event=heard.append)
    assert kinds(heard, "bad") == ["failed"]
    assert "out of order" in next(each.failed for each in heard if each.failed)
    assert kinds(heard, "good") == ["piece", "turn"]
    assert kinds(heard, "end") == []
    (start,) = space.store.facts(Query(kind="start"))
    run = recall(space.store, start.key)
    assert (run.status, [turn.text for turn in run.turns]) == ("failed", ["good news for all"])


async def test_runs_opened_at_the_same_time_are_told_apart() -> None:
    heard: list[RunEvent] = []

    def script(request: dict[str, Any]) -> Answer:
        prompt = request["messages"][-1]["content"]
        return Answer("- day\n- night") if prompt == "split time" else echo(request)

    plan = Playbook.from_document(
        {
            "inputs": ["topic"],
            "roles": ROLES,
            "steps": [
                {"name": "split", "role": "speaker", "prompt": "split {topic}", "opens": {"input": "topic"}},
                {"name": "end", "role": "speaker", "prompt": "all about {topic}"},
            ],
        }
    )
    with serving(script=script) as server:
        space = workspace(server)
        run = await space.run(plan, topic="time", on_event=heard.append)
    children = [recall(space.store, child.run) for child in run.children]
    assert {child.inputs["topic"] for child in children} == {"day", "night"}
    turns: dict[tuple[str, str], Turn] = {
        (each.id, turn.step): turn for each in (run, *children) for turn in each.turns
    }
    assert words(heard) == {where: turn.text for where, turn in turns.items()}
    assert {(each.run, each.step): each.turn for each in heard if each.turn} == turns
    assert len({each.run for each in heard}) == 3
    assert words(heard)[children[0].id, "end"] == f"all about {children[0].inputs['topic']}"


async def test_what_was_said_before_an_interruption_is_heard_as_turns_and_only_the_rest_piece_by_piece() -> None:
    store = MemoryStore()
    plan = steps(one="say this first", two="then {one}")
    with serving(Answer("this first"), *[Answer(status=500)] * 3) as server:
        with pytest.raises(ModelUnavailable):
            await workspace(server, store).run(plan)
        (start,) = store.facts(Query(kind="start"))
        heard: list[RunEvent] = []
        run = await workspace(server, store).runs.resume(start.key, on_event=heard.append)
    assert kinds(heard, "one") == ["turn"]
    assert kinds(heard, "two") == ["piece", "turn"]
    assert run.output == "then this first"
