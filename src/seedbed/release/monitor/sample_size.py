"""Sample size: how many outcomes of a canary the guards of a channel need to find that it does worse.

Simulated, from a fixed seed, because a test that may act at every outcome acts sooner than formulas for one look say.
Every outcome is either as good or as bad as can be, which leaves the most to chance: graded ones take fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from seedbed.errors import Problem, SettingsError, shown
from seedbed.release.assignment import Split
from seedbed.release.monitor.guard_evidence import AT_ONCE, STAKES
from seedbed.release.monitor.guards import Guard, Watch
from seedbed.stats.arrays import Floats
from seedbed.stats.sequential.betting import Bet, evidence
from seedbed.storage.store import Json

BASES = (0.01, 0.02, 0.05, 0.1)
"""Shares of bad outcomes that a stable playbook may have."""
CHANCE = 0.9
"""How often a canary that does worse is found with the outcomes that are said to be needed."""
CANARIES, LOOKS = 600, 100
"""How many canaries are simulated, and at how many moments each is looked at."""
MOST = 1e9
"""The most outcomes that are simulated: a canary that needs more is not practical."""
RARE = 1e-5
"""Outcomes of the control with a smaller probability are left out, for speed."""


@dataclass(frozen=True, slots=True)
class GuardNeed:
    """How many `outcomes` of the canary a guard needs if it is worse by `change`, and the stable playbook is at `base`.

    Both are in the unit of the metric. None: it is never found.
    """

    guard: Guard
    base: float
    change: float
    outcomes: int | None


@dataclass(frozen=True, slots=True)
class CanaryPlan:
    """What each guard needs with a canary for that share of users, each set against so many `controls`."""

    channel: str
    share: float
    controls: int
    needs: tuple[GuardNeed, ...]

    def document(self) -> Json:
        guards = [
            {
                "metric": need.guard.metric,
                "action": need.guard.action,
                "limit": need.guard.by,
                "base": need.base,
                "change": need.change,
                "outcomes": need.outcomes,
            }
            for need in self.needs
        ]
        return {
            "channel": self.channel,
            "share": self.share,
            "controls": self.controls,
            "chance": CHANCE,
            "guards": guards,
        }


def plan_canary(channel: str, watch: Watch, share: float, bases: Sequence[float], worse: float) -> CanaryPlan:
    """What each guard needs with a canary for that share, for each share of bad outcomes that the stable playbook may
    have. The canary is worse by `worse` times what the guard allows. Raises SettingsError."""
    problems = [Problem("base", shown(base), "above 0 and below 1") for base in bases if not 0 < base < 1]
    if not worse > 1 or not math.isfinite(worse):
        problems.append(Problem("worse", shown(worse), "more than 1 times what a guard allows"))
    if problems:
        raise SettingsError(problems)
    controls = Split("", "", share).controls
    needs = []
    for guard in watch.guards:
        error = watch.error / sum(each.action == guard.action for each in watch.guards)
        for bad in bases:
            outcomes = outcomes_needed(guard.margin, bad, worse * guard.margin, controls, error)
            base, change = round(guard.value(1 - bad), 12), guard.change(-worse * guard.margin)
            needs.append(GuardNeed(guard, base, change, outcomes))
    return CanaryPlan(channel, share, controls, tuple(needs))


def outcomes_needed(margin: float, bad: float, change: float, controls: int, error: float) -> int | None:
    """How many outcomes of the canary it takes to find in nine of ten cases that it is worse by `change`, a share of
    bad outcomes, each set against the mean of so many `controls`; None if it cannot be so bad, or cannot be told from
    what is allowed."""
    if bad + change > 1:
        return None
    values, chances = _differences(bad, bad + change, controls)
    growth = Bet(-margin, "below", STAKES.shares).growth(values)
    variance = float(chances @ values**2) - change**2
    guess = variance / (change - margin) ** 2 * (math.sqrt(2 * math.log(8 / error)) + 1.3) ** 2
    last = max(guess, float(LOOKS))
    while last < MOST:
        step = math.ceil(last / LOOKS)
        counts = np.random.default_rng(0).multinomial(step, chances, size=(CANARIES, LOOKS))
        caught = np.zeros(CANARIES, dtype=bool)
        money = np.full((CANARIES, len(STAKES.shares)), -np.inf)
        for look, grown in enumerate(np.moveaxis(counts @ growth, 1, 0)):
            put = AT_ONCE + (1 - AT_ONCE) * (1 - 1 / step) if look == 0 else (1 - AT_ONCE) / (step * look * (look + 1))
            money = np.logaddexp(money, STAKES.start + math.log(put)) + grown
            caught |= evidence(money) >= math.log(1 / error)
            if caught.mean() >= CHANCE:
                return step * (look + 1)
        last *= 2
    return None


def _differences(older: float, newer: float, controls: int) -> tuple[Floats, Floats]:
    """What the goodness of an outcome of the canary minus the mean of its controls can be, and the chances of that."""
    bad = np.arange(controls + 1)
    ways = scipy.special.comb(controls, bad)
    often = ways * older**bad * (1 - older) ** (controls - bad)
    values = np.concatenate([bad / controls, bad / controls - 1])
    chances = np.concatenate([(1 - newer) * often, newer * often])
    likely = chances > RARE
    return values[likely], chances[likely] / chances[likely].sum()
