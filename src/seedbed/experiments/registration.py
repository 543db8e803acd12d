"""Registration: the experiments that a comparison becomes, with their tasks, their error rates, and what they may
release. Everything is decided, and whatever cannot be is refused, before anything is paid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seedbed.errors import Problem, SettingsError, shown
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.seal import expect_open, retirements, without
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.experiment import Design, Experiment, RuleChoice
from seedbed.experiments.forecast import Prospect
from seedbed.experiments.options import USUAL_ALPHA, Comparing
from seedbed.experiments.proof.attempts import attempts, experiments_of, take_attempt
from seedbed.experiments.proof.error_budget import BudgetTerms, reserve
from seedbed.experiments.proof.freshness import fresh_units, freshness
from seedbed.experiments.proof.held_out import inputs_read
from seedbed.experiments.proof.repeats import Repeats, repeats
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.dry_run import DryRunStore
from seedbed.storage.store import Digest, Query, Store


@dataclass(frozen=True, slots=True)
class Registered:
    """An experiment, the tasks that are left of it, and why it is exploratory, if it is."""

    candidate: Playbook
    plan: Experiment
    tasks: Dataset
    why: str = ""


HOLD_BACK = (
    "Before anything is run on new tasks, hold some back (seedbed dataset hold-out NAME); or add tasks to a dataset, "
    "and compare on NAME:fresh."
)


@dataclass(frozen=True, slots=True)
class _Part:
    """The tasks of a comparison that may be used, and why that cannot be confirmatory."""

    tasks: Dataset
    retired: tuple[str, ...]
    why: str
    left_out: tuple[str, ...] = ()

    def design(self, common: Design) -> Design:
        """What is common to all parts, with what is special to this one."""
        return replace(common, retired=self.retired, left_out=self.left_out)


@dataclass(frozen=True)
class Registration:
    """What is about to be compared. Several candidates are one attempt, and share its error rate equally."""

    control: Playbook
    candidates: Sequence[Playbook]
    tasks: Dataset
    metric: Metric
    context: EvaluationContext
    options: Comparing
    replayed: bool = False

    def register(self) -> list[Registered]:
        """The experiment of each candidate.

        The error rate is that of the options; of an attempt to replace what a channel serves, its share of that; or for
        a channel with an error budget, what the budget gives. Raises DatasetError for tasks that are held out, if the
        comparison is exploratory.
        """
        if self.options.channel:
            return [self._paid(self.candidates[0])]
        if why := self._exploratory():
            return [self._explore(each, why) for each in self.candidates]
        for fact in attempts(self._store, self.control.digest):
            begun = self._attempt([self._part(each, fact.number) for each in self.candidates], fact.body)
            if [each.plan.digest for each in begun] == experiments_of(fact):
                return begun
        parts = [self._part(each) for each in self.candidates]
        if why := next((part.why for part in parts if part.why), ""):
            return [self._explore(each, why) for each in self.candidates]
        context, terms = self.context, self.options.attempts
        assert terms

        def planned(level: float, number: int) -> list[Experiment]:
            return [each.plan for each in self._attempt(parts, {"level": level, "number": number})]

        taken = take_attempt(
            context.store, self.control.digest, terms, self._alpha, planned, by=context.by, clock=context.clock
        )
        return self._attempt(parts, taken.body)

    def preview(self) -> Prospect:
        """What registering would give. Nothing is stored. Raises as `register` does."""
        trial = replace(self, context=replace(self.context, store=DryRunStore(self._store)))
        plan, why = (registered := trial.register()[0]).plan, registered.why
        begun = next(self._store.facts(Query(kind="comparison", key=plan.digest)), None)
        fresh = min(trial._fresh_tasks(each, begun.number if begun else math.inf) for each in self.candidates)
        remedy = "" if not why or self._exploratory() else HOLD_BACK
        level = plan.start().alpha
        return Prospect(len(self.tasks), fresh, plan.mode or "exploratory", plan.attempt, level, why, remedy)

    def _fresh_tasks(self, candidate: Playbook, before: float) -> int:
        """How many of the tasks were new to a candidate before that fact, and repeat no others."""
        library = Library(self._store, self.context.by)
        library.keep(candidate, because="compared")
        library.keep(self.control, because="compared")
        draft = self._plan(candidate, self.tasks, self.options.design(self._alpha, self.options.registered_rule()))
        known = freshness(library, draft, self.tasks, before=before)
        again = repeats(library, draft, self.tasks, before=before)
        return len({each.id for each in self.tasks} - {*known.seen, *again.left_out})

    @property
    def _store(self) -> Store:
        return self.context.store

    @property
    def _alpha(self) -> float:
        return USUAL_ALPHA if self.options.alpha is None else self.options.alpha

    def _exploratory(self) -> str:
        """Why it is exploratory, whatever is known of the tasks."""
        if self.options.exploratory:
            return "it was registered as exploratory"
        if any(candidate.digest == self.control.digest for candidate in self.candidates):
            return "a playbook was compared with itself"
        if self.replayed:
            return "replays prove nothing about live runs"
        terms = self.options.attempts
        if terms and self._alpha > terms.most:
            return f"an error rate of {self._alpha:g} releases nothing, as at most {terms.most:g} may"
        return "" if terms else "no channel serves the control"

    def _attempt(self, parts: Sequence[_Part], taken: Mapping[str, Any]) -> list[Registered]:
        """The experiments of an attempt with this level and number."""
        level = float(taken["level"]) / len(parts)
        design = self.options.design(level, self.options.registered_rule(), "confirmatory", int(taken["number"]))
        return [
            Registered(each, self._plan(each, part.tasks, part.design(design)), part.tasks)
            for each, part in zip(self.candidates, parts, strict=True)
        ]

    def _explore(self, candidate: Playbook, why: str) -> Registered:
        """An exploratory experiment, at an equal part of the error rate."""
        design = self.options.design(self._alpha / len(self.candidates), self.options.registered_rule())
        tasks = self._open(self.tasks, candidate, why)
        if not self.options.fresh:
            return Registered(candidate, self._plan(candidate, tasks, design), tasks, why)
        for fact in self._store.facts(Query(kind="comparison", subject=candidate.digest)):
            then = self._fresh(candidate, tasks, fact.number)
            if then and self._plan(candidate, then, design).digest == fact.key:
                return Registered(candidate, self._plan(candidate, then, design), then, why)
        now = self._fresh(candidate, tasks)
        return Registered(candidate, self._plan(candidate, now, design), now, why)

    def _open(self, tasks: Dataset, candidate: Playbook, why: str) -> Dataset:
        """The tasks of an exploratory comparison: none that was retired. Raises DatasetError for held-out ones."""
        if not self.replayed:
            remedy = f"Only a confirmatory comparison opens them, and this one is exploratory: {why}."
            demos = (demo.inputs for demos in candidate.demos.values() for demo in demos)
            expect_open(self._store, tasks, demos, remedy=remedy)
        return without(tasks, {each.key for each in retirements(self._store)})

    def _part(self, candidate: Playbook, before: float = math.inf) -> _Part:
        """The tasks that are fresh, by what was known before that fact."""
        library = Library(self._store, self.context.by)
        for playbook in (self.control, candidate):  # `verify` needs both
            library.keep(playbook, because="compared")
        draft = self._plan(candidate, self.tasks, self.options.design(self._alpha, self.options.registered_rule()))
        known = freshness(library, draft, self.tasks, before=before)
        tasks, why = self.tasks, known.exploratory
        if self.options.fresh:
            tasks, why = fresh_units(tasks, known, inputs_read(self.control, candidate)), ""
        elif known.seen and not why:
            tasks = tasks.only(ids={task.id for task in tasks} - {*known.seen})
        again = Repeats() if why else repeats(library, draft, tasks, before=before)
        retired = tuple(dict.fromkeys((*self._retired(tasks, before), *again.spoiled)))
        return _Part(tasks, retired, why or again.exploratory(len(tasks)), again.left_out)

    def _fresh(self, candidate: Playbook, tasks: Dataset, before: float = math.inf) -> Dataset:
        """The tasks that are new to both arms."""
        return replace(self, tasks=tasks)._part(candidate, before).tasks

    def _retired(self, tasks: Dataset, before: float) -> tuple[str, ...]:
        """Which of the tasks were retired after results of them were known."""
        keys = {each.key for each in retirements(self._store) if each.number < before}
        return tuple(task.id for task in tasks if keys and task_key(task.inputs) in keys)

    def _paid(self, candidate: Playbook) -> Registered:
        """The same at the error rate of the next reservation, or of the one it was begun with."""
        context, options = self.context, self.options
        if options.alpha is not None:
            remedy = "Set the rate of the budget."
            expected = f"none: the error budget of channel {shown(options.channel)} sets it"
            raise SettingsError([Problem("alpha", f"{options.alpha:g}", expected, remedy)])
        terms, known = options.terms or BudgetTerms(), dict[Digest, Registered]()

        def planned(alpha: float, rule: RuleChoice, before: float) -> Experiment:
            part = self._part(candidate, before)
            why = part.why or ("it was registered as exploratory" if options.exploratory else terms.unpaid)
            tasks = self._open(part.tasks, candidate, why) if why else part.tasks
            design = options.design(alpha, rule, "exploratory" if why else "confirmatory")
            plan = self._plan(candidate, tasks, design if why else part.design(design))
            known[plan.digest] = Registered(candidate, plan, tasks, why)
            return plan

        rule = options.registered_rule()
        plan = reserve(context.store, options.channel, terms, planned, rule, by=context.by, clock=context.clock)
        return known[plan.digest]

    def _plan(self, candidate: Playbook, tasks: Dataset, design: Design) -> Experiment:
        control = self.control
        models = {"control": self.context.identity(control), "candidate": self.context.identity(candidate)}
        read = inputs_read(control, candidate)
        pair = (control.digest, candidate.digest)
        return Experiment.plan(*pair, tasks, self.metric, models=models, design=design, inputs=read)
