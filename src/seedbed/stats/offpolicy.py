"""Off-policy evaluation: what another policy would have scored, from random decisions logged with their chances.

For decisions among a few actions: which model, which tool, ask or go on. For a changed prompt no chances are logged:
replay it instead. These estimates may rule candidates out, or say which to try first. They never promote one, and they
do not count where `screen` finds a reason to refuse them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedbed.errors import Problem, SeedbedError, shown
from seedbed.stats.arrays import Bools, Floats, Integers, number_clusters
from seedbed.stats.estimates import Interval, mean_interval

LARGEST_WEIGHT = 20.0
FEWEST_EFFECTIVE, EFFECTIVE_SHARE = 50, 0.1
LEAST_COVERAGE = 0.95

REMEDY = "Try the candidate live on a share of traffic, or log decisions with more chance in them"


class Decisions:
    """Logged decisions, a row each, among the same actions, a column each.

    `logged` has the chances of all actions when the decision was made, `target` those the other policy would have
    given them, `guesses` what each action was expected to score (see `guess_rewards`). `actions` are the columns
    taken, `rewards` the scores. Decisions of one run or customer are related: name it in `clusters`.
    """

    def __init__(
        self,
        actions: ArrayLike,
        rewards: ArrayLike,
        logged: ArrayLike,
        target: ArrayLike,
        guesses: ArrayLike | None = None,
        clusters: Sequence[Hashable] | None = None,
    ) -> None:
        self.rewards = _finite("rewards", rewards, 1)
        n = len(self.rewards)
        self.logged, self.target = _chances("logged", logged, n), _chances("target", target, n)
        self.actions = _actions(actions, n, self.logged.shape[1])
        self.guesses = None if guesses is None else _finite("guesses", guesses, 2)
        self.clusters = clusters
        number_clusters(clusters, n)
        for name, table in (("target", self.target), ("guesses", self.guesses)):
            if table is not None and table.shape != self.logged.shape:
                raise SeedbedError(f"{name}: found shape {table.shape}; expected {self.logged.shape}, as logged")
        taken = self._taken(self.logged)
        for row in np.flatnonzero(taken == 0)[:1]:
            raise SeedbedError(
                f"logged[{row}][{self.actions[row]}]: found 0 for the action that was taken; expected its chance. Log "
                "chances when the decision is made"
            )
        self.weights: Floats = self._taken(self.target) / taken
        """How much likelier the target policy was to take the action that was taken."""

    def __len__(self) -> int:
        return len(self.rewards)

    def covered(self) -> Bools:
        """For each decision, whether every action of the target policy had a chance to be taken."""
        covered: Bools = ((self.logged > 0) | (self.target == 0)).all(axis=1)
        return covered

    def expected(self) -> Floats:
        """For each decision, what the target policy is guessed to score."""
        expected: Floats = (self.target * self._guesses()).sum(axis=1)
        return expected

    def errors(self) -> Floats:
        """For each decision, by how much the reward exceeded the guess for the action taken."""
        return self.rewards - self._taken(self._guesses())

    def _taken(self, table: Floats) -> Floats:
        column: Floats = table[np.arange(len(self)), self.actions]
        return column

    def _guesses(self) -> Floats:
        if self.guesses is None:
            raise SeedbedError(
                "guesses: found none; expected a score for every action at every decision: see guess_rewards"
            )
        return self.guesses


def guess_rewards(
    kinds: Sequence[Hashable],
    actions: Sequence[int],
    rewards: Sequence[float],
    of: int,
    clusters: Sequence[Hashable] | None = None,
    folds: int = 3,
) -> Floats:
    """What each of `of` actions is expected to score at each decision, from other decisions of its kind.

    The mean reward of the action for this kind of task; where there is none, its mean over all kinds; then the mean of
    all. Decisions, or whole clusters of them, are dealt into `folds` in turn, and none is guessed from its own fold:
    guesses that know the reward would hide the error that corrects them.
    """
    if folds < 2:
        raise SeedbedError(f"folds: found {shown(folds)}; expected at least 2")
    scores = _finite("rewards", rewards, 1)
    taken = _actions(actions, len(scores), of)
    kind = number_clusters(kinds, len(scores), "kinds")
    fold = number_clusters(clusters, len(scores)) % folds
    guesses = np.zeros((len(scores), of))
    for number in range(folds):
        fold_rows, rest = fold == number, fold != number
        if not rest.any():
            continue
        general = np.full(of, scores[rest].mean())
        for action in range(of):
            here = rest & (taken == action)
            if here.any():
                general[action] = scores[here].mean()
        counts, sums = np.zeros((kind.max() + 1, of)), np.zeros((kind.max() + 1, of))
        np.add.at(counts, (kind[rest], taken[rest]), 1)
        np.add.at(sums, (kind[rest], taken[rest]), scores[rest])
        means = np.where(counts > 0, sums / np.maximum(counts, 1), general)
        guesses[fold_rows] = means[kind[fold_rows]]
    return guesses


# Each estimator returns what the target policy would have scored on average, with its interval.


def ips(log: Decisions, confidence: float = 0.95) -> Interval:
    """Inverse propensity score: rewards, weighted by how much likelier the target was to earn them. Unbiased."""
    return _estimate(log.weights * log.rewards, log, confidence)


def clipped_ips(log: Decisions, confidence: float = 0.95, most: float = LARGEST_WEIGHT) -> Interval:
    """`ips` with no weight above `most`: steadier, and biased by the weight cut off."""
    _check_positive("most", most)
    return _estimate(np.minimum(log.weights, most) * log.rewards, log, confidence)


def snips(log: Decisions, confidence: float = 0.95) -> Interval:
    """Self-normalized `ips`: the weighted mean of the rewards. Always within their range; its bias fades with n."""
    return _self_normalized(np.zeros(len(log)), log.rewards, log, confidence)


def direct(log: Decisions, confidence: float = 0.95) -> Interval:
    """Direct method: the guessed scores of the target. As wrong as the guesses, and its interval does not show that."""
    return _estimate(log.expected(), log, confidence)


def doubly_robust(log: Decisions, confidence: float = 0.95) -> Interval:
    """The guesses, corrected by their weighted errors. Unbiased, whatever the guesses (Dudík et al. 2014)."""
    return _estimate(log.expected() + log.weights * log.errors(), log, confidence)


def sndr(log: Decisions, confidence: float = 0.95) -> Interval:
    """Self-normalized `doubly_robust`: errors are averaged with weights that sum to 1."""
    return _self_normalized(log.expected(), log.errors(), log, confidence)


def switch_dr(log: Decisions, confidence: float = 0.95, most: float = LARGEST_WEIGHT) -> Interval:
    """`doubly_robust` that leaves the guess alone where the weight is above `most` (Wang, Agarwal and Dudík 2017)."""
    _check_positive("most", most)
    weights = np.where(log.weights <= most, log.weights, 0.0)
    return _estimate(log.expected() + weights * log.errors(), log, confidence)


def dros(log: Decisions, confidence: float = 0.95, shrink: float = LARGEST_WEIGHT**2) -> Interval:
    """`doubly_robust` with weights shrunk to w L / (w² + L), L being `shrink` (Su et al. 2020). √L is halved."""
    _check_positive("shrink", shrink)
    shrunk = shrink * log.weights / (log.weights**2 + shrink)
    return _estimate(log.expected() + shrunk * log.errors(), log, confidence)


ESTIMATORS: dict[str, Callable[[Decisions], Interval]] = {
    "ips": ips,
    "clipped": clipped_ips,
    "snips": snips,
    "dm": direct,
    "dr": doubly_robust,
    "sndr": sndr,
    "switch-dr": switch_dr,
    "dros": dros,
}


@dataclass(frozen=True, slots=True)
class Screen:
    """Whether logged decisions can say anything about the target policy.

    `effective` is how many decisions by the target itself they are worth, (Σw)² / Σw². The true mean of the weights is
    1, so `mean_weight` shows whether the logged chances were the real ones. `coverage` is the share of
    decisions at which every action of the target had a chance to be taken.
    """

    n: int
    effective: float
    largest: float
    mean_weight: Interval
    coverage: float

    def refusals(self) -> list[Problem]:
        """Why estimates must not be used, even to rule a candidate out. If there are none, they may screen only."""
        refusals = []
        enough = max(FEWEST_EFFECTIVE, EFFECTIVE_SHARE * self.n)
        if not self.effective >= enough:
            expected = f"at least {enough:g} of {self.n} logged"
            refusals.append(Problem("effective sample size", f"{self.effective:.1f}", expected, REMEDY))
        if not self.largest <= LARGEST_WEIGHT:
            refusals.append(Problem("largest weight", f"{self.largest:.4g}", f"at most {LARGEST_WEIGHT:g}", REMEDY))
        interval = self.mean_weight
        if not interval.low - 1e-9 <= 1 <= interval.high + 1e-9:
            mean = f"{interval.mean:.3f}, from {interval.low:.3f} to {interval.high:.3f}"
            remedy = "The logged chances are not those that decided, or the target's actions were impossible"
            refusals.append(Problem("mean weight", mean, "an interval around 1", remedy))
        if not self.coverage >= LEAST_COVERAGE:
            refusals.append(Problem("coverage", f"{self.coverage:.1%}", f"at least {LEAST_COVERAGE:.0%}", REMEDY))
        return refusals


def screen(log: Decisions, confidence: float = 0.95) -> Screen:
    """Check the weights of decisions before an estimate from them is used."""
    weights = log.weights
    n, squares = len(weights), math.fsum(weights**2)
    return Screen(
        n=n,
        effective=math.fsum(weights) ** 2 / squares if squares else 0.0,
        largest=float(weights.max()) if n else math.nan,
        mean_weight=mean_interval(weights.tolist(), log.clusters, confidence),
        coverage=float(log.covered().mean()) if n else math.nan,
    )


def _self_normalized(expected: Floats, errors: Floats, log: Decisions, confidence: float) -> Interval:
    total = math.fsum(log.weights)
    if total == 0:  # the target would have taken none of the actions
        return Interval(math.nan, -math.inf, math.inf, confidence, len(log))
    correction = math.fsum(log.weights * errors) / total
    # Each decision's part in the estimate, to first order, as the sum of weights is by chance too.
    parts = expected + correction + log.weights * (errors - correction) * (len(log) / total)
    return _estimate(parts, log, confidence)


def _estimate(parts: Floats, log: Decisions, confidence: float) -> Interval:
    return mean_interval(parts.tolist(), log.clusters, confidence)


def _finite(name: str, values: ArrayLike, dimensions: int) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != dimensions:
        expected = "one number per decision" if dimensions == 1 else "a row per decision and a column per action"
        raise SeedbedError(f"{name}: found {table.ndim} dimensions; expected {expected}")
    for place in np.argwhere(~np.isfinite(table))[:1].tolist():
        raise SeedbedError(f"{name}{place}: found {table[tuple(place)]}; expected a finite number")
    return table


def _chances(name: str, values: ArrayLike, n: int) -> Floats:
    chances = _finite(name, values, 2)
    if len(chances) != n:
        raise SeedbedError(f"{name}: found {len(chances)} rows; expected {n}, one per reward")
    wrong = (chances < 0).any(axis=1) | (np.abs(chances.sum(axis=1) - 1) > 1e-6)
    for row in np.flatnonzero(wrong)[:1]:
        raise SeedbedError(f"{name}[{row}]: found {shown(chances[row].tolist())}; expected chances that sum to 1")
    return chances


def _actions(values: ArrayLike, n: int, of: int) -> Integers:
    actions = np.asarray(values, dtype=np.int64)
    if actions.shape != (n,):
        raise SeedbedError(f"actions: found shape {actions.shape}; expected {n}, one per reward")
    for row in np.flatnonzero((actions < 0) | (actions >= of))[:1]:
        raise SeedbedError(f"actions[{row}]: found {actions[row]}; expected a column from 0 to {of - 1}")
    return actions


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise SeedbedError(f"{name}: found {shown(value)}; expected a number above 0")
