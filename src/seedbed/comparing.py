"""Comparing: the verb compare of a workspace, in all its forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seedbed.playbooks.playbook import Playbook
from seedbed.premises import Premises

if TYPE_CHECKING:
    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.experiments.compare import AnswerWatcher
    from seedbed.experiments.error_budget import BudgetTerms
    from seedbed.experiments.forecast import Forecast
    from seedbed.experiments.replay.estimate import Estimate
    from seedbed.experiments.replay.fidelity import Fidelity
    from seedbed.experiments.replay.history import History
    from seedbed.experiments.replay.replay import ReplayableTasks
    from seedbed.experiments.verdict import Ranking, Verdict
    from seedbed.release.live_comparison import LiveComparison
    from seedbed.stats.sequential.rule import Answer


class Comparing(Premises):
    """Premises on which playbooks are compared."""

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
        from seedbed.experiments.options import Comparing as Options
        from seedbed.spending.ledger import Ledger

        options = Options(
            alpha=alpha,
            seed=seed,
            rule=rule,
            replicates=replicates,
            first_replicate=first_replicate,
            channel=channel or "",
            terms=self.terms(channel, alpha) if channel else None,
        )
        context = replace(self.context_on(parallel), ledger=Ledger(max_cost_usd, kept=0.0))
        old, new = self.playbook(control), self.playbook(candidate)
        return await compare(old, new, on, metric, context, options, watch)

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
        from seedbed.experiments.compare import compare
        from seedbed.experiments.options import Comparing as Options
        from seedbed.spending.ledger import Ledger

        options = Options(alpha=alpha, seed=seed, effect=effect, replicates=replicates)
        context = replace(self.context_on(parallel), ledger=Ledger(max_cost_usd, kept=0.0))
        old, new = self.playbook(baseline), [self.playbook(each) for each in candidates]
        watcher = (lambda answer: watch(old, answer)) if watch else None
        verdict = await compare(old, new, on, metric, context, options, watcher)
        assert verdict.ranking
        return verdict.ranking

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
    ) -> tuple[Verdict, Fidelity, ReplayableTasks]:
        """Compare on past runs, answered from their recordings; nothing in the world is done.

        Also how far replays of this mode come out as the runs did, and which of them the recordings can answer: the
        verdict is about those. It may choose what to try live; it does not prove what live runs would show. All that is
        live together never costs more than `max_cost_usd`. Raises DatasetError if there are none, and BudgetSpent.
        """
        from seedbed.experiments.compare import run_experiment
        from seedbed.experiments.options import Comparing as Options
        from seedbed.experiments.replay.coverage import replay_past_runs
        from seedbed.runs.cassette import ReplayMode
        from seedbed.spending.ledger import Ledger

        context = replace(self.context_on(parallel), ledger=Ledger(max_cost_usd, kept=0.0))
        old, (new,) = self._compared(control, [candidate], past.tasks)
        replays = await replay_past_runs(old, new, past, ReplayMode.parse(mode), context)
        options = Options(alpha=alpha, seed=seed, rule=rule)
        verdict = await run_experiment(old, new, replays, metric, context, options, watch)
        return verdict, replays.fidelity, replays.replayable

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
    ) -> tuple[Estimate, Fidelity, ReplayableTasks]:
        """By how much live runs would differ, from all past runs replayed and `live_runs` of them also run live.

        However wrong replays are, the interval holds. It is no verdict. All that is live together never costs more than
        `max_cost_usd`. Raises DatasetError if no recording can answer both playbooks, and BudgetSpent.
        """
        from seedbed.experiments.replay.coverage import replay_past_runs
        from seedbed.experiments.replay.estimate import estimate_difference
        from seedbed.runs.cassette import ReplayMode
        from seedbed.spending.ledger import Ledger

        context = replace(self.context_on(parallel), ledger=Ledger(max_cost_usd, kept=0.0))
        old, (new,) = self._compared(control, [candidate], past.tasks)
        replays = await replay_past_runs(old, new, past, ReplayMode.parse(mode), context)
        estimate = await estimate_difference(old, new, replays, metric, context, live_runs=live_runs, seed=seed)
        return estimate, replays.fidelity, replays.replayable

    async def compare_live(
        self, channel: str, *, metric: str = "rating", alpha: float | None = None, conclude: bool = False
    ) -> LiveComparison:
        """How the canary of a channel does beside its control, by the feedback of those who met them.

        Registered at the first look; when it is decided, the verdict is recorded and part of the answer, and what comes
        later is not read. To `conclude` is to have a verdict now, decided or not. `alpha` is the error rate, 0.05 if
        nobody says; where the channel requires `error_budget` it is paid from that, which says it instead. It is
        invalid if the two are not met, or not rated, as often as each other. Raises NotFound if there is no canary, and
        nobody looked while there was.
        """
        from seedbed.release.live_comparison import LiveOptions, compare_canary

        name = channel.removeprefix("channels/")
        return compare_canary(self.library, name, LiveOptions(metric, alpha, self._paid(name, alpha), conclude))

    async def compare_channels(
        self, channel: str, *others: str, metric: str = "rating", alpha: float | None = None, conclude: bool = False
    ) -> list[LiveComparison]:
        """How each other channel does beside the first, by those whom `choose` sent to one of them. See `compare_live`.

        All of them together are wrong with a chance of at most `alpha`, or each is paid from the error budget of the
        first. When one of them comes to serve something else, it begins anew.
        """
        from seedbed.release.live_comparison import LiveOptions, compare_channels

        names = [each.removeprefix("channels/") for each in (channel, *others)]
        return compare_channels(self.library, names, LiveOptions(metric, alpha, self._paid(names[0], alpha), conclude))

    def _paid(self, channel: str, alpha: float | None) -> BudgetTerms | None:
        """The terms of a channel's error budget, if what is released there has to be paid from it."""
        from seedbed.release.gates.error_budget import error_budget
        from seedbed.release.gates.registry import build_gates

        if channel not in self.settings.channels or error_budget not in build_gates(channel, self.protection(channel)):
            return None
        return self.terms(channel, alpha)

    def forecast(
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
    ) -> Forecast:
        """What a comparison will take and may find, before anything is spent."""
        from seedbed.experiments.forecast import forecast
        from seedbed.experiments.options import Comparing as Options

        options = Options(
            alpha=alpha,
            seed=seed,
            rule=rule,
            replicates=replicates,
            channel=channel or "",
            terms=self.terms(channel, alpha) if channel else None,
            effect=effect,
            discordance=discordance,
        )
        old, (new,) = self._compared(control, [candidate], on)
        return forecast(old, new, on, metric, self.store, options)

    def next_level(self, channel: str) -> float:
        """The level that the next comparison for a channel gets from its error budget."""
        from seedbed.experiments.error_budget import next_level

        return next_level(self.store, channel, self.terms(channel))

    def _compared(
        self, control: Playbook | str, candidates: Sequence[Playbook | str], tasks: Dataset
    ) -> tuple[Playbook, list[Playbook]]:
        """What is going to be compared, kept, on tasks that no candidate has seen."""
        from seedbed.experiments.held_out import expect_unseen

        old, new = self.playbook(control), [self.playbook(each) for each in candidates]
        for each in (old, *new):
            self.library.keep(each, because="compared")
        for each in new:
            expect_unseen(self.library, each, tasks)
        return old, new
