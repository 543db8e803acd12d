"""Replays of recorded runs: of dialogues and of programs, in every mode."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import BudgetSpent, NotFound, RunError
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Missed, ReplayMode
from seedbed.runs.history import recall, recent
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, canonical, short
from seedbed.workspace import Workspace

STRICT, LENIENT = ReplayMode("strict"), ReplayMode("lenient")
IDS = (f"{number:032x}" for number in range(1, 10_000))

built: list[str] = []
sent: list[str] = []
looked: list[str] = []


class Counted(ScriptedChat):
    """A scripted model that is counted when it is built."""

    def __init__(self, **args: Any) -> None:
        super().__init__(**args)
        built.append("model")


@tool(changes=True)
def send(to: str, text: str) -> str:
    sent.append(to)
    return f"sent to {to}"


@tool(effect="reads")
def look(what: str) -> str:
    looked.append(what)
    return f"{what} number {len(looked)}"


async def agent(task: Mapping[str, Any], stage: Stage) -> Any:
    """Does a bit of everything."""
    at = (await stage.now()).isoformat()
    found = await stage.call("look", what=task["q"])
    turn = await stage.ask("writer", f"{task['q']}: {found}", step="draft")
    if task.get("unsure"):
        await stage.decide("how", "carefully", because="it is unsure")
    told = await stage.call("send", to=task.get("to", "ada"), text=turn.text)
    return {"at": at, "text": turn.text, "told": told, "chance": await stage.random()}


async def forgiving(task: Mapping[str, Any], stage: Stage) -> Any:
    """Goes on whatever happens."""
    try:
        return await stage.call("send", to=task["q"], text=await _second_text(stage))
    except RunError:
        return "never mind"


async def _second_text(stage: Stage) -> str:
    return (await stage.ask("writer", "What?")).text


async def watching(task: Mapping[str, Any], stage: Stage) -> Any:
    """Looks at the clock and draws as often as its playbook says."""
    times = stage.playbook.parameters["times"].value
    return [((await stage.now()).isoformat(), await stage.random()) for _ in range(int(times))]


WRITER: dict[str, Any] = {"model": "m", "system": "Be brief.", "temperature": 0.5}
AGENT: dict[str, Any] = {"program": f"{__name__}:agent", "roles": {"writer": WRITER}}
DEBATE: dict[str, Any] = {
    "roles": {"one": {"model": "m"}, "two": {"model": "m", "system": "Find a flaw."}},
    "steps": [
        {"name": "answer", "role": "one", "prompt": "{q}"},
        {
            "together": [
                {"name": "facts", "role": "two", "prompt": "Facts? {answer}"},
                {"name": "logic", "role": "two", "prompt": "Logic? {answer}"},
            ]
        },
        {"name": "final", "role": "one", "prompt": "{facts} {logic}"},
    ],
}
OPENING: dict[str, Any] = {
    "roles": {"one": {"model": "lister"}},
    "steps": [{"name": "parts", "role": "one", "prompt": "{q}", "opens": {"input": "q", "depth": 1, "at_most": 2}}],
}
MODELS: dict[str, Any] = {
    "m": {
        "use": f"{__name__}.Counted",
        "args": {
            "replies": {"Facts": "no facts", "Logic": "no logic", "So": "so it is", "cats": "cats", ".": "because"}
        },
        "usd_per_million": [10.0, 10.0],
    },
    "lister": {"use": f"{__name__}.Counted", "args": {"replies": {".": "1. air\n2. light"}}},
}


@pytest.fixture(autouse=True)
def _afresh() -> None:
    for each in (built, sent, looked):
        each.clear()


def workspace(store: Any = None, models: Any = MODELS, **settings: Any) -> Workspace:
    space = Workspace(Settings.model_validate({"by": "ada", "models": models, **settings}), store or MemoryStore())
    space.tools = [send, look]
    return space


def playbook(document: dict[str, Any], **changed: Any) -> Playbook:
    return Playbook.from_document({"rules": {"allow": ["send"]}, **document, **changed})


def writer(**changed: Any) -> Playbook:
    return playbook(AGENT, roles={"writer": {**WRITER, **changed}})


async def replay(space: Workspace, of: Run, book: Playbook, mode: ReplayMode = STRICT, **more: Any) -> Run:
    for each in (built, sent, looked):
        each.clear()
    return await space.resources.runner.replay(next(IDS), book, of.id, mode, **more)


def told(run: Run) -> str:
    """All that a run is made of, but for its name and what it is a replay of."""
    entries = [each.body() for part in (run.turns, run.calls, run.decisions) for each in part]
    return canonical(
        [run.inputs, run.seed, run.status, run.output, run.error, run.models, entries, run.latency_seconds]
    )


# Exact


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
async def test_the_replay_of_a_program_is_the_recorded_run_to_the_byte_and_changes_nothing(
    url: str, tmp_path: Path
) -> None:
    space = workspace(open_store("memory:" if url == "memory:" else f"sqlite:///{tmp_path}/runs.db"))
    book = playbook(AGENT)
    run = await space.run(book, q="Why?", unsure=True, seed=3)
    assert (sent, len(looked)) == (["ada"], 1)
    again = await replay(space, run, book)
    assert told(again) == told(run)
    assert told(recall(space.store, again.id)) == told(run)
    assert (built, sent, looked) == ([], [], [])
    assert again.replay is not None
    assert (again.replay["of"], again.replay["mode"]) == (run.id, "strict")
    assert again.replay["labels"] == {
        "call": {"exact": 2},
        "reading": {"exact": 2},
        "turn": {"exact": 1},
    }
    space.close()


async def test_the_replay_of_a_dialogue_is_the_recorded_run_to_the_byte() -> None:
    space, book = workspace(), playbook(DEBATE)
    run = await space.run(book, q="Why?", seed=3)
    fresh = workspace(space.store)  # another process would build its models anew
    again = await replay(fresh, run, book)
    assert told(again) == told(run)
    assert built == []
    assert again.replay is not None
    assert again.replay["labels"] == {"turn": {"exact": 4}}


async def test_runs_that_a_run_opened_are_replayed_from_their_own_recordings() -> None:
    space, book = workspace(), playbook(OPENING)
    run = await space.run(book, q="Why?", seed=3)
    again = await replay(workspace(space.store), run, book)
    assert told(again) == told(run)
    assert built == []
    assert len(again.children) == len(run.children) == 2
    for child, then in zip(again.children, run.children, strict=True):
        done = recall(space.store, child.run)
        assert (done.parent, done.output) == (again.id, then.output)
        assert done.replay == {"of": then.run, "mode": "strict", "labels": {"turn": {"exact": 1}}}


async def test_what_a_router_chose_is_exact_while_that_model_stays_the_same() -> None:
    models = {name: {"use": "scripted", "args": {"replies": {".": name}}, "can": ["wit"]} for name in ("one", "two")}
    space = workspace(models=models)
    book = playbook({"roles": {"any": {"needs": ["wit"]}}, "steps": [{"name": "say", "role": "any", "prompt": "{q}"}]})
    run = await space.run(book, q="Why?", seed=1)
    (chosen,) = run.turns
    assert (await replay(space, run, book)).output == run.output
    other = next(name for name in models if name != chosen.model)
    changed = {**models, other: {**models[other], "args": {"replies": {".": "new"}}}}
    assert (await replay(workspace(space.store, changed), run, book)).output == run.output
    changed = {**models, chosen.model: {**models[chosen.model], "args": {"replies": {".": "new"}}}}
    with pytest.raises(Missed, match=r"model\.args\.replies\..: found \"new\""):
        await replay(workspace(space.store, changed), run, book)


async def test_a_tool_that_failed_fails_again() -> None:
    space, book = workspace(), playbook(AGENT)
    with pytest.raises(RunError, match="do not fit"):
        await space.run(book, q="Why?", to=["nobody"], seed=3)
    (run,) = recent(space.store, 1)
    with pytest.raises(RunError, match="do not fit") as wrong:
        await replay(space, run, book)
    assert not isinstance(wrong.value, Missed)
    assert sent == []


# Strict


async def test_a_strict_replay_of_other_words_names_the_nearest_recording_and_where_it_differs() -> None:
    space = workspace()
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    with pytest.raises(Missed) as missed:
        await replay(space, run, writer(system="Be very brief."))
    assert str(missed.value) == (
        f'not replayable: run {short(run.id)}, turn draft: messages.0.text: found "Be very brief."; '
        'expected "Be brief.", as in number 1. Replay it leniently, or live from this step on'
    )
    assert (built, sent, looked) == ([], [], [])


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"temperature": 0.25}, "temperature: found 0.25; expected 0.5"),
        ({"temperature": None}, "temperature: found nothing; expected 0.5"),
        ({"max_tokens": 9}, "max_tokens: found 9; expected nothing"),
        ({"stop": ["."]}, r"stop\.0: found"),
        ({"model": "lister"}, r"model\.args\.replies"),
        ({"model": None, "needs": ["wit"]}, r"model: found nothing"),
    ],
)
async def test_a_turn_is_exact_only_with_the_same_model_and_parameters(changed: Any, path: str) -> None:
    space = workspace(models={**MODELS, "witty": {**MODELS["m"], "can": ["wit"]}})
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    with pytest.raises(Missed, match=path):
        await replay(space, run, writer(**changed))


async def test_a_turn_is_exact_only_if_its_model_still_stands_for_the_same() -> None:
    space = workspace()
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    other = {**MODELS, "m": {**MODELS["m"], "args": {"replies": {".": "new"}}}}
    with pytest.raises(Missed, match=r"model\.args\.replies"):
        await replay(workspace(space.store, other), run, playbook(AGENT))


async def test_a_turn_is_exact_only_with_the_same_seed() -> None:
    space = workspace()
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    with pytest.raises(Missed, match="seed: found 4; expected 3"):
        await replay(space, run, playbook(AGENT), seed=4)


async def test_a_model_of_another_name_that_is_the_same_is_exact() -> None:
    space = workspace(models={**MODELS, "alias": MODELS["m"]})
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    assert (await replay(space, run, writer(model="alias"))).output == run.output


async def test_what_was_not_recorded_at_all_is_missed_with_what_was() -> None:
    space = workspace()
    run = await space.run(playbook(DEBATE), q="Why?", seed=3)
    with pytest.raises(Missed, match="call look: found nothing recorded; expected one of: turn answer, turn facts"):
        await replay(space, run, playbook(AGENT))


async def test_the_same_words_asked_more_often_than_recorded_are_missed() -> None:
    space = workspace()
    run = await space.run(playbook({"program": f"{__name__}:forgiving", "roles": {"writer": WRITER}}), q="a", seed=3)
    with pytest.raises(Missed, match="turn writer: time: found 2; expected 1"):
        await replay(space, run, playbook({"program": f"{__name__}:twice", "roles": {"writer": WRITER}}))


async def twice(task: Mapping[str, Any], stage: Stage) -> Any:
    return [await _second_text(stage), await _second_text(stage)]


async def test_a_program_cannot_talk_its_way_out_of_a_miss() -> None:
    space = workspace()
    run = await space.run(playbook({"program": f"{__name__}:forgiving", "roles": {"writer": WRITER}}), q="a", seed=3)
    changed = playbook({"program": f"{__name__}:forgiving", "roles": {"writer": {**WRITER, "system": "Hum."}}})
    with pytest.raises(Missed):
        await replay(space, run, changed)
    (start,) = space.store.facts(Query(kind="start", subject=changed.digest))
    again = recall(space.store, start.key)
    assert again.status == "failed"
    assert "not replayable" in again.error


async def test_a_miss_in_a_run_that_was_opened_makes_the_one_above_worthless_too() -> None:
    space = workspace()
    run = await space.run(playbook(OPENING), q="Why?", seed=3)
    (child,) = (each for each in run.children if recall(space.store, each.run).inputs["q"] == "air")
    store = MemoryStore()
    for kind in space.store.kinds():
        facts = space.store.facts(Query(kind=kind))
        store.load((), [fact for fact in facts if not (kind == "turn" and fact.subject == child.run)])
    store.load(space.store.contents(), ())
    with pytest.raises(Missed, match=f"run {short(child.run)}, turn parts: found nothing recorded"):
        await replay(workspace(store), run, playbook(OPENING))


async def test_a_recording_that_is_not_there_is_told() -> None:
    with pytest.raises(NotFound, match="no run"):
        await workspace().resources.runner.replay(next(IDS), playbook(DEBATE), "f" * 32, STRICT)


@pytest.mark.parametrize("tools", [[], [{"mcp": {"command": ["/nonexistent/server"]}}]])
async def test_a_strict_replay_needs_no_tool_and_starts_no_server_to_learn_of_any(tools: Any) -> None:
    space = workspace()
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    closed = workspace(space.store, tools=tools)
    closed.tools = []
    assert (await replay(closed, run, playbook(AGENT))).output == run.output
    other = await space.run(playbook(DEBATE), q="Why?", seed=3)
    with pytest.raises(Missed if tools else RunError, match="look"):
        await replay(closed, other, playbook(AGENT))


# Lenient


async def test_a_lenient_replay_is_answered_by_the_nearest_recording_and_says_so() -> None:
    space = workspace()
    run = await space.run(playbook(AGENT), q="Why?", seed=3)
    again = await replay(space, run, writer(system="Be very brief."), LENIENT)
    assert again.output == run.output
    assert (built, sent, looked) == ([], [], [])
    assert again.replay is not None
    assert again.replay["labels"]["turn"] == {"substituted": 1}
    (turn,) = again.turns
    assert turn.messages[0] == ("system", "Be very brief.")
    assert turn.notices == (f"answered by turn 1 of draft of run {short(run.id)}: messages.0.text differs",)


async def test_of_two_recordings_the_one_with_more_words_in_common_is_nearer() -> None:
    space = workspace()
    run = await space.run(
        playbook({"program": f"{__name__}:asks"}, roles={"w": WRITER}), q=["red cats", "blue dogs run"]
    )
    book = playbook({"program": f"{__name__}:asks"}, roles={"w": {**WRITER, "temperature": 0.1}}, inputs=["q"])
    again = await replay(space, run, book, LENIENT)
    assert again.output == run.output == ["cats", "because"]


async def asks(task: Mapping[str, Any], stage: Stage) -> Any:
    return [(await stage.ask("w", text, step="s")).text for text in task["q"]]


async def test_what_only_reads_and_was_not_recorded_is_done_live_in_a_lenient_replay() -> None:
    space = workspace()
    run = await space.run(playbook({"program": f"{__name__}:twice", "roles": {"writer": WRITER}}), q="a", seed=3)
    book = playbook({"program": f"{__name__}:looks", "roles": {"writer": WRITER}})
    again = await replay(space, run, book, LENIENT)
    assert (again.output, looked) == ("a number 1", ["a"])
    assert again.replay is not None
    assert again.replay["labels"] == {"call": {"live": 1}}


async def looks(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("look", what=task["q"])


@pytest.mark.parametrize("mode", [STRICT, LENIENT, ReplayMode("fork", 1)])
async def test_what_changes_the_world_and_was_not_recorded_is_missed_in_every_mode(mode: ReplayMode) -> None:
    space = workspace()
    run = await space.run(playbook({"program": f"{__name__}:looks"}), q="a", seed=3)
    with pytest.raises(Missed, match=r"call send: found nothing recorded.*never done in a replay"):
        await replay(space, run, playbook({"program": f"{__name__}:sends"}), mode)
    assert sent == []


async def sends(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("send", to=task["q"], text=stage.playbook.roles["w"].system if stage.playbook.roles else "")


@pytest.mark.parametrize(("mode", "answered"), [(STRICT, False), (LENIENT, True), (ReplayMode("fork", 1), False)])
async def test_other_arguments_for_what_changes_the_world_are_answered_only_leniently(
    mode: ReplayMode, answered: bool
) -> None:
    space = workspace()
    run = await space.run(playbook({"program": f"{__name__}:sends"}), q="a", seed=3)
    book = playbook({"program": f"{__name__}:sends", "roles": {"w": {"system": "new"}}})
    if answered:
        again = await replay(space, run, book, mode)
        assert (again.output, again.calls[0].arguments["text"]) == ("sent to a", "new")
    else:
        with pytest.raises(Missed, match=r"arguments\.text: found \"new\""):
            await replay(space, run, book, mode)
    assert sent == []


async def test_a_tool_that_changed_the_world_then_is_not_used_though_it_is_said_to_read_now() -> None:
    space = workspace()
    run = await space.run(playbook({"program": f"{__name__}:sends"}), q="a", seed=3)
    space.tools = [tool(name="send", effect="reads")(send.function)]
    book = playbook({"program": f"{__name__}:sends", "roles": {"w": {"system": "new"}}})
    with pytest.raises(Missed):
        await replay(space, run, book, ReplayMode("fork", 1))
    assert sent == []


@pytest.mark.parametrize("mode", [LENIENT, ReplayMode("fork", 1)])
async def test_no_person_is_asked_by_a_replay(mode: ReplayMode) -> None:
    asked: list[str] = []

    async def person(action: str, because: str) -> bool:
        asked.append(action)
        return True

    space = workspace()
    space.resources.confirm = person
    book = playbook({"program": f"{__name__}:sends", "rules": {"confirm": ["send"]}})
    run = await space.run(book, q="a", seed=3)
    assert asked == ["send"]
    assert (await replay(space, run, book, mode)).output == "sent to a"
    free = await space.run(playbook({"program": f"{__name__}:sends"}), q="a", seed=3)
    with pytest.raises(Missed, match="decision confirm send: found nothing recorded"):
        await replay(space, free, book, mode)
    assert asked == ["send"]


# Fork


async def test_from_the_step_of_a_fork_on_all_that_only_asks_is_live() -> None:
    space = workspace()
    run = await space.run(playbook(DEBATE), q="Why?", seed=3)
    steps = [*DEBATE["steps"][:2], {"name": "final", "role": "one", "prompt": "So? {facts} {logic}"}]
    changed = playbook(DEBATE, steps=steps)
    again = await replay(workspace(space.store), run, changed, ReplayMode("fork", 4))
    assert again.replay is not None
    assert again.replay["labels"] == {"turn": {"exact": 3, "live": 1}}
    assert [turn.body() for turn in again.turns[:3]] == [turn.body() for turn in run.turns[:3]]
    assert again.output == "so it is"
    assert built == ["model"]
    with pytest.raises(Missed, match="turn final"):
        await replay(space, run, changed, ReplayMode("fork", 5))


async def test_a_run_that_a_live_step_opens_is_live_too() -> None:
    space = workspace()
    run = await space.run(playbook(OPENING), q="Why?", seed=3)
    again = await replay(workspace(space.store), run, playbook(OPENING), ReplayMode("fork", 2))
    assert again.output == run.output
    assert again.replay is not None
    assert again.replay["labels"] == {"child": {"live": 2}, "turn": {"exact": 1}}
    labels = [recall(space.store, child.run).replay for child in again.children]
    assert [each["labels"] for each in labels if each] == [{"turn": {"live": 1}}] * 2


async def test_only_what_is_live_is_paid_for() -> None:
    space = workspace()
    run = await space.run(playbook(DEBATE), q="Why?", seed=3)
    (paid,) = (fact.value for fact in space.store.facts(Query(kind="run")))
    assert paid == pytest.approx(run.cost_usd)
    for mode, share in ((STRICT, 0.0), (ReplayMode("fork", 4), run.turns[3].cost_usd)):
        again = await replay(space, run, playbook(DEBATE), mode)
        assert again.cost_usd == pytest.approx(run.cost_usd)
        (fact,) = space.store.facts(Query(kind="run", key=again.id))
        assert fact.value == pytest.approx(share)


async def test_a_strict_replay_takes_no_place_of_a_live_run_in_the_quota() -> None:
    space = workspace(quota={"runs_per_day": 2})
    run = await space.run(playbook(DEBATE), q="Why?", seed=3)
    for _ in range(3):
        await replay(space, run, playbook(DEBATE))
    await space.run(playbook(DEBATE), q="Why?", seed=3)
    with pytest.raises(BudgetSpent):
        await replay(space, run, playbook(DEBATE), ReplayMode("fork", 1))


# Clock and chance


async def test_clock_and_chance_go_on_from_the_recording_by_the_seed() -> None:
    space = workspace()
    short, long = (playbook({"program": f"{__name__}:watching", "parameters": {"times": times}}) for times in (2, 5))
    run = await space.run(short, seed=3)
    one, two = [await replay(space, run, long) for _ in range(2)]
    assert one.output[:2] == run.output
    assert one.output == two.output
    times = [time for time, _ in one.output]
    assert times == sorted(times)
    assert len({chance for _, chance in one.output}) == 5
    other = await replay(space, run, long, seed=4)
    assert other.output[:2] == run.output
    assert other.output[2:] != one.output[2:]
    assert one.replay is not None
    assert one.replay["labels"] == {"reading": {"exact": 4, "substituted": 6}}


# Records


async def test_replays_are_not_among_the_runs_and_are_found_by_the_run_they_repeat() -> None:
    space, book = workspace(), playbook(AGENT)
    run = await space.run(book, q="Why?", seed=3)
    again = await replay(space, run, book)
    assert [each.id for each in recent(space.store, 9)] == [run.id]
    tagged = space.store.facts(Query(kind="turn", subject=again.id, tag="exact"))
    assert len(list(tagged)) == 1
    found = space.store.facts(Query(kind="start", tag=f"replays {run.id}"))
    assert [fact.key for fact in found] == [again.id]


async def test_a_replay_that_was_interrupted_goes_on_as_a_replay() -> None:
    space, book = workspace(), playbook({**AGENT, "program": f"{__name__}:stalling"})
    run = await space.run(book, q="Why?", seed=3)
    stalls.set()
    going = asyncio.create_task(space.resources.runner.replay(interrupted := next(IDS), book, run.id, STRICT))
    await asyncio.wait_for(stalled.wait(), 30)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    stalls.clear()
    assert recall(space.store, interrupted).status == "running"
    with pytest.raises(RunError, match="found a replay; expected a live run"):
        Recorder.resume(space.resources.runner.journal, interrupted, by="ada")
    sent.clear()
    again = await space.runs.resume(interrupted)
    assert told(again) == told(run)
    assert again.replay is not None
    assert again.replay["labels"] == {"call": {"exact": 2}, "reading": {"exact": 2}, "turn": {"exact": 1}}
    assert sent == []
    assert (await space.resources.runner.replay(interrupted, book, run.id, STRICT)).output == run.output


stalls, stalled = asyncio.Event(), asyncio.Event()


async def stalling(task: Mapping[str, Any], stage: Stage) -> Any:
    output = await agent(task, stage)
    if stalls.is_set():
        stalled.set()
        await asyncio.Event().wait()
    return output


async def test_asking_for_the_same_replay_twice_performs_it_once() -> None:
    space, book = workspace(), playbook(AGENT)
    run = await space.run(book, q="Why?", seed=3)
    name = next(IDS)
    one, two = await asyncio.gather(*(space.resources.runner.replay(name, book, run.id, STRICT) for _ in range(2)))
    third = await space.resources.runner.replay(name, book, run.id, STRICT)
    assert one == two
    assert told(third) == told(one)
    assert len(list(space.store.facts(Query(kind="start", key=name)))) == 1


async def test_a_recording_whose_playbook_is_gone_answers_no_turn_exactly() -> None:
    space, book = workspace(), playbook(AGENT)
    run = await space.run(book, q="Why?", seed=3)
    store = MemoryStore()
    for kind in space.store.kinds():
        store.load((), space.store.facts(Query(kind=kind)))
    with pytest.raises(Missed, match="turn draft: model"):
        await replay(workspace(store), run, book)
