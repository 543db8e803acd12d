"""The `risk` gate: what the candidate can do that the incumbent could not, and how many users would notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from seedbed.errors import NotFound, shown
from seedbed.experiments.proof.outputs import read_output_pairs
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_verdict
from seedbed.release.review.panel import Panel
from seedbed.stats.estimates import Interval, exact_rate
from seedbed.storage.store import short


@dataclass(frozen=True, slots=True)
class Impact:
    """The effect of a release on users: new hazards by kind, and the share of requests answered differently."""

    hazards: tuple[tuple[str, str], ...]
    affected: Interval


def impact(request: ReleaseRequest) -> Impact:
    """The impact, estimated from the runs behind the verdict. Raises NotFound if they are gone."""
    library = request.library
    assert request.incumbent
    assert request.verdict
    before, after = library.get(request.incumbent), library.get(request.candidate)
    output_pairs = read_output_pairs(library.store, request.verdict)
    if not output_pairs:
        raise NotFound("no task at which both were scored")
    tools = [
        ("tools", f"the new tool {name}{', which changes the world' if changes else ''}")
        for name, changes in (request.new_tools() or {}).items()
    ]
    hazards = (*tools, *_new_abilities(before, after))
    rate = exact_rate(sum(pair.differs for pair in output_pairs), len(output_pairs))
    share = request.share
    return Impact(hazards, Interval(rate.mean * share, rate.low * share, rate.high * share, rate.confidence, rate.n))


def _new_abilities(before: Playbook, after: Playbook) -> Iterator[tuple[str, str]]:
    """What the playbook itself allows that it did not before: models, autonomy, code."""
    for name in sorted(_models_of(after) - _models_of(before)):
        yield "models", f"the new model {name}"
    for problem in before.loosened_by(after):
        yield "autonomy", f"{problem.path}: {problem.found}"
    gone = {step.name for step in before.all_steps()} - {step.name for step in after.all_steps()}
    if before.steps and gone:
        yield "autonomy", f"no step {', '.join(sorted(gone))} any more"
    was, now = _reach(before), _reach(after)
    if now > was:
        yield "autonomy", f"up to {now} dialogues of its own, where it had {was}"
    if gone_locks := sorted({*before.locked} - {*after.locked}):
        yield "autonomy", f"{', '.join(gone_locks)} no longer locked"
    if before.program != after.program:
        yield "code", f"the program {shown(after.program)}, where it was {shown(before.program)}"


def _models_of(playbook: Playbook) -> set[str]:
    """The models that a playbook names."""
    roles = playbook.roles.values()
    named = {each.model for each in roles} | {each.prefer for each in roles}
    return {name for name in named | {step.prefer for step in playbook.all_steps()} if name}


def _reach(playbook: Playbook) -> int:
    """How many dialogues a run may open at most."""
    opens = [step.opens for step in playbook.all_steps() if step.opens]
    return sum(sum(each.at_most**level for level in range(1, each.depth + 1)) for each in opens)


@dataclass(frozen=True, slots=True)
class Risk:
    """The candidate has no new tools, models, code or autonomy except kinds in `allow`, and it answers at most a share
    `impact` of all requests differently, at the upper end of the interval.

    Otherwise the `panel` may still let it pass.
    """

    impact: float = 1.0
    allow: tuple[str, ...] = ()
    panel: Panel = field(default_factory=Panel)

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None
        if refusal := check_verdict(request, "risk", "a verdict whose runs show what it does"):
            return refusal
        try:
            measured = impact(request)
        except NotFound as missing:
            remedy = "Copy it from the store that has it, or compare again here."
            return Refusal("risk", str(missing), "the runs behind the verdict", remedy)
        reasons = [text for kind, text in measured.hazards if kind not in self.allow]
        reach = measured.affected
        if self.impact < 1 and not reach.high <= self.impact:
            reasons.append(f"{reach.mean:.0%} of requests answered differently, perhaps {reach.high:.0%}")
        if not reasons or self.panel.objection(request.library, request.channel, request.candidate) is None:
            return None
        expected = "nothing new" if self.impact >= 1 else f"nothing new, and at most {self.impact:.0%} affected"
        command = f"seedbed review request {request.channel} {short(request.candidate)} --because REASON"
        return Refusal("risk", "; ".join(reasons), expected, f"Have it reviewed: {command}")
