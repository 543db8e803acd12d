"""Evolution: the result of a search. PastSearch: a search read from its facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.documents import html_table
from seedbed.errors import NotFound, amount, shown
from seedbed.evaluation.cells import Cell, Naming
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.identity import unit_of
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evolution.confirmation import CHOOSING, Confirmation, optimism, units_tried
from seedbed.evolution.evaluators import Measure
from seedbed.evolution.plan import SearchOptions
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Search
from seedbed.playbooks.library import Library
from seedbed.plugins import load, optional
from seedbed.spending.budget import Budget
from seedbed.stats.arrays import Direction
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest, short

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One step of a search: what was offered, how many runs it took, and the estimated best after it."""

    number: int
    offered: tuple[Digest, ...]
    runs: int
    best: Digest
    score: float
    deviation: float


@dataclass(frozen=True)
class Evolution:
    """The result of a search: the best playbook, all that was tried, and what it cost.

    The score of the best is the highest of many, so it is too high by about `optimism`, its selection bias. `confirmed`
    is its score on tasks that the search did not see. `units` is on how many units it was chosen: tasks, or sources
    that several tasks share. `ended` says why the search ended. `skips` are the facts of candidates that the surrogate
    considered hopeless.
    """

    search: Digest
    start: Digest
    best: Digest
    pool: Pool = field(repr=False)
    steps: tuple[SearchStep, ...] = field(repr=False)
    budget: Budget
    spent: Json
    ended: str
    optimism: float = 0.0
    confirmed: Confirmation | None = None
    skips: tuple[Fact, ...] = field(default=(), repr=False)
    units: int = 0

    @property
    def improved(self) -> bool:
        """Whether the best is not the start. That it is better is another question: see `is_confirmed`."""
        return self.best != self.start

    @property
    def is_confirmed(self) -> bool:
        """Whether the best was chosen on enough tasks, and does better on new ones by more than chance."""
        return not self.unconfirmed

    @property
    def unconfirmed(self) -> str:
        """Why the best is not known to be better than the start, and what to do; empty if it is."""
        if not self.ended:
            return "The search has not ended."
        if not self.improved:
            return "The search found nothing better than the start."
        if self.units < CHOOSING:
            more = f"that takes at least {CHOOSING}. Search with more tasks, or with a larger budget."
            return f"The best was chosen on {self.units} tasks; {more}"
        if self.confirmed is None:
            return "No new tasks have confirmed it. Set some aside for that, or compare it with the start on others."
        return self.confirmed.doubt

    def __repr__(self) -> str:
        sure = "confirmed" if self.is_confirmed else "unconfirmed"
        gain = f", {sure} gain {self.confirmed.gain}" if self.confirmed else ""
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
            ("spent", f"{self.spent['runs']:,} runs, {amount(self.spent['usd'], self.spent.get('unpriced', 0))}"),
            ("ended", self.ended or "not yet"),
        ]
        title = "A better playbook" if self.is_confirmed else "A playbook that may be better"
        title = title if self.improved else "Nothing better than the start"
        on = f"Scores with 95 % intervals, on {sure.tasks:,} tasks that the search had not seen." if sure else ""
        return html_table(title, rows, note=f"{on} {self.unconfirmed}".strip() if self.improved else "")

    def export(
        self, to: str | Path, *, store: Store | None = None, names: Mapping[Digest, str] | None = None
    ) -> str | bytes | Path:
        """The search as `json`, `md` or `html`; or the path of the file that it was written to, if `to` is one that
        ends so. Its store adds its plan and the names of playbooks; `names` are further ones, by digest."""
        write = load("seedbed.reports.search.report:export", "export")
        report: str | bytes | Path = write(self, to, store=store, names=names)
        return report

    def figures(self) -> Mapping[str, Any]:
        """The figures of its report by their titles. Each shows itself in a notebook, and `save(path)` writes it to a
        file: .svg, .png or .pdf."""
        drawn: Mapping[str, Any] = load("seedbed.reports.search.report:figures", "figures")(self)
        return drawn

    def to_json(self) -> str:
        return str(self.export("json"))

    def to_pandas(self) -> pd.DataFrame:
        """All playbooks that it tried, a row each; a higher score is better. Raises SettingsError without pandas."""
        pandas = optional("pandas", extra="frames", needed_for="to_pandas()")
        pool, columns = self.pool, ["playbook", "score", "deviation", "tasks", "how", "arm", "parents"]
        origins = zip(pool.how, pool.arms, pool.parents, strict=True)
        standings = [pool.standing(place) for place in range(len(pool))]
        rows = [
            (each.digest, standing.mean, standing.deviation, standing.tasks, *origin)
            for each, standing, origin in zip(pool.playbooks, standings, origins, strict=True)
        ]
        frame: pd.DataFrame = pandas.DataFrame(rows, columns=columns)
        return frame


