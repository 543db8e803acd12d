"""space.reviews: requests, what a reviewer looks at, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seedbed.errors import NotFound, Problem
from seedbed.experiments.proof.outputs import read_output_pairs
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.changes import Change, diff
from seedbed.release.channels import stable
from seedbed.release.gates.gate import ReleaseRequest
from seedbed.release.gates.registry import build_gates, build_panel
from seedbed.release.gates.review import Review
from seedbed.release.review import review
from seedbed.release.review.panel import answers
from seedbed.release.review.samples import OutputSample, draw_samples
from seedbed.storage.store import Digest, Fact
from seedbed.workspace.resources import AnyPlaybook, Resources


@dataclass(frozen=True)
class ReviewPage:
    """What a reviewer looks at: what changes, the evidence, what the gates say, and outputs side by side."""

    channel: str
    playbook: Digest
    incumbent: Digest | None
    verdict: Verdict | None
    changes: Sequence[Change]
    refusals: Sequence[Problem]
    samples: Sequence[OutputSample]
    no_samples: str
    """Why there are no samples, if there are none."""
    answers: Sequence[Fact]


class Reviews:
    """The reviews of a workspace."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def queue(self, *, everything: bool = False) -> list[review.ReviewItem]:
        """Candidates whose review was requested, the longest waiting first; by default those not answered."""
        names = self._resources.channel_names()
        panels = {name: build_panel(name, self._resources.protection(name)) for name in names}
        waiting = ("waiting", "expired")
        return [each for each in review.queue(self._resources.library, panels) if everything or each.status in waiting]

    async def show(self, channel: str, playbook: AnyPlaybook, *, samples: int = 5) -> ReviewPage:
        """All that there is to look at before answering. Nothing is stored but the playbook."""
        library, store = self._resources.library, self._resources.store
        digest = self._resources.keep(playbook, "looked at")
        incumbent = stable(store, channel)
        verdict = review.newest_verdict(library, digest, incumbent)
        changes = diff(library.get(incumbent), library.get(digest)) if incumbent else []
        gates = [
            gate for gate in build_gates(channel, self._resources.protection(channel)) if not isinstance(gate, Review)
        ]
        candidate = ReleaseRequest(channel, digest, incumbent, verdict, library)
        refusals = [refusal for gate in gates if (refusal := await gate(candidate))]
        drawn, missing = self._samples(digest, verdict, samples)
        said = answers(library, channel, digest)
        return ReviewPage(channel, digest, incumbent, verdict, changes, refusals, drawn, missing, list(said))

    def _samples(self, digest: Digest, verdict: Verdict | None, count: int) -> tuple[list[OutputSample], str]:
        if verdict is None:
            return [], "none: the two were never compared"
        try:
            drawn = draw_samples(read_output_pairs(self._resources.store, verdict), digest, self._resources.by, count)
        except NotFound as missing:
            return [], str(missing)
        return drawn, "" if drawn or not count else "the same at every task"

    def request(self, channel: str, playbook: AnyPlaybook, *, because: str) -> Fact:
        """Ask for a review. Somebody else has to approve it."""
        self._resources.protection(channel)
        return review.request(
            self._resources.library, channel, self._resources.keep(playbook, because), because=because
        )

    def approve(self, channel: str, playbook: AnyPlaybook, *, because: str) -> Fact:
        """Approve somebody else's playbook for exactly this channel. Raises ReleaseRefused if you may not."""
        return self._answer(review.approve, channel, playbook, because)

    def refuse(self, channel: str, playbook: AnyPlaybook, *, because: str) -> Fact:
        """Refuse a playbook. It holds until you approve it yourself, whatever others say."""
        return self._answer(review.refuse, channel, playbook, because)

    def _answer(self, answer: Callable[..., Fact], channel: str, playbook: AnyPlaybook, because: str) -> Fact:
        jury = build_panel(channel, self._resources.protection(channel))
        digest = self._resources.playbook(playbook).digest
        return answer(self._resources.library, channel, digest, because=because, panel=jury)
