"""How often a tag that got worse is found after a superior verdict, how often one is found that did not, and how many
tasks that takes, as a table.

    python benchmarks/slices.py [--experiments 10000] [--tags 27] [--tasks 240] [--discordance 0.3] [--margin 0.1]

Scores are 0 or 1. No tag, one tag or six are worse, all others are equal or better by 0.05. Each tag is read until it
ends: "worse" by an exact sequential sign test at 0.05 over the number of tags, "not worse" by a bet against "worse by
the margin", or with its last task; then Benjamini and Hochberg's procedure at 0.10 over the p-values of all tags.
Nothing here is the code of seedbed: boundaries, bets and p-values are computed again.

"found" is the share of the worse tags that are found; "any false" the share of experiments in which a tag is found that
is not worse, and "false of found" the mean share of such tags among those found, which the procedure keeps below 0.10;
"each at 0.05" is "any false" without a correction: every tag read to its end and tested by itself.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
FALSE, SURE = 0.10, 0.05
CHUNK = 20_000


@dataclass(frozen=True)
class Setting:
    """What all tags share."""

    tags: int
    tasks: int
    discordance: float
    margin: float


@dataclass(frozen=True)
class Tags:
    """How the test of each of many tags ended: its p-value, how many tasks it read, and the p-value of one look."""

    p: Floats
    read: Rows
    once: Floats

    def part(self, first: int, count: int) -> Tags:
        end = first + count
        return Tags(self.p[first:end], self.read[first:end], self.once[first:end])


def simulate(setting: Setting, gain: float, count: int, seed: int) -> Tags:
    """Many independent tags on which the candidate is better by `gain`."""
    rng = np.random.default_rng(seed)
    parts = [
        read_tags(setting, draw(setting, gain, min(CHUNK, count - first), rng)) for first in range(0, count, CHUNK)
    ]
    return Tags(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("p", "read", "once")))


def draw(setting: Setting, gain: float, count: int, rng: np.random.Generator) -> Rows:
    """The gains on the tasks of so many tags: 1, 0 or -1."""
    luck, share = rng.random((count, setting.tasks)), setting.discordance
    signs: Rows = (luck < (share + gain) / 2).astype(np.int64) - (luck > 1 - (share - gain) / 2)
    return signs


def read_tags(setting: Setting, signs: Rows) -> Tags:
    """Read each tag until its test ends."""
    count, n = signs.shape
    losses = (signs < 0).sum(axis=1)
    once = stats.binom.sf(losses - 1, (signs != 0).sum(axis=1), 0.5)
    p, read = np.ones(count), np.full(count, n)
    # One row for each tag that goes on: the chance of each number of losses, had they been fair coins.
    alive, rate = np.arange(count), SURE / setting.tags
    chances, spent = np.zeros((count, n + 1)), np.zeros(count)
    chances[:, 0] = 1.0
    lost, differed = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    shares = np.geomspace(1e-4, 0.9, 30)
    weights = shares**0.75 / (shares**0.75).sum()
    # A gain of 1, 0 or -1 multiplies the money on a bet of this share that the mean is above -margin.
    factors = np.array([1 + shares * ((sign + 1) / (1 - setting.margin) - 1) for sign in (-1, 0, 1)])
    money = np.tile(weights, (count, 1))
    for look in range(1, n + 1):
        now = signs[alive, look - 1]
        money *= factors[now + 1]
        differs = now != 0
        lost, differed = lost + (now < 0), differed + differs
        width = int(differed.max()) + 1
        half = chances[differs, :width] / 2
        chances[differs, :width] = half
        chances[differs, 1:width] += half[:, :-1]
        # What may be spent by now goes to the largest numbers of losses.
        may = rate * (look / n) ** 1.5
        tail = spent[:, None] + np.cumsum(chances[:, width - 1 :: -1], axis=1)
        ended = (tail <= may).sum(axis=1)
        needed = width - ended
        at = np.minimum(width - 1 - np.minimum(lost, width - 1), width - 1)
        chance = tail[np.arange(len(alive)), at]
        worse = lost >= needed
        fine = ~worse & ((differed - lost >= needed) | (money.sum(axis=1) >= 1 / SURE))
        over = worse | fine | (look == n)
        p[alive[over & ~fine]] = chance[over & ~fine]
        read[alive[over]] = look
        spent = np.where(ended > 0, tail[np.arange(len(alive)), np.maximum(ended - 1, 0)], spent)
        chances[np.arange(chances.shape[1]) >= needed[:, None]] = 0
        stays = ~over
        alive, lost, differed, spent = alive[stays], lost[stays], differed[stays], spent[stays]
        chances, money = chances[stays], money[stays]
        if not len(alive):
            break
    return Tags(p, read, once)


def rejected(p: Floats) -> NDArray[np.bool_]:
    """Benjamini and Hochberg's procedure in each row."""
    order = np.sort(p, axis=1)
    passes = order <= FALSE * np.arange(1, p.shape[1] + 1) / p.shape[1]
    most = np.where(passes.any(axis=1), p.shape[1] - passes[:, ::-1].argmax(axis=1), 0)
    bound = np.where(most > 0, order[np.arange(len(p)), np.maximum(most - 1, 0)], -1.0)
    found: NDArray[np.bool_] = p <= bound[:, None]
    return found


def rate(hits: NDArray[np.bool_]) -> str:
    low, high = stats.binomtest(int(hits.sum()), len(hits)).proportion_ci(method="exact")
    return f"{hits.mean():.3f} [{low:.3f}, {high:.3f}]"


def table(setting: Setting, experiments: int) -> None:
    print("| worse tags | by | others | found | any false | false of found | each at 0.05 | tasks run |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for other in (0.0, 0.05):
        rest = simulate(setting, other, experiments * setting.tags, seed=1)
        row(setting, rest, rest, 0, f"– | {other:+.2f}")
        for gain in (-0.15, -0.10, -0.05):
            worst = simulate(setting, gain, experiments * 6, seed=2)
            for count in (1, 6):
                row(setting, rest, worst, count, f"{gain:+.2f} | {other:+.2f}")


def row(setting: Setting, rest: Tags, worst: Tags, worse: int, what: str) -> None:
    """A line for so many worse tags among others."""
    experiments = len(rest.p) // setting.tags

    def joined(name: str) -> Floats:
        every: Floats = getattr(rest, name).reshape(experiments, -1).copy()
        if worse:
            every[:, :worse] = getattr(worst, name).reshape(experiments, -1)[:, :worse]
        return every

    found = rejected(joined("p"))
    wrong = found[:, worse:].sum(axis=1)
    share = (wrong / np.maximum(found.sum(axis=1), 1)).mean()
    power = rate(found[:, :worse].ravel()) if worse else "–"
    alone = (joined("once")[:, worse:] <= SURE).any(axis=1).mean()
    tasks = joined("read").sum(axis=1).mean()
    run = f"{tasks:,.0f} ({tasks / (setting.tags * setting.tasks):.0%})"
    print(f"| {worse} | {what} | {power} | {rate(wrong > 0)} | {share:.3f} | {alone:.2f} | {run} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=10_000)
    parser.add_argument("--tags", type=int, default=27)
    parser.add_argument("--tasks", type=int, default=240)
    parser.add_argument("--discordance", type=float, default=0.3)
    parser.add_argument("--margin", type=float, default=0.1)
    chosen = parser.parse_args()
    table(Setting(chosen.tags, chosen.tasks, chosen.discordance, chosen.margin), chosen.experiments)


if __name__ == "__main__":
    main()
