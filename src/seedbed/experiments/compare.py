"""compare(): feed tasks to both arms in registered order until the stopping rule answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial

from seedbed.errors import BudgetSpent, NotFound, SeedbedError, shown
from seedbed.evaluation.cells import Naming
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.evaluate import Bench, Cell, Item, cells_of
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.judges.judge import judges_in
from seedbed.evaluation.judges.rubrics import agreements, deciding
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.error_budget import Rule, Terms, reserved
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.live import is_live, stopped
from seedbed.experiments.reading import Reading
from seedbed.experiments.verdict import Verdict, begin, evidence_of, kept
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.ledger import Ledger, dollars
from seedbed.stats.rule import Answer
from seedbed.storage.store import Digest, Json, Store, digest

Watcher = Callable[[Answer], None]

Arms = Sequence[tuple[Playbook, Sequence[Sequence[Item]]]]
"""Playbooks, and what each performs for every unit."""


async def compare(
    control: Playbook,
    candidate: Playbook,
    tasks: Dataset,
    metric: Metric,
    bench: Bench,
    *,
    alpha: float | None = None,
    seed: int = 0,
    rule: Rule = None,
    replicates: int = 1,
    first_replicates: tuple[int, int] = (0, 0),
    channel: str = "",
    terms: Terms | None = None,
    ledger: Ledger | None = None,
    replay: Json | None = None,
    watch: Watcher | None = None,
) -> Verdict:
    """Is the candidate better on these tasks? Registered before the first run, recorded when it is answered.

    Both arms meet each task with the same seed. Results are read in the registered order however fast each comes, and
    reading stops when the rule answers: that is what keeps its error rate. A run that fails counts as the experiment
    says. A comparison that was interrupted goes on where it was; one that has been answered is not repeated: its
    verdict stands. Raises BudgetSpent when the ledger has nothing left; with more it goes on, too.

    `alpha` is its error rate, 0.05 if nobody says. For a `channel` it is paid from the error budget of that, which has
    these `terms` and says the error rate: then none may be given. On a bench of replays, `replay` is what the verdict
    is to say of them, as `grounds` tells it.
    """
    if channel and alpha is not None:
        told = f"the error budget of channel {shown(channel)} says it. Set the rate of the budget"
        raise SeedbedError(f"alpha: found {alpha:g}; expected none: {told}")
    draft = partial(
        Experiment.plan,
        control.digest,
        candidate.digest,
        tasks,
        metric,
        seed=seed,
        models={"control": bench.identity(control), "candidate": bench.identity(candidate)},
        replicates=replicates,
        first_replicates=first_replicates,
        channel=channel,
    )

    def planned(rate: float, by_rule: Rule) -> Experiment:
        return draft(alpha=rate, rule=by_rule)

    if channel:
        plan = reserved(bench.store, channel, terms or Terms(), planned, rule, by=bench.by, clock=bench.clock)
    else:
        plan = planned(0.05 if alpha is None else alpha, rule)
    with suppress(NotFound):
        return Verdict.recall(bench.store, plan.digest)
    bench.store.put("dataset", tasks.content())
    begin(bench.store, plan, by=bench.by, clock=bench.clock)
    reading, money = Reading(plan, tasks, metric.name), ledger or Ledger()
    ours, theirs = reading.items()
    # A playbook against itself is one arm, unless it is to be drawn anew: each of its cells is paid once.
    arms = [(control, ours)] if (control, ours) == (candidate, theirs) else [(control, ours), (candidate, theirs)]
    lapses = FailedRuns(bench.store, plan.digest)
    coming = (_elsewhere if bench.elsewhere else _here)(arms, metric, bench, money, lapses)
    async with bench.present(), aclosing(coming) as units:
        async for cells in units:
            with suppress(NotFound):  # somebody stopped it, or was quicker
                return Verdict.recall(bench.store, plan.digest)
            _expect_paid(cells, money, reading)
            answer = reading.read(cells[0], cells[-1])
            if watch:
                watch(answer)
            if answer.verdict != "continue":
                break
    evidence = evidence_of(bench.store, reading.cells)
    verdict = reading.verdict(evidence=evidence, judges=_judges(bench.store, plan.metric), replay=replay)
    return kept(bench.store, verdict, by=bench.by, clock=bench.clock)


def abort(store: Store, experiment: Digest, *, because: str, by: str, clock: Callable[[], datetime]) -> Verdict:
    """Stop an experiment by hand. Its verdict is invalid and says why; whoever is at it will find that."""
    if not because.strip():
        raise SeedbedError("because: found no reason; expected why the experiment is stopped")
    plan = Experiment.from_content(store.get(experiment))
    if is_live(plan):
        return kept(store, stopped(store, plan, because.strip()), by=by, clock=clock)
    reading = Reading(plan, Dataset.from_content(store.get(plan.dataset)), str(plan.metric.get("metric", "")))
    return kept(store, reading.verdict(aborted=because.strip()), by=by, clock=clock)


def _expect_paid(cells: Sequence[Sequence[Cell]], ledger: Ledger, reading: Reading) -> None:
    """What could not be paid is no failure of anybody: then there is no answer yet."""
    if ledger.is_short and any(cell.value is None for arm in cells for cell in arm):
        raise BudgetSpent(
            f"found {dollars(ledger.spent_usd)} spent of {dollars(ledger.limit_usd or 0.0)} after "
            f"{len(reading.answers)} of {len(reading.units)} tasks; expected enough to go on. "
            "Compare again with a higher limit: what was paid is not paid twice"
        )


def _judges(store: Store, metric: Json) -> Json:
    """What is known of the judges that give the scores, by the digests of their identities."""
    known = {digest("metric", judge): deciding(agreements(store, judge)) for judge in judges_in(metric)}
    return {name: None if each is None else {"kappa": each.kappa, "low": each.low} for name, each in known.items()}


async def _here(
    arms: Arms, metric: Metric, bench: Bench, ledger: Ledger, lapses: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The cells of each arm, unit by unit; all arms meet a unit at the same time."""
    pays = [await _payer(playbook, _flat(todo), metric, bench, ledger, lapses) for playbook, todo in arms]

    async def met(number: int) -> list[list[Cell]]:
        each_run = zip(*(todo[number] for _, todo in arms), strict=True)
        turns = [(pay, item) for run in each_run for pay, item in zip(pays, run, strict=True)]
        async with aclosing(in_order(turns, lambda turn: turn[0](turn[1]), at_once=bench.at_once)) as coming:
            cells = [cell async for cell in coming]
        return [cells[arm :: len(arms)] for arm in range(len(arms))]

    largest = len(arms) * max(map(len, arms[0][1]))
    numbers = range(len(arms[0][1]))
    async with aclosing(in_order(numbers, met, at_once=max(1, bench.at_once // largest))) as coming:
        async for cells in coming:
            yield cells


async def _payer(
    playbook: Playbook, plan: Sequence[Item], metric: Metric, bench: Bench, ledger: Ledger, lapses: FailedRuns
) -> Callable[[Item], Awaitable[Cell]]:
    """What gives the cell of an item as it counts: known, failed before, or by running."""
    pay = await asyncio.to_thread(cells_of, playbook, plan, [metric], bench, ledger)
    naming = Naming(playbook.digest, bench.identity(playbook), [metric.identity])

    async def paid(item: Item) -> Cell:
        (key,) = naming(*item).cells
        if key in lapses:
            return lapses[key]
        (cell,) = await pay(item)
        return cell if ledger.is_short else await _settled(cell, lapses, bench)

    return paid


async def _settled(cell: Cell, lapses: FailedRuns, bench: Bench) -> Cell:
    """A cell as it counts: one that failed before fails again, and one that fails now is remembered."""
    if cell.key in lapses:
        return lapses[cell.key]
    for fact in lapses.new([cell], bench.clock(), bench.by):
        await bench.journal.add(fact)
    return cell


async def _elsewhere(
    arms: Arms, metric: Metric, bench: Bench, ledger: Ledger, lapses: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The same by other processes: each arm in its order, both at the same time."""
    assert bench.elsewhere
    streams = [bench.elsewhere(playbook, _flat(todo), [metric], bench, ledger) for playbook, todo in arms]

    async def taken(stream: AsyncGenerator[Sequence[Cell], None], count: int) -> list[Cell]:
        cells = [(await anext(stream))[0] for _ in range(count)]
        return cells if ledger.is_short else [await _settled(cell, lapses, bench) for cell in cells]

    try:
        for number in range(len(arms[0][1])):
            counts = [len(todo[number]) for _, todo in arms]
            yield list(await asyncio.gather(*map(taken, streams, counts)))
    finally:
        for stream in streams:
            await stream.aclose()


def _flat(todo: Sequence[Sequence[Item]]) -> list[Item]:
    return [item for unit in todo for item in unit]
