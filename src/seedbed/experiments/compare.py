"""compare(): is a candidate better? On a dataset or on past runs, one candidate or several, with one error rate."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from seedbed.errors import NotFound, Problem, SeedbedError, SettingsError, shown
from seedbed.evaluation.cells import Cell, Naming
from seedbed.evaluation.context import EvaluationContext, TaskReplicate
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import cells_of
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.judges.agreement import agreements, deciding
from seedbed.evaluation.judges.judge import judges_in
from seedbed.evaluation.metrics.metric import Metric, expect_answers
from seedbed.experiments.error_budget import BudgetTerms, reserve
from seedbed.experiments.evidence import evidence_of
from seedbed.experiments.experiment import Design, Experiment, RuleChoice, budget_spent
from seedbed.experiments.live import LiveSource, LiveTest, is_live
from seedbed.experiments.options import DEFAULT, USUAL_ALPHA, Comparing
from seedbed.experiments.proof.attempts import attempts, take_attempt
from seedbed.experiments.proof.freshness import freshness
from seedbed.experiments.proof.held_out import expect_unseen, inputs_read
from seedbed.experiments.replay.coverage import ReplayedRuns, replay_past_runs
from seedbed.experiments.replay.replay import STRICT
from seedbed.experiments.sources import PastRuns
from seedbed.experiments.stopping import SequentialTest
from seedbed.experiments.verdict import FEW_CANDIDATES, Verdict, rank, record_verdict, register
from seedbed.parallel import in_order
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.spending.ledger import Ledger
from seedbed.stats.sequential.rule import Answer
from seedbed.storage.store import Digest, Json, Store, digest, short

AnswerWatcher = Callable[[Answer], None]
"""Called with what the stopping rule says after each unit."""

TRIES = 3
"""How often a run is tried that fails through no fault of the agent's."""

ArmPlans = Sequence[tuple[Playbook, Sequence[Sequence[TaskReplicate]]]]
"""Each playbook with the items that it performs for every unit."""


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
    candidates together; with more, it limits the share of false winners. `run_experiment` does each comparison.
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

    async def decide(candidate: Playbook, how: Comparing) -> Verdict:
        if isinstance(source, Dataset):
            return await run_experiment(control, candidate, source, metric, context, how, watch)
        replays = await replay_past_runs(control, candidate, source, mode, context)
        verdict = await run_experiment(control, candidate, replays, metric, context, how, watch)
        return replace(verdict, replays=replays)

    if len(chosen) == 1:
        return await decide(chosen[0], options)
    alpha = USUAL_ALPHA if options.alpha is None else options.alpha
    # The best of several is to be confirmed: only a comparison of one candidate is an attempt to release it.
    share = replace(options, alpha=alpha / len(chosen), exploratory=True)
    if len(chosen) > FEW_CANDIDATES and options.rule_name is None:
        share = replace(share, rule={**options.registered_rule(), "rule": "betting"})
    return rank([await decide(candidate, share) for candidate in chosen], alpha)


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
    tasks, replay = (on.tasks, on.facts) if isinstance(on, ReplayedRuns) else (on, None)
    context = replace(on.context if isinstance(on, ReplayedRuns) else context, tries=TRIES)
    plan, tasks, why = _Registration(control, candidate, tasks, metric, context, options).register(replay is not None)
    with suppress(NotFound):
        return Verdict.recall(context.store, plan.digest)
    context.store.put("dataset", tasks.content())
    register(context.store, plan, by=context.by, clock=context.clock)
    test = SequentialTest(plan, tasks, metric.name)
    ours, theirs = test.items()
    # A playbook against itself with the same replicates is one arm: each of its cells is paid once.
    arms = [(control, ours)] if (control, ours) == (candidate, theirs) else [(control, ours), (candidate, theirs)]
    failed = FailedRuns(context.store, plan.digest)
    coming = (_cells_by_workers if context.remote else _cells)(arms, metric, context, failed)
    async with context.present(), aclosing(coming) as units:
        async for cells in units:
            with suppress(NotFound):  # somebody stopped it, or another process was faster
                return Verdict.recall(context.store, plan.digest)
            _expect_paid(cells, context.ledger, test)
            answer = test.read(cells[0], cells[-1])
            if watch:
                watch(answer)
            if answer.verdict != "continue":
                break
    evidence = evidence_of(context.store, test.cells)
    verdict = test.verdict(evidence=evidence, judges=_judges(context.store, plan.metric), replay=replay)
    return record_verdict(context.store, replace(verdict, why=why), by=context.by, clock=context.clock)


