"""What turns have in common is held and stored once, and read back whole."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import StoreDamaged
from seedbed.runs.messages import UNSAID, MessageHistory, Messages, from_compared, to_compare, without_quotes

TEXTS = st.text(max_size=60) | st.sampled_from(["yes", "no", "a" * 50, "b" * 60])


def turn(messages: list[list[str]], text: str, **more: Any) -> dict[str, Any]:
    return {"messages": messages, "text": text, "role": "a", **UNSAID, **more}


@given(st.data())
def test_every_turn_is_read_back_as_it_was(data: st.DataObject) -> None:
    writer, reader, turns = MessageHistory(), MessageHistory(), list[dict[str, Any]]()
    for number in range(data.draw(st.integers(1, 8))):
        before: list[list[str]] = []
        if turns and data.draw(st.booleans()):
            earlier = data.draw(st.sampled_from(turns))
            before = [*earlier["messages"], ["assistant", earlier["text"]]]
            before = before[: data.draw(st.integers(0, len(before)))]
        quoted = data.draw(st.sampled_from([each["text"] for each in turns] or [""]))
        fresh = [["user", data.draw(TEXTS)], ["user", f"s:\n{quoted}"]]
        notices = data.draw(st.lists(TEXTS, max_size=1))
        body = turn([*before, *fresh], data.draw(TEXTS), notices=notices)
        key = f"run/turn/s{number}/0/1"
        stored = json.loads(json.dumps(writer.shorten(body)))
        writer.add(key, body)
        turns.append(body)
        assert reader.restore(key, stored) == body
        assert writer.messages(body) == [tuple(each) for each in body["messages"]]


def test_a_long_dialogue_stores_its_text_once() -> None:
    history, said, stored = MessageHistory(), list[list[str]](), ""
    for number in range(50):
        said.append(["user", f"question {number}"])
        body = turn(list(said), f"answer {number} {'x' * 300}")
        stored += json.dumps(history.shorten(body))
        history.add(f"run/turn/s{number}/0/1", body)
        said.append(["assistant", body["text"]])
    assert all(stored.count(f'"question {number}"') == 1 for number in range(50))
    assert stored.count("x" * 300) == 50
    assert len(stored) < 50 * 450


def test_an_answer_that_is_quoted_under_its_name_is_not_repeated() -> None:
    history = MessageHistory()
    first = turn([["user", "why?"]], "because " * 20)
    history.add("run/turn/s/0/1", first)
    second = turn([["user", f"s:\n{first['text']}"]], "so")
    assert history.shorten(second)["messages"] == [["user", "s:\n", "s/0/1"]]
    assert history.expand(history.shorten(second)) == second
    third = turn([["user", "why?"], ["user", f"s:\n{first['text']}"]], "so")
    assert history.shorten(third) == {
        "messages": [["user", "s:\n", ""]],
        "text": "so",
        "role": "a",
        "after": ["s/0/1", 1],
    }
    assert history.expand(history.shorten(third)) == third


def test_a_turn_of_before_is_read_as_it_is() -> None:
    old = turn([["user", "why?"]], "because", notices=["late"])
    assert MessageHistory().restore("run/turn/s/0/1", old) == old


@pytest.mark.parametrize("stored", [{"after": ["gone", 2], "messages": []}, {"messages": [["user", "s:\n", "gone"]]}])
def test_a_turn_whose_predecessor_is_gone_is_damage(stored: dict[str, Any]) -> None:
    with pytest.raises(StoreDamaged, match="gone"):
        MessageHistory().expand({"text": "x", **stored})


def test_messages_are_a_sequence_like_any_other() -> None:
    pairs = [("user", f"{number}") for number in range(5_000)]
    messages = Messages.of(pairs)
    assert messages == pairs
    assert messages != pairs[:-1]
    assert (len(messages), messages[0], messages[-2:]) == (5_000, ("user", "0"), tuple(pairs[-2:]))
    assert pickle.loads(pickle.dumps(messages)) == deepcopy(messages) == messages
    assert hash(messages) == hash(Messages.of(pairs))
    assert list(Messages()) == []


CALLS = [{"id": "c-9", "tool": "search", "arguments": {"q": "tea"}}]
ASKED = ["assistant", "", {"calls": CALLS, "native": {"class": "x", "content": [], "extra": {}}}]
RESULT = ["tool", "green", {"call": "c-9"}]


def test_calls_and_their_results_are_stored_once_and_read_back_whole() -> None:
    writer, reader = MessageHistory(), MessageHistory()
    first = turn([["user", "Tea?"]], "", calls=CALLS, native=ASKED[2]["native"])
    second = turn([["user", "Tea?"], ASKED, RESULT], "Green.")
    stored = [writer.shorten(first)]
    writer.add("r/turn/s/0/1", first)
    stored.append(writer.shorten(second))
    assert stored[1]["messages"] == [RESULT]
    assert reader.restore("r/turn/s/0/1", stored[0]) == first
    assert reader.restore("r/turn/s/1/1", json.loads(json.dumps(stored[1]))) == second
    assert [*reader.messages(second)] == [("user", "Tea?"), (*ASKED,), (*RESULT,)]
    assert without_quotes(["user", "s:", "s/0/1"]) == ("user", "s:")


def test_requests_are_compared_without_the_ids_that_a_provider_makes_up() -> None:
    renamed = json.loads(json.dumps([ASKED, RESULT]).replace("c-9", "c-17"))
    assert to_compare([ASKED, RESULT]) == to_compare(renamed)
    assert to_compare([["user", "Tea?"]]) == [{"speaker": "user", "text": "Tea?"}]
    failed = ["tool", "green", {"call": "c-9", "failed": True}]
    assert to_compare([ASKED, RESULT]) != to_compare([ASKED, failed])
    assert to_compare(map(from_compared, to_compare([ASKED, failed]))) == to_compare([ASKED, failed])
