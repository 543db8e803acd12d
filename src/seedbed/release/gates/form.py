"""The form of a candidate: that it can be read again and served as before (`schema`), and says something new
(`redundant`)."""

from __future__ import annotations

import re

from seedbed.errors import NotFound, PlaybookError
from seedbed.playbooks.changes import Change as Difference
from seedbed.playbooks.changes import diff
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import Change, Refusal
from seedbed.storage.store import short

_BOUND = re.compile(r"parameters\.[^.]+\.(low|high|options|whole)")


async def schema(change: Change) -> Refusal | None:
    """The candidate reads as a valid playbook with the digest it is asked for by, and needs no input that is new."""
    expected, store = "a valid playbook", change.library.store
    try:
        found = Playbook.from_document(store.get(change.candidate))
    except NotFound:
        remedy = "Keep it: seedbed playbook keep FILE --because REASON"
        return Refusal("schema", f"no playbook {short(change.candidate)} in this store", expected, remedy)
    except PlaybookError as wrong:
        told = "; ".join(map(str, wrong.problems))
        return Refusal("schema", told, expected, "Correct it, and keep it anew.")
    if found.digest != change.candidate:
        remedy = "Look for damage: seedbed store verify"
        return Refusal("schema", f"the playbook {short(found.digest)} in its place", short(change.candidate), remedy)
    if change.incumbent is None:
        return None
    known = change.library.get(change.incumbent).needed_inputs
    if new := sorted(found.needed_inputs - known):
        told = f"inputs that callers do not give: {', '.join(new)}"
        return Refusal("schema", told, f"no others than {', '.join(sorted(known)) or 'none'}", "Take them out.")
    return None


async def redundant(change: Change) -> Refusal | None:
    """The candidate differs from the incumbent in more than white space, locks and bounds."""
    if change.incumbent is None:
        return None
    before, after = change.library.get(change.incumbent), change.library.get(change.candidate)
    changes = diff(before, after)
    if not all(map(_is_idle, changes)):
        return None
    told = ", ".join(each.path for each in changes)
    found = f"nothing but white space, locks or bounds in {told}" if told else "no difference"
    return Refusal("redundant", found, "a change that does something", "Leave what is served as it is.")


def _is_idle(difference: Difference) -> bool:
    if difference.path == "locked" or _BOUND.fullmatch(difference.path):
        return True
    before, after = difference.before, difference.after
    return isinstance(before, str) and isinstance(after, str) and before.split() == after.split()


__all__ = ["redundant", "schema"]
