"""Workspace: one store, one set of models, five verbs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from seedbed import plugins
from seedbed.errors import Problem, SeedbedError, SettingsError, StoreError, expect_type, shown
from seedbed.models.routing.request import QualityLevel
from seedbed.playbooks.warnings import unused_inputs
from seedbed.runs.run import RunLabels
from seedbed.settings import Settings
from seedbed.storage.dry_run import DryRunStore
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Ref, Store
from seedbed.workspace.resources import AnyPlaybook, Evaluating, Resources, new_seed

if TYPE_CHECKING:
    from seedbed.evaluation.cells import Cell
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evaluation.scorecard import Scorecard
    from seedbed.evolution.evolve import OnProgress
    from seedbed.evolution.plan import SearchOptions
    from seedbed.evolution.protocols import Optimizer
    from seedbed.evolution.searches import Evolution
    from seedbed.evolution.training import Training, TrainingStep
    from seedbed.experiments.evidence_sources import LiveTraffic, PastRuns
    from seedbed.experiments.options import Comparing
    from seedbed.experiments.verdict import Verdict
    from seedbed.release.assignment import Choice
    from seedbed.runs.run import Run, RunEvent
    from seedbed.spending.budget import Budget
    from seedbed.stage.confirmation import Confirm, Person
    from seedbed.stage.program import Program
    from seedbed.stats.sequential.stopping_rule import Answer
    from seedbed.workspace.execution import MetricChoice, Tasks
    from seedbed.workspace.nouns.analysis import Analysis
    from seedbed.workspace.nouns.channels import Channels
    from seedbed.workspace.nouns.datasets import Datasets
    from seedbed.workspace.nouns.experiments import Experiments
    from seedbed.workspace.nouns.judges import Judges
    from seedbed.workspace.nouns.metrics import Metrics
    from seedbed.workspace.nouns.models import Models
    from seedbed.workspace.nouns.playbooks import Playbooks
    from seedbed.workspace.nouns.reviews import Reviews
    from seedbed.workspace.nouns.runs import Runs
    from seedbed.workspace.nouns.scorecards import Scorecards
    from seedbed.workspace.nouns.searches import Searches
    from seedbed.workspace.nouns.storage import Storage

PARTS = (
    "playbooks",
    "datasets",
    "runs",
    "scorecards",
    "experiments",
    "searches",
    "channels",
    "reviews",
    "models",
    "judges",
    "analysis",
    "metrics",
    "storage",
)
"""What a workspace has by noun: each a module of this package with a class of that name, imported when first used."""

_log = logging.getLogger("seedbed")


class Workspace:
    """Everything put together: five verbs, and what they leave behind by noun.

    Wherever a playbook, dataset, metric, optimizer or model is expected, its name, its path or the object itself is
    accepted; anything else raises a SeedbedError that says what was expected.
    """

    playbooks: Playbooks
    datasets: Datasets
    runs: Runs
    scorecards: Scorecards
    experiments: Experiments
    searches: Searches
    channels: Channels
    reviews: Reviews
    models: Models
    judges: Judges
    analysis: Analysis
    metrics: Metrics
    storage: Storage

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        tools: Iterable[Any] = (),
        confirm: Confirm | Person | None = None,
        resources: Resources | None = None,
    ) -> None:
        self._resources = resources or Resources(settings, store, list(tools), confirm)
        self._closed = False

    @property
    def resources(self) -> Resources:
        """What the workspace owns. Raises StoreError once it is closed."""
        if self._closed:
            raise closed()
        return self._resources

    def __getattr__(self, name: str) -> Any:
        """A part of the workspace; a run needs no statistics, so each is imported when it is first used."""
        if name not in PARTS:
            raise AttributeError(f"a workspace has no {name!r}. {plugins.suggestion(name, dir(self))}".rstrip())
        part = plugins.load(f"seedbed.workspace.nouns.{name}:{name.title()}", name)(self.resources)
        vars(self)[name] = part
        return part

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *PARTS})

    def __repr__(self) -> str:
        own = self._resources
        return f"Workspace(store={own.settings.store!r}, by={own.by!r}{', closed' if self._closed else ''})"

    @property
    def settings(self) -> Settings:
        return self.resources.settings

    @property
    def store(self) -> Store:
        return self.resources.store

    @property
    def by(self) -> str:
        """Who works here; whatever moves a ref is recorded with this name."""
        return self.resources.by

    @property
    def tools(self) -> list[Any]:
        """What programs may call: functions, LangChain tools, or `Tool`."""
        return self.resources.tools

    @tools.setter
    def tools(self, tools: Iterable[Any]) -> None:
        self.resources.tools = list(tools)

    def close(self) -> None:
        """Close what was opened here; `async with` does this for you, and waits for it."""
        if not self._closed:
            self._close()
            self._resources.close()

    def _close(self) -> None:
        self._closed = True
        for part in PARTS:  # the next use asks for it again, and is told
            vars(self).pop(part, None)

    def acting(self, by: str) -> Workspace:
        """The same workspace for another person. Closing it closes nothing."""
        expect_type(by, str, "by", "the name of a person")
        return _of(self.resources.acting(by))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._closed:
            self._close()
            await self._resources.aclose()

    def __enter__(self) -> NoReturn:
        remedy = "Write `async with`, or `with seedbed.open_blocking()` in code without await."
        raise SeedbedError(Problem("seedbed.open", "`with`", "`async with`", remedy))

    def __exit__(self, *_: object) -> None:
        """Python looks for it before it enters."""

    # The verbs

    async def run(
        self,
        playbook: AnyPlaybook,
        /,
        *,
        key: str | None = None,
        seed: int | None = None,
        max_cost_usd: float | None = None,
        quality: QualityLevel | None = None,
        program: Program | str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
        **inputs: Any,
    ) -> Run:
        """Perform a playbook once and record it. It never costs more than `max_cost_usd`.

        With the `key` of a user, a channel plays what it serves them: the canary for its share of users, as
        `channels.choose` says; without one, the stable playbook. A `program`, an async function or `module:function`,
        performs it in place of its own, and is part of what is recorded. With `quality="maximum"` the best models that
        there are answer. `on_event` receives each piece of the answer as it arrives.
        """
        expect_type(seed, int | None, "seed", "a whole number")
        if quality not in (None, "balanced", "maximum"):
            raise SettingsError([Problem("quality", shown(quality), "balanced or maximum")])
        expect_type(on_event, Callable | None, "on_event", "a function of an event")  # type: ignore[arg-type]
        runner = await off_loop(lambda: self.resources.runner)
        run, scopes = "", self.resources.scopes(playbook, key)
        if key is not None:
            run = runner.new_run([str(playbook), key, inputs])
            playbook = (await self.channels.choose(playbook, key=key, run=run)).playbook  # type: ignore[arg-type]
        limits = Evaluating(1, max_cost_usd)
        chosen = await off_loop(self.resources.performed, playbook, program)
        for unused in unused_inputs(chosen, inputs):
            _log.warning("%s", unused)
        labels = RunLabels(run, scopes, "maximum" if quality == "maximum" else "")
        return await runner.perform(
            chosen, inputs, new_seed(seed), max_cost_usd=limits.max_cost_usd, on_event=on_event, run=labels
        )

    async def evaluate(
        self,
        playbook: AnyPlaybook,
        tasks: Tasks,
        *,
        metric: MetricChoice = "exact_match",
        replicates: int = 1,
        max_cost_usd: float | None = None,
        timeout_seconds: float | None = None,
        parallel: str | int | None = None,
        program: Program | str | None = None,
        on_event: Callable[[Cell], None] | None = None,
    ) -> Scorecard:
        """Score a playbook over tasks by one metric or several; the first one decides. Cells paid before are reused.

        It never costs more than `max_cost_usd`; cells beyond the budget have no score, and are tried next time.
        So are runs that take longer than `timeout_seconds`. `parallel` is `loop`, `processes`, a number of them, `ray`
        or `ray://HOST:PORT`; the default is what the workspace file says. `program` is as in `run`.
        """
        options = Evaluating(replicates, max_cost_usd, parallel, timeout_seconds)
        playbook = playbook if program is None else self.resources.performed(playbook, program)
        return await self.scorecards.evaluate(playbook, tasks, metric=metric, options=options, on_event=on_event)

    async def release(
        self, playbook: AnyPlaybook, *, to: str, because: Verdict | str = "", share: float | None = None
    ) -> Ref:
        """Put a playbook on a channel if its gates let it pass. See `channels.release`."""
        return await self.channels.release(playbook, to=to, because=because, share=share)

    async def rollback(self, channel: str, *, because: str) -> Ref:
        """Take the canary of a channel away; without one, return to what was settled before."""
        return await self.channels.rollback(channel, because=because)

    def feedback(self, on: Run | Choice | str, rating: float, comment: str = "", *, metric: str = "rating") -> Fact:
        """Attach an outcome from 0 to 1 to a run or a choice, such as a user's rating. See `channels.feedback`."""
        return self.channels.feedback(on, rating, comment, metric=metric)

    async def compare(
        self,
        control: AnyPlaybook,
        candidate: AnyPlaybook | Sequence[AnyPlaybook],
        *,
        on: Tasks | PastRuns | LiveTraffic,
        metric: Metric | str | None = None,
        options: Comparing | None = None,
        max_cost_usd: float | None = None,
        parallel: str | int | None = None,
        program: Program | str | None = None,
        on_event: Callable[[Answer], None] | None = None,
    ) -> Verdict:
        """Decide whether the candidate is better than the control, with a guaranteed error rate.

        `on` is where the evidence comes from: tasks that the candidate has not seen (a dataset, a path or a name),
        `past_runs(…)` of the control, replayed, or `live("production")`, users' feedback. Several candidates are
        ranked with one error rate for all: the verdict is that of the best, and `verdict.ranking` has all of them.
        The default metric is `exact_match`, and for live traffic the feedback called `rating`. `options` says by which
        rule, at which error rate and for which goal. A `program`, as in `run`, performs both sides, except on past
        runs. An interrupted comparison continues where it was, and repeating one returns its verdict.
        """
        work = Evaluating(max_cost_usd=max_cost_usd, parallel=parallel)
        return await self.experiments.compare(
            control, candidate, on=on, metric=metric, options=options, work=work, program=program, on_event=on_event
        )

    async def evolve(
        self,
        playbook: AnyPlaybook,
        tasks: Tasks,
        *,
        metric: MetricChoice | None = None,
        optimizer: Optimizer | str | None = None,
        budget: Budget | str | None = None,
        options: SearchOptions | None = None,
        parallel: str | int | None = None,
        program: Program | str | None = None,
        on_event: OnProgress | None = None,
    ) -> Evolution:
        """Search for a better playbook within a budget; every candidate is stored as a child of what it grew from.

        The tasks are split: the optimizer reads some, some decide, and some confirm at the end what was found, unless
        the `options` name other tasks to confirm by. The default metric is `exact_match`, the default optimizer a
        portfolio and the default budget 500 runs, unless the `options` say otherwise. Started again with the same
        arguments it continues where it was. `program` is as in `run`.
        """
        playbook = playbook if program is None else self.resources.performed(playbook, program)
        searches = self.searches
        chosen = searches.options(options, optimizer=optimizer, budget=budget)
        return await searches.evolve(
            playbook, tasks, metric=metric, options=chosen, parallel=parallel, on_event=on_event
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
        """One step of a live system that learns: a branch answers a task whose answer is known.

        When enough such examples are in, a search over them moves the branch to what it found, if a part of them that
        decided nothing confirms it. A branch serves no user before it is released.
        """
        return await self.searches.train(branch, task, expected, metric=metric, training=training, parallel=parallel)

    def stop(self, *, because: str = "", lift: bool = False) -> Fact:
        """Halt every run, search and job of this workspace at its next call, on all machines, or `lift` the stop.

        The runs fail with the reason, and can be resumed when the stop is lifted.
        """
        stop = self.resources.runner.stop
        return stop.lift(because, self.by) if lift else stop.set(because, self.by)

    def dry_run(self) -> Workspace:
        """The same workspace on a store that forgets: everything can be tried and nothing is stored."""
        own = self.resources
        resources = Resources(self.settings, DryRunStore(self.store), own.tools, own.confirm, own.real_tools)
        return _of(resources)


def closed() -> StoreError:
    """The error of a workspace that is used after it was closed."""
    remedy = "Use it within its `with`, or open another one."
    return StoreError(Problem("workspace", "one that was closed", "one that is open", remedy))


def _of(resources: Resources) -> Workspace:
    return Workspace(resources.settings, resources.store, resources=resources)
