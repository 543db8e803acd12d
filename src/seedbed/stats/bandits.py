"""Bandits: beliefs about arms, the chance that each is best, and how much better a choice was than a random one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats

NODES = np.concatenate([[-7.0, -6.0], np.linspace(-5, 5, 31), [6.0, 7.0]])
"""Where `chances` evaluates each belief, in standard deviations from its mean. The error of a chance is below 0.001 for
beliefs worth 3 to 10,000 outcomes."""

LOW = 5
"""The node at four deviations below the mean."""

MOST_EDGES = 200
"""How many points `chances` integrates over at most: with many arms, their nodes lie closer together than is needed."""


@dataclass(frozen=True, slots=True)
class Belief:
    """A Beta belief about a mean score between 0 and 1, worth `good` good and `bad` bad outcomes."""

    good: float
    bad: float

    def __post_init__(self) -> None:
        if not (self.good > 0 and self.bad > 0 and math.isfinite(self.good + self.bad)):
            raise SeedbedError(
                f"belief: found {shown(self.good)} and {shown(self.bad)}; expected two finite numbers above 0"
            )

    @classmethod
    def prior(cls, mean: float, strength: float) -> Belief:
        """A belief worth `strength` outcomes with this mean. No prior is certain: the mean is cut at 0.02 and 0.98."""
        likely = min(max(mean, 0.02), 0.98)
        return cls(likely * strength, (1 - likely) * strength)

    @property
    def strength(self) -> float:
        return self.good + self.bad

    @property
    def mean(self) -> float:
        return self.good / self.strength

    @property
    def deviation(self) -> float:
        return math.sqrt(self.mean * (1 - self.mean) / (self.strength + 1))

    def sharpened(self, by: float) -> Belief:
        """The same mean, as certain as if every outcome had been seen `by` times."""
        return Belief(self.good * by, self.bad * by)


@dataclass(frozen=True, slots=True)
class ArmOutcomes:
    """The outcomes of an arm in one context: the sum of its scores, and how many outcomes they count as."""

    score: float = 0.0
    weight: float = 0.0


def level(outcomes: Iterable[ArmOutcomes], strength: float, start: float = 0.5) -> float:
    """The expected score of an untried arm in a context, from the outcomes of the arms that were tried.

    Every arm counts once, less so while it has few outcomes; `start` counts as one arm more. So a favourite that gets
    nearly all the outcomes does not make untried arms look as good as itself.
    """
    total, weights = start, 1.0
    for each in outcomes:
        if each.weight > 0:
            weight = each.weight / (each.weight + strength)
            total += weight * each.score / each.weight
            weights += weight
    return total / weights


def expectation(
    here: float, elsewhere: Iterable[tuple[ArmOutcomes, float]], strength: float, borrowed: float
) -> Belief:
    """What to expect of an arm in a context where it was not tried: the level `here`, and how it did in others.

    `elsewhere` has its outcomes in each other context, with the level there. What counts is how far it was above or
    below that level; all of it together counts as at most `borrowed` outcomes.
    """
    above, weight = 0.0, 0.0
    for outcomes, there in elsewhere:
        above += outcomes.score - outcomes.weight * there
        weight += outcomes.weight
    taken = min(weight, borrowed)
    offset = above / weight * taken / (taken + strength) if weight else 0.0
    return Belief.prior(here + offset, strength + taken)


def chances(beliefs: Mapping[str, Belief], penalties: Mapping[str, float] | None = None) -> dict[str, float]:
    """The chance of each arm that a draw from its belief, less its penalty, beats those of all others.

    These are the choices of Thompson sampling, computed instead of sampled. They add up to 1, and do not depend on the
    order of the arms.
    """
    if not beliefs:
        raise SeedbedError("beliefs: found none; expected at least one arm")
    names = sorted(beliefs)
    off = penalties or {}
    shift = np.array([off.get(name, 0.0) for name in names])
    if not np.isfinite(shift).all():
        raise SeedbedError(f"penalties: found {shown(dict(off))}; expected finite numbers")
    good = np.array([[beliefs[name].good] for name in names])
    bad = np.array([[beliefs[name].bad] for name in names])
    means = good / (good + bad)
    deviations = np.sqrt(means * (1 - means) / (good + bad + 1))
    nodes = np.clip(means + deviations * NODES, 0.0, 1.0) - shift[:, None]
    # Below four deviations under any arm a draw is next to never the best.
    edges = np.unique(nodes[nodes >= nodes[:, LOW].max()])
    if len(edges) > MOST_EDGES:
        edges = edges[np.linspace(0, len(edges) - 1, MOST_EDGES).astype(int)]
    below = scipy.special.betainc(good, bad, np.clip(edges + shift[:, None], 0.0, 1.0))
    # The chance of an arm is the integral, over its own distribution, of the chance that all others lie below.
    others = _product_of_others(below)
    mass = (np.diff(below, axis=1) * (others[:, 1:] + others[:, :-1]) / 2).sum(axis=1)
    mass /= mass.sum()
    return dict(zip(names, mass.tolist(), strict=True))


def _product_of_others(values: Floats) -> Floats:
    """For each row the product of all other rows, without dividing: a row may be zero."""
    ones = np.ones((1, values.shape[1]))
    before = np.cumprod(np.vstack([ones, values[:-1]]), axis=0)
    after = np.cumprod(np.vstack([ones, values[:0:-1]]), axis=0)[::-1]
    return np.asarray(before * after, dtype=np.float64)


def greedy(values: Mapping[str, float]) -> dict[str, float]:
    """All chance to the arm with the highest value; equal ones share it. With `mix`, the epsilon-greedy choice."""
    if not values:
        raise SeedbedError("values: found none; expected at least one arm")
    highest = max(values.values())
    best = [name for name, value in values.items() if value == highest]
    return {name: 1 / len(best) if name in best else 0.0 for name in values}


def ucb1(outcomes: Mapping[str, ArmOutcomes]) -> dict[str, float]:
    """All chance to the arm that might be best: the highest mean plus √(2 ln N / n), for scores between 0 and 1.

    Untried arms come first and share it. To start from a prior, add it to the outcomes. Chances are 0 or 1, so the
    choices say nothing about other policies: use `mix` for that.
    """
    total = max(math.fsum(each.weight for each in outcomes.values()), 1.0)
    bounds = {
        name: each.score / each.weight + math.sqrt(2 * math.log(total) / each.weight) if each.weight > 0 else math.inf
        for name, each in outcomes.items()
    }
    return greedy(bounds)


def mix(chances: Mapping[str, float], explore: float) -> dict[str, float]:
    """The chances if a share `explore` of all choices is uniformly random."""
    if not 0 <= explore <= 1:
        raise SeedbedError(f"explore: found {shown(explore)}; expected a share between 0 and 1")
    return {name: (1 - explore) * chance + explore / len(chances) for name, chance in chances.items()}


def draw(chances: Mapping[str, float], at: float) -> str:
    """The arm that a uniform number in [0, 1) falls on; arms lie side by side in the order of their names."""
    names = sorted(chances)
    place = 0.0
    for name in names:
        place += chances[name]
        if at < place:
            return name
    return max(names, key=lambda name: (chances[name], name))  # rounding left a gap below 1


def follow(average: float | None, value: float, n: int, rate: float) -> float:
    """A moving average after its nth value: the plain mean at first, then one that forgets at this rate."""
    return value if average is None else average + max(rate, 1 / n) * (value - average)


@dataclass(frozen=True, slots=True)
class LoggedChoice:
    """One choice and its score.

    `odds` are the chances of all arms at that time, `guesses` the scores expected of them before `score` was known.
    """

    arm: str
    odds: Mapping[str, float]
    guesses: Mapping[str, float]
    score: float

    def __post_init__(self) -> None:
        if self.arm not in self.odds or self.odds.keys() != self.guesses.keys():
            raise SeedbedError(
                f"odds and guesses: found {shown(sorted(self.odds))} and {shown(sorted(self.guesses))}; "
                f"expected both for the same arms, {shown(self.arm)} too"
            )
        if not all(0 < chance <= 1 for chance in self.odds.values()):
            raise SeedbedError(f"odds: found {shown(dict(self.odds))}; expected chances above 0 and at most 1")


def gain_over_uniform(choice: LoggedChoice) -> float:
    """By how much the choice was better than a uniformly random one. Unbiased: average over many choices.

    The doubly robust estimate: a random choice is worth the average guess, corrected by the error of the guess for the
    chosen arm, in proportion to how much likelier a random choice would have been to take it. Guesses only reduce the
    variance; wrong ones do no harm.
    """
    arms = len(choice.odds)
    blind = math.fsum(choice.guesses.values()) / arms
    likelier = 1 / arms / choice.odds[choice.arm]
    return choice.score - blind - likelier * (choice.score - choice.guesses[choice.arm])


def blind_worth(choices: Sequence[LoggedChoice]) -> float:
    """How many uniformly random choices would say as much: their number over the expected mean squared weight.

    Expected, not observed: by chance the rarely chosen arms may be missing, and then the observed weights look even.
    """
    squares = math.fsum(sum(1 / chance for chance in each.odds.values()) / len(each.odds) ** 2 for each in choices)
    return len(choices) ** 2 / squares if squares else 0.0
