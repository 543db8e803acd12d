"""The evidence of a verdict in one file, on the command line and in Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from loop_samples import agent, bench, numbers

import seedbed
from seedbed.errors import NotFound, SeedbedError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.proof.evidence_file import export_evidence, head
from seedbed.storage.chain import GENESIS, first_link
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, now
from seedbed.storage.upkeep import verify

SOME, ALL = agent("[0-4]|1."), agent(".*")


async def compared(store: MemoryStore) -> str:
    return (await run_experiment(SOME, ALL, numbers(30), ExactMatch(), bench(store))).experiment


async def test_a_verdict_verifies_from_its_file_alone(tmp_path: Path) -> None:
    store = MemoryStore()
    path = export_evidence(store, await compared(store), tmp_path / "a.evidence")
    moved = shutil.move(path, tmp_path / "b.evidence")
    check = seedbed.verify_evidence(moved)
    assert check.problems == ()
    assert check.head == head(store)
    assert check.head["link"] == verify(store).head


async def test_facts_that_do_not_matter_are_in_the_file_as_columns_only(tmp_path: Path) -> None:
    store = MemoryStore()
    experiment = await compared(store)
    for n in range(3):
        body = {"text": f"a secret remark {n}"}
        store.append([Fact(kind="remark", key=f"{n}", subject="somewhere", at=now(), by="ann", body=body)])
    path = export_evidence(store, experiment, tmp_path / "a.evidence")
    assert seedbed.verify_evidence(path).problems == ()
    shutil.unpack_archive(path, tmp_path / "unpacked", "zip")
    texts = "".join(each.read_text() for each in (tmp_path / "unpacked").iterdir())
    assert "secret remark" not in texts
    assert '"remark","2"' in texts


async def test_a_store_that_an_older_version_began_is_exported_too(tmp_path: Path) -> None:
    store = MemoryStore()
    old = Fact(kind="approval", key="old", subject="x", at=now(), by="ann", body={"because": "fine"})
    loose = Fact(kind="remark", key="loose", subject="x", at=now(), by="ann")
    store.load([], [Fact(**{**_fields(old), "link": first_link(GENESIS, old)}), loose])
    path = export_evidence(store, await compared(store), tmp_path / "a.evidence")
    assert seedbed.verify_evidence(path).problems == ()


def _fields(fact: Fact) -> dict[str, object]:
    return {name: getattr(fact, name) for name in ("kind", "key", "subject", "at", "by", "body")}


async def test_a_verdict_that_does_not_verify_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no verdict"):
        export_evidence(MemoryStore(), "b2:" + "0" * 64, tmp_path / "a.evidence")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", [b"", b"PK", b"no archive at all"])
def test_what_is_no_evidence_file_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "odd.evidence"
    path.write_bytes(text)
    with pytest.raises(SeedbedError, match=r"odd\.evidence: found no whole archive .*; expected an evidence file"):
        seedbed.verify_evidence(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="expected an evidence file"):
        seedbed.verify_evidence(tmp_path / "none.evidence")
