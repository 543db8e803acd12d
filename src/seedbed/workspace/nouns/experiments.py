"""space.experiments: compare, forecast and estimate; what was compared, and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from seedbed.errors import Problem, SettingsError, expect_type
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.compare import abort, compare
from seedbed.experiments.evidence_sources import LiveTraffic, PastRuns, expect_used
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.forecast import Forecast, Prospect, forecast
from seedbed.experiments.live import LiveSource, is_live
from seedbed.experiments.options import DEFAULT, Comparing
from seedbed.experiments.proof import error_budget
from seedbed.experiments.proof.attempts import AttemptTerms, ReleaseAttempt, list_attempts
from seedbed.experiments.proof.certificate import Certificate, certificate, verify
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.experiments.proof.evidence_file import export_evidence, head
from seedbed.experiments.proof.evidence_file import verify_evidence as verify_evidence
from seedbed.experiments.proof.held_out import expect_unseen
from seedbed.experiments.replay.coverage import ReplayedRuns, replay_past_runs
from seedbed.experiments.replay.estimate import Estimate, estimate_difference
from seedbed.experiments.sentinel import Sentinel, play_sentinel, sentinel
from seedbed.experiments.verdict import ExperimentStatus, Verdict, experiment_status, experiments, find_experiment
from seedbed.playbooks.playbook import Playbook
from seedbed.release.audit import audit
from seedbed.release.channels import stable
from seedbed.release.gates.error_budget import error_budget as error_budget_gate
from seedbed.release.gates.registry import build_gates, build_slice_terms, build_terms
from seedbed.release.live_comparison import LiveComparison, LiveOptions, compare_canary, compare_channels, expect_served
from seedbed.release.states import stable_of
from seedbed.reports.numbers import counted
from seedbed.runs.cassette import ReplayMode
from seedbed.settings.channels import ChannelSettings
from seedbed.stage.program import Program
from seedbed.stats.multiplicity import Balance, ErrorBudget
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage.signing import check_signatures
from seedbed.storage.store import Digest, Json, Query, now, short
from seedbed.telemetry import during
from seedbed.workspace.execution import Execution, Tasks
from seedbed.workspace.resources import ONCE, AnyPlaybook, Evaluating, Resources


def _several(candidate: AnyPlaybook | Sequence[AnyPlaybook]) -> Sequence[AnyPlaybook]:
    return candidate if isinstance(candidate, list | tuple) else [candidate]  # type: ignore[list-item]


class Experiments:
    """Comparisons in a workspace: registered, decided with a guaranteed error rate, and verifiable."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._execution = Execution(resources)

    async def compare(
        self,
        control: AnyPlaybook,
        candidate: AnyPlaybook | Sequence[AnyPlaybook],
        *,
        on: Tasks | PastRuns | LiveTraffic,
        metric: Metric | str | None = None,
        options: Comparing | None = None,
        work: Evaluating = ONCE,
        program: Program | str | None = None,
        on_event: Callable[[Answer], None] | None = None,
    ) -> Verdict:
        """Decide whether a candidate is better; `Workspace.compare` does this for you."""
        own, options = self._resources, DEFAULT if options is None else options
        expect_type(options, Comparing, "options", "Comparing", "Write seedbed.Comparing(alpha=0.01).")
        expect_used(on, options, work, program=program)
        if isinstance(on, LiveTraffic):
            return self._live_verdict(on, [control, *_several(candidate)], metric or "rating", options)
        chosen = self._execution.metric(metric or "exact_match")
        source = on if isinstance(on, PastRuns) else self._execution.dataset(on, compared=True)
        options = replace(options, fresh=options.fresh or self._execution.is_fresh(on))
        old, *candidates = (own.performed(each, program) for each in (control, *_several(candidate)))
        if not isinstance(on, PastRuns):  # a replay changes nothing
            await self._execution.expect_harmless(old, *candidates)
        with during("compare"):
            return await compare(
                old,
                candidates if isinstance(candidate, list | tuple) else candidates[0],
                source,
                chosen,
                self._execution.context(work.parallel, work.max_cost_usd),
                self._for_release(options, old),
                on_event,
            )

    def _live_verdict(
        self, on: LiveTraffic, sides: Iterable[AnyPlaybook], metric: Metric | str, options: Comparing
    ) -> Verdict:
        """The verdict of live traffic, or what it says so far; of several channels, of the one that does best."""
        named = (None if side is None else self._resources.playbook(side).digest for side in sides)
        expect_served(self._resources.store, on.channels, *named)
        name = metric if isinstance(metric, str) else metric.name
        standings = self.compare_live(on, metric=name, alpha=options.alpha, exploratory=options.exploratory)
        return max((each.so_far for each in standings if each.so_far), key=lambda verdict: verdict.gain)

    def _for_channel(self, options: Comparing) -> Comparing:
        """The options with the terms of the channel's error budget, if a channel pays."""
        if not options.channel:
            return options
        terms = self.terms(options.channel, options.alpha)
        if self._paid(options.channel, options.alpha) is None:  # its attempts have an error rate of their own
            terms = replace(terms, unpaid=f"releases to {options.channel} need not be paid from its error budget")
        return replace(options, terms=terms)

    def _for_release(self, options: Comparing, control: Playbook) -> Comparing:
        """The options with the terms of an error budget, and, if a channel serves the control, of attempts."""
        options, channels = self._for_channel(options), self._serving(control.digest)
        if not channels:
            return options
        slices = dict.fromkeys(terms for channel in channels for terms in build_slice_terms(channel))
        return replace(options, attempts=AttemptTerms.of(channels), slices=tuple(slices))

    def _serving(self, playbook: Digest) -> list[ChannelSettings]:
        """The settings of all channels that serve a playbook."""
        serving = [ref for ref in self._resources.store.refs("channels/") if stable_of(ref.target) == playbook]
        return [self._resources.protection(ref.name.removeprefix("channels/")) for ref in serving]

    def compare_live(
        self, on: LiveTraffic, *, metric: str = "rating", alpha: float | None = None, exploratory: bool = False
    ) -> list[LiveComparison]:
        """How a canary does beside its control, or each other channel beside the first, by users' feedback.

        Registered at the first look; when it is decided the verdict is recorded, and what comes later is not read.
        Where the first channel requires `error_budget`, that budget sets the error rate, unless the comparison is
        exploratory. Raises NotFound if a channel does not exist, or if there is no canary and there was no look while
        it lasted.
        """
        names = [each.removeprefix("channels/") for each in on.channels]
        for each in names:
            self._resources.expect_channel(each)
        library = self._resources.library
        how = LiveOptions(metric, alpha, conclude=on.conclude, exploratory=exploratory)
        if not exploratory:
            channels = self._serving(stable(library.store, names[0]) or "")
            terms = AttemptTerms.of(channels) if channels else None
            how = replace(how, terms=self._paid(names[0], alpha), attempts=terms)
        return [compare_canary(library, names[0], how)] if len(names) == 1 else compare_channels(library, names, how)

    def _paid(self, channel: str, alpha: float | None) -> BudgetTerms | None:
        """The terms of a channel's error budget, if releases there have to be paid from it."""
        if channel not in self._resources.settings.channels:
            return None
        if error_budget_gate not in build_gates(channel, self._resources.protection(channel)):
            return None
        return self.terms(channel, alpha)

    def terms(self, channel: str, alpha: float | None = None) -> BudgetTerms:
        """The terms of a channel's error budget. They set the error rate, so no other may be given."""
        if alpha is not None:
            place = f"channels.{channel}.error_budget"
            raise SettingsError([Problem("alpha", f"{alpha:g}", f"none for a channel: its rate is set at {place}")])
        return build_terms(self._resources.protection(channel))

    def forecast(
        self,
        control: AnyPlaybook,
        candidate: AnyPlaybook,
        *,
        on: Tasks,
        metric: Metric | str = "exact_match",
        options: Comparing = DEFAULT,
    ) -> Forecast:
        """What a comparison will take and may find, before anything is spent."""
        old = self._resources.playbook(control)
        begun = self._execution.registration(old, [candidate], on, metric, self._for_release(options, old))
        _, (new,), tasks = self._compared(old, begun.candidates, begun.tasks)
        return forecast(old, new, tasks, begun.metric, self._resources.store, begun.options, begun.preview())

    def prospect(
        self,
        control: AnyPlaybook,
        candidates: Sequence[AnyPlaybook],
        *,
        on: Tasks,
        metric: Metric | str = "exact_match",
        options: Comparing = DEFAULT,
    ) -> Prospect:
        """Which attempt a comparison will be, and how many tasks are fresh, before anything is spent or stored."""
        old = self._resources.playbook(control)
        return self._execution.registration(old, candidates, on, metric, self._for_release(options, old)).preview()

    async def estimate(
        self,
        control: AnyPlaybook,
        candidate: AnyPlaybook,
        *,
        on: PastRuns,
        live_runs: int,
        metric: Metric | str = "exact_match",
        seed: int = 0,
        work: Evaluating = ONCE,
    ) -> tuple[Estimate, ReplayedRuns]:
        """By how much live runs would differ, from past runs replayed and `live_runs` of them also run live.

        The interval holds however wrong the replays are. It is not a verdict. Raises DatasetError and BudgetSpent.
        """
        chosen, old = self._execution.metric(metric), self._resources.playbook(control)
        past = on.draw(self._resources.store, old.digest, chosen.name, seed)
        old, (new,), _ = self._compared(old, [candidate], past.tasks)
        await self._execution.expect_harmless(old, new)
        context = self._execution.context(work.parallel, work.max_cost_usd)
        replays = await replay_past_runs(old, new, past, ReplayMode.parse(on.mode), context)
        return await estimate_difference(old, new, replays, chosen, context, live_runs=live_runs, seed=seed), replays

    def _compared(
        self, control: AnyPlaybook, candidates: Iterable[AnyPlaybook], tasks: Dataset
    ) -> tuple[Playbook, list[Playbook], Dataset]:
        """What is going to be compared, stored, on tasks that no candidate has seen."""
        library = self._resources.library
        old, new = self._resources.playbook(control), [self._resources.playbook(each) for each in candidates]
        for each in (old, *new):
            library.keep(each, because="compared")
        for each in new:
            expect_unseen(library, each, tasks)
        return old, new, tasks

    # Looking up

    def begun(self) -> Iterable[ExperimentStatus]:
        """Every comparison that was begun, newest first, and how it stands."""
        return experiments(self._resources.store)

    def find(self, name: str) -> Digest:
        """The digest of an experiment, by how it starts. Raises NotFound."""
        return find_experiment(self._resources.store, name)

    def get(self, name: str) -> ExperimentStatus:
        """A comparison and how it stands, by its digest or how that starts. Raises NotFound."""
        return experiment_status(self._resources.store, self.find(name))

    def source(self, plan: Experiment) -> tuple[str, str]:
        """Where the evidence of a comparison comes from: `live` or `dataset`, and which, in words."""
        if is_live(plan):
            return "live", LiveSource.of(self._resources.store, plan).description
        tasks = counted(len(plan.order), "task")
        return "dataset", f"{short(plan.dataset)}, {tasks} in an order from seed {plan.seed}"

    def rule(self, verdict: Verdict) -> Json:
        """The registered rule that a verdict follows from, with its numbers."""
        rule: Json = self._resources.store.get(verdict.experiment)["rule"]
        return rule

    def abort(self, name: str, *, because: str) -> Verdict:
        """Stop a comparison by hand. Its verdict is invalid for ever, and says why."""
        return abort(self._resources.store, self.find(name), because=because, by=self._resources.by, clock=now)

    def newest_verdict(self) -> str:
        """The digest of the experiment with the newest verdict; empty if there is none."""
        newest = self._resources.store.facts(Query(kind="verdict", newest=True, limit=1))
        return next((fact.key for fact in newest), "")

    # Evidence

    def certificate(self, name: str) -> Certificate:
        """Everything a verdict rests on, recomputed from raw facts."""
        return certificate(self._resources.store, self.find(name))

    def verify(self, names: Iterable[str] = ()) -> dict[Digest, list[Problem]]:
        """What differs in these verdicts, or in all, if every number is recomputed; and in every past release."""
        store = self._resources.store
        keys = [self.find(name) for name in names] or [fact.key for fact in store.facts(Query(kind="verdict"))]
        past = [*audit(store), *check_signatures(store, self._resources.settings.signers)]
        if not keys and past:
            return {"": past}  # there is no verdict yet, but something was released
        return {key: [*problems, *past] for key, problems in verify(store, keys).items()}

    def head(self) -> Json:
        """The end of the chain of facts: its link, number and time. Kept elsewhere, it shows later what was changed."""
        return head(self._resources.upkept_store)

    def export_evidence(self, name: str, path: Path | str) -> Path:
        """Write everything a verdict rests on to one file, which `seedbed.verify_evidence` checks without the store."""
        return export_evidence(self._resources.upkept_store, self.find(name), path)

    def sign(self) -> int:
        """Sign what you registered, approved and released, with your `signing_key`. Returns how much was signed."""
        return self._resources.sign()

    def attempts(self, name: str | None = None) -> list[ReleaseAttempt]:
        """All attempts to replace what a channel serves now, or a playbook, or anything. Raises NotFound."""
        if name is None:
            return list_attempts(self._resources.store)
        ref = self._resources.store.ref(f"channels/{name.removeprefix('channels/')}")
        serves = stable_of(ref.target) if ref else None
        return list_attempts(self._resources.store, serves or self._resources.playbook(name).digest)

    def error_budget(self, channel: str) -> tuple[ErrorBudget, Balance]:
        """What is left of a channel's error budget, which all candidates ever judged for it share."""
        store, terms = self._resources.store, self.terms(channel)
        budget = error_budget.error_budget(store, channel, terms)
        return budget, replace(budget.balance(), next_alpha=self.next_level(channel))

    def next_level(self, channel: str) -> float:
        """The error rate that the next comparison for a channel gets from its error budget."""
        return error_budget.next_level(self._resources.store, channel, self.terms(channel))

    async def sentinel(
        self,
        playbook: AnyPlaybook | None = None,
        tasks: Tasks | None = None,
        *,
        metric: Metric | str = "exact_match",
        times: int = 1,
        alpha: float = 0.05,
        on_event: Callable[[Verdict], None] | None = None,
    ) -> Sentinel:
        """How often a playbook was called better than itself: the error rate that is really achieved.

        With a playbook and tasks, `times` more A/A comparisons are run first, by the same code as every comparison.
        """
        if playbook is None or tasks is None:
            return sentinel(self._resources.store, alpha)
        chosen, dataset = self._resources.playbook(playbook), self._execution.dataset(tasks)
        await self._execution.expect_harmless(chosen)
        self._resources.library.keep(chosen, because="compared")
        by, context = self._execution.metric(metric), self._execution.context()
        return await play_sentinel(chosen, dataset, by, context, Comparing(alpha=alpha), times=times, watch=on_event)

    def report(self, name: str, file: Path, names: tuple[str, str] | None = None) -> None:
        """Write the report of a comparison to a new file, in the format of its ending; `names` of the two playbooks."""
        verdict = Verdict.recall(self._resources.store, self.find(name))
        verdict.export(file, store=self._resources.store, names=names)
