"""FilesStore beyond the contract: what lies in the folder, what damage it notices, what a crash leaves behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import StoreDamaged, StoreError, StoreTooNew
from seedbed.storage.files import FilesStore
from seedbed.storage.store import Content, Fact, Query
from seedbed.storage.upkeep import verify

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def fact(key: str, kind: str = "cell", **changes: Any) -> Fact:
    told: dict[str, Any] = {"subject": "thing", "at": NOON, "by": "ann"} | changes
    return Fact(kind=kind, key=key, **told)


def keys(store: FilesStore, kind: str = "cell") -> list[str]:
    return [told.key for told in store.facts(Query(kind=kind))]


def move(store: FilesStore, name: str, to: str | None) -> None:
    store.move(name, to, expected=store.ref(name), because="test", by="ann")


def listing(folder: Path) -> dict[str, str]:
    """Every file that matters, with its text."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", "new.tmp"))
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files if path.stat().st_size}


@pytest.fixture
def store(tmp_path: Path) -> FilesStore:
    return FilesStore(tmp_path, clock=lambda: NOON)


def test_a_folder_reads_like_a_book(store: FilesStore, tmp_path: Path) -> None:
    name = store.put("playbook", {"roles": {"writer": {"system": "Schreib über Bäume 🌳"}}, "a": 1.0})
    store.append([fact("a", value=0.5, tags=("x",))])
    move(store, "branches/main", name)
    [cell], [moved] = store.facts(Query(kind="cell")), store.facts(Query(kind="move"))
    assert listing(tmp_path) == {
        ".gitignore": ".lock\npending.json\nnew.tmp\n",
        "format.json": '{\n  "format": 2\n}\n',
        f"content/playbook/{name[3:]}.json": """{
  "a": 1,
  "roles": {
    "writer": {
      "system": "Schreib über Bäume 🌳"
    }
  }
}
""",
        "facts/cell.jsonl": '{"at":"2026-11-15T12:00:00+00:00","by":"ann",'
        f'"commitment":"{cell.commitment}","key":"a","link":"{cell.link}","number":1,"salt":"{cell.salt}",'
        '"subject":"thing","tags":["x"],"value":0.5}\n',
        "facts/move.jsonl": '{"at":"2026-11-15T12:00:00+00:00","body":{"because":"test","from":null,'
        f'"to":"{name}"}},"by":"ann","commitment":"{moved.commitment}","key":"branches/main@1",'
        f'"link":"{verify(store).head}","number":2,"salt":"{moved.salt}","subject":"branches/main"}}\n',
        "refs/branches/main.json": f"""{{
  "at": "2026-11-15T12:00:00+00:00",
  "because": "test",
  "by": "ann",
  "name": "branches/main",
  "target": "{name}",
  "version": 1
}}
""",
    }


def test_a_newer_format_is_refused(store: FilesStore, tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 3}')
    with pytest.raises(StoreTooNew, match=r"found format 3; expected at most 2\. Install a newer seedbed"):
        FilesStore(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "one"}', "\udc80"])
def test_an_unreadable_format_is_damage(store: FilesStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "format.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StoreDamaged, match=r"format\.json"):
        FilesStore(tmp_path)


def test_a_place_that_cannot_be_a_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError, match="expected a folder that can be read and written"):
        FilesStore(tmp_path / "taken")
    with pytest.raises(StoreError, match="expected a folder that can be read and written"):
        FilesStore(tmp_path / "taken" / "below")


WRONG_NAMES = ["..", "../x", "a/../b", "/etc/x", "a//b", "a/", "/", "a\\b", "a:b", "a*", "a?", 'a"', "a|b", "<a>"]
WRONG_NAMES += [".", "./a", ".git/x", "a ", " a", "a.", "a\nb", "a\x7f", "a.json/b", "x" * 101]


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_ref_that_cannot_be_a_file_is_refused(store: FilesStore, tmp_path: Path, name: str) -> None:
    before = listing(tmp_path)
    with pytest.raises(StoreError, match="expected words joined by slashes"):
        store.move(name, "x", expected=None, because="test", by="ann")
    with pytest.raises(StoreError, match="expected words joined by slashes"):
        store.ref(name)
    told = fact(f"{name}@1", "move", subject=name, body={"to": "x", "from": None, "because": "y"})
    with pytest.raises(StoreError, match="expected words joined by slashes"):
        store.load([Content("note", "b2:" + "0" * 64, {})], [fact("fine"), told])
    assert listing(tmp_path) == before


@pytest.mark.parametrize("kind", ["..", "a/b", "a b", "", "ä", "a.b", "-a", "x" * 65, "a\n"])
def test_a_kind_that_is_not_a_word_is_refused(store: FilesStore, tmp_path: Path, kind: str) -> None:
    before = listing(tmp_path)
    with pytest.raises(StoreError, match="expected one word"):
        store.put(kind, {})
    if kind:
        with pytest.raises(StoreError, match="expected one word"):
            store.append([fact("fine"), fact("a", kind)])
        with pytest.raises(StoreError, match="expected one word"):
            list(store.contents(kind))
    assert listing(tmp_path) == before


