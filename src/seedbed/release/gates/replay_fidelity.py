"""The `replay_fidelity` gate: replays behind a verdict come out as the live runs did."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import SeedbedError
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.proof.held_out import known_tasks
from seedbed.experiments.replay.coverage import differences, recorded_coverage
from seedbed.experiments.replay.replay import is_replayed
from seedbed.release.gates.gate import Refusal, ReleaseRequest, check_verdict, compare_command


@dataclass(frozen=True, slots=True)
class ReplayFidelity:
    """Enough of the replayed runs behind a verdict came out as the originals: `at_least` this share, at the lower end
    of its interval. A verdict about live runs needs no such proof."""

    at_least: float = 0.9

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        if request.incumbent is None:
            return None
        expected = f"replays of which {self.at_least:.0%} come out as the runs did, at the lower end of the interval"
        if refusal := check_verdict(request, "replay_fidelity", "a verdict that says how far its replays agree"):
            return refusal
        verdict, store = request.verdict, request.library.store
        assert verdict
        plan = Experiment.from_content(store.get(verdict.experiment))
        if not any(map(is_replayed, plan.models.values())):
            return None
        live = "Compare live: " + compare_command(request)
        try:
            measured = recorded_coverage(store, verdict.replay)
            wrong = list(differences(verdict.replay, measured, known_tasks(store, plan.dataset)))
        except (SeedbedError, LookupError, TypeError, AttributeError):
            return Refusal("replay_fidelity", "no measured agreement", expected, live)
        if wrong:
            return Refusal("replay_fidelity", str(wrong[0]), "what follows from the replays", live)
        rate = measured.agreement.rate
        if rate.low >= self.at_least:
            return None
        actual = f"{rate.mean:.0%} [{rate.low:.0%}, {rate.high:.0%}] of {rate.n}"
        return Refusal("replay_fidelity", actual, expected, f"Replay more runs. {live}")
