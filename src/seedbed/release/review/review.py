"""Review: people approve or refuse a candidate with a reason, and never their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from seedbed.errors import Problem as Refusal
from seedbed.errors import ReleaseRefused
from seedbed.experiments.verdict import Verdict, verdicts
from seedbed.playbooks.library import Library
from seedbed.release.review.panel import Opinion, Panel, involved
from seedbed.release.states import stable_of
from seedbed.storage.store import Digest, Fact, Json, Query

ReviewStatus: TypeAlias = Literal["waiting", "approved", "refused", "expired", "served"]


# Answers


def request(library: Library, channel: str, candidate: Digest, *, because: str) -> Fact:
    """Request a review of a candidate. The person who requests it cannot approve it."""
    library.entry(candidate)
    return _record(library, "request", channel, candidate, because)


def approve(library: Library, channel: str, candidate: Digest, *, because: str, panel: Panel | None = None) -> Fact:
    """Record that the user of the library approves a candidate for a channel. A second approval renews the first.

    Raises ReleaseRefused if they made the candidate, requested the review, or are not on the panel.
    """
    barred = involved(library, channel, candidate)
    if library.by in barred:
        actual, remedy = f"{library.by}, who {barred[library.by]}", "Ask somebody else to approve it."
        raise ReleaseRefused([Refusal("review", actual, "another person", remedy)])
    _expect_member(library.by, panel)
    return _record(library, "approval", channel, candidate, because)


def refuse(library: Library, channel: str, candidate: Digest, *, because: str, panel: Panel | None = None) -> Fact:
    """Record that the user of the library refuses a candidate for a channel. It stands until they approve.

    Raises ReleaseRefused if they are not on the panel.
    """
    library.entry(candidate)
    _expect_member(library.by, panel)
    return _record(library, "refusal", channel, candidate, because)


def _expect_member(person: str, panel: Panel | None) -> None:
    if panel and not panel.has(person):
        may = " or ".join(name for name in panel.reviewers if panel.has(name)) or "a reviewer: there is none yet"
        remedy = "Ask them, or add yourself under reviewers in the workspace file."
        raise ReleaseRefused([Refusal("review", f"{person}, who is not a reviewer of this channel", may, remedy)])


def _record(library: Library, kind: str, channel: str, candidate: Digest, because: str) -> Fact:
    if not because.strip():
        raise ReleaseRefused([Refusal("review", "no reason", "why", "Say what you looked at.")])
    store, key = library.store, f"{channel}/{candidate}/{library.by}"
    times = sum(1 for fact in store.facts(Query(kind=kind, subject=candidate)) if fact.key.partition("@")[0] == key)
    fact = Fact(
        kind=kind,
        key=key if not times else f"{key}@{times + 1}",
        subject=candidate,
        at=library.clock(),
        by=library.by,
        body={"channel": channel, "because": because},
    )
    store.append([fact])
    return fact


# The queue


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A candidate whose review was requested, and the answers so far."""

    channel: str
    candidate: Digest
    request: Fact
    status: ReviewStatus
    opinion: Opinion

    def document(self) -> Json:
        return {
            "channel": self.channel,
            "playbook": self.candidate,
            "status": self.status,
            "because": self.request.body["because"],
            "by": self.request.by,
            "at": self.request.at,
            "approved_by": [fact.by for fact in self.opinion.approvals],
            "refused_by": [fact.by for fact in self.opinion.refusals],
        }


def queue(library: Library, panels: dict[str, Panel]) -> Iterator[ReviewItem]:
    """Every candidate whose review was requested, the longest waiting first. `panels` are by channel."""
    seen: set[tuple[str, Digest]] = set()
    for fact in library.store.facts(Query(kind="request")):
        channel, candidate = fact.body["channel"], fact.subject
        if (channel, candidate) in seen:
            continue
        seen.add((channel, candidate))
        panel = panels.get(channel) or Panel()
        opinion = panel.opinion(library, channel, candidate)
        yield ReviewItem(channel, candidate, fact, _status(library, channel, candidate, opinion), opinion)


def _status(library: Library, channel: str, candidate: Digest, opinion: Opinion) -> ReviewStatus:
    ref = library.store.ref(f"channels/{channel}")
    if ref and candidate == stable_of(ref.target):
        return "served"
    if opinion.refusals:
        return "refused"
    if opinion.approved:
        return "approved"
    return "expired" if any("expired" in why for _, why in opinion.void) else "waiting"


def newest_verdict(library: Library, candidate: Digest, incumbent: Digest | None) -> Verdict | None:
    """The newest verdict about exactly these two, if there is one."""
    known = [each for each in verdicts(library.store, candidate) if each.control == incumbent]
    return known[-1] if known else None