@dataclass(frozen=True)
class PastSearch:
    """A search that was started: its plan, its steps so far, and its end if it has one."""

    begun: Fact
    plan: Json
    steps: Sequence[Fact]
    end: Fact | None

    @property
    def search(self) -> Digest:
        return self.begun.key

    @property
    def ended(self) -> str:
        """Why it ended; empty while it has not."""
        return str(self.end.body["ended"]) if self.end else ""

    @property
    def best(self) -> Digest:
        """The best playbook, or the best so far."""
        if self.end:
            return self.end.subject
        return str(self._last.body["best"] if self._last else self.plan["start"])

    @property
    def score(self) -> float | None:
        """The estimated score of its best; higher is better."""
        return self._last.value if self._last else None

    @property
    def spent(self) -> Json:
        names = ("runs", "tokens", "usd", "seconds")
        if self._last is None:
            return dict.fromkeys(names, 0)
        return {name: self._last.body[name] for name in (*names, "unpriced") if name in self._last.body}

    @property
    def _last(self) -> Fact | None:
        return self.end or (self.steps[-1] if self.steps else None)

    @property
    def options(self) -> SearchOptions:
        """The options to resume it with. Raises NotFound if it was started by a Python program with objects of its
        own."""
        options = self.begun.body["options"]
        if not options:
            name = self.search.removeprefix("b2:")[:10]
            raise NotFound(
                f"search {name} was started from Python. Start it there again with the same arguments to resume it"
            )
        return SearchOptions.from_json(options)

    @property
    def confirmed(self) -> Confirmation | None:
        body = self.end.body["confirmed"] if self.end else None
        return Confirmation.from_body(body) if body else None


def list_searches(store: Store) -> Iterator[PastSearch]:
    """Every search that was started, the newest first."""
    return (_past(store, begun) for begun in store.facts(Query(kind="search", newest=True)))


def find_search(store: Store, prefix: str) -> PastSearch:
    """The search whose digest begins with these characters. Raises NotFound."""
    start = f"b2:{prefix.removeprefix('b2:')}"
    matches = list(store.facts(Query(kind="search", key_from=start, limit=2)))
    if len(matches) != 1:
        problem = "begins several searches. Give more characters" if matches else "is no search of this store"
        raise NotFound(f"{shown(prefix)} {problem}; `seedbed search list` shows them")
    return _past(store, matches[0])


def _past(store: Store, begun: Fact) -> PastSearch:
    end = next(iter(store.facts(Query(kind="evolution", key=begun.key))), None)
    steps = sorted(store.facts(Query(kind="step", subject=begun.key)), key=lambda fact: int(fact.body["step"]))
    return PastSearch(begun, store.get(begun.key), steps, end)


