"""space.playbooks: store, name, find, derive and merge playbooks; trace where they came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from seedbed.errors import NotFound, Problem, SettingsError, expect_type, shown
from seedbed.experiments.replay.history import OF
from seedbed.experiments.verdict import lost_comparison
from seedbed.playbooks import builtin, formats, loading, merging, specialised
from seedbed.playbooks.changes import Change, diff
from seedbed.playbooks.formats import Import
from seedbed.playbooks.formats.versions import recorded_notes
from seedbed.playbooks.genes import distance, genes
from seedbed.playbooks.library import Branch, Entry, Page, PlaybookFilter, names_a_playbook
from seedbed.playbooks.merging import Merge, Resolver
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.specialised import RebaseResult, SpecialisedPlaybook
from seedbed.playbooks.turn_limit import with_turns
from seedbed.plugins import unknown
from seedbed.release.assignment import unknown_channel
from seedbed.reports.lineage import FamilyTree
from seedbed.stage.program import Program
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, short
from seedbed.workspace.resources import AnyPlaybook, Resources, shipped_file

FORMATS = ("yaml", "json", *formats.FORMATS)
"""What a playbook can be exported as: the first two are seedbed's own."""

SCHEMAS = {"playbook": Playbook.file_schema, **formats.SCHEMAS}
"""The JSON Schemas of playbook files, and of those of other tools."""

RESOLVERS: Mapping[str, Resolver] = {"ours": merging.ours, "theirs": merging.theirs, "mean": merging.mean}
"""What settles a clash between two playbooks, by name."""

AnyResolver: TypeAlias = Resolver | str | Mapping[str, Any]
"""A function, a name of `RESOLVERS`, or values by path."""

RECENT = 20
"""How many of the newest playbooks a tree starts from where nothing has a name."""


