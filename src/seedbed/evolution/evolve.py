"""evolve(): ask, allocate, evaluate, tell, until the budget is spent; the store is the checkpoint.

A search that was interrupted is taken up by running it again: every cell, every run and every reservation of it is a
fact, and all chance is drawn by name, so it comes to the same point without paying twice, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from seedbed.documents import html_table
from seedbed.errors import BudgetSpent, NotFound, QuotaSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.metrics.metric import better
from seedbed.evolution.allocation import Wanted
from seedbed.evolution.confirmation import Confirmation, best_of_n, confirmation, optimism
from seedbed.evolution.evaluators import Evaluator, Work
from seedbed.evolution.learning.surrogate_filter import Skipping
from seedbed.evolution.payments import Payments
from seedbed.evolution.plan import Plan
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Optimizer, Search
from seedbed.playbooks.library import Library
from seedbed.runs.recorder import recall
from seedbed.runs.run import Run
from seedbed.spending.account import Account, Budget
from seedbed.storage.store import Digest, Fact, Json, digest, short

LAST = 0.25
"""The share of the runs of a search that is kept at most to be sure of the best at its end."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of a search: what was offered, how many runs it took, and what was believed to be best after it."""

    number: int
    offered: tuple[Digest, ...]
    runs: int
    best: Digest
    score: float
    deviation: float


@dataclass(frozen=True)
class Evolution:
    """What a search tried and what it kept.

    What the search believes of its best is the best of many: expect less on other tasks, by about its `optimism`;
    `confirmed` is what those say that were kept for it. `ended` says why the search came to an end. `skips` are facts
    of candidates that a surrogate thought hopeless.
    """

    search: Digest
    start: Digest
    best: Digest
    pool: Pool = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)
    budget: Budget
    spent: Json
    ended: str
    optimism: float = 0.0
    confirmed: Confirmation | None = None
    skips: tuple[Fact, ...] = field(default=(), repr=False)

    @property
    def improved(self) -> bool:
        return self.best != self.start

    def __repr__(self) -> str:
        gain = f", confirmed gain {self.confirmed.gain}" if self.confirmed else ""
        best = f"best {short(self.best)}" if self.improved else "nothing better"
        return f"<Evolution from {short(self.start)}: {best}{gain}, {self.spent['runs']:,} runs>"

    def _repr_html_(self) -> str:
        rows: list[tuple[object, object]] = [("start", short(self.start)), ("best", short(self.best))]
        if sure := self.confirmed:
            least, most = self.pool.bounds()
            scores = [("score of the start", sure.start), ("score of the best", sure.best)]
            rows += [*((name, score.within(least, most)) for name, score in scores), ("gain", sure.gain)]
        rows += [
            ("candidates", f"{len(self.pool) - 1:,} in {len(self.steps):,} steps"),
            ("spent", f"{self.spent['runs']:,} runs, ${self.spent['usd']:.4f}"),
            ("ended", self.ended or "not yet"),
        ]
        title = "A better playbook" if self.improved else "Nothing better than the start"
        on = f"{sure.tasks:,} tasks that the search had not seen" if sure else ""
        note = f"Scores with 95 % intervals, on {on}." if sure else "No other tasks have confirmed it."
        return html_table(title, rows, note=note if self.improved else "")


@dataclass(frozen=True, slots=True)
class Told:
    """What whoever watches a search is told after each round and each step of it."""

    pool: Pool
    account: Account
    steps: Sequence[Step]
    cells: int
    best: int
    skips: Sequence[Fact] = ()


Watcher = Callable[[Told], None]


async def evolve(
    plan: Plan,
    arena: Evaluator,
    library: Library,
    *,
    because: str,
    options: Json | None = None,
    watch: Watcher | None = None,
) -> Evolution:
    """Search for a better playbook. Every candidate is kept with its parents; the result is the best, or the start.

    Nothing is launched that the budget has no room for: runs are reserved, durably, before the first of them. The runs
    that confirm are kept apart from the beginning. Raises BudgetSpent if nothing is left for the search. `options` are
    kept with it, for whoever wants to plan the same again.
    """
    return await _Searching(plan, arena, library, because, options or {}, watch).done()


