"""Coverage: how many past runs could be replayed for both playbooks, computed from their recorded replays."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from seedbed.errors import DatasetError, NotFound, Problem, shown
from seedbed.evaluation.context import EvaluationContext, seed_of
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.remote import RemoteWorkers
from seedbed.experiments.evidence import answers, ends, facts_by_key, line_of, same_numbers
from seedbed.experiments.replay.fidelity import (
    Fidelity,
    ReplayAgreement,
    count_agreement,
    measure_fidelity,
    sorted_steps,
)
from seedbed.experiments.replay.history import OF, History
from seedbed.experiments.replay.remote import remote_replays, replay_workers
from seedbed.experiments.replay.replay import (
    MISSED_ERROR,
    ReplayableTasks,
    ReplayCache,
    Replayer,
    find_replayable,
    replay_context,
    runner_of,
)
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import LABELS, ReplayMode
from seedbed.storage.store import Digest, Fact, Json, Query, Store, canonical

ARMS = ("control", "candidate")

ENDS = ("run", "own", *ARMS)
"""What a sample lists for each past run: its end, and its replays under its own playbook and both arms."""

STEPS = ("playbook", "step", "number", *LABELS)
"""The columns of `rows`."""

Steps = Mapping[str, Mapping[str, int]]
"""How many steps of each kind have which label."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a verdict about replays is based on: how many past runs were requested, and how their replays went.

    `answered` are the runs whose recordings could answer both playbooks: the verdict is about them. `steps` counts the
    steps of all requested runs, for each playbook. `agreement` is how often a run had the same result when it was
    replayed under its own playbook.
    """

    mode: str
    requested: int
    answered: tuple[str, ...]
    """The runs, by their ids."""
    steps: Mapping[str, Steps]
    agreement: ReplayAgreement
    evidence: Digest
    """The digest of the ends of all these runs and their replays, and of the recordings."""

    @property
    def is_whole(self) -> bool:
        return len(self.answered) == self.requested

    def document(self) -> Json:
        """What a verdict records of it."""
        rate = self.agreement.rate
        return {
            "mode": self.mode,
            "asked": self.requested,
            "answered": len(self.answered),
            "steps": {arm: {kind: dict(counts) for kind, counts in steps.items()} for arm, steps in self.steps.items()},
            "agreed": self.agreement.agreed,
            "missed": self.agreement.missed,
            "agreement": [rate.mean, rate.low, rate.high],
            "evidence": self.evidence,
        }


def measure_coverage(store: Store, sample: Json) -> Coverage:
    """Compute it from the ends of the runs of a sample and of their replays."""
    items = sample["items"]
    last = facts_by_key(store, "run", [item[name] for item in items for name in ENDS])
    # A run that was not completed may have been resumed since.
    then_ends = [end for item in items if (end := last.get(item["run"]))]
    completed = [_run(end.key) for end in then_ends if end.body["status"] == "completed"]
    entries, whole = answers(store, completed), hashlib.blake2b(digest_size=32)
    steps: dict[str, dict[str, Counter[str]]] = {arm: {} for arm in ARMS}
    answered, results = [], []
    for item in items:
        then, own, *replays = (last.get(item[name]) for name in ENDS)
        for end in (then, own, *replays):
            whole.update(line_of(end))
        whole.update(entries.get(_run(item["run"]), b""))
        results.append(_came_out(then, own))
        labels = [_labels(store, end) for end in replays]
        for arm, counted in zip(ARMS, labels, strict=True):
            for kind, counts in counted.items():
                steps[arm].setdefault(kind, Counter()).update(counts)
        run = _run(item["run"])
        alike = all(_is_replay(end, run, sample[arm]) for end, arm in zip(replays, ARMS, strict=True))
        if alike and not labels[1].get("turn", Counter())["substituted"] and not any(map(_has_missed, replays)):
            answered.append(run)
    return Coverage(
        mode=sample["mode"],
        requested=len(items),
        answered=tuple(answered),
        steps={arm: sorted_steps(of) for arm, of in steps.items()},
        agreement=count_agreement(results),
        evidence=f"b2:{whole.hexdigest()}",
    )


def _came_out(then: Fact | None, now: Fact | None) -> tuple[bool, bool]:
    """Whether a replay under its own playbook had the same result, and whether it missed something."""
    if then is None or now is None or not _is_replay(now, _run(then.key), then.subject):
        return False, False
    missed = _has_missed(now)
    before, after = ([end.body[name] for name in ("status", "error", "output")] for end in (then, now))
    return canonical(before) == canonical(after) and not missed, missed


def _has_missed(end: Fact | None) -> bool:
    return end is not None and end.body["status"] == "failed" and end.body["error"].startswith(MISSED_ERROR)


def _is_replay(end: Fact | None, run: str, playbook: Digest) -> bool:
    return end is not None and end.subject == playbook and (end.body.get("replay") or {}).get("of") == run


def _run(key: str) -> str:
    """The id of the run whose end has that key."""
    return key.partition("@")[0]


def _labels(store: Store, end: Fact | None) -> dict[str, Counter[str]]:
    """The labels of a replay, and of the replays that it opened."""
    labels: dict[str, Counter[str]] = {}
    if end is None:
        return labels
    for kind, counts in ((end.body.get("replay") or {}).get("labels") or {}).items():
        labels.setdefault(kind, Counter()).update(counts)
    if "child" in labels:
        opened = store.facts(Query(kind="child", subject=_run(end.key)))
        for facts in ends(store, list(dict.fromkeys(fact.body["run"] for fact in opened))).values():
            inner = [each for each in facts if each.number < end.number]  # it may have been resumed since
            for kind, counts in _labels(store, inner[-1] if inner else None).items():
                labels.setdefault(kind, Counter()).update(counts)
    return labels


def recorded_coverage(store: Store, replay: Json) -> Coverage:
    """The coverage of the sample that a verdict names. Raises NotFound if it is missing."""
    name = replay.get("sample")
    if not isinstance(name, str):
        raise NotFound(f"found {shown(replay)}; expected the digest of a sample of past runs")
    return measure_coverage(store, store.get(name))


def differences(replay: Json, again: Coverage, tasks: Dataset) -> Iterator[Problem]:
    """Where the record of a verdict differs from what follows from its replays."""
    computed = again.document()
    for name in [*computed, *sorted({*replay} - {*computed, "sample"})]:
        if not same_numbers(replay.get(name), computed.get(name)):
            actual, expected = shown(replay.get(name), 80), shown(computed.get(name), 80)
            yield Problem(f"replay.{name}", actual, f"{expected}, as computed from the replays")
    if {task.id for task in tasks} != {f"{OF}{run}" for run in again.answered}:
        actual = f"{len(tasks)} tasks, not those that the recordings can answer"
        yield Problem("replay.tasks", actual, f"the {len(again.answered)} past runs that they can")


def summary(coverage: Coverage) -> list[tuple[str, str]]:
    rate = coverage.agreement.rate
    return [
        ("mode", coverage.mode),
        ("past runs", f"{len(coverage.answered):,} of {coverage.requested:,} can be replayed for both playbooks"),
        (
            "same result",
            f"{rate.mean:.0%} [{rate.low:.0%}, {rate.high:.0%}] under their own playbook; "
            f"{coverage.agreement.missed:,} missed something",
        ),
    ]


def rows(coverage: Coverage) -> list[tuple[str, ...]]:
    """For each playbook and kind of step, the number of steps and the share of each label."""
    return [
        (
            arm,
            kind,
            f"{sum(counts.values()):,}",
            *(f"{counts.get(label, 0) / sum(counts.values()):.0%}" for label in LABELS),
        )
        for arm, steps in coverage.steps.items()
        for kind, counts in steps.items()
    ]


@dataclass(frozen=True, slots=True)
class ReplayedRuns:
    """Past runs replayed for a comparison: how faithful the replays are, and which of the runs can be compared on."""

    context: EvaluationContext
    """In which the replays are scored."""
    fidelity: Fidelity
    replayable: ReplayableTasks
    facts: Json
    """What the verdict records of them."""

    @property
    def tasks(self) -> Dataset:
        return self.replayable.tasks


async def replay_past_runs(
    control: Playbook, candidate: Playbook, past: History, mode: ReplayMode, context: EvaluationContext
) -> ReplayedRuns:
    """Replay all past runs, under their own playbooks and under both that are compared.

    Raises DatasetError if no recording can answer both, and BudgetSpent.
    """
    cache = ReplayCache(context.store)
    replays, perform = replay_context(context, mode, cache), Replayer(runner_of(context), mode, cache)
    library, store, ledger = perform.runner.library, context.store, context.ledger
    owners = {name: library.get(name) for name in {each.playbook for each in past.past}}
    arms = (control, candidate)
    pairs = list(zip(past.past, past.tasks, strict=True))
    if isinstance(context.remote, RemoteWorkers):
        workers = replay_workers(context.remote, mode)
        replays = replace(replays, remote=workers)
        rows = [(playbook, task) for then, task in pairs for playbook in (owners[then.playbook], *arms)]
        once = {(playbook.digest, task.id): (playbook, task) for playbook, task in rows}
        await perform.perform_remotely(list(once.values()), remote_replays(workers, context.at_once), ledger)
    fidelity = await measure_fidelity(past, perform, ledger=ledger)
    replayable = await find_replayable(arms, past.tasks, perform, ledger=ledger)
    if not len(replayable.tasks):
        why = next(iter(replayable.missed.values()), "there are none")
        remedy = "Replay them live from some step on, as with --mode fork:1."
        raise DatasetError([Problem("past runs", f"none that can be replayed: {why}", "at least one", remedy)])

    names = [
        {
            "run": then.run,
            **{
                name: perform.key(playbook, task, seed_of(task, 0)).id
                for name, playbook in zip(ENDS[1:], (owners[then.playbook], *arms), strict=True)
            },
        }
        for then, task in pairs
    ]
    ended = ends(store, [run for item in names for run in item.values()])
    items = [{name: ended[run][-1].key if run in ended else run for name, run in item.items()} for item in names]
    about = {"mode": str(mode), "control": control.digest, "candidate": candidate.digest}
    sample = {**about, "items": items, "strata": list(past.strata), "sizes": dict(past.sizes)}
    name = store.put("sample", sample)
    return ReplayedRuns(replays, fidelity, replayable, {"sample": name, **measure_coverage(store, sample).document()})
