"""Workspace: one store, one set of models, five verbs."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from seedbed.comparing import Comparing
from seedbed.errors import Problem, SettingsError
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Fact, Query, Ref

if TYPE_CHECKING:
    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.evaluate import Watcher as CellWatcher
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evaluation.scorecard import Scorecard
    from seedbed.evolution.evolve import Evolution
    from seedbed.evolution.evolve import OnProgress as EvolutionWatcher
    from seedbed.evolution.protocols import Optimizer
    from seedbed.evolution.training import TrainingStep
    from seedbed.experiments.verdict import Verdict
    from seedbed.release.assignment import Choice, Reader
    from seedbed.release.gates.gate import Gate
    from seedbed.release.monitor.loop import WatchResult
    from seedbed.release.monitor.monitor import Monitor
    from seedbed.runs.run import Run, RunEvent
    from seedbed.spending.account import Budget
    from seedbed.stage.stage import Stage

T = TypeVar("T")


class Workspace(Comparing):
    """Everything put together: five verbs. Playbooks are given as Playbook, or by digest, ref or channel name."""

    async def run(
        self,
        playbook: Playbook | str,
        /,
        *,
        key: str | None = None,
        seed: int | None = None,
        max_cost_usd: float | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
        **inputs: Any,
    ) -> Run:
        """Perform a playbook once and record it. It never costs more than `max_cost_usd`, and concludes in time.

        With the `key` of who is served, a channel plays what they meet: the canary for its share of them, as `choose`
        says; without, what is stable. Whoever wants to `hear` it is told every piece as it is said.
        """
        run = ""
        if key is not None:
            run = uuid.uuid4().hex
            playbook = (await self._chosen(playbook, key, run)).playbook
        chosen = self.playbook(playbook)
        return await self.runner.perform(
            chosen, inputs, _seed(seed), max_cost_usd=max_cost_usd, on_event=on_event, run=run
        )

    async def choose(self, channel: str, *others: str, key: str) -> Choice:
        """What a channel serves to whoever has that key, for an agent that lives elsewhere; written down first.

        The same key meets the same playbook, and stays with the canary when its share grows. Of several channels it
        meets one, each with the same chance. While the store cannot be reached it is what was stable on the first when
        that last answered, and flagged `stale`.
        """
        from seedbed.release.assignment import choose_among

        if not others:
            return await self._chosen(channel, key)
        return await choose_among([self._reader(each) for each in (channel, *others)], key)

    async def _chosen(self, channel: Playbook | str, key: str, run: str = "") -> Choice:
        from seedbed.release.assignment import choose

        if not isinstance(channel, str):
            raise SettingsError([Problem("key", "a playbook", "a channel: only those choose by a key")])
        return await choose(self._reader(channel), key, run=run)

    def _reader(self, channel: str) -> Reader:
        from seedbed.release.assignment import Reader

        name = channel.removeprefix("channels/")
        return self._readers.get(name) or self._readers.setdefault(name, Reader(self.library, name))

    @cached_property
    def _readers(self) -> dict[str, Reader]:
        return {}

    def feedback(self, on: Run | Choice | str, rating: float, comment: str = "", *, metric: str = "rating") -> Fact:
        """Attach what came of a run, or of a choice, to it: what a person thought of it, or any outcome, from 0 to 1.

        Of several by the same metric the newest counts. Raises NotFound if there is no such run or exposure.
        """
        from seedbed.release.assignment import Choice, feedback

        name = on if isinstance(on, str) else on.exposure if isinstance(on, Choice) else on.id
        return feedback(self.library, name, rating, comment, metric=metric)

    async def resume(
        self, run: str, *, max_cost_usd: float | None = None, on_event: Callable[[RunEvent], None] | None = None
    ) -> Run:
        """Go on with a run that was interrupted or failed: what it was told is not asked again."""
        return await self.runner.resume(run, max_cost_usd=max_cost_usd, on_event=on_event)

    def learn(self, run: Run, score: float) -> None:
        """Tell the router how good a run was, from 0 to 1: every model it chose in it is remembered by that."""
        turns = {turn.step or turn.role: turn for turn in run.turns}
        outcomes = []
        for choice in self.store.facts(Query(kind="routing", subject=run.id)):
            if turn := turns.get(choice.body["step"]):
                body = {"task_type": choice.body["task_type"], "model": turn.model, "score": score}
                body |= {"cost_usd": turn.cost_usd, "latency_seconds": turn.latency_seconds}
                at = datetime.now(UTC)
                outcomes.append(
                    Fact(kind="outcome", key=choice.key, subject=run.id, at=at, by=self.by, body=body, value=score)
                )
        for fact in outcomes:
            if self.store.append([fact]):
                self.runner.router.learn(**fact.body)

    @asynccontextmanager
    async def recording(
        self, playbook: Playbook | str, /, *, seed: int | None = None, max_cost_usd: float | None = None, **inputs: Any
    ) -> AsyncIterator[Stage]:
        """A stage for an agent that lives elsewhere: what it does there is recorded as a run of the playbook.

        `stage.output` is what the run is said to have given.
        """
        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="run")
        async with self.runner.recording(chosen, inputs, _seed(seed), max_cost_usd=max_cost_usd) as stage:
            yield stage

    def recorded(
        self, playbook: Playbook | str, /, *, seed: int | None = None, max_cost_usd: float | None = None
    ) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
        """Have each call of an async function recorded as a run: its arguments are the inputs, its result the output.

        A parameter called `stage` is given the stage. What the function raises is recorded, and raised again.
        """
        from seedbed.stage.recorded import recorded

        def recording(**inputs: Any) -> AbstractAsyncContextManager[Stage]:
            return self.recording(playbook, seed=seed, max_cost_usd=max_cost_usd, **inputs)

        return lambda function: recorded(function, recording)

    async def evaluate(
        self,
        playbook: Playbook | str,
        tasks: Dataset,
        metrics: Metric | Sequence[Metric],
        *,
        replicates: int = 1,
        max_cost_usd: float | None = None,
        timeout_seconds: float | None = None,
        watch: CellWatcher | None = None,
        parallel: str | int | None = None,
    ) -> Scorecard:
        """Score a playbook over tasks, by the first metric above all; what was paid before is reused.

        It never costs more than `max_cost_usd`; what the money does not last for has no score, and is tried next time.
        So is a run that takes longer than `timeout_seconds`.
        `parallel` says where it is done: `loop`, `processes`, a number of them, `ray` or `ray://HOST:PORT`; as the
        workspace file says if nothing is given.
        """
        from seedbed.evaluation.evaluate import evaluate

        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="evaluated")
        self.store.put("dataset", tasks.content())
        return await evaluate(
            chosen,
            tasks,
            metrics,
            replace(self.context_on(parallel), timeout_seconds=timeout_seconds),
            replicates=replicates,
            max_cost_usd=max_cost_usd,
            watch=watch,
        )

    async def evolve(
        self,
        start: Playbook | str,
        tasks: Dataset,
        *,
        metric: Metric | Sequence[Metric],
        optimizer: Optimizer,
        budget: Budget | str = "500 runs",
        confirm: Dataset | None = None,
        seed: int = 0,
        patience: int | None = None,
        surrogate: bool = False,
        parallel: str | int | None = None,
        because: str = "evolved",
        watch: EvolutionWatcher | None = None,
    ) -> Evolution:
        """Search for a better playbook within a budget; every candidate is kept as a child of what it grew from.

        The tasks are parted: some are read, some decide, and some confirm at the end what was found, unless other
        tasks `confirm`. With a `surrogate` candidates that seem hopeless are skipped, and some of those audited. Begun
        again with the same arguments it goes on where it was.
        """
        from seedbed.evolution.evaluators import RunEvaluator
        from seedbed.evolution.evolve import evolve
        from seedbed.evolution.plan import Plan
        from seedbed.spending.account import Budget

        limit = Budget.parse(budget) if isinstance(budget, str) else budget
        plan = Plan.of(
            self.playbook(start),
            tasks,
            optimizer,
            confirm=confirm,
            seed=seed,
            budget=limit,
            patience=patience,
            surrogate=surrogate,
        )
        metrics = list(metric) if isinstance(metric, Sequence) else [metric]
        arena = RunEvaluator(self.context_on(parallel), metrics)
        return await evolve(plan, arena, self.library, because=because, on_event=watch)

    async def train(
        self,
        line: str,
        task: Mapping[str, Any],
        expected: Any,
        *,
        metric: Metric | Sequence[Metric],
        optimizer: Optimizer | str = "portfolio",
        bank: Sequence[str] = (),
        reflector: str | None = None,
        enough: int = 40,
        budget: Budget | str = "400 runs",
        parallel: str | int | None = None,
    ) -> TrainingStep:
        """One step of a live system that learns: a branch answers a task whose answer is known.

        When `enough` such examples are in, a search over them within the `budget` moves the branch to what it found, if
        a part of them that decided nothing confirms it. Nobody is served by a branch before it is released.
        """
        from seedbed.evaluation.datasets.dataset import Task
        from seedbed.evolution.evaluators import RunEvaluator
        from seedbed.evolution.training import Training, train
        from seedbed.spending.account import Budget
        from seedbed.storage.store import digest

        limit = Budget.parse(budget) if isinstance(budget, str) else budget
        metrics = list(metric) if isinstance(metric, Sequence) else [metric]
        example = Task(digest("example", dict(task))[3:19], task, expected)
        arena = RunEvaluator(self.context_on(parallel), metrics)
        training = Training(line, optimizer, tuple(bank), reflector, enough, limit)
        return await train(training, example, arena, self.library)

    async def release(
        self,
        playbook: Playbook | str,
        *,
        to: str,
        verdict: Verdict | None = None,
        because: str = "",
        share: float | None = None,
    ) -> Ref:
        """Put a playbook on a channel, if the channel's gates let it pass: for a share of those served, or for all.

        A channel with a ramp begins with its first share.
        """
        from seedbed.release.channels import release
        from seedbed.release.gates.registry import build_gates
        from seedbed.release.monitor.guards import build_watch
        from seedbed.release.ramp import build_ramp

        protection = self.protection(to)
        gates, steps = build_gates(to, protection), build_ramp(protection)
        kept = build_watch(protection).kept_back(self.library.clock())
        digest = self.library.keep(self.playbook(playbook), because="released")
        reason = because or (str(verdict) if verdict else "first release")
        told: Any = {"verdict": verdict, "because": reason, "share": share, "ramp": steps, "keep_back": kept}
        require = [gate.written for gate in protection.require]
        return await release(self.library, to, digest, gates, **told, require=require)

    async def promote(self, channel: str, *, because: str, share: float | None = None) -> Ref:
        """Give the canary of a channel its next share; after the last it is what the channel serves.

        Not while the monitor is alarmed about it, or a reviewer refuses it.
        """
        from seedbed.errors import NotFound
        from seedbed.release.channels import promote
        from seedbed.release.gates.registry import build_gates
        from seedbed.release.gates.review import Review
        from seedbed.release.gates.risk import Risk
        from seedbed.release.monitor.loop import no_alarm_gate
        from seedbed.release.ramp import build_ramp

        protection = self.settings.channel(channel)
        asked = build_gates(channel, protection)
        gates: list[Gate] = [gate for gate in asked if isinstance(gate, Risk | Review)]
        steps, monitor = build_ramp(protection), self._watching(channel)
        with suppress(NotFound):  # of which promote tells more
            gates.append(no_alarm_gate(monitor.look()))
        kept = monitor.watch.kept_back(self.library.clock())
        told: Any = {"because": because, "share": share, "ramp": steps, "keep_back": kept}
        return await promote(self.library, channel, gates, **told)

    def monitor(self, channel: str) -> Monitor:
        """Who watches a channel by the guards under `canary` in its settings. It looks, and changes nothing."""
        from seedbed.release.monitor.guards import build_watch
        from seedbed.release.monitor.monitor import Monitor

        guards = build_watch(self.settings.channel(channel))
        return Monitor(self.store, channel, guards, clock=self.library.clock)

    async def watch(self, channel: str, *, tell: bool = True) -> WatchResult:
        """Look at a channel once: take back what does harm, and `tell` people as `alerts` in the settings says."""
        from seedbed.release.alerts.senders.registry import build_senders
        from seedbed.release.monitor.loop import watch_once

        return await watch_once(self.library, self._watching(channel), build_senders(self.settings) if tell else [])

    def _watching(self, channel: str) -> Monitor:
        """The monitor that has read what there was to read."""
        return self._monitors.get(channel) or self._monitors.setdefault(channel, self.monitor(channel))

    @cached_property
    def _monitors(self) -> dict[str, Monitor]:
        return {}

    async def rollback(self, channel: str, *, because: str) -> Ref:
        """Take the canary of a channel away; without one, return to what was settled before."""
        from seedbed.release.channels import rollback

        return rollback(self.library, channel, because=because)

    async def freeze(self, channel: str, *, because: str) -> Ref:
        """Let a channel move no more, but back: the emergency stop."""
        from seedbed.release.channels import freeze

        return freeze(self.library, channel, because=because)

    async def unfreeze(self, channel: str, *, because: str) -> Ref:
        """Let a frozen channel move again."""
        from seedbed.release.channels import unfreeze

        return unfreeze(self.library, channel, because=because)


def _seed(given: int | None) -> int:
    return random.SystemRandom().getrandbits(31) if given is None else given
