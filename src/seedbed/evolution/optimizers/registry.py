"""Optimizers by name: those that come with seedbed, and those that installed packages offer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from seedbed import plugins
from seedbed.errors import PlaybookError, Problem, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.registry import parse_call
from seedbed.evolution.optimizers.bandit import Bandit
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.bootstrap import Bootstrap
from seedbed.evolution.optimizers.branches import Branches
from seedbed.evolution.optimizers.cmaes import CMAES
from seedbed.evolution.optimizers.external.dspy import DSPy
from seedbed.evolution.optimizers.external.gepa import GEPA
from seedbed.evolution.optimizers.map_elites import MapElites
from seedbed.evolution.optimizers.nsga2 import NSGA2
from seedbed.evolution.optimizers.population import Population
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.optimizers.reflection import Propose, Reflection
from seedbed.evolution.protocols import Operator, Optimizer
from seedbed.evolution.variation.operators import demonstrate, operators, reword, vary_numbers_together
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook

GROUP = "seedbed.optimizers"
"""The entry points by which a package offers optimizers: functions `(inputs, **options) -> Optimizer`."""


@dataclass(frozen=True)
class SearchInputs:
    """What an optimizer can make candidates from.

    `instructions` are texts to try in the gene `gene`, or in all of them; `tasks` may be shown as worked examples,
    `demos` at a time; roles may ask any of `models`; `reflector` is the model, or the function, that reads poor runs
    and proposes edits.
    """

    start: Playbook
    instructions: tuple[str, ...] = ()
    gene: str | None = None
    tasks: Sequence[Task] = ()
    demos: int = 0
    models: tuple[str, ...] = ()
    reflector: str | Propose | None = None
    seed: int = 0

    def operators(self) -> list[Operator]:
        """All ways to change the start that need no model."""
        every = vary_numbers_together(
            self.start,
            operators(self.start, instructions=self.instructions, tasks=self.tasks, models=self.models),
        )
        others = [each.path for each in genes(self.start).values() if each.kind == "text" and each.path != self.gene]
        return [each for each in every if self.gene is None or not any(each.name.endswith(path) for path in others)]

    def candidates(self) -> list[Playbook]:
        """The start with worked examples, then with each of the instructions, without and with worked examples."""
        if not self.instructions:
            return []
        path = self.gene or only_text(self.start)
        words = list(reword(self.start, path, self.instructions))
        if not self.demos:
            return words
        step = f"demos.{_step_of(self.start, path)}"
        shown = [demonstrate(each, step, self.tasks, count=self.demos, seed=self.seed) for each in (self.start, *words)]
        return [shown[0], *(each for pair in zip(words, shown[1:], strict=True) for each in pair)]


def only_text(playbook: Playbook) -> str:
    """The path of its only text that may evolve. Raises PlaybookError if there are several, or none."""
    paths = [each.path for each in genes(playbook).values() if each.kind == "text"]
    if len(paths) != 1:
        several = f"{len(paths)} texts that may evolve: {', '.join(paths) or 'none'}"
        raise PlaybookError([Problem("gene", several, "one of them", "Say which, with --gene.")])
    return paths[0]


def _step_of(playbook: Playbook, path: str) -> str:
    """The step whose answers a text decides: its own, or the first one its role performs."""
    kind, name = path.split(".")[:2]
    for step in playbook.all_steps():
        if (kind, name) in (("steps", step.name), ("roles", step.role)):
            return step.name
    raise PlaybookError([Problem(path, "a text by which no step answers", "one that has worked examples")])


def make_optimizer(optimizer: str | Optimizer, inputs: SearchInputs) -> Optimizer:
    """The optimizer of that name, with options as on the command line: `portfolio`, `nsga2(size=30)`. An optimizer
    object is returned as it is.

    Raises SettingsError with the options that fit.
    """
    if not isinstance(optimizer, str):
        return _expect_optimizer(optimizer)
    name, options = parse_call(optimizer, "optimizer", "nsga2(size=30)")
    offers = plugins.offered(GROUP)
    if name in _MAKERS:
        make = _MAKERS[name](inputs)
    elif name in offers:
        make = partial(plugins.load(offers[name], "optimizer"), inputs)
    else:
        remedy = "Choose one of them, or pass an optimizer object."
        raise SettingsError([plugins.unknown("optimizer", name, names(), remedy)])
    settable = [each for each in inspect.signature(make).parameters if each not in make.keywords]
    unknown = [each for each in options if each not in settable]
    if unknown:
        remedy = f"Its options: {', '.join(settable) or 'none'}."
        raise SettingsError([Problem(f"optimizer {name}", f"option {unknown[0]}", "options that it has", remedy)])
    try:
        made: Optimizer = make(**options)
    except TypeError as wrong:
        raise SettingsError([Problem(f"optimizer {name}", str(wrong), "options that it has")]) from None
    return made


def _expect_optimizer(value: Optimizer) -> Optimizer:
    if isinstance(value, type):
        remedy = f"Make one first: {value.__name__}()."
        raise SettingsError([Problem("optimizer", f"the class {value.__name__}", "an optimizer", remedy)])
    if not isinstance(value, Optimizer):
        expected = f"a name or an object with identity, begin, ask and tell. Names: {', '.join(names())}"
        raise SettingsError([Problem("optimizer", type(value).__name__, expected)])
    return value


def names() -> list[str]:
    """The names of all optimizers that are installed."""
    return sorted({*_MAKERS, *plugins.offered(GROUP)})


# Those that come with seedbed. A maker gives the class with what the inputs decide; options by name come on top.


def _portfolio(inputs: SearchInputs) -> partial[Portfolio]:
    operators = inputs.operators()
    arms: dict[str, Optimizer] = {}
    if inputs.reflector:  # a model that reads what went wrong does better than chance
        arms["reflection"] = _reflection(inputs)(bundle=True, merge=False)
        arms["best_of"] = _reflection(inputs)(bundle=True, merge=False, from_start=True)
    if inputs.instructions or not inputs.reflector:
        name = "bank" if inputs.reflector else "best_of"
        arms[name] = BestOf(inputs.candidates(), operators=operators, brood=6)
    if inputs.tasks and any(gene.kind == "demos" for gene in genes(inputs.start).values()):
        arms["bootstrap"] = Bootstrap()
    if not inputs.reflector:
        arms["population"] = Population(operators=operators, offspring=6)
    return partial(Portfolio, arms)


def _best_of(inputs: SearchInputs) -> partial[BestOf]:
    candidates = inputs.candidates()
    return partial(BestOf, candidates, operators=() if candidates else inputs.operators())


def _reflection(inputs: SearchInputs) -> partial[Reflection]:
    model, propose = _proposer("reflection", inputs)
    return partial(Reflection, model=model, propose=propose, gene=inputs.gene)


def _gepa(inputs: SearchInputs) -> partial[GEPA]:
    model, propose = _proposer("gepa", inputs)
    return partial(GEPA, model=model, propose=propose)


def _proposer(name: str, inputs: SearchInputs) -> tuple[str, Propose | None]:
    """The model that proposes edits, or the function that does."""
    if not inputs.reflector:
        remedy = "Name a model that writes well with --reflector."
        raise SettingsError([Problem(f"optimizer {name}", "no model that reads and proposes", "one", remedy)])
    return (inputs.reflector, None) if isinstance(inputs.reflector, str) else ("strong", inputs.reflector)


_MAKERS: dict[str, Callable[[SearchInputs], partial[Any]]] = {
    "bandit": lambda inputs: partial(Bandit, inputs.candidates(), operators=inputs.operators()),
    "best_of": _best_of,
    "bootstrap": lambda inputs: partial(Bootstrap),
    "branches": lambda inputs: partial(Branches, operators=inputs.operators()),
    "cmaes": lambda inputs: partial(CMAES),
    "dspy": lambda inputs: partial(DSPy),
    "gepa": _gepa,
    "map_elites": lambda inputs: partial(MapElites, operators=inputs.operators()),
    "nsga2": lambda inputs: partial(NSGA2, operators=inputs.operators()),
    "population": lambda inputs: partial(Population, operators=inputs.operators()),
    "portfolio": _portfolio,
    "reflection": _reflection,
}
