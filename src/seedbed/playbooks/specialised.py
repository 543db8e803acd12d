"""Specialised playbooks, for one corpus and one kind of task: refs `corpora/<corpus>/<task>` that inherit a base.

A specialised playbook starts as its base and then changes by hand, by evolution, or by any move of its ref. A fact
records which version of the base it inherits, so that a newer base can be merged three-way and no change of either side
is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from seedbed.errors import NotFound, PlaybookError, Problem, shown
from seedbed.playbooks.changes import Change
from seedbed.playbooks.genes import flatten
from seedbed.playbooks.library import Library, check_ref_name, names_a_playbook
from seedbed.playbooks.loading import is_within
from seedbed.playbooks.merging import Clash, Merge, Resolver, Unresolved, merge
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Fact, Query, Ref

CORPORA = "corpora/"


@dataclass(frozen=True, slots=True)
class SpecialisedPlaybook:
    """A playbook for one corpus and one kind of task, and the base that it inherits.

    `inherited` is the version of the base that it contains, `current` the base as it is now, None if its name is gone.
    """

    name: str
    playbook: Digest
    base: str
    inherited: Digest
    current: Digest | None

    @property
    def corpus(self) -> str:
        return self.name.split("/")[1]

    @property
    def task(self) -> str:
        return self.name.split("/")[2]

    @property
    def behind(self) -> bool:
        """Whether the base has moved since it was inherited."""
        return self.current not in (None, self.inherited)


@dataclass(frozen=True, slots=True)
class RebaseResult:
    """A specialised playbook before and after a rebase, and the clashes that were settled.

    `stricter` lists rules, thresholds and locks where one side wanted `before` and the result is stricter.
    """

    before: SpecialisedPlaybook
    after: SpecialisedPlaybook
    settled: tuple[Clash, ...] = ()
    stricter: tuple[Change, ...] = ()


def specialise(library: Library, corpus: str, task: str, base: str, *, because: str) -> SpecialisedPlaybook:
    """Start a playbook for a corpus and a kind of task as a copy of its base; an existing one stays as it is.

    The base is a name that can move: a branch, a channel, another ref. Raises PlaybookError if the existing one
    inherits another base.
    """
    name = ref_name(f"{corpus}/{task}")
    chosen = _base(library, base, name)
    digest = library.find(chosen)
    ref = library.store.ref(name)
    if ref is None:
        ref = library.store.move(name, digest, expected=None, because=because, by=library.by)
        _record(library, ref, chosen, digest)
    elif (known := _fact(library, ref)) is None:
        # Named by hand, or interrupted: without a common ancestor every difference is its own.
        _record(library, ref, chosen, library.common_ancestor(str(ref.target), digest) or digest)
    elif known.body["base"] != chosen:
        remedy = f"To inherit another from now on: seedbed playbook rebase {name} --onto {chosen}"
        raise PlaybookError([Problem(name, f"one that inherits {known.body['base']}", f"one of {chosen}", remedy)])
    return find(library, name)


def find(library: Library, name: str) -> SpecialisedPlaybook:
    """The specialised playbook with this name, `law/qa` or `corpora/law/qa`."""
    return _specialised(library, _ref(library, ref_name(name)))


def all_specialised(library: Library, task: str | None = None) -> list[SpecialisedPlaybook]:
    """All playbooks that inherit a base, by name, or those for one kind of task."""
    refs = [ref for ref in library.store.refs(CORPORA) if ref.name.count("/") == 2]
    known = [_specialised(library, ref) for ref in refs if _fact(library, ref)]
    return [each for each in known if task in (None, each.task)]


def rebase(
    library: Library,
    name: str,
    *,
    because: str = "",
    resolvers: Iterable[Resolver] = (),
    by_path: Mapping[str, Resolver] | None = None,
    onto: str | None = None,
) -> RebaseResult:
    """Merge the current base into a specialised playbook: ours is the specialised one, theirs the base.

    Each clash goes to the resolver of its path, then to the first of the others that settles it; if any are left,
    MergeClash lists them and nothing moves. `onto` is another base to inherit from now on. A base that has not moved
    changes nothing. Raises RefMoved if somebody else moved the ref first.
    """
    ref = _ref(library, ref_name(name))
    before = _specialised(library, ref)
    chosen = _base(library, onto, ref.name) if onto else before.base
    current = library.find(chosen) if onto else _current(before)
    if (chosen, current) == (before.base, before.inherited):
        _expect_clashes(by_path or {}, ())
        return RebaseResult(before, before)
    merged, stricter = _merge(library, before, current, [_by_path(by_path or {}), *resolvers])
    _expect_clashes(by_path or {}, merged.settled)
    reason = because or f"rebased onto {chosen}"
    digest = library.keep(merged.playbook, because=reason, parents=[before.playbook, current], how="rebased")
    after = _move(library, ref, digest, chosen, current, reason)
    return RebaseResult(before, after, merged.settled, stricter)


def back_to_base(library: Library, name: str, *, because: str) -> RebaseResult:
    """Point a specialised playbook at its base again; its history stays."""
    ref = _ref(library, ref_name(name))
    before = _specialised(library, ref)
    current = _current(before)
    if before.playbook == before.inherited == current:
        return RebaseResult(before, before)
    return RebaseResult(before, _move(library, ref, current, before.base, current, because))


def ref_name(name: str) -> str:
    """`law/qa` or `corpora/law/qa` as the name of a ref. Raises PlaybookError for anything else."""
    words = name.removeprefix(CORPORA).split("/")
    if len(words) != 2 or not all(words):
        raise PlaybookError([Problem("name", shown(name), "a corpus and a kind of task, such as law/qa")])
    return check_ref_name(CORPORA + "/".join(words))


# Bases


def _base(library: Library, name: str, specialised: str) -> str:
    """The full name of the ref to inherit."""
    for each in (name, f"branches/{name}", f"channels/{name}"):
        ref = library.store.ref(each)
        if ref and names_a_playbook(ref):
            if each == specialised:
                raise PlaybookError([Problem("base", f"{each} itself", "another name")])
            return each
    library.find(name)
    remedy = "Give it a name: seedbed playbook name."
    raise PlaybookError([Problem("base", shown(name), "a name that can move on, such as a branch", remedy)])


def _current(known: SpecialisedPlaybook) -> Digest:
    if known.current is None:
        remedy = f"Inherit another: seedbed playbook rebase {known.name} --onto BASE"
        raise NotFound(f"{known.name} inherits {known.base}, which no longer exists. {remedy}")
    return known.current


def _expect_clashes(by_path: Mapping[str, Resolver], settled: Iterable[Clash]) -> None:
    """Refuse a resolver for a path that does not clash: it would be ignored."""
    clashes = [clash.path for clash in settled]
    expected = f"one of: {', '.join(clashes)}" if clashes else "none: nothing clashes"
    if problems := [Problem(path, "no clash", expected) for path in by_path if path not in clashes]:
        raise PlaybookError(problems)


def _by_path(resolvers: Mapping[str, Resolver]) -> Resolver:
    def resolve(clash: Clash) -> object:
        if clash.path not in resolvers:
            raise Unresolved
        return resolvers[clash.path](clash)

    return resolve


def _merge(
    library: Library, known: SpecialisedPlaybook, current: Digest, resolvers: Iterable[Resolver]
) -> tuple[Merge, tuple[Change, ...]]:
    theirs = library.get(current)
    if known.playbook == known.inherited:  # with no changes of its own it follows the base, looser rules included
        return Merge(theirs, ()), ()
    was, ours = library.get(known.inherited), library.get(known.playbook)
    merged = merge(was, ours, theirs, resolvers)
    return merged, tuple(_not_taken(was, (ours, theirs), merged))


def _not_taken(was: Playbook, sides: Iterable[Playbook], merged: Merge) -> Iterator[Change]:
    """Changes of a side that the result does not have, without a clash: the stricter side won."""
    old, new = flatten(was), flatten(merged.playbook)
    changes = {}
    for side in map(flatten, sides):
        for path in {**old, **side}:
            settled = any(is_within(path, clash.path) for clash in merged.settled)
            wanted = side.get(path)
            if wanted not in (old.get(path), new.get(path)) and not settled:
                changes[path] = Change(path, wanted, new.get(path))
    yield from changes.values()


# The facts


def _ref(library: Library, name: str) -> Ref:
    ref = library.store.ref(name)
    if ref is None:
        known = ", ".join(each.name for each in library.store.refs(CORPORA)) or "none yet"
        remedy = f"Begin it: seedbed playbook specialise BASE {name.removeprefix(CORPORA)}"
        raise NotFound(Problem("playbook", f"no specialised playbook named {shown(name)}", f"one of: {known}", remedy))
    return ref


def _specialised(library: Library, ref: Ref) -> SpecialisedPlaybook:
    memory = _fact(library, ref)
    if memory is None:
        remedy = f"Say which: seedbed playbook specialise BASE {ref.name.removeprefix(CORPORA)}"
        raise PlaybookError([Problem(ref.name, "a playbook that inherits nothing", "one with a base", remedy)])
    base = memory.body["base"]
    current = library.find(base) if library.store.ref(base) else None
    return SpecialisedPlaybook(ref.name, str(ref.target), base, memory.body["inherited"], current)


def _fact(library: Library, ref: Ref) -> Fact | None:
    """The latest fact about the base of the playbook that a ref points at, or of one of its ancestors.

    A ref that was moved back by hand inherits what it inherited there before.
    """
    facts = list(library.store.facts(Query(kind="specialisation", subject=ref.name)))
    facts.sort(key=lambda fact: int(fact.key.rpartition("@")[2]), reverse=True)
    family = {entry.digest for entry in library.ancestry(str(ref.target))}
    return next((fact for fact in facts if fact.body["playbook"] in family), facts[0] if facts else None)


def _move(library: Library, ref: Ref, to: Digest, base: str, inherited: Digest, because: str) -> SpecialisedPlaybook:
    """Move the ref first: after an interruption before the fact is recorded, another rebase is enough."""
    now = library.store.move(ref.name, to, expected=ref, because=because, by=library.by)
    _record(library, now, base, inherited)
    return SpecialisedPlaybook(now.name, to, base, inherited, inherited)


def _record(library: Library, ref: Ref, base: str, inherited: Digest) -> None:
    body = {"base": base, "inherited": inherited, "playbook": ref.target}
    key = f"{ref.name}@{ref.version}"
    fact = Fact(kind="specialisation", key=key, subject=ref.name, at=library.clock(), by=library.by, body=body)
    library.store.append([fact])