def test_content_is_loaded_under_a_digest_only(store: FilesStore) -> None:
    with pytest.raises(StoreError, match="expected a digest"):
        store.load([Content("note", "../../x", {})], [])


def test_handles_see_what_the_others_wrote(store: FilesStore, tmp_path: Path) -> None:
    other = FilesStore(tmp_path)
    for n in range(3):
        store.append([fact(f"a{n}"), fact(f"{n}", f"kind{n}")])
        assert other.append([fact(f"a{n}"), fact(f"b{n}")]) == 1
    assert keys(store) == keys(other) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert verify(store).problems == ()


def test_going_back_to_an_earlier_commit_is_noticed(store: FilesStore, tmp_path: Path) -> None:
    store.append([fact("a"), fact("b")])
    earlier = (tmp_path / "facts/cell.jsonl").read_bytes()
    store.append([fact("c")])
    (tmp_path / "facts/cell.jsonl").write_bytes(earlier)
    assert keys(store) == ["a", "b"]
    (tmp_path / "facts/cell.jsonl").unlink()
    assert keys(store) == []
    assert store.append([fact("c")]) == 1


WHOLE = '{"at":"2026-11-15T12:00:00+00:00","by":"ann","key":"d","number":4,"subject":"thing"'


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        '"text"',
        WHOLE,
        WHOLE[:-8] + "}",
        WHOLE.replace('"d"', '"a"') + "}",
        WHOLE.replace('"d"', "5") + "}",
        WHOLE.replace("4", "3") + "}",
        WHOLE.replace("4", '"4"') + "}",
        WHOLE.replace("+00:00", "") + "}",
        WHOLE.replace("2026", "year") + "}",
        WHOLE + ',"surprise":1}',
        WHOLE + ',"kind":"cell"}',
        WHOLE + ',"body":[]}',
        WHOLE + ',"body":{"n":NaN}}',
        WHOLE + ',"value":Infinity}',
        WHOLE + ',"tags":[1]}',
        WHOLE.replace("T12", " 12") + "}",
        WHOLE + ',"tags":[]}',
        " " + WHOLE + "}",
        "<<<<<<< HEAD",
        "\udcff",
    ],
)
@pytest.mark.parametrize("fresh", [True, False])
def test_a_damaged_line_is_named(store: FilesStore, tmp_path: Path, line: str, fresh: bool) -> None:
    store.append([fact("a"), fact("b"), fact("c")])
    with (tmp_path / "facts/cell.jsonl").open("ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n")
    reader = FilesStore(tmp_path) if fresh else store
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=r"facts/cell\.jsonl, line 4: found .*; expected one whole fact"):
            keys(reader)
    with pytest.raises(StoreDamaged, match="line 4"):
        reader.append([fact("e")])
    [problem] = verify(reader).problems
    assert "cell.jsonl, line 4" in str(problem)


def test_a_last_line_without_its_end_is_named(store: FilesStore, tmp_path: Path) -> None:
    store.append([fact("a")])
    path = tmp_path / "facts/cell.jsonl"
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    with pytest.raises(StoreDamaged, match=r"line 1: .*its text was changed"):
        keys(store)


def test_a_damaged_move_is_named(store: FilesStore, tmp_path: Path) -> None:
    move(store, "main", "one")
    path = tmp_path / "facts/move.jsonl"
    path.write_text(path.read_text().replace('"because":"test"', '"cause":"test"'))
    with pytest.raises(StoreDamaged, match=r"move\.jsonl, line 1"):
        FilesStore(tmp_path).kinds()


@pytest.mark.parametrize("text", ["{", "[]", "", '{"a": 2}', '{"a": NaN}'])
def test_an_edited_document_is_named(store: FilesStore, tmp_path: Path, text: str) -> None:
    name = store.put("note", {"a": 1})
    (tmp_path / "content" / "note" / f"{name[3:]}.json").write_text(text)
    with pytest.raises(StoreDamaged, match=name[3:]):
        store.get(name)
    [problem] = verify(store).problems
    assert name[3:] in str(problem)


@pytest.mark.parametrize("text", ["{", "{}", '{"name": "main"}', None])
def test_an_unreadable_ref_is_named(store: FilesStore, tmp_path: Path, text: str | None) -> None:
    move(store, "main", "one")
    path = tmp_path / "refs" / "main.json"
    path.write_text(path.read_text().replace('"main"', '"other"') if text is None else text)
    for read in (lambda: store.ref("main"), store.refs, lambda: move(store, "main", "two")):
        with pytest.raises(StoreDamaged, match=r"main\.json"):
            read()
    [problem] = verify(store).problems
    assert "main.json" in str(problem)


