"""The certificate of a verdict: every number of it, recomputed from raw facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import cast

from seedbed.errors import NotFound, Problem, SeedbedError, StoreDamaged, shown
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.arms import recorded_arms
from seedbed.experiments.evidence import evidence_of, facts_by_key, same_numbers
from seedbed.experiments.experiment import Experiment, drawn
from seedbed.experiments.live import is_live
from seedbed.experiments.live import recompute as read_again
from seedbed.experiments.proof.attempts import ReleaseAttempt, attempt_of, check_attempts, list_attempts
from seedbed.experiments.proof.freshness import freshness
from seedbed.experiments.proof.hacking import VERSION, hacking
from seedbed.experiments.proof.repeats import check_repeats
from seedbed.experiments.proof.scores import check_scores
from seedbed.experiments.proof.slicing import check_slices
from seedbed.experiments.replay.coverage import Coverage, differences, recorded_coverage
from seedbed.experiments.replay.replay import is_replayed
from seedbed.experiments.sequential_test import SequentialTest
from seedbed.experiments.verdict import NOT_STORED, Verdict
from seedbed.playbooks.library import Library
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage import upkeep
from seedbed.storage.store import Digest, Fact, Json, Query, Store, Upkeep, UpkeptStore, short

EXEMPT = ("judges", "aborted", "because", "evidence", "replay", "why", "hacking")
"""Fields of a verdict that do not follow from the scores: they are taken as stored, or checked separately."""

CLAIMS = {
    "registered_first": ("Registered before the verdict was given.", "Not known to be registered before the verdict."),
    "registered_order": (
        "Every number is the same when it is computed again from the records, in the registered order.",
        "Some number differs when it is computed again from the records, in the registered order.",
    ),
    "all_scored": ("Every completed run got a score.", "Some completed runs got no score, and counted as failures."),
    "no_failures": ("No run failed.", "Some runs failed, and counted as failures."),
    "same_number_in_both_arms": (
        "Both playbooks were run equally often on every task.",
        "On some tasks one playbook was run more often than the other.",
    ),
    "judges_checked": (
        "Every judge in the metric was checked against people.",
        "A judge in the metric was never checked against people.",
    ),
    "scores_recomputed": (
        "Every score was computed again from the recorded output.",
        "The scores are those of a judge or of your own code, and were not computed again.",
    ),
    "no_reward_hacking": (
        "The outputs show no sign of reward hacking.",
        "The outputs show signs that the gain does not come from answering the tasks.",
    ),
    "replay_coverage": (
        "Every requested past run could be replayed for both playbooks.",
        "Not every requested past run is known to be replayed for both playbooks.",
    ),
    "outcomes_came_after_that": (
        "Registered before any outcome was known.",
        "Some outcomes were known when it was registered.",
    ),
    "nothing_left_out": (
        "Everything that had arrived by then was read.",
        "Some of what had arrived by then, as recorded now, was not read.",
    ),
    "ended_by_rule": ("The registered rule ended it.", "Something other than the registered rule ended it."),
}
"""What each flag of a certificate means if it is true, and if it is not."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Everything that a verdict is based on.

    `path` has the answers of the rule after each unit. `flags` are claims about how the verdict was reached: one that
    is false weakens it.
    """

    verdict: Verdict
    experiment: Experiment
    path: tuple[Answer, ...]
    flags: dict[str, bool]
    problems: tuple[Problem, ...]
    """The differences when everything is recomputed; empty if the verdict is right."""
    coverage: Coverage | None = None
    """Of a verdict about replays: how many past runs could be replayed, recomputed; None if that is not known."""
    attempts: tuple[ReleaseAttempt, ...] = ()
    """All attempts to replace the control, if the verdict is one of them."""

    def document(self) -> Json:
        return {
            "verdict": self.verdict.document(),
            "experiment": self.experiment.content(),
            "path": [asdict(answer) for answer in self.path],
            "flags": self.flags,
            "coverage": self.coverage and self.coverage.document(),
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "problems": [asdict(problem) for problem in self.problems],
        }


def certificate(store: Store, experiment: Digest) -> Certificate:
    """Recompute a verdict from the registered experiment and the cells, and list what differs.

    Raises NotFound if there is no verdict, or what it is based on is not in this store.
    """
    verdict = Verdict.recall(store, experiment)
    problems: list[Problem] = []
    try:
        plan = Experiment.from_content(store.get(experiment))
        if is_live(plan):
            return _live_certificate(store, plan, verdict)
        tasks = Dataset.from_content(store.get(plan.dataset))
    except StoreDamaged as damage:
        raise NotFound(f"the verdict of experiment {short(experiment)} cannot be computed again: {damage}") from None
    if plan.order != tuple(each.id for unit in drawn(tasks, plan.seed, plan.inputs, plan.left_out) for each in unit):
        problems.append(Problem("order", "another order of tasks", f"the one drawn from seed {plan.seed}"))
    reading = SequentialTest(plan, tasks, verdict.metric)
    read = recorded_arms(store, plan, reading.items(), range(min(verdict.tasks, len(reading.units))))
    absent = [cell.key for pair in read for arm in pair for cell in arm if not cell.playbook]
    problems += [Problem(f"cell {key}", "nothing", "the score that was read, or that its run failed") for key in absent]
    problems += _read_again(reading, read)
    again = reading.verdict(judges=verdict.judges)
    exempt = {*EXEMPT, "cost_usd", "unpriced", *(["finding"] if verdict.finding == "invalid" else ())}
    if plan.inputs is None:  # it was given before there was this number
        exempt.add("spent")
    if not verdict.missing:  # likewise
        exempt.add("missing")
    problems += _differences(verdict, again, exempt, "cells")
    cells = [cell for pair in read for arm in pair for cell in arm]
    if (evidence := evidence_of(store, cells, experiment)) != verdict.evidence and not verdict.aborted:
        remedy = "Some cell, its run or an answer in it has changed since it was read."
        problems.append(Problem("evidence", short(evidence), short(verdict.evidence), remedy))
    covered = _covered(store, verdict, tasks, problems)
    problems += [*_unfounded(store, plan, tasks), *check_slices(store, verdict), *_hacking(store, verdict)]
    rescored = check_scores(store, plan.metric, tasks, cells)
    problems += rescored or []
    flags = {
        "registered_first": _begun_before(store, experiment),
        "candidate_scored_after_that": _fresh(store, experiment, [cell for _, arm in read for cell in arm]),
        "registered_order": not problems,
        "all_scored": not verdict.unscored,
        "no_failures": not verdict.failed,
        "same_number_in_both_arms": all(len(control) == len(candidate) for control, candidate in read),
        "judges_checked": all(verdict.judges.values()),
        "scores_recomputed": rescored is not None,
        "ended_by_rule": not verdict.aborted and verdict.finding != "invalid",
    }
    if verdict.hacking:
        flags["no_reward_hacking"] = not any(sign.is_found for sign in verdict.signs)
    if any(map(is_replayed, plan.models.values())):
        flags["replay_coverage"] = covered is not None and covered.is_whole
    return Certificate(verdict, plan, tuple(reading.answers), flags, tuple(problems), covered, _tried(store, plan))


def _tried(store: Store, plan: Experiment) -> tuple[ReleaseAttempt, ...]:
    return tuple(list_attempts(store, plan.control)) if plan.attempt else ()


def _read_again(reading: SequentialTest, read: Sequence[tuple[list[Cell], list[Cell]]]) -> list[Problem]:
    """Take the cells of all units, and say why the rule would not have taken them."""
    for control, candidate in read:
        if reading.rule.answer.verdict != "continue":
            return [Problem("tasks", f"{len(read)} read", f"{len(reading.answers)}, where the rule ended")]
        try:
            reading.read(control, candidate)
        except SeedbedError as wrong:
            return [Problem("scores", str(wrong), "scores that the rule takes")]
    return []


def verify(store: Store, experiments: Iterable[Digest]) -> dict[Digest, list[Problem]]:
    """The problems of each verdict: none if every number follows and no byte was changed.

    Problems of the store itself, such as a broken chain, are listed for every verdict.
    """
    shared = list(upkeep.verify(cast(UpkeptStore, store)).problems) if isinstance(store, Upkeep) else []
    return {each: [*_wrong_with(store, each), *shared] for each in experiments}


def _wrong_with(store: Store, experiment: Digest) -> Sequence[Problem]:
    try:
        return certificate(store, experiment).problems
    # Forged content may be anything, and must not stop the check of other verdicts.
    except (SeedbedError, LookupError, TypeError, ValueError, AttributeError) as wrong:
        remedy = "Restore the store from a copy."
        return [Problem(f"verdict {short(experiment)}", str(wrong), "one that can be computed again", remedy)]


def _differences(verdict: Verdict, again: Verdict, exempt: set[str], what: str) -> Iterator[Problem]:
    for name in sorted({field.name for field in fields(Verdict)} - exempt - {*NOT_STORED}):
        recorded, computed = getattr(verdict, name), getattr(again, name)
        if not same_numbers(recorded, computed):
            yield Problem(name, shown(recorded, 80), f"{shown(computed, 80)}, as computed from the {what}")


def _live_certificate(store: Store, plan: Experiment, verdict: Verdict) -> Certificate:
    """The same for a live verdict, from its exposures and feedback."""
    read = read_again(store, plan, verdict)
    problems = [*read.problems, *_differences(verdict, read.verdict, {"evidence", "because"}, "outcomes")]
    if not verdict.aborted and verdict.because != read.verdict.because:
        problems.append(Problem("because", shown(verdict.because, 80), shown(read.verdict.because, 80)))
    if not verdict.aborted and read.evidence != verdict.evidence:
        remedy = "Some exposure or feedback has changed since it was read."
        problems.append(Problem("evidence", short(read.evidence), short(verdict.evidence), remedy))
    begun = _number(store, "comparison", verdict.experiment)
    if plan.mode == "confirmatory":
        problems += _unregistered(store, plan)
        if not begun < read.first_outcome:
            problems.append(Problem("mode", "outcomes that were known before", "a registration before the first"))
    flags = {
        "registered_first": _begun_before(store, verdict.experiment),
        "outcomes_came_after_that": begun < read.first_outcome,
        "registered_order": not problems,
        "nothing_left_out": read.whole,
        "ended_by_rule": not verdict.aborted and verdict.finding in ("superior", "inferior"),
    }
    return Certificate(verdict, plan, read.path, flags, tuple(problems), attempts=_tried(store, plan))


def _covered(store: Store, verdict: Verdict, tasks: Dataset, problems: list[Problem]) -> Coverage | None:
    """The replay coverage of a verdict, if it has any."""
    if not verdict.replay:
        return None
    try:
        again = recorded_coverage(store, verdict.replay)
    except (SeedbedError, LookupError, TypeError, AttributeError) as wrong:
        problems.append(Problem("replay.sample", str(wrong), "the sample of past runs"))
        return None
    problems += differences(verdict.replay, again, tasks)
    return again


def _unfounded(store: Store, plan: Experiment, tasks: Dataset) -> list[Problem]:
    """Why an experiment that may release its candidate should not, by what was recorded before it."""
    if plan.mode != "confirmatory":
        return []
    taken, problems = _taken(store, plan), _unregistered(store, plan)
    if taken is None:
        return problems
    library = Library(store, "")
    known = freshness(library, plan, tasks, before=taken.number)
    if known.seen or known.exploratory:
        why = known.exploratory or f"results of the candidate were known at {len(known.seen)} of {known.tasks} tasks"
        problems.append(Problem("mode", why, "tasks whose results were not known"))
    problems += check_repeats(library, plan, tasks, taken.number)
    return problems


def _taken(store: Store, plan: Experiment) -> Fact | None:
    """The place in an error budget, or the attempt, as which an experiment was registered."""
    paid = store.facts(Query(kind="reservation", subject=plan.channel)) if plan.channel else ()
    reserved = next((fact for fact in paid if fact.body["experiment"] == plan.digest), None)
    return reserved or attempt_of(store, plan.control, plan.digest)


def _unregistered(store: Store, plan: Experiment) -> list[Problem]:
    """What is wrong with how an experiment that may release its candidate was registered."""
    if _taken(store, plan) is None:
        expected = f"attempt {plan.attempt} to replace {short(plan.control)}"
        return [Problem("attempt", "an experiment that was not registered as one", expected)]
    return check_attempts(store, plan.control)


def _hacking(store: Store, verdict: Verdict) -> Iterator[Problem]:
    """Signs of reward hacking that differ from those in the outputs."""
    if verdict.hacking.get("version") != VERSION:  # it was given before these were looked for
        return
    again = hacking(store, verdict)
    for name in {**verdict.hacking, **again}:
        recorded, computed = verdict.hacking.get(name), again.get(name)
        if not same_numbers(recorded, computed):
            expected = f"{shown(computed, 80)}, as computed from the outputs"
            yield Problem(f"hacking.{name}", shown(recorded, 80), expected)


def _fresh(store: Store, experiment: Digest, cells: Sequence[Cell]) -> bool:
    """Whether no score of the candidate was known when the experiment was registered, so that none chose it."""
    begun = _number(store, "comparison", experiment, missing=0)
    known = facts_by_key(store, "cell", [cell.key for cell in cells if cell.value is not None])
    return all(fact.number > begun for fact in known.values())


def _begun_before(store: Store, experiment: Digest) -> bool:
    """Whether the experiment was registered before its verdict."""
    return _number(store, "comparison", experiment) < _number(store, "verdict", experiment, missing=0)


def _number(store: Store, kind: str, experiment: Digest, *, missing: float = math.inf) -> float:
    return next((fact.number for fact in store.facts(Query(kind=kind, key=experiment))), missing)
