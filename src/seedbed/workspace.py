"""Workspace: one store, one set of models, five verbs."""

from __future__ import annotations

import getpass
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.errors import BudgetSpent, Problem, SettingsError
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings, revealed
from seedbed.storage import open_store
from seedbed.storage.store import Json, Query, Ref, Store
from seedbed.storage.store import digest as digest_of

if TYPE_CHECKING:
    from seedbed.evaluation.dataset import Dataset, Task
    from seedbed.evaluation.evaluate import Bench, Scorecard
    from seedbed.evaluation.evaluate import Watcher as CellWatcher
    from seedbed.evaluation.metrics import Metric
    from seedbed.evolution.evolve import Evolution, Optimizer
    from seedbed.evolution.evolve import Watcher as EvolutionWatcher
    from seedbed.experiments.compare import Watcher as AnswerWatcher
    from seedbed.experiments.experiment import Verdict
    from seedbed.models.registry import Model, Registry
    from seedbed.runs.run import Run

AT_ONCE = 8
"""How many runs are under way at a time; the embedded model answers as many together."""


@dataclass
class Workspace:
    """Everything put together. Playbooks are given as Playbook, or by digest, ref or channel name."""

    settings: Settings
    store: Store
    spent: Spending = field(init=False)

    def __post_init__(self) -> None:
        self.spent = Spending(self.settings, self.store)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path | str = "seedbed.yaml") -> AsyncIterator[Workspace]:
        """The workspace of a file, closed again at the end of the block."""
        space = cls.at(Settings.load(path))
        try:
            yield space
        finally:
            space.close()

    @classmethod
    def at(cls, settings: Settings) -> Workspace:
        store = open_store(store_url(settings))
        if settings.encrypted:
            from seedbed.storage.wrappers import Encrypted, MasterKey

            store = Encrypted(store, MasterKey.from_environment())  # type: ignore[arg-type]
        return cls(settings, store)

    def close(self) -> None:
        self.store.close()  # type: ignore[attr-defined]

    @property
    def by(self) -> str:
        return self.settings.by or _login()

    @property
    def library(self) -> Library:
        return Library(self.store, self.by)

    @cached_property
    def models(self) -> Registry:
        from seedbed.models.registry import Registry

        folder = self.settings.path(".")
        cards = {
            name: revealed(card, os.environ, f"models.{name}", folder) for name, card in self.settings.models.items()
        }
        return Registry(cards, self.settings.source)

    def playbook(self, named: Playbook | str) -> Playbook:
        """A playbook itself, or the one a file, digest, ref or channel names."""
        if isinstance(named, Playbook):
            return named
        if Path(named).suffix in (".yaml", ".yml", ".json"):
            return Playbook.load(named)
        return self.library.get(named)

    # The five verbs

    async def run(self, playbook: Playbook | str, /, *, seed: int | None = None, **inputs: Any) -> Run:
        """Perform a playbook once and record it."""
        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="run")
        return await self._perform(chosen, inputs, random.SystemRandom().getrandbits(31) if seed is None else seed)

    async def evaluate(
        self,
        playbook: Playbook | str,
        tasks: Dataset,
        metric: Metric,
        *,
        replicates: int = 1,
        watch: CellWatcher | None = None,
    ) -> Scorecard:
        """Score a playbook over tasks; cells already paid for are reused."""
        from seedbed.evaluation.evaluate import evaluate

        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="evaluated")
        self.store.put("dataset", tasks.content())
        return await evaluate(chosen, tasks, metric, self.bench, replicates=replicates, watch=watch)

    async def compare(
        self,
        control: Playbook | str,
        candidate: Playbook | str,
        *,
        on: Dataset,
        metric: Metric,
        alpha: float = 0.05,
        seed: int = 0,
        watch: AnswerWatcher | None = None,
    ) -> Verdict:
        """Decide whether the candidate is better, with a guaranteed error rate."""
        from seedbed.experiments.compare import compare

        old, new = self.playbook(control), self.playbook(candidate)
        for each in (old, new):
            self.library.keep(each, because="compared")
        return await compare(old, new, on, metric, self.bench, alpha=alpha, seed=seed, watch=watch)

    async def evolve(
        self,
        start: Playbook | str,
        tasks: Dataset,
        *,
        metric: Metric,
        optimizer: Optimizer,
        because: str = "evolved",
        watch: EvolutionWatcher | None = None,
    ) -> Evolution:
        """Search for a better playbook; every candidate is kept as a child of the start."""
        from seedbed.evolution.evolve import evolve

        chosen = self.playbook(start)
        return await evolve(chosen, tasks, metric, optimizer, self.bench, self.library, because=because, watch=watch)

    async def release(
        self, playbook: Playbook | str, *, to: str, verdict: Verdict | None = None, because: str = ""
    ) -> Ref:
        """Put a playbook on a channel, if the channel's gates let it pass."""
        from seedbed.release.channels import release
        from seedbed.release.gates import required

        gates = required(to, self.settings.channels.get(to, {}))
        digest = self.library.keep(self.playbook(playbook), because="released")
        reason = because or (str(verdict) if verdict else "first release")
        return await release(self.library, to, digest, gates, verdict=verdict, because=reason)

    async def rollback(self, channel: str, *, because: str) -> Ref:
        """Return a channel to what it served before."""
        from seedbed.release.channels import rollback

        return rollback(self.library, channel, because=because)

    # What the verbs share

    @cached_property
    def bench(self) -> Bench:
        from seedbed.evaluation.evaluate import Bench

        async def perform(playbook: Playbook, task: Task, seed: int) -> Run:
            return await self._perform(playbook, dict(task.inputs), seed)

        return Bench(self.store, perform, self.identity, self.by, AT_ONCE)

    def identity(self, playbook: Playbook) -> Json:
        """What the model names of a playbook stand for, prices aside: the part of a cell's key that is not text."""
        names = sorted({role.model for role in playbook.roles.values() if role.model})
        return {name: _identity(self.models[name]) for name in names}

    async def _perform(self, playbook: Playbook, inputs: Json, seed: int) -> Run:
        from seedbed.runs.recorder import Recorder
        from seedbed.stage.perform import perform
        from seedbed.stage.stage import Stage

        self.spent.check()
        identity = self.identity(playbook)
        recorder = Recorder(self.store, playbook.digest, inputs, seed=seed, by=self.by, models=identity)
        run = await perform(Stage(playbook, self.models.__getitem__, recorder, seed), inputs)
        self.spent.add(run.cost_usd)
        return run


