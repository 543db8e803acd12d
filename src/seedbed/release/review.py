"""Review: a person says yes, the answer is kept, and nobody approves their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from seedbed.errors import ReleaseRefused
from seedbed.playbooks.changes import diff
from seedbed.playbooks.library import Library
from seedbed.release.gates import Change, Refusal
from seedbed.storage.store import Digest, Fact, Query, short

Occasion = Literal["always", "rules or roles change"]


def approve(library: Library, channel: str, candidate: Digest, *, because: str) -> Fact:
    """Record that whoever the library works for lets a candidate onto a channel. Approvals are chained."""
    author = library.entry(candidate).by
    if author == library.by:
        remedy = "Ask somebody else to approve it."
        raise ReleaseRefused([Refusal("review", f"{author}, who made it", "another person", remedy)])
    fact = Fact(
        kind="approval",
        key=f"{channel}/{candidate}/{library.by}",
        subject=candidate,
        at=datetime.now(UTC),
        by=library.by,
        body={"channel": channel, "because": because},
    )
    library.store.append([fact])
    return fact


@dataclass(frozen=True, slots=True)
class Review:
    """Somebody other than its author has approved exactly this candidate for exactly this channel."""

    when: Occasion = "always"

    async def __call__(self, change: Change) -> Refusal | None:
        if not self._called_for(change):
            return None
        author = change.library.entry(change.candidate).by
        for fact in change.library.store.facts(Query(kind="approval", subject=change.candidate)):
            if fact.body["channel"] == change.channel and fact.by != author:
                return None
        remedy = f"Have them run: seedbed channel approve {change.channel} {short(change.candidate)} --because REASON"
        return Refusal("review", "no approval", f"one by somebody other than {author}", remedy)

    def _called_for(self, change: Change) -> bool:
        if self.when == "always" or change.incumbent is None:
            return self.when == "always"
        before, after = change.library.get(change.incumbent), change.library.get(change.candidate)
        return any(each.path.startswith(("rules.", "roles.")) for each in diff(before, after))
