"""EvidenceFile: everything that a verdict rests on, in one file that is verified without the store.

A zip archive of `manifest.json` (format, experiment, head of the chain, digests of the other files), `contents.jsonl`,
`facts.jsonl`, and `chain.jsonl`, which has all facts of the store in their order: those of the file, and of the others
their columns and a commitment to their body. The archive's comment is the digest of all bytes before it.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from seedbed import documents
from seedbed.errors import NotFound, Problem, SeedbedError, SettingsError, StoreDamaged, StoreError, shown
from seedbed.experiments.proof.certificate import Certificate, certificate
from seedbed.files import write_private
from seedbed.storage.chain import GENESIS, Chain
from seedbed.storage.json_lines import fact_from, plain_of
from seedbed.storage.memory import MemoryStore, matches
from seedbed.storage.signing import check_signatures
from seedbed.storage.store import (
    CHAINED,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    Store,
    Target,
    UpkeptStore,
    canonical,
    digest,
    from_micros,
    micros,
    short,
)
from seedbed.storage.upkeep import in_order

FORMAT, VERSION = "seedbed evidence", 1
FILES = ("contents.jsonl", "facts.jsonl", "chain.jsonl")
COMMENT_BYTES = 64
KINDS = ("experiment", "dataset", "playbook", "live", "arrivals", "sample")
"""The kinds of content that a verdict may rest on."""

THE_SAME = "the file as it was exported"


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """The result of verifying an evidence file: the certificate, if it could be computed again, and what is wrong."""

    experiment: Digest
    head: Json
    """The end of the chain at the time of the export: compare it with one that was kept elsewhere."""
    certificate: Certificate | None
    problems: tuple[Problem, ...]


@dataclass
class _ReadStore:
    """A store that notes everything that is read from it."""

    inner: Store
    contents: dict[Digest, Json] = field(default_factory=dict)
    known: dict[tuple[str, str], Fact] = field(default_factory=dict)
    queries: dict[str, list[Query]] = field(default_factory=dict)

    def get(self, digest: Digest) -> Json:
        self.contents[digest] = body = self.inner.get(digest)
        return body

    def facts(self, query: Query) -> Iterator[Fact]:
        self.queries.setdefault(query.kind, []).append(query)
        for fact in self.inner.facts(query):
            self.known[fact.kind, fact.key] = fact
            yield fact

    def ref(self, name: str) -> Ref | None:
        list(self.facts(Query(kind="move", subject=name)))
        return self.inner.ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        for fact in self.facts(Query(kind="move")):  # a ref that is gone had moves too
            if not fact.subject.startswith(prefix):
                del self.known[fact.kind, fact.key]
        return self.inner.refs(prefix)

    def put(self, kind: str, body: Json) -> NoReturn:
        raise StoreError(f"found a {kind} to write; expected a store that is only read")

    def append(self, facts: Iterable[Fact]) -> NoReturn:
        raise StoreError("found facts to write; expected a store that is only read")

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> NoReturn:
        raise StoreError(f"found {name} to move; expected a store that is only read")


def head(store: UpkeptStore) -> Json:
    """The end of the chain of a store: the link, number and time of the last fact that has a link."""
    newest = (store.facts(Query(kind=kind, newest=True)) for kind in store.kinds())
    ends = (next((fact for fact in facts if fact.link), None) for facts in newest)
    last = max((fact for fact in ends if fact), key=lambda fact: fact.number, default=None)
    return {"link": last.link, "number": last.number, "at": last.at.isoformat()} if last else {"link": GENESIS}


def export_evidence(store: UpkeptStore, experiment: Digest, path: Path | str) -> Path:
    """Write everything that a verdict rests on to a file. Raises SeedbedError for a verdict that does not verify."""
    read = _ReadStore(store)
    if problems := certificate(read, experiment).problems:
        raise SeedbedError(f"experiment {short(experiment)} does not verify: {problems[0]}")
    for fact in store.facts(Query(kind="signature")):
        read.known[fact.kind, fact.key] = fact
    chain, shown_facts, last = [], [], None
    for fact in in_order(store):
        first = fact.kind in CHAINED and not fact.commitment  # linked over its whole text by an older version
        named = first or (fact.kind, fact.key) in read.known
        shown_facts += [fact] if named else []
        chain.append("" if named else _columns(fact))
        last = fact
    lines: dict[str, list[Any]] = {
        "contents.jsonl": [[_kind(name, body), name, body] for name, body in read.contents.items()],
        "facts.jsonl": [plain_of(fact) for fact in shown_facts],
        "chain.jsonl": chain,
    }
    texts = {name: "".join(f"{canonical(item)}\n" for item in items).encode() for name, items in lines.items()}
    end = {"link": last.link, "number": last.number, "at": last.at.isoformat()} if last else {"link": GENESIS}
    manifest = {"format": FORMAT, "version": VERSION, "experiment": experiment, "head": end}
    manifest["files"] = {name: _digest(text) for name, text in texts.items()}
    target = Path(path)
    write_private(target, _archive({"manifest.json": f"{canonical(manifest)}\n".encode(), **texts}))
    return target


def verify_evidence(path: Path | str, *, signers: Mapping[str, str] | None = None) -> EvidenceCheck:
    """Verify an evidence file: that no byte was changed, that its facts are on the chain, and that the verdict follows.

    With `signers`, the public keys of people by their names, also that one of them registered the experiment, and that
    they signed what was done in their names. Raises SeedbedError for what is no evidence file or no key.
    """
    texts, problems = _members(documents.file_path(path, "an evidence file", SettingsError))
    try:
        manifest = json.loads(texts["manifest.json"])
        experiment, head, files = manifest["experiment"], manifest["head"], manifest["files"]
        if (manifest["format"], manifest["version"]) != (FORMAT, VERSION):
            raise ValueError(f"{manifest['format']}, version {manifest['version']}")
    except (ValueError, LookupError, TypeError) as wrong:
        raise SeedbedError(f"{path}: found {shown(str(wrong))}; expected a manifest of {FORMAT} {VERSION}") from None
    problems += [
        Problem(f"{path}: {name}", "bytes that were changed", THE_SAME)
        for name in FILES
        if files.get(name) != _digest(texts.get(name, b""))
    ]
    try:
        facts = [fact_from(plain.pop("kind"), f"{canonical(plain)}\n".encode()) for plain in _lines(texts[FILES[1]])]
        contents = [Content(kind, name, body) for kind, name, body in _lines(texts[FILES[0]])]
        hidden, broken = _follow(_lines(texts[FILES[2]]), facts, head)
        problems += broken
        problems += [
            Problem(f"{c.kind} {c.digest}", "another text", "the one named so") for c in contents if not c.intact
        ]
        store = MemoryStore()
        store.load(contents, sorted(facts, key=lambda fact: fact.number))
        read = _ReadStore(store)
        proof = certificate(read, experiment)
        problems += [*proof.problems, *_left_out(read, hidden), *_unsigned(experiment, [*facts, *hidden], signers)]
    except SettingsError:
        raise
    except (SeedbedError, LookupError, TypeError, ValueError, AttributeError) as wrong:
        problems.append(Problem(f"{path}", shown(str(wrong)), "evidence that can be computed again"))
        return EvidenceCheck(experiment, head, None, tuple(problems))
    return EvidenceCheck(experiment, head, proof, tuple(problems))


def _members(path: Path) -> tuple[dict[str, bytes], list[Problem]]:
    try:
        whole = path.read_bytes()
        with zipfile.ZipFile(BytesIO(whole)) as archive:
            texts = {name: archive.read(name) for name in archive.namelist()}
    except OSError as wrong:
        failure = "no such file" if isinstance(wrong, FileNotFoundError) else wrong.strerror or "an unreadable file"
        remedy = "Check the path; `seedbed evidence export` writes such a file."
        raise NotFound(Problem(str(path), failure, "an evidence file", remedy)) from None
    except Exception as wrong:  # noqa: BLE001 - a damaged archive raises errors of many kinds
        raise SeedbedError(f"{path}: found no whole archive ({wrong}); expected an evidence file") from None
    intact = whole[-COMMENT_BYTES:].decode(errors="replace") == _digest(whole[:-COMMENT_BYTES])
    return texts, [] if intact else [Problem(f"{path}", "bytes that were changed", THE_SAME)]


def _follow(entries: list[Any], facts: list[Fact], head: Mapping[str, Any]) -> tuple[list[Fact], list[Problem]]:
    """The facts of which the file has only the columns, and what is wrong with the chain of all."""
    chain, hidden, wrong, ours = Chain(), [], [], iter(sorted(facts, key=lambda fact: fact.number))
    for entry in entries:
        fact = _from_columns(entry) if entry else next(ours, None)
        if fact is None:
            raise StoreDamaged("found fewer facts than the chain has; expected all of them")
        if entry:
            hidden.append(fact)
        wrong += chain.follow(fact, hidden=bool(entry))
    wrong += chain.end()
    problems = [Problem(name, state, "the fact as it was added") for name, state in wrong]
    if left := list(ours):
        problems.append(Problem(f"{left[0].kind} fact {left[0].key}", "no place in the chain", "one"))
    if chain.head != head.get("link"):
        problems.append(Problem("head", short(chain.head), short(str(head.get("link")))))
    return hidden, problems


def _left_out(read: _ReadStore, hidden: Iterable[Fact]) -> Iterator[Problem]:
    """The facts that the file does not hold although the check reads such facts."""
    conditions = {
        kind: [matches(query) for query in queries if query.limit is None] for kind, queries in read.queries.items()
    }
    for fact in hidden:
        if any(condition(fact) for condition in conditions.get(fact.kind, ())):
            yield Problem(f"{fact.kind} fact {fact.key}", "one that was left out", "all facts that bear on the verdict")


def _unsigned(experiment: Digest, facts: Iterable[Fact], signers: Mapping[str, str] | None) -> Iterator[Problem]:
    """What was done in the names of signers, of which the file has at least a link, without their signature."""
    if signers is None:
        return
    everything = MemoryStore()
    everything.load([], facts)
    for fact in everything.facts(Query(kind="comparison", key=experiment)):
        if fact.by not in signers:
            yield Problem(f"comparison fact {fact.key}", f"one by {fact.by}", f"one by {' or '.join(signers)}")
    yield from check_signatures(everything, signers)


def _columns(fact: Fact) -> list[Any]:
    named = [fact.kind, fact.key, fact.subject, micros(fact.at), fact.by, fact.value]
    return [*named, fact.parents, fact.tags, fact.link, fact.commitment]


def _from_columns(entry: list[Any]) -> Fact:
    kind, key, subject, at, by, value, parents, tags, link, commitment = entry
    return Fact(
        kind=kind,
        key=key,
        subject=subject,
        at=from_micros(at),
        by=by,
        value=None if value is None else float(value),
        parents=tuple(parents),
        tags=tuple(tags),
        link=link,
        commitment=commitment,
    )


def _kind(name: Digest, body: Json) -> str:
    for kind in KINDS:
        if digest(kind, body) == name:
            return kind
    raise StoreDamaged(f"content {short(name)} is none of {', '.join(KINDS)}")


def _archive(texts: Mapping[str, bytes]) -> bytes:
    target = BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
        archive.comment = b"0" * COMMENT_BYTES
    before = target.getvalue()[:-COMMENT_BYTES]
    return before + _digest(before).encode()


def _lines(text: bytes) -> list[Any]:
    return [json.loads(line) for line in text.decode().splitlines()]


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=32).hexdigest()
