"""The `schema` gate: the candidate can be read again, and callers can serve it as before."""

from __future__ import annotations

from seedbed.errors import NotFound, PlaybookError
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.storage.store import short


async def schema(request: ReleaseRequest) -> Refusal | None:
    """The stored candidate is a valid playbook with the right digest, and needs no new inputs."""
    expected, store = "a valid playbook", request.library.store
    try:
        playbook = Playbook.from_document(store.get(request.candidate))
    except NotFound:
        remedy = "Keep it: seedbed playbook keep FILE --because REASON"
        return Refusal("schema", f"no playbook {short(request.candidate)} in this store", expected, remedy)
    except PlaybookError as wrong:
        reason = "; ".join(map(str, wrong.problems))
        return Refusal("schema", reason, expected, "Correct it, and save it again.")
    if playbook.digest != request.candidate:
        remedy = "Look for damage: seedbed store verify"
        return Refusal(
            "schema", f"the playbook {short(playbook.digest)} in its place", short(request.candidate), remedy
        )
    if request.incumbent is None:
        return None
    known = request.library.get(request.incumbent).needed_inputs
    if new := sorted(playbook.needed_inputs - known):
        reason = f"inputs that callers do not pass: {', '.join(new)}"
        return Refusal("schema", reason, f"only {', '.join(sorted(known)) or 'none'}", "Remove them.")
    return None
