"""Reader: what a channel serves now; and when the store cannot be reached, what it last was known to serve.

A reader that cannot look serves its last good stable playbook to everybody, flagged stale: a canary that can neither be
logged nor taken back is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from seedbed.errors import NotFound, StoreError, shown
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.states import Canary, Held, canary_of, held_of, stable_of
from seedbed.storage.store import Digest, Ref

PATIENCE_SECONDS = 1.0
"""How long a store may take to say what a channel serves. Its own attempts to be reached again go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a channel serves: the version of its ref, since when, and the playbooks themselves."""

    channel: str
    version: int
    at: datetime
    stable: Digest
    canary: Canary | None
    playbooks: dict[Digest, Playbook]
    frozen: bool = False
    stale: bool = False
    held: Held | None = None


class Reader:
    """Reads one channel, again and again. Many may; none waits for another."""

    def __init__(self, library: Library, channel: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.library = library
        self.channel = channel.removeprefix("channels/")
        self.held: Serving | None = None
        """The last that was read in full."""
        self._patience = patience_seconds
        self._late: asyncio.Future[Serving | None] | None = None

    async def read(self) -> Serving:
        """What the channel serves. Raises NotFound if there is no such channel, StoreError if nothing was ever read."""
        loop = asyncio.get_running_loop()
        if self._late and self._late.get_loop() is loop and not self._late.done():
            return self.stale("no answer yet")
        self._late = None
        look = loop.run_in_executor(None, self._look)
        try:
            found = await _within(look, self._patience)
        except TimeoutError:
            self._late = look
            return self.stale(f"no answer within {self._patience:g} seconds")
        except (StoreError, OSError) as wrong:
            return self.stale(str(wrong), wrong)
        if found is None:
            known = await loop.run_in_executor(None, self.library.store.refs, "channels/")
            names = ", ".join(ref.name.removeprefix("channels/") for ref in known) or "none yet"
            raise NotFound(f"no channel {shown(self.channel)}. Channels: {names}")
        if self.held is None or found.version >= self.held.version:  # a slow look may come after a later one
            self.held = found
        return self.held

    def stale(self, why: str, wrong: Exception | None = None) -> Serving:
        """What was held, for when the store does not answer. Raises StoreError if that is nothing."""
        if self.held is None:
            found = f"a store that cannot be read ({why}), and nothing read before"
            raise StoreError(f"channel {shown(self.channel)}: found {found}; expected what to serve") from wrong
        return replace(self.held, canary=None, held=None, stale=True)

    def _look(self) -> Serving | None:
        ref = self.library.store.ref(f"channels/{self.channel}")
        return self._serving(ref) if ref else None

    def _serving(self, ref: Ref) -> Serving:
        if self.held and self.held.version == ref.version:
            return self.held
        stable, canary, held = stable_of(ref.target), canary_of(ref.target), held_of(ref.target)
        known = self.held.playbooks if self.held else {}
        wanted = [stable, *(each.playbook for each in (canary, held) if each)]
        playbooks = {name: known.get(name) or self.library.get(name) for name in wanted}
        frozen = isinstance(ref.target, dict) and bool(ref.target.get("frozen"))
        return Serving(self.channel, ref.version, ref.at, stable, canary, playbooks, frozen, held=held)


async def _within(look: Awaitable[Any], seconds: float) -> Any:
    """Wait for a look as long as there is patience. It goes on by itself: a thread cannot be stopped."""
    return await asyncio.wait_for(asyncio.shield(look), seconds)
