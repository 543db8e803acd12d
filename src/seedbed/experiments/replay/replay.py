"""Replay: past runs performed again from their recordings, and cached."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from seedbed.errors import NotFound, RunError, SeedbedError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import EvaluationContext, Perform, seed_of
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.experiments.experiment import budget_spent
from seedbed.experiments.replay.history import OF, recording_of
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import MISSED, Missed, ReplayMode
from seedbed.runs.history import recall, start_of
from seedbed.runs.run import Run
from seedbed.settings import ToolSource
from seedbed.spending.ledger import Ledger
from seedbed.stage.program import program_of
from seedbed.stage.runner import Runner
from seedbed.stage.tools import Tool, toolbox
from seedbed.storage.store import Digest, Json, Store, canonical, digest

STRICT = ReplayMode("strict")

MISSED_ERROR = f"{Missed.__name__}: "
"""The prefix of the error of a run that missed something."""

SUBSTITUTED = (
    f"{MISSED}the candidate asked something else, and got the answer of the recorded run. "
    "Replay it live from the first step on: --mode fork:1"
)
"""Why a task is left out if the candidate got answers that were meant for another playbook."""

MEMORY_BYTES = 64 * 1024 * 1024
"""How many bytes of replays stay in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayKey:
    """Everything that the result of a replay depends on. Its digest is the id of the replay."""

    playbook: Digest
    inputs: Json
    models: Json
    """The models behind the names; the parameters of each role are in the playbook."""
    tools: Json
    code: str
    seed: int
    replicate: int
    """The seed that the replicate would have in a live run."""
    mode: str
    recording: str

    @property
    def id(self) -> str:
        return hashlib.blake2b(canonical({"replay": asdict(self)}).encode(), digest_size=16).hexdigest()


class ReplayCache:
    """Replays by their id: the most recently used are in memory, up to a number of bytes, the others in the store.

    It has replays that were completed, and strict ones that missed something, since a recording does not change.
    """

    def __init__(self, store: Store, at_most_bytes: int = MEMORY_BYTES) -> None:
        self._store = store
        self._at_most = at_most_bytes
        self._in_memory: OrderedDict[str, bytes] = OrderedDict()
        self.bytes = 0

    def __contains__(self, run: object) -> bool:
        """Whether a replay is in memory."""
        return run in self._in_memory

    def get(self, run: str) -> Run | None:
        """The replay with that id, if it need not be performed again."""
        if (known := self._in_memory.get(run)) is not None:
            self._in_memory.move_to_end(run)
            replay: Run = pickle.loads(known)  # noqa: S301 - we pickled it ourselves
            return replay
        try:
            done = recall(self._store, run)
        except NotFound:
            return None
        if done.status != "completed" and not _has_missed(done):
            return None
        self.keep(done)
        return done

    def keep(self, run: Run) -> None:
        """Put a replay in memory; the least recently used make room. One that is too large is not added."""
        packed = pickle.dumps(run, pickle.HIGHEST_PROTOCOL)
        self.bytes -= _size(run.id, self._in_memory.pop(run.id, None))
        if _size(run.id, packed) > self._at_most:
            return
        self._in_memory[run.id] = packed
        self.bytes += _size(run.id, packed)
        while self.bytes > self._at_most:
            self.bytes -= _size(*self._in_memory.popitem(last=False))


def _has_missed(run: Run) -> bool:
    strict = (run.replay or {}).get("mode") == str(STRICT)
    return strict and run.status == "failed" and run.error.startswith(MISSED_ERROR)


def _size(run: str, packed: bytes | None) -> int:
    return 0 if packed is None else sys.getsizeof(run) + sys.getsizeof(packed)


RemoteReplays = Callable[[Sequence[tuple[Playbook, Task]], Ledger], AsyncGenerator[RunError | None, None]]
"""Replays first replicates in other processes; yields for each, in order, its error or None."""