def test_a_ref_edited_by_hand_is_found_and_not_moved(store: FilesStore, tmp_path: Path) -> None:
    move(store, "main", "one")
    path = tmp_path / "refs" / "main.json"
    path.write_text(path.read_text().replace("one", "two"))
    [problem] = verify(store).problems
    expected = 'ref main: found version 1 to "two" by ann; expected version 1 to "one" by ann, as its moves say'
    assert str(problem).startswith(expected)
    with pytest.raises(StoreDamaged, match="differs from its last move"):
        move(store, "main", "three")
    path.unlink()
    assert len(verify(store).problems) == 1
    with pytest.raises(StoreDamaged, match="differs from its last move"):
        move(store, "main", "three")


def test_a_journal_cannot_reach_outside_the_folder(store: FilesStore, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    FilesStore(inside)
    (inside / "pending.json").write_text(json.dumps({"facts": {}, "refs": {"../../planted": "text"}}))
    with pytest.raises(StoreError, match="expected words joined by slashes"):
        FilesStore(inside)
    assert not (tmp_path / "planted.json").exists()


WRITER = """
import os, resource, signal, sys
from datetime import UTC, datetime
from seedbed.errors import StoreError
from seedbed.storage.files import FilesStore
from seedbed.storage.store import Fact

def fact(key, kind):
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    return Fact(kind=kind, key=key, subject="thing", at=noon, by="ann", body={"x": "y" * 99})

def write(store):
    if sys.argv[2] == "append":
        store.append(fact(f"new{n}", ("cell", "turn", "approval")[n % 3]) for n in range(60))
    elif sys.argv[2] == "remove":
        store.move("main", None, expected=store.ref("main"), because="new", by="bob")
    else:
        store.move(sys.argv[2], "new", expected=store.ref(sys.argv[2]), because="new", by="bob")
"""

# One process imports all this, and its children die: the first at its first call, in the first folder, and so on.
DIES_AT_CALL = """
calls = 0
def dying(call, at):
    def counted(*args, **options):
        global calls
        calls += 1
        if calls == at:
            os._exit(9)
        return call(*args, **options)
    return counted

for step in range(1, int(sys.argv[3]) + 1):
    child = os.fork()
    if not child:
        store = FilesStore(f"{sys.argv[1]}/{step}")
        for name in ("fsync", "replace", "rename", "unlink", "mkdir", "utime"):
            setattr(os, name, dying(getattr(os, name), step))
        write(store)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, flush=True)
    if code != 9:
        break
"""

OUTGROWS_LIMIT = """
store = FilesStore(sys.argv[1])
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
write(store)
"""

FULL_DISK = """
store = FilesStore(sys.argv[1])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), hard))
try:
    write(store)
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
write(store)
"""


def written_by(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WRITER + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("action", ["append", "main", "branches/new", "remove"])
def test_a_writer_that_dies_at_any_step_has_written_all_or_nothing(tmp_path: Path, action: str) -> None:
    store = FilesStore(tmp_path / "1", clock=lambda: NOON)
    store.append([fact("old"), fact("old", "approval")])
    move(store, "main", "old")
    before, stores = listing(tmp_path / "1"), [store]
    for step in range(2, 41):
        shutil.copytree(tmp_path / "1", tmp_path / f"{step}")
        stores.append(FilesStore(tmp_path / f"{step}", clock=lambda: NOON))
    died = written_by(DIES_AT_CALL, tmp_path, action, len(stores))
    *codes, last = died.stdout.split()
    assert (set(codes), last) == ({"9"}, "0"), died.stderr
    outcomes = []
    for step, store in enumerate(stores[: len(codes)], 1):
        folder = tmp_path / f"{step}"
        assert verify(store).problems == verify(FilesStore(folder)).problems == ()
        outcomes.append(listing(folder) == before)
        assert outcomes[-1] or len(keys(store)) == 21 or store.ref(action) or not store.ref("main")
        assert store.append([fact("next")]) == 1
    # Until the journal is gone everything is undone; from then on it is all there.
    assert outcomes == sorted(outcomes, reverse=True)
    assert outcomes.count(True) >= 8
    assert outcomes.count(False) == 1


@pytest.mark.parametrize("limit", [1000, 1001, 2500, 4000])
def test_a_writer_killed_within_a_line_has_written_nothing(store: FilesStore, tmp_path: Path, limit: int) -> None:
    store.append([fact("old")])
    before = listing(tmp_path)
    killed = written_by(OUTGROWS_LIMIT, tmp_path, "append", limit)
    assert killed.returncode == -signal.SIGXFSZ, killed.stderr
    assert (tmp_path / "facts/cell.jsonl").stat().st_size == limit
    assert keys(store) == ["old"]
    assert listing(tmp_path) == before


def test_a_full_disk_is_explained_and_undone(store: FilesStore, tmp_path: Path) -> None:
    store.append([fact("old")])
    wrote = written_by(FULL_DISK, tmp_path, "append", 2500)
    assert wrote.returncode == 0, wrote.stderr
    assert "File too large; expected a folder that can be read and written, with space left" in wrote.stdout
    assert store.kinds() == {"approval": 20, "cell": 21, "turn": 20}
    assert verify(store).problems == ()
