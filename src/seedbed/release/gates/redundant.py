"""The `redundant` gate: the candidate differs from what the channel serves in something that matters."""

from __future__ import annotations

import re

from seedbed.playbooks.changes import Change, diff
from seedbed.release.gates.gate import Refusal, ReleaseRequest

_BOUND = re.compile(r"parameters\.[^.]+\.(low|high|options|whole)")


async def redundant(request: ReleaseRequest) -> Refusal | None:
    """The candidate differs from the incumbent in more than white space, locks and bounds."""
    if request.incumbent is None:
        return None
    before, after = request.library.get(request.incumbent), request.library.get(request.candidate)
    changes = diff(before, after)
    if not all(map(_is_idle, changes)):
        return None
    paths = ", ".join(each.path for each in changes)
    actual = f"nothing but white space, locks or bounds in {paths}" if paths else "no difference"
    return Refusal("redundant", actual, "a change that does something", "Keep serving the current playbook.")


def _is_idle(difference: Change) -> bool:
    if difference.path == "locked" or _BOUND.fullmatch(difference.path):
        return True
    before, after = difference.before, difference.after
    return isinstance(before, str) and isinstance(after, str) and before.split() == after.split()
