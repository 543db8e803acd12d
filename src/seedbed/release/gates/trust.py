"""Whether a verdict can be trusted: how far its replays come out as live runs did (`replay_fidelity`), and whether it
was paid from the error budget of its channel (`error_budget`)."""

from __future__ import annotations

from dataclasses import dataclass

from seedbed.errors import SeedbedError
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.held_out import known_tasks
from seedbed.experiments.replay.coverage import differences, recorded_coverage
from seedbed.experiments.replay.replay import is_replayed
from seedbed.experiments.sentinel import sentinel
from seedbed.release.gates.gate import Change, Refusal, compare_command, stray
from seedbed.storage.store import Query


@dataclass(frozen=True, slots=True)
class ReplayFidelity:
    """Of past runs that were replayed for a verdict, enough came out as they had: `at_least` this share, at the lower
    end of its interval. A verdict about live runs needs none of it."""

    at_least: float = 0.9

    async def __call__(self, change: Change) -> Refusal | None:
        if change.incumbent is None:
            return None
        expected = f"replays of which {self.at_least:.0%} come out as the runs did, at the lower end of the interval"
        if refusal := stray(change, "replay_fidelity", "a verdict that says how far its replays agree"):
            return refusal
        verdict, store = change.verdict, change.library.store
        assert verdict
        plan = Experiment.from_content(store.get(verdict.experiment))
        if not any(map(is_replayed, plan.models.values())):
            return None
        live = "Compare live: " + compare_command(change)
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
        found = f"{rate.mean:.0%} [{rate.low:.0%}, {rate.high:.0%}] of {rate.n}"
        return Refusal("replay_fidelity", found, expected, f"Replay more runs. {live}")


async def error_budget(change: Change) -> Refusal | None:
    """The verdict was paid from the error budget of exactly this channel, and no sentinel is alarmed."""
    if change.incumbent is None:
        return None
    expected = f"a verdict that was paid from the error budget of {change.channel}"
    remedy = f"Run: {compare_command(change)} --for {change.channel}"
    if refusal := stray(change, "error_budget", expected):
        return Refusal(refusal.path, refusal.found, refusal.expected, remedy)
    verdict, store = change.verdict, change.library.store
    assert verdict
    plan = Experiment.from_content(store.get(verdict.experiment))
    if plan.channel != change.channel:
        found = f"one for {plan.channel}" if plan.channel else "one that nobody paid for"
        return Refusal("error_budget", found, expected, remedy)
    places = store.facts(Query(kind="reservation", subject=change.channel))
    if not any(_is_place(fact.body, verdict.experiment, verdict.candidate, verdict.alpha) for fact in places):
        return Refusal("error_budget", "one without a place in line", expected, remedy)
    for alpha in sorted({float(fact.body["alpha"]) for fact in store.facts(Query(kind="sentinel"))}):
        if (games := sentinel(store, alpha)).alarmed:
            found = f"{games.rate.mean:.1%} of {games.rate.n} playbooks called better than themselves"
            remedy = "Find out why before anything is released: seedbed evidence sentinel."
            return Refusal("error_budget", found, f"at most {alpha:g}, but for chance", remedy)
    return None


def _is_place(told: dict[str, object], experiment: str, candidate: str, alpha: float) -> bool:
    return (told["experiment"], told["candidate"], told["alpha"]) == (experiment, candidate, alpha)


__all__ = ["ReplayFidelity", "error_budget"]
