"""Runner: performs the runs of a workspace, and owns what they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from seedbed.errors import RunTaken, SeedbedError
from seedbed.models.calling.limits import ModelLimits
from seedbed.models.cards import Registry
from seedbed.parallel.shared_work import SharedByName
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.plugins import load
from seedbed.runs.cassette import ReplayMode
from seedbed.runs.claims import ENDING, Claims, is_taken, leave_all
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.replay_record import ReplayRecord, ReplaySource
from seedbed.runs.resuming import completed, expect_free, has_begun, resumed
from seedbed.runs.run import NO_LABELS, Run, RunEvent, RunLabels
from seedbed.runs.run_start import RunStart
from seedbed.runs.worker_presence import Heartbeat
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.spending.notices import SpendingNotice
from seedbed.spending.quota import QuotaShare, Spending
from seedbed.spending.stop import Stop
from seedbed.stage.admission import AdmissionControl
from seedbed.stage.bounds import RunBounds, bounded, bounds, playbooks_above, record_above
from seedbed.stage.confirmation import Confirm, Person, person
from seedbed.stage.identity import model_identities, shared_limits
from seedbed.stage.options import StageOptions
from seedbed.stage.program import perform, program_source, recording
from seedbed.stage.replay import load_cassette, refuse, strict_record
from seedbed.stage.simulated_tools import expect_simulated, permits, reaches_tools
from seedbed.stage.stage import Stage
from seedbed.stage.tool_sources import ToolSources
from seedbed.stage.tools import toolbox
from seedbed.stage.turns.model_choice import Spender, expect_arguments, expect_prices
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Digest, Feed, Json, Query, Store, new_id

if TYPE_CHECKING:
    from seedbed.models.routing.router import Router

OnEvent = Callable[[RunEvent], None]

FIRST_LOOK_SECONDS = 0.02
"""When to check first for the end of a run that another worker performs; then less often, up to once a second."""


@dataclass
class Runner:
    """Performs every run of a workspace: admits and records it, counts it against the quota, gives it its models."""

    settings: Settings
    store: Store
    library: Library
    models: Registry
    spent: Spending
    tools: list[Any] = field(default_factory=list)
    confirm: Confirm | Person | None = None
    tell: Callable[[list[SpendingNotice]], Awaitable[None]] | None = None
    """Tells people what they should know about spending."""
    real_tools: bool = False
    """Whether tools that change the world really act in runs that are not live."""

    def __post_init__(self) -> None:
        self.limits = ModelLimits(shared=shared_limits(self.settings.cache))
        self.journal = Journal(self.store)
        self.stop = Stop(self.store)
        self._admission = AdmissionControl(self.settings.limits.concurrent_runs)
        self._shared = SharedByName[Run]()
        self._saved: set[Digest] = set()
        self._saving = SharedByName[Digest]()
        self._heartbeat = Heartbeat(self.journal.worker, self.journal.add)
        self._left: list[Claims] = []
        """On runs that have ended here, which could not be recorded."""
        self._person = person(None, self.settings.confirm, self.store, self.library.by)
        self._tool_sources = ToolSources(self.settings.tools, self.settings.path("."))

    @cached_property
    def router(self) -> Router:
        """Chooses models for roles that name none. It is loaded when a role needs it: scipy takes a while."""
        kind: type[Router] = load("seedbed.models.routing.router:Router", "models")
        self._outcomes = Feed(self.store, [Query(kind="outcome")], 0)
        return kind.from_outcomes(self.models, (fact.body for fact in self._outcomes.read()))

    def learn(self) -> None:
        """Teach the router the outcomes stored since it last learned. Every verb begins so; none learns half-way."""
        if "router" in vars(self):
            for fact in self._outcomes.read():
                self.router.learn(**fact.body)

    def acting(self, library: Library) -> Runner:
        """The same runner for another person: models, limits, tools and work under way are shared."""
        other = copy(self)
        other.library = library
        other._person = person(None, self.settings.confirm, self.store, library.by)
        return other

    async def aclose(self) -> None:
        """Close the MCP servers that were started here, and wait until they have ended."""
        await self._tool_sources.aclose()

    def close(self) -> None:
        """Ask the MCP servers to close, without waiting for them."""
        self._tool_sources.close()

    # Performing

    async def perform(
        self,
        playbook: Playbook,
        inputs: Json,
        seed: int,
        *,
        max_cost_usd: float | None = None,
        on_event: OnEvent | None = None,
        run: RunLabels = NO_LABELS,
    ) -> Run:
        """Perform a new run. `on_event` receives its answers as they arrive."""
        async with self._admission:  # before any work: a thousand runs at once begin one after the other
            await self._save(playbook)
            above, name = record_above(self.store), run.id or self.new_run([playbook.digest, inputs])
            if above and above.resumed and (done := await off_loop(completed, self.store, name)):
                return done
            start = self._live_start(playbook, inputs, seed, max_cost_usd, run)
            recorder = await self._below(above, name, lambda: self._recorder(start, name))
            ledger = Ledger(max_cost_usd, within=bounds().ledger)
            async with self._staged(playbook, recorder, ledger, on_event) as stage:
                return await perform(stage, recorder.inputs)

    def new_run(self, request: object) -> str:
        """The id of a new live run. One that a program performs within another with that content gets the same id when
        the other is resumed, so that it goes on where it was."""
        above = record_above(self.store)
        return above.next_child("run", request) if above else new_id()

    async def perform_once(
        self, run: str, playbook: Playbook, inputs: Json, seed: int, *, ledger: Ledger | None = None
    ) -> Run:
        """The run of that id, performed once for all callers in this and other processes. It is not live: simulated
        tools act, unless there are `real_tools`.

        An interrupted one is resumed; the next caller tries a failed one again.
        """

        async def begin() -> Recorder:
            start = self._start(playbook, inputs, seed, real_tools=self._acts_for_real(playbook))
            return self._recorder(start, run)

        return await self._shared.result(run, lambda: self._perform_or_wait(run, playbook, begin, ledger))

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
        """The replay of that id, performed once as `perform_once` does: the playbook on the inputs and answers of a
        recorded run.

        The default seed is that of the recording. A strict replay asks no model and no tool. Raises Missed, with where
        it differs, if the recording lacks an answer; NotFound if there is no such run.
        """

        async def begin() -> Recorder:
            cassette = await off_loop(load_cassette, self.library, recording)
            start = self._start(playbook, cassette.inputs, cassette.seed if seed is None else seed)
            return self._recorder(start, run, ReplaySource(cassette, mode))

        return await self._shared.result(run, lambda: self._perform_or_wait(run, playbook, begin, ledger))

    async def resume(self, run: str, *, max_cost_usd: float | None = None, on_event: OnEvent | None = None) -> Run:
        """Continue a run. The default limit on its cost is the one it started with."""
        await off_loop(expect_free, self.store, run)
        recorder = await off_loop(self._resumed, run)
        playbook = await off_loop(self.library.get, recorder.playbook)
        ledger = Ledger(recorder.max_cost_usd if max_cost_usd is None else max_cost_usd, within=bounds().ledger)
        async with self._admission, self._staged(playbook, recorder, ledger, on_event) as stage:
            return await perform(stage, recorder.inputs)

    @asynccontextmanager
    async def recording(
        self, playbook: Playbook, inputs: Json, seed: int, *, max_cost_usd: float | None, labels: RunLabels
    ) -> AsyncIterator[Stage]:
        """A stage for code that is not a program; the block is a run."""
        await self._save(playbook)
        run = self.new_run([playbook.digest, inputs])
        start = self._live_start(playbook, inputs, seed, max_cost_usd, labels)
        recorder = await self._below(record_above(self.store), run, lambda: self._recorder(start, run), complete=True)
        ledger = Ledger(max_cost_usd, within=bounds().ledger)
        async with self._staged(playbook, recorder, ledger, has_program=True) as stage, recording(stage):
            yield stage

    def heartbeat(self) -> AbstractAsyncContextManager[None]:
        """A block in which other machines, if they share the store, see that this worker is alive."""
        return self._heartbeat.block(self.library.by)

    def model_identities(self, playbook: Playbook) -> Json:
        """The identity of each model that a playbook may use, without prices."""
        return model_identities(self.models, playbook)

    def identity(self, playbook: Playbook) -> Json:
        """All but the playbook that decides what its runs are: models, source, tools and rules beyond its own."""
        identity = self.model_identities(playbook) | self._tool_sources.identity(self.tools, playbook)
        listed = self._tool_sources.listed() if playbook.program else ()
        if seen := program_source(playbook, toolbox(self.tools).values(), self.store, self.library.by, listed=listed):
            identity["source"] = seen
        if reaches_tools(playbook, self.library):
            if not self._acts_for_real(playbook) and (simulated := self._tool_sources.simulations(self.tools)):
                identity["stand-ins"] = simulated  # stored scores are found by this key
            if stricter := [each.digest for each in bounds().playbooks if each.loosened_by(playbook)]:
                identity["under"] = sorted(stricter)
        return identity

    def _acts_for_real(self, playbook: Playbook) -> bool:
        """Whether nothing stands in for tools in runs of a playbook that are not live."""
        return (self.real_tools and bounds().real_tools) or not reaches_tools(playbook, self.library)

    async def expect_simulated(self, playbooks: Iterable[Playbook]) -> None:
        """Raises SettingsError if runs of these playbooks that are not live could change the world."""
        if reaching := [playbook for playbook in playbooks if reaches_tools(playbook, self.library)]:
            tools = (await self._tool_sources.load(self.tools)).values()
            trying = [playbook for playbook in reaching if not self._acts_for_real(playbook)]
            expect_simulated(tool for tool in tools if any(permits(each, tool) for each in trying))

    async def _save(self, playbook: Playbook) -> None:
        """Store a playbook, once."""
        if (name := playbook.digest) not in self._saved:
            await self._saving.result(name, lambda: off_loop(self.library.keep, playbook, because="run"))
            self._saved.add(name)

    def _start(
        self, playbook: Playbook, inputs: Json, seed: int, *, parent: str = "", real_tools: bool = True
    ) -> RunStart:
        return RunStart(playbook.digest, inputs, seed, self.model_identities(playbook), parent, real_tools=real_tools)

    def _live_start(
        self, playbook: Playbook, inputs: Json, seed: int, max_cost_usd: float | None, labels: RunLabels = NO_LABELS
    ) -> RunStart:
        """The start of a live run; one that a program performs is below its run, and no more real than that."""
        above = record_above(self.store)
        start = self._start(playbook, inputs, seed, parent=above.id if above else "", real_tools=bounds().real_tools)
        return replace(start, max_cost_usd=max_cost_usd, tags=labels.scopes, quality=labels.quality)

    def _recorder(self, start: RunStart, run: str = "", source: ReplaySource | None = None) -> Recorder:
        """The record of a new run; a replay if there is a source of answers."""
        if source is None:
            return Recorder(self.journal, start, by=self.library.by, run=run)
        return ReplayRecord(self.journal, start, source, by=self.library.by, run=run)

    async def _perform_or_wait(
        self, run: str, playbook: Playbook, begin: Callable[[], Awaitable[Recorder]], ledger: Ledger | None
    ) -> Run:
        """Perform a run, or wait for the worker that performs it and take over if it leaves."""
        recorder, ledger, pause = await begin(), ledger or Ledger(within=bounds().ledger), FIRST_LOOK_SECONDS
        while True:
            recorder.real_tools &= self._acts_for_real(playbook)
            try:
                async with self._admission, self._staged(playbook, recorder, ledger) as stage:
                    return await perform(stage, recorder.inputs)
            except RunTaken:
                await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)
            while await off_loop(is_taken, self.store, run):
                await asyncio.sleep(pause)
            if done := await off_loop(completed, self.store, run):
                return done
            recorder = await off_loop(self._resumed, run)

    def _resumed(self, run: str, source: ReplaySource | None = None, *, complete: bool = False) -> Recorder:
        leave_all(self._left)  # the run to continue may be among them
        cassette = partial(load_cassette, self.library)
        return resumed(self.journal, run, self.library.by, cassette, source, complete=complete)

    async def _open(self, parent: Stage, run: str, playbook: Digest | None, inputs: Json) -> Run:
        """Perform a run within another: it has its own record and shares the money."""
        chosen = await off_loop(self.library.get, playbook) if playbook else parent.playbook
        above, source = parent.recorder, None
        if isinstance(above, ReplayRecord):
            recording, mode = above.child_sources[run]
            known = await off_loop(load_cassette, self.library, recording) if recording else None
            source = ReplaySource(known or above.cassette.without_answers(), mode, above)
        if above.resumed and (done := await off_loop(completed, self.store, run)):
            return done
        start = self._start(chosen, inputs, above.seed, parent=above.id, real_tools=above.real_tools)
        start = replace(start, quality=above.quality)
        recorder = await self._below(above, run, lambda: self._recorder(start, run, source), source)
        async with self._staged(chosen, recorder, parent.ledger, parent.on_event, parent=parent) as stage:
            return await perform(stage, recorder.inputs)

    async def _below(
        self,
        above: Recorder | None,
        run: str,
        begin: Callable[[], Recorder],
        source: ReplaySource | None = None,
        *,
        complete: bool = False,
    ) -> Recorder:
        """The record of a run below another, if there is one: resumed with it if it has begun, else a new one."""
        known = above is not None and above.resumed and await off_loop(has_begun, self.store, run)
        recorder = await off_loop(self._resumed, run, source, complete=complete) if known else begin()
        recorder.claims.above = above.claims if above else None
        return recorder

    @asynccontextmanager
    async def _staged(
        self,
        playbook: Playbook,
        recorder: Recorder,
        ledger: Ledger,
        on_event: OnEvent | None = None,
        *,
        parent: Stage | None = None,
        has_program: bool = False,
    ) -> AsyncIterator[Stage]:
        """A stage for a run, which counts against the quota unless it is free or within another.

        If the run fails, what a replay missed is raised instead: it explains the failure.
        """
        strict, reached = strict_record(recorder), has_program or playbook.uses_tools
        if not strict:
            expect_arguments(playbook, self.models.__getitem__)
            await self.stop.check()
        if self._left:
            await off_loop(leave_all, self._left)
        above = (parent.playbook, *parent.above) if parent else bounds().playbooks
        if recorder.resumed and not parent:
            above = await off_loop(playbooks_above, recorder, self.library)
            if ledger.is_limited:  # before any model is asked; what is above has counted it
                ledger.spend(*await off_loop(lambda: recorder.paid_before), here=recorder.claims.above is not None)
        share = parent.spender.share if parent else None
        if not strict and share is None:
            share = await self.spent.start(recorder.id, scopes=recorder.tags, opened=bool(recorder.parent))
        spender = parent.spender if parent else self.spender(share)
        if not strict and not spender.any_price:
            limited = ledger.needs_prices or bool(share and share.is_limited)
            expect_prices(playbook, self.models.__getitem__, limited=limited)
        within = RunBounds((playbook, *above), ledger, recorder.real_tools, recorder)
        try:
            async with (
                self.heartbeat(),
                self._tool_sources.for_run(self.tools, recorder, parent, reached=reached) as tools,
            ):
                options = StageOptions(
                    limits=self.limits,
                    router=lambda: self.router,
                    ledger=ledger,
                    tools=tools,
                    confirm=self._confirmer(),
                    on_event=on_event,
                    open_run=self._open,
                    depth=parent.depth + 1 if parent else 0,
                    above=above,
                    taken=parent.taken if parent else None,
                    spender=spender,
                    on_start=share.confirm if share and not parent else None,
                    run_time=self.settings.limits.run_time,
                )
                with bounded(within):
                    yield Stage(playbook, refuse if strict else self.models.__getitem__, recorder, options)
        except SeedbedError as error:
            if recorder.claims.above and isinstance(error, ENDING):
                recorder.claims.above.stop(error, below=True)
            recorder.check()
            raise
        finally:
            if recorder.claims.held:  # the store could not be reached
                self._left.append(recorder.claims)
            if share and not parent:
                await share.end(self.library.by)
                if self.tell and (news := await self.spent.news()):
                    await self.tell(news)

    def spender(self, share: QuotaShare | None) -> Spender:
        """How requests are paid for that count against that share of the quotas."""
        return Spender(
            self.stop.check, share, self.library.by, any_price=self.settings.limits.unknown_prices == "allow"
        )

    def _confirmer(self) -> Person:
        """Who confirms an action where a rule demands it."""
        if self.confirm is None:
            return self._person
        return person(self.confirm, self.settings.confirm, self.store, self.library.by)
