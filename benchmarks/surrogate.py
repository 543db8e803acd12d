"""How well the surrogate foretells scores it has not seen, beside always saying the mean.

    python benchmarks/surrogate.py FOLDER [--seen 3] [--splits 10]

FOLDER holds a CSV file for each task, with a row for each paraphrase of a prompt and a column with the accuracy of each
model (tables of real prompts such as those published with "Evaluating the zero-shot robustness of instruction-tuned
language models"). A paraphrase is a playbook, a model is a task to it: its score is its mean over all models. Half of
the paraphrases are known; of each of the others only the accuracy with the first few models, and the rest is foretold.
The words of the prompts are not in the tables, so this measures what past cells tell; the genes tell nothing here.

Skipped are those that beat the best known one with a chance below 5 %; wrongly, if they do. The mean-only peer skips by
the spread of the known scores, which is the same for all.
"""

from __future__ import annotations

import argparse
import csv
import random
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import norm, spearmanr

from seedbed import Playbook
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.surrogate import Surrogate

CHANCE = 0.05
NOTHING = float("nan")
FIGURES = {
    "refused": ".0%",
    "rank correlation": ".2f",
    "error": ".3f",
    "error of the mean": ".3f",
    "95 % interval covers": ".0%",
    "skipped": ".0%",
    "of those wrongly": ".1%",
    "better ones lost": ".0%",
    "mean-only: skipped": ".0%",
    "of those wrongly, mean-only": ".1%",
    "better ones lost, mean-only": ".0%",
}


def table(path: Path) -> dict[str, dict[str, float]]:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    scores = {}
    for row in rows:
        name = row.pop("paraphrase idx")
        scores[name] = {model: float(value) for model, value in row.items() if value}
    return scores


def cells(playbook: Playbook, scores: dict[str, float]) -> list[Cell]:
    return [
        Cell(key=f"{playbook.digest}/{task}", playbook=playbook.digest, task=task, replicate=0, metric="m", value=value)
        for task, value in scores.items()
    ]


def measured(scores: dict[str, dict[str, float]], few: int, seed: int) -> list[float]:
    names = sorted(scores)
    random.Random(seed).shuffle(names)
    playbooks = {name: Playbook.from_document({"roles": {"w": {"system": f"paraphrase {name}"}}}) for name in names}
    known, new = names[: len(names) // 2], names[len(names) // 2 :]
    surrogate = Surrogate.fit(
        [cell for name in known for cell in cells(playbooks[name], scores[name])], [playbooks[name] for name in known]
    )
    truth = {name: float(np.mean([*scores[name].values()])) for name in names}
    best = max(truth[name] for name in known)
    first = sorted({task for row in scores.values() for task in row})[:few]
    own = {name: {task: scores[name][task] for task in first if task in scores[name]} for name in new}
    told = {name: surrogate.predict(playbooks[name], cells(playbooks[name], own[name])) for name in new}
    skipped = [name for name in new if surrogate.hopeless(playbooks[name], best, cells(playbooks[name], own[name]))]
    middle, spread = np.mean([truth[n] for n in known]), np.std([truth[n] for n in known])
    actual = [truth[name] for name in new]
    better = [name for name in new if truth[name] > best]
    lost = [name for name in skipped if name in better]
    blindly = bool(middle + norm.ppf(1 - CHANCE) * spread < best)
    refused = bool(surrogate.quality(own[new[0]]).refusal)
    return [
        refused,
        NOTHING if refused else float(spearmanr([told[name].mean for name in new], actual).statistic),
        NOTHING if refused else float(np.sqrt(np.mean([(told[name].mean - truth[name]) ** 2 for name in new]))),
        float(np.sqrt(np.mean([(middle - truth[name]) ** 2 for name in new]))),
        float(np.mean([told[name].low <= truth[name] <= told[name].high for name in new])),
        len(skipped) / len(new),
        len(lost) / len(skipped) if skipped else NOTHING,
        len(lost) / len(better) if better else NOTHING,
        blindly,
        len(better) / len(new) if blindly else NOTHING,
        blindly if better else NOTHING,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables are")
    parser.add_argument("--seen", type=int, default=3, help="models tried with each candidate (default %(default)s)")
    parser.add_argument("--splits", type=int, default=10, help="halvings of each table (default %(default)s)")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", "Mean of empty slice")
    print(f"| table | {' | '.join(FIGURES)} |\n|---|{'---:|' * len(FIGURES)}")
    every = []
    for path in sorted(given.folder.glob("*.csv")):
        scores = table(path)
        every.append(np.nanmean([measured(scores, given.seen, seed) for seed in range(given.splits)], axis=0))
        print(f"| {path.stem} | {_line(every[-1])} |")
    print(f"| all | {_line(np.nanmean(every, axis=0))} |")


def _line(figures: np.ndarray) -> str:
    told = zip(figures, FIGURES.values(), strict=True)
    return " | ".join("" if np.isnan(figure) else format(figure, form) for figure, form in told)


if __name__ == "__main__":
    main()
