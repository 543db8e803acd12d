"""What routing gains on recorded answers of eleven models, with learning from nothing and with declared skills.

python benchmarks/routing.py --data PATH/routerbench

PATH holds the RouterBench files `*_train.csv` and `*_test.csv`: for every prompt the score and the cost of each model's
answer. A dialogue is one prompt, drawn without replacement; its type is the name of its test. Prices, and skills where
they are declared, are averages of the train files; all results are on the test files. Nothing is asked of any model.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedbed.models.registry import Card, Model
from seedbed.models.routing import Policy, Quality, Router

TOKENS = 1_000
"""What every prompt is taken to have, as the files count money and not tokens."""


@dataclass(frozen=True)
class Row:
    kind: str
    scores: dict[str, float]
    costs: dict[str, float]


@dataclass(frozen=True)
class Played:
    """One hundred dialogues: which model each fell on, its score and its cost."""

    kinds: list[str]
    models: list[str]
    scores: list[float]
    costs: list[float]


Player = Callable[[Sequence[Row], int], Played]


def read(folder: Path, part: str) -> list[Row]:
    """The rows with a score of every model; a few have gaps."""
    csv.field_size_limit(2**31 - 1)
    rows = []
    for path in sorted(folder.glob(f"*_{part}.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                names = [name.removesuffix("|total_cost") for name in line if name.endswith("|total_cost")]
                if all(line[name] for name in names):
                    scores = {name: float(line[name]) for name in names}
                    costs = {name: float(line[f"{name}|total_cost"]) for name in names}
                    rows.append(Row(line["eval_name"], scores, costs))
    if not rows:
        raise SystemExit(f"found no rows in {folder}/*_{part}.csv; expected the files of RouterBench")
    return rows


def average(rows: Sequence[Row], model: str, kind: str | None = None) -> tuple[float, float]:
    chosen = [row for row in rows if kind in (None, row.kind)]
    return statistics.fmean(row.scores[model] for row in chosen), statistics.fmean(row.costs[model] for row in chosen)


def models(train: Sequence[Row], declared: dict[str, dict[str, float]] | None = None) -> dict[str, Model]:
    made = {}
    for model in train[0].scores:
        price = average(train, model)[1] / TOKENS * 1_000_000
        card = Card(use="table", usd_per_million=(price, price), skill=(declared or {}).get(model, {}))
        made[model] = Model(model, card)
    return made


def best(rows: Sequence[Row], kind: str | None, at_most: float) -> str:
    """The model with the best average score among those that cost no more than this."""
    fitting = [model for model in rows[0].scores if average(rows, model, kind)[1] <= at_most]
    return max(fitting, key=lambda model: average(rows, model, kind)[0])


def routed(among: dict[str, Model], policy: Policy, quality: Quality = "balanced", learns: bool = True) -> Player:
    def play(rows: Sequence[Row], seed: int) -> Played:
        router = Router(among, policy)
        chosen = []
        for number, row in enumerate(rows):
            choice = router.choose(
                row.kind, prompt_tokens=TOKENS, max_tokens=1, quality=quality, seed=f"{seed}/{number}"
            )
            chosen.append(choice.model)
            if learns:
                router.learn(row.kind, choice.model, row.scores[choice.model], row.costs[choice.model], None)
        return played(rows, chosen)

    return play


def naive_thompson(rows: Sequence[Row], seed: int) -> Played:
    """Beta(1, 1) for every model and type, quality only."""
    rng = np.random.default_rng(seed)
    names = sorted(rows[0].scores)
    seen: dict[str, np.ndarray] = {}
    chosen = []
    for row in rows:
        counts = seen.setdefault(row.kind, np.ones((2, len(names))))
        place = int(np.argmax(rng.beta(counts[0], counts[1])))
        score = row.scores[names[place]]
        counts[:, place] += (score, 1 - score)
        chosen.append(names[place])
    return played(rows, chosen)


def blind(rows: Sequence[Row], seed: int) -> Played:
    rng = random.Random(seed)
    return played(rows, [rng.choice(sorted(row.scores)) for row in rows])


def always(model: str) -> Player:
    return lambda rows, seed: played(rows, [model] * len(rows))


def played(rows: Sequence[Row], chosen: list[str]) -> Played:
    pairs = list(zip(rows, chosen, strict=True))
    return Played(
        [row.kind for row in rows],
        chosen,
        [row.scores[model] for row, model in pairs],
        [row.costs[model] for row, model in pairs],
    )


def dialogues(rows: Sequence[Row], seeds: int, count: int = 100) -> list[list[Row]]:
    return [random.Random(f"dialogues/{seed}").sample(list(rows), count) for seed in range(seeds)]


def bootstrap(values: Callable[[np.ndarray], np.ndarray], seeds: int) -> tuple[float, float]:
    """A 95 % interval over seeds: `values` gives the statistic of many draws of seeds at once."""
    draws = np.random.default_rng(0).integers(0, seeds, (10_000, seeds))
    low, high = np.percentile(values(draws), [2.5, 97.5])
    return float(low), float(high)


def report(test: Sequence[Row], players: dict[str, Player], seeds: int) -> None:
    games = dialogues(test, seeds)
    half = {
        name: np.array(
            [
                [statistics.fmean(each[50:]) for each in (result.scores, result.costs)]
                for result in (player(rows, seed) for seed, rows in enumerate(games))
            ]
        )
        for name, player in players.items()
    }
    base = half["uniform choice"]
    print(
        "| dialogues 51 to 100 | mean score | better than uniform | 95 % interval | cost over uniform | 95 % interval |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, values in half.items():
        gain, cost = (values[:, column].mean() / base[:, column].mean() for column in (0, 1))
        spans = [
            bootstrap(lambda d, c=column, v=values: v[d, c].mean(1) / base[d, c].mean(1), seeds) for column in (0, 1)
        ]
        print(
            f"| {name} | {values[:, 0].mean():.3f} | {gain - 1:+.1%} | {spans[0][0] - 1:+.1%} to {spans[0][1] - 1:+.1%} "
            f"| {cost:.2f} | {spans[1][0]:.2f} to {spans[1][1]:.2f} |"
        )


def share_of_best(train: Sequence[Row], test: Sequence[Row], seeds: int, policy: Policy) -> None:
    """How many choices fall on the declared best."""
    games = dialogues(test, seeds)
    kinds = sorted({row.kind for row in train})
    everything = {
        model: {kind: round(average(train, model, kind)[0], 2) for kind in kinds} for model in train[0].scores
    }
    cheap = statistics.fmean(average(train, model)[1] for model in train[0].scores)
    print("\n| declared | quality | learning | to the declared best | 95 % interval |\n|---|---|---|---:|---:|")
    for quality, limit in (("balanced", cheap), ("maximum", 1.0)):
        top = {kind: best(train, kind, limit) for kind in kinds}
        one: dict[str, dict[str, float]] = {}
        for kind, model in top.items():
            one.setdefault(model, {})[kind] = everything[model][kind]
        for what, declared in (("the best only", one), ("all models", everything)):
            for learns in (False, True):
                player = routed(models(train, declared), policy, quality, learns)
                shares = np.array(
                    [
                        statistics.fmean(
                            model == top[kind] for kind, model in zip(each.kinds, each.models, strict=True)
                        )
                        for each in (player(rows, seed) for seed, rows in enumerate(games))
                    ]
                )
                low, high = bootstrap(lambda d, s=shares: s[d].mean(1), seeds)
                learning = "yes" if learns else "no"
                print(
                    f"| {what} | {quality} | {learning} | {shares.mean():.1%} | {low:.1%} to {high:.1%} |", flush=True
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the files of RouterBench")
    parser.add_argument("--seeds", type=int, default=100, help="how many times a hundred dialogues are played")
    given = parser.parse_args()
    train, test = read(given.data, "train"), read(given.data, "test")
    kinds = sorted({row.kind for row in train})
    skills = {model: {kind: round(average(train, model, kind)[0], 2) for kind in kinds} for model in train[0].scores}
    mean_cost = statistics.fmean(average(train, model)[1] for model in train[0].scores)
    policy = Policy()
    print(f"{len(test)} prompts of {len(kinds)} types, {len(train[0].scores)} models, {given.seeds} seeds\n")
    report(
        test,
        {
            "uniform choice": blind,
            "naive Thompson": naive_thompson,
            "seedbed, nothing declared": routed(models(train), policy),
            "seedbed, nothing declared, no learning": routed(models(train), policy, learns=False),
            "seedbed, skills declared": routed(models(train, skills), policy),
            "seedbed, nothing declared, `quality: maximum`": routed(models(train), policy, "maximum"),
            f"always {best(test, None, 1.0)}, the best": always(best(test, None, 1.0)),
            f"always {best(test, None, mean_cost)}, the best at no higher cost": always(best(test, None, mean_cost)),
        },
        given.seeds,
    )
    share_of_best(train, test, given.seeds, policy)


if __name__ == "__main__":
    main()
