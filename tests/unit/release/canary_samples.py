"""A channel with a canary, and people who meet it and say how it was."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from loop_samples import agent

from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.assignment import Reader, choose, feedback, place
from seedbed.release.channels import Rollout
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest, Fact, Store, now

FIRST, OLD, NEW, OTHER = (agent(name).digest for name in "zabc")


async def settled(store: Store | None = None, *playbooks: Digest) -> Library:
    """A channel that had these playbooks, one after the other; the last is served."""
    library = Library(store or MemoryStore(), "ada")
    for name in "zabc":
        library.keep(agent(name), because="written")
    for playbook in playbooks or (OLD,):
        await channels.release(library, "live", playbook, [], verdict=None, because="so")
    return library


async def rolled_out(store: Store | None = None, share: float = 0.5) -> Library:
    """A channel with a canary."""
    library = await settled(store)
    await channels.release(library, "live", NEW, [], verdict=None, because="try it", rollout=Rollout(share=share))
    return library


def met(
    playbook: Digest,
    *,
    unit: str = "",
    name: str = "",
    compared: bool = True,
    channel: str = "live",
    at: datetime | None = None,
    run: bool = False,
    share: float = 0.5,
) -> Fact:
    """That a unit, which nobody else is unless it has a name, met a playbook; `run` if seedbed performs it."""
    name = name or uuid.uuid4().hex
    arm = "x" if compared else "stable"
    body = {"unit": unit or name, "arm": arm, "playbook": playbook, "share": share, "propensity": 0.5, "version": 2}
    return Fact(
        kind="exposure",
        key=name,
        subject=f"channels/{channel}",
        at=at or now(),
        by="ada",
        body={**body, "compared": compared, "run": run},
        tags=(playbook,),
    )


def said(exposure: Fact | str, value: float, metric: str = "rating") -> Fact:
    """What came of it."""
    return Fact(
        kind="feedback",
        key=uuid.uuid4().hex,
        subject=exposure if isinstance(exposure, str) else exposure.key,
        at=now(),
        by="ada",
        body={"metric": metric, "comment": ""},
        value=value,
        tags=(metric,),
    )


def ended(exposure: Fact, *, failed: bool = False, at: datetime | None = None) -> Fact:
    """That the run of an exposure is over."""
    body = {"status": "failed" if failed else "completed", "latency_seconds": 1.0, "cost_usd": 0.0}
    subject = exposure.body["playbook"]
    return Fact(kind="run", key=exposure.key, subject=subject, at=at or exposure.at, by="ada", body=body)


def rated(playbook: Digest, *values: float, metric: str = "rating", **more: Any) -> list[Fact]:
    """That so many units met a playbook, and what came of it."""
    return [fact for value in values for one in [met(playbook, **more)] for fact in (one, said(one, value, metric))]


def both(rates: Mapping[Digest, float], pairs: int, chance: random.Random, metric: str = "rating") -> list[Fact]:
    """So many units of each of two playbooks in turn, each with its chance of a 1."""
    values = [(each, float(chance.random() < rate)) for _ in range(pairs) for each, rate in rates.items()]
    return [fact for playbook, value in values for fact in rated(playbook, value, metric=metric)]


def at_place(low: float, high: float, count: int) -> list[str]:
    """The first units whose place for the new playbook on the channel is between the two."""
    units = (f"user {number}" for number in range(1_000_000))
    return [*islice((unit for unit in units if low <= place("live", NEW, unit) < high), count)]


async def serve(library: Library, units: range, rates: Mapping[Digest, float], chance: random.Random) -> None:
    """People come to the channel, meet what they are assigned, and say how it was."""
    reader = Reader(library, "live")
    for number in units:
        choice = await choose(reader, f"user {number}")
        feedback(library, choice.exposure, float(chance.random() < rates[choice.playbook.digest]))


async def work(task: Mapping[str, Any], stage: Stage) -> str:
    """What an agent on the channel does: it answers; or it fails, or wants what it must not."""
    if task["do"] == "fail":
        raise ValueError("it cannot be done")
    if task["do"] != "answer":
        await stage.confirm(task["do"], "it was asked for")
    return (await stage.ask("agent", "Well?")).text
