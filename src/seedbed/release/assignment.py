"""Assignment: who meets which playbook, decided by a hash and written down before anything happens.

A unit is whoever or whatever should always meet the same playbook: a user, a session, a conversation. Its place in
[0, 1) depends on the channel, the candidate and its key, and on nothing else: not on the process, the machine or the
time. Those below the share meet the canary, so that nobody leaves it when the share grows; and another candidate is
tried on others. As many at the other end, who meet what is stable, are the control. Some of them may be kept back when
the canary is settled: they still meet what was there before.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from seedbed.errors import NotFound, SeedbedError, StoreError, shown
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.states import Canary, Held, canary_of, held_of, stable_of
from seedbed.storage.store import A_NAME, Digest, Fact, Query, Ref, Store, is_name, now

Arm = Literal["stable", "control", "canary", "held"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The playbook that a unit meets. `exposure` names what was written down: feedback is given on it.

    If the store could not be reached, it is `stale`, and nothing was written down.
    """

    exposure: str
    channel: str
    key: str
    arm: str
    playbook: Playbook
    share: float
    propensity: float
    version: int
    compared: bool = False
    """Whether it is set against what others meet: as many of the one side are as there are on the other."""
    stale: bool = False


# What a channel serves


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
            serving = await _within(look, self._patience)
        except TimeoutError:
            self._late = look
            return self.stale(f"no answer within {self._patience:g} seconds")
        except (StoreError, OSError) as wrong:
            return self.stale(str(wrong), wrong)
        if serving is None:
            known = await loop.run_in_executor(None, self.library.store.refs, "channels/")
            names = ", ".join(ref.name.removeprefix("channels/") for ref in known) or "none yet"
            raise NotFound(f"no channel {shown(self.channel)}. Channels: {names}")
        if self.held is None or serving.version >= self.held.version:  # a slow look may come after a later one
            self.held = serving
        return self.held

    def stale(self, why: str, wrong: Exception | None = None) -> Serving:
        """What was held, for when the store does not answer. Raises StoreError if that is nothing."""
        if self.held is None:
            reason = f"a store that cannot be read ({why}), and nothing read before"
            raise StoreError(f"channel {shown(self.channel)}: found {reason}; expected what to serve") from wrong
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


# Who meets it


def place(channel: str, candidate: Digest, key: str) -> float:
    """Where a unit stands in [0, 1), among all that may meet this candidate on this channel."""
    text = "\0".join((channel, candidate, key)).encode()  # neither of the first two can hold a NUL
    return (int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 11) / 2**53  # as many bits as a float has


@dataclass(frozen=True, slots=True)
class Split:
    """Two playbooks on one channel: which share of units meets the newer one, and what the arms are called."""

    newer: Digest
    older: Digest
    share: float
    arms: tuple[Arm, Arm] = ("canary", "control")

    @property
    def compared(self) -> float:
        """The share of units on each side that is set against the other side: as many here as there."""
        return min(self.share, 1 - self.share)

    def arm(self, at: float) -> Arm:
        """The arm of whoever stands there. Those between the two meet the older one, and are not compared."""
        newer, control = self.arms
        return newer if at < self.share else control if at >= 1 - self.compared else "stable"

    def propensity(self, arm: Arm) -> float:
        newer, control = self.arms
        if arm == newer:
            return self.share
        return self.compared if arm == control else 1 - self.share - self.compared


def split_of(serving: Serving, at: datetime) -> Split | None:
    """What a channel parts its units by, if it does: a canary, or what some are kept back with."""
    if canary := serving.canary:
        return Split(canary.playbook, serving.stable, canary.share)
    if (held := serving.held) and at < held.until:
        return Split(serving.stable, held.playbook, 1 - held.share, ("stable", "held"))
    return None


async def choose(reader: Reader, key: str, *, run: str = "") -> Choice:
    """What a unit meets. That it does, and how likely that was, is in the store before this returns.

    Without the store it is what was stable when that last answered. `run` is what will be done with it, if known.
    """
    _check(key)
    exposure = run or uuid.uuid4().hex
    choice = assign(await reader.read(), key, exposure)
    if choice.stale or await _written(choice, f"channels/{reader.channel}", reader.library, is_run=bool(run)):
        return choice
    return assign(reader.stale("it takes no exposure"), key, exposure)


