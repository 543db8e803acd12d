"""The `rules_kept` gate: no rule or lock is dropped, no number leaves its bounds, and the code is what it was."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import Problem
from seedbed.playbooks.changes import escapes
from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.release.review.panel import Panel


@dataclass(frozen=True, slots=True)
class RulesKept:
    """Nothing that binds the incumbent is dropped or loosened: rules, locks, bounds of numbers, steps. It needs no new
    input. The program is the same and has the same source, and the runs of the verdict call no tool
    that changes the world and was not called before.

    A `panel` may let it pass all the same.
    """

    panel: Panel | None = None

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None
        before, after = request.library.get(request.incumbent), request.library.get(request.candidate)
        wrong = escapes(before, after)
        if before.program == after.program and request.is_code_edited:
            wrong.append(Problem("program", "source edited since the release of the incumbent", "the same source"))
        if unknown := sorted(after.needed_inputs - before.needed_inputs):
            wrong.append(Problem("inputs", f"{', '.join(unknown)}, which callers do not pass", "known inputs"))
        if (new := request.new_tools()) is None:
            wrong.append(Problem("tools", "no runs that show which ones it calls", "known tools"))
        changing = [name for name, changes in (new or {}).items() if changes]
        wrong += [Problem("tools", f"the new tool {name}, which changes the world", "known tools") for name in changing]
        if not wrong:
            return None
        if self.panel and self.panel.objection(request.library, request.channel, request.candidate) is None:
            return None
        actual = "; ".join(f"{problem.path}: {problem.found}" for problem in wrong)
        kinds = {_kind(problem) for problem in wrong}
        expected = [words for words in REMEDIES if words in kinds]
        remedy = " ".join(REMEDIES[words] for words in expected)
        return Refusal("rules_kept", actual, " and ".join(expected), remedy)


rules_kept = RulesKept()

REMEDIES = {
    "every rule of the incumbent": "Put the rules back.",
    "numbers within its bounds": "Bring the numbers back.",
    "its locks": "Lock it again, as it was.",
    "its steps": "Put the steps back.",
    "its inputs": "Remove them, or have it reviewed: the gate takes {unless: reviewed}.",
    "its code": "Compare the two, or have it reviewed: the gate takes {unless: reviewed}.",
}
"""What a candidate must keep, and what to do if it has not."""


def _kind(problem: Problem) -> str:
    """Which of the expected a problem is about."""
    if problem.path.startswith("rules"):
        return "every rule of the incumbent"
    if problem.path.startswith("parameters") and problem.expected in ("a number within its bounds", "its options"):
        return "numbers within its bounds"
    if problem.path in ("steps", "inputs"):
        return f"its {problem.path}"
    return "its code" if problem.path.startswith(("program", "tools", "steps.opens")) else "its locks"
