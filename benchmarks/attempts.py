"""How often candidates that are no better are called better, and what the levels of attempts cost an honest one.

    python benchmarks/attempts.py [--experiments 10000] [--seed 0]

Nothing here is the code of seedbed: the stopping rules, the levels of attempts, the scores of missing answers and the
division among several candidates are computed again from their definitions, with numpy and scipy. Only the last line
compares: the rules in benchmarks/rules.py with those of seedbed, on random sequences.

Scores are 0 or 1, alpha is 0.05. Every test is looked at after every unit and may spend level * (n / N)^1.5 by unit n
of N. The first attempt has 15/16 of alpha, attempt j has alpha / 16 * 6 / (pi^2 (j - 1)^2) and half of what earlier
tests left over. "share" is the share of experiments in which any candidate that is no better was called better, with
its exact 95 % interval; in part f it is the power. "at most" is what is promised; rows without it are for contrast:
they show what the same experiments give without the rule.

a  one attempt at the whole of alpha, 300 tasks, of which a share differs;
b  tasks from sources: 20 tasks a source, intraclass correlation of the differences 0.3, half of the tasks differ; a
   source is one unit, which counts as the sign of its mean difference;
c  a share of the control's passes is missing, and as many of the candidate's fails; missing answers count as the
   control's pass and as the candidate's fail;
d  k attempts in a row, on fresh tasks each or on the same tasks with one run of the control, which all attempts share;
   "with futility" ends a test as soon as a bet has shown that the candidate is not better by 0.1. A test leaves over
   what it had not spent when it ended, or with "refund only after the last unit", which is what seedbed does, nothing
   if it ended before that.
   "computed" adds up, over the attempts until the first false winner, the chance of one given which tasks differ: the
   same share, known far more exactly, as it does not depend on the luck of the wins;
e  several candidates in one attempt, with equal parts of its level, on the same tasks and one run of the control;
f  power of a first attempt with a gain, at alpha and at 15/16 of alpha, on the same experiments;
g  k attempts in a row as in d by rules that leave nothing over: betting, Wald's SPRT for tasks of which 0.3 differ,
   whether they do or not, and GSPRT, both for a gain of 0.1. Their error rates are by design, betting's is promised.
   With replicates each task is run several times on each side, and its mean scores are compared;
h  k attempts in a row with several candidates each, which share a run of the control and divide the level equally. Of
   12 it also counts those that the rule for more than ten (e-BH) calls better.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import rules
from numpy.typing import NDArray
from scipy import stats

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Signs = NDArray[np.int8]

ALPHA = 0.05
FIRST = 15 / 16
TASKS = 300
EFFECT = 0.1
FEW = 10
MOST_LOSS = 0.015
MOST = 20
CHUNK = 2_000
"""How many experiments are computed at once: their arrays fit into the cache of a processor."""


def differing(rng: np.random.Generator, rows: int, units: int, share: float, gain: float = 0.0) -> Signs:
    """Wins, ties and losses of independent tasks, of which a share differs."""
    luck = rng.random((rows, units))
    return (luck < (share + gain) / 2).astype(np.int8) - (luck > 1 - (share - gain) / 2).astype(np.int8)


def difficulties(rng: np.random.Generator, rows: int) -> Floats:
    """The chance to pass each task, the same for both playbooks. Two runs of a task differ on 0.3 of the tasks."""
    return rng.beta(0.75, 0.75, (rows, TASKS))


def passes(rng: np.random.Generator, chances: Floats) -> Floats:
    return (rng.random(chances.shape) < chances).astype(float)


def signs_of(difference: Floats) -> Signs:
    return np.sign(difference).astype(np.int8)


def peeking(share: float) -> Callable[[np.random.Generator, int], Bools]:
    return lambda rng, rows: rules.exact(differing(rng, rows, TASKS, share), ALPHA).better


def sourced(sources: int, by_source: bool) -> Callable[[np.random.Generator, int], Bools]:
    """Each source favours one of the two by chance, so that its tasks tend to differ in the same direction."""
    size, differ, correlation = 20, 0.5, 0.3
    spread = (differ / correlation - 1) / 2  # so that the variance of a source's mean difference is the correlation

    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        won = rng.beta(spread, spread, (rows, sources, 1))
        luck = rng.random((rows, sources, size))
        tasks = (luck < differ * won).astype(np.int8) - (luck > 1 - differ * (1 - won)).astype(np.int8)
        units = np.sign(tasks.sum(axis=2)).astype(np.int8) if by_source else tasks.reshape(rows, -1)
        return rules.exact(units, ALPHA).better

    return experiments


def incomplete(share: float, counted: str) -> Callable[[np.random.Generator, int], Bools]:
    """The control loses a share of its passes, and the candidate as many of its fails."""

    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        chances = difficulties(rng, rows)
        control, candidate = passes(rng, chances), passes(rng, chances)
        count = np.rint(share * control.sum(axis=1)).astype(np.int64)
        control[some_of(rng, control == 1, count)] = np.nan
        candidate[some_of(rng, candidate == 0, count)] = np.nan
        if counted == "worst case":
            difference = np.where(np.isnan(candidate), 0.0, candidate) - np.where(np.isnan(control), 1.0, control)
        elif counted == "as fails":
            difference = np.nan_to_num(candidate) - np.nan_to_num(control)
        else:
            difference = np.nan_to_num(candidate - control)
        return rules.exact(signs_of(difference), ALPHA).better

    return experiments


def some_of(rng: np.random.Generator, where: Bools, count: NDArray[np.int64]) -> Bools:
    """So many of the marked places of each row, at random."""
    order = np.where(where, rng.random(where.shape), 2.0).argsort(axis=1).argsort(axis=1)
    return (order < count[:, None]) & where


def in_a_row(
    attempts: int,
    *,
    rule: Callable[..., rules.Ends] = rules.exact,
    differ: float = 0.3,
    same_tasks: bool = False,
    candidates: int = 1,
    replicates: int = 1,
    refund: str = "all",
    whole: bool = False,
) -> Callable[[np.random.Generator, int], Floats]:
    """Whether each of the attempts found a false winner, and the chance that it is the first to do so.

    Single candidates on fresh tasks differ from the control on a share of them. Candidates that share tasks or a run of
    the control, or are run several times, differ by the luck of each run.
    `whole` gives every attempt the whole of alpha. `refund` says which exact tests leave over what they did not spend:
    "all", or only those "read to the end"; other rules never do.
    """
    alone = candidates == replicates == 1 and not same_tasks

    def experiments(rng: np.random.Generator, rows: int) -> Floats:
        left, none_yet = np.zeros(rows), np.ones(rows, dtype=bool)
        found: list[Bools] = []
        first: list[Floats] = []
        chances = control = np.empty(0)
        for number in range(1, attempts + 1):
            level = ALPHA * FIRST
            if number > 1:
                left /= 2
                level = ALPHA * (1 - FIRST) * 6 / (math.pi**2 * (number - 1) ** 2)
            if whole:
                level = ALPHA
            levels = level + left if left.any() else level
            if not alone and (number == 1 or not same_tasks):
                chances = difficulties(rng, rows)
                control = runs(rng, chances, replicates)
            won, chance = np.zeros((2, rows))
            ends: list[rules.Ends] = []
            for _ in range(candidates):
                gains = differing(rng, rows, TASKS, differ) if alone else runs(rng, chances, replicates) - control
                ends.append(rule(gains if replicates > 1 else signs_of(gains), levels / candidates))
            for end in ends:
                won += end.better
                if isinstance(end, rules.ExactEnds):
                    chance += end.chance
                    gone = end.better | end.worse | end.futile if refund == "read to the end" else end.units == 0
                    left += np.where(gone, 0.0, levels / candidates - end.spent)
            if candidates > FEW:
                won += share_false([end.money for end in ends if isinstance(end, rules.BettingEnds)], level)
            found.append(won > 0)
            first.append(chance * none_yet)
            none_yet &= won == 0
        return np.moveaxis(np.array([found, first], dtype=float), -1, 0)

    return experiments


def share_false(money: Sequence[Floats], level: float) -> Bools:
    """Whether the rule for more than ten candidates calls any better: the k with the most money each have K / (level k)
    of it."""
    most = -np.sort(-np.array(money), axis=0)
    return (most >= len(money) / (level * np.arange(1, len(money) + 1)[:, None])).any(axis=0)


def runs(rng: np.random.Generator, chances: Floats, replicates: int) -> Floats:
    """The mean score of so many runs of each task."""
    return np.mean([passes(rng, chances) for _ in range(replicates)], axis=0)


def together(candidates: int, level: float) -> Callable[[np.random.Generator, int], Bools]:
    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        chances = difficulties(rng, rows)
        control = passes(rng, chances)
        found = np.zeros(rows, dtype=bool)
        for _ in range(candidates):
            found |= rules.exact(signs_of(passes(rng, chances) - control), level).better
        return found

    return experiments


def honest(gain: float, share: float) -> Callable[[np.random.Generator, int], Bools]:
    """Whether a candidate with a gain is found at alpha, and at the level of a first attempt."""

    def experiments(rng: np.random.Generator, rows: int) -> Bools:
        signs = differing(rng, rows, TASKS, share, gain)
        return np.array([rules.exact(signs, level).better for level in (ALPHA, FIRST * ALPHA)]).T

    return experiments


class Table:
    """Prints a row for each setting as soon as it is known. Each has random numbers of its own."""

    def __init__(self, experiments: int, seed: int) -> None:
        self._experiments, self._seed = experiments, seed
        self._settings = itertools.count()
        print("| part | setting | share | 95 % interval | at most | holds |\n|---|---|---:|---:|---:|---|", flush=True)

    def run(self, experiments: Callable[[np.random.Generator, int], Any]) -> Any:
        rng = np.random.default_rng([self._seed, next(self._settings)])
        return np.concatenate([experiments(rng, rows) for rows in chunks(self._experiments)])

    def row(self, part: str, setting: str, found: Bools, promised: bool = True) -> None:
        count = int(found.sum())
        interval = stats.binomtest(count, len(found)).proportion_ci(method="exact")
        self._print(part, setting, count / len(found), interval.low, interval.high, ALPHA if promised else None)

    def mean(self, part: str, setting: str, values: Floats, most: float) -> None:
        mean, half = values.mean(), 1.96 * values.std() / math.sqrt(len(values))
        self._print(part, setting, mean, mean - half, mean + half, most)

    @staticmethod
    def _print(part: str, setting: str, share: float, low: float, high: float, most: float | None) -> None:
        holds = "–"
        if most is not None:
            holds = "yes" if share <= most else "within chance" if low <= most else "no"
        promised = "–" if most is None else f"{most:g}"
        print(f"| {part} | {setting} | {share:.4f} | {low:.4f} to {high:.4f} | {promised} | {holds} |", flush=True)


def chunks(experiments: int) -> Iterator[int]:
    for first in range(0, experiments, CHUNK):
        yield min(CHUNK, experiments - first)


def print_table(experiments: int, seed: int) -> None:
    table = Table(experiments, seed)
    for share in (0.1, 0.3, 0.5):
        table.row("a", f"one attempt, {share:g} differ", table.run(peeking(share)))
    for sources in (10, 20, 40, 60):
        table.row("b", f"{sources} sources", table.run(sourced(sources, by_source=True)))
    table.row("b", "20 sources, every task a unit", table.run(sourced(20, by_source=False)), promised=False)
    for counted in ("worst case", "as fails", "as ties"):
        for share in (0.02, 0.05, 0.1):
            found = table.run(incomplete(share, counted))
            table.row("c", f"{share:.0%} missing, counted {counted}", found, promised=counted == "worst case")
    print_attempts(table)
    for candidates in (2, 5, 10):
        found = table.run(together(candidates, ALPHA * FIRST / candidates))
        table.row("e", f"{candidates} candidates", found)
    table.row("e", "10 candidates, alpha each", table.run(together(10, ALPHA)), promised=False)
    for gain, share in ((0.1, 0.3), (0.05, 0.3), (0.1, 0.5)):
        found = table.run(honest(gain, share))
        name = f"gain {gain:g}, {share:g} differ"
        table.row("f", f"power, {name}, alpha", found[:, 0], promised=False)
        table.row("f", f"power, {name}, 15/16 of alpha", found[:, 1], promised=False)
        table.mean("f", f"loss, {name}", found[:, 0].astype(float) - found[:, 1], MOST_LOSS)
    print_other_rules(table)
    print_several(table)


def print_attempts(table: Table) -> None:
    ended: dict[str, Any] = {"refund": "read to the end"}
    only, futility = "refund only after the last unit", partial(rules.exact, effect=EFFECT)
    shared = {"same_tasks": True}
    for name, options, promised, computed in (
        ("fresh tasks", {}, False, True),
        (f"fresh tasks, {only}", ended, True, True),
        ("same tasks, one control run", shared, False, False),
        (f"same tasks, one control run, {only}", {**shared, **ended}, True, False),
        ("fresh tasks, with futility", {"rule": futility}, False, False),
        (f"fresh tasks, with futility, {only}", {"rule": futility, **ended}, True, False),
        ("fresh tasks, alpha each time", {"whole": True}, False, False),
    ):
        print_row(table, "d", name, in_a_row(MOST, **options), promised=promised, computed=computed)


def print_row(
    table: Table,
    part: str,
    name: str,
    experiments: Callable[[np.random.Generator, int], Floats],
    *,
    promised: bool = True,
    computed: bool = False,
) -> None:
    found, first = np.moveaxis(table.run(experiments), 1, 0)
    for count in (1, 2, 5, 10, MOST):
        table.row(part, f"k = {count}, {name}", found[:, :count].any(axis=1), promised)
    if computed:
        table.mean(part, f"k = {MOST}, {name}, computed", first.sum(axis=1), ALPHA)


def print_other_rules(table: Table) -> None:
    registered = partial(rules.sprt, effect=EFFECT, discordance=0.3)
    ratio, ratio_of_two = (partial(rules.gsprt, effect=EFFECT, repeats=each) for each in (1, 2))
    for differ in (0.1, 0.3, 0.5):
        for name, rule in (("betting", rules.betting), ("SPRT for 0.3", registered), ("GSPRT", ratio)):
            experiments = in_a_row(MOST, rule=rule, differ=differ)
            print_row(table, "g", f"{name}, {differ:g} differ", experiments, promised=rule is rules.betting)
    for name, rule in (("betting", rules.betting), ("SPRT for 0.3", registered), ("GSPRT", ratio)):
        experiments = in_a_row(MOST, rule=rule, same_tasks=True)
        print_row(table, "g", f"{name}, same tasks, one control run", experiments, promised=rule is rules.betting)
    for replicates in (2, 3):
        for same in (False, True):
            name = f"betting, {replicates} replicates, {'same' if same else 'fresh'} tasks"
            experiments = in_a_row(MOST, rule=rules.betting, replicates=replicates, same_tasks=same)
            print_row(table, "g", name, experiments)
    experiments = in_a_row(MOST, rule=ratio_of_two, replicates=2)
    print_row(table, "g", "GSPRT, 2 replicates, fresh tasks", experiments, promised=False)


def print_several(table: Table) -> None:
    for candidates, name, rule in (
        (3, "exact", rules.exact),
        (10, "exact", rules.exact),
        (3, "betting", rules.betting),
        (12, "betting", rules.betting),
    ):
        for same in (False, True):
            where = "same tasks, one control run" if same else "fresh tasks"
            experiments = in_a_row(MOST, rule=rule, candidates=candidates, same_tasks=same, refund="read to the end")
            print_row(table, "h", f"{candidates} candidates each time, {name}, {where}", experiments)


def print_agreement(sequences: int, seed: int) -> None:
    """Compare verdict and number of units with the rules of seedbed, on sequences of all sorts, and what was spent."""
    from seedbed.stats.sequential.betting import Betting
    from seedbed.stats.sequential.exact import ExactMcNemar
    from seedbed.stats.sequential.gsprt import Gsprt, Sprt
    from seedbed.stats.sequential.stopping_rule import StoppingRule

    rng, agreed = np.random.default_rng([seed, 1_000]), [0] * 5
    for number in range(sequences):
        units, level = int(rng.integers(20, 401)), float(ALPHA * 10 ** rng.uniform(-2, 0))
        share, effect = float(rng.uniform(0.05, 0.9)), EFFECT if number % 2 else None
        gain = float(rng.uniform(-1, 1) * min(share, 0.25))
        signs = differing(rng, 1, units, share, gain)
        halves = (signs + differing(rng, 1, units, share, gain)) / 2
        ratio: dict[str, Any] = {"alpha": level, "effect": EFFECT, "at_most": units}
        pairs: list[tuple[rules.Ends, StoppingRule, Any]] = [
            (rules.exact(signs, level, effect=effect), ExactMcNemar(alpha=level, at_most=units, effect=effect), signs),
            (rules.betting(halves, level), Betting(alpha=level, at_most=units), halves),
            (rules.sprt(signs, level, effect=EFFECT, discordance=0.3), Sprt(discordance=0.3, **ratio), signs),
            (rules.gsprt(signs, level, effect=EFFECT), Gsprt(**ratio), signs),
            (rules.gsprt(halves, level, effect=EFFECT, repeats=2), Gsprt(repeats=2, **ratio), halves),
        ]
        for place, (ends, rule, gains) in enumerate(pairs):
            for each in gains[0].tolist():
                if (answer := rule.update(float(each))).verdict != "continue":
                    break
            found = {"superior": ends.better, "inferior": ends.worse, "futile": ends.futile}
            verdict = next((name for name, ended in found.items() if ended[0]), "inconclusive")
            spent = ends.spent[0] if isinstance(ends, rules.ExactEnds) else answer.spent
            same_spent = math.isclose(answer.spent, spent, rel_tol=1e-6, abs_tol=1e-15)
            agreed[place] += (answer.verdict, answer.n) == (verdict, int(ends.units[0])) and same_spent
    names = ("exact", "betting", "SPRT", "GSPRT", "GSPRT of two replicates")
    told = ", ".join(f"{name} {count:,}" for name, count in zip(names, agreed, strict=True))
    print(f"\nagrees with the product, of {sequences:,}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000, help="of each setting (default %(default)s)")
    parser.add_argument("--sequences", type=int, default=500, help="compared with seedbed (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default %(default)s)")
    options = parser.parse_args()
    print_table(options.experiments, options.seed)
    print_agreement(options.sequences, options.seed)


if __name__ == "__main__":
    main()
