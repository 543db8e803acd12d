"""space.scorecards: evaluate playbooks, suites, and specialised playbooks over all corpora."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from seedbed.errors import DatasetError, NotFound, Problem, SettingsError
from seedbed.evaluation import suite as suites
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import Metric
from seedbed.evaluation.pareto_front import Front, front
from seedbed.evaluation.scorecard import Scorecard, interval_document
from seedbed.evaluation.specialisation import Specialisation, Specialist, evaluate_specialisation
from seedbed.evaluation.suite import Suite, SuiteDataset, SuiteScore
from seedbed.experiments.proof.held_out import seen_before
from seedbed.playbooks import specialised
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.specialised import SpecialisedPlaybook
from seedbed.storage.store import Json
from seedbed.workspace.execution import Execution, MetricChoice, Tasks, expect_order
from seedbed.workspace.resources import ONCE, AnyPlaybook, Evaluating, Resources, is_playbook_file

OnCell = Callable[[str, Cell], None]
"""Receives each cell as it is paid or found, with the name of the playbook it is of."""


@dataclass(frozen=True)
class SuiteResult:
    """The results of a suite, and the scorecards that they come from."""

    suite: str
    results: Sequence[SuiteScore]
    cards: Mapping[str, Scorecard]

    def document(self) -> Json:
        return {"suite": self.suite, "results": [_score_document(each) for each in self.results]}


class Scorecards:
    """Evaluations in a workspace. A cell that was paid before is reused."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._execution = Execution(resources)

    def metric(self, metric: Metric | str) -> Metric:
        """The metric of that name: built in, `module:name`, or a judge of the workspace file. Raises SettingsError."""
        return self._execution.metric(metric)

    async def evaluate(
        self,
        playbook: AnyPlaybook,
        tasks: Tasks,
        *,
        metric: MetricChoice = "exact_match",
        options: Evaluating = ONCE,
        on_event: Callable[[Cell], None] | None = None,
    ) -> Scorecard:
        """Score a playbook over tasks; `Workspace.evaluate` does this for you."""
        expect_order(playbook, tasks)
        chosen, dataset = self._resources.playbook(playbook), self._execution.dataset(tasks)
        metrics = self._execution.metrics(metric)
        await self._execution.expect_harmless(chosen)
        self._resources.library.keep(chosen, because="evaluated")
        self._resources.store.put("dataset", dataset.content())
        context = replace(self._execution.context(options.parallel), timeout_seconds=options.timeout_seconds)
        return await evaluate(
            chosen,
            dataset,
            metrics,
            context,
            replicates=options.replicates,
            max_cost_usd=options.max_cost_usd,
            watch=on_event,
        )

    def called(self, names: Iterable[str]) -> dict[str, Playbook]:
        """Playbooks by what people call them: a file by its name, without its folder where that is enough."""
        typed = list(dict.fromkeys(names))
        short = [Path(each).name if is_playbook_file(each) else each for each in typed]
        called = [each if short.count(each) == 1 else whole for each, whole in zip(short, typed, strict=True)]
        return {name: self._resources.playbook(whole) for name, whole in zip(called, typed, strict=True)}

    async def evaluate_each(
        self,
        playbooks: Mapping[str, Playbook],
        tasks: Tasks,
        *,
        metric: MetricChoice = "exact_match",
        options: Evaluating = ONCE,
        on_event: OnCell | None = None,
    ) -> dict[str, Scorecard]:
        """The scorecards of several playbooks over the same tasks, paid from one budget."""
        await self._execution.expect_harmless(*playbooks.values())
        shared = _SharedBudget(self, options, on_event)
        return {name: await shared.card(name, playbook, tasks, metric) for name, playbook in playbooks.items()}

    def front(self, cards: Mapping[str, Scorecard]) -> Front:
        """Which of several playbooks are worth having by all metrics, cost and speed."""
        return front(cards)

    # Suites

    def suite_size(self, suite: Suite, playbooks: int) -> int:
        """How many cells a suite has."""
        return sum(len(part.tasks) for part in suite.parts) * suite.replicates * playbooks

    async def suite(
        self,
        suite: Suite,
        playbooks: Mapping[str, Playbook],
        *,
        options: Evaluating = ONCE,
        accept: bool = False,
        on_event: OnCell | None = None,
    ) -> SuiteResult:
        """Evaluate the baselines of a suite and these playbooks, and store the results for the next time.

        With `accept` later results are compared with these, whatever they are.
        """
        evaluated = {**suite.baselines, **playbooks}
        if not evaluated:
            remedy = "Name one on the command line, or some under baselines."
            raise DatasetError([Problem("baselines", "no playbook at all", "at least one", remedy)], suite.name)
        await self._execution.expect_harmless(*evaluated.values())
        shared = _SharedBudget(self, replace(options, replicates=suite.replicates), on_event)
        cards: dict[str, Scorecard] = {}

        async def score(name: str, playbook: Playbook, part: SuiteDataset) -> Scorecard:
            place = f"{part.name} · {name}"
            cards[place] = await shared.card(place, playbook, part.tasks, part.metrics)
            return cards[place]

        store = self._resources.store
        results = await suites.measure_suite(suite, evaluated, score, store, judged=playbooks)
        suites.record_results(results, store, by=self._resources.by, at=datetime.now(UTC), accept=accept)
        return SuiteResult(suite.name, results, cards)

    # Specialised playbooks

    def specialists(self, task: str, names: Sequence[str] = ()) -> list[SpecialisedPlaybook]:
        """The specialised playbooks of a kind of task, or those named. Raises NotFound."""
        library = self._resources.library
        chosen = [specialised.find(library, each) for each in dict.fromkeys(names)]
        for each in chosen:
            if each.task != task:
                raise SettingsError([Problem("playbook", each.name, f"playbooks for {task}")])
        chosen = chosen or specialised.all_specialised(library, task)
        if not chosen:
            known = ", ".join(dict.fromkeys(each.task for each in specialised.all_specialised(library))) or "none yet"
            remedy = f"Start one: seedbed playbook specialise BASE CORPUS/{task}"
            raise NotFound(f"no playbook is specialised for {task}. Known kinds of task: {known}. {remedy}")
        for each in chosen:
            if each.current is None:
                remedy = f"Inherit another: seedbed playbook rebase {each.name} --onto BASE"
                raise NotFound(f"{each.name} inherits {each.base}, and nothing has that name any more. {remedy}")
        return chosen

    def corpora(
        self, task: str, chosen: Sequence[SpecialisedPlaybook], datasets: Mapping[str, str], *, every: bool
    ) -> dict[str, Dataset]:
        """The tasks of each corpus: those in `datasets`, or stored as datasets/CORPUS/TASK. Raises DatasetError."""
        refs = self._resources.store.refs("datasets/")
        stored = [ref.name.split("/") for ref in refs if ref.name.count("/") == 2]
        known = {corpus for _, corpus, of in stored if of == task}
        wanted = {each.corpus for each in chosen} | {*datasets} | (known if every else set())
        problems = [
            Problem(
                f"datasets/{corpus}/{task}",
                "nothing",
                f"the tasks of {corpus}",
                f"Store them: seedbed dataset add FILE --name {corpus}/{task}, or add {corpus}=FILE to the command.",
            )
            for corpus in sorted(wanted - {*datasets} - known)
        ]
        if problems:
            raise DatasetError(problems)
        names = {corpus: datasets.get(corpus, f"datasets/{corpus}/{task}") for corpus in sorted(wanted)}
        return {corpus: self._execution.dataset(name) for corpus, name in names.items()}

    async def across(
        self,
        chosen: Sequence[SpecialisedPlaybook],
        corpora: Mapping[str, Dataset],
        *,
        metric: MetricChoice = "exact_match",
        options: Evaluating = ONCE,
        on_event: OnCell | None = None,
    ) -> Specialisation:
        """Specialised playbooks and their bases on every corpus."""
        library = self._resources.library
        specialists = [Specialist(each.name, each.corpus, each.base, library.get(each.playbook)) for each in chosen]
        bases = {each.base: library.get(each.base) for each in chosen}
        await self._execution.expect_harmless(*bases.values(), *(each.playbook for each in specialists))
        shared = _SharedBudget(self, options, on_event)

        async def score(name: str, playbook: Playbook, corpus: str, tasks: Dataset) -> Scorecard:
            return await shared.card(f"{name} on {corpus}", playbook, tasks, metric)

        return await evaluate_specialisation(bases, specialists, corpora, score, partial(seen_before, library))


