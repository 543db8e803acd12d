"""A store with Redis in front keeps the contract of the store within, whatever becomes of Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from seedbed.storage import open_store
from seedbed.storage.cache import CachedStore, with_cache
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.redis import Redis
from seedbed.storage.store import UpkeptStore
from seedbed.testing import StoreContract

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


class _CachedStore(StoreContract):
    """Every test shares one Redis server: no store may meet what another left there."""

    @pytest.fixture
    def redis(self, redis_url: str) -> Redis:
        return Redis(redis_url, timeout_seconds=10)

    def wrapped(self, store: UpkeptStore, redis: Redis) -> UpkeptStore:
        cached = with_cache(store, redis)
        assert isinstance(cached, CachedStore)
        return cached

    @pytest.fixture
    def opened(self, url: str, redis: Redis) -> Iterator[Callable[[], UpkeptStore]]:
        with ExitStack() as stack:
            yield lambda: stack.enter_context(closing(self.wrapped(open_store(url), redis)))

    @pytest.fixture
    def store(self, opened: Callable[[], UpkeptStore]) -> UpkeptStore:
        return opened()

    @pytest.fixture
    def reopen(self, store: UpkeptStore, opened: Callable[[], UpkeptStore]) -> Callable[[], UpkeptStore]:
        return opened


class TestCachedSqlite(_CachedStore):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/x.db"


class TestCachedPostgresql(_CachedStore):
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url


class TestCachedAndEncrypted(TestCachedSqlite):
    def wrapped(self, store: UpkeptStore, redis: Redis) -> UpkeptStore:
        return EncryptedStore(with_cache(store, redis), MasterKey(KEY))


class TestCachedWithoutRedis(TestCachedSqlite):
    @pytest.fixture
    def redis(self, tmp_path: Path) -> Redis:
        return Redis(f"unix://{tmp_path}/nobody.sock")
