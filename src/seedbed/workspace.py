"""Workspace: one store, one set of models, five verbs."""

from __future__ import annotations

import getpass
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from seedbed.errors import Problem, SettingsError, StoreError
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.stage.quota import Spending
from seedbed.storage import open_store
from seedbed.storage.store import Fact, Json, Query, Ref, Store, Upkeep
from seedbed.telemetry import switch_on

if TYPE_CHECKING:
    from seedbed.evaluation.dataset import Dataset, Task
    from seedbed.evaluation.evaluate import Bench, Scorecard
    from seedbed.evaluation.evaluate import Watcher as CellWatcher
    from seedbed.evaluation.metrics import Metric
    from seedbed.evolution.evolve import Evolution, Optimizer
    from seedbed.evolution.evolve import Watcher as EvolutionWatcher
    from seedbed.experiments.compare import Watcher as AnswerWatcher
    from seedbed.experiments.experiment import Verdict
    from seedbed.models.registry import Registry
    from seedbed.parallel import Executor
    from seedbed.runs.run import Heard, Run
    from seedbed.stage.house import House
    from seedbed.stage.ledger import Ledger
    from seedbed.stage.stage import Confirm, Stage
    from seedbed.storage.redis import Redis

T = TypeVar("T")

AT_ONCE = 8
"""How many runs are under way at a time; the embedded model answers as many together."""


