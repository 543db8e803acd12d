"""What to expect of a sequential test before anything is paid for: power, false alarms, numbers of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats
from seedbed.stats.power import check_discordance, check_effect
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import Boundary, ExactMcNemar, Futility, toss
from seedbed.stats.sequential.gsprt import Gsprt
from seedbed.stats.sequential.stopping_rule import Conclusion, StoppingRule

PATTERNS = 200
"""A plan of the exact test averages over this many draws of which tasks differ."""

SIMULATED = 4000
"""A plan of another rule tries this many sequences of tasks."""


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What to expect of a test.

    `power` is the chance that a better candidate reaches the goal of the rule, most often "superior", `missed` the
    chance that it ends as futile; `false_alarm` is the chance to call an equal candidate superior; `tasks_if_…` are
    expected numbers of tasks. `simulated` is how many sequences of tasks were tried; 0 if chances were computed.
    """

    power: float
    missed: float
    false_alarm: float
    tasks_if_equal: float
    tasks_if_better: float
    tasks_if_worse: float
    simulated: int


def plan(rule: StoppingRule, *, effect: float, discordance: float, tasks: int | None = None) -> SamplePlan:
    """Plan a test of scores of 0 or 1 that differ on a share `discordance` of tasks, for better or worse by `effect`.

    For `ExactMcNemar` chances are exact given which tasks differ, and averaged over 200 fixed draws of those, spread
    evenly over how many may differ: repeatable, and within about 0.003. Other rules are tried on 4,000 fixed sequences:
    within about 0.015. A rule without an end is followed for this number of `tasks`.
    """
    check_effect(effect, discordance)
    equal, better, worse = _outlooks(rule, [0.0, effect, -effect], discordance, tasks)
    simulated = 0 if isinstance(rule, ExactMcNemar) else SIMULATED
    return SamplePlan(better.power, better.futile, equal.superior, equal.tasks, better.tasks, worse.tasks, simulated)


def power_curve(
    rule: StoppingRule, *, effects: Sequence[float], discordance: float, tasks: int | None = None
) -> list[tuple[float, float]]:
    """Each effect with the power of the rule if that is the true effect, as in `plan`."""
    for effect in effects:
        if not -discordance <= effect <= discordance:
            raise SeedbedError(f"effects: found {shown(effect)}; expected from -{discordance:g} to {discordance:g}")
    return list(zip(effects, (one.power for one in _outlooks(rule, effects, discordance, tasks)), strict=True))


@dataclass(frozen=True, slots=True)
class _Outlook:
    power: float
    superior: float
    futile: float
    tasks: float


def _outlooks(rule: StoppingRule, effects: Sequence[float], discordance: float, tasks: int | None) -> list[_Outlook]:
    check_discordance(discordance)
    if isinstance(rule, ExactMcNemar):
        return _compute(rule, effects, discordance)
    tasks = rule.at_most or tasks
    if tasks is None:
        raise SeedbedError("tasks: found none, and the rule has no at_most; expected how many tasks there are")
    return [_simulate(rule, effect, discordance, tasks) for effect in effects]


def _simulate(rule: StoppingRule, effect: float, discordance: float, tasks: int) -> _Outlook:
    repeats = rule.repeats if isinstance(rule, Gsprt) else 1
    # The same luck for every effect, so that a curve is as smooth as the rule.
    luck = np.random.default_rng(0).random((repeats, SIMULATED, tasks))
    differences = ((luck < (discordance + effect) / 2).astype(float) - (luck > 1 - (discordance - effect) / 2)).mean(0)
    ends = rule.ends(differences)
    sought: Conclusion = rule.goal if isinstance(rule, Betting) else "superior"
    reached = ends.share(sought)
    return _Outlook(reached, ends.share("superior"), ends.share("futile"), float(ends.tasks.mean()))


def _compute(rule: ExactMcNemar, effects: Sequence[float], discordance: float) -> list[_Outlook]:
    to_win = 0.5 + np.array(effects)[:, None] / discordance / 2
    superior, futile, tasks = np.zeros((3, len(effects)))
    futile_below = cache(partial(_futile_below, Futility(rule.effect, rule.beta))) if rule.effect is not None else None
    for differing in _patterns(rule.at_most, discordance):
        boundary = Boundary(rule.alpha, rule.at_most, rule.spend)
        going_on = np.ones((len(effects), 1))
        last_look = differed = 0
        for n, differs in enumerate(differing, 1):
            needed = boundary.needed
            boundary.advance(differs)
            if not differs and boundary.needed == needed and futile_below is None:
                continue
            tasks += (n - last_look) * going_on.sum(axis=1)
            last_look = n
            if differs:
                going_on = toss(going_on, to_win)
                differed += 1
            superior += going_on[:, boundary.needed :].sum(axis=1)
            going_on = going_on[:, : boundary.needed]
            going_on[:, : max(0, differed - boundary.needed + 1)] = 0
            if futile_below:
                end = futile_below(n, differed)
                futile += going_on[:, :end].sum(axis=1)
                going_on[:, :end] = 0
        tasks += (rule.at_most - last_look) * going_on.sum(axis=1)
    rows = np.stack([superior, superior, futile, tasks], axis=1) / PATTERNS
    return [_Outlook(*map(float, row)) for row in rows]


def _futile_below(futility: Futility, n: int, differed: int) -> int:
    """Below how many wins a test is futile after n tasks."""
    wins = np.arange(differed + 1)
    return int((futility.evidence(wins, n - differed, differed - wins) >= futility.enough).sum())


def _patterns(at_most: int, discordance: float) -> Iterator[list[bool]]:
    """Which tasks differ: evenly spaced quantiles of how many, in random places."""
    how_many: Floats = np.ones(1)
    for _ in range(at_most):
        how_many = toss(how_many, discordance)
    quantiles = (np.arange(PATTERNS) + 0.5) / PATTERNS
    places = np.random.default_rng(0)
    for count in np.searchsorted(np.cumsum(how_many), quantiles):
        yield (places.permutation(at_most) < count).tolist()