@dataclass(frozen=True)
class _Registration:
    """What is about to be registered, and how it may be registered."""

    control: Playbook
    candidate: Playbook
    tasks: Dataset
    metric: Metric
    context: EvaluationContext
    options: Comparing

    def register(self, replayed: bool) -> tuple[Experiment, Dataset, str]:
        """The experiment, the tasks that are left of it, and why it is exploratory, if it is.

        Its error rate is that of the options; of an attempt to replace what a channel serves, its share of that; or for
        a channel with an error budget, what the budget gives.
        """
        context, options, rule = self.context, self.options, self.options.registered_rule()
        if options.channel:
            return self._paid(rule)
        alpha = USUAL_ALPHA if options.alpha is None else options.alpha
        if why := self._exploratory(replayed):
            return self._plan(self.tasks, options.design(alpha, rule)), self.tasks, why
        store, incumbent = context.store, self.control.digest
        for fact in attempts(store, incumbent):
            left, _ = self._left(fact.number)
            mode = options.design(float(fact.body["level"]), rule, "confirmatory", int(fact.body["number"]))
            if (begun := self._plan(left, mode)).digest == fact.body["experiment"]:
                return begun, left, ""
        left, why = self._left()
        if why:
            return self._plan(self.tasks, options.design(alpha, rule)), self.tasks, why

        def planned(level: float, number: int) -> Experiment:
            return self._plan(left, options.design(level, rule, "confirmatory", number))

        assert options.attempts
        taken = take_attempt(store, incumbent, options.attempts, alpha, planned, by=context.by, clock=context.clock)
        return taken, left, ""

    def _exploratory(self, replayed: bool) -> str:
        """Why it is exploratory, whatever is known of the tasks."""
        if self.options.exploratory:
            return "it was registered as exploratory"
        if replayed:
            return "replays prove nothing about live runs"
        return "" if self.options.attempts else "no channel serves the control"

    def _left(self, before: float = math.inf) -> tuple[Dataset, str]:
        """The tasks that are fresh, and why that cannot be confirmatory."""
        library = Library(self.context.store, self.context.by)
        for playbook in (self.control, self.candidate):  # `verify` needs both
            library.keep(playbook, because="compared")
        known = freshness(library, self.control, self.candidate, self.tasks, before=before)
        if known.exploratory or not known.seen:
            return self.tasks, known.exploratory
        return self.tasks.only(ids={task.id for task in self.tasks} - {*known.seen}), ""

    def _paid(self, rule: RuleChoice) -> tuple[Experiment, Dataset, str]:
        """The same at the error rate of the next reservation, or of the one it was begun with."""
        context, options = self.context, self.options
        if options.alpha is not None:
            remedy = "Set the rate of the budget."
            expected = f"none: the error budget of channel {shown(options.channel)} sets it"
            raise SettingsError([Problem("alpha", f"{options.alpha:g}", expected, remedy)])
        terms, reasons = options.terms or BudgetTerms(), dict[Digest, tuple[Dataset, str]]()

        def planned(alpha: float, rule: RuleChoice, before: float) -> Experiment:
            left, why = self._left(before)
            why = why or ("it was registered as exploratory" if options.exploratory else "")
            plan = self._plan(left, options.design(alpha, rule, "exploratory" if why else "confirmatory"))
            reasons[plan.digest] = left, why
            return plan

        plan = reserve(context.store, options.channel, terms, planned, rule, by=context.by, clock=context.clock)
        return plan, *reasons[plan.digest]

    def _plan(self, tasks: Dataset, design: Design) -> Experiment:
        control, candidate = self.control, self.candidate
        models = {"control": self.context.identity(control), "candidate": self.context.identity(candidate)}
        read = inputs_read(control, candidate)
        pair = (control.digest, candidate.digest)
        return Experiment.plan(*pair, tasks, self.metric, models=models, design=design, inputs=read)


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


