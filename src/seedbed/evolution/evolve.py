"""evolve(): ask, allocate, evaluate, tell, until the budget is spent. The store is the checkpoint.

Run an interrupted search again to resume it. Its cells, runs and reservations are facts, and its random numbers do not
depend on earlier draws. So it reaches the same point without paying twice, and continues from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from seedbed.errors import BudgetSpent, NotFound, PlaybookError, QuotaSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.identity import unit_of
from seedbed.evaluation.datasets.seal import expect_open
from seedbed.evaluation.metrics.metric import expect_answers
from seedbed.evolution.allocation import Wanted
from seedbed.evolution.confirmation import CHOOSING, Confirmation, best_of_n, confirm, optimism, units_tried
from seedbed.evolution.evaluators import Evaluator, PlaybookTasks, new_fact
from seedbed.evolution.learning.effects import estimated_best
from seedbed.evolution.learning.surrogate_filter import SurrogateFilter
from seedbed.evolution.payments import Payments
from seedbed.evolution.plan import Plan
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Search
from seedbed.evolution.searches import Evolution, SearchStep
from seedbed.playbooks.changes import escapes
from seedbed.playbooks.library import Library
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.spending.account import Account
from seedbed.stage.bounds import bounds, under
from seedbed.storage.store import Digest, Fact, Json, digest, short
from seedbed.telemetry import during

FINAL_SHARE = 0.25
"""At most this share of the runs is reserved for the final rounds, which confirm which candidate is best."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The state of a search after a round or a step of it."""

    pool: Pool
    account: Account
    steps: Sequence[SearchStep]
    cells: int
    best: int
    skips: Sequence[Fact] = ()


OnProgress = Callable[[SearchProgress], None]


async def evolve(
    plan: Plan,
    evaluator: Evaluator,
    library: Library,
    *,
    because: str,
    options: Json | None = None,
    on_event: OnProgress | None = None,
) -> Evolution:
    """Search for a better playbook. Every candidate is stored with its parents; the result is the best, or the start.

    `Evolution.is_confirmed` says whether to believe that it is better: it was chosen on at least 20 tasks, and its
    gain on others is more than chance.

    No run starts that the budget does not allow: runs are reserved durably before the first of them. Runs for the
    confirmation are set aside from the beginning. Raises BudgetSpent if that leaves nothing for the search,
    and DatasetError for tasks that are held out, or without expected answers if a metric needs them. `options`
    are stored with the search, to plan it again (see SearchOptions).
    """
    tasks = (*plan.select, *plan.reflect, *plan.confirm)
    expect_open(library.store, tasks, (demo.inputs for demos in plan.start.demos.values() for demo in demos))
    expect_answers(evaluator.metrics, tasks)
    with during("evolve"), under(plan.start):  # its rules hold for every candidate, whatever the candidate says
        return await _SearchLoop(plan, evaluator, library, because, options or {}, on_event).run()


