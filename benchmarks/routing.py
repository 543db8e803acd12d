"""What routing gains on recorded answers of eleven models, with learning from nothing and with declared skills.

python benchmarks/routing.py --data PATH/routerbench

PATH holds the RouterBench files `*_train.csv` and `*_test.csv`: for every prompt the score and the cost of each model's
answer. A dialogue is one prompt, drawn without replacement; its type is the name of its test. Prices, and skills where
they are declared, are averages of the train files; the router's settings were chosen on the train files; all results
are on the test files. Nothing is asked of any model.
"""

from __future__ import annotations

import argparse
import csv
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np

from seedbed.models.cards import Model
from seedbed.models.routing.request import QualityLevel, RoutingRequest
from seedbed.models.routing.router import Router
from seedbed.settings import Card

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


def best(rows: Sequence[Row], at_most: float) -> str:
    """The model with the best average score among those that cost no more than this."""
    fitting = [model for model in rows[0].scores if average(rows, model)[1] <= at_most]
    return max(fitting, key=lambda model: average(rows, model)[0])


def routed(among: dict[str, Model], quality: QualityLevel = "balanced", learns: bool = True, **limits: float) -> Player:
    def play(rows: Sequence[Row], seed: int) -> Played:
        router = Router(among)
        chosen = []
        for number, row in enumerate(rows):
            name = f"{seed}/{number}"
            request = RoutingRequest(
                task_type=row.kind, prompt_tokens=TOKENS, max_tokens=0, quality=quality, seed=name, **limits
            )
            choice = router.choose(request)
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
        low, high = (end - 1 for end in spans[0])
        print(
            f"| {name} | {values[:, 0].mean():.3f} | {gain - 1:+.1%} | {low:+.1%} to {high:+.1%} "
            f"| {cost:.2f} | {spans[1][0]:.2f} to {spans[1][1]:.2f} |"
        )


def skills(train: Sequence[Row]) -> dict[str, dict[str, float]]:
    kinds = sorted({row.kind for row in train})
    return {model: {kind: round(average(train, model, kind)[0], 2) for kind in kinds} for model in train[0].scores}


def share_of_best(train: Sequence[Row], test: Sequence[Row], seeds: int) -> None:
    """How many choices fall on the model with the highest declared skill."""
    games = dialogues(test, seeds)
    everything = skills(train)
    kinds = {row.kind for row in train}
    top = {kind: max(everything, key=lambda model, kind=kind: everything[model][kind]) for kind in kinds}
    alone = {model: {kind: everything[model][kind] for kind in top if top[kind] == model} for model in top.values()}
    print("\n| declared | quality | learning | to the declared best | 95 % interval |\n|---|---|---|---:|---:|")
    for (what, declared), quality, learns in product(
        (("one model", alone), ("all models", everything)), get_args(QualityLevel), (False, True)
    ):
        player = routed(models(train, declared), quality, learns)
        shares = np.array(
            [
                statistics.fmean(model == top[kind] for kind, model in zip(each.kinds, each.models, strict=True))
                for each in (player(rows, seed) for seed, rows in enumerate(games))
            ]
        )
        low, high = bootstrap(lambda d, s=shares: s[d].mean(1), seeds)
        row = f"| {what} | {quality} | {'yes' if learns else 'no'} | {shares.mean():.1%} | {low:.1%} to {high:.1%} |"
        print(row, flush=True)


def rare_types(train: Sequence[Row], test: Sequence[Row], seeds: int, prompts: int = 400) -> None:
    """What it costs to tell many types of task apart that are the same: prompts get a type by chance."""
    print(f"\n| types, drawn by chance | mean score of {prompts} prompts | 95 % interval |\n|---|---:|---:|")
    play = routed(models(train), "maximum")
    for types in (1, 8, 57):
        means = np.array(
            [
                statistics.fmean(play([replace(row, kind=f"type {rng.randrange(types)}") for row in rows], seed).scores)
                for seed, rows in enumerate(dialogues(test, seeds, prompts))
                for rng in (random.Random(f"types/{seed}"),)
            ]
        )
        low, high = bootstrap(lambda d, m=means: m[d].mean(1), seeds)
        print(f"| {types} | {means.mean():.3f} | {low:.3f} to {high:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the files of RouterBench")
    parser.add_argument("--seeds", type=int, default=500, help="how many times a hundred dialogues are played")
    given = parser.parse_args()
    train, test = read(given.data, "train"), read(given.data, "test")
    mean_cost = statistics.fmean(average(train, model)[1] for model in train[0].scores)
    dearest, dear_enough = best(test, 1.0), best(test, mean_cost)
    print(f"{len(test)} prompts, {len(train[0].scores)} models, {given.seeds} seeds\n")
    report(
        test,
        {
            "uniform choice": blind,
            "naive Thompson": naive_thompson,
            "seedbed, nothing declared": routed(models(train)),
            "the same, `quality: maximum`": routed(models(train), "maximum"),
            "seedbed, skills declared": routed(models(train, skills(train))),
            "the same, `max_cost_usd` as uniform": routed(models(train, skills(train)), max_cost_usd=mean_cost),
            f"always {dearest}, the best": always(dearest),
            f"always {dear_enough}, the best that is not dearer": always(dear_enough),
        },
        given.seeds,
    )
    share_of_best(train, test, min(given.seeds, 50))
    rare_types(train, test, min(given.seeds, 50))


if __name__ == "__main__":
    main()
