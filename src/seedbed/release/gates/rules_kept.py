"""The `rules_kept` gate: no rule is dropped or loosened, and no number leaves its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seedbed.errors import Problem
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import is_number
from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.release.review.panel import Panel


@dataclass(frozen=True, slots=True)
class RulesKept:
    """No rule of the incumbent is dropped or loosened, and no number leaves the bounds that it has there.

    A `panel` may let it pass all the same.
    """

    panel: Panel | None = None

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None
        before, after = request.library.get(request.incumbent), request.library.get(request.candidate)
        loosened, escaped = before.loosened_by(after), list(beyond_bounds(before, after))
        if not loosened and not escaped:
            return None
        if self.panel and self.panel.objection(request.library, request.channel, request.candidate) is None:
            return None
        actual = "; ".join(f"{problem.path}: {problem.found}" for problem in (*loosened, *escaped))
        expected = ["every rule of the incumbent"] * bool(loosened) + ["numbers within its bounds"] * bool(escaped)
        remedy = ["Put the rules back."] * bool(loosened) + ["Bring the numbers back."] * bool(escaped)
        return Refusal("rules_kept", actual, " and ".join(expected), " ".join(remedy))


rules_kept = RulesKept()


def beyond_bounds(before: Playbook, after: Playbook) -> Iterator[Problem]:
    """Numbers that leave the bounds they had: a change to a playbook may have moved the bounds as well."""
    for name, was in before.parameters.items():
        now = after.parameters.get(name)
        if now is None or not is_number(now.value):
            continue
        below = was.low is not None and now.value < was.low
        above = was.high is not None and now.value > was.high
        if below or above:
            actual = f"{now.value:g}, beyond its bound of {was.low if below else was.high:g}"
            yield Problem(f"parameters.{name}", actual, "a number within its bounds")
