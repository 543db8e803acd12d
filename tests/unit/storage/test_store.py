"""What all stores share: canonical text, digests, links, moves."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seedbed.errors import RefMoved, StoreDamaged, StoreError
from seedbed.storage.chain import GENESIS
from seedbed.storage.paths import without_password
from seedbed.storage.store import (
    Content,
    Fact,
    Query,
    Ref,
    RefMove,
    canonical,
    check_facts,
    digest,
    from_micros,
    is_sealed,
    micros,
    new_id,
    now,
    ref_after,
    short,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FACT = Fact(
    kind="approval", key="k", subject="s", at=NOON, by="ann", body={"a": 1}, value=1, parents=("p",), tags=("t",)
)

# A busy machine is not a failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
bodies = st.dictionaries(st.text(), values)


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(item) for key, item in reversed(value.items())}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@unhurried
@given(bodies)
def test_a_digest_does_not_depend_on_the_order_of_keys(body: dict[str, Any]) -> None:
    assert digest("playbook", reversed_keys(body)) == digest("playbook", body)


@unhurried
@given(values)
def test_canonical_text_is_json_of_the_same_value(value: Any) -> None:
    assert json.loads(canonical(value)) == value


@unhurried
@given(values)
def test_canonical_text_read_and_written_again_is_the_same(value: Any) -> None:
    assert canonical(json.loads(canonical(value))) == canonical(value)


@unhurried
@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_a_whole_number_is_the_same_as_integer_and_as_float(number: int) -> None:
    assert canonical({"n": float(number)}) == canonical({"n": number})


def test_canonical_text_is_as_written_down_here_for_ever() -> None:
    body = {"b": [1.0, -0.0, 1e16, 0.1, True, None], "a": "ü🌱\u2028\n\x00/", "": {}}
    assert canonical(body) == '{"":{},"a":"ü🌱\u2028\\n\\u0000/","b":[1,0,1e+16,0.1,true,null]}'
    assert digest("playbook", body) == "b2:6832cc53989a6d4ce45490fe3f3c74187617f297c3b4f9f95f89cd8fd6fc0f92"


@pytest.mark.parametrize(
    "body", [float("nan"), {"a": float("inf")}, {1: 2}, {"a": {2, 3}}, "\ud800", {"\udfff": 1}, b"x"]
)
def test_what_json_cannot_hold_has_no_canonical_text(body: Any) -> None:
    with pytest.raises(StoreError, match="expected"):
        canonical(body)


def test_values_too_deep_or_too_long_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(StoreError, match="nested"):
        canonical(deep)
    with pytest.raises(StoreError, match="digits"):
        canonical(10**5000)


def test_people_see_ten_characters_of_a_digest() -> None:
    assert short(GENESIS) == "0" * 10


@unhurried
@given(st.datetimes(NOON.replace(1900, tzinfo=None), NOON.replace(2200, tzinfo=None), timezones=st.timezones()))
def test_time_survives_as_microseconds(at: datetime) -> None:
    assert from_micros(micros(at)) == at.astimezone(UTC)


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://ann:secret@host/db", "postgresql://ann:***@host/db"),
        ("postgresql://ann:se:cr/et@secret@host:5432/db", "postgresql://ann:***@host:5432/db"),
        ("postgresql://:secret@/db", "postgresql://:***@/db"),
        ("postgresql:/ann:secret@host/db", "postgresql:/ann:***@host/db"),
        ("postgresql://ann@host/db?password=secret&port=1", "postgresql://ann@host/db?password=***&port=1"),
        ("postgresql://ann@host:5432/db", "postgresql://ann@host:5432/db"),
        ("sqlite:///folder:1/ann@home.db", "sqlite:///folder:1/ann@home.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, seen: str) -> None:
    assert without_password(url) == seen


def test_names_that_no_index_could_hold_are_refused_by_every_store() -> None:
    for name in ("x" * 1001, "ü" * 501, "nul\0", "\ud800"):
        for field in ("key", "subject", "by", "tags", "parents"):
            with pytest.raises(StoreError, match="at most 1,000 bytes"):
                check_facts([replace(FACT, **{field: (name,) if field in ("tags", "parents") else name})])
        with pytest.raises(StoreError, match="at most 1,000 bytes"):
            RefMove(name=name, to="x", expected=None, because="why", by="ann")
    assert check_facts([replace(FACT, key="x" * 1000)])


def test_a_sealed_body_passes_as_intact_and_an_altered_one_does_not() -> None:
    name = digest("note", {"a": 1})
    assert is_sealed({"sealed": "x"})
    assert not is_sealed({"sealed": "x", "a": 1})
    assert Content("note", name, {"sealed": "x"}).intact
    assert Content("note", name, {"a": 1}).intact
    assert not Content("note", name, {"a": 2}).intact
    assert not Content("other", name, {"a": 1}).intact
    assert not Content("note", name, {"a": float("nan")}).intact


@pytest.mark.parametrize("changes", [{"at": NOON.replace(tzinfo=None)}, {"kind": ""}, {"key": ""}])
def test_a_fact_needs_a_kind_a_key_and_a_zone(changes: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        replace(FACT, **changes)


@pytest.mark.parametrize(
    "given", [{"since": NOON.replace(tzinfo=None)}, {"until": NOON.replace(tzinfo=None)}, {"follow": True}]
)
def test_a_query_needs_zones_and_a_key_to_follow_from(given: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="query for cell facts"):
        Query(kind="cell", **given)


def test_facts_are_made_ready_to_be_kept() -> None:
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    given: Any = replace(FACT, at=tokyo, value=2, parents=["p"], tags=["t"], number=9, link="x")
    [ready] = check_facts([given])
    assert ready == replace(FACT, value=2.0)
    assert (ready.at.tzinfo, type(ready.value), ready.parents) == (UTC, float, ("p",))


@pytest.mark.parametrize(
    "odd", [{"parents": ["p"]}, {"tags": ["t"]}, {"number": 9}, {"link": "x"}, {"parents": []}, {"commitment": "aa"}]
)
def test_what_is_nearly_ready_is_made_ready_too(odd: dict[str, Any]) -> None:
    plain = replace(FACT, value=0.5, parents=(), tags=(), number=0, link="")
    [ready] = check_facts([replace(plain, **odd)])
    assert (type(ready.parents), type(ready.tags), ready.number, ready.link) == (tuple, tuple, 0, "")
    assert (ready.salt, ready.commitment) == ("", "")


def test_a_move_makes_the_next_version_of_a_ref() -> None:
    ref, fact = RefMove(name="main", to={"stable": "x"}, expected=None, because="why", by="ann").apply(None, 4, NOON)
    assert (
        ref == Ref(name="main", target={"stable": "x"}, version=5, at=NOON, by="ann", because="why") == ref_after(fact)
    )
    assert (fact.kind, fact.key, fact.subject) == ("move", "main@5", "main")
    assert fact.body == {"from": None, "to": {"stable": "x"}, "because": "why"}


def test_a_move_names_who_was_quicker() -> None:
    ref, _ = RefMove(name="a@b", to="x", expected=None, because="first", by="ann").apply(None, 0, NOON)
    newer = replace(ref, version=2, by="bob", because="second")
    with pytest.raises(RefMoved, match="at version 2, moved by bob: second; expected version 1"):
        RefMove(name="a@b", to="y", expected=ref, because="mine", by="ann").apply(newer, 2, NOON)
    with pytest.raises(RefMoved, match="gone; expected version 1"):
        RefMove(name="a@b", to="y", expected=ref, because="mine", by="ann").apply(None, 2, NOON)


@pytest.mark.parametrize("body", [{}, {"to": "x"}, {"because": "y"}])
def test_a_move_that_says_too_little_is_damaged(body: dict[str, Any]) -> None:
    with pytest.raises(StoreDamaged, match="main@1"):
        ref_after(Fact(kind="move", key="main@1", subject="main", at=NOON, by="ann", body=body))


def test_a_move_without_a_version_is_damaged() -> None:
    with pytest.raises(StoreDamaged, match="main"):
        ref_after(Fact(kind="move", key="main", subject="main", at=NOON, by="ann", body={"to": "x", "because": "y"}))


def test_times_without_a_zone_are_refused() -> None:
    naive = datetime(2026, 11, 15, 12)  # noqa: DTZ001
    for make in (
        lambda: Fact(kind="cell", key="a", subject="b", at=naive, by="ann"),
        lambda: Query(kind="cell", until=naive),
    ):
        with pytest.raises(StoreError, match="zone"):
            make()


def test_ids_of_what_happens_now_are_told_apart_and_sort_by_time() -> None:
    ids = []
    for _ in range(50):
        ids.append(new_id())
        time.sleep(0.0001)
    assert ids == sorted(ids)
    assert len({short(each) for each in ids}) == 50
    assert {(each[0], UUID(each[1:]).version) for each in ids} == {("t", 7)}
    assert abs(int(ids[-1][1:13], 16) / 1000 - now().timestamp()) < 60
