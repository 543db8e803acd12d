"""What somebody did to a store behind our back: verify names all of it, and a copy does not carry it on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import StoreDamaged
from seedbed.storage.files import FilesStore
from seedbed.storage.memory import MemoryStore
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import UpkeptStore
from seedbed.storage.upkeep import copy, verify
from seedbed.testing import everything, fact, move

GONE = "b2:" + "0" * 64


def edit(store: SqlStore, statement: str, **given: Any) -> None:
    with store._database.connect() as db:
        db.execute(statement, given)


def found(store: UpkeptStore) -> list[str]:
    return [problem.path for problem in verify(store).problems]


@pytest.fixture
def judged(sql_store: SqlStore) -> SqlStore:
    """A store of three trials and three verdicts, with the content they speak of."""
    dataset, experiment = sql_store.put("dataset", {"tasks": []}), sql_store.put("experiment", {"rule": {}})
    for n in range(3):
        told = {"dataset": dataset, "experiment": experiment, "finding": "worse"}
        sql_store.append([fact(f"t{n}", "trial", body={"dataset": dataset}), fact(f"v{n}", "verdict", body=told)])
    assert verify(sql_store).problems == ()
    return sql_store


@pytest.mark.parametrize("kind", ["verdict", "trial"])
@pytest.mark.parametrize(
    "change",
    [
        """UPDATE facts SET body = '{"finding":"better"}' WHERE key = :key""",
        "UPDATE facts SET value = 1 WHERE key = :key",
        "UPDATE facts SET by = 'eve' WHERE key = :key",
        "UPDATE facts SET link = NULL WHERE key = :key",
        "DELETE FROM facts WHERE key = :key",
        "INSERT INTO facts (kind, key, subject, at, by, body) SELECT kind, 'forged', subject, at, by, body FROM facts"
        " WHERE key = :key",
    ],
)
def test_a_verdict_or_trial_edited_removed_or_slipped_in_is_found(judged: SqlStore, kind: str, change: str) -> None:
    edit(judged, change, key=f"{kind[0]}1")
    assert found(judged)


def test_a_cut_off_verdict_shows_in_the_head(judged: SqlStore) -> None:
    head = verify(judged).head
    edit(judged, "DELETE FROM facts WHERE key = 'v2'")
    assert verify(judged).head != head


def test_a_verdict_or_trial_about_content_that_is_not_there_is_found(judged: SqlStore) -> None:
    told = {"dataset": GONE, "experiment": GONE[:-1] + "1"}
    judged.append([fact("t", "trial", body={"dataset": GONE}), fact("v", "verdict", body=told)])
    assert sorted((problem.path, problem.found) for problem in verify(judged).problems) == [
        ("trial fact t", "a dataset that is not there, 0000000000"),
        ("verdict fact v", "a dataset that is not there, 0000000000"),
        ("verdict fact v", "an experiment that is not there, 0000000000"),
    ]


def test_everything_unreadable_is_listed_and_the_rest_is_still_checked(sql_store: SqlStore) -> None:
    names = [sql_store.put("note", {"n": n}) for n in range(5)]
    for n, name in enumerate(names):
        move(sql_store, f"notes/{n}", name)
        sql_store.append([fact(f"{n}")])
    for n in (1, 3):
        edit(sql_store, "UPDATE content SET body = '{' WHERE digest = :name", name=names[n])
        edit(sql_store, "UPDATE facts SET body = '{' WHERE kind = 'cell' AND key = :key", key=f"{n}")
        edit(sql_store, "UPDATE refs SET target = '{' WHERE name = :name", name=f"notes/{n}")
    edit(sql_store, "UPDATE content SET body = '{}' WHERE digest = :name", name=names[4])
    edit(sql_store, "UPDATE refs SET target = '\"elsewhere\"' WHERE name = 'notes/4'")
    edit(sql_store, "UPDATE facts SET by = 'eve' WHERE key = 'notes/2@1'")
    said = "\n".join(map(str, verify(sql_store).problems))
    for n in (1, 3):
        assert all(named in said for named in (names[n][3:13], f'cell fact "{n}"', f"notes/{n}"))
    assert all(named in said for named in (f"note {names[4]}", "ref notes/4", "move fact notes/2@1"))
    assert "is not there" not in said


@pytest.mark.parametrize(("column", "odd"), [("at", "noon"), ("body", 7), ("tags", 7), ("key", ""), ("at", 2**62)])
def test_values_that_no_store_writes_are_named(tmp_path: Path, column: str, odd: Any) -> None:
    with closing(SqlStore(f"sqlite:///{tmp_path}/x.db")) as store:
        store.append([fact("a"), fact("b")])
        edit(store, f"UPDATE facts SET {column} = :odd WHERE key = 'a'", odd=odd)
        edit(store, "UPDATE facts SET parents = '{' WHERE key = 'b'")
        assert ["cell fact" in str(problem) for problem in verify(store).problems] == [True, True]


def test_text_that_is_no_text_is_damage(tmp_path: Path) -> None:
    with closing(SqlStore(f"sqlite:///{tmp_path}/x.db")) as store:
        store.append([fact("a", body={"said": "yes"})])
        edit(store, "UPDATE facts SET body = CAST(X'7BFF7D' AS TEXT)")
        [problem] = verify(store).problems
        assert "x.db: Could not decode to UTF-8" in str(problem)


def test_every_unreadable_file_and_line_of_a_folder_is_listed(tmp_path: Path) -> None:
    store = FilesStore(tmp_path)
    names = [store.put("note", {"n": n}) for n in range(4)]
    store.append([fact(f"{n}", kind) for n in range(4) for kind in ("cell", "turn")])
    for name in names[1:3]:
        (tmp_path / f"content/note/{name[3:]}.json").write_text("{")
    for kind in ("cell", "turn"):
        lines = (tmp_path / f"facts/{kind}.jsonl").read_text().splitlines(keepends=True)
        (tmp_path / f"facts/{kind}.jsonl").write_text("".join([lines[0], "?\n", lines[2], "?\n"]))
    problems = list(map(str, verify(FilesStore(tmp_path)).problems))
    named = [name[3:] for name in names[1:3]] + [f"{k}.jsonl, line {n}" for k in ("cell", "turn") for n in (2, 4)]
    assert len(problems) == len(named)
    assert all(any(name in problem for problem in problems) for name in named)


# copy


@pytest.mark.parametrize("body", ['{"n":7}', "{"])
def test_damaged_content_is_not_copied_nor_what_comes_with_it(sql_store: SqlStore, body: str) -> None:
    names = [sql_store.put("note", {"n": n}) for n in range(1500)]
    edit(sql_store, "UPDATE content SET body = :body WHERE digest = :name", body=body, name=names[1200])
    target = MemoryStore()
    with pytest.raises(StoreDamaged, match=f"note {names[1200][3:13]}"):
        copy(sql_store, target)
    assert [content.digest for content in target.contents()] == names[:1000]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE facts SET by = 'eve' WHERE key = 'v1'", "verdict fact v1"),
        ("DELETE FROM facts WHERE key = 'v1'", "trial fact t2"),
        ("UPDATE facts SET body = '{' WHERE key = 'v1'", 'verdict fact "v1"'),
    ],
)
def test_a_broken_chain_is_not_copied(judged: SqlStore, change: str, named: str) -> None:
    edit(judged, change)
    target = MemoryStore()
    with pytest.raises(StoreDamaged, match=named):
        copy(judged, target)
    assert target.kinds() == {}


def test_a_whole_store_is_copied_with_its_verdicts_and_trials_and_chained_on(judged: SqlStore) -> None:
    target = MemoryStore()
    copy(judged, target)
    assert everything(target) == everything(judged)
    judged.append([fact("later", "verdict")])
    copy(judged, target)
    assert verify(target).problems == ()
    assert verify(target).head == verify(judged).head