class Replayer:
    """Replays the run that the id of a task names, where an evaluation would perform a live run.

    The first replicate has the seed of its recording; others have their own, so that their turns are not exact. The
    id of a replay comes from its `ReplayKey`; one that was completed is not performed again.
    """

    def __init__(self, runner: Runner, mode: ReplayMode, cache: ReplayCache | None = None) -> None:
        self.runner = runner
        self.mode = mode
        self._wrong: dict[str, RunError] = {}
        self._cache = ReplayCache(runner.store) if cache is None else cache
        self._about: dict[Digest, tuple[list[Any], Json]] = {}

    async def __call__(self, run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        key = self.key(playbook, task, seed)
        if wrong := self._wrong.get(key.id):
            raise type(wrong)(*wrong.args)
        if (done := self._cache.get(key.id)) is None:
            done = await self.runner.replay(key.id, playbook, key.recording, self.mode, seed=key.seed, ledger=ledger)
            self._cache.keep(done)
        if done.status == "failed":
            raise Missed(done.error.removeprefix(MISSED_ERROR))
        return done

    async def perform_remotely(
        self, items: Sequence[tuple[Playbook, Task]], remote: RemoteReplays, ledger: Ledger | None = None
    ) -> None:
        """Replay first replicates in other processes. What fails there is not tried again here. Raises BudgetSpent."""
        async with aclosing(remote(items, ledger or Ledger())) as coming:
            for playbook, task in items:
                if (wrong := await anext(coming)) is not None:
                    expect_paid(ledger)
                    self._wrong[self.key(playbook, task, seed_of(task, 0)).id] = wrong

    def labels(self, playbook: Playbook, task: Task) -> Mapping[str, Mapping[str, int]]:
        """The labels of the steps in the first replicate of a task, which was performed, by kind of step."""
        labels: dict[str, Counter[str]] = {}
        run = self.key(playbook, task, seed_of(task, 0)).id
        _add_labels(labels, self._cache.get(run) or recall(self.runner.store, run), self.runner.store)
        return labels

    def key(self, playbook: Playbook, task: Task, seed: int) -> ReplayKey:
        """The key of the replay of a task, with the seed that a live run would have. Raises NotFound."""
        recording = recording_of(task)
        tools, known = self._about.get(playbook.digest, ([], None))
        if known is None or tools != self.runner.tools:
            known = about(self.runner, playbook)
            self._about[playbook.digest] = (list(self.runner.tools), known)
        return ReplayKey(
            playbook=playbook.digest,
            inputs=dict(task.inputs),
            seed=start_of(self.runner.store, recording).body["seed"] if seed == seed_of(task, 0) else seed,
            replicate=seed,
            mode=str(self.mode),
            recording=recording,
            **known,
        )


def replay_context(
    context: EvaluationContext, mode: ReplayMode = STRICT, cache: ReplayCache | None = None
) -> EvaluationContext:
    """A context whose tasks are past runs, as `draw_history` makes them; only what the mode allows is live.

    Its cells are not those of live runs: their keys say that they were replayed, and how. Judges are live.
    """
    runner = runner_of(context)

    def identity(playbook: Playbook) -> Json:
        return {**context.identity(playbook), "replay": {"mode": str(mode), **about(runner, playbook)}}

    perform = Replayer(runner, mode, cache)
    # Remote workers of this context would run live.
    return replace(context, perform=perform, identity=identity, remote=None, live=context)


def runner_of(context: EvaluationContext) -> Runner:
    """The runner that replays. Raises SeedbedError if the context has none."""
    if context.runner is None:
        raise SeedbedError("runner: found none; expected one that replays past runs. Evaluate in a workspace")
    return context.runner


def is_replayed(models: Json) -> bool:
    """Whether an arm of an experiment was replayed, by the models that it registered."""
    how = models.get("replay")
    return isinstance(how, Mapping) and {"mode", "models", "code"} <= how.keys()  # a model may have that name


def about(runner: Runner, playbook: Playbook) -> Json:
    """The models, tools and code behind a playbook."""
    tools = {name: _tool(each) for name, each in sorted(toolbox(runner.tools).items())}
    sources = [_described(source) for source in runner.settings.tools]
    return {
        "models": runner.model_identities(playbook),
        "tools": {**tools, "workspace": digest("tools", {"sources": sources})} if sources else tools,
        "code": _code(playbook),
    }


def _described(source: ToolSource) -> Json:
    """A source of tools. Keys that came later are left out where nothing is said, so that older replays are found."""
    whole = source.model_dump(mode="json")
    return {key: value for key, value in whole.items() if value is not None or key in ("function", "mcp")}


def _tool(each: Tool) -> Json:
    return {"changes": each.changes, "about": each.about, "code": _source(inspect.unwrap(each.function))}


def _code(playbook: Playbook) -> str:
    """The version of seedbed and, for a program, the digest of its file."""
    ours = f"seedbed {version('seedbed')}"
    if playbook.program is None:
        return ours
    module = inspect.getmodule(inspect.unwrap(program_of(playbook)))
    return f"{ours}, {playbook.program} {_source(module)}"


def _source(what: Any) -> str:
    """The digest of the source, or the name where there is no source."""
    try:
        return digest("code", inspect.getsource(what))[3:35]
    except (OSError, TypeError):
        return f"{getattr(what, '__module__', '')}.{getattr(what, '__qualname__', type(what).__qualname__)}"


def is_invalid(cell: Cell) -> bool:
    """Whether a cell has no value because its recording could not answer: that says nothing about the playbook."""
    return cell.value is None and cell.reason.startswith(MISSED)


async def replay_all(
    playbooks: Sequence[Playbook],
    tasks: Iterable[Task],
    perform: Perform,
    *,
    at_once: int = 8,
    ledger: Ledger | None = None,
) -> AsyncGenerator[tuple[Task, tuple[Run | RunError, ...]], None]:
    """Each task with its replays by all playbooks, or their errors, in the order of the tasks."""

    async def one(item: tuple[Playbook, Task]) -> Run | RunError:
        playbook, task = item
        try:
            return await perform("", playbook, task, seed_of(task, 0), ledger or Ledger())
        except RunError as wrong:
            return wrong

    listed = list(tasks)
    items = [(playbook, task) for task in listed for playbook in playbooks]
    async with aclosing(in_order(items, one, at_once=at_once)) as outcomes:
        for task in listed:
            yield task, tuple([await anext(outcomes) for _ in playbooks])


@dataclass(frozen=True, slots=True)
class ReplayableTasks:
    """The tasks whose recordings answer all playbooks, and why each of the others does not, by its id.

    `steps` counts the labels of the steps of the last playbook, the candidate; none of its turns is substituted.
    """

    tasks: Dataset
    missed: Mapping[str, str]
    steps: Mapping[str, int]


async def find_replayable(
    playbooks: Sequence[Playbook], tasks: Dataset, perform: Replayer, *, ledger: Ledger | None = None
) -> ReplayableTasks:
    """Replay all tasks by all playbooks, and return those that can be compared. Raises BudgetSpent.

    These replays are not repeated in the comparison. A task is left out if a turn of the last playbook is substituted:
    the answer to another prompt says nothing about its own.
    """
    missed: dict[str, str] = {}
    steps: Counter[str] = Counter()
    async with aclosing(replay_all(playbooks, tasks, perform, ledger=ledger)) as replays:
        async for task, outcomes in replays:
            errors = [str(each) for each in outcomes if isinstance(each, RunError)]
            if errors:
                expect_paid(ledger)
            if wrong := next((error for error in errors if error.startswith(MISSED)), ""):
                missed[task.id] = wrong
                continue
            labels = perform.labels(playbooks[-1], task)
            if labels.get("turn", {}).get("substituted"):
                missed[task.id] = SUBSTITUTED
                continue
            for counts in labels.values():
                steps.update(counts)
    return ReplayableTasks(Dataset(tuple(task for task in tasks if task.id not in missed)), missed, steps)


def expect_paid(ledger: Ledger | None) -> None:
    """Raises BudgetSpent if the ledger is short: a replay that was not paid for says nothing about its recording."""
    if ledger and ledger.is_short and ledger.limit_usd is not None:
        raise budget_spent(ledger, "before all runs were replayed")


async def replay_run(runner: Runner, recorded: Run, playbook: Playbook, mode: str, ledger: Ledger) -> tuple[Run, bool]:
    """Perform a recorded run again: the replay, even if it failed, and whether a step could not be answered."""
    task = Task(f"{OF}{recorded.id}", recorded.inputs)
    seed, perform = seed_of(task, 0), Replayer(runner, ReplayMode.parse(mode))
    try:
        return await perform("", playbook, task, seed, ledger), False
    except RunError as wrong:
        try:
            failed = recall(runner.store, perform.key(playbook, task, seed).id)
        except NotFound:  # it did not even start
            raise wrong from None
        return failed, isinstance(wrong, Missed)


def _add_labels(labels: dict[str, Counter[str]], run: Run, store: Store) -> None:
    """Count the labels of a replay, and of the replays that it opened."""
    for kind, counts in ((run.replay or {}).get("labels") or {}).items():
        labels.setdefault(kind, Counter()).update(counts)
    for child in run.children:
        _add_labels(labels, recall(store, child.run), store)