async def choose_among(readers: Sequence[Reader], key: str) -> Choice:
    """What a unit meets of what several channels serve, each with the same chance. The first of them is the control.

    What is on a channel passed its gates. It is written down as `choose` does; without the store it is the first.
    """
    _check(key)
    servings = [await reader.read() for reader in readers]
    first, exposure = readers[0], uuid.uuid4().hex
    if not any(serving.stale for serving in servings):
        name = split_name([serving.channel for serving in servings])
        met = servings[int(place(name, "", key) * len(servings))]
        choice = replace(
            assign(replace(met, canary=None, held=None), key, exposure),
            arm=met.channel,
            propensity=1 / len(servings),
            compared=True,
        )
        if await _written(choice, name, first.library):
            return choice
    return assign(first.stale("it takes no exposure"), key, exposure)


def split_name(channels: Sequence[str]) -> str:
    """What the exposures to several channels are kept under."""
    return f"splits/{','.join(channels)}"


def _check(key: str) -> None:
    if not key or not is_name(key):
        raise SeedbedError(f"key: found {shown(key)}; expected {A_NAME}, such as the name of a user")


async def _written(choice: Choice, subject: str, library: Library, *, is_run: bool = False) -> bool:
    """Whether an exposure could be written down: if not, it does not take place."""
    fact = _exposed(choice, subject, library.by, is_run)
    try:
        await asyncio.get_running_loop().run_in_executor(None, library.store.append, [fact])
    except (StoreError, OSError):
        return False
    return True


def assign(serving: Serving, key: str, exposure: str = "") -> Choice:
    """What a unit meets of what is served. Nothing is written down."""
    split = split_of(serving, now())
    at = place(serving.channel, split.newer, key) if split else 0.0
    arm = split.arm(at) if split else "stable"
    older = split is not None and arm != split.arms[0]
    return Choice(
        exposure=exposure,
        channel=serving.channel,
        key=key,
        arm=arm,
        playbook=serving.playbooks[(split.older if older else split.newer) if split else serving.stable],
        share=split.share if split else 0.0,
        propensity=split.propensity(arm) if split else 1.0,
        version=serving.version,
        compared=split is not None and (at < split.compared or arm == split.arms[1]),
        stale=serving.stale,
    )


def _exposed(choice: Choice, subject: str, by: str, is_run: bool) -> Fact:
    body = {
        "unit": choice.key,
        "arm": choice.arm,
        "playbook": choice.playbook.digest,
        "share": choice.share,
        "propensity": choice.propensity,
        "version": choice.version,
        "compared": choice.compared,
        "run": is_run,
    }
    return Fact(
        kind="exposure",
        key=choice.exposure,
        subject=subject,
        at=now(),
        by=by,
        body=body,
        tags=(choice.playbook.digest,),
    )


def feedback(library: Library, on: str, rating: float, comment: str = "", *, metric: str = "rating") -> Fact:
    """Attach what came of a run or an exposure, from 0 to 1, to it. Of several, the newest counts.

    Raises NotFound if there is no such run or exposure.
    """
    if not isinstance(rating, int | float) or not 0 <= rating <= 1:
        raise SeedbedError(f"rating: found {shown(rating)}; expected a number from 0 to 1")
    if not _is_known(library.store, on):
        raise NotFound(f"no run and no exposure {shown(on)}; expected the id of one")
    body = {"metric": metric, "comment": comment}
    fact = Fact(
        kind="feedback",
        key=uuid.uuid4().hex,
        subject=on,
        at=now(),
        by=library.by,
        body=body,
        value=float(rating),
        tags=(metric,),
    )
    library.store.append([fact])
    return fact


def _is_known(store: Store, name: str) -> bool:
    return any(any(store.facts(Query(kind=kind, key=name, limit=1))) for kind in ("exposure", "start"))
