"""Assignment: who meets which playbook, decided by a hash and written down before anything happens.

A unit is whoever or whatever should always meet the same playbook: a user, a session, a conversation. Its place in
[0, 1) depends on the channel, the candidate and its key, and on nothing else: not on the process, the machine or the
time. Those below the share meet the canary, so that nobody leaves it when the share grows; and another candidate is
tried on others. As many at the other end, who meet what is stable, are the control.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seedbed.errors import NotFound, SeedbedError, StoreError, shown
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.readers import Reader, Serving
from seedbed.release.states import Canary
from seedbed.storage.store import A_NAME, Digest, Fact, Query, Store, nameable, now

Arm = Literal["stable", "control", "canary"]


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
    stale: bool = False


def place(channel: str, candidate: Digest, key: str) -> float:
    """Where a unit stands in [0, 1), among all that may meet this candidate on this channel."""
    told = "\0".join((channel, candidate, key)).encode()  # neither of the first two can hold a NUL
    return (int.from_bytes(hashlib.blake2b(told, digest_size=8).digest()) >> 11) / 2**53  # as many bits as a float has


def shares(canary: Canary | None) -> dict[Arm, float]:
    """How likely each arm is. The control is as large as the canary, as long as there are enough."""
    if canary is None:
        return {"stable": 1.0}
    control = min(canary.share, 1 - canary.share)
    rest = 1 - canary.share - control
    arms: dict[Arm, float] = {"canary": canary.share, "control": control, "stable": rest}
    return {arm: share for arm, share in arms.items() if share > 1e-12}


def arm_of(channel: str, canary: Canary | None, key: str) -> Arm:
    """The arm that a unit is in, today as tomorrow."""
    if canary is None:
        return "stable"
    at = place(channel, canary.playbook, key)
    if at < canary.share:
        return "canary"
    return "control" if at >= max(canary.share, 1 - canary.share) else "stable"


async def choose(reader: Reader, key: str, *, run: str = "") -> Choice:
    """What a unit meets. That it does, and how likely that was, is in the store before this returns.

    Without the store it is what was stable when that last answered. `run` is what will be done with it, if known.
    """
    _check(key)
    exposure = run or uuid.uuid4().hex
    choice = assigned(await reader.read(), key, exposure)
    if choice.stale or await _written(choice, f"channels/{reader.channel}", reader.library):
        return choice
    return assigned(reader.stale("it takes no exposure"), key, exposure)


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
            assigned(replace(met, canary=None), key, exposure), arm=met.channel, propensity=1 / len(servings)
        )
        if await _written(choice, name, first.library):
            return choice
    return assigned(first.stale("it takes no exposure"), key, exposure)


def split_name(channels: Sequence[str]) -> str:
    """What the exposures to several channels are kept under."""
    return f"splits/{','.join(channels)}"


def _check(key: str) -> None:
    if not key or not nameable(key):
        raise SeedbedError(f"key: found {shown(key)}; expected {A_NAME}, such as the name of a user")


async def _written(choice: Choice, subject: str, library: Library) -> bool:
    """Whether an exposure could be written down: if not, it does not take place."""
    fact = _exposed(choice, subject, library.by)
    try:
        await asyncio.get_running_loop().run_in_executor(None, library.store.append, [fact])
    except (StoreError, OSError):
        return False
    return True


def assigned(serving: Serving, key: str, exposure: str = "") -> Choice:
    """What a unit meets of what is served. Nothing is written down."""
    canary = serving.canary
    arm = arm_of(serving.channel, canary, key)
    return Choice(
        exposure=exposure,
        channel=serving.channel,
        key=key,
        arm=arm,
        playbook=serving.playbooks[canary.playbook if canary and arm == "canary" else serving.stable],
        share=canary.share if canary else 0.0,
        propensity=shares(canary)[arm],
        version=serving.version,
        stale=serving.stale,
    )


def _exposed(choice: Choice, subject: str, by: str) -> Fact:
    body = {
        "unit": choice.key,
        "arm": choice.arm,
        "playbook": choice.playbook.digest,
        "share": choice.share,
        "propensity": choice.propensity,
        "version": choice.version,
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
