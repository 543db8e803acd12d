from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from broken_store import Broken
from loop_samples import agent
from psycopg.conninfo import conninfo_to_dict

from seedbed.errors import NotFound, StoreError
from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.assignment import Reader, choose, place
from seedbed.release.channels import Rollout
from seedbed.release.states import Canary, Held, KeepBack
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, now

OLD, NEW, NEXT = (agent(name).digest for name in "abc")


@pytest.fixture
def store() -> Broken:
    return Broken(MemoryStore())


@pytest.fixture
async def library(store: Broken) -> Library:
    library = Library(store, "ada")
    for name in "abc":
        library.keep(agent(name), because="written")
    await channels.release(library, "live", OLD, [], verdict=None, because="first")
    await channels.release(library, "live", NEW, [], verdict=None, because="try it", rollout=Rollout(share=0.5))
    return library


async def test_a_reader_follows_every_move_at_once(library: Library) -> None:
    reader = Reader(library, "live")
    found = await reader.read()
    assert (found.stable, found.canary, found.version, found.stale) == (OLD, Canary(NEW, 0.5), 2, False)
    assert {name: playbook.digest for name, playbook in found.playbooks.items()} == {OLD: OLD, NEW: NEW}
    channels.freeze(library, "live", because="stop")
    assert (await reader.read()).frozen
    channels.rollback(library, "live", because="worse")
    found = await reader.read()
    assert (found.stable, found.canary, found.version, [*found.playbooks]) == (OLD, None, 4, [OLD])


async def test_without_the_store_the_last_good_playbook_is_served_and_the_canary_is_stopped(
    store: Broken, library: Library
) -> None:
    reader = Reader(library, "live")
    key = next(f"u{n}" for n in range(99) if place("live", NEW, f"u{n}") < 0.5)
    assert (await choose(reader, key)).playbook.digest == NEW
    store.reads = False
    found = await reader.read()
    assert (found.stable, found.canary, found.stale, found.version) == (OLD, None, True, 2)
    choice = await choose(reader, key)
    assert (choice.playbook.digest, choice.arm, choice.stale) == (OLD, "stable", True)
    store.reads = True
    choice = await choose(reader, key)
    assert (choice.playbook.digest, choice.stale) == (NEW, False)


async def test_those_who_are_kept_back_are_read_with_what_they_meet_and_without_the_store_nobody_is(
    store: Broken, library: Library
) -> None:
    reader, until = Reader(library, "live"), now() + timedelta(days=1)
    await channels.promote(library, "live", because="well", rollout=Rollout(keep_back=KeepBack(0.25, until)))
    found = await reader.read()
    assert (found.stable, found.canary, found.held) == (NEW, None, Held(OLD, 0.25, until))
    assert {*found.playbooks} == {OLD, NEW}
    key = next(f"u{n}" for n in range(99) if place("live", NEW, f"u{n}") >= 0.75)
    assert (await choose(reader, key)).playbook.digest == OLD
    store.reads = False
    found = await reader.read()
    assert (found.stable, found.held, found.stale) == (NEW, None, True)
    assert (await choose(reader, key)).playbook.digest == NEW


async def test_a_store_that_does_not_answer_is_waited_for_once(store: Broken, library: Library) -> None:
    reader = Reader(library, "live", patience_seconds=0.05)
    await reader.read()
    store.answers.clear()
    before = store.looks
    try:
        assert [(await reader.read()).stale for _ in range(5)] == [True] * 5
        assert store.looks == before + 1
    finally:
        store.answers.set()
    patient = Reader(library, "live")
    assert not (await patient.read()).stale
    late = reader._late
    assert late
    await late
    assert not (await reader.read()).stale


async def test_a_playbook_that_cannot_be_read_does_not_take_the_place_of_one_that_can(
    store: Broken, library: Library
) -> None:
    reader = Reader(library, "live")
    await reader.read()
    await channels.promote(library, "live", because="well")
    await channels.release(library, "live", NEXT, [], verdict=None, because="next")
    assert isinstance(store.within, MemoryStore)
    store.within.discard([NEXT])
    found = await reader.read()
    assert (found.stable, found.stale) == (OLD, True)


async def test_who_never_read_anything_has_nothing_to_serve(store: Broken, library: Library) -> None:
    store.reads = False
    with pytest.raises(StoreError, match='channel "live": found a store that cannot be read \\(connection refused\\)'):
        await Reader(library, "live").read()


async def test_an_unknown_channel_is_told_with_those_that_are_known(library: Library) -> None:
    with pytest.raises(
        NotFound, match='no channel with a release named "life"; expected one of: live\\. Did you mean live'
    ):
        await Reader(library, "life").read()


async def test_a_database_that_accepts_nobody_stops_the_canary_and_nothing_else(
    postgres: Any, postgres_url: str
) -> None:
    name = conninfo_to_dict(postgres_url)["dbname"]

    def accept(connections: bool) -> None:
        with psycopg.connect(postgres.get_uri(), autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {connections}")  # type: ignore[arg-type]
            if not connections:
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    with closing(open_store(postgres_url)) as store:
        library = Library(store, "ada")
        for each, share in (("a", None), ("b", 0.5)):
            digest = library.keep(agent(each), because="written")
            await channels.release(
                library, "live", digest, [], verdict=None, because="so", rollout=Rollout(share=share)
            )
        reader = Reader(library, "live", patience_seconds=0.2)
        key = next(f"u{n}" for n in range(99) if place("live", NEW, f"u{n}") < 0.5)
        assert (await choose(reader, key)).playbook.digest == NEW
        accept(connections=False)
        try:
            choice = await choose(reader, key)
            assert (choice.playbook.digest, choice.stale) == (OLD, True)
        finally:
            accept(connections=True)
        while (choice := await choose(reader, key)).stale:
            await asyncio.sleep(0.05)
        assert choice.playbook.digest == NEW
        assert len(list(store.facts(Query(kind="exposure")))) == 2
