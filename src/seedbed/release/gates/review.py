"""The `review` gate: people have approved the candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from seedbed.playbooks.changes import diff
from seedbed.release.gates.gate import Change, Refusal
from seedbed.release.review.panel import Panel

Occasion = Literal["always", "rules or roles change"]


@dataclass(frozen=True, slots=True)
class Review:
    """The panel has approved exactly this candidate for exactly this channel, and nobody's refusal stands."""

    when: Occasion = "always"
    panel: Panel = field(default_factory=Panel)

    async def __call__(self, change: Change) -> Refusal | None:
        about = (change.library, change.channel, change.candidate)
        # A no counts also where nobody had to be asked.
        wanted = self._called_for(change) or self.panel.opinion(*about).refusals
        return self.panel.objection(*about) if wanted else None

    def _called_for(self, change: Change) -> bool:
        if self.when == "always" or change.incumbent is None:
            return self.when == "always"
        before, after = change.library.get(change.incumbent), change.library.get(change.candidate)
        return any(each.path.startswith(("rules.", "roles.")) for each in diff(before, after))
