"""Library: save, name, find, branch, derive and merge playbooks, and trace where they came from.

Playbooks are content. Each has one derivation fact, the first one recorded, that names its parents. As a parent must be
saved before its child, ancestry cannot form a circle. Names are refs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from seedbed.errors import NotFound, PlaybookError, Problem, RefMoved, shown
from seedbed.playbooks import builtin
from seedbed.playbooks.genes import genes, with_genes
from seedbed.playbooks.merging import Merge, Resolver, merge
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import thaw
from seedbed.plugins import unknown
from seedbed.redaction import redact
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, Store, canonical, in_brief, put_all, short

BranchState = Literal["active", "merged", "archived", "failed"]
SEMVER = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
REF_NAME = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)*")


@dataclass(frozen=True, slots=True)
class Entry:
    """What the library knows about a playbook besides its content."""

    digest: Digest
    parents: tuple[Digest, ...]
    how: str
    because: str
    by: str
    at: datetime
    meta: Json
    number: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of work: where it is, or how it ended."""

    name: str
    state: BranchState
    digest: Digest
    because: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries, newest first. Pass `after` to `search` for the next page; None if this is the last."""

    entries: tuple[Entry, ...]
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookFilter:
    """Conditions of a search; all must hold. `gene` is `path=value`, for numbers and choices."""

    text: str | None = None
    gene: str | None = None
    tag: str | None = None
    by: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """The playbooks of a store, used by one author."""

    store: Store
    by: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    # Saving

    def keep(self, playbook: Playbook, *, because: str, parents: Iterable[Digest] = (), how: str = "written") -> Digest:
        """Save a playbook with its parents. One that is saved already keeps its first derivation.

        Raises PlaybookError for one that could not be read again.
        """
        self.keep_all([(playbook, tuple(parents), how)], because=because)
        return playbook.digest

    def keep_all(self, playbooks: Sequence[tuple[Playbook, tuple[Digest, ...], str]], *, because: str) -> set[Digest]:
        """Save playbooks with their parents and how each was made, together. Returns the digests of the new ones.

        A parent may be among them, before its child.
        """
        if not because.strip():
            raise PlaybookError([Problem("because", "no reason", "why it is kept")])
        named = {name for playbook, parents, _ in playbooks for name in (playbook.digest, *parents)}
        known = self._known(named)
        new: dict[Digest, tuple[Playbook, tuple[Digest, ...], str]] = {}
        for playbook, parents, how in playbooks:
            for parent in parents:
                if parent not in known and parent not in new:
                    self.entry(parent)
            if playbook.digest not in known:
                new.setdefault(playbook.digest, (playbook.read_again(), parents, how))
        put_all(self.store, "playbook", [playbook.content() for playbook, _, _ in new.values()])
        self.store.append(self._derivation(*each, because) for each in new.values())
        return set(new)

    def _known(self, digests: Set[Digest]) -> set[Digest]:
        query = Query(kind="derivation", keys=sorted(digests))
        return {key for key, _, _ in in_brief(self.store, query)}

    def _derivation(self, playbook: Playbook, parents: tuple[Digest, ...], how: str, because: str) -> Fact:
        digest, body = playbook.digest, {"how": how, "because": because}
        parents = tuple(parent for parent in dict.fromkeys(parents) if parent != digest)
        return Fact(
            kind="derivation",
            key=digest,
            subject=digest,
            at=self.clock(),
            by=self.by,
            body={**body, "meta": thaw(playbook.meta)} if playbook.meta else body,
            parents=parents,
            tags=(*_gene_tags(playbook), *map(_child_tag, parents)),
        )

    def derive(self, parent: Digest, values: Mapping[str, Any], *, because: str, how: str = "edited") -> Digest:
        """Save a child that differs from its parent in some genes."""
        return self.keep(with_genes(self.get(parent), values), because=because, parents=[parent], how=how)

    def get(self, name: str) -> Playbook:
        """The playbook with this digest, beginning of a digest, or ref."""
        return Playbook.from_document(self.store.get(self.find(name)))

    def entry(self, digest: Digest) -> Entry:
        for fact in self.store.facts(Query(kind="derivation", key=digest)):
            return _entry(fact)
        raise NotFound(f"playbook {short(digest)} is not in this store. Keep it first, or copy it from another store")

    def tag(self, name: str, *tags: str) -> None:
        """Tag a playbook, to find it by."""
        for tag in tags:
            if not tag.strip() or not tag.isprintable():
                raise PlaybookError([Problem("tag", shown(tag), "one or more printable words")])
        digest = self.find(name)
        at = self.clock()
        tags = tuple(map(redact, tags))
        self.store.append(
            Fact(kind="tag", key=f"{digest} {tag}", subject=digest, at=at, by=self.by, tags=(tag,)) for tag in tags
        )

    def tags(self, digest: Digest) -> list[str]:
        return [tag for fact in self.store.facts(Query(kind="tag", subject=digest)) for tag in fact.tags]

    # Naming

    def find(self, name: str) -> Digest:
        """The digest for a digest, at least four characters of one, or the name of a ref."""
        if re.fullmatch(r"b2:[0-9a-f]{64}", name):
            return name
        ref = self.store.ref(name) or self.store.ref(f"branches/{name}") or self.store.ref(f"channels/{name}")
        if ref and names_a_playbook(ref):
            return ref.target if isinstance(ref.target, str) else str(ref.target["stable"])
        start = name.removeprefix("b2:")
        matches: list[Digest] = []
        if re.fullmatch(r"[0-9a-f]{4,63}", start):
            query = Query(kind="derivation", key_from=f"b2:{start}", limit=3)
            matches = [fact.key for fact in self.store.facts(query)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NotFound(f"{name} begins several digests: {', '.join(map(short, matches))}, …. Give more characters")
        known = [*(ref.name for ref in self.store.refs() if names_a_playbook(ref)), *builtin.FILES]
        raise NotFound(unknown("playbook", name, known, "A file or a digest works too.", kind="playbook"))

    def specialised(self, corpus: str, task: str, *, base: str) -> Digest:
        """The playbook for a corpus and a kind of task; the base if there is none."""
        ref = f"corpora/{corpus}/{task}"
        return self.find(ref if self.store.ref(ref) else base)

    def name(self, name: str, to: str, *, because: str) -> Ref:
        """Point a branch, or any other ref but a channel or a version, at a playbook."""
        ref = check_ref_name(name if "/" in name else f"branches/{name}")
        verbs = {"channels": "release", "versions": "playbook version", "datasets": "dataset add"}
        if verb := verbs.get(ref.partition("/")[0]):
            raise PlaybookError([Problem(name, "a protected name", "a branch or another ref", f"Use seedbed {verb}.")])
        return self._move(ref, self.find(to), because)

    def version(self, line: str, number: str, of: str, *, because: str) -> Ref:
        """Label a playbook with a semantic version. Versions never move."""
        if not SEMVER.fullmatch(number):
            raise PlaybookError([Problem(f"versions/{line}", shown(number), "a semantic version such as 2.0.0")])
        digest = self.find(of)
        ref = check_ref_name(f"versions/{line}/{number}")
        try:
            return self.store.move(ref, digest, expected=None, because=because, by=self.by)
        except RefMoved:
            current = self.store.ref(ref)
            if current and current.target == digest:
                return current
            remedy = "Versions never move: choose a higher number."
            raise PlaybookError([Problem(ref, "a version that exists already", "a new one", remedy)]) from None

    def _move(self, ref: str, to: Digest | None, because: str) -> Ref:
        return self.store.move(ref, to, expected=self.store.ref(ref), because=because, by=self.by)

    # Branches

    def branch(self, name: str, start: str, *, because: str) -> Ref:
        """Start a branch at a playbook. Raises RefMoved if the name is taken."""
        digest = self.find(start)
        return self.store.move(check_ref_name(f"branches/{name}"), digest, expected=None, because=because, by=self.by)

    def close(self, name: str, state: Literal["merged", "archived", "failed"], *, because: str) -> None:
        """End a branch. Its name is free again, and its history stays."""
        ref = self.store.ref(f"branches/{name}")
        if ref is None:
            raise NotFound(f"there is no active branch {shown(name)}")
        body = {"state": state, "because": because, "digest": ref.target}
        key = f"{name}@{ref.version}"
        self.store.append([Fact(kind="branch", key=key, subject=ref.name, at=self.clock(), by=self.by, body=body)])
        self.store.move(ref.name, None, expected=ref, because=f"{state}: {because}", by=self.by)

    def branches(self) -> list[Branch]:
        """All branches by name: active ones from their refs, the others as they last ended."""
        known = {
            fact.subject: Branch(
                fact.subject.removeprefix("branches/"),
                fact.body["state"],
                fact.body["digest"],
                fact.body["because"],
                fact.by,
                fact.at,
            )
            for fact in self.store.facts(Query(kind="branch"))
        }
        for ref in self.store.refs("branches/"):
            name = ref.name.removeprefix("branches/")
            known[ref.name] = Branch(name, "active", str(ref.target), ref.because, ref.by, ref.at)
        return [known[name] for name in sorted(known)]

    def merge(
        self, ours: str, theirs: str, *, because: str, resolvers: Iterable[Resolver] = ()
    ) -> tuple[Digest, Merge]:
        """Merge two playbooks with their common ancestor and save the result as a child of both.

        If `theirs` is a branch it is closed as merged; if `ours` is one it moves to the result.
        """
        mine, yours = self.find(ours), self.find(theirs)
        base = self.common_ancestor(mine, yours)
        if base is None:
            raise PlaybookError([Problem(f"{ours}, {theirs}", "no common ancestor", "two playbooks of one family")])
        result = merge(self.get(base), self.get(mine), self.get(yours), resolvers)
        digest = self.keep(result.playbook, because=because, parents=[mine, yours], how="merged")
        if self.store.ref(f"branches/{ours}"):
            self._move(f"branches/{ours}", digest, because)
        if self.store.ref(f"branches/{theirs}"):
            self.close(theirs, "merged", because=because)
        return digest, result

    # Ancestry

    def ancestry(self, digest: Digest) -> list[Entry]:
        """A playbook and all its ancestors, newest first."""
        return [_entry(fact) for fact in self.store.facts(Query(kind="derivation", key=digest, follow=True))]

    def common_ancestor(self, one: Digest, other: Digest) -> Digest | None:
        """The newest playbook that is an ancestor of both, or one of them."""
        ours = {entry.digest for entry in self.ancestry(one)}
        return next((entry.digest for entry in self.ancestry(other) if entry.digest in ours), None)

    def children(self, digest: Digest) -> list[Entry]:
        facts = self.store.facts(Query(kind="derivation", tag=_child_tag(digest)))
        return [_entry(fact) for fact in facts if digest in fact.parents]

    def history(self, name: str) -> Iterator[Fact]:
        """The moves of a ref, newest first."""
        return self.store.facts(Query(kind="move", subject=name, newest=True))

    # Search

    def search(self, where: PlaybookFilter | None = None, *, after: int | None = None, limit: int = 20) -> Page:
        """Playbooks that match all conditions, newest first."""
        where = where or PlaybookFilter()
        query = Query(
            kind="derivation",
            text=where.text,
            tag=where.gene and _gene_query(where.gene),
            by=where.by,
            since=where.since,
            until=where.until,
            newest=True,
        )
        matches: Iterator[tuple[int, Fact]]
        if where.tag:
            marks = self.store.facts(Query(kind="tag", tag=where.tag, newest=True, after=after))
            tagged = ((mark.number, self.store.facts(replace(query, key=mark.subject))) for mark in marks)
            matches = ((number, fact) for number, facts in tagged for fact in facts)
        else:
            matches = ((fact.number, fact) for fact in self.store.facts(replace(query, after=after)))
        page = list(islice(matches, limit + 1))
        entries = tuple(_entry(fact) for _, fact in page[:limit])
        return Page(entries, page[limit - 1][0] if len(page) > limit else None)


def names_a_playbook(ref: Ref) -> bool:
    """Whether a ref names a playbook: datasets have names in the same store."""
    return not ref.name.startswith("datasets/")


def names_of(store: Store) -> dict[Digest, str]:
    """The shortest name of each playbook that has one: a branch or a channel without its kind, else a whole ref."""
    names: dict[Digest, str] = {}
    for ref in filter(names_a_playbook, store.refs()):
        digest = ref.target if isinstance(ref.target, str) else str(ref.target["stable"])
        name = ref.name.removeprefix("branches/").removeprefix("channels/")
        if digest not in names or len(name) < len(names[digest]):
            names[digest] = name
    return names


def check_ref_name(ref: str) -> str:
    """Return the name of a ref. Raises PlaybookError for odd characters."""
    if not REF_NAME.fullmatch(ref):
        raise PlaybookError([Problem(shown(ref), "a name with odd characters", "words like branches/careful")])
    return ref


def _entry(fact: Fact) -> Entry:
    body = fact.body
    return Entry(
        digest=fact.key,
        parents=fact.parents,
        how=body["how"],
        because=body["because"],
        by=fact.by,
        at=fact.at,
        meta=body.get("meta", {}),
        number=fact.number,
    )


def _gene_tags(playbook: Playbook) -> list[str]:
    """The tags to find a playbook by: its numbers and choices. Texts are found by their words."""
    kinds = ("number", "integer", "choice")
    return [f"{gene.path}={canonical(gene.value)}" for gene in genes(playbook).values() if gene.kind in kinds]


def _gene_query(gene: str) -> str:
    path, equals, value = gene.partition("=")
    if not equals:
        raise PlaybookError([Problem("gene", shown(gene), "path=value, such as roles.writer.model=fast")])
    try:
        return f"{path}={canonical(float(value))}"
    except ValueError:
        return f"{path}={value}" if value in ("true", "false") else f"{path}={canonical(value)}"


def _child_tag(parent: Digest) -> str:
    # Part of a digest is enough to find the children by; `children` compares the whole.
    return f"of {parent.removeprefix('b2:')[:20]}"
