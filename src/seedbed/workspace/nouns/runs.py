"""space.runs: perform, resume, record, find and follow runs; answer what they ask people."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from seedbed import plugins
from seedbed.errors import NotFound, expect_type, shown
from seedbed.evaluation.estimate import RunEstimate, estimate
from seedbed.reports.run import routings
from seedbed.runs.cassette import ANSWERS
from seedbed.runs.doubts import CallInDoubt as CallInDoubt
from seedbed.runs.doubts import calls_in_doubt, settle
from seedbed.runs.drift import AnswerDrift, drift_of
from seedbed.runs.history import entries_of, recall, recent
from seedbed.runs.run import Run, RunEvent, RunLabels
from seedbed.spending.ledger import Ledger
from seedbed.stage.bounds import bounds
from seedbed.stage.confirmation import QuestionRecord, answer, find, questions
from seedbed.stage.dialogue.children import INHERITED
from seedbed.stage.program import Program, recorded
from seedbed.stage.stage import Stage
from seedbed.stage.turns.model_choice import routing_outcomes
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Feed, Json, Query, now
from seedbed.workspace.resources import AnyPlaybook, Resources, new_seed

if TYPE_CHECKING:
    from seedbed.evaluation.metrics.metric import Metric, Score

T = TypeVar("T")

ENTRIES = ("turn", "failure", "decision", "call", "child", "remark")
"""The kinds of facts that make up a run, apart from its start and end."""

FOLLOWED = ("start", *ENTRIES, "run")

INTERVAL_SECONDS = 0.5
"""How often the store is asked for more."""


SHOWN = {"turn": "text", "decision": "action", "reading": "value"}
"""Where the answer to a step is, by its kind."""


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """A step of both runs, or of one of them: what it is, how the replay was answered, and the two answers.

    The label is empty where nothing was answered: what a program says of itself, and what the replay did not reach.
    """

    kind: str
    name: str
    label: str
    recorded: Any
    replayed: Any
    differs: bool


class Runs:
    """The runs of a workspace."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def resume(
        self, run: Run | str, *, max_cost_usd: float | None = None, on_event: Callable[[RunEvent], None] | None = None
    ) -> Run:
        """Continue a run that was interrupted or failed; what was answered before is not asked again."""
        name, runner = await off_loop(lambda: (self.find(run), self._resources.runner))
        return await runner.resume(name, max_cost_usd=max_cost_usd, on_event=on_event)

    def latest_here(self) -> str:
        """The id of the latest run that this process began, without those that other runs opened."""
        mine = self._resources.runner.journal.worker
        starts = self._resources.store.facts(Query(kind="start", newest=True, limit=1_000))
        return next((fact.key for fact in starts if fact.body["worker"] == mine and not fact.body["parent"]), "RUN")

    def estimate(self, playbook: AnyPlaybook, runs: int = 1) -> RunEstimate:
        """What so many runs of a playbook will take: calls, tokens, money and time. Nothing is run."""
        own = self._resources
        return estimate(own.playbook(playbook), runs, own.store, own.models.__getitem__)

    @asynccontextmanager
    async def recording(
        self,
        playbook: AnyPlaybook,
        /,
        *,
        seed: int | None = None,
        max_cost_usd: float | None = None,
        **inputs: Any,
    ) -> AsyncIterator[Stage]:
        """A stage for an agent that lives elsewhere: what it does there is recorded as a run of the playbook.

        Set `stage.output` to what the run returned.
        """
        chosen, runner = await off_loop(lambda: (self._resources.playbook(playbook), self._resources.runner))
        labels = RunLabels(scopes=self._resources.scopes(playbook, None))
        async with runner.recording(chosen, inputs, new_seed(seed), max_cost_usd=max_cost_usd, labels=labels) as stage:
            yield stage

    def recorded(
        self, playbook: AnyPlaybook, /, *, seed: int | None = None, max_cost_usd: float | None = None
    ) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
        """Record each call of an async function as a run: its arguments are the inputs, its result the output.

        A parameter called `stage` receives the stage. What the function raises is recorded and raised again.
        """

        def recording(**inputs: Any) -> AbstractAsyncContextManager[Stage]:
            return self.recording(playbook, seed=seed, max_cost_usd=max_cost_usd, **inputs)

        return lambda function: recorded(function, recording)

    # Finding

    def find(self, run: Run | str) -> str:
        """The id of a run, or of the one run whose id starts so. Raises NotFound if several do."""
        if isinstance(run, Run):
            return run.id
        if not re.fullmatch(r"t?[0-9a-f]{4,31}", run):
            return run
        starts = [fact.key for fact in self._resources.store.facts(Query(kind="start", key_from=run, limit=2))]
        if len(starts) > 1:
            raise NotFound(f"{run} begins several runs. Give more characters")
        return starts[0] if starts else run

    def get(self, run: Run | str) -> Run:
        """A run by its id, or by how its id starts. Raises NotFound."""
        return recall(self._resources.store, self.find(run))

    def recent(self, limit: int = 20, playbook: AnyPlaybook | None = None, *, children: bool = False) -> list[Run]:
        """The newest runs, of one playbook or of all; `children` includes runs that other runs opened."""
        expect_type(limit, int, "limit", "a number of runs", "The playbook is the second argument.")
        subject = self._resources.playbook(playbook).digest if playbook else None
        return list(recent(self._resources.store, limit, subject, children=children))

    def entries(self, run: Run | str) -> list[Fact]:
        """The turns, decisions, tool calls and child runs of a run, in the order in which they happened."""
        return self._facts(run, ENTRIES)

    def answers(self, run: Run | str) -> list[Fact]:
        """What a run got from outside, in order; the choice of a model is part of the turn it was made for."""
        return self._facts(run, [kind for kind in ANSWERS if kind != "routing"])

    def _facts(self, run: Run | str, kinds: Iterable[str]) -> list[Fact]:
        store, name = self._resources.store, self.find(run)
        facts = (fact for kind in kinds for fact in entries_of(store, name, kind))
        return sorted(facts, key=lambda fact: fact.number)

    def routing(self, run: Run | str) -> list[Json]:
        """How the models of a run were chosen."""
        return routings(self._resources.store, self.find(run))

    def follow(self, run: Run | str | None = None, *, wait: Callable[[float], None] = time.sleep) -> Iterator[Fact]:
        """Facts of a run from its start until it ends; without one, of all runs from now on, without end.

        Raises NotFound if there is no such run.
        """
        store = self._resources.store
        if run is None:
            newest = (fact for kind in FOLLOWED for fact in store.facts(Query(kind=kind, newest=True, limit=1)))
            after = max((fact.number for fact in newest), default=0)
            return _followed(Feed(store, [Query(kind=kind) for kind in FOLLOWED], after), wait, endless=True)
        name = self.find(run)
        start = Query(kind="start", key=name)
        if not any(store.facts(start)):
            raise NotFound(f"no run {shown(name)} is recorded here. `seedbed runs list` shows what is")
        inside = [Query(kind=kind, subject=name) for kind in ENTRIES]
        return _followed(Feed(store, [start, *inside, Query(kind="run", key_from=name)], 0), wait, endless=False)

    # Replaying and learning

    async def replay(
        self,
        run: Run | str,
        playbook: AnyPlaybook | None = None,
        *,
        mode: str = "strict",
        program: Program | str | None = None,
    ) -> tuple[Run, bool]:
        """Perform a recorded run again on its recorded answers, under its playbook or another one, by its program or
        by the one named.

        The replay, even if it failed, and whether a step could not be answered. Nothing in the world changes.
        """
        recorded = self.get(run)
        chosen = self._resources.performed(playbook or recorded.playbook, program)
        self._resources.library.keep(chosen, because="replayed")
        perform = plugins.load("seedbed.experiments.replay.replay:replay_run", "replay")
        replay: tuple[Run, bool] = await perform(
            self._resources.runner, recorded, chosen, mode, Ledger(within=bounds().ledger)
        )
        return replay

    def drift(self, replay: Run) -> list[AnswerDrift]:
        """How the live answers of a replay differ from the recorded ones, by step and tool."""
        return drift_of(replay)

    def align(self, recorded: Run, replayed: Run) -> list[ReplayStep]:
        """Steps of a replay, each with the recorded one of the same request, else the next of its kind and name.

        Those that only the recording has come last.
        """
        replies = self.answers(replayed)
        left = {_place(fact): fact for fact in self.answers(recorded)}
        pairs: list[tuple[Fact | None, Fact | None]] = []
        same = {_place(fact) for fact in replies} & left.keys()
        for fact in replies:
            place = _place(fact)
            if place not in same:
                place = next((other for other in left if other not in same and _named(other) == _named(place)), place)
            pairs.append((left.pop(place, None), fact))
        pairs += [(fact, None) for fact in left.values()]
        return [_step(then, now) for then, now in pairs]

    def learn(self, run: Run, score: float) -> None:
        """Teach the router how good a run was, from 0 to 1; every model it chose in that run is remembered by it."""
        self._resources.store.append(routing_outcomes(self._resources.store, run, score, self._resources.by))

    async def score(self, run: Run | str, metric: Metric | str, expected: Any = None) -> Score:
        """Score a recorded run by a metric or a judge. The score is attached to the run, as feedback of that name."""
        score_run = plugins.load("seedbed.workspace.execution:score_run", "score")  # it loads statistics
        score: Score = await score_run(self._resources, self.get(run), metric, expected)
        return score

    def scores(self, run: Run | str) -> dict[str, float]:
        """What was attached to a run, by name: feedback of users, and scores. The newest counts."""
        said = self._resources.store.facts(Query(kind="feedback", subject=self.find(run)))
        return {fact.body["metric"]: float(fact.value or 0.0) for fact in said}

    # Calls in doubt

    def doubts(self) -> list[CallInDoubt]:
        """Calls that may have happened: their runs announced them and recorded no result. Oldest first."""
        return calls_in_doubt(self._resources.store)

    def settle(self, run: Run | str, call: str, *, done: bool, because: str, result: Any = None) -> CallInDoubt:
        """Say whether a call in doubt has happened, and with what result; its run can then be resumed.

        `call` is its idempotency key, how that begins, or the name of its tool. Raises NotFound.
        """
        store, by = self._resources.store, self._resources.by
        return settle(store, self.find(run), call, done=done, because=because, by=by, result=result)

    # Questions to people

    def questions(self) -> list[tuple[QuestionRecord, str]]:
        """What runs ask people for, each with its status, oldest first."""
        return [(each, each.status(now())) for each in questions(self._resources.store)]

    def answer(self, question: str, yes: bool, *, because: str) -> tuple[QuestionRecord, Fact]:
        """Answer a question by its id, or by how its id starts. The first answer counts. Raises NotFound."""
        record = find(self._resources.store, question)
        return record, answer(self._resources.store, record, yes, because=because, by=self._resources.by)


