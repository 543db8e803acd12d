"""Today's code opens, verifies and continues what seedbed 0.1.0 stored in November 2026.

The tests only type commands and read tables, so they do not depend on how the code is divided into modules.
tests/fixtures/store-2026-11/README.md says what the store holds and how it was made.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seedbed.cli.main import main

FIXTURE = Path(__file__).parents[1] / "fixtures/store-2026-11"
EXPECTED: dict[str, Any] = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))
ENDS = {"low", "high", "estimate_low", "estimate_high"}
SEALED_WITH = "YW5vdGhlciBmaXh0dXJlIGtleSBub3Qgc2VjcmV0ISE="
"""The key of the encrypted store; it protects nothing."""


@dataclass(frozen=True)
class OldStore:
    """A workspace of its own, with a copy of the old store in it."""

    folder: Path

    def typed(self, command: list[str]) -> tuple[int, Any]:
        """The exit code of a command, and the document that it prints."""
        if command[0] in ("evaluate", "compare", "evolve") and "--live" not in command:
            command = [*command, "--real-tools"]  # which nobody had to say then
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*command, "--json"])
        return code, json.loads(out.getvalue() or err.getvalue())

    def rows(self, query: str, *values: Any) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.folder / "seedbed.db")) as database:
            return database.execute(query, values).fetchall()

    def facts(self) -> dict[str, int]:
        """How many facts there are of each kind, without sources of programs, which are remembered at first sight."""
        return dict(self.rows("SELECT kind, count(*) FROM facts WHERE kind <> 'source' GROUP BY kind"))

    def execute(self, statement: str) -> None:
        """Edit one row of the database without seedbed."""
        with contextlib.closing(sqlite3.connect(self.folder / "seedbed.db")) as database, database:
            assert database.execute(statement).rowcount == 1


def restore(dump: Path, database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as opened:
        opened.executescript(dump.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store as a database, restored once; no test writes to this one."""
    file = tmp_path_factory.mktemp("old") / "seedbed.db"
    restore(FIXTURE / "store.sql", file)
    return file


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the workspace, without a store, and no settings from outside."""
    folder = tmp_path / "workspace"
    shutil.copytree(FIXTURE / "workspace", folder)
    settings = folder / "seedbed.yaml"
    declared = settings.read_text().replace("- parcels:lookup", "- {function: parcels:lookup, effect: reads}")
    settings.write_text(declared)  # undeclared tools only read then, and change the world now
    for name in [name for name in os.environ if name.startswith("SEEDBED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(folder)
    yield folder
    sys.modules.pop("parcels", None)  # the next test has a copy of its own


@pytest.fixture
def old(terminal: Path, database: Path) -> OldStore:
    shutil.copy(database, terminal)
    return OldStore(terminal)


def same(found: Any, expected: Any, path: str = "document") -> bool:
    """Compare a document with what is expected of it; raises AssertionError with the path that differs.

    The document may have more keys. Numbers may differ in the tenth digit. Of a digest, the first ten characters count.
    """
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{path}: found {found!r}"
        for name, value in expected.items():
            assert name in found, f"{path}: found no {name}"
            same(found[name], value, f"{path}.{name}")
    elif isinstance(expected, list):
        assert isinstance(found, list), f"{path}: found {found!r}"
        assert len(found) == len(expected), f"{path}: found {len(found)}; expected {len(expected)}"
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, f"{path}[{number}]")
    elif isinstance(expected, float) and isinstance(found, int | float):
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-12), path
    elif isinstance(expected, str) and re.fullmatch("b2:[0-9a-f]{10}", expected):
        assert str(found).startswith(expected), path
    else:
        assert found == expected, path
    return True


def without_intervals(says: Any) -> Any:
    """What is expected but for the ends of intervals, which are computed by other formulas now."""
    if isinstance(says, dict):
        return {name: without_intervals(value) for name, value in says.items() if name not in ENDS}
    return [without_intervals(each) for each in says] if isinstance(says, list) else says


def promises(group: str) -> Any:
    """One test for each command of a group in expected.json, which says what the old code answered."""
    cases = EXPECTED[group]
    return pytest.mark.parametrize("promise", cases, ids=[" ".join(case["command"])[:60] for case in cases])


def keeps(old: OldStore, promise: dict[str, Any], *, intervals: bool = True) -> bool:
    """Type the command of a promise and compare the exit code and the answer."""
    code, document = old.typed(promise["command"])
    assert code == promise["exit"], document
    return same(document, promise["says"] if intervals else without_intervals(promise["says"]))


# What there is


def test_every_name_link_and_ref_verifies(old: OldStore) -> None:
    code, report = old.typed(["store", "verify"])
    assert code == 0
    assert same(report, EXPECTED["store"])


def test_nothing_is_lost_or_added_when_it_is_opened(old: OldStore) -> None:
    facts = "SELECT number, kind, key, subject, at, by, value, body, parents, tags, link FROM facts ORDER BY number"
    before = old.rows(facts), old.rows("SELECT * FROM content ORDER BY id")
    code, stats = old.typed(["store", "stats"])
    assert code == 0
    assert same(stats, EXPECTED["stats"])
    after = old.rows(facts), old.rows("SELECT * FROM content ORDER BY id")
    assert before == after
    assert old.facts() == EXPECTED["stats"]["facts"]


def test_refs_point_where_they_did(old: OldStore) -> None:
    old.typed(["store", "stats"])
    rows = old.rows("SELECT name, target, version FROM refs ORDER BY name")
    refs = [[name, target and json.loads(target), number] for name, target, number in rows]
    assert same(refs, EXPECTED["refs"])


def test_every_verdict_is_computed_again_to_the_same_numbers(old: OldStore) -> None:
    code, verdicts = old.typed(["evidence", "verify"])
    assert code == 0
    assert same(verdicts, EXPECTED["verified"])


def test_every_playbook_has_the_digest_that_it_had(old: OldStore, tmp_path: Path) -> None:
    stored = old.rows("SELECT digest, body FROM content WHERE kind = 'playbook' ORDER BY digest")
    for digest, body in stored:
        (tmp_path / f"{digest.removeprefix('b2:')}.json").write_text(body, encoding="utf-8")
    code, report = old.typed(["playbook", "check", *(str(file) for file in sorted(tmp_path.glob("*.json")))])
    assert code == 0
    assert [file["playbook"] for file in report["files"]] == [digest for digest, _ in stored]


@promises("names")
def test_files_have_the_digests_that_they_had(old: OldStore, promise: dict[str, Any]) -> None:
    assert keeps(old, promise)


@promises("nouns")
def test_what_is_looked_up_is_what_it_was(old: OldStore, promise: dict[str, Any]) -> None:
    assert keeps(old, promise)


@pytest.mark.parametrize("export", sorted((FIXTURE / "exports").glob("*.json")), ids=lambda file: file.stem)
def test_runs_are_written_down_as_they_were(old: OldStore, export: Path) -> None:
    before = json.loads(export.read_text(encoding="utf-8"))
    code, document = old.typed(["runs", "export", before["id"], "--format", "json"])
    assert code == 0
    assert same(json.loads(document["text"]), before)


# What is known is not paid again


@promises("scorecards")
def test_scores_are_known_and_nothing_is_run(old: OldStore, promise: dict[str, Any]) -> None:
    before = old.facts()
    assert keeps(old, promise, intervals=False)
    assert old.facts() == before


@promises("verdicts")
def test_a_comparison_that_was_decided_is_decided_alike_and_pays_nothing(
    old: OldStore, promise: dict[str, Any]
) -> None:
    """Under another name: experiments say more now, such as whether they may release anything."""
    before = old.facts()
    code, document = old.typed(promise["command"])
    assert code == promise["exit"], document
    assert document.get("finding") == promise["says"].get("finding")
    assert old.facts()["turn"] == before["turn"]


def test_a_comparison_by_replays_gives_its_verdict(old: OldStore) -> None:
    promise = EXPECTED["replayed"]
    code, document = old.typed(promise["command"])
    assert document["verdict"].pop("experiment") != promise["says"]["verdict"].pop("experiment")
    assert code == promise["exit"], document
    assert same(document, without_intervals(promise["says"]))


def confirms_nothing(old: OldStore, promise: dict[str, Any]) -> bool:
    """Like `keeps`, for a search that found something on fewer than twenty tasks: that was enough then, and is no
    longer. Intervals end where scores do."""
    confirmed = promise["says"].get("confirmed") or {}
    for name, interval in confirmed.items():
        if isinstance(interval, dict):
            least = -1.0 if "gain" in name or "over" in name else 0.0
            interval |= {end: min(max(interval[end], least), 1.0) for end in ("low", "high")}
    return keeps(old, {**promise, "exit": 2}, intervals=False)


@promises("searches")
def test_a_search_that_has_ended_says_what_it_found(old: OldStore, promise: dict[str, Any]) -> None:
    before = old.facts()
    assert confirms_nothing(old, promise)
    assert old.facts() == before


# What was begun goes on


def test_a_search_that_was_interrupted_finds_what_it_would_have_found(old: OldStore) -> None:
    promise, before = EXPECTED["interrupted"], old.facts()
    assert confirms_nothing(old, promise)
    assert same(old.facts(), {kind: before.get(kind, 0) + more for kind, more in promise["adds"].items()})
    after = old.facts()
    assert confirms_nothing(old, promise)  # and when it has ended, too
    assert old.facts() == after


def test_a_comparison_that_ran_out_of_money_is_decided(old: OldStore) -> None:
    code, document = old.typed(EXPECTED["open"]["command"])
    assert (code, document["finding"]) == (EXPECTED["open"]["exit"], EXPECTED["open"]["says"]["finding"])
    assert old.typed(["evidence", "verify", document["experiment"]])[0] == 0


def test_a_run_that_failed_is_completed_without_asking_again(old: OldStore) -> None:
    before = old.facts()
    assert keeps(old, EXPECTED["failed"])
    assert old.facts() == before | {kind: before[kind] + 1 for kind in ("run", "claim", "remark")} | {
        "reading": before["reading"] + 2
    }


@promises("replays")
def test_a_recorded_run_is_replayed_to_the_same_end(old: OldStore, promise: dict[str, Any]) -> None:
    assert keeps(old, promise)


@promises("gates")
def test_gates_and_channels_take_the_evidence_and_the_moves_of_then(old: OldStore, promise: dict[str, Any]) -> None:
    assert keeps(old, promise)


def test_people_meet_the_playbook_that_they_met_before(old: OldStore) -> None:
    """The monitor rolled the canary back; released again, it gets the same share of the same people."""
    arms = old.rows(
        "SELECT json_extract(body, '$.unit'), json_extract(body, '$.arm') FROM facts WHERE kind = 'exposure'"
        " AND subject = 'channels/staging' AND json_extract(body, '$.version') = 4 ORDER BY number LIMIT 10"
    )
    assert {arm for _, arm in arms} == {"canary", "control"}
    assert old.typed(["release", "hasty.yaml", "--to", "staging", "--because", "once more"])[0] == 0
    for unit, arm in arms:
        assert same(old.typed(["channel", "assign", "staging", unit])[1], {"arm": arm})


# The same work has the same name


@promises("anew")
def test_the_same_work_in_an_empty_store_has_the_names_that_it_had(
    old: OldStore, database: Path, promise: dict[str, Any]
) -> None:
    (old.folder / "seedbed.db").unlink()
    ends = 2 if promise["command"][0] == "evolve" else promise["exit"]  # see `confirms_nothing`
    assert old.typed(promise["command"])[0] == ends
    names = old.rows("SELECT kind, key, json_extract(body, '$.seed') FROM facts WHERE kind IN ('cell', 'start')")
    names += old.rows("SELECT kind, digest, 0 FROM content WHERE kind IN ('search', 'dataset')")
    assert sorted({kind for kind, *_ in names}) == [kind for kind in promise["kinds"] if kind != "experiment"]
    with contextlib.closing(sqlite3.connect(database)) as then:
        known = {*then.execute("SELECT kind, key, json_extract(body, '$.seed') FROM facts")}
        known |= {*then.execute("SELECT kind, digest, 0 FROM content")}
    assert {*names} <= known


# Other forms


def test_a_store_of_files_holds_the_same(old: OldStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (old.folder / "seedbed.db").unlink()
    with tarfile.open(FIXTURE / "files-store.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("SEEDBED_STORE", f"files://{tmp_path / 'store'}")
    assert same(old.typed(["store", "verify"])[1], EXPECTED["store"])
    assert old.typed(["evidence", "verify", EXPECTED["verified"][0]["experiment"]])[0] == 0
    assert keeps(old, EXPECTED["scorecards"][0], intervals=False)
    assert not (old.folder / "seedbed.db").exists()


def test_an_encrypted_store_is_opened_with_its_key(terminal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = terminal.parent / "sealed"
    shutil.copytree(FIXTURE / "sealed", folder)
    restore(folder / "store.sql", folder / "seedbed.db")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SEEDBED_KEY", SEALED_WITH)
    sealed = OldStore(folder)
    for promise in EXPECTED["sealed"]:
        assert keeps(sealed, promise)


# What was edited is found

_FIRST = "SELECT min(number) FROM facts WHERE kind"
EDITS = {
    "a verdict": (
        f"UPDATE facts SET body = replace(body, 'superior', 'inferior') WHERE number = ({_FIRST} = 'verdict')",
        "store",
    ),
    "a move": (
        f"UPDATE facts SET body = replace(body, 'b2:', 'b3:') WHERE number = ({_FIRST} = 'move')",
        "store",
    ),
    "a playbook": (
        "UPDATE content SET body = replace(body, 'mail', 'male') WHERE id = "
        "(SELECT min(id) FROM content WHERE kind = 'playbook' AND body LIKE '%mail%')",
        "store",
    ),
    "a score": (
        f"UPDATE facts SET value = 1 - value WHERE number = ({_FIRST} = 'cell')",
        "evidence",
    ),
    "what a model said": (
        "UPDATE facts SET body = replace(body, '\"text\":\"', '\"text\":\"!') WHERE kind = 'turn' AND subject = "
        f"(SELECT substr(key, 1, 32) FROM facts WHERE number = ({_FIRST} = 'cell'))",
        "evidence",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_byte_is_found(old: OldStore, edit: str) -> None:
    statement, noun = EDITS[edit]
    command = ["store", "verify"] if noun == "store" else ["evidence", "verify", EXPECTED["verified"][0]["experiment"]]
    old.execute(statement)
    assert old.typed(command)[0] == 1
