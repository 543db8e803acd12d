"""An encrypted store keeps the contract of the store within, and hands over to plain ones and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from seedbed.storage import open_store
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, UpkeptStore, is_sealed
from seedbed.storage.upkeep import copy, gc, verify
from seedbed.testing import StoreContract, everything, fact

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER_KEY = "IAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class TestEncryptedInMemory(StoreContract):
    @pytest.fixture
    def inner(self) -> UpkeptStore:
        return MemoryStore()

    @pytest.fixture
    def store(self, inner: UpkeptStore) -> UpkeptStore:
        return EncryptedStore(inner, MasterKey(KEY))

    @pytest.fixture
    def reopen(self, inner: UpkeptStore) -> Callable[[], UpkeptStore]:
        return lambda: EncryptedStore(inner, MasterKey(KEY))


class TestEncryptedSqlite(StoreContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Callable[[], UpkeptStore]]:
        with ExitStack() as stack:

            def opener() -> UpkeptStore:
                inner = open_store(f"sqlite:///{tmp_path}/x.db")
                return stack.enter_context(closing(EncryptedStore(inner, MasterKey(KEY))))

            yield opener

    @pytest.fixture
    def store(self, opened: Callable[[], UpkeptStore]) -> UpkeptStore:
        return opened()

    @pytest.fixture
    def reopen(self, store: UpkeptStore, opened: Callable[[], UpkeptStore]) -> Callable[[], UpkeptStore]:
        return opened


@pytest.fixture
def plain() -> MemoryStore:
    store = MemoryStore()
    name = store.put("playbook", {"roles": {"writer": {"system": "Answer."}}})
    store.append([fact("a", subject=name, body={"said": "yes"}), fact("ok", kind="approval", body={"because": "fine"})])
    store.move("main", name, expected=None, because="test", by="ann")
    return store


def test_an_encrypted_store_is_sealed_anew_by_copying_it_into_another(plain: MemoryStore) -> None:
    first, inner = EncryptedStore(MemoryStore(), MasterKey(KEY)), MemoryStore()
    copy(plain, first)
    first.rotate(MasterKey(OTHER_KEY), by="ann")
    second = EncryptedStore(inner, MasterKey(KEY))
    copy(first, second)
    assert everything(second) == everything(first)
    second.append([fact("later")])
    for store in (first, second, inner):
        assert verify(store).problems == ()
    back = MemoryStore()
    copy(second, back)
    assert everything(back) == everything(second)


def test_a_store_is_backed_up_and_verified_without_the_key(plain: MemoryStore) -> None:
    inner, backup = MemoryStore(), MemoryStore()
    store = EncryptedStore(inner, MasterKey(KEY))
    copy(plain, store)
    copy(inner, backup)
    assert verify(backup).problems == ()
    assert all(is_sealed(content.body) for content in backup.contents())
    assert [told.body for told in backup.facts(Query(kind="approval"))] == [{"because": "fine"}]
    assert everything(EncryptedStore(backup, MasterKey(KEY))) == everything(store)


def test_cleaning_through_the_wrapper_keeps_the_keys(plain: MemoryStore) -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, MasterKey(KEY))
    copy(plain, store)
    forgotten = store.put("playbook", {"nobody": "mentions it"})
    assert list(gc(store, dry_run=False)) == [forgotten]
    assert everything(EncryptedStore(inner, MasterKey(KEY))) == everything(plain)
