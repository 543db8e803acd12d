"""What a comparison of two playbooks on pass or fail tasks can show, computed before it is paid for.

`discordance` is the share of tasks on which the two differ, `effect` by how much more often the candidate passes.
For sequential tests see `sequential.planning`.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Indexes, first_enough


def sample_size(effect: float, discordance: float, *, alpha: float = 0.05, power: float = 0.9) -> int:
    """How many tasks a one-sided McNemar test with a single look needs for this power, by Connor's (1987) formula.

    A normal approximation: the exact test needs a few more where tasks seldom differ. `fixed_power` is exact.
    """
    check_effect(effect, discordance)
    _check_share("alpha", alpha)
    _check_share("power", power)
    spread = scipy.special.ndtri(1 - alpha) * math.sqrt(discordance)
    spread += scipy.special.ndtri(power) * math.sqrt(discordance - effect**2)
    return max(1, math.ceil(float(spread / effect) ** 2)) if spread > 0 else 1


def fixed_power(tasks: int, effect: float, discordance: float, *, alpha: float = 0.05) -> float:
    """The chance that the exact one-sided McNemar test, with a single look after all tasks, calls the candidate better.

    Exact, over how many tasks happen to differ. An effect of 0 gives the chance of a false alarm.
    """
    _check_tasks(tasks)
    check_discordance(discordance)
    if not abs(effect) <= discordance:
        raise SeedbedError(f"effect: found {shown(effect)}; expected at most discordance, {discordance:g}, either way")
    _check_share("alpha", alpha)
    return _power(_wins_needed(tasks, alpha), effect, discordance)


def detectable_effect(tasks: int, discordance: float, *, alpha: float = 0.05, power: float = 0.9) -> float:
    """The smallest effect for which `fixed_power` is at least this; infinite if these tasks cannot show any."""
    _check_tasks(tasks)
    check_discordance(discordance)
    _check_share("alpha", alpha)
    _check_share("power", power)
    needed = _wins_needed(tasks, alpha)
    if _power(needed, discordance, discordance) < power:
        return math.inf
    return first_enough(lambda effect: _power(needed, effect, discordance) >= power, -discordance, discordance)


def _wins_needed(tasks: int, alpha: float) -> Indexes:
    """For each number of tasks that differ, from 0, the fewest wins with a one-sided p-value of at most alpha."""
    needed, wins = [], 1
    for differing in range(tasks + 1):
        while scipy.special.bdtrc(wins - 1, differing, 0.5) > alpha:
            wins += 1
        needed.append(wins)
    return np.array(needed)


def _power(needed: Indexes, effect: float, discordance: float) -> float:
    special, differing = scipy.special, np.arange(len(needed))
    tasks = len(needed) - 1
    ways = special.gammaln(tasks + 1) - special.gammaln(differing + 1) - special.gammaln(tasks - differing + 1)
    often = special.xlogy(differing, discordance) + special.xlog1py(tasks - differing, -discordance)
    to_win = min(max((1 + effect / discordance) / 2, 0.0), 1.0)
    reached = np.where(needed > differing, 0.0, special.bdtrc(np.minimum(needed - 1, differing), differing, to_win))
    return float(np.exp(ways + often) @ reached)


def _check_tasks(tasks: int) -> None:
    if not isinstance(tasks, int) or tasks < 1:
        raise SeedbedError(f"tasks: found {shown(tasks)}; expected how many there are, at least 1")


def check_discordance(discordance: float) -> None:
    if not 0 < discordance <= 1:
        raise SeedbedError(f"discordance: found {shown(discordance)}; expected a share of tasks above 0 and at most 1")


def check_effect(effect: float, discordance: float) -> None:
    check_discordance(discordance)
    if not 0 < effect <= discordance:
        raise SeedbedError(f"effect: found {shown(effect)}; expected above 0 and at most discordance, {discordance:g}")


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise SeedbedError(f"{name}: found {shown(share)}; expected above 0 and below 1")
