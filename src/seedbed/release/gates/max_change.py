"""The `max_change` gate: how far one release, and all since the last review, may move from the playbook before."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from seedbed.playbooks.changes import excess
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.release.review.panel import Panel, last_reviewed
from seedbed.storage.store import short


@dataclass(frozen=True, slots=True)
class MaxChange:
    """No number moves by more than this share of its range, no text by more than so many characters.

    However small the steps, no gene drifts further than a share `since_last_review` from the newest playbook of the
    channel that the `panel` has reviewed, or from the first release. 1 is a whole range, or every word of a text.
    """

    number: float = math.inf
    text: float = math.inf
    since_last_review: float = math.inf
    panel: Panel = field(default_factory=Panel)

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None
        before, after = request.library.get(request.incumbent), request.library.get(request.candidate)
        too_much = excess(before, after, number=self.number, text=self.text) if self._limits() else []
        if too_much:
            actual = "; ".join(f"{problem.path}: {problem.found}" for problem in too_much)
            allowed = ", ".join(f"{what} by at most {limit:g}" for what, limit in self._limits().items())
            return Refusal("max_change", actual, f"the same genes, {allowed}", "Release it in smaller steps.")
        return self._drift(request) if math.isfinite(self.since_last_review) else None

    def _limits(self) -> dict[str, float]:
        limits = {"numbers": self.number, "texts": self.text}
        return {what: limit for what, limit in limits.items() if math.isfinite(limit)}

    def _drift(self, request: ReleaseRequest) -> Refusal | None:
        library, channel = request.library, request.channel
        reviewed = last_reviewed(library, channel, self.panel)
        if reviewed is None or self.panel.objection(library, channel, request.candidate) is None:
            return None
        moved = drift(library.get(reviewed), library.get(request.candidate))
        far = {path: size for path, size in moved.items() if size > self.since_last_review + 1e-9}
        if not far:
            return None
        drifted = "; ".join(f"{path}: {size:.0%} away from {short(reviewed)}" for path, size in sorted(far.items()))
        expected = f"at most {self.since_last_review:.0%} since what was reviewed last"
        command = f"seedbed review request {channel} {short(request.candidate)} --because REASON"
        return Refusal("max_change", drifted, expected, f"Have it reviewed: {command}")


def drift(before: Playbook, after: Playbook) -> dict[str, float]:
    """How far each gene has moved, from 0 to 1. A gene that is new, gone or of another kind has moved by 1."""
    old, new = genes(before), genes(after)
    moved = {}
    for path in old.keys() | new.keys():
        was, is_now = old.get(path), new.get(path)
        alike = was is not None and is_now is not None and was.kind == is_now.kind
        moved[path] = was.distance(is_now.value) if was and is_now and alike else 1.0
    return moved
