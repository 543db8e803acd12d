"""The upkeep of a store: verified, measured, cleaned, copied."""

from __future__ import annotations

import base64
from contextlib import closing
from pathlib import Path

import pytest
from loop_samples import agent, numbers
from workspace_samples import in_memory

from seedbed.errors import SettingsError, StoreError
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.dry_run import DryRunStore
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace
from seedbed.workspace.nouns import storage


def test_a_store_is_verified_measured_and_cleaned() -> None:
    space = in_memory()
    space.playbooks.keep(agent("a"), because="written")
    loose = space.store.put("dataset", numbers(3).content())
    assert space.storage.verify().clean
    assert space.storage.stats().contents == {"playbook": 1, "dataset": 1}
    assert space.storage.gc(dry_run=True) == {loose: "dataset"}
    assert space.storage.gc() == {loose: "dataset"}
    assert space.storage.stats().contents == {"playbook": 1}


def test_a_store_without_upkeep_says_so() -> None:
    space = Workspace(Settings(by="ada"), DryRunStore(MemoryStore()))
    with pytest.raises(StoreError, match="DryRunStore offers no upkeep"):
        space.storage.verify()


def test_only_an_encrypted_store_gets_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(storage.NEW_KEY, base64.b64encode(bytes(32)).decode())
    with pytest.raises(SettingsError, match="seedbed store copy … --seal"):
        in_memory().storage.rotate()


def test_a_copy_has_everything_and_names_no_password(tmp_path: Path) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    with closing(open_store(source)) as store:
        Workspace(Settings(by="ada"), store).playbooks.keep(agent("a"), because="written")
    steps: list[tuple[int, int]] = []
    copied = storage.copy(source, target, on_event=lambda done, total: steps.append((done, total)))
    assert (copied.source, copied.target, copied.stats.contents) == (source, target, {"playbook": 1})
    assert steps[-1][0] == steps[-1][1]
    with closing(open_store(target)) as store:
        assert Workspace(Settings(by="ben"), store).playbooks.get(agent("a").digest) == agent("a")
    with pytest.raises(SettingsError, match="nothing at"):
        storage.copy(f"sqlite:///{tmp_path}/absent.db", target)
    assert not (tmp_path / "absent.db").exists()
