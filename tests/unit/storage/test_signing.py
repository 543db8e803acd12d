"""People sign what they did, with keys that the store does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from seedbed.errors import SettingsError
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.signing import SIGNED, SigningKey, check_signatures, new_signing_key
from seedbed.testing import fact, move

ANN, BOB = SigningKey.new(), SigningKey.new()


@pytest.fixture
def store() -> MemoryStore:
    """A store in which ann released and approved, and ran something that needs no signature."""
    store = MemoryStore()
    store.append([fact("a", "approval"), fact("b"), fact("c", "comparison", by="bob")])
    move(store, "main", "x")
    return store


def test_only_what_decides_a_release_is_signed_and_only_once(store: MemoryStore) -> None:
    assert ANN.sign(store, by="ann") == 2
    assert ANN.sign(store, by="ann") == 0
    assert check_signatures(store, {"ann": ANN.public}) == []
    assert check_signatures(store, {}) == []


def test_what_is_not_signed_is_named(store: MemoryStore) -> None:
    ANN.sign(store, by="ann")
    [problem] = check_signatures(store, {"ann": ANN.public, "bob": BOB.public})
    assert (problem.path, problem.found) == ("comparison fact c", "no signature")


def test_a_signature_with_another_key_does_not_fit(store: MemoryStore) -> None:
    BOB.sign(store, by="ann")
    assert {problem.found for problem in check_signatures(store, {"ann": ANN.public})} == {
        "a signature that does not fit"
    }


def test_a_signature_moved_to_another_fact_does_not_fit(store: MemoryStore) -> None:
    ANN.sign(store, by="ann")
    signed = {each.body["key"]: each for each in store._facts._kinds["signature"] for each in [each.fact]}
    other = MemoryStore()
    other.append([fact("a", "approval", body={"because": "another"})])
    [approval] = [each.fact for each in other._facts._kinds["approval"]]
    other.append([fact(f"{approval.link}/ann", "signature", subject=approval.link, by="ann", body=signed["a"].body)])
    assert len(check_signatures(other, {"ann": ANN.public})) == 1


@pytest.mark.parametrize("text", ["", "short", "!" * 44])
def test_a_key_that_is_none_is_refused_and_never_quoted(text: str) -> None:
    with pytest.raises(SettingsError, match="expected base64 of 32 bytes") as wrong:
        SigningKey(text)
    assert not text or text not in str(wrong.value)


@pytest.mark.parametrize("text", ["/home/ann/key", "ann.key", "~/key", "C:\\\\key"])
def test_a_path_in_place_of_a_key_is_said_to_be_one(text: str) -> None:
    with pytest.raises(SettingsError, match=r"found the path of a file; .* Write signing_key: {file: PATH}") as wrong:
        SigningKey(text)
    assert text not in str(wrong.value)


def test_a_new_key_is_readable_by_its_owner_alone_and_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ann.key"
    public = new_signing_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey(path.read_text()).public == public
    assert Settings(signers={"ann": public}).signers == {"ann": public}
    with pytest.raises(SettingsError, match="Choose another name"):
        new_signing_key(path)


@pytest.mark.parametrize("key", ["", "ed25519:", "ed25519:AAAA", "rsa:" + "A" * 44])
def test_a_public_key_that_is_none_is_refused_when_the_workspace_opens(key: str) -> None:
    with pytest.raises(SettingsError, match=r"signers\.ann: .*a public key such as ed25519"):
        Settings(signers={"ann": key})


def test_the_private_key_is_shown_nowhere() -> None:
    settings = Settings(signing_key=ANN.text)
    assert ANN.text not in repr(settings) + repr(ANN)


def test_kinds_that_are_signed_hold_a_link_each(store: MemoryStore) -> None:
    for kind in SIGNED[:-1]:
        store.append([fact("x", kind), fact("y", kind)])
    ANN.sign(store, by="ann")
    assert check_signatures(store, {"ann": ANN.public}) == []
