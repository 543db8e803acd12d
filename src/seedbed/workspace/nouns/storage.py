"""space.storage: verify, measure, clean and re-key the store; copy one store into another."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from seedbed.errors import Problem, SettingsError
from seedbed.settings import Settings
from seedbed.storage import open_store, upkeep
from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.paths import without_password
from seedbed.storage.signing import new_signing_key as new_signing_key
from seedbed.storage.signing import read_signers as read_signers
from seedbed.storage.sql.migrations import MIGRATIONS
from seedbed.storage.sql.store import migrate_to
from seedbed.storage.store import Digest, UpkeptStore
from seedbed.storage.upkeep import Stats, Verification
from seedbed.workspace.resources import Resources, store_url

NEW_KEY = "SEEDBED_NEW_KEY"


class Storage:
    """The store of a workspace, for its upkeep."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def verify(self, head: str = "") -> Verification:
        """Re-derive every digest, link and ref, and list what does not fit; `head` is a link kept elsewhere."""
        return upkeep.verify(self._resources.upkept_store, head)

    def stats(self) -> Stats:
        """How much there is of everything."""
        return upkeep.stats(self._resources.upkept_store)

    def gc(self, *, dry_run: bool = False) -> dict[Digest, str]:
        """Discard content that nothing mentions any more, by digest and kind. Run it while nothing writes."""
        return upkeep.gc(self._resources.upkept_store, dry_run=dry_run)

    def rotate(self, *, dry_run: bool = False) -> None:
        """Hand an encrypted store over from the key in SEEDBED_KEY to the one in SEEDBED_NEW_KEY."""
        new, store = MasterKey(os.environ.get(NEW_KEY, ""), NEW_KEY), self._resources.store
        if not isinstance(store, EncryptedStore):
            remedy = "Copy it into an encrypted one: seedbed store copy … --seal, and set encrypted: true."
            raise SettingsError([Problem("encrypted", "a store that is not encrypted", "an encrypted one", remedy)])
        if not dry_run:
            store.rotate(new, by=self._resources.by)


def migrate(file: Path, to: int | None, *, dry_run: bool = False) -> tuple[str, int, int, list[str]]:
    """Bring the schema of a workspace's SQL store to a version: where it is, before, after, and the steps between."""
    url = store_url(Settings.load(file))
    before, goal = migrate_to(url, to, dry_run=dry_run)
    between = [step for step in MIGRATIONS if min(before, goal) < step.number <= max(before, goal)]
    steps = [step.name for step in (between if goal > before else reversed(between))]
    return without_password(url), before, goal, steps


@dataclass(frozen=True)
class StoreCopy:
    """What was copied from where to where; the addresses have no password."""

    source: str
    target: str
    stats: Stats


def copy(
    source: str,
    target: str,
    *,
    unseal: bool = False,
    seal: bool = False,
    dry_run: bool = False,
    on_event: Callable[[int, int], None] | None = None,
) -> StoreCopy:
    """Copy everything of one store into another: digests, order, times and refs. Run it again to continue.

    `on_event` receives how many contents and facts are done, and how many there are.
    """
    for scheme in ("sqlite:///", "files:"):
        path = source.removeprefix(scheme)
        if path != source and not Path(path).exists():  # opening it would create an empty store
            raise SettingsError([Problem("SOURCE", f"nothing at {path}", "a store", "Check the path.")])
    with closing(_opened(source, unseal)) as origin:
        held = upkeep.stats(origin)
        total = sum(held.contents.values()) + sum(held.facts.values())
        if not dry_run:
            with closing(_opened(target, seal)) as goal:
                upkeep.copy(origin, goal, (lambda done: on_event(done, total)) if on_event else None)
    return StoreCopy(without_password(source), without_password(target), held)


def _opened(url: str, sealed: bool) -> UpkeptStore:
    store: UpkeptStore = open_store(url)
    return EncryptedStore(store, MasterKey.from_environment()) if sealed else store
