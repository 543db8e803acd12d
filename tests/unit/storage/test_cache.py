"""Cached: Redis answers what it can prove, the store answers everything else."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import seedbed
from seedbed import ExactMatch, Playbook
from seedbed.errors import NotFound
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.cache import CachedStore, with_cache
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.redis import Redis
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Query, UpkeptStore
from seedbed.storage.upkeep import verify
from seedbed.testing import fact, keys, move

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
CELLS = Query(kind="cell", keys=[f"{n}" for n in range(9)])


class Watched(SqlStore):
    """A store that remembers what it was asked for."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[Any] = []

    def get(self, digest: str) -> Any:
        self.asked.append(digest)
        return super().get(digest)

    def facts(self, query: Query) -> Any:
        self.asked.append(query)
        return super().facts(query)


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[Watched]:
    with closing(Watched(f"sqlite:///{tmp_path}/x.db")) as store:
        yield store


@pytest.fixture
def store(inner: Watched, redis_server: Any) -> Iterator[CachedStore]:
    with closing(
        CachedStore(inner, Redis(redis_server.url, timeout_seconds=10), inner.identity, inner.secret)
    ) as store:
        yield store


def fill(store: UpkeptStore) -> str:
    """Some content and nine cells, all of them seen once."""
    name = store.put("note", {"text": "one"})
    store.append(fact(f"{n}", value=n / 7, body={"n": n}, tags=("t",)) for n in range(9))
    assert len(list(store.facts(CELLS))) == 9
    assert store.get(name) == {"text": "one"}
    return name


def test_what_redis_knows_the_store_is_not_asked_for(store: CachedStore, inner: Watched) -> None:
    name = fill(store)
    told = list(inner.facts(CELLS))
    inner.asked.clear()
    assert list(store.facts(CELLS)) == told
    assert list(store.facts(Query(kind="cell", key="3"))) == told[3:4]
    assert keys(store.facts(Query(kind="cell", keys=["7", "1", "5"], newest=True, limit=2))) == ["7", "5"]
    assert store.get(name) == {"text": "one"}
    assert inner.asked == []


def test_only_what_redis_does_not_know_is_asked_for_and_then_it_does(store: CachedStore, inner: Watched) -> None:
    fill(store)
    store.append([fact("new")])
    inner.asked.clear()
    wanted = Query(kind="cell", keys=["new", "3", "never"])
    assert keys(store.facts(wanted)) == ["3", "new"]
    assert keys(store.facts(wanted)) == ["3", "new"]
    assert [query.keys for query in inner.asked] == [["new", "never"], ["never"]]


def test_that_something_is_not_there_is_never_remembered(store: CachedStore, inner: Watched) -> None:
    assert list(store.facts(Query(kind="cell", key="late"))) == []
    inner.append([fact("late")])
    assert keys(store.facts(Query(kind="cell", key="late"))) == ["late"]


def test_refs_and_what_decides_on_releases_come_from_the_store(store: CachedStore, redis_server: Any) -> None:
    before = move(store, "main", "one")
    store.append([fact("yes", kind="approval")])
    assert keys(store.facts(Query(kind="approval", key="yes"))) == ["yes"]
    move(store.inner, "main", "two", before)
    assert getattr(store.ref("main"), "target", None) == "two"
    assert redis_server.client.keys() == []


def test_discarded_content_is_gone_from_redis_too(store: CachedStore) -> None:
    name = fill(store)
    assert store.discard([name]) == 1
    with pytest.raises(NotFound):
        store.get(name)


def test_verify_looks_past_the_cache(store: CachedStore) -> None:
    dataset = store.put("dataset", {"tasks": []})
    store.append([fact("v", kind="verdict", body={"dataset": dataset})])
    assert verify(store).clean
    store.inner.discard([dataset])
    assert store.get(dataset) == {"tasks": []}  # which Redis still has
    assert not verify(store).clean


def swap(client: Any, names: list[bytes]) -> None:
    for one, other in zip(names, [client.get(name) for name in reversed(names)], strict=True):
        client.set(one, other)


def forge(client: Any, names: list[bytes]) -> None:
    for name in names:
        client.set(name, client.get(name).replace(b"one", b"two").replace(b'"n":3', b'"n":4'))


def cut(client: Any, names: list[bytes]) -> None:
    for name in names:
        client.set(name, client.get(name)[:-5])


def garbage(client: Any, names: list[bytes]) -> None:
    for name in names:
        client.set(name, b"\xff\x00 garbage {")


