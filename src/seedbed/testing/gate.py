"""The contract of a gate. To test yours, inherit GateContract and add three fixtures:

class TestMyGate(GateContract):
    @pytest.fixture
    def gate(self): return my_gate
    @pytest.fixture
    def passing(self): return a_change(...)
    @pytest.fixture
    def refused(self): return a_change(...)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seedbed.errors import Problem
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.gate import Gate, ReleaseRequest
from seedbed.storage.memory import MemoryStore
from seedbed.testing.store import everything

INCUMBENT: dict[str, Any] = {
    "roles": {"writer": {"model": "fast", "system": "Answer in one line."}},
    "parameters": {"caution": {"value": 0.5, "low": 0, "high": 1}},
    "rules": {"never": ["send_money"], "confirm": ["delete_message"]},
}


def a_change(candidate: dict[str, Any], incumbent: dict[str, Any] | None = None, **more: Any) -> ReleaseRequest:
    """A change from INCUMBENT, or another document, to the candidate, in a new store and without a verdict."""
    library = Library(MemoryStore(), "ann")
    before = library.keep(Playbook.from_document(incumbent or INCUMBENT), because="start")
    after = library.keep(Playbook.from_document(candidate), because="try", parents=[before])
    request = ReleaseRequest(channel="production", candidate=after, incumbent=before, verdict=None, library=library)
    return replace(request, **more)


class GateContract:
    """The promises of a gate, one test each."""

    needs_verdict = False
    """Whether it judges a verdict: then only a first release passes without one."""

    @pytest.fixture
    def gate(self) -> Gate:
        raise NotImplementedError("add a fixture called gate to the class that inherits GateContract")

    @pytest.fixture
    def passing(self) -> ReleaseRequest:
        raise NotImplementedError("add a fixture called passing: a change that the gate lets pass")

    @pytest.fixture
    def refused(self) -> ReleaseRequest:
        raise NotImplementedError("add a fixture called refused: a change that the gate refuses")

    async def test_it_lets_pass_what_it_should(self, gate: Gate, passing: ReleaseRequest) -> None:
        assert await gate(passing) is None

    async def test_it_says_what_was_found_what_was_expected_and_what_to_do(
        self, gate: Gate, refused: ReleaseRequest
    ) -> None:
        refusal = await gate(refused)
        assert isinstance(refusal, Problem)
        for part in (refusal.path, refusal.found, refusal.expected, refusal.remedy):
            assert part.strip() == part
            assert part, f"found {refusal}; expected a path, what was found and expected, and a remedy"

    async def test_it_says_the_same_when_it_is_asked_again(
        self, gate: Gate, passing: ReleaseRequest, refused: ReleaseRequest
    ) -> None:
        first = await gate(refused)
        assert await gate(passing) is None
        assert await gate(refused) == first

    async def test_it_changes_nothing(self, gate: Gate, passing: ReleaseRequest, refused: ReleaseRequest) -> None:
        for request in (passing, refused):
            store: Any = request.library.store
            before = everything(store)
            await gate(request)
            assert everything(store) == before

    async def test_it_has_an_answer_for_a_first_release(
        self, gate: Gate, passing: ReleaseRequest, refused: ReleaseRequest
    ) -> None:
        for request in (passing, refused):
            answer = await gate(replace(request, incumbent=None, verdict=None))
            assert answer is None or isinstance(answer, Problem)

    async def test_it_never_passes_without_the_verdict_that_it_needs(self, gate: Gate, passing: ReleaseRequest) -> None:
        if self.needs_verdict:
            assert isinstance(await gate(replace(passing, verdict=None)), Problem)

    async def test_it_never_passes_with_a_verdict_about_others(self, gate: Gate, passing: ReleaseRequest) -> None:
        if self.needs_verdict and passing.verdict and passing.incumbent:
            turned = replace(passing, candidate=passing.incumbent, incumbent=passing.candidate)
            assert isinstance(await gate(turned), Problem)
