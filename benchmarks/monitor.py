"""The monitor of a canary by simulation: how often a healthy one is rolled back, and how soon a poor one.

    python benchmarks/monitor.py [--canaries 60] [--ratios 10]

Everything goes the real way: units are assigned to a channel, exposures and outcomes are facts of a store in memory,
and the real monitor looks after every interval. 20 requests for the canary and as many for its control come in an
interval; after 30 of them the canary is over. Two rules that look at the rates alone, as canary controllers do, are
shown the same outcomes: "below 95 % in three intervals", and "5 points below the control in three intervals".

Then the ratio of units: how often an alarm is raised where assignment is right, and how soon where 48 or 45 of 100
units that should be half of them reach the canary. benchmarks/canary.py simulates both with code of its own, and many
more of them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.monitor.guards import Guard, Watch
from seedbed.release.monitor.monitor import Monitor
from seedbed.release.states import Release, State, apply_event, document
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, now

INTERVALS, REQUESTS, LEVEL = 30, 20, 0.96
UNITS = 10_000
WATCH = Watch((Guard("rating", -0.02),))
OLD, NEW = (Playbook.from_document({"roles": {"writer": {"system": text}}}) for text in ("Answer.", "Answer well."))


def channel() -> MemoryStore:
    """A channel with a canary for half of its units: it and its control then get all of the requests."""
    store = MemoryStore()
    library = Library(store, "ada")
    for playbook in (OLD, NEW):
        library.keep(playbook, because="written")
    state, ref = State(), None
    for event in (Release(OLD.digest), Release(NEW.digest, 0.5)):
        then = apply_event(state, event)
        assert isinstance(then, State)
        state = then
        ref = store.move("channels/live", document(state, event), expected=ref, because="try", by="ada")
    return store


def outcome(name: str, arm: str, value: float | None) -> list[Fact]:
    """That a unit met an arm, and what came of it."""
    playbook = NEW.digest if arm == "canary" else OLD.digest
    body = {"unit": name, "arm": arm, "playbook": playbook, "share": 0.5, "propensity": 0.5, "version": 2}
    met = Fact(
        kind="exposure",
        key=name,
        subject="channels/live",
        at=now(),
        by="ada",
        body={**body, "compared": True},
        tags=(playbook,),
    )
    if value is None:
        return [met]
    said = {"metric": "rating", "comment": ""}
    return [
        met,
        Fact(
            kind="feedback",
            key=f"{name}/f",
            subject=name,
            at=now(),
            by="ada",
            body=said,
            value=value,
            tags=("rating",),
        ),
    ]


@dataclass
class Fates:
    """In which interval each rule rolled a canary back, if it did."""

    monitor: int | None = None
    level: int | None = None
    control: int | None = None


def fates(canary: float, seed: int) -> Fates:
    luck, store, found = random.Random(seed), channel(), Fates()
    monitor, low, behind = Monitor(store, "live", WATCH), 0, 0
    for interval in range(1, INTERVALS + 1):
        good = {"canary": 0, "control": 0}
        facts: list[Fact] = []
        for number in range(2 * REQUESTS):
            arm = ("canary", "control")[number % 2]
            value = float(luck.random() < (canary if arm == "canary" else LEVEL))
            good[arm] += int(value)
            facts += outcome(f"{interval}/{number}", arm, value)
        if found.monitor is None:
            store.append(facts)
            found.monitor = interval if monitor.look().reaction == "roll back" else None
        low += good["canary"] / REQUESTS < 0.95
        behind += (good["control"] - good["canary"]) / REQUESTS >= 0.05
        found.level = found.level or (interval if low >= 3 else None)
        found.control = found.control or (interval if behind >= 3 else None)
    return found


def share_of(values: Sequence[int | None]) -> str:
    caught = [value for value in values if value is not None]
    share = len(caught) / len(values)
    spread = 1.96 * (share * (1 - share) / len(values)) ** 0.5
    return f"{share:.3f} ± {spread:.3f} | {np.mean(caught):,.1f}" if caught else f"{share:.3f} |"


def ratio(share: float, units: int, seed: int) -> int | None:
    """After how many units the monitor raised an alarm, looking after every 500."""
    luck, store = random.Random(seed), channel()
    monitor = Monitor(store, "live", Watch())
    for first in range(0, units, 500):
        names = range(first, first + 500)
        store.append(
            fact for n in names for fact in outcome(f"{n}", "canary" if luck.random() < share else "control", None)
        )
        if any(alarm.kind == "sample ratio" for alarm in monitor.look().alarms):
            return first + 500
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--canaries", type=int, default=60, help="of each kind (default %(default)s)")
    parser.add_argument("--ratios", type=int, default=10, help="streams of units (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="(default %(default)s)")
    options = parser.parse_args()
    with multiprocessing.Pool(options.processes) as crew:
        print("| success rate of the canary | rule | rolled back | after intervals |\n|---|---|---:|---:|")
        for level in (LEVEL, 0.94, 0.90, 0.80, 0.60):
            all_of = crew.starmap(fates, [(level, seed) for seed in range(options.canaries)])
            for rule, name in (("monitor", "seedbed"), ("level", "below 95 %, 3 times"), ("control", "5 points below")):
                print(f"| {level:.2f} | {name} | {share_of([getattr(each, rule) for each in all_of])} |", flush=True)
        print("\n| share of units that reach the canary | alarms | after units |\n|---|---:|---:|")
        for share in (0.5, 0.48, 0.45):
            found = crew.starmap(ratio, [(share, UNITS, seed) for seed in range(options.ratios)])
            print(f"| {share:.2f} | {share_of(found)} |", flush=True)


if __name__ == "__main__":
    main()