def other_type(client: Any, names: list[bytes]) -> None:
    for name in names:
        client.delete(name)
        client.hset(name, "a", "b")


def flush(client: Any, names: list[bytes]) -> None:
    assert names
    client.flushall()


@pytest.mark.parametrize("harm", [swap, forge, cut, garbage, other_type, flush], ids=lambda harm: harm.__name__)
def test_whatever_is_done_to_values_in_redis_the_store_answers_and_mends_them(
    store: CachedStore, inner: Watched, redis_server: Any, harm: Callable[[Any, list[bytes]], None], caplog: Any
) -> None:
    name = fill(store)
    told = list(inner.facts(CELLS))
    harm(redis_server.client, sorted(redis_server.client.keys()))
    for _ in range(2):
        assert store.get(name) == {"text": "one"}
        assert list(store.facts(CELLS)) == told
    inner.asked.clear()
    assert list(store.facts(CELLS)) == told
    assert inner.asked == []
    assert len(caplog.records) == (harm not in (other_type, flush))


def test_two_stores_in_one_redis_never_mix(tmp_path: Path, redis_server: Any) -> None:
    def opened(folder: Path) -> UpkeptStore:
        return with_cache(open_store(f"sqlite:///{folder}/x.db"), Redis(redis_server.url, timeout_seconds=10))

    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    with closing(opened(first)) as store:
        fill(store)
    shutil.copytree(first, second)  # a copy goes its own way
    with closing(opened(first)) as one, closing(opened(second)) as other:
        one.append([fact("new", value=1)])
        other.append([fact("new", value=2)])
        for _ in range(2):
            assert [next(store.facts(Query(kind="cell", key="new"))).value for store in (one, other)] == [1, 2]
    shutil.rmtree(first)
    first.mkdir()
    with closing(opened(first)) as made_anew:
        assert list(made_anew.facts(CELLS)) == []


def test_redis_sees_nothing_of_an_encrypted_store_in_plain_text(inner: Watched, redis_server: Any) -> None:
    store = EncryptedStore(
        CachedStore(inner, Redis(redis_server.url, timeout_seconds=10), "x", b"secret"), MasterKey(KEY)
    )
    name = store.put("note", {"text": "very secret words"})
    store.append([fact("a", body={"said": "very secret words"})])
    for _ in range(2):
        assert store.get(name) == {"text": "very secret words"}
        assert next(store.facts(Query(kind="cell", key="a"))).body == {"said": "very secret words"}
    kept = [redis_server.client.get(name) for name in redis_server.client.scan_iter()]
    assert len(kept) == 1
    assert not any(b"secret" in value for value in kept)


# Redis lost, full, slow


