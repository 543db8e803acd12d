"""Equal requests are told apart by their number; a call that a model asks for has its number before it is made."""

from __future__ import annotations

from seedbed.runs.request_keys import RequestKeys

CALLS = [{"id": name, "tool": "search", "arguments": {"q": "tea"}} for name in ("a", "b")]


def number(key: str) -> int:
    return int(key.rpartition("/")[2])


def taken(keys: RequestKeys) -> int:
    return number(keys.take("call", "search", {"q": "tea"}))


def test_the_same_request_has_another_number_each_time() -> None:
    keys = RequestKeys("run")
    assert [taken(keys), taken(keys)] == [1, 2]
    assert number(keys.next("call", "search", {"q": "mate"})) == 1
    assert keys.next("call", "search", {}).startswith("run/call/search/")


def test_a_call_keeps_the_number_of_its_place_in_whichever_order_calls_are_made() -> None:
    keys = RequestKeys("run")
    keys.reserve("turn 1", CALLS)
    assert keys.expect("b", "search", {"q": "tea"}) == "turn 1"
    assert number(keys.next("call", "search", {"q": "tea"})) == 2
    assert taken(keys) == 2
    keys.expect("a", "search", {"q": "tea"})
    assert [taken(keys), taken(keys)] == [1, 3]


def test_an_id_that_comes_again_names_the_next_call_and_unknown_ones_count_as_they_arrive() -> None:
    keys = RequestKeys("run")
    keys.reserve("turn 1", CALLS[:1])
    keys.reserve("turn 2", [*CALLS[:1], {"id": "c", "tool": "search", "arguments": None}])
    assert [keys.expect("a", "search", {"q": "tea"}), taken(keys)] == ["turn 1", 1]
    assert [keys.expect("a", "search", {"q": "tea"}), taken(keys)] == ["turn 2", 2]
    assert [keys.expect("a", "search", {"q": "tea"}), taken(keys)] == ["", 3]
    assert keys.expect("", "search", {"q": "mate"}) == ""
