"""seedbed beside GEPA and best-of-N, where the truth is known; and whether the gain that seedbed reports is true.

    python benchmarks/evolution.py [--seeds 60] [--first 0] [--setting usual] [--budget 1500]

Every seed is another world of `simulator.py`, which says why it is as it is. All arms search in the same worlds, from
the same start, with the same tasks (60 to read, 60 that decide), the same evaluator, the same reflector and the same
number of runs; calls of the reflector are free for all, and counted. seedbed searches by its default, and once more by
the one optimizer in it that is told what failed. GEPA is its own package with its defaults, and
once more with merging, its cache and eight tasks to reflect on. Best-of-N asks the reflector up to three times in a row
about what the start fails, as often as the budget allows, and learns nothing from the scores.

What counts is the true score of what an arm believes to be best after 25, 50 and 100 % of the runs. GEPA checks its
budget between iterations only: what it finds beyond it does not count, and the runs it took are told. seedbed confirms
what it has found on 240 tasks that come on top: its reported gain, less the true one, is its bias.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import gepa
import numpy as np
from gepa.core.adapter import EvaluationBatch
from simulator import GENES, SETTINGS, Evaluator, Setting, Texts, World

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import SearchProgress, evolve
from seedbed.evolution.learning.lessons import PoorCase
from seedbed.evolution.optimizers.reflection import Reflection
from seedbed.evolution.optimizers.registry import SearchInputs
from seedbed.evolution.optimizers.registry import make_optimizer as named
from seedbed.evolution.plan import Plan
from seedbed.playbooks.genes import Gene, genes
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.stats.estimates import mean_interval
from seedbed.storage import open_store

READ, DECIDE, CONFIRM = range(60), range(60, 120), range(120, 360)
SHARES = (0.25, 0.5, 1.0)


@dataclass
class Outcome:
    """What an arm believed to be best, by how many runs it had taken until then, and what it took in all."""

    world: World
    best: list[tuple[int, float]] = field(default_factory=list)
    runs: int = 0
    proposals: int = 0
    reported: float = 0.0
    seconds: float = 0.0

    def found(self, runs: int, texts: Texts) -> None:
        self.best.append((runs, self.world.truth(texts)))

    def at(self, runs: float) -> float:
        """The true score of the best after so many runs: that of the start, if nothing was found until then."""
        return [self.world.truth(self.world.start), *(score for at, score in self.best if at <= runs)][-1]


# seedbed


def by_seedbed(world: World, budget: int, *, alone: bool = False) -> Outcome:
    """The portfolio that `seedbed evolve` searches by, with the reflector of the world in place of a model; or its
    reflection alone."""
    outcome, evaluator = Outcome(world), Evaluator(world)
    start = _playbook(world.start)

    def propose(
        parent: Playbook, gene: Gene, poor: Sequence[PoorCase], lessons: object, chance: np.random.Generator
    ) -> list[str]:
        outcome.proposals += 1
        return [world.reflect(gene.value, gene.path, [int(each.task.id) for each in poor], chance)]

    def watch(told: SearchProgress) -> None:
        if told.account.runs <= budget:
            outcome.found(told.account.runs, _texts(told.pool.playbooks[told.best]))

    optimizer = Reflection(propose=propose) if alone else named("portfolio", SearchInputs(start, reflector=propose))
    plan = Plan(
        start=start,
        optimizer=optimizer,
        reflect=_dataset(READ),
        select=_dataset(DECIDE),
        confirm=_dataset(CONFIRM),
        budget=Budget(runs=budget + 3 * len(CONFIRM)),
        seed=world.seed,
    )
    with tempfile.TemporaryDirectory() as folder, closing(open_store(f"sqlite:///{folder}/store.db")) as store:
        arena = FunctionEvaluator(
            lambda each, task, replicate: evaluator(_texts(each), int(task.id), replicate), store, "me"
        )
        evolution = asyncio.run(evolve(plan, arena, Library(store, "me"), because="benchmark", on_event=watch))
    best = evolution.pool.playbooks[evolution.pool.place(evolution.best)]
    outcome.found(budget, _texts(best))
    confirmed = evolution.confirmed
    outcome.reported = confirmed.gain.mean if confirmed else 0.0
    opened = (2 + (confirmed.best_of_n is not None)) * len(CONFIRM) if confirmed else 0
    outcome.runs = evaluator.runs - opened
    return outcome


def by_reflection(world: World, budget: int) -> Outcome:
    return by_seedbed(world, budget, alone=True)


def _playbook(texts: Texts) -> Playbook:
    roles = {name: {"model": "m", "system": texts[f"roles.{name}.system"]} for name in ("solver", "checker")}
    steps = [
        {"name": name, "role": role, "prompt": "{task}"} for name, role in (("solve", "solver"), ("check", "checker"))
    ]
    made = Playbook.from_document({"roles": roles, "steps": steps})
    others = [path for path in genes(made) if path not in GENES]
    return Playbook.from_document({"roles": roles, "steps": steps, "locked": others})


def _texts(playbook: Playbook) -> dict[str, str]:
    return {gene: playbook.roles[gene.split(".")[1]].system for gene in GENES}


def _dataset(tasks: Sequence[int]) -> Dataset:
    return Dataset(tuple(Task(str(task), {"task": f"Task {task}"}, "done") for task in tasks))


# GEPA


class Adapter:
    """The world as GEPA sees it. Who is asked about the same texts and task again, answers anew."""

    propose_new_texts = None

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._asked: Counter[tuple[str, ...]] = Counter()

    def evaluate(self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        scores = [self._score(candidate, task) for task in batch]
        return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=list(batch) if capture_traces else None)

    def _score(self, candidate: Texts, task: int) -> float:
        named = (*(candidate[gene] for gene in GENES), str(task))
        self._asked[named] += 1
        return self._evaluator(candidate, task, self._asked[named] - 1)

    def make_reflective_dataset(self, candidate: Texts, batch: Any, components: list[str]) -> dict[str, list[Any]]:
        records = [{"task": task, "score": score} for task, score in zip(batch.trajectories, batch.scores, strict=True)]
        return dict.fromkeys(components, records)


class Silent:
    def log(self, message: str) -> None: ...


def by_gepa(world: World, budget: int, **options: Any) -> Outcome:
    outcome, evaluator = Outcome(world), Evaluator(world)
    chance = np.random.default_rng(world.seed)
    most = -1.0

    def propose(candidate: Texts, shown: Mapping[str, Sequence[Any]], components: list[str]) -> dict[str, str]:
        outcome.proposals += 1
        return {
            gene: world.reflect(
                candidate[gene], gene, [each["task"] for each in shown[gene] if each["score"] < 1], chance
            )
            for gene in components
        }

    class Watching:
        def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
            nonlocal most
            if event["average_score"] > most:
                most = event["average_score"]
                outcome.found(evaluator.runs, event["candidate"])

    gepa.optimize(
        seed_candidate=dict(world.start),
        trainset=list(READ),
        valset=list(DECIDE),
        adapter=Adapter(evaluator),
        custom_candidate_proposer=propose,
        max_metric_calls=budget,
        callbacks=[Watching()],
        logger=Silent(),
        seed=world.seed,
        **options,
    )
    outcome.runs = evaluator.runs
    return outcome


def by_gepa_tuned(world: World, budget: int) -> Outcome:
    return by_gepa(world, budget, use_merge=True, cache_evaluation=True, reflection_minibatch_size=8)


# Best of N


def by_best_of_n(world: World, budget: int) -> Outcome:
    outcome, evaluator = Outcome(world), Evaluator(world)
    chance = np.random.default_rng(world.seed)
    failed = [task for task in READ if not evaluator(world.start, task)]
    most = float(np.mean([evaluator(world.start, task) for task in DECIDE]))
    while evaluator.runs + len(DECIDE) <= budget:
        texts = dict(world.start)
        for _ in range(chance.integers(1, 4)):
            gene = GENES[chance.integers(len(GENES))]
            some = chance.choice(failed, min(3, len(failed)), replace=False)
            texts[gene] = world.reflect(texts[gene], gene, some.tolist(), chance)
            outcome.proposals += 1
        score = float(np.mean([evaluator(texts, task) for task in DECIDE]))
        if score > most:
            most = score
            outcome.found(evaluator.runs, texts)
    outcome.runs = evaluator.runs
    return outcome


ARMS: dict[str, Callable[[World, int], Outcome]] = {
    "seedbed": by_seedbed,
    "seedbed, reflection alone": by_reflection,
    "GEPA": by_gepa,
    "GEPA, merging, cache, 8 tasks": by_gepa_tuned,
    "best of N": by_best_of_n,
}


# The report


@dataclass(frozen=True)
class Row:
    """One world: the scores of the start and of a perfect playbook, and for each arm what it came to."""

    seed: int
    start: float
    perfect: float
    scores: Mapping[str, tuple[float, ...]]
    runs: Mapping[str, int]
    proposals: Mapping[str, int]
    seconds: Mapping[str, float]
    bias: float


def measured(job: tuple[int, Setting, int]) -> Row:
    seed, setting, budget = job
    world = World(seed, setting, max(CONFIRM) + 1)
    outcomes: dict[str, Outcome] = {}
    for name, arm in ARMS.items():
        began = time.process_time()
        outcomes[name] = arm(world, budget)
        outcomes[name].seconds = time.process_time() - began
    start, ours = world.truth(world.start), outcomes["seedbed"]
    return Row(
        seed,
        start,
        world.perfect,
        {name: tuple(each.at(share * budget) for share in SHARES) for name, each in outcomes.items()},
        {name: each.runs for name, each in outcomes.items()},
        {name: each.proposals for name, each in outcomes.items()},
        {name: each.seconds for name, each in outcomes.items()},
        ours.reported - (ours.at(budget) - start),
    )


def report(setting: Setting, rows: Sequence[Row]) -> None:
    told = f"the reflector reveals {setting.reveals:.0%}, {setting.harms:.0%} of its guesses harm"
    start, perfect = (np.mean([getattr(row, name) for row in rows]) for name in ("start", "perfect"))
    print(f"\n### {setting.name}: {told}; {len(rows)} seeds\n")
    print(f"True score of the start {100 * start:.1f}, of a perfect playbook {100 * perfect:.1f}.\n")
    heads = " | ".join(f"after {share:.0%}" for share in SHARES)
    print(f"| arm | {heads} | runs | proposals | CPU s |\n|---|{'---:|' * (len(SHARES) + 3)}")
    for name in ARMS:
        scores = 100 * np.mean([row.scores[name] for row in rows], axis=0)
        runs, calls, seconds = (np.mean([each[name] for each in what]) for what in _columns(rows))
        line = " | ".join(f"{score:.1f}" for score in scores)
        print(f"| {name} | {line} | {runs:,.0f} | {calls:,.0f} | {seconds:.2f} |")
    print(f"\n| seedbed is better by (95 %) | {heads} |\n|---|{'---:|' * len(SHARES)}")
    for name in list(ARMS)[1:]:
        apart = 100 * np.array([np.subtract(row.scores["seedbed"], row.scores[name]) for row in rows])
        print(f"| than {name} | {' | '.join(_interval(column) for column in apart.T)} |")
    print(f"\nReported gain less true gain: {_interval([100 * row.bias for row in rows])} points.", flush=True)


def _columns(rows: Sequence[Row]) -> Iterator[list[Mapping[str, float]]]:
    for name in ("runs", "proposals", "seconds"):
        yield [getattr(row, name) for row in rows]


def _interval(values: Sequence[float], worlds: Sequence[int] | None = None) -> str:
    """Settings share their worlds, and the tasks that confirm: those of one world are no two observations."""
    found = mean_interval(list(values), list(worlds or range(len(values))))
    return f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60, help="worlds for each setting (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them; from 1000 on they are for trying out")
    parser.add_argument("--setting", choices=[each.name for each in SETTINGS], help="one of them only")
    parser.add_argument("--budget", type=int, default=1_500, help="runs of each arm (default %(default)s)")
    given = parser.parse_args()
    print(f"seedbed beside GEPA {_version()}, {given.budget:,} runs each")
    with multiprocessing.Pool(2) as crew:
        every = []
        for setting in SETTINGS:
            if given.setting in (None, setting.name):
                jobs = [(seed, setting, given.budget) for seed in range(given.first, given.first + given.seeds)]
                rows = crew.map(measured, jobs, chunksize=1)
                every += rows
                report(setting, rows)
    bias = _interval([100 * row.bias for row in every], [row.seed for row in every])
    print(f"\nOver all settings, reported gain less true gain: {bias} points.")


def _version() -> str:
    from importlib.metadata import version

    return version("gepa")


if __name__ == "__main__":
    main()
