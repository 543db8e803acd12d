"""Every built-in gate keeps the contract of gates, and so does one of a user's own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from loop_samples import agent
from release_samples import NEW, OLD, PARAMETERS, POOR, RULES, change, compared, kept, scored

from seedbed.experiments.proof.error_budget import BudgetTerms
from seedbed.playbooks.library import Library
from seedbed.release.channels import release
from seedbed.release.gates.better import BetterGate
from seedbed.release.gates.content import ContentGate
from seedbed.release.gates.cooldown import Cooldown
from seedbed.release.gates.error_budget import error_budget
from seedbed.release.gates.gate import Gate, Refusal, ReleaseRequest
from seedbed.release.gates.held_out import held_out
from seedbed.release.gates.max_change import MaxChange
from seedbed.release.gates.not_worse import NotWorse
from seedbed.release.gates.redundant import redundant
from seedbed.release.gates.replay_fidelity import ReplayFidelity
from seedbed.release.gates.review import Review
from seedbed.release.gates.risk import Risk
from seedbed.release.gates.rules_kept import rules_kept
from seedbed.release.gates.schema import schema
from seedbed.release.review.review import approve
from seedbed.testing import GateContract
from seedbed.testing.gate import INCUMBENT, a_change

LAX = agent(".*", rules={**RULES, "never": []}, parameters=PARAMETERS)
ECHO = agent("[0-4]", rules=RULES, parameters={"warmth": {"value": 0.5, "low": 0, "high": 2}})
"""One that dropped a rule, and one that only moved a bound."""


async def proven() -> ReleaseRequest:
    """A change with all the evidence there is."""
    library = kept(LAX, ECHO)
    verdict = await compared(library, channel="production", terms=BudgetTerms())
    await scored(library, "cost_usd")
    approve(replace(library, by="ben"), "production", NEW.digest, because="read it")
    return change(library, verdict)


async def served_lately() -> ReleaseRequest:
    library = kept()
    await release(library, "production", OLD.digest, [], verdict=None, because="first")
    return change(library)


async def unproven() -> ReleaseRequest:
    return change(kept(LAX, ECHO))


async def constant() -> ReleaseRequest:
    library = kept()
    return change(library, await compared(library, NEW, POOR), candidate=POOR.digest, incumbent=NEW.digest)


async def lax() -> ReleaseRequest:
    library = kept(LAX)
    return change(library, await compared(library, OLD, LAX), candidate=LAX.digest)


async def idle() -> ReleaseRequest:
    return change(kept(ECHO), candidate=ECHO.digest)


async def far_off() -> ReleaseRequest:
    far = agent("[0-4]|5|6|7|8|9", rules=RULES, parameters=PARAMETERS)
    return change(kept(far), candidate=far.digest)


async def unknown() -> ReleaseRequest:
    return change(Library(kept().store, "ada"), candidate="b2:" + "0" * 64)


Made = Callable[[], Awaitable[ReleaseRequest]]
GATES: dict[str, tuple[Gate, Made, bool]] = {
    "schema": (schema, unknown, False),
    "better": (BetterGate(), unproven, True),
    "not_worse": (NotWorse({"cost_usd": 0.01}), unproven, True),
    "held_out": (held_out, unproven, False),
    "rules_kept": (rules_kept, lax, False),
    "max_change": (MaxChange(text=5), far_off, False),
    "cooldown": (Cooldown(timedelta(days=7)), served_lately, False),
    "redundant": (redundant, idle, False),
    "content": (ContentGate(), constant, True),
    "risk": (Risk(), lax, True),
    "replay_fidelity": (ReplayFidelity(), unproven, True),
    "error_budget": (error_budget, unproven, True),
    "review": (Review(), unproven, False),
}


@pytest.mark.parametrize("name", GATES)
class TestBuiltIn(GateContract):
    @pytest.fixture
    def gate(self, name: str) -> Gate:
        return GATES[name][0]

    @pytest.fixture
    async def passing(self, name: str) -> ReleaseRequest:
        self.needs_verdict = GATES[name][2]
        return await proven()

    @pytest.fixture
    async def refused(self, name: str) -> ReleaseRequest:
        return await GATES[name][1]()


async def short_enough(change: ReleaseRequest) -> Refusal | None:
    """A user's own: no role's instructions are longer than 80 characters."""
    longest = max(len(role.system) for role in change.library.get(change.candidate).roles.values())
    told = ("short_enough", f"{longest} characters", "at most 80", "Shorten the instructions.")
    return Refusal(*told) if longest > 80 else None


def written(system: str) -> dict[str, Any]:
    return {**INCUMBENT, "roles": {"writer": {"model": "fast", "system": system}}}


class TestOwn(GateContract):
    @pytest.fixture
    def gate(self) -> Gate:
        return short_enough

    @pytest.fixture
    def passing(self) -> ReleaseRequest:
        return a_change(written("Be brief."))

    @pytest.fixture
    def refused(self) -> ReleaseRequest:
        return a_change(written("Be brief. " * 20))


async def forgetful(change: ReleaseRequest) -> Refusal | None:
    """One that passes whoever comes without evidence, says nothing of what to do, and leaves traces."""
    change.library.keep(change.library.get(change.candidate).model_copy(update={"locked": ("roles",)}), because="mine")
    return Refusal("forgetful", "something", "nothing") if change.verdict else None


async def test_a_gate_that_breaks_a_promise_does_not_pass_the_contract() -> None:
    contract, plain = GateContract(), a_change(written("Be brief."))
    contract.needs_verdict = True
    judged = await proven()
    with pytest.raises(AssertionError):
        await contract.test_it_lets_pass_what_it_should(forgetful, judged)
    with pytest.raises(AssertionError, match="a remedy"):
        await contract.test_it_says_what_was_found_what_was_expected_and_what_to_do(forgetful, judged)
    with pytest.raises(AssertionError):
        await contract.test_it_changes_nothing(forgetful, plain, plain)
    with pytest.raises(AssertionError):
        await contract.test_it_never_passes_without_the_verdict_that_it_needs(forgetful, judged)
