"""Every store keeps the contract, and hands over to every other without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import permutations
from pathlib import Path

import pytest

from seedbed.errors import StoreError
from seedbed.storage import open_store
from seedbed.storage.store import UpkeptStore
from seedbed.storage.upkeep import copy, verify
from seedbed.testing import BODIES, StoreContract, everything, fact, move

Opener = Callable[[str], UpkeptStore]


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens stores by their URLs and closes them after the test."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(closing(open_store(url)))


class _StoreAtUrl(StoreContract):
    @pytest.fixture
    def store(self, opened: Opener, url: str) -> UpkeptStore:
        return opened(url)

    @pytest.fixture
    def reopen(self, store: UpkeptStore, opened: Opener, url: str) -> Callable[[], UpkeptStore]:
        return lambda: opened(url) if self.shared else store


class TestMemory(_StoreAtUrl):
    shared = False

    @pytest.fixture
    def url(self) -> str:
        return "memory:"


class TestFiles(_StoreAtUrl):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"files:{tmp_path}/store"


class TestSqlite(_StoreAtUrl):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/x.db"


class TestPostgresql(_StoreAtUrl):
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url


@pytest.fixture(params=permutations(("memory", "files", "sqlite", "postgresql"), 2), ids="-to-".join)
def pair(request: pytest.FixtureRequest, opened: Opener, tmp_path: Path) -> tuple[UpkeptStore, UpkeptStore]:
    """Two empty stores of different make."""
    urls = {"memory": "memory:", "files": f"files:{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/x.db"}
    if "postgresql" in request.param:
        urls["postgresql"] = request.getfixturevalue("postgres_url")
    source, target = request.param
    return opened(urls[source]), opened(urls[target])


def fill(store: UpkeptStore) -> None:
    """Some of everything: odd texts, facts of many kinds with repeats between them, moves, a removed ref."""
    names = [store.put("playbook", body) for body in BODIES.values()]
    store.append(fact(f"{n}", subject=names[n % 8], value=n / 3, tags=(f"t{n % 5}",)) for n in range(2100))
    for n in range(5):
        store.append(
            [fact(f"{n}", parents=("x",)), fact(f"{n}", "turn"), fact(f"{n}", "approval", body=BODIES["emoji"])]
        )
        move(store, f"branches/{n % 3}", {"stable": names[n]}, store.ref(f"branches/{n % 3}"))
    move(store, "branches/2", None, store.ref("branches/2"))


def test_a_copy_between_two_stores_loses_nothing(pair: tuple[UpkeptStore, UpkeptStore]) -> None:
    source, target = pair
    fill(source)
    copy(source, target)
    assert everything(target) == everything(source)
    assert verify(target).problems == ()
    assert verify(target) == verify(source)


def test_an_interrupted_copy_is_completed_by_running_it_again(pair: tuple[UpkeptStore, UpkeptStore]) -> None:
    source, target = pair
    fill(source)

    def interrupt(done: int) -> None:
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(source, target, interrupt)
    assert 0 < sum(target.kinds().values()) < sum(source.kinds().values())
    copy(source, target)
    assert everything(target) == everything(source)
    move(source, "branches/1", "later", source.ref("branches/1"))
    copy(source, target)
    assert everything(target) == everything(source)


def test_a_target_that_went_its_own_way_is_not_copied_into(pair: tuple[UpkeptStore, UpkeptStore]) -> None:
    source, target = pair
    move(source, "main", "one")
    copy(source, target)
    move(target, "main", "two", target.ref("main"))
    before = everything(target)
    with pytest.raises(StoreError, match="Copy into a new store"):
        copy(source, target)
    move(source, "main", "three", source.ref("main"))
    with pytest.raises(StoreError, match="Copy into a new store"):
        copy(source, target)
    assert everything(target) == before
