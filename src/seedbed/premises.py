"""Premises: what a workspace is made of: a store, models, tools, and where runs are performed."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from seedbed.errors import NotFound, Problem, SettingsError, StoreError, shown
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import ChannelSettings, Settings
from seedbed.spending.quota import Spending
from seedbed.storage import open_store
from seedbed.storage.store import Store, Upkeep
from seedbed.telemetry import switch_on

if TYPE_CHECKING:
    from seedbed.evaluation.context import EvaluationContext
    from seedbed.evaluation.datasets.dataset import Dataset, Task
    from seedbed.evaluation.judges.declared import Declared
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.experiments.error_budget import BudgetTerms
    from seedbed.models.cards import Registry
    from seedbed.parallel import Executor
    from seedbed.runs.run import Run
    from seedbed.spending.ledger import Ledger
    from seedbed.stage.confirmation import Confirm, Person
    from seedbed.stage.runner import Runner
    from seedbed.storage.redis import Redis

AT_ONCE = 8
"""How many runs are under way at a time; the embedded model answers as many together."""


@dataclass
class Premises:
    """What a workspace is made of. Playbooks are given as Playbook, or by digest, ref or channel name."""

    settings: Settings
    store: Store
    tools: list[Any] = field(default_factory=list)
    """What programs may call: functions, LangChain tools, or `Tool`."""
    confirm: Confirm | Person | None = None
    """Asks a person where a rule wants it; without it the settings say who is asked."""
    spent: Spending = field(init=False)
    _executors: dict[str, Executor] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.spent = Spending(self.settings, self.store)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path | str = "seedbed.yaml") -> AsyncIterator[Self]:
        """The workspace of a file, closed again at the end of the block."""
        space = cls.at(Settings.load(path))
        try:
            yield space
        finally:
            if "_runner" in vars(space):
                await space.runner.aclose()
            space.close()

    @classmethod
    def at(cls, settings: Settings) -> Self:
        switch_on(settings)
        from seedbed.storage.encryption import EncryptedStore, MasterKey, expect_plain

        key = MasterKey.from_environment() if settings.encrypted else None
        redis = _redis(settings)
        store = open_store(store_url(settings))
        try:
            if redis and settings.store.startswith("postgresql:"):  # a file of this machine answers sooner than Redis
                from seedbed.storage.cache import with_cache

                store = with_cache(store, redis)
            if key:
                return cls(settings, EncryptedStore(store, key))
            expect_plain(store)
        except StoreError:
            store.close()
            raise
        return cls(settings, store)

    def close(self) -> None:
        for executor in self._executors.values():
            executor.close()
        if "_runner" in vars(self):
            self.runner.close()
        if isinstance(self.store, Upkeep):
            self.store.close()

    @property
    def by(self) -> str:
        return self.settings.by or _login()

    @property
    def library(self) -> Library:
        return Library(self.store, self.by)

    @property
    def runner(self) -> Runner:
        """Where runs are performed, with the tools and the person to ask that there are now."""
        runner = self._runner
        runner.tools, runner.confirm = self.tools, self.confirm
        return runner

    @cached_property
    def _runner(self) -> Runner:
        from seedbed.stage.runner import Runner

        return Runner(self.settings, self.store, self.library, self.models, self.spent)

    @cached_property
    def models(self) -> Registry:
        from seedbed.models.cards import Registry

        return Registry(self.settings.models, self.settings.source)

    def playbook(self, named: Playbook | str) -> Playbook:
        """A playbook itself, or the one a file, digest, ref or channel names."""
        if isinstance(named, Playbook):
            return named
        if Path(named).suffix in (".yaml", ".yml", ".json"):
            return Playbook.load(named)
        return self.library.get(named)

    def dataset(self, named: str) -> Dataset:
        """The tasks that are kept under a name, such as `mail`, or under a digest. Raises NotFound."""
        from seedbed.evaluation.datasets.dataset import Dataset

        ref = self.store.ref(f"datasets/{named.removeprefix('datasets/')}")
        digest = ref.target if ref else named
        body = self.store.get(digest) if isinstance(digest, str) and digest.startswith("b2:") else {}
        if "tasks" not in body:
            known = ", ".join(ref.name.removeprefix("datasets/") for ref in self.store.refs("datasets/")) or "none yet"
            raise NotFound(
                f"no dataset is called {shown(named)}. Known names: {known}. `seedbed dataset add` keeps one"
            )
        return Dataset.from_content(body)

    def protection(self, channel: str) -> ChannelSettings:
        """What protects a channel. One that nobody declared and nothing was released to is a slip of the pen."""
        declared = self.settings.channels
        if channel not in declared and self.store.ref(f"channels/{channel}") is None:
            known = ", ".join(declared) or "none yet"
            remedy = "Add it under channels in the workspace file, or check its spelling."
            raise SettingsError([Problem(f"channels.{channel}", "nothing", f"one of: {known}", remedy)])
        return self.settings.channel(channel)

    def terms(self, channel: str, alpha: float | None = None) -> BudgetTerms:
        """The terms of a channel's error budget. They say the error rate, so that no other may be asked for."""
        from seedbed.release.gates.registry import build_terms

        if alpha is not None:
            place = f"channels.{channel}.error_budget"
            raise SettingsError([Problem("alpha", f"{alpha:g}", f"none for a channel: its rate is set at {place}")])
        return build_terms(self.protection(channel))

    @cached_property
    def judges(self) -> Mapping[str, Declared]:
        """The judges under `metrics` in the workspace file. Raises SettingsError with all that is wrong with them."""
        if not self.settings.metrics:
            return {}
        from seedbed.evaluation.judges.declared import judges

        return judges(self.runner)

    def metric(self, written: str) -> Metric:
        """The metric as it is written on the command line: a judge of the workspace file, or any other by its name."""
        from seedbed.evaluation.metrics.metric import parsed

        return parsed(written, self.judges)

    @property
    def context(self) -> EvaluationContext:
        return self.context_on(None)

    def context_on(self, parallel: str | int | None) -> EvaluationContext:
        """The context whose runs are performed there, or where the settings say. Raises SettingsError."""
        from seedbed.evaluation.remote import RemoteWorkers

        executor = self._executor(parallel)
        return (
            replace(self._context, remote=RemoteWorkers(executor, opened_by, self._told)) if executor else self._context
        )

    def _executor(self, parallel: str | int | None) -> Executor | None:
        """Who performs there, or where the settings say; None if that is this loop. Raises SettingsError."""
        from seedbed.parallel import Loop, executor

        named = str(self.settings.parallel if parallel is None else parallel)
        chosen = self._executors.get(named) or self._executors.setdefault(named, executor(named))
        if isinstance(chosen, Loop):
            return None
        if self.settings.store.partition(":")[0] == "memory":
            remedy = "Keep it in sqlite:///FILE or in PostgreSQL, or work in this loop."
            raise SettingsError([Problem("store", "memory:", "a store that other processes can reach", remedy)])
        self.models.require_portable()
        return chosen

    def _told(self) -> Told:
        """What other processes have to know to work here. They need not sit in this folder."""
        source = Path(self.settings.source or "seedbed.yaml").absolute()
        where = {"store": store_url(self.settings), "source": str(source), "parallel": "loop"}
        return self.settings.model_copy(update=where), self.tools, self.confirm

    @cached_property
    def _context(self) -> EvaluationContext:
        from seedbed.evaluation.context import EvaluationContext

        async def perform(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
            return await self.runner.perform_once(run, playbook, dict(task.inputs), seed, ledger=ledger)

        runner = self.runner
        return EvaluationContext(
            self.store, perform, runner.model_identities, self.by, AT_ONCE, present=runner.heartbeat, runner=runner
        )


Told: TypeAlias = "tuple[Settings, list[Any], Confirm | Person | None]"


def opened_by(told: Told) -> Premises:
    """The premises of another process, with the same settings and tools."""
    settings, tools, confirm = told
    space = Premises.at(settings)
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


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        remedy = "Set by in the workspace file, or SEEDBED_BY."
        raise SettingsError([Problem("by", "no user name on this machine", "who is working", remedy)]) from None