def _place(fact: Fact) -> str:
    """Kind, name, request and which repetition: what identifies a step within its run."""
    return fact.key.partition("/")[2]


def _named(place: str) -> tuple[str, str]:
    """The kind and the name of a step; a name may contain slashes."""
    kind, _, rest = place.partition("/")
    return kind, rest.rsplit("/", 2)[0]


def _step(then: Fact | None, now: Fact | None) -> ReplayStep:
    fact = now or then
    assert fact is not None
    label = now.tags[0] if now and now.tags else ""
    before, after = (_answer(each) if each else None for each in (then, now))
    differs = then is None or now is None or label not in ("exact", "") or before != after
    return ReplayStep(*_named(_place(fact)), label, before, after, differs)


def _answer(fact: Fact) -> Any:
    body: Json = fact.body
    if fact.kind in SHOWN:
        return body[SHOWN[fact.kind]]
    return body["error"] or body["result" if fact.kind == "call" else "output"]


def own_inputs(run: Run) -> Json:
    """The inputs of a run, without what it inherited from its parent."""
    return {name: value for name, value in run.inputs.items() if name != INHERITED or not run.parent}


def _followed(feed: Feed, wait: Callable[[float], None], *, endless: bool) -> Iterator[Fact]:
    last = ""
    while endless or last != "run":  # a run that is resumed goes on after its end
        for fact in feed.read():
            yield fact
            last = fact.kind
        if endless or last != "run":
            wait(INTERVAL_SECONDS)
