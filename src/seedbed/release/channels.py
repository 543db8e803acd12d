"""Move a channel: release a playbook through its gates, and take it back."""

from __future__ import annotations

from collections.abc import Sequence

from seedbed.errors import NotFound, ReleaseRefused, shown
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library, checked_ref
from seedbed.release.gates import Change, Gate, Refusal
from seedbed.storage.store import Digest, Query, Ref, Store


def stable(store: Store, channel: str) -> Digest | None:
    """What a channel serves, if anything."""
    ref = store.ref(f"channels/{channel}")
    return _served(ref) if ref else None


def _served(ref: Ref) -> Digest:
    return ref.target if isinstance(ref.target, str) else str(ref.target["stable"])


async def release(
    library: Library,
    channel: str,
    candidate: Digest,
    gates: Sequence[Gate],
    *,
    verdict: Verdict | None,
    because: str,
) -> Ref:
    """Put a candidate on a channel. Raises ReleaseRefused with what every gate says against it."""
    store = library.store
    name = checked_ref(f"channels/{channel}")
    library.entry(candidate)
    current = store.ref(name)
    change = Change(channel, candidate, _served(current) if current else None, verdict, library)
    if change.incumbent == candidate:
        raise ReleaseRefused([Refusal("redundant", "the playbook that is there already", "another one")])
    refusals = [refusal for gate in gates if (refusal := await gate(change))]
    if refusals:
        raise ReleaseRefused(refusals)
    target = {"stable": candidate, "how": "release", "verdict": verdict.experiment if verdict else None}
    return store.move(name, target, expected=current, because=because, by=library.by)


def rollback(library: Library, channel: str, *, because: str) -> Ref:
    """Return a channel to what it served before, and again to the one before that. No gate can forbid it."""
    store = library.store
    current = store.ref(f"channels/{channel}")
    if current is None:
        known = ", ".join(ref.name.removeprefix("channels/") for ref in store.refs("channels/")) or "none yet"
        raise NotFound(f"no channel {shown(channel)}. Channels: {known}")
    past = settled(store, channel)
    if len(past) < 2:
        raise ReleaseRefused([Refusal(f"channels/{channel}", "a first release", "an earlier one to return to")])
    target = {"stable": past[-2], "how": "rollback"}
    return store.move(f"channels/{channel}", target, expected=current, because=because, by=library.by)


def settled(store: Store, channel: str) -> list[Digest]:
    """The releases that still stand, oldest first: a rollback takes the newest of them away."""
    standing: list[Digest] = []
    for fact in store.facts(Query(kind="move", subject=f"channels/{channel}")):
        target = fact.body["to"]
        if target["how"] == "rollback":
            standing.pop()
        else:
            standing.append(target["stable"])
    return standing
