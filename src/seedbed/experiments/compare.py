"""compare(): is a candidate better? On a dataset or on past runs, one candidate or several, with one error rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain

from seedbed.errors import NotFound, Problem, SeedbedError, SettingsError, shown
from seedbed.evaluation.cells import Cell, Naming
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.judges.agreement import agreements, deciding
from seedbed.evaluation.judges.judge import judges_in
from seedbed.evaluation.metrics.metric import Metric, expect_answers
from seedbed.experiments.arms import ArmPlans, is_unpaid, run_arms
from seedbed.experiments.evidence import evidence_of
from seedbed.experiments.evidence_sources import PastRuns
from seedbed.experiments.experiment import Experiment, budget_spent
from seedbed.experiments.live import LiveSource, LiveTest, is_live
from seedbed.experiments.options import DEFAULT, USUAL_ALPHA, Comparing
from seedbed.experiments.proof.hacking import hacking
from seedbed.experiments.proof.held_out import expect_unseen
from seedbed.experiments.proof.slicing import decide_slices
from seedbed.experiments.registration import Registered, Registration
from seedbed.experiments.replay.coverage import ReplayedRuns, replay_past_runs
from seedbed.experiments.replay.replay import STRICT
from seedbed.experiments.sequential_test import SequentialTest
from seedbed.experiments.verdict import FEW_CANDIDATES, Verdict, rank, record_verdict, register
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage.store import Digest, Json, Store, digest, short

AnswerWatcher = Callable[[Answer], None]
"""Called with what the stopping rule says after each unit; after the verdict with a SliceProgress, if tags follow."""


async def compare(
    control: Playbook,
    candidates: Playbook | Sequence[Playbook],
    on: Dataset | PastRuns,
    metric: Metric,
    context: EvaluationContext,
    options: Comparing = DEFAULT,
    watch: AnswerWatcher | None = None,
) -> Verdict:
    """Is the candidate better? On tasks that it has not seen: DatasetError names those that it has.

    On past runs both playbooks are replayed, and the verdict is about the runs whose recordings can answer both: it
    suggests what to try live, and does not prove what live runs would show. `Verdict.replays` says how far the replays
    can be trusted.

    Several candidates are compared with the control one after the other, on the same tasks; the runs of the control are
    paid once. The verdict is that of the best, and `Verdict.ranking` has all. The error rate holds for up to ten
    candidates together; with more, it limits the share of false winners. Together they are one attempt to replace what
    a channel serves: each gets an equal part of its level.

    After a verdict that may release the candidate, more tasks are run to look for tags on which it is worse, if
    `options.slices` says so. The verdict stays what it is; `Verdict.slices` has the tags.
    """
    chosen = [candidates] if isinstance(candidates, Playbook) else list(candidates)
    _expect_options(options, chosen, replayed=isinstance(on, PastRuns))
    source = on if isinstance(on, Dataset) else on.draw(context.store, control.digest, metric.name, options.seed)
    mode = STRICT if isinstance(on, Dataset) else ReplayMode.parse(on.mode)
    tasks = source if isinstance(source, Dataset) else source.tasks
    expect_answers([metric], tasks)
    library = Library(context.store, context.by)
    for playbook in (control, *chosen):
        library.keep(playbook, because="compared")
    for candidate in chosen:
        expect_unseen(library, candidate, tasks)

    if len(chosen) > FEW_CANDIDATES and options.rule_name is None:
        options = replace(options, rule={**options.registered_rule(), "rule": "betting"})
    if isinstance(source, Dataset):
        registered = Registration(control, chosen, source, metric, context, options).register()
        verdicts = [await _perform(each, control, metric, context, watch) for each in registered]
    else:
        alpha = USUAL_ALPHA if options.alpha is None else options.alpha
        share = replace(options, alpha=alpha / len(chosen)) if len(chosen) > 1 else options
        verdicts = []
        for candidate in chosen:
            replays = await replay_past_runs(control, candidate, source, mode, context)
            verdict = await run_experiment(control, candidate, replays, metric, context, share, watch)
            verdicts.append(replace(verdict, replays=replays))
    best = verdicts[0] if len(chosen) == 1 else rank(verdicts)
    for terms in options.slices if (best.finding, best.mode) == ("superior", "confirmatory") else ():
        candidate = next(each for each in chosen if each.digest == best.candidate)
        best = replace(best, slices=await decide_slices(control, candidate, best, metric, context, terms, watch))
    return best


def _expect_options(options: Comparing, candidates: Sequence[Playbook], *, replayed: bool) -> None:
    """Raises SettingsError for options that do not fit, before anything is paid."""
    problems = []
    if not candidates or len({each.digest for each in candidates}) < len(candidates):
        actual = shown([short(each.digest) for each in candidates])
        raise SeedbedError(f"candidates: found {actual}; expected at least one, each once")
    several = len(candidates) > 1
    if options.channel and (several or replayed):
        remedy = "Only the comparison of one candidate on a dataset is paid from an error budget."
        actual = f"{shown(options.channel)} with {'several candidates' if several else 'past runs'}"
        problems.append(Problem("channel", actual, "none", remedy))
    if several and options.goal != "superior":
        problems.append(
            Problem("goal", f"{options.goal} with several candidates", "superior, by which they are ranked")
        )
    if len(candidates) > FEW_CANDIDATES and options.rule_name not in (None, "betting"):
        actual = f"{options.rule_name} with {len(candidates)} candidates"
        problems.append(Problem("rule", actual, f"betting with more than {FEW_CANDIDATES}"))
    if replayed and options.replicates > 1:
        problems.append(Problem("replicates", f"{options.replicates} with past runs", "1: each run was recorded once"))
    if replayed and options.first_replicates != (0, 0):
        problems.append(Problem("first_replicate", f"{options.first_replicate} with past runs", "0"))
    if problems:
        raise SettingsError(problems)


async def run_experiment(
    control: Playbook,
    candidate: Playbook,
    on: Dataset | ReplayedRuns,
    metric: Metric,
    context: EvaluationContext,
    options: Comparing = DEFAULT,
    watch: AnswerWatcher | None = None,
) -> Verdict:
    """Register the experiment, then run tasks in both arms, with the same seeds, until the stopping rule answers.

    The error rate holds because results are read in the registered order, whichever comes first, and only until the
    rule answers. An interrupted comparison is resumed; the verdict of one that has ended is returned from the store.
    Raises BudgetSpent when the ledger is empty; the comparison goes on when it is run again with more.
    """
    replayed = isinstance(on, ReplayedRuns)
    tasks, context = (on.tasks, on.context) if isinstance(on, ReplayedRuns) else (on, context)
    (registered,) = Registration(control, [candidate], tasks, metric, context, options, replayed).register()
    replay = on.facts if isinstance(on, ReplayedRuns) else None
    return await _perform(registered, control, metric, context, watch, replay)


async def _perform(
    registered: Registered,
    control: Playbook,
    metric: Metric,
    context: EvaluationContext,
    watch: AnswerWatcher | None,
    replay: Json | None = None,
) -> Verdict:
    """Run a registered experiment to its verdict."""
    plan, tasks, candidate = registered.plan, registered.tasks, registered.candidate
    with suppress(NotFound):
        return Verdict.recall(context.store, plan.digest)
    context.store.put("dataset", tasks.content())
    register(context.store, plan, by=context.by, clock=context.clock)
    test = SequentialTest(plan, tasks, metric.name)
    ours, theirs = test.items()
    # A playbook against itself with the same replicates is one arm: each of its cells is paid once.
    arms = [(control, ours)] if (control, ours) == (candidate, theirs) else [(control, ours), (candidate, theirs)]
    failed = FailedRuns(context.store, plan.digest, at_once=context.at_once)
    _leave_out(plan, arms, metric, context, failed)
    async with context.present(), aclosing(run_arms(arms, metric, context, failed)) as units:
        async for cells in units:
            with suppress(NotFound):  # somebody stopped it, or another process was faster
                return Verdict.recall(context.store, plan.digest)
            if is_unpaid(cells, context):
                raise budget_spent(context.ledger, f"after {len(test.answers)} of {len(test.units)} tasks")
            answer = test.read(cells[0], cells[-1])
            if watch:
                watch(answer)
            if answer.verdict != "continue":
                break
    failed.one_reason.end()
    evidence = evidence_of(context.store, test.cells, plan.digest)
    verdict = test.verdict(evidence=evidence, judges=_judges(context.store, plan.metric), replay=replay)
    verdict = replace(verdict, why=registered.why, hacking=hacking(context.store, verdict))
    return record_verdict(context.store, verdict, by=context.by, clock=context.clock)


def _leave_out(
    plan: Experiment, arms: ArmPlans, metric: Metric, context: EvaluationContext, failed: FailedRuns
) -> None:
    """Record runs of retired tasks as failed through no fault of the agent, so that they are missing, and not run."""
    retired = {*plan.retired}
    for playbook, units in arms if retired else ():
        naming = Naming(playbook.digest, context.identity(playbook), [metric.identity])
        cells = [
            Cell(
                key=naming(task, replicate).cells[0],
                playbook=playbook.digest,
                task=task.id,
                replicate=replicate,
                metric=metric.name,
                value=None,
                reason="the task was retired",
                fault="infrastructure",
            )
            for task, replicate in chain(*units)
            if task.id in retired
        ]
        context.store.append(failed.new(cells, context.clock(), context.by))


def abort(store: Store, experiment: Digest, *, because: str, by: str, clock: Callable[[], datetime]) -> Verdict:
    """Stop an experiment by hand. Its verdict is invalid and says why; a process that runs it stops at that verdict."""
    if not because.strip():
        raise SeedbedError("because: found no reason; expected why the experiment is stopped")
    plan = Experiment.from_content(store.get(experiment))
    if is_live(plan):
        test: LiveTest | SequentialTest = LiveTest(plan, LiveSource.of(store, plan))
    else:
        tasks = Dataset.from_content(store.get(plan.dataset))
        test = SequentialTest(plan, tasks, str(plan.metric.get("metric", "")))
    return record_verdict(store, test.verdict(aborted=because.strip()), by=by, clock=clock)


def _judges(store: Store, metric: Json) -> Json:
    """The agreement with people of the judges that give the scores, by the digests of their identities."""
    known = {digest("metric", judge): deciding(agreements(store, judge)) for judge in judges_in(metric)}
    return {name: None if each is None else {"kappa": each.kappa, "low": each.low} for name, each in known.items()}
