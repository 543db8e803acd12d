"""Plan: everything that decides a search. SearchOptions: what a person asks for, from which a plan is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Self, TypedDict, Unpack

from seedbed import documents
from seedbed.errors import DatasetError, PlaybookError, Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import better
from seedbed.evolution.allocation import Allocation, Pooling
from seedbed.evolution.evaluators import Evaluator
from seedbed.evolution.optimizers.reflection import Propose
from seedbed.evolution.optimizers.registry import SearchInputs, make_optimizer
from seedbed.evolution.protocols import Optimizer, Setting, at_least, check_settings
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import is_whole
from seedbed.spending.budget import Budget
from seedbed.storage.store import Json

NO_TASKS = Dataset(())
PARTS = ("reflect", "select", "confirm")

NO_CONFIRMATION = "none"
"""In place of a dataset: nothing confirms what the search found."""


class PlanLimits(TypedDict, total=False):
    """The fields of a Plan that say how much is tried."""

    budget: Budget
    allocation: Allocation
    patience: int | None
    enough: float | None
    surrogate: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides a search. Its digest names the search: the same plan is the same search.

    The scores of `select` tasks decide which candidates are kept, optimizers may read `reflect` tasks, and `confirm`
    tasks are used once, at the end. A search ends early after `patience` steps without an improvement, or at a score
    of `enough`. With `surrogate`, candidates that seem hopeless are skipped (see SurrogateFilter).
    """

    start: Playbook
    select: Dataset
    optimizer: Optimizer
    reflect: Dataset = NO_TASKS
    confirm: Dataset = NO_TASKS
    budget: Budget = Budget()  # noqa: RUF009 - it is frozen
    allocation: Allocation = field(default_factory=Pooling)
    seed: int = 0
    patience: int | None = None
    enough: float | None = None
    surrogate: bool = False

    def __post_init__(self) -> None:
        if not len(self.select):
            raise DatasetError([Problem("tasks", "no select tasks", "at least one to choose by")])
        check_settings("", patience=_steps(self.patience))
        parts: dict[str, str] = {}
        problems = []
        for part in PARTS:
            for task in getattr(self, part):
                other = parts.setdefault(task.id, part)
                if other != part:
                    remedy = "The reflect, select and confirm tasks of a search must not overlap."
                    problems.append(Problem(f"task {shown(task.id)}", f"in {other} and in {part}", "in one", remedy))
        if problems:
            raise DatasetError(problems)

    @classmethod
    def of(
        cls,
        start: Playbook,
        tasks: Dataset,
        optimizer: Optimizer,
        *,
        confirm: Dataset | None = None,
        seed: int = 0,
        **limits: Unpack[PlanLimits],
    ) -> Self:
        """A plan over one dataset, split by `split_tasks`. With other tasks to `confirm`, none of these do."""
        reads = getattr(optimizer, "reads", True)
        split = split_tasks(tasks, seed, reads=reads, confirms=confirm is None)
        reflect, select, own = (split.only(split=name) if name in split.splits else NO_TASKS for name in PARTS)
        last = own if confirm is None else confirm
        return cls(start=start, optimizer=optimizer, seed=seed, reflect=reflect, select=select, confirm=last, **limits)

    def content(self, evaluator: Evaluator) -> Json:
        """What is stored of the plan, and what its digest is taken of."""
        return {
            "start": self.start.digest,
            "select": self.select.digest,
            "reflect": self.reflect.digest,
            "confirm": self.confirm.digest,
            "metrics": [metric.identity for metric in evaluator.metrics],
            "better": [better(metric) for metric in evaluator.metrics],
            "models": evaluator.identity(self.start),
            "optimizer": self.optimizer.identity,
            "allocation": self.allocation.identity,
            "budget": self.budget.body(),
            "seed": self.seed,
            "patience": self.patience,
            "enough": self.enough,
            **({"surrogate": True} if self.surrogate else {}),  # searches from before there was one keep their names
        }


