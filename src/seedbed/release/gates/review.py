"""The `review` gate: people have approved the candidate."""

from __future__ import annotations

from dataclasses import dataclass, field

from seedbed.playbooks.changes import diff
from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.release.review.panel import Panel
from seedbed.settings.gates import Occasion

CALL_FOR_IT = {"rules", "roles", "steps", "locked", "program"}
"""The parts of a playbook of which a change calls for a review; so do edited code, and new or unknown tools."""


@dataclass(frozen=True, slots=True)
class Review:
    """The panel has approved exactly this candidate for exactly this channel, and nobody's refusal stands."""

    when: Occasion = "always"
    panel: Panel = field(default_factory=Panel)

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        about = (request.library, request.channel, request.candidate)
        # A refusal counts even if no review was required.
        wanted = self._called_for(request) or self.panel.opinion(*about).refusals
        return self.panel.objection(*about) if wanted else None

    def _called_for(self, request: ReleaseRequest) -> bool:
        if self.when == "always" or request.incumbent is None:
            return self.when == "always"
        before, after = request.library.get(request.incumbent), request.library.get(request.candidate)
        changed = {each.path.partition(".")[0] for each in diff(before, after)}
        return bool(changed & CALL_FOR_IT) or request.is_code_edited or request.new_tools() != {}
