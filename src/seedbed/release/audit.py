"""Audit: what was released, checked again: each move of a channel, the verdict it names, and who approved it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from seedbed.errors import NotFound, Problem, SeedbedError, StoreDamaged, shown
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.proof.held_out import known_tasks
from seedbed.experiments.proof.slicing import check_slices
from seedbed.experiments.slices import Slices, SliceTerms
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.release.gates.registry import build_slice_terms
from seedbed.release.states import canary_of, stable_of
from seedbed.settings.channels import ChannelSettings
from seedbed.storage.store import Fact, Json, Query, Store, short

PREFIX = "channels/"


def audit(store: Store) -> list[Problem]:
    """What does not fit in the history of all channels."""
    return [*_moves(store), *_approvals(store)]


def _moves(store: Store) -> Iterator[Problem]:
    served: dict[str, Any] = {}
    for fact in store.facts(Query(kind="move")):
        if fact.subject.startswith(PREFIX):
            target: Json = fact.body["to"] or {}
            if fact.body["from"] != served.get(fact.subject):
                yield Problem(f"move {fact.key}", "another state before it", "the one that the move before left")
            served[fact.subject] = fact.body["to"]
            if isinstance(target, dict) and target.get("how") == "release" and target.get("verdict"):
                yield from _unfounded(store, fact, target)


def _unfounded(store: Store, move: Fact, target: Json) -> Iterator[Problem]:
    """Why the verdict that a move names does not support it."""
    path, canary = f"move {move.key}", canary_of(target)
    released = canary.playbook if canary else stable_of(target)
    before = stable_of(move.body["from"]) if move.body["from"] else None
    try:
        verdict = Verdict.recall(store, target["verdict"])
        recorded = next(fact.number for fact in store.facts(Query(kind="verdict", key=target["verdict"])))
    except (NotFound, StoreDamaged) as wrong:
        yield Problem(path, str(wrong), "the verdict that it was released by")
        return
    if recorded > move.number:
        yield Problem(path, f"a verdict that came later, {short(verdict.experiment)}", "one from before the release")
    if verdict.candidate != released or (before is not None and verdict.control != before):
        pair = f"{short(verdict.candidate)} against {short(verdict.control)}"
        yield Problem(path, f"a verdict about {pair}", f"one about {short(released or '')}, which was released")
    if "better" in _names(target) and before is not None and verdict.finding != "superior":
        yield Problem(path, f"the finding {verdict.finding}", "superior, as its gate `better` requires")
    if before is not None and not verdict.live:
        yield from _by_tag(store, move, target, verdict)


def _by_tag(store: Store, move: Fact, target: Json, verdict: Verdict) -> Iterator[Problem]:
    """Why the results by tag that a release needed do not support it: computed again from the cells."""
    path = f"move {move.key}"
    wanted = [each for each in target.get("require") or () if _name(each) == "no_slice_worse"]
    try:
        for terms in build_slice_terms(ChannelSettings.model_validate({"require": wanted})):
            yield from (replace(each, path=path) for each in _missing(store, move, verdict, terms))
        if wanted:
            yield from (replace(each, path=f"{path}: {each.path}") for each in check_slices(store, verdict))
    except SeedbedError as wrong:
        yield Problem(path, str(wrong), "results by tag that can be computed again")


def _missing(store: Store, move: Fact, verdict: Verdict, terms: SliceTerms) -> Iterator[Problem]:
    plan = Experiment.from_content(store.get(verdict.experiment))
    if not terms.tags(plan.units(known_tasks(store, plan.dataset))):
        return
    recorded = next((fact for fact in store.facts(Query(kind="slices", key=terms.key(plan.digest)))), None)
    if recorded is None or recorded.number > move.number:
        yield Problem("", "no results by tag before it", "some, as its gate `no_slice_worse` requires")
    elif worse := Slices.from_body(recorded.body).worse:
        tags = ", ".join(shown(each.tag) for each in worse)
        yield Problem("", f"a candidate that is worse on {tags}", "none, as its gate `no_slice_worse` requires")


def _names(target: Json) -> set[str]:
    """The gates that a release passed."""
    return {_name(each) for each in target.get("require") or ()}


def _name(gate: Any) -> str:
    return next(iter(gate)) if isinstance(gate, dict) else str(gate)


def _approvals(store: Store) -> Iterator[Problem]:
    library = Library(store, "")
    for fact in store.facts(Query(kind="approval")):
        try:
            author = library.entry(fact.subject).by
        except NotFound:
            continue
        if fact.by == author:
            yield Problem(f"approval {fact.key}", f"one by {author}, who wrote it", "one by another person")
