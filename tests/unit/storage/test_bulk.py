"""Many things put together are the same as each put alone, in every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.errors import StoreError
from seedbed.storage import open_store
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.store import UpkeptStore, put_all

BODIES = [{"n": n} for n in range(300)]
KINDS = ["memory", "sqlite", "postgresql", "encrypted"]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> UpkeptStore:
    if request.param == "memory":
        return open_store("memory:")
    if request.param == "postgresql":
        return open_store(str(request.getfixturevalue("postgres_url")))
    plain = open_store(f"sqlite:///{tmp_path}/seedbed.db")
    return EncryptedStore(plain, MasterKey("A" * 43 + "=")) if request.param == "encrypted" else plain


def test_names_come_in_order_and_what_is_there_already_stays(store: UpkeptStore) -> None:
    first = store.put("note", BODIES[7])
    names = put_all(store, "note", BODIES)
    assert names[7] == first
    assert [store.get(name) for name in names] == BODIES
    assert put_all(store, "note", BODIES) == names
    assert sum(1 for _ in store.contents("note")) == 300
    assert put_all(store, "note", []) == []


def test_the_same_twice_at_once_is_one(store: UpkeptStore) -> None:
    one, two = put_all(store, "note", [BODIES[0], BODIES[0]])
    assert one == two
    assert sum(1 for _ in store.contents("note")) == 1


def test_all_of_them_or_none(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/seedbed.db")
    with pytest.raises(StoreError):
        put_all(store, "note", [*BODIES[:5], {"n": float("nan")}])
    assert list(store.contents("note")) == []
