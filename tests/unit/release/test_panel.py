"""Who counts, and from which playbook drift is measured."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from release_samples import NEW, OLD, POOR, kept

from seedbed.playbooks.library import Library
from seedbed.release.channels import release, rollback
from seedbed.release.review.panel import Panel, involved, last_reviewed
from seedbed.release.review.review import approve, refuse, request
from seedbed.storage.store import Digest


def served(library: Library, *digests: Digest) -> None:
    for digest in digests:
        asyncio.run(release(library, "production", digest, [], verdict=None, because="try"))


def test_a_role_that_nobody_has_is_nobody_s_to_give() -> None:
    library = kept()
    approve(replace(library, by="ben"), "production", NEW.digest, because="read it")
    for panel in (Panel(roles=("safety",)), Panel({"ben": ()}, ("safety",))):
        told = panel.objection(library, "production", NEW.digest)
        assert told
        assert "ben, who is not a reviewer" in told.found


def test_who_made_it_and_who_asked_are_involved() -> None:
    library = kept()
    for name in ("ben", "ada"):
        request(replace(library, by=name), "production", NEW.digest, because="please")
    request(replace(library, by="cleo"), "staging", NEW.digest, because="please")
    assert involved(library, "production", NEW.digest) == {"ada": "made it", "ben": "asked for its review"}


def test_drift_is_measured_from_the_newest_that_was_reviewed_or_else_the_first() -> None:
    library, panel = kept(), Panel()
    assert last_reviewed(library, "production", panel) is None
    served(library, OLD.digest, POOR.digest, NEW.digest)
    assert last_reviewed(library, "production", panel) == OLD.digest
    approve(replace(library, by="ben"), "production", POOR.digest, because="read it")
    assert last_reviewed(library, "production", panel) == POOR.digest
    expired = Panel(expires=timedelta(0))  # it was reviewed all the same
    assert last_reviewed(library, "production", expired) == POOR.digest
    assert last_reviewed(library, "production", Panel({"cleo": ()})) == OLD.digest
    refuse(replace(library, by="dan"), "production", POOR.digest, because="it is poor")
    assert last_reviewed(library, "production", panel) == OLD.digest


def test_what_was_rolled_back_is_no_ground_to_measure_from() -> None:
    library = kept()
    served(library, OLD.digest, NEW.digest)
    approve(replace(library, by="ben"), "production", NEW.digest, because="read it")
    rollback(library, "production", because="worse")
    assert last_reviewed(library, "production", Panel()) == OLD.digest
