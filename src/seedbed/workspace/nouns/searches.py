"""space.searches: evolve better playbooks, resume and show searches, train a branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seedbed.errors import NotFound, SettingsError, expect_type
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.estimate import RunEstimate, estimate
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.evolution.evaluators import RunEvaluator
from seedbed.evolution.evolve import OnProgress, SearchProgress, evolve
from seedbed.evolution.plan import NO_CONFIRMATION, Plan, SearchOptions, plan_search, read_instructions
from seedbed.evolution.protocols import Optimizer
from seedbed.evolution.searches import Evolution, PastSearch, find_search, list_searches, recall_search
from seedbed.evolution.training import Training, TrainingStep, train
from seedbed.reports.search.report import view_of
from seedbed.reports.search.view import SearchView
from seedbed.spending.account import Account
from seedbed.spending.budget import Budget
from seedbed.spending.notices import SpendingNotice, reached_level
from seedbed.storage.store import Json, Query, digest, short
from seedbed.workspace.execution import Execution, MetricChoice, Tasks, expect_order
from seedbed.workspace.resources import AnyPlaybook, Resources

NEAR = 80
"""The per cent of a search's budget at which people are told."""


class Searches:
    """The searches of a workspace. The store is their checkpoint: the same search resumes where it was."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._execution = Execution(resources)

    def options(
        self,
        options: SearchOptions | None,
        *,
        optimizer: Optimizer | str | None = None,
        budget: Budget | str | None = None,
    ) -> SearchOptions:
        """The options of a search, or the default ones, with another optimizer and budget if one is named.

        Raises SettingsError for what are no options.
        """
        options = SearchOptions() if options is None else options
        expect_type(options, SearchOptions, "options", "SearchOptions", "Write seedbed.SearchOptions(demos=4).")
        return replace(
            options,
            optimizer=options.optimizer if optimizer is None else optimizer,
            budget=options.budget if budget is None else budget,
        )

    def plan(self, playbook: AnyPlaybook, tasks: Tasks, options: SearchOptions | None = None) -> Plan:
        """Everything that decides a search. Nothing is spent. Raises SettingsError, PlaybookError or DatasetError."""
        options = self.options(options)
        expect_order(playbook, tasks)
        confirm = options.confirm
        others = self._execution.dataset(confirm) if confirm not in (None, NO_CONFIRMATION) else None
        return plan_search(self._resources.playbook(playbook), self._execution.dataset(tasks), options, others)

    def estimate(self, plan: Plan) -> RunEstimate:
        """What a search will take: as many runs as its budget allows, if each is like those of its start."""
        own, budget = self._resources, plan.budget
        one = estimate(plan.start, 1, own.store, own.models.__getitem__)
        limits = (budget.usd, one.usd), (budget.tokens, one.tokens), (budget.seconds, one.seconds)
        most = [int(limit / each) for limit, each in limits if limit is not None and each]
        runs = min([*most, *([budget.runs] if budget.runs is not None else [])], default=1)
        return estimate(plan.start, runs, own.store, own.models.__getitem__)

    async def evolve(
        self,
        playbook: AnyPlaybook,
        tasks: Tasks,
        *,
        metric: MetricChoice | None = None,
        options: SearchOptions | None = None,
        parallel: str | int | None = None,
        on_event: OnProgress | None = None,
    ) -> Evolution:
        """Search for a better playbook; `Workspace.evolve` does this for you."""
        options = self.options(options)
        metric = options.metrics if metric is None else metric
        plan, metrics = self.plan(playbook, tasks, options), self._execution.metrics(metric)
        await self._execution.expect_harmless(plan.start)
        named = [metric] if isinstance(metric, str) else list(metric) if isinstance(metric, list | tuple) else []
        stored: Json = {}
        if named and all(isinstance(each, str) for each in named):
            names = tuple(str(each) for each in named)
            stored = replace(options, metrics=names).pin(plan, self._resources.library).to_json()
        evaluator = RunEvaluator(self._execution.context(parallel), metrics)
        by = options.optimizer if isinstance(options.optimizer, str) else plan.optimizer.identity["optimizer"]
        library = self._resources.library
        runner = self._resources.runner

        before = self._newest_step()

        def watch(progress: SearchProgress) -> None:
            for name, limit in plan.budget.body().items():
                near = reached_level(progress.account.spent[name], limit) >= NEAR
                if near and self._newest_step() > before:  # what is read again costs nothing now
                    self._note_near(plan, name, progress.account)
            if on_event:
                on_event(progress)

        try:
            return await evolve(plan, evaluator, library, because=f"tried by {by}", options=stored, on_event=watch)
        finally:
            if runner.tell and (news := await runner.spent.news()):
                await runner.tell(news)

    def _newest_step(self) -> int:
        newest = self._resources.store.facts(Query(kind="step", newest=True, limit=1))
        return next((fact.number for fact in newest), 0)

    def _note_near(self, plan: Plan, name: str, account: Account) -> None:
        at, spent = self._resources.library.clock(), account.spent[name]
        message = (
            f"a search from {short(plan.start.digest)} has used {spent:,.6g} {name} of its budget of {plan.budget}"
        )
        details = {"budget": plan.budget.body(), "spent": account.spent, "playbook": plan.start.digest}
        key = f"search/{plan.start.digest}/{plan.seed}/{plan.budget}/{name}/{at:%Y-%m-%d}"
        self._resources.spent.note(SpendingNotice(key, "search_budget", message, details, at))

    async def resume(
        self, search: str, *, parallel: str | int | None = None, on_event: OnProgress | None = None
    ) -> Evolution:
        """Continue a search that was interrupted, by its digest or how that starts. Raises NotFound."""
        options = self.get(search).options
        return await self.evolve(
            options.playbook,
            options.dataset,
            options=options,
            parallel=parallel,
            on_event=on_event,
        )

    async def train(
        self,
        branch: str,
        task: Mapping[str, Any],
        expected: Any,
        *,
        metric: MetricChoice = "exact_match",
        training: Training | None = None,
        parallel: str | int | None = None,
    ) -> TrainingStep:
        """Answer a task whose answer is known, and learn from it; `Workspace.train` does this for you."""
        training = Training(branch) if training is None else training
        expect_type(training, Training, "training", "Training", "Write seedbed.Training(branch).")
        expect_type(task, Mapping, "task", "its inputs by name, as a mapping")
        example = Task(digest("example", dict(task))[3:19], task, expected)
        evaluator = RunEvaluator(self._execution.context(parallel), self._execution.metrics(metric))
        await self._execution.expect_harmless(self._resources.playbook(branch))
        return await train(training, example, evaluator, self._resources.library)

    @staticmethod
    def read_instructions(file: Path) -> tuple[str, ...]:
        """Texts to try, one on each line or a YAML list. Raises PlaybookError."""
        return read_instructions(file)

    # Looking up

    def begun(self) -> Iterator[PastSearch]:
        """Every search that was started, newest first."""
        return list_searches(self._resources.store)

    def get(self, search: str) -> PastSearch:
        """A search by its digest or how that starts. Raises NotFound."""
        return find_search(self._resources.store, search)

    def metrics(self, past: PastSearch) -> Sequence[Metric]:
        """The metrics of a search, as far as this workspace knows them; those of other programs may be missing."""
        names = past.begun.body["options"].get("metric") or [each.get("metric") for each in past.plan["metrics"]]
        known = []
        for name in names:
            try:
                known.append(self._execution.metric(str(name)))
            except (SettingsError, NotFound):
                continue
        return known

    def describe(self, past: PastSearch) -> Json:
        """A search as a document: how it was started, the best that it found, and what it spent."""
        first = next(iter(self.metrics(past)), None)
        sign = -1.0 if first and better(first) == "lower" else 1.0
        return {
            "search": past.search,
            "begun": past.begun.at,
            "by": past.begun.by,
            "optimizer": past.plan["optimizer"].get("optimizer"),
            "metric": first.name if first else past.plan["metrics"][0].get("metric"),
            "start": past.plan["start"],
            "best": past.best,
            "improved": past.best != past.plan["start"],
            "score": None if past.score is None else sign * past.score,
            "gain": past.confirmed.body()["gain"] if past.confirmed else None,
            "spent": past.spent,
            "budget": past.plan["budget"],
            "ended": past.ended or None,
        }

    def view(self, search: Evolution | str) -> SearchView:
        """What a search found, or has found so far, for people."""
        if isinstance(search, Evolution):
            return view_of(self._resources.store, search)
        past = self.get(search)
        directions = {metric.name: better(metric) for metric in self.metrics(past)}
        return view_of(self._resources.store, recall_search(self._resources.store, past, directions))
