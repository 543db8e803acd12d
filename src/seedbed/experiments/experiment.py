"""Experiment: a hypothesis, registered with everything that decides it before anything is run."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

from seedbed.errors import BudgetSpent, DatasetError, Problem, SeedbedError, dollars, shown
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.spending.ledger import Ledger
from seedbed.stats.arrays import Direction
from seedbed.stats.sequential import RULES, rule_from_state
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.gsprt import Gsprt
from seedbed.stats.sequential.stopping_rule import StoppingRule
from seedbed.storage.store import Digest, Json, canonical, digest, short

Unit = tuple[Task, ...]
"""What is drawn and counted as one: a task, or all tasks of one source or that ask the same."""

RULE_NAMES = {"exact" if name == ExactMcNemar.name else name: name for name in RULES}
"""The stopping rules by the names that people write."""

RuleChoice: TypeAlias = str | Mapping[str, Any] | None
"""A stopping rule: its name, a mapping of its name and settings, or None for the default."""

Mode: TypeAlias = Literal["confirmatory", "exploratory", ""]
"""Whether a verdict may release a candidate; empty in experiments of before this was asked, which may not."""

EDITION = 5
"""The edition of the arithmetic of verdicts, and of what they may rest on, that new experiments register."""

_CLAIMS = {"superior": "is better than", "non-inferior": "is not worse than", "equivalent": "is as good as"}


@dataclass(frozen=True, slots=True)
class Design:
    """How an experiment is decided: what it registers besides the playbooks, the tasks and the metric."""

    alpha: float = 0.05
    rule: RuleChoice = None
    seed: int = 0
    replicates: int = 1
    first_replicates: tuple[int, int] = (0, 0)
    channel: str = ""
    mode: Mode = "exploratory"
    attempt: int = 0
    retired: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What will be compared, fixed before anything is run. Its digest is part of the verdict."""

    control: Digest
    candidate: Digest
    dataset: Digest
    metric: Json
    models: Json
    rule: Json
    order: tuple[str, ...]
    """The tasks in the order in which results are read, even if they finish in another. Those of one source are next
    to each other and count as one."""
    hypothesis: str = ""
    seed: int = 0
    """What the order was drawn from."""
    replicates: int = 1
    first_replicates: tuple[int, int] = (0, 0)
    """The first replicate of each arm. They differ where a playbook is compared with itself."""
    better: Direction = "higher"
    """Which scores of the metric are better."""
    failure_counts_as: float = 0.0
    """The score of a run that fails or takes too long, and of one that cannot be scored."""
    channel: str = ""
    """Whose error budget it is paid from."""
    inputs: tuple[str, ...] | None = None
    """The inputs that either playbook reads, by which tasks that ask the same are known; None in old experiments, where
    only those with exactly the same inputs are."""
    mode: Mode = ""
    attempt: int = 0
    """Which attempt to replace the control it is, from 1; 0 if it is none."""
    retired: tuple[str, ...] = ()
    """Tasks that were retired after results of them were known: they are not run, and count as missing answers."""
    left_out: tuple[str, ...] = ()
    """Tasks that nearly repeat one with known results, or another of these: they are not run, and do not count."""
    edition: int = 1
    """By which edition of the arithmetic the numbers of its verdict are computed. In the first the interval was that of
    a number of tasks fixed in advance; up to the second no task was left out because it nearly repeats another;
    up to the fourth fewer small edits were known, and any first words could differ."""

    @classmethod
    def plan(
        cls,
        control: Digest,
        candidate: Digest,
        tasks: Dataset,
        metric: Metric,
        *,
        models: Json,
        design: Design,
        inputs: Collection[str] | None = None,
    ) -> Experiment:
        """Register both playbooks on all tasks, in an order drawn once from the seed. `inputs` names the inputs that
        the playbooks read; by default all.

        The default rule is the exact test where each unit is one run that passes or fails, else betting. Raises
        DatasetError, or SeedbedError for a rule that does not fit.
        """
        if not len(tasks):
            raise DatasetError([Problem("tasks", "none", "at least one")])
        seed, replicates = design.seed, design.replicates
        read = tuple(sorted({name for task in tasks for name in task.inputs} if inputs is None else inputs))
        every = drawn(tasks, seed, read, design.left_out)
        alone = all(len(unit) == 1 for unit in every)
        binary = bool(getattr(metric, "binary", False))
        chosen = _rule(design.rule, design.alpha, len(every), binary and alone and replicates == 1)
        _expect_fit(chosen, metric.name, binary, replicates if alone else None)
        state = chosen.state()
        return cls(
            control=control,
            candidate=candidate,
            dataset=tasks.digest,
            metric=metric.identity,
            models=models,
            rule={key: value for key, value in state.items() if key != "outcomes"},
            order=tuple(task.id for unit in every for task in unit),
            hypothesis=f"{short(candidate)} {_CLAIMS[state.get('goal', 'superior')]} {short(control)} by {metric.name}",
            seed=seed,
            replicates=replicates,
            first_replicates=design.first_replicates,
            better=better(metric),
            failure_counts_as=float(better(metric) == "lower"),
            channel=design.channel,
            inputs=read,
            mode=design.mode,
            attempt=design.attempt,
            retired=design.retired,
            left_out=design.left_out,
            edition=EDITION,
        )

    @classmethod
    def from_content(cls, body: Json) -> Experiment:
        names = ("order", "first_replicates", "inputs", "retired", "left_out")
        return cls(**{**body, **{name: tuple(body[name]) for name in names if name in body}})

    def content(self) -> Json:
        body = {**asdict(self), "order": list(self.order), "first_replicates": list(self.first_replicates)}
        for name in ("retired", "left_out"):
            if ids := body.pop(name):  # where none is, it keeps the digest that it had before there were these
                body[name] = list(ids)
        if self.edition == 1:  # the same
            del body["edition"]
        if self.inputs is None:  # the same
            absent = ("inputs",) if self.mode else ("inputs", "mode", "attempt")
            return {name: value for name, value in body.items() if name not in absent}
        return {**body, "inputs": list(self.inputs)}

    @property
    def digest(self) -> Digest:
        return digest("experiment", self.content())

    def units(self, tasks: Dataset) -> list[Unit]:
        """The units, in the order in which they are read."""
        by_id = {task.id: task for task in tasks}
        group = _groups(tasks, self.inputs)
        return [
            tuple(unit) for _, unit in groupby((by_id[name] for name in self.order), key=lambda task: group[task.id])
        ]

    def start(self) -> StoppingRule:
        """The rule before the first task."""
        old = {"spread": "even"} if self.rule.get("rule") == Betting.name else {}
        return rule_from_state({**old, **self.rule})


