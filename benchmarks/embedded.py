"""Optimisers side by side on a real model: the embedded one, with the same tasks, the same ways to vary a playbook and
the same number of rollouts for all of them.

    python benchmarks/embedded.py [--seeds 3] [--first 0] [--budget 150] [--results embedded.jsonl] [--only FAMILY]

Needs `seedbed[local]` with its weights, `gepa` and `dspy` in one environment. The tasks are those of
`embedded_tasks.py`: 60 to read, 60 that decide, 120 that test what an arm has found, once, outside its budget. A
rollout is one answer of the model; each arm pays for each pair of a candidate and a task once, as if nobody had asked
before. An instruction can be replaced by one of a bank or edited by sentences; examples can be drawn, replaced and
ordered; the cue at the end of a prompt can change, and so can the template, plain text or chat. All arms but DSPy vary
by the same operators; DSPy chooses examples only, and shows them in the same form.

- start: the playbook as somebody drafts it.
- random search: variations of the start, each on all that decide.
- best of N: the bank, with and without examples, then variations of the start, by successive halving.
- GEPA: its package with its defaults, and the operators as its proposer.
- DSPy: BootstrapFewShotWithRandomSearch with up to eight examples, one candidate after another.
- seedbed: the portfolio that `seedbed evolve` searches by.

GEPA and DSPy try a candidate on all that decide, whatever is left of the budget. What they find beyond it does not
count for them; rows of their own say what would be if it did.

Results are written line by line: begun again, it goes on where it was. Answers are remembered beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from embedded_model import PLACE, Remembered
from embedded_tasks import FAMILIES, Family
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from seedbed import Workspace
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import FunctionMetric
from seedbed.evolution.allocation import Allocation, Halving, Uniform
from seedbed.evolution.evaluators import RunEvaluator
from seedbed.evolution.evolve import evolve
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.registry import SearchInputs, make_optimizer
from seedbed.evolution.plan import Plan
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Operator, Optimizer, Search
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.workspace.execution import Execution

SYSTEM, PROMPT, TEMPLATE, DEMOS = GENES = (
    "roles.worker.system",
    "steps.answer.prompt",
    "roles.worker.model",
    "demos.answer",
)
SHOTS = 4
AT_ONCE = 2
"""Answers at a time: with more, the same examples are read again for each."""
TRIES = 20
MOST_ITERATIONS = 500


class Ways(SearchInputs):
    """The bank is for the instruction. Of the prompt only its cue changes."""

    def candidates(self) -> list[Playbook]:
        return SearchInputs(
            self.start, instructions=self.instructions, gene=SYSTEM, tasks=self.tasks, demos=self.demos, seed=self.seed
        ).candidates()

    def operators(self) -> list[Operator]:
        found = super().operators()
        return [each for each in found if PROMPT not in each.name or "cue" in each.name]


@dataclass
class World:
    """The tasks of a family and a seed, the model, and what can be varied."""

    family: Family
    seed: int
    budget: int
    tasks: dict[str, Dataset] = field(init=False)
    pool: ThreadPoolExecutor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.tasks = self.family.tasks(self.seed)
        self.pool = ThreadPoolExecutor(AT_ONCE)

    @cached_property
    def start(self) -> Playbook:
        return self.family.start

    @cached_property
    def means(self) -> Ways:
        given = {"instructions": self.family.bank, "tasks": self.tasks["train"].tasks, "models": tuple(MODELS)}
        return Ways(self.start, demos=SHOTS, seed=self.seed, **given)

    def answer(self, playbook: Playbook, task: Task) -> str:
        role = playbook.roles["worker"]
        chat = MODELS[str(role.model)]
        return str(chat.invoke(spoken(playbook, task), max_tokens=role.max_tokens, stop=list(role.stop)).text)

    def scores(self, playbook: Playbook, tasks: Sequence[Task]) -> list[float]:
        answers = self.pool.map(lambda task: self.answer(playbook, task), tasks)
        return [
            float(self.family.is_right(text, str(task.expected))) for text, task in zip(answers, tasks, strict=True)
        ]


MODELS = {template: Remembered(template=template) for template in ("raw", "chat")}  # type: ignore[arg-type]


def spoken(playbook: Playbook, task: Task) -> list[BaseMessage]:
    """What the model is told: as the dialogue of seedbed tells it."""
    prompt = playbook.steps[0].prompt  # type: ignore[union-attr]
    messages: list[BaseMessage] = [SystemMessage(playbook.roles["worker"].system)]
    for demo in playbook.demos.get("answer", ()):
        messages += [HumanMessage(prompt.replace("{text}", demo.inputs["text"])), AIMessage(demo.output)]
    return [*messages, HumanMessage(prompt.replace("{text}", task.inputs["text"]))]


@dataclass
class Spent:
    """The rollouts of an arm: each pair of a candidate and a task once."""

    world: World
    pairs: set[tuple[str, str]] = field(default_factory=set)

    def scores(self, playbook: Playbook, tasks: Sequence[Task]) -> list[float]:
        self.pairs |= {(playbook.digest, task.id) for task in tasks}
        return self.world.scores(playbook, tasks)

    @property
    def rollouts(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class Outcome:
    """What an arm has found, its score on the tasks that decided, and what it took."""

    found: Playbook
    dev: float
    rollouts: int
    tried: int


# Arms


def by_start(world: World) -> dict[str, Outcome]:
    scores = world.scores(world.start, world.tasks["dev"].tasks)
    return {"start": Outcome(world.start, float(np.mean(scores)), 0, 0)}


def by_random_search(world: World) -> dict[str, Outcome]:
    chosen = BestOf(operators=world.means.operators(), brood=1)
    return {"random search": searched(world, chosen, Uniform())}


def by_best_of_n(world: World) -> dict[str, Outcome]:
    chosen = BestOf(world.means.candidates(), operators=world.means.operators())
    return {"best of N": searched(world, chosen, Halving())}


def by_seedbed(world: World) -> dict[str, Outcome]:
    return {"seedbed": searched(world, make_optimizer("portfolio", world.means))}


def searched(world: World, chosen: Optimizer, allocation: Allocation | None = None) -> Outcome:
    """What a search finds; by the default allocation, if none is given."""
    is_right = world.family.is_right
    metric = FunctionMetric(lambda run, task: is_right(str(run.output), task.expected), "right", version=1, binary=True)
    models = {name: {"use": "embedded_model.Remembered", "args": {"template": name}} for name in MODELS}
    models = {name: {**card, "usd_per_million": [0, 0], "timeout_seconds": 3600} for name, card in models.items()}
    plan = Plan(
        start=world.start,
        reflect=world.tasks["train"],
        select=world.tasks["dev"],
        optimizer=chosen,
        budget=Budget(runs=world.budget),
        seed=world.seed,
        **({"allocation": allocation} if allocation else {}),  # type: ignore[arg-type]
    )
    space = Workspace(Settings(by="bench", models=models), MemoryStore())
    arena = RunEvaluator(replace(Execution(space.resources).context("loop"), at_once=AT_ONCE), [metric])
    found = asyncio.run(evolve(plan, arena, space.resources.library, because="benchmark"))
    best = found.pool.place(found.best)
    dev = float(np.nanmean(found.pool.row(best)))
    return Outcome(found.pool.playbooks[best], dev, found.spent["runs"], len(found.pool) - 1)


def by_gepa(world: World) -> dict[str, Outcome]:
    import gepa
    from gepa.core.adapter import EvaluationBatch

    spent, ways, made = Spent(world), world.means.operators(), 0
    search = Search(world.start, world.tasks["train"].tasks, Pool([], ()), world.seed)
    best: list[Outcome] = []

    class Adapter:
        propose_new_texts = None

        def evaluate(self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False) -> Any:
            scores = spent.scores(_built(world.start, candidate), batch)
            return EvaluationBatch(outputs=list(batch), scores=scores, trajectories=batch if capture_traces else None)

        def make_reflective_dataset(self, candidate: object, batch: object, components: list[str]) -> dict[str, Any]:
            return {name: [{}] for name in components}

    def propose(candidate: dict[str, str], shown: object, components: list[str]) -> dict[str, str]:
        nonlocal made
        parent, new = _built(world.start, candidate), dict[str, str]()
        for gene in components:
            own = [each for each in ways if gene in each.name]
            for _ in range(TRIES):
                made += 1
                chosen = own[int(search.chance("gepa", made).integers(len(own)))]
                child = asyncio.run(_child(chosen, parent, search, f"gepa/{made}"))
                if child is not None:
                    new[gene] = _texts(child)[gene]
                    break
        return new

    class Watching:
        def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
            found = Outcome(_built(world.start, event["candidate"]), event["average_score"], spent.rollouts, len(best))
            best.append(found)

    class Silent:
        def log(self, message: str) -> None: ...

    gepa.optimize(
        seed_candidate=_texts(world.start),
        trainset=list(world.tasks["train"].tasks),
        valset=list(world.tasks["dev"].tasks),
        adapter=Adapter(),
        custom_candidate_proposer=propose,
        stop_callbacks=lambda state: spent.rollouts >= world.budget or state.i >= MOST_ITERATIONS,
        callbacks=[Watching()],
        logger=Silent(),
        seed=world.seed,
    )
    return _within_and_beyond("GEPA", spent, best)


async def _child(way: Operator, parent: Playbook, search: Search, event: str) -> Playbook | None:
    return await way(parent, (), search, event)


def _texts(playbook: Playbook) -> dict[str, str]:
    """The genes as texts, which is all that GEPA knows."""
    known = genes(playbook)
    return {path: known[path].value if path != DEMOS else json.dumps(known[path].value) for path in GENES}


def _built(start: Playbook, texts: Mapping[str, str]) -> Playbook:
    return with_genes(start, {**texts, DEMOS: json.loads(texts[DEMOS])})


def by_dspy(world: World) -> dict[str, Outcome]:
    import dspy
    from dspy.teleprompt import BootstrapFewShotWithRandomSearch

    spent = Spent(world)

    class Plain(dspy.Adapter):  # type: ignore[misc]
        """The form that the other arms have."""

        def __call__(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:
            playbook, task = shown(demos), Task(_named[inputs["text"]], inputs)
            spent.pairs.add((playbook.digest, task.id))
            return [{"answer": world.answer(playbook, task)}]

    def shown(demos: Sequence[Any]) -> Playbook:
        values = [{"inputs": {"text": each["text"]}, "output": each["answer"]} for each in demos]
        return with_genes(world.start, {DEMOS: [each for each in values if each["output"]]})

    def is_right(example: Any, prediction: Any, trace: object = None) -> bool:
        return world.family.is_right(prediction.answer or "", example.answer)

    _named = {task.inputs["text"]: task.id for part in world.tasks.values() for task in part}
    train, dev = (
        [dspy.Example(text=each.inputs["text"], answer=each.expected).with_inputs("text") for each in world.tasks[part]]
        for part in ("train", "dev")
    )
    student, best = dspy.Predict("text -> answer"), list[Outcome]()
    dspy.disable_logging()
    with dspy.context(lm=dspy.BaseLM("embedded"), adapter=Plain()), _silence():
        for candidate in range(-3, world.budget):
            found = BootstrapFewShotWithRandomSearch(
                metric=is_right, max_labeled_demos=8, num_candidate_programs=world.budget, num_threads=AT_ONCE
            ).compile(student, trainset=train, valset=dev, restrict=[candidate])
            score = found.candidate_programs[0]["score"] / 100
            best.append(Outcome(shown(found.demos), score, spent.rollouts, len(best)))
            if spent.rollouts >= world.budget:
                break
    return _within_and_beyond("DSPy", spent, best)


@contextmanager
def _silence() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _within_and_beyond(name: str, spent: Spent, best: Sequence[Outcome]) -> dict[str, Outcome]:
    """The best of what was scored within the budget, and of all."""
    budget, tried = spent.world.budget, len({playbook for playbook, _ in spent.pairs}) - 1
    within = [each for each in best if each.rollouts <= budget]
    return {
        title: replace(max(some, key=lambda each: each.dev), rollouts=rollouts, tried=tried)
        for title, some, rollouts in (
            (name, within, min(spent.rollouts, budget)),
            (f"{name}, beyond its budget", best, spent.rollouts),
        )
    }


ARMS: dict[str, Callable[[World], dict[str, Outcome]]] = {
    "start": by_start,
    "random search": by_random_search,
    "best of N": by_best_of_n,
    "GEPA": by_gepa,
    "DSPy": by_dspy,
    "seedbed": by_seedbed,
}
BEYOND = ("DSPy, beyond its budget", "GEPA, beyond its budget")
ROWS = ("start", "random search", "best of N", "DSPy", "GEPA", *BEYOND, "seedbed")

Job = tuple[str, int, int, str]


def measured(job: Job) -> list[dict[str, Any]]:
    family, seed, budget, arm = job
    world = World(FAMILIES[family], seed, budget)
    lines = []
    for name, outcome in ARMS[arm](world).items():
        test = world.scores(outcome.found, world.tasks["test"].tasks)
        line = {"family": family, "seed": seed, "budget": budget, "arm": name, "dev": outcome.dev, "test": test}
        line |= {"rollouts": outcome.rollouts, "tried": outcome.tried, "found": _texts(outcome.found)}
        lines.append(line)
    return lines


# The report

DRAWS = 4_000


def report(lines: Sequence[Mapping[str, Any]]) -> None:
    """Tables over the seeds for which all arms are there."""
    by = {(each["family"], each["seed"], each["arm"]): each for each in lines}
    families = [name for name in FAMILIES if any(each["family"] == name for each in lines)]
    seeds = {
        name: [
            seed for seed in sorted({each["seed"] for each in lines}) if all((name, seed, row) in by for row in ROWS)
        ]
        for name in families
    }
    families = [name for name in families if seeds[name]]
    if not families:
        return
    tests = {
        row: {name: np.array([by[name, seed, row]["test"] for seed in seeds[name]]) for name in families}
        for row in ROWS
    }
    told = ", ".join(f"{name} {len(seeds[name])}" for name in families)
    print(f"\nSeeds: {told}. Budget: {lines[0]['budget']} rollouts.\n")
    print(f"| arm | {' | '.join(families)} | mean | dev minus test | rollouts | candidates |")
    print(f"|---|{'---:|' * (len(families) + 4)}")
    for row in ROWS:
        means = [100 * tests[row][name].mean() for name in families]
        own = [by[name, seed, row] for name in families for seed in seeds[name]]
        gap = 100 * np.mean([each["dev"] - np.mean(each["test"]) for each in own])
        rollouts, tried = (np.mean([each[what] for each in own]) for what in ("rollouts", "tried"))
        cells = " | ".join(f"{mean:.1f}" for mean in [*means, np.mean(means)])
        print(f"| {row} | {cells} | {gap:+.1f} | {rollouts:.0f} | {tried:.0f} |")
    print(f"\n| seedbed is better by (95 %) | {' | '.join(families)} | mean |\n|---|{'---:|' * (len(families) + 1)}")
    for row in ROWS[:-1]:
        apart = {name: 100 * (tests["seedbed"][name] - tests[row][name]) for name in families}
        drawn = {name: _drawn(apart[name], number) for number, name in enumerate(families)}
        cells = [_interval(apart[name].mean(), drawn[name]) for name in families]
        overall = np.mean([each.mean() for each in apart.values()])
        cells.append(_interval(float(overall), np.mean(list(drawn.values()), axis=0)))
        print(f"| than {row} | {' | '.join(cells)} |")


def _drawn(apart: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Means of the differences, with seeds drawn anew, and of each the items."""
    chance = np.random.default_rng(seed)
    seeds, items = apart.shape
    chosen = chance.integers(seeds, size=(DRAWS, seeds))
    places = chance.integers(items, size=(DRAWS, seeds, items))
    found: np.ndarray[Any, Any] = apart[chosen[:, :, None], places].mean(axis=(1, 2))
    return found