@dataclass
class Workspace:
    """Everything put together. Playbooks are given as Playbook, or by digest, ref or channel name."""

    settings: Settings
    store: Store
    tools: list[Any] = field(default_factory=list)
    """What programs may call: functions, LangChain tools, or `Tool`."""
    confirm: Confirm | None = None
    """Asks a person where a rule wants it; without it the answer is no."""
    spent: Spending = field(init=False)
    _executors: dict[str, Executor] = field(init=False, repr=False, default_factory=dict)

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
            if "_house" in vars(space):
                await space.house.closed()
            space.close()

    @classmethod
    def at(cls, settings: Settings) -> Workspace:
        switch_on(settings)
        from seedbed.storage.wrappers import Encrypted, MasterKey, expect_plain

        key = MasterKey.from_environment() if settings.encrypted else None
        redis = _redis(settings)
        store = open_store(store_url(settings))
        try:
            if redis and settings.store.startswith("postgresql:"):  # a file of this machine answers sooner than Redis
                from seedbed.storage.cached import with_cache

                store = with_cache(store, redis)
            if key:
                return cls(settings, Encrypted(store, key))
            expect_plain(store)
        except StoreError:
            store.close()
            raise
        return cls(settings, store)

    def close(self) -> None:
        for executor in self._executors.values():
            executor.close()
        if "_house" in vars(self):
            self.house.close()
        if isinstance(self.store, Upkeep):
            self.store.close()

    @property
    def by(self) -> str:
        return self.settings.by or _login()

    @property
    def library(self) -> Library:
        return Library(self.store, self.by)

    @property
    def house(self) -> House:
        """Where runs are performed, with the tools and the person to ask that there are now."""
        house = self._house
        house.tools, house.confirm = self.tools, self.confirm
        return house

    @cached_property
    def _house(self) -> House:
        from seedbed.stage.house import House

        return House(self.settings, self.store, self.library, self.models, self.spent)

    @cached_property
    def models(self) -> Registry:
        from seedbed.models.registry import Registry

        return Registry(self.settings.models, self.settings.source)

    def playbook(self, named: Playbook | str) -> Playbook:
        """A playbook itself, or the one a file, digest, ref or channel names."""
        if isinstance(named, Playbook):
            return named
        if Path(named).suffix in (".yaml", ".yml", ".json"):
            return Playbook.load(named)
        return self.library.get(named)

    # The five verbs

    async def run(
        self,
        playbook: Playbook | str,
        /,
        *,
        seed: int | None = None,
        max_cost_usd: float | None = None,
        hear: Callable[[Heard], None] | None = None,
        **inputs: Any,
    ) -> Run:
        """Perform a playbook once and record it. It never costs more than `max_cost_usd`, and concludes in time.

        Whoever wants to `hear` it is told every piece as it is said.
        """
        chosen = self.playbook(playbook)
        return await self.house.perform(chosen, inputs, _seed(seed), max_cost_usd=max_cost_usd, hear=hear)

    async def resume(
        self, run: str, *, max_cost_usd: float | None = None, hear: Callable[[Heard], None] | None = None
    ) -> Run:
        """Go on with a run that was interrupted or failed: what it was told is not asked again."""
        return await self.house.resume(run, max_cost_usd=max_cost_usd, hear=hear)

    def learn(self, run: Run, score: float) -> None:
        """Tell the router how good a run was, from 0 to 1: every model it chose in it is remembered by that."""
        turns = {turn.step or turn.role: turn for turn in run.turns}
        outcomes = []
        for choice in self.store.facts(Query(kind="routing", subject=run.id)):
            if turn := turns.get(choice.body["step"]):
                body = {"task_type": choice.body["task_type"], "model": turn.model, "score": score}
                body |= {"cost_usd": turn.cost_usd, "latency_seconds": turn.latency_seconds}
                at = datetime.now(UTC)
                outcomes.append(
                    Fact(kind="outcome", key=choice.key, subject=run.id, at=at, by=self.by, body=body, value=score)
                )
        for fact in outcomes:
            if self.store.append([fact]):
                self.house.router.learn(**fact.body)

    @asynccontextmanager
    async def recording(
        self, playbook: Playbook | str, /, *, seed: int | None = None, max_cost_usd: float | None = None, **inputs: Any
    ) -> AsyncIterator[Stage]:
        """A stage for an agent that lives elsewhere: what it does there is recorded as a run of the playbook.

        `stage.output` is what the run is said to have given.
        """
        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="run")
        async with self.house.recording(chosen, inputs, _seed(seed), max_cost_usd=max_cost_usd) as stage:
            yield stage

    def recorded(
        self, playbook: Playbook | str, /, *, seed: int | None = None, max_cost_usd: float | None = None
    ) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
        """Have each call of an async function recorded as a run: its arguments are the inputs, its result the output.

        A parameter called `stage` is given the stage. What the function raises is recorded, and raised again.
        """
        from seedbed.stage.recorded import recorded

        def recording(**inputs: Any) -> AbstractAsyncContextManager[Stage]:
            return self.recording(playbook, seed=seed, max_cost_usd=max_cost_usd, **inputs)

        return lambda function: recorded(function, recording)

    async def evaluate(
        self,
        playbook: Playbook | str,
        tasks: Dataset,
        metrics: Metric | Sequence[Metric],
        *,
        replicates: int = 1,
        max_cost_usd: float | None = None,
        watch: CellWatcher | None = None,
        parallel: str | int | None = None,
    ) -> Scorecard:
        """Score a playbook over tasks, by the first metric above all; what was paid before is reused.

        It never costs more than `max_cost_usd`; what the money does not last for has no score, and is tried next time.
        `parallel` says where it is done: `loop`, `processes`, a number of them, `ray` or `ray://HOST:PORT`; as the
        workspace file says if nothing is given.
        """
        from seedbed.evaluation.evaluate import evaluate

        chosen = self.playbook(playbook)
        self.library.keep(chosen, because="evaluated")
        self.store.put("dataset", tasks.content())
        return await evaluate(
            chosen,
            tasks,
            metrics,
            self.bench_on(parallel),
            replicates=replicates,
            max_cost_usd=max_cost_usd,
            watch=watch,
        )

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
        from seedbed.release.protection import required

        gates = required(to, self._protection(to))
        digest = self.library.keep(self.playbook(playbook), because="released")
        reason = because or (str(verdict) if verdict else "first release")
        return await release(self.library, to, digest, gates, verdict=verdict, because=reason)

    def _protection(self, channel: str) -> Json:
        """What protects a channel. One that nobody declared and nothing was released to is a slip of the pen."""
        declared = self.settings.channels
        if channel not in declared and self.store.ref(f"channels/{channel}") is None:
            known = ", ".join(declared) or "none yet"
            remedy = "Add it under channels in the workspace file, or check its spelling."
            raise SettingsError([Problem(f"channels.{channel}", "nothing", f"one of: {known}", remedy)])
        return declared.get(channel, {})

    async def rollback(self, channel: str, *, because: str) -> Ref:
        """Return a channel to what it served before."""
        from seedbed.release.channels import rollback

        return rollback(self.library, channel, because=because)

    # What the verbs share

    @property
    def bench(self) -> Bench:
        return self.bench_on(None)

    def bench_on(self, parallel: str | int | None) -> Bench:
        """The bench whose runs are performed there, or where the settings say. Raises SettingsError."""
        from seedbed.parallel import Loop, executor
        from seedbed.worker import elsewhere

        named = str(self.settings.parallel if parallel is None else parallel)
        chosen = self._executors.get(named) or self._executors.setdefault(named, executor(named))
        if isinstance(chosen, Loop):
            return self._bench
        if self.settings.store.partition(":")[0] == "memory":
            remedy = "Keep it in sqlite:///FILE or in PostgreSQL, or work in this loop."
            raise SettingsError([Problem("store", "memory:", "a store that other processes can reach", remedy)])
        return replace(self._bench, elsewhere=elsewhere(chosen, opened_by, self._told))

    def _told(self) -> Told:
        """What other processes have to know to work here. They need not sit in this folder."""
        source = Path(self.settings.source or "seedbed.yaml").absolute()
        where = {"store": store_url(self.settings), "source": str(source), "parallel": "loop"}
        return self.settings.model_copy(update=where), self.tools, self.confirm

    @cached_property
    def _bench(self) -> Bench:
        from seedbed.evaluation.evaluate import Bench

        async def perform(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
            return await self.house.once(run, playbook, dict(task.inputs), seed, ledger=ledger)

        return Bench(self.store, perform, self.house.identity, self.by, AT_ONCE, present=self.house.present)


Told: TypeAlias = "tuple[Settings, list[Any], Confirm | None]"


def opened_by(told: Told) -> Workspace:
    """The workspace of another process, with the same settings and tools."""
    settings, tools, confirm = told
    space = Workspace.at(settings)
    space.tools, space.confirm = tools, confirm
    return space


def store_url(settings: Settings) -> str:
    """Where the store is, with a relative path seen from the workspace file, wherever the command was given."""
    for scheme in ("sqlite:///", "files:"):
        rest = settings.store.removeprefix(scheme)
        if rest and rest != settings.store and not rest.startswith("/"):
            return f"{scheme}{settings.path(rest)}"
    return settings.store


def _redis(settings: Settings) -> Redis | None:
    """The Redis of the settings, if there is one."""
    if not settings.cache:
        return None
    from seedbed.storage.redis import redis_at

    return redis_at(settings.cache)


def _seed(given: int | None) -> int:
    return random.SystemRandom().getrandbits(31) if given is None else given


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        remedy = "Set by in the workspace file, or SEEDBED_BY."
        raise SettingsError([Problem("by", "no user name on this machine", "who is working", remedy)]) from None