def _groups(tasks: Dataset, inputs: Collection[str] | None) -> dict[str, str]:
    """For each task, by its id, a name that it shares with those it is not independent of: tasks of its source, and
    tasks that ask the same."""
    if inputs is None:
        return {task.id: task.source or f"\x00{canonical(dict(task.inputs))}" for task in tasks}
    first: dict[str, str] = {}
    keys = {task.id: task_key(task.inputs, inputs, tasks.case) for task in tasks}
    own = {task.id: (f"\x00{keys[task.id]}", task.source or f"\x00{task.id}") for task in tasks}

    def find(name: str) -> str:
        while (above := first.setdefault(name, name)) != name:
            first[name] = name = first[above]
        return name

    for key, source in own.values():
        first[find(key)] = find(source)
    return {task: find(key) for task, (key, _) in own.items()}


def drawn(
    tasks: Dataset, seed: int, inputs: Collection[str] | None = None, left_out: Collection[str] = ()
) -> list[Unit]:
    """The units in an order drawn from the seed, without tasks that are left out; `inputs` names what is read of them.

    Tags are spread evenly, so that an early stop reads a fair sample.
    """
    chance = random.Random(f"{tasks.digest} {seed}")
    sources: dict[str, list[Task]] = {}
    group, gone = _groups(tasks, inputs), {*left_out}
    for task in tasks:
        if task.id not in gone:
            sources.setdefault(group[task.id], []).append(task)
    strata: dict[tuple[str, ...], list[Unit]] = {}
    for members in sources.values():
        strata.setdefault(tuple(sorted({tag for task in members for tag in task.tags})), []).append(tuple(members))
    places: list[tuple[float, float, Unit]] = []
    for tagged in sorted(strata):
        stratum = strata[tagged]
        chance.shuffle(stratum)
        # Spread evenly from a random start; ties are in random order.
        start = chance.random()
        places += (((start + n) / len(stratum), chance.random(), unit) for n, unit in enumerate(stratum))
    return [unit for *_, unit in sorted(places, key=lambda place: place[:2])]


def _expect_fit(rule: StoppingRule, metric: str, binary: bool, replicates: int | None) -> None:
    """Raises SeedbedError for a rule that cannot use the scores. `replicates` is None if units have several tasks."""
    repeats = rule.repeats if isinstance(rule, Gsprt) else 1
    if isinstance(rule, Betting) or (binary and replicates == repeats):
        return
    scores = f"{metric}, which is graded" if not binary else "tasks that share a source or are run several times"
    raise SeedbedError(
        f"rule: found {rule.name} for {scores}; expected scores of 0 or 1 (binary=True on a metric of your own), one "
        "for each task. Register the rule betting, which takes any score and any mean"
    )


def _rule(choice: RuleChoice, alpha: float, at_most: int, binary: bool) -> StoppingRule:
    settings = {"rule": choice} if isinstance(choice, str) or choice is None else dict(choice)
    if taken := sorted({"alpha", "at_most", "outcomes"} & settings.keys()):
        raise SeedbedError(f"rule: found {', '.join(taken)}; expected none of these: the experiment sets them")
    if float(settings.get("d0") or 0.0) < 0:
        raise SeedbedError(f"d0: found {shown(settings['d0'])}; expected at least 0. To allow for less, set a margin")
    name = settings.pop("rule", None) or ("exact" if binary else "betting")
    if name not in RULE_NAMES:
        raise SeedbedError(f"rule: found {shown(name)}; expected one of {', '.join(RULE_NAMES)}")
    return rule_from_state({"rule": RULE_NAMES[name], "alpha": alpha, "at_most": at_most, **settings})


def budget_spent(ledger: Ledger, progress: str) -> BudgetSpent:
    """The error for a ledger that ran out of money at this point of a comparison."""
    spent = f"{dollars(ledger.spent_usd)} spent of {dollars(ledger.limit_usd or 0.0)}"
    remedy = "Compare again with a higher limit: what was paid is not paid twice"
    return BudgetSpent(f"found {spent} {progress}; expected enough to finish. {remedy}")


def expect_score(metric: str, cell: Cell) -> None:
    """Raises SeedbedError for a score outside 0 to 1, which cannot be compared."""
    if cell.value is not None and not 0 <= cell.value <= 1:
        raise SeedbedError(
            f"{metric} of task {shown(cell.task)}: found {cell.value:g}; expected a score from 0 to 1. "
            "Compare by a metric with that range, such as one that checks a limit"
        )
