"""space.experiments: compare, forecast and estimate; what was compared, and the evidence for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from seedbed.errors import PlaybookError, Problem, SettingsError, expect_type
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.experiments.compare import abort, compare
from seedbed.experiments.evidence_sources import LiveTraffic, PastRuns, expect_used
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.forecast import Forecast, forecast
from seedbed.experiments.live import LiveSource, is_live
from seedbed.experiments.options import DEFAULT, Comparing
from seedbed.experiments.patterns.patterns import Patterns, find_patterns
from seedbed.experiments.patterns.suggestion import Suggestion, suggest
from seedbed.experiments.patterns.traits import ScoredRuns, gather_runs
from seedbed.experiments.proof import error_budget
from seedbed.experiments.proof.attempts import AttemptTerms, ReleaseAttempt, list_attempts
from seedbed.experiments.proof.certificate import Certificate, certificate, verify
from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.experiments.proof.evidence_file import export_evidence, head
from seedbed.experiments.proof.evidence_file import verify_evidence as verify_evidence
from seedbed.experiments.proof.held_out import expect_unseen
from seedbed.experiments.replay.coverage import ReplayedRuns, replay_past_runs
from seedbed.experiments.replay.estimate import Estimate, estimate_difference
from seedbed.experiments.screening.policies import load_policy
from seedbed.experiments.screening.screening import Screening, read_decisions, screen_policy
from seedbed.experiments.sentinel import Sentinel, play_sentinel, sentinel
from seedbed.experiments.verdict import ExperimentStatus, Verdict, experiment_status, experiments, find_experiment
from seedbed.playbooks.playbook import Playbook
from seedbed.release.audit import audit
from seedbed.release.channels import stable
from seedbed.release.gates.error_budget import error_budget as error_budget_gate
from seedbed.release.gates.registry import build_gates, build_slice_terms, build_terms
from seedbed.release.live_comparison import LiveComparison, LiveOptions, compare_canary, compare_channels
from seedbed.release.states import canary_of, stable_of
from seedbed.reports.numbers import counted
from seedbed.runs.cassette import ReplayMode
from seedbed.settings.channels import ChannelSettings
from seedbed.stage.program import Program
from seedbed.stats.multiplicity import Balance, ErrorBudget
from seedbed.stats.sequential.rule import Answer
from seedbed.storage.signing import check_signatures
from seedbed.storage.store import Digest, Json, Query, now, short
from seedbed.workspace.execution import Execution, Tasks
from seedbed.workspace.resources import ONCE, AnyPlaybook, Evaluating, Resources

OUTCOME = "outcome"
"""Stands for a metric where users said how good runs were."""


def _attempt_terms(channels: Sequence[ChannelSettings]) -> AttemptTerms:
    """How attempts to replace what these channels serve share one error rate: by the strictest, and at the highest
    rate by which any of them would release."""
    errors = [error for channel in channels if (error := channel.highest_error) is not None]
    return AttemptTerms(min(channel.attempts.first for channel in channels), max(errors, default=1.0))


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
        options = DEFAULT if options is None else options
        expect_type(options, Comparing, "options", "Comparing", "Write seedbed.Comparing(alpha=0.01).")
        expect_used(on, options, work, program=program)
        if isinstance(on, LiveTraffic):
            self._expect_served(on, control, *_several(candidate))
            return self._live_verdict(on, metric or "rating", options)
        own, chosen = self._resources, self._execution.metric(metric or "exact_match")
        source = on if isinstance(on, PastRuns) else self._execution.dataset(on, compared=True)
        options = replace(options, fresh=options.fresh or self._execution.is_fresh(on))
        old, *candidates = (own.performed(each, program) for each in (control, *_several(candidate)))
        if not isinstance(on, PastRuns):  # a replay changes nothing
            await self._execution.expect_harmless(old, *candidates)
        return await compare(
            old,
            candidates if isinstance(candidate, list | tuple) else candidates[0],
            source,
            chosen,
            self._execution.context(work.parallel, work.max_cost_usd),
            self._for_release(self._for_channel(options), old),
            on_event,
        )

    def _expect_served(self, on: LiveTraffic, control: AnyPlaybook | None, *candidates: AnyPlaybook | None) -> None:
        """Refuse to judge, by live traffic, other playbooks than the channels serve; None stands for those."""
        refs = [self._resources.store.ref(f"channels/{name.removeprefix('channels/')}") for name in on.channels]
        targets = [ref.target for ref in refs if ref]
        first, *others = targets or [""]
        canary = canary_of(first)
        served = [stable_of(each) for each in others] or [canary.playbook if canary else ""]
        if not all(served):
            return  # nothing is served beside the control now
        for place, playbook, expected in (
            ("control", control, [stable_of(first)]),
            *(("candidate", each, served) for each in candidates),
        ):
            if playbook is not None and (named := self._resources.playbook(playbook).digest) not in expected:
                remedy = "Leave it out with None: a channel says itself what is compared."
                names = " or ".join(short(each) for each in expected)
                raise PlaybookError([Problem(place, short(named), f"{names}, which users get now", remedy)])

    def _live_verdict(self, on: LiveTraffic, metric: Metric | str, options: Comparing) -> Verdict:
        """The verdict of live traffic, or what it says so far; of several channels, of the one that does best."""
        name = metric if isinstance(metric, str) else metric.name
        standings = self.compare_live(on, metric=name, alpha=options.alpha, exploratory=options.exploratory)
        known = [each.so_far for each in standings]
        return max((each for each in known if each), key=lambda verdict: verdict.gain)

    def _for_channel(self, options: Comparing) -> Comparing:
        """The options with the terms of the channel's error budget, if a channel pays."""
        if not options.channel:
            return options
        terms = self.terms(options.channel, options.alpha)
        if self._paid(options.channel, options.alpha) is None:  # its attempts have an error rate of their own
            terms = replace(terms, unpaid=f"releases to {options.channel} need not be paid from its error budget")
        return replace(options, terms=terms)

    def _for_release(self, options: Comparing, control: Playbook) -> Comparing:
        """The options with the terms of attempts and of slices, if a channel serves the control: the comparison may
        replace it there."""
        channels = self._serving(control.digest)
        if not channels:
            return options
        slices = dict.fromkeys(terms for channel in channels for terms in build_slice_terms(channel))
        return replace(options, attempts=_attempt_terms(channels), slices=tuple(slices))

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
            terms = _attempt_terms(channels) if channels else None
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
        chosen, paid = self._execution.metric(metric), self._for_channel(options)
        old, (new,), tasks = self._compared(control, [candidate], self._execution.dataset(on, compared=True))
        decided_by = self._for_release(paid, old)
        return forecast(old, new, tasks, chosen, self._resources.store, decided_by)

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
        store, by = self._resources.store, self._resources.by
        return abort(store, self.find(name), because=because, by=by, clock=now)

    def newest_verdict(self) -> str:
        """The digest of the experiment with the newest verdict; empty if there is none."""
        newest = self._resources.store.facts(Query(kind="verdict", newest=True, limit=1))
        return next((fact.key for fact in newest), "")

    # Evidence

    def certificate(self, name: str) -> Certificate:
        """Everything a verdict rests on, recomputed from raw facts."""
        return certificate(self._resources.store, self.find(name))

    def verify(self, names: Iterable[str] = ()) -> dict[Digest, list[Problem]]:
        """Recompute every number of these verdicts, or of all, and check every past release: what differs, by
        experiment."""
        store = self._resources.store
        keys = [self.find(name) for name in names] or [fact.key for fact in store.facts(Query(kind="verdict"))]
        past = [*audit(store), *check_signatures(store, self._resources.settings.signers)]
        if not keys and past:
            return {"": past}  # there is no verdict yet, but something was released
        return {key: [*problems, *past] for key, problems in verify(store, keys).items()}

    def head(self) -> Json:
        """The end of the chain of facts: its link, number and time. Kept elsewhere, it shows later that nothing before
        it was changed."""
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

    # Patterns and screening

    def patterns(
        self,
        playbook: AnyPlaybook | None = None,
        *,
        metric: Metric | str = "exact_match",
        on: Tasks | None = None,
        alpha: float = 0.05,
    ) -> tuple[Patterns, ScoredRuns]:
        """What sets good runs apart from bad ones: suggested by one half of the tasks, tested in the other."""
        by, tasks, subject = self._scored(playbook, metric, on)
        direction = better(by) if by else "higher"
        worst = float(direction == "lower")
        runs = gather_runs(self._resources.store, by, playbook=subject, tasks=tasks, failure_counts_as=worst)
        return find_patterns(runs.scored, by.name if by else OUTCOME, alpha=alpha, better=direction), runs

    def _scored(
        self, playbook: AnyPlaybook | None, metric: Metric | str, on: Tasks | None
    ) -> tuple[Metric | None, Dataset | None, Digest | None]:
        """The metric (None: users' feedback), the tasks and the playbook (None: all) of the runs to read."""
        by = None if metric == OUTCOME else self._execution.metric(metric)
        tasks = None if on is None else self._execution.dataset(on)
        return by, tasks, self._resources.playbook(playbook).digest if playbook else None

    def suggest(
        self,
        patterns: Patterns,
        runs: ScoredRuns,
        file: Path,
        *,
        playbook: AnyPlaybook | None,
        metric: str,
        number: int,
    ) -> Suggestion:
        """Write a finding as the next experiment, for people to edit."""
        control = (
            self._resources.playbook(playbook).digest
            if playbook
            else Counter(each.run.playbook for each in runs.scored).most_common(1)[0][0]
        )
        by = None if metric == OUTCOME else self._execution.metric(metric)
        return suggest(
            patterns.findings[number - 1],
            file,
            control=control,
            metric=metric if by else "METRIC",
            binary=bool(getattr(by, "binary", False)),
            alpha=patterns.alpha,
        )

    async def screen(
        self,
        point: str,
        candidate: str,
        *,
        playbook: AnyPlaybook | None = None,
        metric: Metric | str = "exact_match",
        on: Tasks | None = None,
        since: datetime | None = None,
    ) -> Screening:
        """What another policy would have scored at a decision that past runs made by chance. Nothing is run."""
        chosen = load_policy(candidate)
        by, tasks, subject = self._scored(playbook, metric, on)
        log = await read_decisions(self._resources.store, point, by, playbook=subject, tasks=tasks, since=since)
        return screen_policy(log, chosen)

    def report(self, name: str, file: Path, names: tuple[str, str] | None = None) -> None:
        """Write the report of a comparison to a new file, in the format of its ending; `names` of the two playbooks."""
        verdict = Verdict.recall(self._resources.store, self.find(name))
        verdict.export(file, store=self._resources.store, names=names)