def _expect_paid(cells: Sequence[Sequence[Cell]], ledger: Ledger, test: SequentialTest) -> None:
    """Raises BudgetSpent: a run that could not be paid does not count as a failure."""
    if ledger.is_short and any(cell.value is None for arm in cells for cell in arm):
        raise budget_spent(ledger, f"after {len(test.answers)} of {len(test.units)} tasks")


def _judges(store: Store, metric: Json) -> Json:
    """The agreement with people of the judges that give the scores, by the digests of their identities."""
    known = {digest("metric", judge): deciding(agreements(store, judge)) for judge in judges_in(metric)}
    return {name: None if each is None else {"kappa": each.kappa, "low": each.low} for name, each in known.items()}


async def _cells(
    arms: ArmPlans, metric: Metric, context: EvaluationContext, failed: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The cells of each arm, unit by unit; all arms run a unit at the same time."""
    pays = [await _payer(playbook, [*chain(*plan)], metric, context, failed) for playbook, plan in arms]

    async def perform(number: int) -> list[list[Cell]]:
        each_run = zip(*(plan[number] for _, plan in arms), strict=True)
        turns = [(pay, item) for run in each_run for pay, item in zip(pays, run, strict=True)]
        async with aclosing(in_order(turns, lambda turn: turn[0](turn[1]), at_once=context.at_once)) as coming:
            cells = [cell async for cell in coming]
        return [cells[arm :: len(arms)] for arm in range(len(arms))]

    largest = len(arms) * max(map(len, arms[0][1]))
    numbers = range(len(arms[0][1]))
    async with aclosing(in_order(numbers, perform, at_once=max(1, context.at_once // largest))) as coming:
        async for cells in coming:
            yield cells


async def _payer(
    playbook: Playbook,
    plan: Sequence[TaskReplicate],
    metric: Metric,
    context: EvaluationContext,
    failed: FailedRuns,
) -> Callable[[TaskReplicate], Awaitable[Cell]]:
    """A function that returns the cell of an item: a known one, an earlier failure, or that of a new run."""
    cells = await asyncio.to_thread(cells_of, playbook, plan, [metric], context)
    naming = Naming(playbook.digest, context.identity(playbook), [metric.identity])

    async def pay(item: TaskReplicate) -> Cell:
        (key,) = naming(*item).cells
        if key in failed:
            return failed[key]
        (cell,) = await cells(item)
        return cell if context.ledger.is_short else await _settle(cell, failed, context)

    return pay


async def _settle(cell: Cell, failed: FailedRuns, context: EvaluationContext) -> Cell:
    """The cell, or its earlier failure in this experiment; a new failure is recorded."""
    if cell.key in failed:
        return failed[cell.key]
    for fact in failed.new([cell], context.clock(), context.by):
        await context.journal.add(fact)
    return cell


async def _cells_by_workers(
    arms: ArmPlans, metric: Metric, context: EvaluationContext, failed: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The same by other processes: each arm in its order, both at the same time."""
    assert context.remote
    streams = [context.remote.cells(playbook, [*chain(*plan)], [metric], context) for playbook, plan in arms]

    async def take(stream: AsyncGenerator[Sequence[Cell], None], count: int) -> list[Cell]:
        cells = [(await anext(stream))[0] for _ in range(count)]
        return cells if context.ledger.is_short else [await _settle(cell, failed, context) for cell in cells]

    try:
        for number in range(len(arms[0][1])):
            counts = [len(plan[number]) for _, plan in arms]
            yield list(await asyncio.gather(*map(take, streams, counts)))
    finally:
        for stream in streams:
            await stream.aclose()