def recall_search(store: Store, past: PastSearch, better: Mapping[str, Direction] | None = None) -> Evolution:
    """The result of a search, or its state so far: from its steps, and the scores of what they offered.

    Higher is better unless `better` says otherwise, by the name of the metric. Scores that were known from elsewhere
    count too. The deviation of a step is NaN where it is not recorded.
    """
    select = Dataset.from_content(store.get(past.plan["select"]))
    pool = _pool(store, past, better or {})
    seen, steps = 0, []
    for fact in past.steps:
        body, offered = fact.body, tuple(fact.body["offered"])
        score, deviation = fact.value or 0.0, body.get("deviation", math.nan)
        steps.append(SearchStep(body["step"], offered, body["runs"] - seen, body["best"], score, deviation))
        seen = body["runs"]
    chance = Search(pool.playbooks[0], (), pool, past.plan["seed"]).chance("optimism")
    return Evolution(
        past.search,
        past.plan["start"],
        past.best,
        pool,
        tuple(steps),
        Budget(**past.plan["budget"]),
        past.spent,
        past.ended,
        past.end.body["optimism"] if past.end else optimism(pool, chance),
        past.confirmed,
        tuple(_skips(store, past)),
        units_tried(pool, pool.place(past.best), {task.id: unit_of(task) for task in select}),
    )


def _skips(store: Store, past: PastSearch) -> Iterator[Fact]:
    """The candidates that the surrogate considered hopeless, in the order in which they were offered."""
    for playbook in dict.fromkeys(each for step in past.steps for each in step.body.get("skipped", ())):
        facts = store.facts(Query(kind="skip", subject=playbook))
        yield from (fact for fact in facts if fact.body.get("search") == past.search)


def _pool(store: Store, past: PastSearch, better: Mapping[str, Direction]) -> Pool:
    library = Library(store, past.begun.by)
    arms: dict[Digest, str] = {}
    for step in past.steps:
        offered = step.body["offered"]
        for playbook, arm in zip(offered, step.body.get("arms", [""] * len(offered)), strict=True):
            arms.setdefault(playbook, arm)
    members = list(dict.fromkeys((past.plan["start"], *arms)))
    select, reflect = (Dataset.from_content(store.get(past.plan[part])) for part in ("select", "reflect"))
    tasks = {task.id: task for task in (*select, *reflect)}
    cells = [cell for member in members for cell in _cells(store, past, member, tasks)]
    cells += [cell for cell in FailedRuns(store, past.search).cells if cell.task in tasks]
    metrics = [Measure(name, better=better.get(name, "higher")) for name in _metrics(past, cells)]
    pool = Pool(metrics, [task.id for task in select], [task.id for task in reflect])
    for member in members:
        entry = library.entry(member)
        origin = ((), "start") if member == past.plan["start"] else (entry.parents, entry.how)
        pool.add(Offer(library.get(member), *origin, arm=arms.get(member, "")))
    pool.tell(cells)
    return pool


def _metrics(past: PastSearch, cells: Iterable[Cell]) -> list[str]:
    """The names of the metrics, from the cells: a plan has only their identities."""
    names = {cell.key.split("/")[1]: cell.metric for cell in cells}
    identities = past.plan["metrics"]
    return [names.get(digest("metric", identity)[3:19], str(identity.get("metric"))) for identity in identities]


def _cells(store: Store, past: PastSearch, playbook: Digest, tasks: Mapping[str, Task]) -> list[Cell]:
    """The scores of a playbook on the tasks of a search that were known when it ended."""
    naming = Naming(playbook, past.plan["models"], past.plan["metrics"])
    ends = {key.partition("/")[2] for task in tasks.values() for key in naming(task, 0).cells}
    own = [
        Cell(key=fact.key, playbook=playbook, value=fact.value, **fact.body)
        for fact in store.facts(Query(kind="cell", subject=playbook))
        if fact.key.partition("/")[2] in ends and (past.end is None or fact.number < past.end.number)
    ]
    # The plan names the models of the start alone. For a playbook that asks other models all scores count.
    exact = [cell for cell in own if cell.key in naming(tasks[cell.task], cell.replicate).cells]
    return exact or own
