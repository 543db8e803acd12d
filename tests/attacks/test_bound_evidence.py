"""Somebody edits facts before they are compared, in an encrypted store, or in a file; or acts in another's name."""

from __future__ import annotations

import json
import random
import zipfile
from base64 import b64encode
from contextlib import closing
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from test_edited_store import edit, opened
from world import NEW, OLD, agent, serve_old, tasks, world

import seedbed
from seedbed import Workspace
from seedbed.errors import SeedbedError, StoreDamaged
from seedbed.experiments.proof import evidence_file
from seedbed.experiments.proof.evidence_file import export_evidence
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.memory import MemoryStore
from seedbed.storage.signing import SigningKey

KEY = b64encode(bytes(range(32))).decode()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def exported(tmp_path: Path) -> Path:
    """The evidence of a verdict by which the candidate was released."""
    with closing(await serve_old(world([1], [*range(60)]))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(40)))
        assert verdict.finding == "superior"
        return space.experiments.export_evidence(verdict.experiment, tmp_path / "better.evidence")


def problems(space: Workspace, experiment: str) -> str:
    return "\n".join(map(str, space.experiments.verify([experiment])[experiment]))


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE facts SET value = 1 - value WHERE kind = 'cell'", "cell fact"),
        ("UPDATE facts SET body = replace(body, 'not yes', 'yes') WHERE kind = 'run'", "run fact"),
        ("UPDATE facts SET body = replace(body, 'not yes', 'yes') WHERE kind = 'turn'", "turn fact"),
        ("DELETE FROM facts WHERE kind = 'cell' AND value = 0", "a link that does not follow"),
        ("UPDATE facts SET by = 'adam' WHERE kind = 'derivation'", "derivation fact"),
        ("UPDATE facts SET at = at - 1000000 WHERE kind = 'start'", "start fact"),
    ],
)
async def test_what_was_edited_before_the_comparison_is_named(database: Path, statement: str, named: str) -> None:
    with closing(await serve_old(opened(database))) as space:
        await space.evaluate(OLD, tasks(range(30)))
    edit(database, statement)
    with closing(opened(database)) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        assert named in problems(space, verdict.experiment)


