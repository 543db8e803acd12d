"""How often intervals hold the truth, and how many live runs replays save.

    python benchmarks/intervals.py [--runs 10000]

Every interval is meant to hold it 95 % of the time. Paired tasks differ with chance 0.3, for the better by 0.1 on
average. Clusters are five tasks of one source, half of whose variance is the source. Replays are right with the stated
chance, else drawn anew: both ways, or always against the candidate. A stopped test looks after every tenth task.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from scipy import stats

from seedbed.stats.adjusted import ppi
from seedbed.stats.estimates import Interval, after_stopping, mean_interval
from seedbed.stats.scores import difference_interval

EFFECT, TERNARY = 0.1, (0.2, 0.1, 0.7)
PAIRED = "better, worse, equal"
Draw = Callable[[np.random.Generator, int], np.ndarray]
POPULATIONS: dict[str, tuple[Draw, float]] = {
    PAIRED: (lambda rng, n: rng.choice([1.0, -1.0, 0.0], n, p=TERNARY), EFFECT),
    "normal": (lambda rng, n: rng.normal(EFFECT, 1, n), EFFECT),
    "skewed (exponential)": (lambda rng, n: rng.exponential(1, n), 1.0),
}


def share(covered: Sequence[bool]) -> str:
    return f"{np.mean(covered):.1%}"


def holds(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def bootstrap(sample: Sequence[float], method: Literal["percentile", "bca"]) -> Interval:
    ends = stats.bootstrap((sample,), np.mean, n_resamples=1_999, method=method, rng=0).confidence_interval
    return Interval(float(np.mean(sample)), ends.low, ends.high, 0.95, len(sample))


def tell(title: str, head: str, rows: Iterator[list[str]]) -> None:
    columns = head.split(" | ")
    print(f"\n{title}\n\n| {head} |\n|---|{'---:|' * (len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def plain(runs: int) -> Iterator[list[str]]:
    for name, (draw, truth) in POPULATIONS.items():
        for n in (20, 50, 100):
            rng = np.random.default_rng(n)
            samples = [draw(rng, n).tolist() for _ in range(runs)]
            cells = [share([holds(mean_interval(sample), truth) for sample in samples])]
            some = samples[: max(1, runs // 4)]
            cells.append(share([holds(bootstrap(sample, "percentile"), truth) for sample in some]))
            bca = [holds(bootstrap(one, "bca"), truth) for one in some if n >= 50]
            cells.append(share(bca) if bca else "refused")
            own = [holds(difference_interval(one), truth) for one in samples if name == PAIRED]
            cells.append(share(own) if own else "")
            yield [name, str(n), *cells]


def clustered(runs: int) -> Iterator[list[str]]:
    for sources in (20, 50, 100):
        rng = np.random.default_rng(sources)
        ids = np.repeat(np.arange(sources), 5).tolist()
        samples = [np.repeat(rng.normal(size=sources), 5) + rng.normal(size=5 * sources) for _ in range(runs)]
        aware = share([holds(mean_interval(sample.tolist(), ids), 0) for sample in samples])
        yield [str(sources), aware, share([holds(mean_interval(sample.tolist()), 0) for sample in samples])]


def replayed(runs: int) -> Iterator[list[str]]:
    for live, others in ((30, 1_000), (60, 1_000), (100, 1_000)):
        for way, wrong in (("both ways", (0.15, 0.15, 0.7)), ("one way", (0.0, 0.3, 0.7))):
            for fidelity in (0.5, 0.7, 0.9, 0.97):
                rng = np.random.default_rng(live)
                together, cheap, widths = [], [], []
                for _ in range(runs):
                    truth = rng.choice([1.0, -1.0, 0.0], live + others, p=TERNARY)
                    anew = rng.choice([1.0, -1.0, 0.0], live + others, p=wrong)
                    seen = np.where(rng.random(live + others) < fidelity, truth, anew)
                    alone = mean_interval(truth[:live].tolist())
                    interval = ppi(truth[:live].tolist(), seen[:live].tolist(), seen[live:].tolist()).interval
                    together.append(holds(interval, EFFECT))
                    cheap.append(holds(mean_interval(seen[live:].tolist()), EFFECT))
                    widths.append((alone.high - alone.low, interval.high - interval.low))
                before, after = np.mean(np.square(widths), axis=0)
                fewer = f"{before / after:.1f} x"
                yield [f"{live} live, {others} replays", way, f"{fidelity:g}", share(together), share(cheap), fewer]


def stopped(runs: int) -> Iterator[list[str]]:
    looks = [math.ceil(n / 2 + math.sqrt(n)) if n % 10 == 0 else None for n in range(1, 201)]
    for effect in (0.0, 0.1, 0.2, 0.3):
        rng = np.random.default_rng(1)
        estimates, means, covered = [], [], []
        for _ in range(runs):
            signs = rng.choice([1, -1], len(looks), p=[(1 + effect) / 2, (1 - effect) / 2])
            wins = np.cumsum(signs > 0)
            ends = (
                n for n, need in enumerate(looks, 1) if need is not None and max(wins[n - 1], n - wins[n - 1]) >= need
            )
            end = next(ends, len(looks))
            interval = after_stopping(signs[:end].tolist(), looks[:end])
            estimates.append(interval.mean)
            means.append(signs[:end].mean())
            covered.append(holds(interval, effect))
        high = [f"{np.mean(np.array(each) > effect):.0%}, {np.mean(each) - effect:+.3f}" for each in (means, estimates)]
        yield [f"{effect:g}", *high, share(covered)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="samples of each sort (default %(default)s)")
    runs = parser.parse_args().runs
    tell(
        "Means",
        "values | tasks | Student's t | bootstrap, percentile | bootstrap, BCa | difference_interval",
        plain(runs),
    )
    tell("Tasks that share a source", "sources | cluster t | t that knows of no sources", clustered(runs))
    head = "tasks | replays err | fidelity | PPI++ | replays alone | fewer live runs"
    tell("Live runs and replays", head, replayed(max(1, runs // 2)))
    head = "difference | mean: too high, bias | after_stopping: too high, bias | interval"
    tell("After a sequential test has stopped", head, stopped(max(1, runs // 4)))


if __name__ == "__main__":
    main()