class _Searching:
    def __init__(
        self, plan: Plan, arena: Evaluator, library: Library, because: str, options: Json, watch: Watcher | None
    ) -> None:
        self.plan, self.arena, self.library, self.because, self.watch = plan, arena, library, because, watch
        self.tasks = {task.id: task for task in (*plan.select, *plan.reflect)}
        self.steps: list[Step] = []
        self._known, self._found = -1, 0
        self.account = Account(plan.budget)
        self.till = Payments(self._registered(options), arena, self.account)
        self.search = Search(
            plan.start, plan.reflect.tasks, self._pool(), plan.seed, self.till.perform, self._transcript
        )
        self.pool = self.search.pool
        self.skipping = Skipping(self.pool, plan.seed) if plan.surrogate else None
        self.skips: list[Fact] = []

    async def done(self) -> Evolution:
        plan = self.plan
        confirming = 3 * len(plan.confirm)
        self._expect_room(confirming)
        plan.optimizer.begin(self.search)
        try:
            async with self.arena.present():
                ended = await self._searched(confirming)
                best = await self._last(confirming)
                confirmed = await self._confirmed(best)
        finally:
            getattr(plan.optimizer, "close", lambda: None)()
        evolution = Evolution(
            self.till.name,
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
        )
        self._record(evolution)
        return evolution

    async def _last(self, confirming: int) -> int:
        """The best, after all that was kept to be sure of it."""
        self.till.kept = confirming
        try:
            await self._rounds(self.plan.allocation.finals(self.pool))
        except QuotaSpent:
            raise
        except BudgetSpent:
            pass
        self.till.kept = 0
        return self._best()

    # Before the first run

    def _registered(self, options: Json) -> Digest:
        for tasks in (self.plan.select, self.plan.reflect, self.plan.confirm):
            self.arena.store.put("dataset", tasks.content())
        self.library.keep(self.plan.start, because=self.because)
        plan, named = self.plan, self.arena.store.put("search", self.plan.content(self.arena))
        body = {"optimizer": plan.optimizer.identity["optimizer"], "budget": str(plan.budget), "seed": plan.seed}
        self.arena.store.append([self._fact("search", named, plan.start.digest, {**body, "options": options})])
        return named

    def _pool(self) -> Pool:
        """The table of the search, with the tasks that decide in the order in which all candidates meet them."""
        plan = self.plan
        order = Search(plan.start, (), Pool(self.arena.metrics, ()), plan.seed).chance("order")
        select = [plan.select.tasks[number].id for number in order.permutation(len(plan.select))]
        pool = Pool(self.arena.metrics, select, [task.id for task in plan.reflect])
        pool.add(Offer(plan.start, how="start"))
        return pool

    def _expect_room(self, confirming: int) -> None:
        if self.account.runs_left(confirming) == 0:
            raise BudgetSpent(
                f"found a budget of {self.plan.budget}; expected more than the {confirming} runs that confirm what is "
                f"found on {len(self.plan.confirm)} tasks. Raise it, or keep fewer tasks for that"
            )

    # Steps

    async def _searched(self, confirming: int) -> str:
        """Ask and tell until there is a reason to stop, which it gives."""
        idle, over = 0, "the budget was spent"
        room = self.account.runs_left(confirming)
        while True:
            last = self.plan.allocation.kept(self.pool)
            self.till.kept = confirming + (last if room is None else min(last, int(LAST * room)))
            if self.till.is_empty(len(self.steps)):
                return over
            before, runs = self._best(), self.account.runs
            try:
                offers = await self.plan.optimizer.ask()
            except QuotaSpent:
                raise  # which no budget of ours can tell: tomorrow it goes on
            except BudgetSpent:
                return over
            if not offers:
                return "the optimizer had nothing more to offer"
            cells, short = await self._tried(offers)
            self._step(offers, self.account.runs - runs)
            await self.plan.optimizer.tell(cells)
            if short:
                return over
            if any(offer.tasks is None for offer in offers):  # who only looks cannot find anything
                idle = 0 if self._best() != before else idle + 1
            if self.plan.patience is not None and idle >= self.plan.patience:
                return f"{idle} steps brought nothing better"
            if self.plan.enough is not None and self.steps[-1].score >= self.plan.enough:
                return f"{self.plan.enough:g} was enough"

    async def _tried(self, offers: Sequence[Offer]) -> tuple[list[Cell], bool]:
        """The cells of what was offered, as far as they were paid, and whether the budget ended that."""
        self._keep(offers)
        places = [self.pool.add(offer) for offer in offers]
        cells: list[Cell] = []
        wishes = list(zip(places, offers, strict=True))
        certain = [(place, [(task, 0) for task in offer.tasks]) for place, offer in wishes if offer.tasks is not None]
        racing = list(dict.fromkeys(place for place, offer in wishes if offer.tasks is None))
        looked = self._work(certain)
        try:
            if certain:
                cells += self.till.paid_before(looked)
                await self._rounds([certain], cells)
            for rivals in self.skipping.groups(racing) if self.skipping else [racing]:
                if self.skipping:
                    rivals = await self._promising(rivals, self.skipping, cells)
                if rivals:
                    await self._rounds(self.plan.allocation.race(rivals, self.pool, self.till.room), cells)
        except QuotaSpent:
            raise
        except BudgetSpent:
            return cells, True
        return cells, False

    async def _promising(self, racing: list[int], skipping: Skipping, cells: list[Cell]) -> list[int]:
        """Those that are worth a race. Of the others some are evaluated all the same, on as many tasks as any; when
        there is no room for that, nothing is skipped: a search that pays for nothing would never end."""
        room, tasks = self.till.room, [(task, 0) for task in skipping.tasks]
        skips = skipping.skips(racing, self._best()) if room is None or room >= len(tasks) else []
        if not skips:
            return racing
        facts = [skip.fact(self.arena.clock(), self.arena.by, self.till.name) for skip in skips]
        self.arena.store.append(facts)
        self.skips += facts
        hopeless = [self.pool.place(skip.playbook) for skip in skips]
        audited = [place for place, skip in zip(hopeless, skips, strict=True) if skip.audited]
        some = audited if room is None else audited[: room // len(tasks)]  # in part they would tell nothing
        await self._rounds([[(place, tasks) for place in some]], cells)
        return [place for place in racing if place not in hopeless]

    async def _rounds(self, rounds: Iterable[Wanted], cells: list[Cell] | None = None) -> None:
        for wanted in rounds:
            paid = await self.till.pay(self._work(wanted))
            self.pool.tell(paid)
            if cells is not None:
                cells += paid
            if paid:
                self._tell(len(paid))

    def _work(self, wanted: Wanted) -> list[Work]:
        once = {id(own): own for _, own in wanted}  # most rounds give all candidates one and the same list
        items = {name: [(self.tasks[task], replicate) for task, replicate in own] for name, own in once.items()}
        return [(self.pool.playbooks[place], items[id(own)]) for place, own in wanted]

    def _keep(self, offers: Sequence[Offer]) -> None:
        """Keep what is offered before its first score: whoever takes a candidate from a search that was interrupted
        has chosen it, too."""
        new = {offer.playbook.digest: offer for offer in offers if offer.playbook.digest not in self.pool}
        if not new:
            return
        grown = [(offer.playbook, offer.parents, offer.how) for offer in new.values()]
        self.till.fresh |= self.library.keep_all(grown, because=self.because)
        seen = [tasks.digest for tasks in (self.plan.select, self.plan.reflect) if len(tasks)]
        self.arena.store.append(self._trial(named, tasks) for named in new for tasks in seen)

    def _trial(self, candidate: Digest, tasks: Digest) -> Fact:
        return self._fact("trial", digest("trial", [candidate, tasks]), candidate, {"dataset": tasks})

    def _fact(self, kind: str, key: str, subject: str, body: Json, value: float | None = None) -> Fact:
        at, by = self.arena.clock(), self.arena.by
        return Fact(kind=kind, key=key, subject=subject, at=at, by=by, body=body, value=value)

    def _step(self, offers: Sequence[Offer], runs: int) -> None:
        """A step is a fact when all of it is paid: whole, or not at all."""
        best = self._best()
        standing, named = self.pool.standing(best), self.pool.playbooks[best].digest
        offered = tuple(offer.playbook.digest for offer in offers)
        step = Step(len(self.steps), offered, runs, named, standing.mean, standing.deviation)
        self.steps.append(step)
        body: Json = {"step": step.number, "offered": list(offered), "best": named, **self.account.spent}
        body |= {"deviation": standing.deviation, "arms": [offer.arm for offer in offers]}
        if self.skipping:
            skipped = {skip.subject for skip in self.skips}
            body["skipped"] = [each for each in offered if each in skipped]
        self.arena.store.append([self.till.fact("step", step.number, body, standing.mean)])
        self._tell(0)

    def _best(self) -> int:
        """What is believed to be best now; found again only when something was told since."""
        if self._known != self.pool.told:
            self._known, self._found = self.pool.told, self.plan.allocation.best(self.pool)
        return self._found

    def _tell(self, cells: int) -> None:
        if self.watch:
            self.watch(Told(self.pool, self.account, self.steps, cells, self._best(), self.skips))

    def _transcript(self, run: str) -> Run | None:
        with suppress(NotFound):
            return recall(self.arena.store, run)
        return None

    # The end

    async def _confirmed(self, best: int) -> Confirmation | None:
        """How good the best is on tasks that are opened now. Nothing, if it is the start or there are none."""
        tasks = self.plan.confirm
        if not best or not len(tasks):
            return None
        sampled = best_of_n(self.pool)
        chosen = dict.fromkeys(place for place in (0, best, sampled) if place is not None)
        playbooks = [self.pool.playbooks[place] for place in chosen]
        try:
            cells = await self.till.pay([(playbook, [(task, 0) for task in tasks]) for playbook in playbooks])
        except QuotaSpent:
            raise
        except BudgetSpent:  # of the money; there are always runs for that
            return None
        first = self.arena.metrics[0]
        own = {
            each.digest: [cell for cell in cells if cell.playbook == each.digest and cell.metric == first.name]
            for each in playbooks
        }
        named = None if sampled is None else self.pool.playbooks[sampled].digest
        sign = 1.0 if better(first) == "higher" else -1.0
        return confirmation(own, tasks, self.plan.start.digest, self.pool.playbooks[best].digest, named, sign)

    def _record(self, evolution: Evolution) -> None:
        standing = self.pool.standing(self.pool.place(evolution.best))
        body: Json = {
            "start": evolution.start,
            "best": evolution.best,
            "dataset": self.plan.select.digest,
            "metric": self.arena.metrics[0].name,
            "tried": len(self.pool) - 1,
            "ended": evolution.ended,
            "optimism": evolution.optimism,
            "confirmed": evolution.confirmed.body() if evolution.confirmed else None,
            **evolution.spent,
        }
        fact = self._fact("evolution", evolution.search, evolution.best, body, standing.mean)
        self.arena.store.append([fact])


__all__ = ["Evolution", "Optimizer", "Plan", "Step", "Told", "Watcher", "evolve"]
