"""Lineage: what grew from a playbook, with the scores that led there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from seedbed.errors import NotFound
from seedbed.experiments.proof.held_out import evolved_on, known_tasks
from seedbed.experiments.replay.history import OF
from seedbed.playbooks.library import Entry, Library
from seedbed.storage.store import Digest, Json, Query


class FamilyTree:
    """A playbook with what grew from it, as nested documents.

    Of many siblings those on the way to a name come first, then the best. `scores` are those on tasks that a search has
    chosen by, here or among its children, and `held_out` those on others: a mean over both would compare nothing. Where
    nothing was searched for, all are `scores`.
    """

    def __init__(
        self,
        library: Library,
        names: Mapping[Digest, Sequence[str]],
        failed: Callable[[Digest], Json | None],
        limit: int,
    ) -> None:
        self._library, self._store, self._limit = library, library.store, limit
        self._names, self._failed = names, failed
        self._leading = {entry.digest for name in self._names for entry in self._library.ancestry(name)}
        self._tasks: dict[Digest, frozenset[str]] = {}

    def grow(self, root: Digest, depth: int) -> Json:
        return self._grown(self._library.entry(root), frozenset(), depth)

    def _grown(self, entry: Entry, seen: frozenset[str], depth: int) -> Json:
        own = seen | self._searched(entry.digest)
        entries = [child for child in self._library.children(entry.digest) if child.parents[0] == entry.digest]
        searched = own.union(*(self._searched(child.digest) for child in entries))
        children = [(child, self._best(child, own | self._searched(child.digest))) for child in entries]
        children.sort(key=lambda pair: (pair[0].digest in self._leading, pair[1]), reverse=True)
        visible = children[: self._limit] if depth else []
        return {
            **self._node(entry, searched),
            "children": [self._grown(child, own, depth - 1) for child, _ in visible],
            "hidden": len(children) - len(visible),
        }

    def _node(self, entry: Entry, seen: frozenset[str]) -> Json:
        scores, held_out = self._scores(entry.digest, seen)
        return {
            "playbook": entry.digest,
            "names": list(self._names.get(entry.digest, ())),
            "scores": scores,
            "held_out": held_out,
            "how": entry.how,
            "because": entry.because,
            "also_from": list(entry.parents[1:]),
            "failed": self._failed(entry.digest),
        }

    def _best(self, entry: Entry, seen: frozenset[str]) -> float:
        scores, held_out = self._scores(entry.digest, seen)
        return max((score["mean"] for score in (scores or held_out).values()), default=-1.0)

    def _scores(self, playbook: Digest, seen: frozenset[str]) -> tuple[Json, Json]:
        """The mean scores by metric on tasks that were seen, and on all others; on all if none was."""
        parts: tuple[dict[str, dict[str, list[float]]], dict[str, dict[str, list[float]]]] = ({}, {})
        for fact in self._store.facts(Query(kind="cell", subject=playbook)):
            task = fact.body["task"]
            if fact.value is not None and not task.startswith(OF):
                part = parts[bool(seen) and task not in seen]
                part.setdefault(fact.body["metric"], {}).setdefault(task, []).append(fact.value)
        searched, others = ({metric: _mean(tasks) for metric, tasks in part.items()} for part in parts)
        return searched, others

    def _searched(self, playbook: Digest) -> frozenset[str]:
        """The tasks that a search chose or rejected a playbook by."""
        return frozenset().union(*map(self._known, evolved_on(self._store, playbook)))

    def _known(self, dataset: Digest) -> frozenset[str]:
        if dataset not in self._tasks:
            try:
                self._tasks[dataset] = frozenset(task.id for task in known_tasks(self._store, dataset))
            except NotFound:  # a dataset that was cleaned away
                self._tasks[dataset] = frozenset()
        return self._tasks[dataset]


def _mean(tasks: Mapping[str, Sequence[float]]) -> Json:
    means = [sum(values) / len(values) for values in tasks.values()]
    return {"mean": sum(means) / len(means), "tasks": len(means)}
