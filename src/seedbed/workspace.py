"""Workspace: one store, one set of models, five verbs."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from seedbed.errors import DatasetError, Problem, shown
from seedbed.playbooks.playbook import Playbook
from seedbed.premises import Premises
from seedbed.storage.store import Fact, Query, Ref

if TYPE_CHECKING:
    from seedbed.evaluation.dataset import Dataset
    from seedbed.evaluation.evaluate import Scorecard
    from seedbed.evaluation.evaluate import Watcher as CellWatcher
    from seedbed.evaluation.metrics import Metric
    from seedbed.evolution.budget import Budget
    from seedbed.evolution.evolve import Evolution, Optimizer
    from seedbed.evolution.evolve import Watcher as EvolutionWatcher
    from seedbed.experiments.compare import Watcher as AnswerWatcher
    from seedbed.experiments.estimate import Estimate
    from seedbed.experiments.fidelity import Fidelity
    from seedbed.experiments.history import History
    from seedbed.experiments.many import Ranking
    from seedbed.experiments.outlook import Outlook
    from seedbed.experiments.replay import Answerable
    from seedbed.experiments.verdict import Verdict
    from seedbed.runs.run import Heard, Run
    from seedbed.stage.stage import Stage
    from seedbed.stats.sequential import Answer

T = TypeVar("T")


class Workspace(Premises):
    """Everything put together: five verbs. Playbooks are given as Playbook, or by digest, ref or channel name."""

    async def run(
        self,
        playbook: Playbook | str,
        /,
        *,
        seed: int | None = None,
        max_cost_usd: float | None = None,
        hear: Callable[[Heard], None] | None = None,
        **inputs: Any,
    ) -> Run:
        """Perform a playbook once and record it. It never costs more than `max_cost_usd`, and concludes in time.

        Whoever wants to `hear` it is told every piece as it is said.
        """
        chosen = self.playbook(playbook)
        return await self.house.perform(chosen, inputs, _seed(seed), max_cost_usd=max_cost_usd, hear=hear)

    async def resume(
        self, run: str, *, max_cost_usd: float | None = None, hear: Callable[[Heard], None] | None = None
    ) -> Run:
        """Go on with a run that was interrupted or failed: what it was told is not asked again."""
        return await self.house.resume(run, max_cost_usd=max_cost_usd, hear=hear)

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
                self.house.router.learn(**fact.body)

    @asynccontextmanager
    async def recording(
        self, playbook: Playbook | str, /, *, seed: int | None = None, max_cost_usd: float | None = None, **inputs: Any
    ) -> AsyncIterator[Stage]:
        """A stage for an agent that lives elsewhere: what it does there is recorded as a run of the playbook.

        `stage.output` is what the run is said to have given.
        """
        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="run")
        async with self.house.recording(chosen, inputs, _seed(seed), max_cost_usd=max_cost_usd) as stage:
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
            replace(self.bench_on(parallel), timeout_seconds=timeout_seconds),
            replicates=replicates,
            max_cost_usd=max_cost_usd,
            watch=watch,
        )

    async def compare(
        self,
        control: Playbook | str,
        candidate: Playbook | str,
        *,
        on: Dataset,
        metric: Metric,
        alpha: float | None = None,
        seed: int = 0,
        rule: str | Mapping[str, Any] | None = None,
        replicates: int = 1,
        first_replicate: int = 0,
        channel: str | None = None,
        max_cost_usd: float | None = None,
        watch: AnswerWatcher | None = None,
        parallel: str | int | None = None,
    ) -> Verdict:
        """Decide whether the candidate is better, with a guaranteed error rate.

        On tasks that the candidate has not seen: DatasetError names those that it has. `rule` is a name, or a name with
        its settings, as in `{"rule": "exact", "effect": 0.1}`. Both begin with the `first_replicate` of each task: one
        that is not known yet is run anew. `alpha` is the error rate, 0.05 if nobody says. For a `channel` it is paid
        from its error budget, which says the error rate instead.
        """
        from seedbed.experiments.compare import compare
        from seedbed.stage.ledger import Ledger

        terms = self.terms(channel, alpha) if channel else None
        old, (new,) = self._compared(control, [candidate], on)
        return await compare(
            old,
            new,
            on,
            metric,
            self.bench_on(parallel),
            alpha=alpha,
            seed=seed,
            rule=rule,
            replicates=replicates,
            first_replicates=(first_replicate, first_replicate),
            channel=channel or "",
            terms=terms,
            ledger=Ledger(max_cost_usd, kept=0.0),
            watch=watch,
        )

    async def compare_many(
        self,
        baseline: Playbook | str,
        candidates: Sequence[Playbook | str],
        *,
        on: Dataset,
        metric: Metric,
        alpha: float = 0.05,
        seed: int = 0,
        effect: float | None = None,
        replicates: int = 1,
        max_cost_usd: float | None = None,
        watch: Callable[[Playbook, Answer], None] | None = None,
        parallel: str | int | None = None,
    ) -> Ranking:
        """Rank several candidates against one baseline, with one error rate for all of them together."""
        from seedbed.experiments.many import compare_many
        from seedbed.stage.ledger import Ledger

        old, new = self._compared(baseline, candidates, on)
        return await compare_many(
            old,
            new,
            on,
            metric,
            self.bench_on(parallel),
            alpha=alpha,
            seed=seed,
            effect=effect,
            replicates=replicates,
            ledger=Ledger(max_cost_usd, kept=0.0),
            watch=watch,
        )

    async def compare_replayed(
        self,
        control: Playbook | str,
        candidate: Playbook | str,
        *,
        metric: Metric,
        past: History,
        mode: str = "strict",
        alpha: float = 0.05,
        seed: int = 0,
        rule: str | Mapping[str, Any] | None = None,
        max_cost_usd: float | None = None,
        watch: AnswerWatcher | None = None,
        parallel: str | int | None = None,
    ) -> tuple[Verdict, Fidelity, Answerable]:
        """Compare on past runs, answered from their recordings; nothing in the world is done.

        Also how far replays of this mode come out as the runs did, and which of them the recordings can answer: the
        verdict is about those. It may choose what to try live; it does not prove what live runs would show. All that is
        live together never costs more than `max_cost_usd`. Raises DatasetError if there are none, and BudgetSpent.
        """
        from seedbed.experiments.compare import compare
        from seedbed.stage.ledger import Ledger

        money = Ledger(max_cost_usd, kept=0.0)
        old, (new,) = self._compared(control, [candidate], past.tasks)
        bench, base = await self.grounds(old, new, past, mode, money, parallel)
        given: Any = {"alpha": alpha, "seed": seed, "rule": rule, "ledger": money, "watch": watch}
        verdict = await compare(old, new, base.found.tasks, metric, bench, replay=base.told, **given)
        return verdict, base.fidelity, base.found

    async def estimate_replayed(
        self,
        control: Playbook | str,
        candidate: Playbook | str,
        *,
        metric: Metric,
        past: History,
        live_runs: int,
        mode: str = "strict",
        seed: int = 0,
        max_cost_usd: float | None = None,
        parallel: str | int | None = None,
    ) -> tuple[Estimate, Fidelity, Answerable]:
        """By how much live runs would differ, from all past runs replayed and `live_runs` of them also run live.

        However wrong replays are, the interval holds. It is no verdict. All that is live together never costs more than
        `max_cost_usd`. Raises DatasetError if no recording can answer both playbooks, and BudgetSpent.
        """
        from seedbed.experiments.estimate import estimate
        from seedbed.stage.ledger import Ledger

        money, live = Ledger(max_cost_usd, kept=0.0), self.bench_on(parallel)
        old, (new,) = self._compared(control, [candidate], past.tasks)
        bench, base = await self.grounds(old, new, past, mode, money, parallel)
        told = await estimate(old, new, base.found, metric, bench, live, live_runs=live_runs, seed=seed, ledger=money)
        return told, base.fidelity, base.found

    def outlook(
        self,
        control: Playbook | str,
        candidate: Playbook | str,
        *,
        on: Dataset,
        metric: Metric,
        alpha: float | None = None,
        seed: int = 0,
        rule: str | Mapping[str, Any] | None = None,
        replicates: int = 1,
        channel: str | None = None,
        effect: float = 0.1,
        discordance: float | None = None,
    ) -> Outlook:
        """What a comparison will take and may find, before anything is spent."""
        from seedbed.experiments.experiment import Experiment
        from seedbed.experiments.outlook import outlook

        rate = 0.05 if alpha is None else alpha
        if channel:
            terms = self.terms(channel, alpha)
            rate, rule = terms.alpha(self.next_level(channel), rule), terms.rule(rule)
        old, (new,) = self._compared(control, [candidate], on)
        plan = Experiment.plan(
            old.digest, new.digest, on, metric, alpha=rate, seed=seed, models={}, rule=rule, replicates=replicates
        )
        return outlook(self.store, plan, on, effect=effect, discordance=discordance)

    def next_level(self, channel: str) -> float:
        """The level that the next comparison for a channel gets from its error budget."""
        from seedbed.experiments.budget import next_level

        return next_level(self.store, channel, self.terms(channel))

    def _compared(
        self, control: Playbook | str, candidates: Sequence[Playbook | str], tasks: Dataset
    ) -> tuple[Playbook, list[Playbook]]:
        """What is going to be compared, kept, on tasks that no candidate has seen."""
        old, new = self.playbook(control), [self.playbook(each) for each in candidates]
        for each in (old, *new):
            self.library.keep(each, because="compared")
        for each in new:
            self._expect_unseen(each, tasks)
        return old, new

    def _expect_unseen(self, candidate: Playbook, tasks: Dataset) -> None:
        from seedbed.experiments.held_out import seen_before

        if seen := seen_before(self.library, candidate, tasks):
            named = ", ".join(shown(task.id) for task in seen[:5]) + (", …" if len(seen) > 5 else "")
            found = f"{len(seen)} of {len(tasks)} that the candidate was evolved on or is shown: {named}"
            remedy = "Compare on other tasks: what it was chosen on proves nothing."
            raise DatasetError([Problem("tasks", found, "tasks that it has not seen", remedy)])

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
        parallel: str | int | None = None,
        because: str = "evolved",
        watch: EvolutionWatcher | None = None,
    ) -> Evolution:
        """Search for a better playbook within a budget; every candidate is kept as a child of what it grew from.

        The tasks are parted: some are read, some decide, and some confirm at the end what was found, unless other
        tasks `confirm`. Begun again with the same arguments it goes on where it was.
        """
        from seedbed.evolution.arena import Benched
        from seedbed.evolution.budget import Budget
        from seedbed.evolution.evolve import evolve
        from seedbed.evolution.plan import Plan

        limit = Budget.parse(budget) if isinstance(budget, str) else budget
        plan = Plan.of(
            self.playbook(start), tasks, optimizer, confirm=confirm, seed=seed, budget=limit, patience=patience
        )
        metrics = list(metric) if isinstance(metric, Sequence) else [metric]
        arena = Benched(self.bench_on(parallel), metrics)
        return await evolve(plan, arena, self.library, because=because, watch=watch)

    async def release(
        self, playbook: Playbook | str, *, to: str, verdict: Verdict | None = None, because: str = ""
    ) -> Ref:
        """Put a playbook on a channel, if the channel's gates let it pass."""
        from seedbed.release.channels import release
        from seedbed.release.protection import required

        gates = required(to, self.protection(to))
        digest = self.library.keep(self.playbook(playbook), because="released")
        reason = because or (str(verdict) if verdict else "first release")
        return await release(self.library, to, digest, gates, verdict=verdict, because=reason)

    async def rollback(self, channel: str, *, because: str) -> Ref:
        """Return a channel to what it served before."""
        from seedbed.release.channels import rollback

        return rollback(self.library, channel, because=because)


def _seed(given: int | None) -> int:
    return random.SystemRandom().getrandbits(31) if given is None else given
