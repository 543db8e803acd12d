"""What `compare` itself keeps and costs: false winners with many workers at once, and the time of each update.

    python benchmarks/comparisons.py [--experiments 2000] [--workers 100]

A playbook is compared with one that is no better, by the real runner on a real store in memory. Results that are right
come sooner than those that are wrong, so whoever reads them as they come sees a lucky stretch first. Beside it: the
same results read as they come, which is what a runner does that nobody warned.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time

from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import Score
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.options import Comparing
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.stats.estimates import exact_rate
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import now

TASKS = 100
OLD, NEW = (Playbook.from_document({"roles": {"w": {"model": "m", "system": word}}}) for word in ("old", "new"))


class Luck:
    """Right or wrong by chance, the same chance for both playbooks, whatever the task."""

    name = "luck"
    binary = True

    def __init__(self, discordance: float, seed: int) -> None:
        self.identity = {"metric": "luck", "version": 1}
        self._discordance = discordance
        self._seed = seed

    def right(self, playbook: str, task: str) -> bool:
        chance = random.Random(f"{self._seed} {task}").random()
        if chance < self._discordance / 2:
            return playbook == OLD.digest
        if chance < self._discordance:
            return playbook == NEW.digest
        return chance < (1 + self._discordance) / 2

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(float(run.output == "right"))


async def experiment(number: int, discordance: float, workers: int) -> tuple[str, str]:
    """What the runner finds, and what whoever reads the same results as they come would have found."""
    luck, finished = Luck(discordance, number), list[str]()
    tasks = Dataset(tuple(Task(f"t{n}", {"n": n, "experiment": number}) for n in range(TASKS)))
    done: dict[str, int] = {}

    async def perform(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        # The candidate is quick when it is right and slow when it is wrong.
        right = luck.right(playbook.digest, task.id)
        slow = playbook is NEW and not right
        for _ in range(60 if slow else 2):
            await asyncio.sleep(0)
        done[task.id] = done.get(task.id, 0) + 1
        if done[task.id] == 2:
            finished.append(task.id)
        said = {"inputs": {}, "models": {}, "turns": (), "output": "right" if right else "wrong", "error": ""}
        took = {"started": now(), "status": "completed", "tokens": 0, "cost_usd": 0.0, "latency_seconds": 0.0}
        return Run(id=run, playbook=playbook.digest, seed=seed, **said, **took)  # type: ignore[arg-type]

    bench = EvaluationContext(MemoryStore(), perform, lambda _: {}, "bench", 2 * workers)
    verdict = await run_experiment(OLD, NEW, tasks, luck, bench, Comparing(seed=number))
    naive = ExactMcNemar(at_most=TASKS)
    for name in finished:
        difference = luck.right(NEW.digest, name) - luck.right(OLD.digest, name)
        if naive.update(difference).verdict != "continue":
            break
    return verdict.finding, naive.answer.verdict


async def false_winners(experiments: int, workers: int) -> None:
    print(
        f"| scores differ on | registered order, {workers} workers | as they come | experiments |\n|---|---:|---:|---:|"
    )
    for discordance in (0.1, 0.3, 0.5):
        found = [await experiment(number, discordance, workers) for number in range(experiments)]
        rates = [exact_rate(sum(each[way] == "superior" for each in found), experiments) for way in (0, 1)]
        told = [f"{rate.mean:.4f} [{rate.low:.4f}, {rate.high:.4f}]" for rate in rates]
        print(f"| {discordance:.0%} | {' | '.join(told)} | {experiments:,} |", flush=True)


def updates(tasks: int) -> None:
    rule, chance = ExactMcNemar(at_most=tasks), random.Random(0)
    took = []
    for _ in range(tasks):
        difference = chance.choice((-1.0, 0.0, 0.0, 0.0, 1.0))
        began = time.perf_counter()
        answer = rule.update(difference)
        took.append(time.perf_counter() - began)
        if answer.verdict != "continue":
            break
    last = took[-1000:]
    middle, most = statistics.median(last) * 1e6, max(last) * 1e6
    print(f"\nAn update after {len(took):,} tasks takes {middle:.0f} µs, at most {most:,.0f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=100)
    given = parser.parse_args()
    asyncio.run(false_winners(given.experiments, given.workers))
    updates(10_000)


if __name__ == "__main__":
    main()
