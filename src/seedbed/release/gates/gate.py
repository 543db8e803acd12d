"""Gate: one check between a candidate and a channel. Missing evidence is never a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from seedbed.errors import NotFound, Problem, SettingsError
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.experiments.proof.outputs import read_tool_calls
from seedbed.experiments.sentinel import sentinel
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.program import code_of, is_same_code
from seedbed.storage.store import Digest, Json, Store, short

Refusal = Problem


@dataclass(frozen=True, slots=True)
class InUse:
    """What a workspace uses now: the identities of the models behind a playbook, and of a metric by its name."""

    models: Callable[[Playbook], Json]
    metric: Callable[[str], Json]


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A candidate on its way to a channel: what it would replace, and the verdict it comes with."""

    channel: str
    candidate: Digest
    incumbent: Digest | None
    verdict: Verdict | None
    library: Library
    share: float = 1.0
    """The share of users that would get it."""
    code: str = ""
    """The hash of the source of the incumbent's program when it was released; empty if that is not known."""
    in_use: InUse | None = None
    """None if it is not known."""

    def metric(self, name: str) -> Json | None:
        """The identity that the metric of a name has now; None if nothing is known by that name."""
        try:
            return self.in_use.metric(name) if self.in_use else parse_metric(name).identity
        except SettingsError:
            return None

    @property
    def is_code_edited(self) -> bool:
        """Whether the program, under the same name, is not what the incumbent was released with."""
        return bool(self.code) and not is_same_code(code_of(self.library.get(self.candidate)), self.code)

    def new_tools(self) -> dict[str, bool] | None:
        """The tools that the candidate called for the tasks of its verdict and the incumbent did not, each with whether
        it may change the world. None if there are no runs that show it; a dialogue calls no tools."""
        if self.library.get(self.candidate).program is None:
            return {}
        if self.verdict is None or self.verdict.live:
            return None
        try:
            known, called = read_tool_calls(self.library.store, self.verdict)
        except NotFound:
            return None
        return {name: changes for name, changes in sorted(called.items()) if name not in known}


class Gate(Protocol):
    """Returns None to let a candidate pass, or says what is missing and what to do. It changes nothing."""

    async def __call__(self, request: ReleaseRequest) -> Refusal | None: ...


def compare_command(request: ReleaseRequest) -> str:
    """The command that gives the verdict which a request needs."""
    return f"seedbed compare {short(request.incumbent or '')} {short(request.candidate)} --on DATASET"


def check_verdict(request: ReleaseRequest, gate: str, expected: str) -> Refusal | None:
    """Why the verdict is no evidence for the request: missing, of another pair, forged, or without its experiment."""
    verdict, remedy = request.verdict, f"Run: {compare_command(request)}"
    if verdict is None:
        return Refusal(gate, "no verdict", expected, remedy)
    if (verdict.candidate, verdict.control) != (request.candidate, request.incumbent):
        actual = f"a verdict about {short(verdict.candidate)} against {short(verdict.control)}"
        return Refusal(gate, actual, expected, remedy)
    if not _is_recorded(verdict, request.library.store):
        return Refusal(gate, "a verdict that this store does not hold", expected, remedy)
    try:
        request.library.store.get(verdict.experiment)
    except NotFound:
        actual, again = f"no experiment {short(verdict.experiment)}", "Copy it from the store that has it"
        return Refusal(gate, actual, "the one of the verdict", f"{again}, or compare again here.")
    return None


def check_sentinel(gate: str, store: Store, alpha: float) -> Refusal | None:
    """Why nothing passes: at this error rate, comparisons have called playbooks better than themselves too often."""
    if not (games := sentinel(store, alpha)).alarmed:
        return None
    actual = f"{games.rate.mean:.1%} of {games.rate.n} playbooks called better than themselves"
    remedy = "Find out why before anything is released: seedbed evidence sentinel."
    return Refusal(gate, actual, f"at most {alpha:g}, apart from chance", remedy)


def _is_recorded(verdict: Verdict, store: Store) -> bool:
    try:
        return Verdict.recall(store, verdict.experiment) == verdict
    except NotFound:
        return False