class Playbooks:
    """The playbooks of a workspace, by digest, name, branch, version or channel."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self.library = resources.library

    def get(
        self,
        playbook: AnyPlaybook,
        changes: Mapping[str, Any] | None = None,
        *,
        program: Program | str | None = None,
        turns: int | None = None,
    ) -> Playbook:
        """The playbook that a path, digest, ref or channel names, with some values changed, another program, or at most
        so many `turns`: its first steps, or more rounds.

        A stored playbook stays the parent of what is changed from it. Raises PlaybookError or NotFound.
        """
        changed = self._resources.playbook(playbook, changes)
        changed = changed if turns is None else with_turns(changed, turns)
        if (changes or turns) and isinstance(playbook, str) and self._resources.file_of(playbook) is None:
            parent = self.library.find(playbook)
            self.library.keep(changed, because="changed for a run", parents=[parent], how="edited")
        return self._resources.performed(changed, program)

    # Storing

    def keep(self, playbook: AnyPlaybook, *, because: str, parents: Iterable[AnyPlaybook] = ()) -> Digest:
        """Store a playbook with where it came from."""
        grown = [self._resources.keep(parent, because) for parent in parents]
        how = "edited" if grown else "written"
        return self.library.keep(self._resources.playbook(playbook), because=because, parents=grown, how=how)

    def derive(self, playbook: AnyPlaybook, changes: Mapping[str, Any], *, because: str) -> tuple[Digest, Digest]:
        """Store a child that differs in some genes; the digests of the child and of its parent."""
        parent = self._resources.keep(playbook, because)
        return self.library.derive(parent, changes, because=because), parent

    def merge(
        self, ours: str, theirs: str, *, because: str, resolvers: Sequence[AnyResolver] = ()
    ) -> tuple[Digest, Merge]:
        """Join two playbooks over their common ancestor. Raises MergeClash with every clash that nothing settles."""
        return self.library.merge(ours, theirs, because=because, resolvers=[*map(_resolver, resolvers)])

    def siblings(self, ours: str, theirs: str) -> list[str]:
        """The other active branches that grew from the common ancestor of two playbooks."""
        base = self.library.common_ancestor(self.library.find(ours), self.library.find(theirs))
        others = [
            each for each in self.library.branches() if each.state == "active" and each.name not in (ours, theirs)
        ]
        return [each.name for each in others if base in {entry.digest for entry in self.library.ancestry(each.digest)}]

    def name(self, name: str, playbook: AnyPlaybook, *, because: str) -> Ref:
        """Point a branch, or any other ref, at a playbook."""
        expect_type(name, str, "name", "the name of a branch or another ref")
        expect_type(because, str, "because", "a reason in words", "Say why it moves.")
        return self.library.name(name, self._resources.keep(playbook, because), because=because)

    def version(self, series: str, number: str, playbook: AnyPlaybook, *, because: str) -> Ref:
        """Label a playbook with a version. Versions never move."""
        return self.library.version(series, number, self._resources.keep(playbook, because), because=because)

    def branch(self, name: str, playbook: AnyPlaybook, *, because: str) -> Ref:
        """Start a branch at a playbook."""
        return self.library.branch(name, self._resources.keep(playbook, because), because=because)

    def branches(self) -> list[Branch]:
        """All branches by name. One whose playbook failed its comparison has failed."""
        return [self._judged(branch) if branch.state == "active" else branch for branch in self.library.branches()]

    def _judged(self, branch: Branch) -> Branch:
        failed = self.failed(branch.digest)
        return replace(branch, state="failed", because=failed_text(failed)) if failed else branch

    def archive(self, branch: str, *, because: str, failed: bool = False) -> str:
        """End a branch and return its last state. Its name is free again and its history stays."""
        state = "failed" if failed else "archived"
        self.library.close(branch, "failed" if failed else "archived", because=because)
        return state

    def tag(self, playbook: AnyPlaybook, *words: str) -> tuple[Digest, list[str]]:
        """Attach words to a playbook, and return all that it has."""
        digest = self._resources.keep(playbook, "tagged") if words else self._resources.playbook(playbook).digest
        if words:
            self.library.tag(digest, *words)
        return digest, self.library.tags(digest)

    # Finding

    def search(self, where: PlaybookFilter | None = None, *, after: int | None = None, limit: int = 20) -> Page:
        """Stored playbooks that match all conditions, newest first."""
        return self.library.search(where, after=after, limit=limit)

    def names(self) -> dict[Digest, list[str]]:
        """The refs that name each playbook."""
        called: dict[Digest, list[str]] = {}
        for ref in filter(names_a_playbook, self._resources.store.refs()):
            called.setdefault(served(ref), []).append(ref.name)
        return called

    def scores(self, playbook: Digest) -> Json:
        """The mean score of a playbook over all its live cells, by metric."""
        values: dict[str, list[float]] = {}
        for fact in self._resources.store.facts(Query(kind="cell", subject=playbook)):
            if fact.value is not None and not fact.body["task"].startswith(OF):  # a replay is not a live run
                values.setdefault(fact.body["metric"], []).append(fact.value)
        return {metric: {"mean": sum(each) / len(each), "cells": len(each)} for metric, each in values.items()}

    def describe(self, entry: Entry, called: Mapping[Digest, Sequence[str]] | None = None) -> Json:
        """A stored playbook: its names, what it came from, its scores, and the comparison that it failed."""
        names = (self.names() if called is None else called).get(entry.digest, [])
        return {
            "playbook": entry.digest,
            "names": list(names),
            "parents": list(entry.parents),
            "how": entry.how,
            "because": entry.because,
            "by": entry.by,
            "at": entry.at,
            "scores": self.scores(entry.digest),
            "failed": self.failed(entry.digest),
        }

    def failed(self, playbook: Digest) -> Json | None:
        """The comparison that a candidate failed, if no confirmatory one has found it superior since."""
        lost = lost_comparison(self._resources.store, playbook)
        return {"experiment": lost.experiment, "finding": lost.finding, "control": lost.control} if lost else None

    def about(self, playbook: Playbook) -> Json:
        """What is known about a playbook; of one that was never stored, no more than its genes, names and tags."""
        called = self.names()
        known: Json = {
            "genes": {gene.path: gene.value for gene in genes(playbook).values()},
            "names": called.get(playbook.digest, []),
            "tags": self.library.tags(playbook.digest),
        }
        with suppress(NotFound):
            known |= self.describe(self.library.entry(playbook.digest), called)
        return known

    def diff(self, before: AnyPlaybook, after: AnyPlaybook) -> list[Change]:
        """What differs between two playbooks."""
        return list(diff(self._resources.playbook(before), self._resources.playbook(after)))

    def ancestry(self, playbook: AnyPlaybook) -> list[Entry]:
        """A playbook and what it grew from, newest first."""
        digest = self.library.entry(self._resources.playbook(playbook).digest).digest
        return list(self.library.ancestry(digest))

    def moves(self, ref: str) -> tuple[str, list[Fact]]:
        """The full name of a ref that exists or once did, and where it pointed, newest first. Raises NotFound."""
        store = self._resources.store
        for name in (ref, f"branches/{ref}", f"channels/{ref}"):
            if any(store.facts(Query(kind="move", subject=name, limit=1))):
                return name, list(self.library.history(name))
        if ref.startswith("channels/"):
            raise unknown_channel(store, ref.removeprefix("channels/"))
        raise NotFound(unknown("ref", ref, [each.name for each in store.refs()], "Check its spelling.", kind="ref"))

    def tree(self, playbook: AnyPlaybook | None = None, *, limit: int = 12, depth: int = 20) -> list[Json]:
        """The family trees of a playbook, or of everything that has a name."""
        tree = FamilyTree(self.library, self.names(), self.failed, limit)
        return [tree.grow(root, depth) for root in self._roots(playbook)]

    def _roots(self, playbook: AnyPlaybook | None) -> list[Digest]:
        if playbook is not None:
            starts: Iterable[Digest] = [self._resources.playbook(playbook).digest]
        else:
            starts = self.names() or [entry.digest for entry in self.library.search(limit=RECENT).entries]
        roots: dict[Digest, None] = {}
        for start in starts:
            self.library.entry(start)
            entries = {entry.digest: entry for entry in self.library.ancestry(start)}
            while parents := entries[start].parents:  # by the first parent only, as the tree is drawn
                start = parents[0]
            roots[start] = None
        return list(roots)

    # Files of other tools

    def import_foreign(self, foreign: Import, *, because: str) -> Digest:
        """Store a playbook that was written for another tool, with its names and its history.

        An earlier import of the same document, by a seedbed that read it otherwise, is its parent and keeps its
        version.
        """
        store = self._resources.store
        known = [store.ref(str(note.body.get("ref", ""))) for note in foreign.facts if note.kind == "parent"]
        keys = [note.key for note in foreign.facts if note.kind == "import"]
        earlier = [fact.subject for key in keys for fact in store.facts(Query(kind="import", key=key))]
        parents = [*earlier, *(str(ref.target) for ref in known if ref)]
        digest = self.library.keep(foreign.playbook, because=because, parents=parents, how="imported")
        # Versions first: they may be refused, and then no other name has moved.
        for name, to in foreign.refs.items():
            current = store.ref(name)
            if name.startswith("versions/") and not (current and current.target in earlier):
                _, series, number = name.split("/")
                self.library.version(series, number, of=to, because=because)
        for name, to in foreign.refs.items():
            current = store.ref(name)
            if not name.startswith("versions/") and (current is None or current.target != to):
                self.library.name(name, to, because=because)
        at, by = datetime.now(UTC), self._resources.by
        store.append(
            Fact(kind=note.kind, key=note.key, subject=digest, at=at, by=by, body=note.body) for note in foreign.facts
        )
        return digest

    def export(self, playbook: AnyPlaybook, to: str) -> tuple[Digest, Json]:
        """A playbook as a document: `yaml` and `json` are seedbed's own, others are those of `formats.FORMATS`."""
        chosen = self._resources.playbook(playbook)
        if to in ("yaml", "json"):
            return chosen.digest, chosen.document()
        called = self.names().get(chosen.digest, [])
        return chosen.digest, formats.export(chosen, to, recorded_notes(self.library, chosen.digest), called)

    def change_log(self, playbook: AnyPlaybook) -> list[Json]:
        """The changes to the parameters of each version, newest first: of imported documents, and those made here."""
        notes = recorded_notes(self.library, self._resources.playbook(playbook).digest)
        changes = [note.body for note in notes if note.kind == "change"]
        return sorted(changes, key=lambda change: change["date"] or "", reverse=True)

    # Specialised playbooks

    def specialise(self, base: str, name: str, *, because: str) -> SpecialisedPlaybook:
        """Start a playbook for one corpus and one kind of task at its base: the ref corpora/CORPUS/TASK."""
        _, corpus, task = specialised.ref_name(name).split("/")
        return specialised.specialise(self.library, corpus, task, base, because=because)

    def rebase(
        self,
        name: str,
        *,
        because: str = "",
        resolvers: Sequence[AnyResolver] = (),
        by_path: Mapping[str, AnyResolver] | None = None,
        onto: str | None = None,
    ) -> RebaseResult:
        """Merge the current base into a specialised playbook. Raises MergeClash."""
        settled, single = map(_resolver, resolvers), {path: _resolver(each) for path, each in (by_path or {}).items()}
        return specialised.rebase(self.library, name, because=because, resolvers=settled, by_path=single, onto=onto)

    def back_to_base(self, name: str, *, because: str) -> RebaseResult:
        """Return a specialised playbook to its base."""
        return specialised.back_to_base(self.library, name, because=because)

    def specialised(self, task: str | None = None) -> list[tuple[SpecialisedPlaybook, Json]]:
        """Specialised playbooks: how far each is from what it inherits, and whether its base has moved."""
        return [(each, self._distances(each)) for each in specialised.all_specialised(self.library, task)]

    def find_specialised(self, name: str) -> SpecialisedPlaybook:
        return specialised.find(self.library, name)

    def _distances(self, of: SpecialisedPlaybook) -> Json:
        inherited, own = self.library.get(of.inherited), self.library.get(of.playbook)
        base_changes = diff(inherited, self.library.get(of.current)) if of.current else []
        return {
            "distance": distance(inherited, own),
            "changes": [change.path for change in diff(inherited, own)],
            "base_changes": [change.path for change in base_changes],
        }


