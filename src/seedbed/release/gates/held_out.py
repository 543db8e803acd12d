"""The `held_out` gate: the verdict comes from tasks that the candidate was not evolved on."""

from __future__ import annotations

from seedbed.errors import NotFound
from seedbed.experiments.proof.held_out import known_tasks, seen_before
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_verdict


async def held_out(request: ReleaseRequest) -> Refusal | None:
    """The verdict has no task on which the candidate or an ancestor was selected, or which its demos show."""
    if request.incumbent is None:
        return None
    if request.verdict is None:
        return Refusal("held_out", "no verdict", "one on tasks that were not evolved on", "Compare on held-out tasks.")
    if request.verdict.live:  # the evidence comes from users, not from tasks that it could have been evolved on
        return check_verdict(request, "held_out", "a live verdict about exactly these two")
    library = request.library
    try:
        judged = known_tasks(library.store, request.verdict.dataset)
        shared = seen_before(library, library.get(request.candidate), judged)
    except NotFound as missing:
        remedy = "Copy it from the store that has it, or compare again here."
        return Refusal("held_out", str(missing), "every dataset it was evolved or judged on", remedy)
    if shared:
        actual = f"{len(shared)} of {len(judged)} tasks that were evolved on"
        return Refusal("held_out", actual, "tasks that were not evolved on", "Compare on held-out tasks.")
    return None
