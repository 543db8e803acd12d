"""seedbed store: looking after the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import WORKSPACE, Seedbed, held, keeps_promise, write

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER_KEY = "IAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
DATABASE = "sqlite:///seedbed.db"


@pytest.fixture
def filled(kept: str, seedbed: Seedbed) -> str:
    """A store with a run and a release; the digest of its playbook."""
    assert seedbed("run", kept, "text=hello").code == 0
    assert seedbed("release", kept, "--to", "production", "--because", "first").code == 0
    return kept


def edit(sql: str) -> None:
    with closing(sqlite3.connect("seedbed.db")) as db, db:
        assert db.execute(sql).rowcount == 1


# verify and stats


def test_a_store_that_nobody_edited_is_clean(filled: str, seedbed: Seedbed) -> None:
    done = seedbed("store", "verify", "--json")
    assert keeps_promise(done.json, "store", "verify")
    assert (done.code, done.json["clean"], done.json["refs"]) == (0, True, 1)
    assert "are exactly as they were written" in seedbed("store", "verify").out


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("UPDATE content SET body = replace(body, 'Sort', 'Buy') WHERE kind = 'playbook'", "does not match its digest"),
        ("UPDATE facts SET body = replace(body, 'first', 'other') WHERE kind = 'move'", "a body that was changed"),
        ("UPDATE facts SET by = 'eve' WHERE kind = 'move'", "does not follow"),
        ("UPDATE refs SET because = 'other'", "as its moves say"),
        ("DELETE FROM content WHERE kind = 'playbook'", "a target that is not there"),
    ],
)
def test_an_edit_behind_its_back_is_found(sql: str, told: str, filled: str, seedbed: Seedbed) -> None:
    edit(sql)
    done = seedbed("store", "verify")
    assert done.code == 1
    assert told in " ".join(done.out.split())
    assert "Restore it from a copy" in done.out
    document = seedbed("store", "verify", "--json").json
    assert keeps_promise(document, "store", "verify")
    assert document["problems"]


def test_a_damaged_playbook_is_told_and_not_run(filled: str, seedbed: Seedbed) -> None:
    edit("UPDATE content SET body = replace(body, 'Sort', 'Sell') WHERE kind = 'playbook'")
    done = seedbed("run", filled, "text=x")
    assert done.code == 1
    assert "is not what was put there" in done.err


EVERYTHING = [
    ("run", "sorter.yaml", "text=x"),
    ("playbook", "list"),
    ("runs", "list"),
    ("channel", "list"),
    ("store", "verify"),
    ("store", "stats"),
    ("store", "gc"),
    ("store", "migrate"),
    ("store", "migrate", "--dry-run"),
    ("store", "copy", DATABASE, "files:copy"),
]


@pytest.mark.parametrize("command", EVERYTHING, ids=" ".join)
def test_a_file_that_is_no_database_is_told(command: tuple[str, ...], space: Path, seedbed: Seedbed) -> None:
    (space / "seedbed.db").write_bytes(b"this is no database" * 1000)
    done = seedbed(*command)
    assert (done.code, done.out) == (1, "")
    assert "file is not a database" in done.err
    assert "Restore it from a copy" in done.err
    assert (space / "seedbed.db").read_bytes() == b"this is no database" * 1000


@pytest.mark.parametrize("command", EVERYTHING, ids=" ".join)
def test_a_folder_in_the_place_of_the_database_is_told(command: tuple[str, ...], space: Path, seedbed: Seedbed) -> None:
    (space / "seedbed.db").mkdir()
    done = seedbed(*command)
    assert (done.code, done.out) == (1, "")
    assert "unable to open database file" in done.err
    assert "Check the path" in done.err


def test_torn_pages_are_told(filled: str, space: Path, seedbed: Seedbed) -> None:
    with closing(sqlite3.connect("seedbed.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray((space / "seedbed.db").read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    (space / "seedbed.db").write_bytes(data)
    for command in (("store", "verify"), ("playbook", "list"), ("run", "sorter.yaml", "text=x")):
        done = seedbed(*command)
        assert done.code == 1
        assert "unexpected" not in done.err
        assert "Restore it from a copy" in done.out + done.err


@pytest.mark.parametrize("store", ["mysql://a:secret-word@b/c", "sqlite://", "nonsense", ""])
def test_a_url_that_is_none_is_told_without_its_password(store: str, space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml="by: ann\nstore: {file: url.txt}\n", url__txt=store)
    for command in (("store", "stats"), ("store", "migrate")):
        done = seedbed(*command)
        assert done.code == 1
        assert "store" in done.err
        assert "unexpected" not in done.err
        assert "secret-word" not in done.err


def test_stats_count_everything(filled: str, seedbed: Seedbed) -> None:
    done = seedbed("store", "stats", "--json")
    assert keeps_promise(done.json, "store", "stats")
    assert done.json == {
        "contents": {"playbook": 1},
        "facts": {"derivation": 1, "move": 1, "run": 1, "start": 1, "turn": 1},
        "refs": 1,
    }
    assert "derivation" in seedbed("store", "stats").out


# copy


def test_a_copy_to_files_and_back_is_the_same_store(filled: str, seedbed: Seedbed) -> None:
    done = seedbed("store", "copy", DATABASE, "files:copy", "--json")
    assert keeps_promise(done.json, "store", "copy")
    assert (done.code, done.json["facts"], done.json["refs"]) == (0, 5, 1)
    assert seedbed("store", "copy", "files:copy", "sqlite:///back.db").code == 0
    assert held("files:copy") == held("sqlite:///back.db") == held()
    assert seedbed("store", "copy", DATABASE, "files:copy").code == 0


def test_a_copy_to_a_server_and_back_is_the_same_store(filled: str, seedbed: Seedbed, postgres_url: str) -> None:
    assert seedbed("store", "copy", DATABASE, postgres_url).code == 0
    assert seedbed("store", "copy", postgres_url, "sqlite:///back.db").code == 0
    assert held(postgres_url) == held("sqlite:///back.db") == held()


def test_no_password_of_a_server_is_printed(space: Path, seedbed: Seedbed, postgres_url: str) -> None:
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}password=top-secret"
    write(space, seedbed__yaml="by: ann\nstore: {file: url.txt}\n", url__txt=url)
    for command in (("migrate",), ("stats",), ("copy", url, "files:copy"), ("copy", "files:copy", url)):
        for form in ((), ("--json",)):
            done = seedbed("store", *command, *form)
            assert done.code == 0
            assert "top-secret" not in done.out + done.err


def test_a_copy_can_be_rehearsed(filled: str, space: Path, seedbed: Seedbed) -> None:
    done = seedbed("store", "copy", DATABASE, "files:copy", "--dry-run")
    assert done.out == "would copy 1 content object, 5 facts, 1 ref\n"
    assert not (space / "copy").exists()


@pytest.mark.parametrize("source", ["sqlite:///absent.db", "files:absent"])
def test_a_copy_of_nothing_is_an_error_and_makes_nothing(source: str, space: Path, seedbed: Seedbed) -> None:
    before = sorted(space.iterdir())
    done = seedbed("store", "copy", source, "files:copy")
    assert done.code == 1
    assert "nothing at absent" in done.err
    assert sorted(space.iterdir()) == before


def test_a_copy_over_another_history_is_refused(filled: str, space: Path, seedbed: Seedbed) -> None:
    write(space, other__yaml=WORKSPACE.replace("seedbed.db", "other.db"))
    seedbed("release", "sorter.yaml", "--to", "production", "--because", "mine", "--workspace", "other.yaml")
    done = seedbed("store", "copy", DATABASE, "sqlite:///other.db")
    assert done.code == 1
    assert "Copy into a new store instead" in done.err


def test_a_sealed_copy_opens_only_with_its_key(
    filled: str, space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "SEEDBED_KEY" in seedbed("store", "copy", DATABASE, "files:sealed", "--seal").err
    monkeypatch.setenv("SEEDBED_KEY", KEY)
    assert seedbed("store", "copy", DATABASE, "files:sealed", "--seal").code == 0
    assert not any(b"Sort [red]" in path.read_bytes() for path in (space / "sealed").rglob("*") if path.is_file())
    assert seedbed("store", "copy", "files:sealed", "sqlite:///back.db", "--unseal").code == 0
    assert held("sqlite:///back.db") == held()
    monkeypatch.setenv("SEEDBED_KEY", OTHER_KEY)
    done = seedbed("store", "copy", "files:sealed", "sqlite:///no.db", "--unseal")
    assert done.code == 1
    assert KEY not in done.err
    assert OTHER_KEY not in done.err


# migrate, gc, rotate


def test_migrate_goes_back_and_forth_and_loses_nothing(filled: str, seedbed: Seedbed) -> None:
    before = held()
    rehearsed = seedbed("store", "migrate", "--to", "1", "--dry-run", "--json").json
    assert (rehearsed["before"], rehearsed["after"], rehearsed["dry_run"]) == (4, 1, True)
    assert seedbed("store", "migrate", "--json").json["steps"] == []
    down = seedbed("store", "migrate", "--to", "1", "--json")
    assert keeps_promise(down.json, "store", "migrate")
    assert down.json["steps"] == ["m004_commitments", "m003_views", "m002_search"]
    assert "ran upgrade steps: m002_search, m003_views, m004_commitments" in seedbed("store", "migrate").out
    assert held() == before


@pytest.mark.parametrize("form", [(), ("--dry-run",)])
def test_a_version_that_does_not_exist_is_told(form: tuple[str, ...], filled: str, seedbed: Seedbed) -> None:
    done = seedbed("store", "migrate", "--to", "99", *form)
    assert done.code == 1
    assert "found schema version 99" in done.err


def test_a_store_of_a_newer_seedbed_is_left_alone(filled: str, seedbed: Seedbed) -> None:
    edit("INSERT INTO migrations (number, name, at) VALUES (99, 'm099_future', 0)")
    for command in (("playbook", "list"), ("store", "verify"), ("store", "migrate")):
        done = seedbed(*command)
        assert done.code == 1
        assert "Upgrade seedbed" in done.err


def test_gc_discards_only_what_nothing_mentions(filled: str, space: Path, seedbed: Seedbed) -> None:
    from seedbed.storage import open_store

    with closing(open_store(DATABASE)) as store:
        forgotten = store.put("note", {"text": "nobody mentions me"})
    before = held()
    rehearsed = seedbed("store", "gc", "--dry-run", "--json")
    assert rehearsed.json == {"discarded": [{"digest": forgotten, "kind": "note"}], "dry_run": True}
    assert held() == before
    done = seedbed("store", "gc", "--json")
    assert keeps_promise(done.json, "store", "gc")
    assert [content.digest for content in held()[0]] == [filled]
    assert seedbed("store", "gc").out == "nothing to discard\n"


def test_a_key_is_rotated_only_for_real(space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch) -> None:
    write(space, seedbed__yaml=f"encrypted: true\n{WORKSPACE}")
    monkeypatch.setenv("SEEDBED_KEY", KEY)
    assert seedbed("playbook", "keep", "sorter.yaml", "--because", "test").code == 0
    assert "SEEDBED_NEW_KEY" in seedbed("store", "rotate").err
    monkeypatch.setenv("SEEDBED_NEW_KEY", OTHER_KEY)
    rehearsed = seedbed("store", "rotate", "--dry-run", "--json")
    assert (rehearsed.code, rehearsed.json) == (0, {"rotated": False, "dry_run": True})
    assert seedbed("playbook", "list").code == 0
    done = seedbed("store", "rotate", "--json")
    assert keeps_promise(done.json, "store", "rotate")
    refused = seedbed("playbook", "list")
    assert refused.code == 1
    assert KEY not in refused.err
    monkeypatch.setenv("SEEDBED_KEY", OTHER_KEY)
    assert len(seedbed("playbook", "list", "--json").json["playbooks"]) == 1


def test_a_store_that_is_not_encrypted_has_no_key_to_rotate(
    filled: str, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDBED_NEW_KEY", OTHER_KEY)
    done = seedbed("store", "rotate")
    assert done.code == 1
    assert "store copy … --seal" in done.err
