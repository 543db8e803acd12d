"""Assignment: which playbook a unit gets, decided by a hash and recorded before anything happens.

A unit is a user, a session or a conversation that should always get the same playbook. Its place in [0, 1) depends on
the channel, the candidate and its key, and on nothing else: not on the process, the machine or the time. Units below
the share get the canary, so that none leaves it when the share grows. Another candidate is tried on other units. The
same number of units at the other end is the control: they get the stable playbook. Units between the two get it too;
for a small canary, guards read some of them beside the control, so that chance on its side hardly matters. When the
canary is settled, some of the control can be kept back: they still get the playbook before it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from seedbed.errors import NotFound, SeedbedError, StoreError, shown
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.plugins import unknown
from seedbed.redaction import redact
from seedbed.release.states import Canary, Held, canary_of, held_of, stable_of
from seedbed.storage.store import A_NAME, Digest, Fact, Query, Ref, Store, is_name, new_id, now

ExposureArm = Literal["stable", "control", "canary", "held"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The playbook that a unit gets. `exposure` is the id of the recorded fact: feedback refers to it.

    If the store could not be reached, the choice is `stale`, and nothing was recorded.
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
    """Whether the unit is compared with units of the other arm. Both arms have equally many such units."""
    stale: bool = False


# What a channel serves


PATIENCE_SECONDS = 1.0
"""How long a read of the store may take. Its own retries go on meanwhile."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a channel serves: the version of its ref, since when, and the playbooks."""

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
    """Reads one channel, again and again. Many readers can do so at once; none waits for another.

    When the store does not answer, it serves the last stable playbook that it read to everybody, marked as stale: a
    canary that can be neither logged nor taken back is stopped.
    """

    def __init__(self, library: Library, channel: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.library = library
        self.channel = channel.removeprefix("channels/")
        self.held: Serving | None = None
        """The last complete read."""
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
            # The read goes on after a timeout: a thread cannot be stopped.
            serving = await asyncio.wait_for(asyncio.shield(look), self._patience)
        except TimeoutError:
            self._late = look
            return self.stale(f"no answer within {self._patience:g} seconds")
        except (StoreError, OSError) as wrong:
            return self.stale(str(wrong), wrong)
        if serving is None:
            raise await loop.run_in_executor(None, unknown_channel, self.library.store, self.channel)
        if self.held is None or serving.version >= self.held.version:  # a slow look may come after a later one
            self.held = serving
        return self.held

    def stale(self, why: str, wrong: Exception | None = None) -> Serving:
        """The last complete read, for when the store does not answer. Raises StoreError if there is none."""
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


def unknown_channel(store: Store, channel: str) -> NotFound:
    known = [ref.name.removeprefix("channels/") for ref in store.refs("channels/")]
    remedy = f"Release a playbook to it first: seedbed release PLAYBOOK --to {channel}"
    return NotFound(unknown("channel", channel, known, remedy, kind="channel with a release"))


# Which playbook a unit gets


def place(channel: str, candidate: Digest, key: str) -> float:
    """The place of a unit in [0, 1), for this candidate on this channel."""
    text = "\0".join((channel, candidate, key)).encode()  # neither of the first two can hold a NUL
    return (int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 11) / 2**53  # as many bits as a float has


CONTROLS = 9
"""For each unit of the canary, guards read so many units with the stable playbook at most. More would tell little more:
by then, nine tenths of what is left to chance comes from the canary."""


@dataclass(frozen=True, slots=True)
class Split:
    """Two playbooks on one channel: the share of units that get the newer one, and the names of the arms."""

    newer: Digest
    older: Digest
    share: float
    arms: tuple[ExposureArm, ExposureArm] = ("canary", "control")

    @property
    def compared(self) -> float:
        """The share of units in each arm that is compared with the other arm."""
        return min(self.share, 1 - self.share)

    @property
    def controls(self) -> int:
        """How many units with the older playbook guards read for each unit with the newer one.

        They leave the half free from which the control grows with the canary, where it needs users who are new to it.
        """
        return max(1, min(CONTROLS, int(0.5 / self.share)))

    def is_beside(self, at: float) -> bool:
        """Whether guards read the unit at that place beside the control: those next to the canary, which are the first
        to get it when its share grows."""
        return self.share <= at < self.controls * self.share

    def arm(self, at: float) -> ExposureArm:
        """The arm of a unit at that place. Units between the two arms get the older playbook, and are not compared."""
        newer, control = self.arms
        return newer if at < self.share else control if at >= 1 - self.compared else "stable"

    def propensity(self, arm: ExposureArm) -> float:
        newer, control = self.arms
        if arm == newer:
            return self.share
        return self.compared if arm == control else 1 - self.share - self.compared


def split_of(serving: Serving, at: datetime) -> Split | None:
    """How a channel splits its units, if it does: by a canary, or by keeping some back."""
    if canary := serving.canary:
        return Split(canary.playbook, serving.stable, canary.share)
    if (held := serving.held) and at < held.until:
        return Split(serving.stable, held.playbook, 1 - held.share, ("stable", "held"))
    return None


async def choose(reader: Reader, key: str, *, run: str = "", drill: bool = False) -> Choice:
    """The playbook that a unit gets. The exposure and its probability are in the store before this returns.

    Without the store it is the playbook that was stable at the last read. `run` is the id of the coming run, if known.
    In a drill nobody asked: guards read the exposure, live comparisons do not.
    """
    _check(key)
    exposure = run or new_id()
    choice = assign(await reader.read(), key, exposure)
    about = {"run": bool(run), **({"drill": True} if drill else {})}
    if choice.stale or await _record_exposure(choice, f"channels/{reader.channel}", reader.library, about):
        return choice
    return assign(reader.stale("it takes no exposure"), key, exposure)


async def choose_among(readers: Sequence[Reader], key: str) -> Choice:
    """The playbook of one of several channels, each with the same probability. The first channel is the control.

    Each playbook has passed the gates of its channel. The exposure is recorded as `choose` does; without the store the
    unit gets the playbook of the first channel.
    """
    _check(key)
    servings = [await reader.read() for reader in readers]
    first, exposure = readers[0], new_id()
    if not any(serving.stale for serving in servings):
        name = split_name([serving.channel for serving in servings])
        met = servings[int(place(name, "", key) * len(servings))]
        choice = replace(
            assign(replace(met, canary=None, held=None), key, exposure),
            arm=met.channel,
            propensity=1 / len(servings),
            compared=True,
        )
        if await _record_exposure(choice, name, first.library, {"run": False}):
            return choice
    return assign(first.stale("it takes no exposure"), key, exposure)


def split_name(channels: Sequence[str]) -> str:
    """The subject under which exposures to several channels are recorded."""
    return f"splits/{','.join(channels)}"


def _check(key: str) -> None:
    if not key or not is_name(key):
        raise SeedbedError(f"key: found {shown(key)}; expected {A_NAME}, such as the name of a user")


async def _record_exposure(choice: Choice, subject: str, library: Library, about: Mapping[str, bool]) -> bool:
    """Record an exposure. Returns whether that worked: if not, it does not take place."""
    body = {
        "unit": choice.key,
        "arm": choice.arm,
        "playbook": choice.playbook.digest,
        "share": choice.share,
        "propensity": choice.propensity,
        "version": choice.version,
        "compared": choice.compared,
        **about,
    }
    fact = Fact(
        kind="exposure",
        key=choice.exposure,
        subject=subject,
        at=now(),
        by=library.by,
        body=body,
        tags=(choice.playbook.digest,),
    )
    try:
        await asyncio.get_running_loop().run_in_executor(None, library.store.append, [fact])
    except (StoreError, OSError):
        return False
    return True


def assign(serving: Serving, key: str, exposure: str = "") -> Choice:
    """The playbook that a unit gets. Nothing is recorded."""
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


def feedback(library: Library, on: str, rating: float, comment: str = "", *, metric: str = "rating") -> Fact:
    """Record feedback on a run or an exposure, from 0 to 1. The newest one counts.

    Raises NotFound if there is no such run or exposure.
    """
    if not isinstance(rating, int | float) or not 0 <= rating <= 1:
        raise SeedbedError(f"rating: found {shown(rating)}; expected a number from 0 to 1")
    if not any(any(library.store.facts(Query(kind=kind, key=on, limit=1))) for kind in ("exposure", "start")):
        raise NotFound(f"no run and no exposure {shown(on)}; expected the id of one")
    metric = redact(metric)
    body = {"metric": metric, "comment": redact(comment)}
    fact = Fact(
        kind="feedback",
        key=new_id(),
        subject=on,
        at=now(),
        by=library.by,
        body=body,
        value=float(rating),
        tags=(metric,),
    )
    library.store.append([fact])
    return fact
