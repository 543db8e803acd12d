"""Replay: past runs performed again on what was recorded, cached by all that matters, with measured fidelity."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from seedbed.errors import DatasetError, NotFound, Problem, RunError, shown
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.dataset import Dataset, Task
from seedbed.evaluation.evaluate import Bench, Perform, seed_of
from seedbed.experiments.history import History, Past, recording_of
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import LABELS, MISSED, Missed, Mode
from seedbed.runs.recorder import recall
from seedbed.runs.run import Run
from seedbed.stage.house import House
from seedbed.stage.ledger import Ledger
from seedbed.stage.perform import program_of
from seedbed.stage.tools import Tool, toolbox
from seedbed.stats.adjusted import Adjusted, ppi
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.storage.store import Digest, Json, Query, Store, canonical, digest

STRICT = Mode("strict")

_MISSED = f"{Missed.__name__}: "

MEMORY_BYTES = 64 * 1024 * 1024
"""How much of what was replayed stays at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """All that the outcome of a replay depends on. Its digest is the id of the replay: another key is another run."""

    playbook: Digest
    inputs: Json
    models: Json
    """What the model names stand for; the parameters of each role are in the playbook."""
    tools: Json
    code: str
    seed: int
    replicate: int
    """The seed that the replicate would have live: another one for each."""
    mode: str
    recording: str

    @property
    def id(self) -> str:
        return hashlib.blake2b(canonical({"replay": asdict(self)}).encode(), digest_size=16).hexdigest()


class Replays:
    """Replays by their id: the latest used ones in memory, at most so many bytes of them, over the store.

    Those that are complete, and strict ones that missed something: a recording does not change.
    """

    def __init__(self, store: Store, at_most_bytes: int = MEMORY_BYTES) -> None:
        self._store = store
        self._at_most = at_most_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self.bytes = 0

    def __contains__(self, run: object) -> bool:
        """Whether it is in memory."""
        return run in self._kept

    def get(self, run: str) -> Run | None:
        """The replay of that id, if it need not be performed again."""
        if (known := self._kept.get(run)) is not None:
            self._kept.move_to_end(run)
            found: Run = pickle.loads(known)
            return found
        try:
            done = recall(self._store, run)
        except NotFound:
            return None
        if done.status != "completed" and not _has_missed(done):
            return None
        self.keep(done)
        return done

    def keep(self, run: Run) -> None:
        """Have it at hand; those that were not used for longest make room. One that is larger than all is not kept."""
        packed = pickle.dumps(run, pickle.HIGHEST_PROTOCOL)
        self.bytes -= _size(run.id, self._kept.pop(run.id, None))
        if _size(run.id, packed) > self._at_most:
            return
        self._kept[run.id] = packed
        self.bytes += _size(run.id, packed)
        while self.bytes > self._at_most:
            self.bytes -= _size(*self._kept.popitem(last=False))


def _has_missed(run: Run) -> bool:
    strict = (run.replay or {}).get("mode") == str(STRICT)
    return strict and run.status == "failed" and run.error.startswith(_MISSED)


def _size(run: str, packed: bytes | None) -> int:
    return 0 if packed is None else sys.getsizeof(run) + sys.getsizeof(packed)