def _interval(mean: float, drawn: np.ndarray[Any, Any]) -> str:
    low, high = np.quantile(drawn, (0.025, 0.975))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="of each family (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them; from 1000 on they are for trying out")
    parser.add_argument("--budget", type=int, default=150, help="rollouts of each arm (default %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("embedded.jsonl"), help="where results are kept")
    parser.add_argument("--only", choices=list(FAMILIES), help="one family only")
    parser.add_argument("--report", action="store_true", help="show what is known, and measure nothing")
    given = parser.parse_args()
    lines = list(known(given.results, given.budget))
    if not given.report:
        os.environ[PLACE] = str(given.results.with_suffix(".answers.db").absolute())
        done = {(each["family"], each["seed"], each["budget"], each["arm"]) for each in lines}
        jobs: list[Job] = [
            (family, seed, given.budget, arm)
            for seed in range(given.first, given.first + given.seeds)
            for family in FAMILIES
            for arm in ARMS
            if given.only in (None, family)
        ]
        with multiprocessing.get_context("spawn").Pool(2) as crew, given.results.open("a") as file:
            for found in crew.imap_unordered(measured, [job for job in jobs if job not in done]):
                for line in found:
                    file.write(json.dumps(line) + "\n")
                    told = f"{line['family']} {line['seed']} {line['arm']}: test {100 * np.mean(line['test']):.1f}"
                    print(told, f"after {line['rollouts']} rollouts, {line['tried']} tried", flush=True)
                file.flush()
                lines += found
    seeds = range(given.first, given.first + given.seeds)
    report([each for each in lines if each["seed"] in seeds])


def known(path: Path, budget: int) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from (line for line in map(json.loads, path.read_text().splitlines()) if line["budget"] == budget)


if __name__ == "__main__":
    main()