@dataclass
class _SearchLoop:
    plan: Plan
    evaluator: Evaluator
    library: Library
    because: str
    options: Json
    on_event: OnProgress | None

    def __post_init__(self) -> None:
        plan = self.plan
        self.tasks = {task.id: task for task in (*plan.select, *plan.reflect)}
        self.units = {task.id: unit_of(task) for task in plan.select}
        self.steps: list[SearchStep] = []
        self._best_at, self._best_place = -1, 0
        self.account = Account(plan.budget, within=bounds().ledger)
        self.payments = Payments(self._register(), self.evaluator, self.account)
        self.search = Search(
            plan.start, plan.reflect.tasks, self._pool(), plan.seed, self.payments.perform, self._transcript
        )
        self.pool = self.search.pool
        self.surrogate_filter = SurrogateFilter(self.pool, plan.seed) if plan.surrogate else None
        self.skips: list[Fact] = []

    async def run(self) -> Evolution:
        plan = self.plan
        confirming = 3 * len(plan.confirm)
        self._expect_room(confirming)
        plan.optimizer.begin(self.search)
        try:
            async with self.evaluator.present():
                ended = await self._search(confirming)
                best = await self._finish(confirming)
                confirmed = await self._confirm(best)
        finally:
            getattr(plan.optimizer, "close", lambda: None)()
        evolution = Evolution(
            self.payments.name,
            plan.start.digest,
            self.pool.playbooks[best].digest,
            self.pool,
            tuple(self.steps),
            plan.budget,
            self.account.spent,
            ended,
            optimism(self.pool, self.search.chance("optimism")),
            confirmed,
            tuple(self.skips),
            units_tried(self.pool, best, self.units),
        )
        self._record(evolution)
        return evolution

    async def _finish(self, confirming: int) -> int:
        """The best candidate, after the final rounds. One that was tried on few tasks never wins over those that were
        tried on enough."""
        self.payments.reserved = confirming
        try:
            await self._rounds(self._decisive())
            await self._rounds(self.plan.allocation.finals(self.pool))
            await self._rounds(self._decisive())
        except QuotaSpent:
            raise
        except BudgetSpent:
            pass
        self.payments.reserved = 0
        best = self._best()
        if best and not self._tried_enough(best):
            enough = [place for place in range(1, len(self.pool)) if self._tried_enough(place)]
            return estimated_best(self.pool, enough) if enough else best
        return best

    def _decisive(self) -> Iterator[Wanted]:
        """Rounds for the current best, until it was tried on enough tasks, if there are enough."""
        wanted: set[tuple[int, str]] = set()  # a run that fails may leave no score
        while len({*self.units.values()}) >= CHOOSING and (best := self._best()) and not self._tried_enough(best):
            scores = zip(self.pool.select, self.pool.row(best).tolist(), strict=True)
            untried = [task for task, score in scores if math.isnan(score) and (best, task) not in wanted]
            some = untried[: CHOOSING - units_tried(self.pool, best, self.units)]
            if not some:
                return
            wanted |= {(best, task) for task in some}
            yield [(best, [(task, 0) for task in some])]

    def _tried_enough(self, place: int) -> bool:
        return units_tried(self.pool, place, self.units) >= CHOOSING

    # Before the first run

    def _register(self) -> Digest:
        for tasks in (self.plan.select, self.plan.reflect, self.plan.confirm):
            self.evaluator.store.put("dataset", tasks.content())
        self.library.keep(self.plan.start, because=self.because)
        plan, named = self.plan, self.evaluator.store.put("search", self.plan.content(self.evaluator))
        body: Json = {"optimizer": plan.optimizer.identity["optimizer"], "budget": str(plan.budget), "seed": plan.seed}
        body["options"] = self.options
        self.evaluator.store.append([new_fact(self.evaluator, "search", named, plan.start.digest, body)])
        return named

    def _pool(self) -> Pool:
        """The table of the search, with the select tasks in the order in which all candidates are tried on them."""
        plan = self.plan
        order = Search(plan.start, (), Pool(self.evaluator.metrics, ()), plan.seed).chance("order")
        select = [plan.select.tasks[number].id for number in order.permutation(len(plan.select))]
        pool = Pool(self.evaluator.metrics, select, [task.id for task in plan.reflect])
        pool.add(Offer(plan.start, how="start"))
        return pool

    def _expect_room(self, confirming: int) -> None:
        if self.account.runs_left(confirming) == 0:
            raise BudgetSpent(
                f"found a budget of {self.plan.budget}; expected more than the {confirming} runs that confirm the "
                f"result on {len(self.plan.confirm)} tasks. Raise the budget, or confirm with fewer tasks"
            )

    # Steps

    async def _search(self, confirming: int) -> str:
        """Ask and tell until there is a reason to stop, which is returned."""
        idle, over = 0, "the budget was spent"
        room = self.account.runs_left(confirming)
        while True:
            last = self.plan.allocation.final_runs(self.pool)
            self.payments.reserved = confirming + (last if room is None else min(last, int(FINAL_SHARE * room)))
            if self.payments.is_empty(len(self.steps)):
                return over
            before, runs = self._best(), self.account.runs
            try:
                offers = await self.plan.optimizer.ask()
            except QuotaSpent:
                raise  # not this search's budget: it can go on when the quota allows
            except BudgetSpent:
                return over
            if not offers:
                return "the optimizer had nothing more to offer"
            self._expect_bounded(offers)
            cells, short = await self._try(offers)
            self._record_step(offers, self.account.runs - runs)
            await self.plan.optimizer.tell(cells)
            if short:
                return over
            if any(offer.tasks is None for offer in offers):  # a step that only looks at tasks cannot improve anything
                idle = 0 if self._best() != before else idle + 1
            if self.plan.patience is not None and idle >= self.plan.patience:
                return f"{idle} steps brought nothing better"
            if self.plan.enough is not None and self.steps[-1].score >= self.plan.enough:
                return f"{self.plan.enough:g} was enough"

    def _expect_bounded(self, offers: Sequence[Offer]) -> None:
        """Refuse an offer that reaches what only people change, whichever optimizer makes it. Raises PlaybookError."""
        name = self.plan.optimizer.identity.get("optimizer")
        for offer in offers:
            if offer.playbook.digest not in self.pool and (wrong := escapes(self.plan.start, offer.playbook)):
                raise PlaybookError(wrong, f"{name} offers {short(offer.playbook.digest)}")

    async def _try(self, offers: Sequence[Offer]) -> tuple[list[Cell], bool]:
        """The cells of the offers that were paid, and whether the budget ran out."""
        self._store(offers)
        places = [self.pool.add(offer) for offer in offers]
        cells: list[Cell] = []
        wishes = list(zip(places, offers, strict=True))
        certain = [(place, [(task, 0) for task in offer.tasks]) for place, offer in wishes if offer.tasks is not None]
        racing = list(dict.fromkeys(place for place, offer in wishes if offer.tasks is None))
        looked = self._work(certain)
        try:
            if certain:
                cells += self.payments.paid_before(looked)
                await self._rounds([certain], cells)
            surrogate = self.surrogate_filter
            for rivals in surrogate.groups(racing) if surrogate else [racing]:
                if surrogate:
                    rivals = await self._promising(rivals, surrogate, cells)
                if rivals:
                    await self._rounds(self.plan.allocation.race(rivals, self.pool, self.payments.room), cells)
        except QuotaSpent:
            raise
        except BudgetSpent:
            return cells, True
        return cells, False

    async def _promising(self, racing: list[int], surrogate: SurrogateFilter, cells: list[Cell]) -> list[int]:
        """The candidates that the surrogate does not consider hopeless. Some of the others are audited: they are
        evaluated anyway. If the budget has no room for an audit, nothing is skipped: a search that pays for nothing
        would never end."""
        room, tasks = self.payments.room, [(task, 0) for task in surrogate.tasks]
        skips = surrogate.skips(racing, self._best()) if room is None or room >= len(tasks) else []
        if not skips:
            return racing
        facts = [skip.fact(self.evaluator.clock(), self.evaluator.by, self.payments.name) for skip in skips]
        self.evaluator.store.append(facts)
        self.skips += facts
        hopeless = [self.pool.place(skip.playbook) for skip in skips]
        audited = [place for place, skip in zip(hopeless, skips, strict=True) if skip.audited]
        # Tried on some of the tasks only, a candidate would show nothing.
        some = audited if room is None else audited[: room // len(tasks)]
        await self._rounds([[(place, tasks) for place in some]], cells)
        return [place for place in racing if place not in hopeless]

    async def _rounds(self, rounds: Iterable[Wanted], cells: list[Cell] | None = None) -> None:
        for wanted in rounds:
            paid = await self.payments.pay(self._work(wanted))
            self.pool.tell(paid)
            if cells is not None:
                cells += paid
            if paid:
                self._report(len(paid))

    def _work(self, wanted: Wanted) -> list[PlaybookTasks]:
        once = {id(own): own for _, own in wanted}  # most rounds give all candidates one and the same list
        items = {name: [(self.tasks[task], replicate) for task, replicate in own] for name, own in once.items()}
        return [(self.pool.playbooks[place], items[id(own)]) for place, own in wanted]

    def _store(self, offers: Sequence[Offer]) -> None:
        """Store offers before their first score: a candidate taken from an interrupted search counts as chosen by
        these tasks too."""
        new = {offer.playbook.digest: offer for offer in offers if offer.playbook.digest not in self.pool}
        if not new:
            return
        grown = [(offer.playbook, offer.parents, offer.how) for offer in new.values()]
        self.payments.fresh |= self.library.keep_all(grown, because=self.because)
        seen = [tasks.digest for tasks in (self.plan.select, self.plan.reflect) if len(tasks)]
        self.evaluator.store.append(
            new_fact(self.evaluator, "trial", digest("trial", [named, tasks]), named, {"dataset": tasks})
            for named in new
            for tasks in seen
        )

    def _record_step(self, offers: Sequence[Offer], runs: int) -> None:
        """Store the step as a fact, once all of it is paid."""
        best = self._best()
        standing, named = self.pool.standing(best), self.pool.playbooks[best].digest
        offered = tuple(offer.playbook.digest for offer in offers)
        step = SearchStep(len(self.steps), offered, runs, named, standing.mean, standing.deviation)
        self.steps.append(step)
        body: Json = {"step": step.number, "offered": list(offered), "best": named, **self.account.spent}
        body |= {"deviation": standing.deviation, "arms": [offer.arm for offer in offers]}
        if self.surrogate_filter:
            skipped = {skip.subject for skip in self.skips}
            body["skipped"] = [each for each in offered if each in skipped]
        self.evaluator.store.append([self.payments.fact("step", step.number, body, step.score)])
        self._report(0)

    def _best(self) -> int:
        """The place of the estimated best, computed again only after new scores."""
        if self._best_at != self.pool.updates:
            self._best_at, self._best_place = self.pool.updates, self.plan.allocation.best(self.pool)
        return self._best_place

    def _report(self, cells: int) -> None:
        if self.on_event:
            self.on_event(SearchProgress(self.pool, self.account, self.steps, cells, self._best(), self.skips))

    def _transcript(self, run: str) -> Run | None:
        with suppress(NotFound):
            return recall(self.evaluator.store, run)
        return None

    # The end

    async def _confirm(self, best: int) -> Confirmation | None:
        """The scores of the best on the confirm tasks. None if the best is the start, or if there are no such tasks."""
        tasks = self.plan.confirm
        if not best or not len(tasks):
            return None
        sampled = best_of_n(self.pool)
        chosen = dict.fromkeys(place for place in (0, best, sampled) if place is not None)
        playbooks = [self.pool.playbooks[place] for place in chosen]
        try:
            cells = await self.payments.pay([(playbook, [(task, 0) for task in tasks]) for playbook in playbooks])
        except QuotaSpent:
            raise
        except BudgetSpent:  # of the money; there are always runs for that
            return None
        first = self.evaluator.metrics[0]
        own = {
            each.digest: [cell for cell in cells if cell.playbook == each.digest and cell.metric == first.name]
            for each in playbooks
        }
        named = None if sampled is None else self.pool.playbooks[sampled].digest
        return confirm(own, tasks, self.plan.start.digest, self.pool.playbooks[best].digest, named, first)

    def _record(self, evolution: Evolution) -> None:
        score = self.pool.standing(self.pool.place(evolution.best)).mean
        body: Json = {
            "start": evolution.start,
            "best": evolution.best,
            "dataset": self.plan.select.digest,
            "metric": self.evaluator.metrics[0].name,
            "tried": len(self.pool) - 1,
            "ended": evolution.ended,
            "optimism": evolution.optimism,
            "confirmed": evolution.confirmed.body() if evolution.confirmed else None,
            **evolution.spent,
        }
        self.evaluator.store.append(
            [new_fact(self.evaluator, "evolution", evolution.search, evolution.best, body, score)]
        )
