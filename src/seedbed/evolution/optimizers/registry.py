"""Optimizers by name: those that come with seedbed, and those that installed packages offer."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from seedbed.errors import PlaybookError, Problem, SettingsError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import call
from seedbed.evolution.operator import Operator
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.bootstrap import Bootstrap
from seedbed.evolution.optimizers.population import Population
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.optimizers.reflection import Propose, Reflection
from seedbed.evolution.protocols import Optimizer
from seedbed.evolution.variation.numbers import Numbers, numbers
from seedbed.evolution.variation.operators import Change, demonstrated, operators, reworded
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook

GROUP = "seedbed.optimizers"
"""The entry points by which a package offers optimizers: functions `(means, **options) -> Optimizer`."""


@dataclass(frozen=True)
class SearchInputs:
    """What candidates can be made from.

    `bank` has texts for the gene `gene`, or for all; `tasks` may be shown as worked examples, `demos` at a time; roles
    may ask any of `models`; `reflector` is the model, or the function, that reads poor runs and proposes edits.
    """

    start: Playbook
    bank: tuple[str, ...] = ()
    gene: str | None = None
    tasks: Sequence[Task] = ()
    demos: int = 0
    models: tuple[str, ...] = ()
    reflector: str | Propose | None = None
    seed: int = 0

    def operators(self) -> list[Operator]:
        """All ways to change the start that need no model."""
        found = operators(self.start, bank=self.bank, tasks=self.tasks, models=self.models)
        if moved := numbers(self.start):  # all of them together; a nudge of one would add nothing
            found = [Numbers(), *(each for each in found if not (isinstance(each, Change) and each.path in moved))]
        others = [each.path for each in genes(self.start).values() if each.kind == "text" and each.path != self.gene]
        return [each for each in found if self.gene is None or not any(each.name.endswith(path) for path in others)]

    def candidates(self) -> list[Playbook]:
        """The start with worked examples, then with each text of the bank, alone and with worked examples, too."""
        if not self.bank:
            return []
        path = self.gene or only_text(self.start)
        words = list(reworded(self.start, path, self.bank))
        if not self.demos:
            return words
        step = f"demos.{_step_of(self.start, path)}"
        shown = [
            demonstrated(each, step, self.tasks, count=self.demos, seed=self.seed) for each in (self.start, *words)
        ]
        return [shown[0], *(each for pair in zip(words, shown[1:], strict=True) for each in pair)]


def only_text(playbook: Playbook) -> str:
    """The path of its only text that may evolve. Raises PlaybookError if there are several, or none."""
    paths = [each.path for each in genes(playbook).values() if each.kind == "text"]
    if len(paths) != 1:
        found = f"{len(paths)} texts that may evolve: {', '.join(paths) or 'none'}"
        raise PlaybookError([Problem("gene", found, "one of them", "Say which, with --gene.")])
    return paths[0]


def _step_of(playbook: Playbook, path: str) -> str:
    """The step whose answers a text decides: its own, or the first one its role performs."""
    kind, name = path.split(".")[:2]
    for step in playbook.all_steps():
        if (kind, name) in (("steps", step.name), ("roles", step.role)):
            return step.name
    raise PlaybookError([Problem(path, "a text by which no step answers", "one that has worked examples")])


def optimizer(written: str, means: SearchInputs) -> Optimizer:
    """The optimizer as it is written on the command line: `portfolio`, `nsga2(size=30)`. Raises SettingsError."""
    name, options = call(written, "optimizer", "nsga2(size=30)")
    offered = _offered()
    make = _MAKERS.get(name) or (offered[name].load() if name in offered else None)
    if make is None:
        near = difflib.get_close_matches(name, names(), 1)
        remedy = f"Did you mean {near[0]}?" if near else ""
        raise SettingsError([Problem("optimizer", shown(name), f"one of: {', '.join(names())}", remedy)])
    try:
        inspect.signature(make).bind(means, **options)
        made: Optimizer = make(means, **options)
    except TypeError as wrong:
        raise SettingsError([Problem(f"optimizer {name}", str(wrong), "options that it has")]) from None
    return made


def names() -> list[str]:
    return sorted({*_MAKERS, *_offered()})


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


# Those that come with seedbed


def _portfolio(means: SearchInputs) -> Optimizer:
    ways = means.operators()
    arms: dict[str, Optimizer] = {}
    if means.reflector:  # whoever reads what went wrong does better than chance
        arms["reflection"] = _reflection(means, bundle=True, merge=False)
        arms["best_of"] = _reflection(means, bundle=True, merge=False, from_start=True)
    if means.bank or not means.reflector:
        arms["bank" if means.reflector else "best_of"] = BestOf(means.candidates(), operators=ways, brood=6)
    if means.tasks and any(gene.kind == "demos" for gene in genes(means.start).values()):
        arms["bootstrap"] = Bootstrap()
    if not means.reflector:
        arms["population"] = Population(operators=ways, offspring=6)
    return Portfolio(arms)


def _best_of(means: SearchInputs, **options: Any) -> Optimizer:
    found = means.candidates()
    return BestOf(found, operators=() if found else means.operators(), **options)


def _by(reflector: str | Propose) -> dict[str, Any]:
    return {"model": reflector} if isinstance(reflector, str) else {"propose": reflector}


def _reflection(means: SearchInputs, **options: Any) -> Optimizer:
    if not means.reflector:
        remedy = "Name a model that writes well with --reflector."
        raise SettingsError([Problem("optimizer reflection", "no model that reads and proposes", "one", remedy)])
    return Reflection(**_by(means.reflector), gene=means.gene, **options)


def _bootstrap(means: SearchInputs, **options: Any) -> Optimizer:
    return Bootstrap(**options)


def _gepa(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.external.gepa import GEPA

    if not means.reflector:
        remedy = "Name a model that writes well with --reflector."
        raise SettingsError([Problem("optimizer gepa", "no model that reads and proposes", "one", remedy)])
    return GEPA(**_by(means.reflector), **options)


def _dspy(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.external.dspy import DSPy

    return DSPy(**options)


def _population(means: SearchInputs, **options: Any) -> Optimizer:
    return Population(operators=means.operators(), **options)


def _nsga2(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.nsga2 import NSGA2

    return NSGA2(operators=means.operators(), **options)


def _map_elites(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.map_elites import MapElites

    return MapElites(operators=means.operators(), **options)


def _cmaes(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.cmaes import CMAES

    return CMAES(**options)


def _bandit(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.bandit import Bandit

    return Bandit(means.candidates(), operators=means.operators(), **options)


def _branches(means: SearchInputs, **options: Any) -> Optimizer:
    from seedbed.evolution.optimizers.branches import Branches

    return Branches(operators=means.operators(), **options)


_MAKERS: dict[str, Callable[..., Optimizer]] = {
    "bandit": _bandit,
    "best_of": _best_of,
    "bootstrap": _bootstrap,
    "branches": _branches,
    "cmaes": _cmaes,
    "dspy": _dspy,
    "gepa": _gepa,
    "map_elites": _map_elites,
    "nsga2": _nsga2,
    "population": _population,
    "portfolio": _portfolio,
    "reflection": _reflection,
}