class Replayer:
    """Performs a replay where a live run would be performed: the task says of which run, by its id.

    The first replicate has the seed of its recording; others have their own, so that their turns are not exact. It is a
    run with an id of its own, by its `Key`, whatever id is asked for; one that is complete is not performed again.
    """

    def __init__(self, house: House, mode: Mode, cache: Replays | None = None) -> None:
        self._house = house
        self._mode = mode
        self._cache = Replays(house.store) if cache is None else cache
        self._about: dict[Digest, tuple[list[Any], Json]] = {}

    async def __call__(self, run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        key = self.key(playbook, task, seed)
        if (done := self._cache.get(key.id)) is None:
            done = await self._house.replay(key.id, playbook, key.recording, self._mode, seed=key.seed, ledger=ledger)
            self._cache.keep(done)
        if done.status == "failed":
            raise Missed(done.error.removeprefix(_MISSED))
        return done

    def key(self, playbook: Playbook, task: Task, seed: int) -> Key:
        """All that the replay of a task depends on, with the seed that it would have live. Raises NotFound."""
        recording = recording_of(task)
        tools, known = self._about.get(playbook.digest, ([], None))
        if known is None or tools != self._house.tools:
            known = about(self._house, playbook)
            self._about[playbook.digest] = (list(self._house.tools), known)
        return Key(
            playbook=playbook.digest,
            inputs=dict(task.inputs),
            seed=_seed(self._house.store, recording) if seed == seed_of(task, 0) else seed,
            replicate=seed,
            mode=str(self._mode),
            recording=recording,
            **known,
        )


def _seed(store: Store, run: str) -> int:
    for fact in store.facts(Query(kind="start", key=run)):
        return int(fact.body["seed"])
    raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")


def replayed(bench: Bench, house: House, mode: Mode = STRICT, cache: Replays | None = None) -> Bench:
    """A bench on which nothing is live but what the mode allows: tasks are past runs, as `history` gives them.

    Its cells are not those of live runs: what they are named by says that they were replayed, and how.
    """

    def identity(playbook: Playbook) -> Json:
        return {**bench.identity(playbook), "replay": {"mode": str(mode), **about(house, playbook)}}

    # What others perform elsewhere would be live.
    return replace(bench, perform=Replayer(house, mode, cache), identity=identity, elsewhere=None)


def is_replayed(models: Json) -> bool:
    """Whether an arm was registered on a bench of replays, by what its experiment says of its models."""
    how = models.get("replay")
    return isinstance(how, Mapping) and {"mode", "models", "code"} <= how.keys()  # a model may have that name


def about(house: House, playbook: Playbook) -> Json:
    """What stands behind a playbook: models, tools and code."""
    tools = {name: _tool(each) for name, each in sorted(toolbox(house.tools).items())}
    sources = [source.model_dump(mode="json") for source in house.settings.tools]
    return {
        "models": house.identity(playbook),
        "tools": {**tools, "workspace": digest("tools", {"sources": sources})} if sources else tools,
        "code": _code(playbook),
    }


def _tool(each: Tool) -> Json:
    return {"changes": each.changes, "about": each.about, "code": _source(inspect.unwrap(each.function))}


def _code(playbook: Playbook) -> str:
    """The version of seedbed and, of a program, the digest of the file that it is in."""
    ours = f"seedbed {version('seedbed')}"
    if playbook.program is None:
        return ours
    module = inspect.getmodule(inspect.unwrap(program_of(playbook)))
    return f"{ours}, {playbook.program} {_source(module)}"


def _source(what: Any) -> str:
    """The digest of its source, or its name where there is none."""
    try:
        return digest("code", inspect.getsource(what))[3:35]
    except (OSError, TypeError):
        return f"{getattr(what, '__module__', '')}.{getattr(what, '__qualname__', type(what).__qualname__)}"


def is_invalid(cell: Cell) -> bool:
    """Whether a cell has no value because its recording could not answer: it says nothing of the playbook."""
    return cell.value is None and cell.reason.startswith(MISSED)


# Batches


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one replay: its run, or why there is none."""

    run: Run | None
    reason: str = ""

    @property
    def is_invalid(self) -> bool:
        return self.reason.startswith(MISSED)


async def replay_all(
    playbooks: Sequence[Playbook], tasks: Iterable[Task], perform: Perform, *, at_once: int = 8, replicate: int = 0
) -> AsyncGenerator[tuple[Task, tuple[Outcome, ...]], None]:
    """Each task with its replays by all playbooks, in the order of the tasks; they are performed at the same time."""

    async def one(item: tuple[Playbook, Task]) -> Outcome:
        playbook, task = item
        try:
            return Outcome(await perform("", playbook, task, seed_of(task, replicate), Ledger()))
        except RunError as wrong:
            return Outcome(None, str(wrong))

    listed = list(tasks)
    items = [(playbook, task) for task in listed for playbook in playbooks]
    async with aclosing(in_order(items, one, at_once=at_once)) as outcomes:
        for task in listed:
            yield task, tuple([await anext(outcomes) for _ in playbooks])


@dataclass(frozen=True, slots=True)
class Answerable:
    """The tasks whose recordings answer all playbooks, and why the others do not, by their ids.

    `steps` are how many steps of the last playbook, the candidate, have which label.
    """

    tasks: Dataset
    missed: Mapping[str, str]
    steps: Mapping[str, int]


async def answerable(
    playbooks: Sequence[Playbook], tasks: Dataset, perform: Perform, *, at_once: int = 8
) -> Answerable:
    """Replay all tasks by all playbooks, and see which can be compared.

    What was replayed to find out is not replayed again: compare on these tasks, and say how many were left out.
    """
    missed: dict[str, str] = {}
    steps: Counter[str] = Counter()
    async with aclosing(replay_all(playbooks, tasks, perform, at_once=at_once)) as replays:
        async for task, outcomes in replays:
            if wrong := next((each.reason for each in outcomes if each.is_invalid), ""):
                missed[task.id] = wrong
            elif (last := outcomes[-1].run) is not None:
                for counts in ((last.replay or {}).get("labels") or {}).values():
                    steps.update(counts)
    return Answerable(Dataset(tuple(task for task in tasks if task.id not in missed)), missed, steps)


# Fidelity


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often replays of what was recorded came out as it did: with the exact interval of that rate.

    Those that missed something did not agree.
    """

    agreed: int
    missed: int
    rate: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """How far a mode of replay can be trusted, as measured on runs whose outcome is known."""

    mode: str
    steps: Mapping[str, Mapping[str, int]]
    """How many steps of each kind have which label."""
    agreement: Agreement
    """Of the runs that were replayed."""
    strata: Mapping[str, Agreement]
    population: Interval
    """The rate in the population that the runs were drawn from."""

    def share(self, label: str, kind: str | None = None) -> float:
        """The share of the steps, of one kind or of all, that have a label; NaN if there were none."""
        kinds = [self.steps.get(kind, {})] if kind else list(self.steps.values())
        total = sum(sum(each.values()) for each in kinds)
        return sum(each.get(label, 0) for each in kinds) / total if total else float("nan")


async def fidelity(past: History, house: House, mode: Mode = STRICT, *, at_once: int = 8) -> Fidelity:
    """Replay each run under the playbook that it had, and see whether it comes out as it did.

    It does if its status is the same, and its output, or its error if it failed.
    """
    perform = Replayer(house, mode)
    playbooks = {name: house.library.get(name) for name in {each.playbook for each in past.past}}
    labels: dict[str, Counter[str]] = {}

    async def one(item: tuple[Past, Task]) -> tuple[bool, bool]:
        then, task = item
        playbook, seed = playbooks[then.playbook], seed_of(task, 0)
        try:
            done = await perform("", playbook, task, seed, Ledger())
        except RunError as wrong:
            done = recall(house.store, perform.key(playbook, task, seed).id)
            missed = isinstance(wrong, Missed)
        else:
            missed = False
        _add_labels(labels, done, house.store)
        same = (done.status, done.error, canonical(done.output)) == (then.status, then.error, canonical(then.output))
        return same and not missed, missed

    items = list(zip(past.past, past.tasks, strict=True))
    async with aclosing(in_order(items, one, at_once=at_once)) as results:
        found = [result async for result in results]
    by_stratum: dict[str, list[tuple[bool, bool]]] = {}
    for stratum, result in zip(past.strata, found, strict=True):
        by_stratum.setdefault(stratum, []).append(result)
    whole = _agreement(found)
    population = past.mean({task.id: float(same) for task, (same, _) in zip(past.tasks, found, strict=True)})
    return Fidelity(
        mode=str(mode),
        steps={
            kind: {label: counts[label] for label in LABELS if counts[label]} for kind, counts in sorted(labels.items())
        },
        agreement=whole,
        strata={stratum: _agreement(results) for stratum, results in sorted(by_stratum.items())},
        # Results that are all the same show no spread, which is no proof that there is none.
        population=population if population.low < population.high else whole.rate,
    )


def _agreement(results: Sequence[tuple[bool, bool]]) -> Agreement:
    agreed = sum(same for same, _ in results)
    return Agreement(agreed=agreed, missed=sum(missed for _, missed in results), rate=exact_rate(agreed, len(results)))


def _add_labels(labels: dict[str, Counter[str]], run: Run, store: Store) -> None:
    """Count the labels of a replay, and of those that it opened."""
    for kind, counts in ((run.replay or {}).get("labels") or {}).items():
        labels.setdefault(kind, Counter()).update(counts)
    for child in run.children:
        _add_labels(labels, recall(store, child.run), store)


# Together with live runs


def with_live(replays: Mapping[str, float], live: Mapping[str, float], confidence: float = 0.95) -> Adjusted:
    """The mean difference that live runs would show, from many replays and the few of their tasks that were run live.

    Both are differences, candidate minus control, by the id of the task; the live tasks must be drawn by chance from
    those that were replayed. However wrong replays are, the live runs show by how much, and that is taken off (`ppi`).
    """
    if strange := [task for task in live if task not in replays]:
        found = f"{len(strange):,} tasks that were not replayed, such as {shown(strange[0])}"
        raise DatasetError([Problem("live", found, "tasks that were replayed too")])
    rest = [difference for task, difference in replays.items() if task not in live]
    return ppi(list(live.values()), [replays[task] for task in live], rest, confidence)