async def test_a_score_that_does_not_follow_from_the_output_is_named(database: Path) -> None:
    """Even by someone who computes the whole chain anew."""
    with closing(await serve_old(opened(database))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
    edit(database, "UPDATE facts SET value = 1 - value WHERE kind = 'cell'")
    with closing(opened(database)) as space:
        assert "by its run" in problems(space, verdict.experiment)


@pytest.mark.parametrize("column", ["value", "subject", "at", "by", "tags", "parents", "commitment"])
async def test_an_encrypted_store_refuses_a_fact_with_any_other_column(database: Path, column: str) -> None:
    """Without the key: a score is a plain column, and so is the playbook it belongs to."""
    with closing(EncryptedStore(open_store(f"sqlite:///{database}"), MasterKey(KEY))) as store:
        await world([], [*range(30)], store=store).evaluate(OLD, tasks(range(5)))
    values = {"value": "1", "at": "7", "tags": "'[\"x\"]'", "parents": "'[\"x\"]'", "commitment": f"'{'0' * 64}'"}
    edit(database, f"UPDATE facts SET {column} = {values.get(column, repr('x'))} WHERE kind = 'cell'")
    opened = EncryptedStore(open_store(f"sqlite:///{database}"), MasterKey(KEY))
    with closing(opened) as store, pytest.raises(StoreDamaged, match=r"cell fact .* was not sealed there"):
        await world([], [*range(30)], store=store).evaluate(OLD, tasks(range(5)))


async def test_somebody_who_approves_their_own_work_is_found_even_if_the_author_was_changed(database: Path) -> None:
    with closing(await serve_old(opened(database))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        space.acting("eve").playbooks.keep(NEW, because="mine")
        space.acting("adam").reviews.approve("production", NEW, because="fine")
        assert not problems(space, verdict.experiment)
    edit(database, "UPDATE facts SET by = 'eve' WHERE kind = 'approval'")
    with closing(opened(database)) as space:
        found = problems(space, verdict.experiment)
    assert "one by eve, who wrote it" in found
    assert "approval fact" in found


# Files


async def test_a_file_verifies_without_the_store(exported: Path) -> None:
    check = seedbed.verify_evidence(exported)
    assert check.problems == ()
    assert check.certificate
    assert check.certificate.verdict.finding == "superior"


async def test_one_changed_byte_anywhere_in_a_file_is_named(exported: Path) -> None:
    whole = exported.read_bytes()
    places = random.Random(7).sample(range(len(whole)), 60)
    for place in [*places, 0, len(whole) - 1]:
        exported.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            assert seedbed.verify_evidence(exported).problems, place
        except SeedbedError as wrong:
            assert str(exported) in str(wrong)  # noqa: PT017 - either way it is named


def rewritten(path: Path, name: str, change: Any) -> None:
    """Change one member of a file and compute all digests anew, as a forger would."""
    with zipfile.ZipFile(BytesIO(path.read_bytes())) as archive:
        texts = {each: archive.read(each) for each in archive.namelist()}
    lines = [json.loads(line) for line in texts[name].decode().splitlines()]
    texts[name] = "".join(f"{evidence_file.canonical(line)}\n" for line in change(lines)).encode()
    manifest = json.loads(texts["manifest.json"])
    manifest["files"] = {each: evidence_file._digest(texts[each]) for each in evidence_file.FILES}
    texts["manifest.json"] = f"{evidence_file.canonical(manifest)}\n".encode()
    path.write_bytes(evidence_file._archive(texts))


def flip_score(lines: list[Any]) -> list[Any]:
    cell = next(line for line in lines if line["kind"] == "cell" and not line.get("value"))
    cell["value"] = 1
    return lines


def improve_verdict(lines: list[Any]) -> list[Any]:
    for line in lines:
        if line["kind"] == "verdict":
            line["body"]["difference"] = 0.99
    return lines


def forget_attempt(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line["kind"] != "attempt"]


@pytest.mark.parametrize("change", [flip_score, improve_verdict, forget_attempt])
async def test_a_forged_fact_in_a_file_is_named_by_the_chain(exported: Path, change: Any) -> None:
    rewritten(exported, "facts.jsonl", change)
    assert seedbed.verify_evidence(exported).problems


async def test_an_earlier_result_that_a_file_leaves_out_is_missed(tmp_path: Path) -> None:
    """The exporter shows of an old score only its hash, so that the tasks look fresh."""
    with closing(await serve_old(world([1], [*range(60)]))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(40)))
        path = space.experiments.export_evidence(verdict.experiment, tmp_path / "file")
        await space.compare(OLD, NEW, on=tasks(range(40, 60)))
    left_out: list[Any] = []

    def leave_out(lines: list[Any]) -> list[Any]:
        gone = next(line for line in lines if line["kind"] == "cell")
        left_out.append(gone)
        return [line for line in lines if line is not gone]

    def hide(lines: list[Any]) -> list[Any]:
        gone = left_out[0]
        ours = [line["number"] for line in before]
        at = [place for place, line in enumerate(lines) if line == ""][ours.index(gone["number"])]
        named = [gone["kind"], gone["key"], gone["subject"], micros(gone["at"]), gone["by"], gone.get("value")]
        lines[at] = [*named, gone.get("parents", []), gone.get("tags", []), gone.get("link", ""), gone["commitment"]]
        return lines

    def micros(at: str) -> int:
        return evidence_file.micros(datetime.fromisoformat(at))

    with zipfile.ZipFile(BytesIO(path.read_bytes())) as archive:
        before = [json.loads(line) for line in archive.read("facts.jsonl").decode().splitlines()]
    rewritten(path, "facts.jsonl", leave_out)
    rewritten(path, "chain.jsonl", hide)
    found = "\n".join(map(str, seedbed.verify_evidence(path).problems))
    assert f"cell fact {left_out[0]['key']}: found one that was left out" in found


# Signatures


def signing(database: Path, key: SigningKey | None, signers: dict[str, str]) -> Workspace:
    plain = world([], [*range(100)], store=open_store(f"sqlite:///{database}"))
    settings = plain.settings.model_copy(update={"signers": signers, "signing_key": key.text if key else ""})
    return Workspace(Settings.model_validate(settings), plain.store)


async def test_what_somebody_did_in_the_name_of_another_is_found(database: Path) -> None:
    eve = SigningKey.new()
    signers = {"eve": eve.public}
    with closing(await serve_old(signing(database, eve, signers))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        await space.release(NEW, to="production", because=verdict)
    with closing(signing(database, eve, signers)) as space:
        assert problems(space, verdict.experiment) == ""
    with closing(signing(database, None, signers)) as space:  # no key, and the name of eve
        await space.channels.rollback("production", because="she said so")
        assert "found no signature; expected one by eve" in problems(space, verdict.experiment)
    with closing(signing(database, SigningKey.new(), signers)) as space:  # somebody else's key
        space.experiments.sign()
        assert "found a signature that does not fit; expected one by eve" in problems(space, verdict.experiment)


async def test_a_release_in_the_name_of_another_is_found_before_there_is_any_verdict(database: Path) -> None:
    with closing(await serve_old(signing(database, None, {"eve": SigningKey.new().public}))) as space:
        assert "found no signature; expected one by eve" in "\n".join(map(str, space.experiments.verify()[""]))


async def test_a_file_of_an_invented_store_lacks_the_signatures_of_those_whom_it_names(tmp_path: Path) -> None:
    """Everything in the file fits together: somebody made up the whole store, in the name of eve."""
    eve, path, store = SigningKey.new(), tmp_path / "invented.evidence", MemoryStore()
    with closing(await serve_old(world([], [*range(100)], store=store))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        space.experiments.export_evidence(verdict.experiment, path)
    assert seedbed.verify_evidence(path).problems == ()
    found = "\n".join(map(str, seedbed.verify_evidence(path, signers={"eve": eve.public}).problems))
    for kind in ("comparison", "attempt", "move"):
        assert f"{kind} fact " in found
    assert "found no signature; expected one by eve" in found
    other = seedbed.verify_evidence(path, signers={"ann": SigningKey.new().public}).problems
    assert ["found one by eve; expected one by ann" in str(each) for each in other] == [True]
    eve.sign(store, by="eve")
    signed = export_evidence(store, verdict.experiment, tmp_path / "signed.evidence")
    assert seedbed.verify_evidence(signed, signers={"eve": eve.public}).problems == ()
    assert seedbed.verify_evidence(signed, signers={"eve": SigningKey.new().public}).problems


async def test_an_end_that_was_cut_off_is_missed_by_the_head_that_was_kept(database: Path) -> None:
    """With everything since an attempt deleted, the rest of the chain is whole."""
    with closing(await serve_old(opened(database))) as space:
        await space.compare(OLD, NEW, on=tasks(range(100, 130)))
        kept = space.experiments.head()["link"]
        assert space.storage.verify(kept).clean
    edit(database, "DELETE FROM facts WHERE number >= (SELECT min(number) FROM facts WHERE kind = 'attempt')")
    with closing(opened(database)) as space:
        assert space.storage.verify().clean
        assert [problem.path for problem in space.storage.verify(kept).problems] == ["chain"]


async def test_a_playbook_compared_with_itself_is_no_attempt() -> None:
    with closing(await serve_old(world([], [*range(30)]))) as space:
        verdict = await space.compare(OLD, OLD, on=tasks(range(30)))
        assert (verdict.mode, space.experiments.attempts()) == ("exploratory", [])


# Past releases


async def moved_to(space: Workspace, playbook: seedbed.Playbook, experiment: str, *require: Any) -> None:
    """Move the channel past its gates, with a verdict as its reason, as somebody with access to the store can."""
    space.playbooks.keep(playbook, because="mine")
    target = {"stable": playbook.digest, "how": "release", "verdict": experiment, "require": require or ["better"]}
    ref = space.store.ref("channels/production")
    space.store.move("channels/production", target, expected=ref, because="superior, see the verdict", by="eve")


async def test_a_release_by_a_verdict_about_another_candidate_is_found() -> None:
    with closing(await serve_old(world([], [*range(30)]))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        await moved_to(space, agent("other"), verdict.experiment)
        assert f"a verdict about {NEW.digest[3:13]} against {OLD.digest[3:13]}" in problems(space, verdict.experiment)


async def test_a_release_by_a_verdict_that_is_not_superior_is_found() -> None:
    with closing(await serve_old(world([1], [2]))) as space:
        verdict = await space.compare(OLD, NEW, on=tasks(range(30)))
        assert verdict.finding != "superior"
        await moved_to(space, NEW, verdict.experiment)
        assert f"the finding {verdict.finding}" in problems(space, verdict.experiment)