def split_tasks(tasks: Dataset, seed: int, *, reads: bool = True, confirms: bool = True) -> Dataset:
    """The same tasks with the splits `reflect`, `select` and `confirm`.

    A dataset that has a `select` split stays as it is. Otherwise a quarter of the tasks confirms, and the optimizer may
    read a third of the rest. With very few tasks either split may be empty.
    """
    if "select" in tasks.splits:
        return tasks
    left, splits = tasks, {}
    if confirms:
        splits["confirm"], left = left.split(0.25, seed)
    if reads:
        splits["reflect"], left = left.split(1 / 3, seed)
    return tasks.with_splits({name: part for name, part in {**splits, "select": left}.items() if len(part)})


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What a search is asked for, by the names that people give.

    `playbook`, `dataset`, `confirm` and `metrics` name things of a workspace. `confirm` is None for a quarter of the
    dataset, or "none" for no confirmation. `instructions`, `gene`, `demos` and `reflector` are what the optimizer makes
    candidates from (see SearchInputs). An optimizer or a reflector may be an object; such a search can be resumed
    only by the program that has the object.
    """

    playbook: str = ""
    dataset: str = ""
    optimizer: str | Optimizer = "portfolio"
    budget: str | Budget = "500 runs"
    confirm: str | Dataset | None = None
    instructions: tuple[str, ...] = ()
    gene: str | None = None
    demos: int = 0
    reflector: str | Propose | None = None
    patience: int | None = None
    surrogate: bool = False
    seed: int = 0
    metrics: tuple[str, ...] = ("exact_match",)

    def __post_init__(self) -> None:
        check_settings(
            "",
            budget=(self.budget, isinstance(self.budget, str | Budget), "what may be spent, such as 400 runs or $2"),
            instructions=(self.instructions, _are_texts(self.instructions), 'a list of texts: ["Answer briefly."]'),
            gene=(self.gene, isinstance(self.gene, str | None), "the path of a gene"),
            demos=at_least(0, self.demos),
            reflector=(
                self.reflector,
                isinstance(self.reflector, str | None) or callable(self.reflector),
                "the name of a model, or a function that proposes texts",
            ),
            patience=_steps(self.patience),
            surrogate=(self.surrogate, isinstance(self.surrogate, bool), "true or false"),
            seed=(self.seed, is_whole(self.seed), "a whole number"),
            metrics=(self.metrics, bool(self.metrics) and _are_texts(self.metrics), 'a list of names: ["exact_match"]'),
        )

    def pin(self, plan: Plan, library: Library) -> Self:
        """The options with digests in place of names, all of it stored: files may change before the search resumes."""
        parts = {name: part for name, part in (("reflect", plan.reflect), ("select", plan.select)) if len(part)}
        whole, store = Dataset((*plan.reflect, *plan.select)).with_splits(parts), library.store
        return replace(
            self,
            playbook=library.keep(plan.start, because="evolved"),
            dataset=store.put("dataset", whole.content()),
            confirm=store.put("dataset", plan.confirm.content()) if len(plan.confirm) else NO_CONFIRMATION,
        )

    def to_json(self) -> Json:
        """The options as they are stored with a search; nothing if one of them is an object without a name."""
        if not isinstance(self.optimizer, str) or not isinstance(self.reflector, str | None):
            return {}
        body = {each.name: getattr(self, each.name) for each in fields(self)}
        bank, metric = list(body.pop("instructions")), list(body.pop("metrics"))
        return {**body, "budget": str(self.budget), "bank": bank, "metric": metric}

    @classmethod
    def from_json(cls, body: Json) -> Self:
        return cls(
            playbook=body["playbook"],
            dataset=body["dataset"],
            optimizer=body["optimizer"],
            budget=body["budget"],
            confirm=body["confirm"],
            instructions=tuple(body["bank"]),
            gene=body["gene"],
            demos=body["demos"],
            reflector=body["reflector"],
            patience=body["patience"],
            surrogate=body.get("surrogate", False),  # searches from before there was one have no such option
            seed=body["seed"],
            metrics=tuple(body["metric"]),
        )


def _steps(patience: int | None) -> Setting:
    """How long a search is patient; None is for ever."""
    value, fits, expected = at_least(1, 1 if patience is None else patience)
    return value, fits, f"a number of steps, {expected}"


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def plan_search(start: Playbook, tasks: Dataset, options: SearchOptions, confirm: Dataset | None = None) -> Plan:
    """The plan of a search from `start` over `tasks`; `confirm` are the tasks that `options.confirm` names.

    Raises SettingsError whose first problem is at `optimizer` or `budget`, or PlaybookError at `gene`, if one of these
    options is wrong.
    """
    confirms = confirm is None and options.confirm is None
    split = split_tasks(tasks, options.seed, reads=_reads(options), confirms=confirms)
    inputs = SearchInputs(
        start,
        instructions=options.instructions,
        gene=options.gene,
        tasks=split.only(split="reflect").tasks if "reflect" in split.splits else (),
        demos=options.demos,
        reflector=options.reflector,
        seed=options.seed,
    )
    optimizer = make_optimizer(options.optimizer, inputs)
    budget = Budget.parse(options.budget) if isinstance(options.budget, str) else options.budget
    return Plan.of(
        start,
        split,
        optimizer,
        confirm=confirm,
        seed=options.seed,
        budget=budget,
        patience=options.patience,
        surrogate=options.surrogate,
    )


def _reads(options: SearchOptions) -> bool:
    """Whether some tasks are set apart for the optimizer to read."""
    if isinstance(options.optimizer, str):
        return options.optimizer != "best_of" or bool(options.demos)
    return getattr(options.optimizer, "reads", True)


def read_instructions(source: str | Path | Sequence[str]) -> tuple[str, ...]:
    """Instructions to try: a list of texts, or a file of them, one on each line or a YAML or JSON list.

    Raises PlaybookError if there are none.
    """
    if not isinstance(source, str | Path):
        name, texts = "instructions", list(source)
    else:
        name, texts = str(source), _read_texts(Path(source))
    if not all(isinstance(text, str) for text in texts):
        raise PlaybookError([Problem("document", "other values", "a list of texts")], name)
    texts = [text.strip() for text in texts if text.strip()]
    if not texts:
        raise PlaybookError([Problem("file", "no texts", "at least one")], name)
    return tuple(texts)


def _read_texts(path: Path) -> list[str]:
    if path.suffix in (".yaml", ".yml", ".json"):
        texts = documents.read(path, PlaybookError).value
        if not isinstance(texts, list):
            raise PlaybookError([Problem("document", type(texts).__name__, "a list of texts")], str(path))
        return texts
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as wrong:
        failure, remedy = wrong.strerror or "an unreadable file", "Check the path."
        raise PlaybookError([Problem("file", failure, "a file of texts, one a line", remedy)], str(path)) from None
    except UnicodeDecodeError as wrong:
        failure, remedy = f"a byte that is not UTF-8, number {wrong.start}", "Save it as UTF-8."
        raise PlaybookError([Problem("file", failure, "UTF-8 text", remedy)], str(path)) from None