def store_url(settings: Settings) -> str:
    """Where the store is, with a relative path seen from the workspace file, wherever the command was given."""
    for scheme in ("sqlite:///", "files:"):
        rest = settings.store.removeprefix(scheme)
        if rest != settings.store and not rest.startswith("/"):
            return f"{scheme}{settings.path(rest)}"
    return settings.store


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        remedy = "Set by in the workspace file, or SEEDBED_BY."
        raise SettingsError([Problem("by", "no user name on this machine", "who is working", remedy)]) from None


def _identity(model: Model) -> Json:
    card = model.card
    secret_free = digest_of("arguments", {key: str(value) for key, value in card.args.items()})
    return {"use": card.use, "args": secret_free}


class Spending:
    """What happened in the last 24 hours, against the quota: counted once from the store, then kept up."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._quota = settings.quota
        self._environment = settings.environment
        self._store = store
        self._seen: tuple[int, float] | None = None

    def check(self) -> None:
        """Raise BudgetSpent if the quota leaves no room for another run."""
        quota = self._quota
        if quota.runs_per_day is None and quota.usd_per_day is None:
            return
        runs, usd = self._used()
        over = []
        if quota.runs_per_day is not None and runs >= quota.runs_per_day:
            over.append(f"{runs} runs within a day; expected at most {quota.runs_per_day}")
        if quota.usd_per_day is not None and usd >= quota.usd_per_day:
            over.append(f"${usd:.2f} spent within a day; expected at most ${quota.usd_per_day:.2f}")
        if over:
            remedy = "Wait, raise quota in the workspace file, or choose another environment"
            raise BudgetSpent(f"{self._environment}: {' and '.join(over)}. {remedy}")

    def add(self, usd: float) -> None:
        if self._seen is not None:
            self._seen = (self._seen[0] + 1, self._seen[1] + usd)

    def _used(self) -> tuple[int, float]:
        if self._seen is None:
            since = datetime.now(UTC) - timedelta(days=1)
            costs = [fact.value or 0.0 for fact in self._store.facts(Query(kind="run", since=since))]
            self._seen = (len(costs), sum(costs))
        return self._seen