def test_a_redis_that_is_lost_costs_one_notice_and_is_used_again_when_it_is_back(
    inner: Watched, redis_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    time = [0.0]
    store = CachedStore(inner, Redis(redis_server.url, timeout_seconds=10, clock=lambda: time[0]), "x", b"secret")
    name = fill(store)
    redis_server.kill()
    for n in range(9):
        assert len(list(store.facts(CELLS))) == 9
        assert store.get(name) == {"text": "one"}
        store.append([fact(f"later {n}")])
        time[0] += 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "seedbed continues without it" in caplog.text
    redis_server.start()
    time[0] += 10
    assert len(list(store.facts(CELLS))) == 9
    inner.asked.clear()
    assert len(list(store.facts(CELLS))) == 9
    assert inner.asked == []


def test_a_redis_that_is_full_is_still_read_from(
    store: CachedStore, inner: Watched, redis_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fill(store)
    redis_server.client.config_set("maxmemory-policy", "noeviction")
    redis_server.client.config_set("maxmemory", "1")
    store.append([fact("new")])
    for _ in range(3):
        assert keys(store.facts(Query(kind="cell", keys=["new", "3"]))) == ["3", "new"]
    inner.asked.clear()
    assert len(list(store.facts(CELLS))) == 9
    assert inner.asked == []
    assert len(caplog.records) == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$-7\r\nx", b"\xff" * 99 + b"\r\n"])
def test_a_server_that_is_silent_or_no_redis_is_waited_for_once(
    inner: Watched, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    taken.append(listening.accept()[0])
                    taken[-1].sendall(answer)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        url = f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        fill(CachedStore(inner, Redis(url, timeout_seconds=0.1, clock=lambda: 0.0), "x", b"secret"))
        for connection in taken:
            connection.close()
        assert len(taken) <= 2
    assert len(caplog.records) == 1


def test_no_password_is_shown_when_redis_is_lost_or_refuses_it(
    inner: Watched, redis_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.client.config_set("requirepass", "right")
    path = redis_server.url.removeprefix("unix://")
    for url in (f"unix://:hunter2@{path}", "redis://:hunter2@127.0.0.1:1/0", "redis://ann:hunter2@[::1]:1/0"):
        fill(CachedStore(inner, Redis(url), "x", b"secret"))
    assert len(caplog.records) == 3
    assert "hunter2" not in caplog.text


# Processes

WRITER = """
import sys
from seedbed.storage import open_store
from seedbed.storage.cache import with_cache
from seedbed.storage.redis import Redis
from seedbed.storage.store import Query
from seedbed.testing import fact

store = with_cache(open_store(sys.argv[1]), Redis(sys.argv[2]))
for n in range(100_000):
    store.put("note", {"text": f"{sys.argv[3]} {n}"})
    store.append([fact(f"{sys.argv[3]} {n}", value=n, body={"n": n}) for n in (n, n - 1)])
    assert [each.value for each in store.facts(Query(kind="cell", keys=[f"{sys.argv[3]} {n}"]))] == [n]
    print(n, flush=True)
"""


def test_what_was_acknowledged_is_there_however_processes_and_redis_die(tmp_path: Path, redis_server: Any) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    open_store(url).close()
    acknowledged = {}
    for round_ in range(4):
        command = [sys.executable, "-c", WRITER, url, redis_server.url, f"{round_}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
            assert writer.stdout
            for line in writer.stdout:
                acknowledged[f"{round_} {int(line)}"] = int(line)
                if int(line) == 20 + 7 * round_ and round_ % 2:
                    redis_server.kill()
                if int(line) == 60:
                    writer.send_signal(signal.SIGKILL)
                    break
        if round_ % 2:
            redis_server.start()
    assert len(acknowledged) == 4 * 61
    with closing(with_cache(open_store(url), Redis(redis_server.url, timeout_seconds=10))) as store:
        for _ in range(2):
            told = {each.key: each.value for each in store.facts(Query(kind="cell", keys=[*acknowledged]))}
            assert told == acknowledged
        assert verify(store).clean


# The workspace


def test_a_workspace_on_postgresql_has_its_cache_beneath_the_encryption(
    tmp_path: Path, postgres_url: str, redis_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "seedbed.yaml"
    path.write_text("store: {env: MY_STORE}\nencrypted: true\ncache: {env: MY_REDIS}\n")
    settings = Settings.load(path, {"MY_STORE": postgres_url, "MY_REDIS": redis_server.url})
    monkeypatch.setenv("SEEDBED_KEY", KEY)
    with closing(seedbed.open(settings)) as space:
        space.store.append([fact("a", body={"said": "secret"})])
        assert next(space.store.facts(Query(kind="cell", key="a"))).body == {"said": "secret"}
    (kept,) = redis_server.client.keys()
    assert b"secret" not in redis_server.client.get(kept)


def test_a_workspace_opens_and_works_without_its_redis(
    tmp_path: Path, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(seedbed.open(Settings(store=postgres_url, cache=f"unix://{tmp_path}/none.sock"))) as space:
        assert isinstance(space.store, CachedStore)
        fill(space.store)
    assert len(caplog.records) == 1


async def test_an_evaluation_pays_each_cell_once_whatever_becomes_of_redis(
    postgres_url: str, redis_server: Any
) -> None:
    model = {"use": "scripted", "args": {"replies": ["yes"] * 99}, "requests_per_minute": 1000}
    playbook = Playbook.from_document({"roles": {"writer": {"model": "one", "system": "Answer."}}})
    tasks = Dataset([Task(id=f"{n}", inputs={"question": f"Is it {n}?"}, expected="yes") for n in range(40)])
    settings = Settings(store=postgres_url, cache=redis_server.url, models={"one": model}, by="ann")
    for reused in (False, True):
        count = iter(range(40))

        def watch(cell: Any, count: Iterator[int] = count) -> None:
            {15: redis_server.kill, 30: redis_server.start}.get(next(count), lambda: None)()

        with closing(seedbed.open(settings)) as space:
            card = await space.evaluate(playbook, tasks, metric=ExactMatch(), on_event=watch)
        assert {(cell.value, cell.reused) for cell in card.cells} == {(1.0, reused)}
        assert list(count) == []
    with closing(open_store(postgres_url)) as store:
        assert (store.kinds()["cell"], store.kinds()["run"]) == (40, 40)
