"""Panel: who may approve or refuse a candidate, for how long an approval holds, and the answers so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from seedbed.errors import Problem
from seedbed.playbooks.library import Library
from seedbed.release.states import replay_moves
from seedbed.storage.store import Digest, Fact, Query, now, short


@dataclass(frozen=True, slots=True)
class Opinion:
    """The answers about a candidate for a channel: the last one of each reviewer, oldest first.

    `approvals` and `refusals` are those that hold. `void` are approvals that do not count, each with the reason.
    `missing` are the roles without an approval.
    """

    approvals: tuple[Fact, ...]
    refusals: tuple[Fact, ...]
    void: tuple[tuple[Fact, str], ...]
    missing: tuple[str, ...]

    @property
    def approved(self) -> bool:
        return bool(self.approvals) and not self.refusals and not self.missing


@dataclass(frozen=True, slots=True)
class Panel:
    """Who reviews for a channel.

    `reviewers` are people and their roles; without any, everybody may review. Each of the `roles` needs one approval;
    without roles, one approval is enough. People who made the candidate or requested its review do not count. An
    approval is valid for `expires`; a refusal stands until the same person approves.
    """

    reviewers: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    roles: tuple[str, ...] = ()
    expires: timedelta | None = None
    clock: Callable[[], datetime] = now

    def opinion(self, library: Library, channel: str, candidate: Digest) -> Opinion:
        barred = involved(library, channel, candidate)
        last = {fact.by: fact for fact in answers(library, channel, candidate)}
        spoken = sorted(last.values(), key=lambda fact: fact.number)
        yes = [fact for fact in spoken if fact.kind == "approval"]
        void = [(fact, why) for fact in yes if (why := self._void(fact, barred))]
        holding = tuple(fact for fact in yes if not self._void(fact, barred))
        held = {role for fact in holding for role in self.reviewers.get(fact.by, ())}
        return Opinion(
            holding,
            tuple(fact for fact in spoken if fact.kind == "refusal" and self.has(fact.by)),
            tuple(void),
            tuple(role for role in self.roles if role not in held),
        )

    def _void(self, approval: Fact, barred: Mapping[str, str]) -> str:
        """Why an approval does not count, if it does not."""
        if approval.by in barred:
            return f"who {barred[approval.by]}"
        if not self.has(approval.by):
            return "who is not a reviewer of this channel"
        if self.expires is not None and self.clock() - approval.at >= self.expires:
            return f"which expired on {approval.at + self.expires:%Y-%m-%d}"
        return ""

    def has(self, person: str) -> bool:
        """Whether a person may review."""
        if not self.reviewers:
            return not self.roles
        mine = self.reviewers.get(person)
        return mine is not None and (not self.roles or not {*mine}.isdisjoint(self.roles))

    def objection(self, library: Library, channel: str, candidate: Digest) -> Problem | None:
        """Why a candidate does not count as reviewed, and what to do; None if it does."""
        opinion = self.opinion(library, channel, candidate)
        command = f"seedbed review approve {channel} {short(candidate)} --because REASON"
        if opinion.refusals:
            refusals = "; ".join(f"a refusal by {fact.by}: {fact.body['because']}" for fact in opinion.refusals)
            return Problem("review", refusals, "none", "Change what they object to; only they can take it back.")
        if opinion.approved:
            return None
        barred = involved(library, channel, candidate)
        expected = f"one by {self._others(barred)}"
        if opinion.approvals:
            roles = ", ".join(opinion.missing)
            return Problem("review", f"no approval for {roles}", self._holders(barred), f"Have them run: {command}")
        void = "; ".join(f"an approval by {fact.by}, {why}" for fact, why in opinion.void)
        return Problem("review", void or "no approval", expected, f"Have them run: {command}")

    def _others(self, barred: Mapping[str, str]) -> str:
        if not self.reviewers and not self.roles:
            return f"somebody other than {' or '.join(barred)}"
        return " or ".join(name for name in self.reviewers if self.has(name) and name not in barred) or (
            "a reviewer: the workspace file names no one who may"
        )

    def _holders(self, barred: Mapping[str, str]) -> str:
        def named(role: str) -> str:
            free = [name for name, roles in self.reviewers.items() if role in roles and name not in barred]
            return (
                f"one for {role} by {' or '.join(free) or 'a reviewer: the workspace file names no one with this role'}"
            )

        return "; ".join(map(named, self.roles))


def answers(library: Library, channel: str, candidate: Digest) -> list[Fact]:
    """All approvals and refusals of a candidate for a channel, oldest first."""
    facts = [fact for kind in ("approval", "refusal") for fact in _about(library, kind, channel, candidate)]
    return sorted(facts, key=lambda fact: fact.number)


def requests(library: Library, channel: str, candidate: Digest) -> list[Fact]:
    """The requests for a review of a candidate, oldest first."""
    return list(_about(library, "request", channel, candidate))


def _about(library: Library, kind: str, channel: str, candidate: Digest) -> Iterator[Fact]:
    facts = library.store.facts(Query(kind=kind, subject=candidate))
    return (fact for fact in facts if fact.body["channel"] == channel)


def involved(library: Library, channel: str, candidate: Digest) -> dict[str, str]:
    """The people who may not approve a candidate, and why."""
    requesters = {fact.by: "asked for its review" for fact in requests(library, channel, candidate)}
    author = library.entry(candidate).by
    return {**requesters, author: "made it"}


def last_reviewed(library: Library, channel: str, panel: Panel) -> Digest | None:
    """The newest release of a channel that stands and was reviewed, or else the first."""
    always = replace(panel, expires=None)  # an approval that has expired since was a review all the same
    standing = replay_moves(library.store.facts(Query(kind="move", subject=f"channels/{channel}"))).standing
    reviewed = (each for each in reversed(standing) if always.opinion(library, channel, each).approved)
    return next(reviewed, standing[0] if standing else None)