def read_foreign(file: Path) -> Import:
    """A playbook that was written for another tool. Raises PlaybookError."""
    return formats.load_foreign(file)


def builtin_playbooks() -> list[Json]:
    """The dialogues that ship with seedbed: their names, their inputs, and what they do."""
    loaded = {name: Playbook.load(file) for name, file in builtin.FILES.items()}
    return [
        {
            "name": name,
            "inputs": list(each.inputs),
            "steps": len([*each.all_steps()]),
            "about": each.meta["about"],
            "playbook": each.digest,
            "file": str(builtin.FILES[name]),
        }
        for name, each in loaded.items()
    ]


def explain(file: Path, changes: Mapping[str, Any] | None = None) -> tuple[Digest, list[Json]]:
    """The digest of a playbook file, and each value with the file and line it came from. Raises PlaybookError."""
    values, file = dict(changes or {}), shipped_file(file)
    loaded = loading.load(file, values)
    explained = [
        {"path": path, "value": value, "origin": loaded.origins.get(path, str(file))}
        for path, _, value in loading.leaves(loaded.document)
    ]
    return Playbook.load(file, values).digest, explained


def _resolver(resolver: AnyResolver) -> Resolver:
    if isinstance(resolver, str):
        if resolver not in RESOLVERS:
            raise SettingsError([Problem("resolve", shown(resolver), f"one of: {', '.join(RESOLVERS)}")])
        return RESOLVERS[resolver]
    return merging.manual(resolver) if isinstance(resolver, Mapping) else resolver


def failed_text(failed: Json) -> str:
    """Which comparison a candidate failed, and how."""
    return f"{failed['finding']} against {short(failed['control'])} in experiment {short(failed['experiment'])}"


def served(ref: Ref) -> Digest:
    """The playbook that a ref points at; of a channel, its stable one."""
    return ref.target if isinstance(ref.target, str) else str(ref.target["stable"])
