"""FilesStore: plain JSON in folders, which people can read and commit to git.

format.json               the version of this layout
content/KIND/DIGEST.json  one document each
facts/KIND.jsonl          one fact per line, in order
refs/NAME.json            where each ref points
pending.json              how to undo a batch, only while it is written
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock

from seedbed.errors import NotFound, StoreDamaged, StoreError, StoreTooNew, shown
from seedbed.files import private
from seedbed.storage.content import words_of
from seedbed.storage.json_lines import fact_from, line_of, plain_of, ref_from
from seedbed.storage.memory import Facts
from seedbed.storage.paths import make, missing, read_json, shared, sync, to_readable_json, writable
from seedbed.storage.store import (
    BriefFact,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    RefMove,
    Target,
    canonical,
    check_facts,
    digest,
    now,
    ref_after,
    short,
)

FORMAT = 2
"""1 had no commitments."""


class FilesStore:
    """A store in a folder, shared by any number of processes on one machine.

    Every batch is written whole; after a crash the next process undoes a partial one. All facts are indexed in memory,
    so it suits thousands of them rather than millions.
    """

    def __init__(self, folder: str | Path, clock: Callable[[], datetime] = now, *, create: bool = True) -> None:
        """Raises NotFound if there is none and `create` is false. A folder that we may not write to can be read."""
        self._folder = Path(folder)
        self._clock = clock
        self._threads = threading.Lock()
        with _explain_errors(self._folder):
            if not create and not (self._folder / "format.json").exists():
                raise missing(self._folder)
            self._folder.mkdir(parents=True, exist_ok=True)
        self._writable = writable(self._folder)
        self._lock = FileLock(self._folder / ".lock", mode=0o600, thread_local=False, poll_interval=0.005)
        self._journal = self._folder / "pending.json"
        self._facts = Facts()
        self._lengths: dict[str, int] = {}
        with self._locked():
            self._check_format()

    def put(self, kind: str, body: Json) -> Digest:
        name = digest(kind, body)
        with self._locked():
            self._save(Content(kind, name, body))
        return name

    def get(self, digest: Digest) -> Json:
        content = self._content(digest)
        if content is None:
            raise NotFound(f"no content {shown(digest)}; expected a full digest. List what is there, or put it first")
        if not content.intact:
            path = self._content_path(content.kind, digest)
            raise StoreDamaged(f"{path}: {content.kind} {short(digest)} is not what was put there. Restore the file")
        return content.body

    def append(self, facts: Iterable[Fact]) -> int:
        batch = check_facts(facts)
        with self._locked():
            self._catch_up()
            fresh = self._facts.fresh(batch)
            self._commit(fresh)
        return len(fresh)

    def facts(self, query: Query) -> Iterator[Fact]:
        with self._locked():
            self._catch_up()
            return self._facts.find(query, self._words)

    def brief(self, query: Query) -> Iterator[BriefFact]:
        with self._locked():
            self._catch_up()
            return self._facts.brief(query, self._words)

    def ref(self, name: str) -> Ref | None:
        with self._locked():
            return self._read_ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        folder = self._folder / "refs"
        with self._locked():
            names = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.json")]
            return [ref for name in sorted(names) if name.startswith(prefix) and (ref := self._read_ref(name))]

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        move = RefMove(name=name, to=to, expected=expected, because=because, by=by)
        with self._locked():
            self._catch_up()
            current = self._read_ref(name)
            if current != self._facts.ref(name):
                raise StoreDamaged(f"{self._ref_path(name)} differs from its last move. Restore the file")
            ref, fact = move.apply(current, self._facts.version(name), self._clock())
            self._commit(self._facts.fresh([fact]))
            return ref

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        with self._locked():
            paths = self._folder.glob(f"content/{_word(kind) if kind else '*'}/*.json")
            by_age = sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))
        return filter(None, map(self._read_content, by_age))

    def kinds(self) -> dict[str, int]:
        with self._locked():
            self._catch_up()
            return self._facts.kinds()

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        items, batch = list(contents), list(facts)
        with self._locked():
            self._catch_up()
            self._commit(self._facts.fresh(batch, linked=True), items)

    def discard(self, digests: Iterable[Digest]) -> int:
        with self._locked():
            paths = [path for path in map(self._path_of, digests) if path]
            for path in paths:
                path.unlink()
                sync(path.parent)
        return len(paths)

    def close(self) -> None:
        """Nothing to close: the lock is held only within calls."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder, and undo a batch that a crash left behind."""
        lock = self._lock if self._writable else shared(self._folder / ".lock")
        with _explain_errors(self._folder), self._threads, lock:
            self._roll_back()
            yield

    def _check_format(self) -> None:
        path = self._folder / "format.json"
        if not path.exists():
            self._write(self._folder / ".gitignore", ".lock\npending.json\nnew.tmp\n")
            self._write(path, to_readable_json({"format": FORMAT}))
        version = read_json(path).get("format")
        if not isinstance(version, int):
            raise StoreDamaged(f"{path}: found {shown(version)}; expected the number of a format. Restore the file")
        if version > FORMAT:
            raise StoreTooNew(f"{path}: found format {version}; expected at most {FORMAT}. Install a newer seedbed")
        if version < FORMAT and self._writable:
            self._write(path, to_readable_json({"format": FORMAT}))

    def _catch_up(self) -> None:
        """Read the lines that others appended; read all again if lines have gone (another git commit)."""
        lengths = {path.stem: path.stat().st_size for path in self._folder.glob("facts/*.jsonl")}
        if lengths == self._lengths:
            return
        if any(lengths.get(kind, 0) < length for kind, length in self._lengths.items()):
            self._facts, self._lengths = Facts(), {}
        damaged: list[str] = []
        appended = [fact for kind in lengths for fact in self._read_lines(kind, damaged)]
        if damaged:
            raise StoreDamaged("\n".join(damaged))
        self._facts.add(sorted(appended, key=lambda fact: fact.number))
        self._lengths = lengths

    def _read_lines(self, kind: str, damaged: list[str]) -> Iterator[Fact]:
        """The facts appended since the last read; lines that are not whole facts are added to `damaged`."""
        path, last, keys = self._lines_path(kind), self._facts.last(kind), set()
        with path.open("rb") as file:
            file.seek(self._lengths.get(kind, 0))
            for place, line in enumerate(file, self._facts.kinds().get(kind, 0) + 1):
                try:
                    fact = fact_from(kind, line)
                    if fact.key in keys or self._facts.knows(kind, fact.key):
                        raise ValueError("its key is on an earlier line too")
                    if fact.number <= last:
                        raise ValueError("its number is not above the one before")
                except (ValueError, KeyError, TypeError, AttributeError, StoreError) as error:
                    damaged.append(
                        f"{path}, line {place}: found {shown(line.decode(errors='replace'))}; expected one whole fact "
                        f"({error}). Restore the line from a copy of the store"
                    )
                    continue
                last = fact.number
                keys.add(fact.key)
                yield fact

    def _commit(self, fresh: list[Fact], contents: Iterable[Content] = ()) -> None:
        """Add facts, and the refs that follow from their moves: all, or none after a crash."""
        lines: dict[str, bytearray] = {}
        for fact in fresh:
            lines.setdefault(_word(fact.kind), bytearray()).extend(line_of(fact))
        refs = {fact.subject: ref_after(fact) for fact in fresh if fact.kind == "move"}
        lengths = {kind: self._lengths.get(kind, 0) for kind in lines}
        paths = {name: self._ref_path(name) for name in refs}
        texts = {name: path.read_text("utf-8") if path.exists() else None for name, path in paths.items()}
        for content in contents:
            self._save(content)
        if not fresh:
            return
        self._write(self._journal, to_readable_json({"facts": lengths, "refs": texts}))
        try:
            for kind, added in lines.items():
                self._extend(self._lines_path(kind), added)
            for name, ref in refs.items():
                self._set(paths[name], to_readable_json(plain_of(ref)) if ref.target else None)
            self._set(self._journal, None)
        except BaseException:
            self._roll_back()
            raise
        self._facts.add(fresh)
        self._lengths |= {kind: lengths[kind] + len(added) for kind, added in lines.items()}

    def _roll_back(self) -> None:
        """Undo the batch of a writer that crashed."""
        if not self._journal.exists():
            return
        undo = read_json(self._journal)
        for kind, length in undo.get("facts", {}).items():
            if (path := self._lines_path(kind)).exists():
                with path.open("r+b") as file:
                    file.truncate(length)
                    os.fsync(file.fileno())
        for name, text in undo.get("refs", {}).items():
            self._set(self._ref_path(name), text)
        self._set(self._journal, None)

    def _save(self, content: Content) -> None:
        path = self._content_path(content.kind, content.digest)
        if not path.exists():
            self._write(path, to_readable_json(json.loads(canonical(content.body))))

    def _write(self, path: Path, text: str) -> None:
        """Write a file atomically. One temporary name is enough, as we hold the lock."""
        make(path.parent)
        new = self._folder / "new.tmp"
        with open(new, "w", encoding="utf-8", newline="\n", opener=private) as file:
            file.write(text)
            file.flush()
            # The kernel's own timestamps are too coarse to order two documents.
            os.utime(new, ns=(time.time_ns(), time.time_ns()))
            os.fsync(file.fileno())
        new.replace(path)
        sync(path.parent)

    def _set(self, path: Path, text: str | None) -> None:
        """Write a file with this text, or delete it if the text is None."""
        if text is not None:
            self._write(path, text)
        elif path.exists():
            path.unlink()
            sync(path.parent)

    def _extend(self, path: Path, added: bytes | bytearray) -> None:
        make(path.parent)
        with open(path, "ab", opener=private) as file:
            file.write(added)
            file.flush()
            os.fsync(file.fileno())
        sync(path.parent)

    def _read_ref(self, name: str) -> Ref | None:
        path = self._ref_path(name)
        if not path.exists():
            return None
        try:
            ref = ref_from(read_json(path))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{path}: found {error}; expected a whole ref. Restore the file") from error
        if ref.name != name:
            raise StoreDamaged(f"{path}: found the ref {shown(ref.name)}; expected {name}. Restore the file")
        return ref

    def _content(self, name: Digest) -> Content | None:
        with _explain_errors(self._folder):
            path = self._path_of(name)
        return self._read_content(path) if path else None

    def _read_content(self, path: Path) -> Content | None:
        """The content in a file; None if it was deleted meanwhile."""
        with _explain_errors(self._folder):
            try:
                return Content(path.parent.name, f"b2:{path.stem}", read_json(path))
            except FileNotFoundError:
                return None

    def _words(self, subject: str) -> list[str]:
        content = self._content(subject)
        return words_of(content.body) if content else []

    def _path_of(self, name: Digest) -> Path | None:
        if not _DIGEST.fullmatch(name):
            return None
        return next(self._folder.glob(f"content/*/{name[3:]}.json"), None)

    def _content_path(self, kind: str, name: Digest) -> Path:
        if not _DIGEST.fullmatch(name):
            raise StoreError(f"found {shown(name)}; expected a digest: b2: and 64 hexadecimal digits")
        return self._folder / "content" / _word(kind) / f"{name[3:]}.json"

    def _lines_path(self, kind: str) -> Path:
        return self._folder / "facts" / f"{_word(kind)}.jsonl"

    def _ref_path(self, name: str) -> Path:
        for part in name.split("/"):
            if not _PART.fullmatch(part) or part[0] in ". " or part[-1] in ". " or part.endswith(".json"):
                raise StoreError(
                    f"found the ref name {shown(name)}; expected words joined by slashes that can be file names, "
                    'such as channels/production, without .. and without any of <>:"\\|?*'
                )
        return self._folder / "refs" / f"{name}.json"


_DIGEST = re.compile(r"b2:[0-9a-f]{64}")
_PART = re.compile(r'[^\x00-\x1f\x7f<>:"/\\|?*]{1,100}')


def _word(kind: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", kind):
        raise StoreError(f"found the kind {shown(kind)}; expected one word of letters, digits, - and _")
    return kind


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{folder}: {error}; expected a folder that can be read and written, with space left"
        ) from error