def _score_document(score: SuiteScore) -> Json:
    change = score.change
    return {
        "name": score.name,
        "playbook": score.card.playbook,
        "dataset": score.dataset,
        "metric": score.metric,
        **interval_document(score.card.interval),
        "unscored": len(score.card.unscored),
        "cost_usd": score.card.worth_usd,
        "missed": score.missed or None,
        "change": change
        and {
            **interval_document(change.difference),
            "playbook": change.playbook,
            "at": change.at,
            "regressed": change.regressed,
        },
    }


class _SharedBudget:
    """Evaluations one after the other that share a limit of dollars."""

    def __init__(self, scorecards: Scorecards, options: Evaluating, on_event: OnCell | None) -> None:
        self._scorecards, self._options, self._on_event = scorecards, options, on_event
        self._paid_usd = 0.0

    async def card(self, name: str, playbook: Playbook, tasks: Tasks, metric: MetricChoice) -> Scorecard:
        limit, watch = self._options.max_cost_usd, self._on_event
        left = None if limit is None else max(0.0, limit - self._paid_usd)
        card = await self._scorecards.evaluate(
            playbook,
            tasks,
            metric=metric,
            options=replace(self._options, max_cost_usd=left),
            on_event=partial(watch, name) if watch else None,
        )
        self._paid_usd += card.cost_usd
        return card
