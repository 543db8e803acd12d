"""What a recording can answer, and what it cannot."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seedbed.errors import NotFound, SettingsError
from seedbed.runs.cassette import Cassette, Missed, ReplayMode, first_difference
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, digest

PLAYBOOK = "b2:" + "1" * 64
AT = datetime(2026, 1, 1, tzinfo=UTC)


def no_way(step: str, role: str) -> Json:
    return {}


def words(request: object) -> str:
    return digest("request", request)[3:19]


async def recorded(*entries: tuple[str, str, Any, Json], end: bool = True) -> Cassette:
    """A recording with entries of a kind and name, for a request, with a body."""
    store = MemoryStore()
    recorder = Recorder(
        Journal(store),
        RunStart(PLAYBOOK, {"q": "Why?"}, seed=7, models={"m": {"use": "x"}}),
        by="ada",
        clock=lambda: AT,
    )
    await recorder.start()
    for kind, name, request, body in entries:

        async def work(body: Json = body) -> Json:
            return body

        await recorder.record(kind, name, request, work)
    if end:
        await recorder.end("completed", "done")
    return Cassette.load(store, recorder.id, no_way)


def call(changes: bool = False, **arguments: Any) -> Json:
    return {"tool": "t", "arguments": arguments, "result": 1, "error": "", "changes": changes, "latency_seconds": 0.1}


# Modes


@pytest.mark.parametrize("text", ["strict", "lenient", "fork:1", "fork:12"])
def test_a_mode_reads_as_it_is_written(text: str) -> None:
    assert str(ReplayMode.parse(text)) == text


@pytest.mark.parametrize("text", ["", "Strict", "fork", "fork:0", "fork:-1", "fork:x", "lenient:2"])
def test_what_is_no_mode_is_told(text: str) -> None:
    with pytest.raises(SettingsError, match=r"mode: found .* expected strict, lenient, or fork:K"):
        ReplayMode.parse(text)


def test_only_a_fork_is_live_and_only_from_its_step_on() -> None:
    assert [ReplayMode.parse("fork:3").is_live(step) for step in (1, 2, 3, 4)] == [False, False, True, True]
    assert not ReplayMode.parse("strict").is_live(99)
    assert not ReplayMode.parse("lenient").is_live(99)


def test_what_was_missed_travels_between_processes() -> None:
    assert str(pickle.loads(pickle.dumps(Missed("not there")))) == "not there"


# Answers


async def test_the_how_manieth_time_the_same_words_are_asked_decides_which_answer_it_is() -> None:
    tape = await recorded(
        ("call", "t", {"a": 1}, call(a=1) | {"result": "first"}),
        ("call", "t", {"a": 2}, call(a=2) | {"result": "other"}),
        ("call", "t", {"a": 1}, call(a=1) | {"result": "second"}),
    )
    found = [tape.find("call", "t", words({"a": 1}), time) for time in (1, 2, 3)]
    assert [each and each.body["result"] for each in found] == ["first", "second", None]
    assert tape.find("call", "u", words({"a": 1}), 1) is None
    assert tape.find("turn", "t", words({"a": 1}), 1) is None


@pytest.mark.parametrize("name", ["a/b", "a@2", "1/2/3", "ünï code", "line\nbreak"])
async def test_names_may_have_any_sign_in_them(name: str) -> None:
    tape = await recorded(("call", name, {"a": 1}, call(a=1)))
    assert tape.find("call", name, words({"a": 1}), 1)
    assert tape.tools == {name}


async def test_the_nearest_is_the_one_with_most_in_common_and_of_equals_the_first() -> None:
    texts = ("one two three", "one two four five", "six")
    tape = await recorded(*(("call", "t", {"text": text}, call(text=text)) for text in texts))

    def nearest(text: str) -> Any:
        found = tape.nearest("call", "t", {"arguments": {"text": text}, "time": 1})
        return found and found.body["arguments"]["text"]

    assert nearest("one two four") == "one two four five"
    assert nearest("one three") == "one two three"
    assert nearest("six seven") == "six"
    assert nearest("nothing of it") == "one two three"
    assert tape.nearest("call", "u", {"arguments": {}, "time": 1}) is None


async def test_a_tool_that_changed_the_world_is_known_for_it() -> None:
    tape = await recorded(("call", "look", {}, call()), ("call", "send", {}, call(changes=True)))
    assert (tape.tools, tape.changing) == ({"look", "send"}, {"send"})


async def test_it_knows_the_time_it_was_last_told() -> None:
    later = AT + timedelta(hours=2)
    read = {"name": "now", "value": later.isoformat()}
    assert (await recorded(("reading", "now", None, read))).latest == later
    assert (await recorded()).latest == AT


async def test_it_knows_how_long_the_run_took_if_it_has_ended() -> None:
    assert (await recorded()).latency_seconds is not None
    assert (await recorded(end=False)).latency_seconds is None


async def test_one_without_answers_keeps_the_time_and_the_seed() -> None:
    tape = (await recorded(("call", "t", {}, call()))).without_answers()
    assert (tape.run, tape.seed, tape.latest, tape.tools, tape.summary()) == ("", 7, AT, frozenset(), "nothing")


def test_a_run_that_is_not_recorded_is_told() -> None:
    with pytest.raises(NotFound, match="no run"):
        Cassette.load(MemoryStore(), "f" * 32, no_way)


# Differences


@pytest.mark.parametrize(
    ("now", "recorded", "path", "found", "expected"),
    [
        ({"a": 1}, {"a": 2}, "a", "1", "2"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b.1", "2", "3"),
        ({"a": [1]}, {"a": [1, 2]}, "a.1", "nothing", "2"),
        ({"a": 1, "b": 2}, {"a": 1}, "b", "2", "nothing"),
        ({"a": 1}, {"a": 1, "b": 2}, "b", "nothing", "2"),
        ({"a": True}, {"a": 1}, "a", "True", "1"),
        ({"a": None}, {"a": 0}, "a", "nothing", "0"),
        ({"a": "x"}, {"a": ["x"]}, "a", '"x"', "['x']"),
    ],
)
def test_the_first_place_that_differs_is_named(now: Any, recorded: Any, path: str, found: str, expected: str) -> None:
    differs = first_difference(now, recorded)
    assert differs is not None
    assert (differs.path, differs.now, differs.recorded) == (path, found, expected)


def test_long_texts_are_shown_where_they_differ() -> None:
    differs = first_difference({"text": "a" * 500 + "here"}, {"text": "a" * 500 + "there"})
    assert differs is not None
    assert differs.now.endswith('here"')
    assert differs.recorded.endswith('there"')
    assert len(differs.now) < 80


def test_what_is_the_same_differs_nowhere() -> None:
    assert first_difference({"a": [1, {"b": "x"}], "c": 1.0}, {"c": 1, "a": [1, {"b": "x"}]}) is None
