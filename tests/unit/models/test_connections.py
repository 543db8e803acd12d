"""One client for each event loop, closed with it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref

import httpx
import pytest

from model_server import serving
from seedbed.models.calling.connections import client, shared_client
from seedbed.models.providers.openai import OpenAIChat


async def test_all_models_of_a_loop_share_a_client() -> None:
    first, second = await asyncio.gather(shared_client(), shared_client())
    assert first is second


def test_every_loop_has_its_own_and_closes_it() -> None:
    async def used() -> httpx.AsyncClient:
        opened = await shared_client()
        assert not opened.is_closed
        return opened

    first, second = asyncio.run(used()), asyncio.run(used())
    assert first is not second
    assert first.is_closed
    assert second.is_closed


def test_a_loop_that_is_over_is_forgotten() -> None:
    async def used() -> weakref.ref[asyncio.AbstractEventLoop]:
        await shared_client()
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(used())
    gc.collect()
    assert loop() is None


async def test_connections_are_used_again() -> None:
    with serving() as server:
        its = OpenAIChat(model="m", base_url=server.url)
        for _ in range(3):
            await its.ainvoke("?")
        assert len(server.requests) == 3
        assert server.connections == 1


def test_without_a_loop_the_client_is_the_callers() -> None:
    with client() as opened:
        assert not opened.is_closed
    assert opened.is_closed


@pytest.mark.parametrize("module", ["cards", "chat"])
def test_no_http_library_is_loaded_before_it_is_needed(module: str) -> None:
    code = f"import sys, seedbed.models.{module}; print('httpx' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
